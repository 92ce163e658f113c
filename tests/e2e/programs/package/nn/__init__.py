"""Layers."""

from .. import Tensor, _C


class Module:
    def __call__(self, value):
        return self.forward(value)


class Linear(Module):
    def forward(self, value):
        _C.torch_op(0)
        _C.torch_op(1)
        return Tensor(value.kernels + 2)


class LayerNorm(Module):
    def forward(self, value):
        _C.torch_op(2)
        return Tensor(value.kernels + 1)


class Embedding(Module):
    def forward(self, value):
        _C.torch_op(10)
        return Tensor(value.kernels + 1)


class Sequential(Module):
    def __init__(self, *layers):
        self.layers = layers

    def forward(self, value):
        for layer in self.layers:
            value = layer(value)
        return value
