"""PyTorch Lightning: marks epochs, steps and validation in a running gpuwhy trace.

    trainer = Trainer(callbacks=[GpuwhyAnnotations()])

Every rank marks its own; the ranks of a node share its trace.
"""

from gpuwhy_annotate import epoch, span, step

try:
    from lightning.pytorch.callbacks import Callback
except ImportError:
    from pytorch_lightning.callbacks import Callback


class GpuwhyAnnotations(Callback):
    def __init__(self):
        super().__init__()
        self._epoch = self._step = self._validation = None

    def on_train_epoch_start(self, trainer, pl_module):
        self._epoch = epoch(trainer.current_epoch)

    def on_train_epoch_end(self, trainer, pl_module):
        self._epoch = _ended(self._epoch)

    def on_train_batch_start(self, trainer, pl_module, batch, batch_idx):
        # `global_step` counts optimiser steps: with accumulated gradients several batches have the same.
        self._step = step(trainer.global_step, epoch=trainer.current_epoch, batch=batch_idx)

    def on_train_batch_end(self, trainer, pl_module, outputs, batch, batch_idx):
        self._step = _ended(self._step)

    def on_validation_start(self, trainer, pl_module):
        self._validation = span("validation", trainer.current_epoch)

    def on_validation_end(self, trainer, pl_module):
        self._validation = _ended(self._validation)

    def on_exception(self, trainer, pl_module, exception):
        self._step, self._epoch = _ended(self._step), _ended(self._epoch)
        self._validation = _ended(self._validation)


def _ended(mark):
    if mark is not None:
        mark.end()
    return None
