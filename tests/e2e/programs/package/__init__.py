"""A stand-in for PyTorch on the simulated GPU: layers, a backward pass in a thread of its own, an optimizer. In a folder called
site-packages its files count as a library."""

import ctypes
import os

_C = ctypes.CDLL(os.path.join(os.path.dirname(os.path.abspath(__file__)), "libtorch_cuda.so"))
_C.torch_start.argtypes = [ctypes.c_uint64, ctypes.c_uint64]
_C.torch_op.argtypes = [ctypes.c_int]
_C.torch_backward.argtypes = [ctypes.c_int]
_C.torch_item.restype = ctypes.c_float
_C.torch_to_device.argtypes = [ctypes.c_char_p, ctypes.c_size_t]
_C.torch_to_device_async.argtypes = [ctypes.c_char_p, ctypes.c_size_t]
_C.torch_to_host.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
_C.torch_alloc.argtypes = [ctypes.c_size_t]
_C.torch_alloc.restype = ctypes.c_void_p
_C.torch_free.argtypes = [ctypes.c_void_p]
_C.torch_compute.argtypes = [ctypes.c_uint64]


class Tensor:
    def __init__(self, kernels=0):
        self.kernels = kernels

    def item(self):
        return _C.torch_item()

    def backward(self):
        _C.torch_backward(self.kernels * 2)


def synchronize():
    _C.torch_synchronize()


def start(kernel_us=4, dispatch_us=15):
    _C.torch_start(kernel_us, dispatch_us)
