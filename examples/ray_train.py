"""Ray Train: the steps of every worker in a running gpuwhy trace.

    gpuwhy trace --annotate        on each node, as root: workers find it at /run/gpuwhy/annotate.sock
    python ray_train.py

Workers are processes of their own, on any node: each marks its steps in the trace of the node it is on.
"""

import ray.train
from gpuwhy_annotate import epoch, step
from ray.train import ScalingConfig
from ray.train.torch import TorchTrainer, prepare_data_loader, prepare_model


def train_loop(config):
    rank = ray.train.get_context().get_world_rank()
    model = prepare_model(config["make_model"]())
    loader = prepare_data_loader(config["make_loader"]())
    number = 0
    for round_number in range(config["epochs"]):
        with epoch(round_number, rank=rank):
            for batch in loader:
                with step(number, rank=rank):
                    loss = config["train_step"](model, batch)
                number += 1
        ray.train.report({"loss": float(loss), "epoch": round_number})


def main(config, workers):
    trainer = TorchTrainer(
        train_loop, train_loop_config=config, scaling_config=ScalingConfig(num_workers=workers, use_gpu=True)
    )
    return trainer.fit()


if __name__ == "__main__":
    import torch

    def train_step(model, batch):
        loss = model(batch[0]).pow(2).mean()
        loss.backward()
        return loss

    def make_loader():
        return torch.utils.data.DataLoader(torch.utils.data.TensorDataset(torch.randn(4096, 256)), batch_size=64)

    make_model = lambda: torch.nn.Linear(256, 256)
    main({"make_model": make_model, "make_loader": make_loader, "train_step": train_step, "epochs": 2}, workers=2)
