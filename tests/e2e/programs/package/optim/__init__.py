"""Optimizers."""

from .. import _C


class AdamW:
    def __init__(self, count):
        self.count = count

    def step(self):
        for _ in range(self.count):
            _C.torch_op(9)
