"""The examples with stand-ins for what the frameworks give them: which marks are made, in which order."""

import asyncio
import importlib
import json
import os
import socket
import sys
import tempfile
import types
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, ".."), os.path.join(HERE, "..", "..", "python")]


def module(name, **members):
    made = types.ModuleType(name)
    made.__dict__.update(members)
    sys.modules[name] = made
    return made


class Case(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        path = os.path.join(folder.name, "a.sock")
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(path)
        self.listener.listen(1)
        self.listener.settimeout(10)
        self.addCleanup(self.listener.close)
        os.environ["GPUWHY_ANNOTATE"] = path
        import gpuwhy_annotate

        self.annotate = importlib.reload(gpuwhy_annotate)
        self.addCleanup(lambda: self.annotate._sender.close())

    def said(self):
        """What was sent so far, in short."""
        self.annotate._sender.close()
        connection, _ = self.listener.accept()
        with connection, connection.makefile() as file:
            lines = [json.loads(line) for line in file]
        return [" ".join([line["do"]] + [f"{k}={v}" for k, v in line["labels"].items()]) for line in lines]

    def test_lightning_marks_epochs_steps_and_validation(self):
        class Callback:
            pass

        module("lightning")
        module("lightning.pytorch")
        module("lightning.pytorch.callbacks", Callback=Callback)
        import lightning_callback

        example = importlib.reload(lightning_callback).GpuwhyAnnotations()
        self.assertIsInstance(example, Callback)
        trainer = types.SimpleNamespace(current_epoch=2, global_step=140)
        example.on_train_epoch_start(trainer, None)
        for batch in range(2):
            example.on_train_batch_start(trainer, None, None, batch)
            trainer.global_step += 1
            example.on_train_batch_end(trainer, None, None, None, batch)
        example.on_validation_start(trainer, None)
        example.on_validation_end(trainer, None)
        example.on_train_epoch_end(trainer, None)
        example.on_exception(trainer, None, None)
        self.assertEqual(
            self.said(),
            [
                "next epoch=2",
                "next step=140 epoch=2 batch=0",
                "end step=140",
                "next step=141 epoch=2 batch=1",
                "end step=141",
                "begin validation=2",
                "end validation=2",
                "end epoch=2",
            ],
        )

    def test_ray_marks_the_steps_of_a_worker(self):
        reports = []
        context = types.SimpleNamespace(get_world_rank=lambda: 3)

        class Trainer:
            def __init__(self, loop, train_loop_config, scaling_config):
                self.run = lambda: loop(train_loop_config)

            def fit(self):
                self.run()
                return reports

        train = module("ray.train", get_context=lambda: context, report=reports.append, ScalingConfig=dict)
        module("ray", train=train)
        module(
            "ray.train.torch", TorchTrainer=Trainer, prepare_model=lambda m: m, prepare_data_loader=lambda loader: loader
        )
        import ray_train

        example = importlib.reload(ray_train)
        config = {
            "make_model": lambda: None,
            "make_loader": lambda: [1, 2],
            "train_step": lambda model, batch: 0.5,
            "epochs": 2,
        }
        self.assertEqual(len(example.main(config, workers=1)), 2)
        self.assertEqual(
            self.said(),
            [
                "next epoch=0 rank=3",
                "next step=0 rank=3",
                "end step=0",
                "next step=1 rank=3",
                "end step=1",
                "end epoch=0",
                "next epoch=1 rank=3",
                "next step=2 rank=3",
                "end step=2",
                "next step=3 rank=3",
                "end step=3",
                "end epoch=1",
            ],
        )

    def test_vllm_marks_requests_and_their_first_token(self):
        import vllm_middleware

        async def app(scope, receive, send):
            await send({"type": "http.response.start", "status": 200})
            for body in (b"", b"first", b"second"):
                await send({"type": "http.response.body", "body": body, "more_body": True})
            if scope["path"] == "/generate":
                raise ConnectionError("the client went away")

        sent = []

        async def send(message):
            sent.append(message["type"])

        def ask(path, **more):
            scope = {"type": "http", "path": path, "headers": [], **more}
            asyncio.run(example(scope, None, send))

        example = importlib.reload(vllm_middleware).AnnotateRequests(app)
        ask("/v1/completions", headers=[(b"X-Request-Id", b"abc")])
        ask("/metrics")
        with self.assertRaises(ConnectionError):
            ask("/generate")
        self.assertEqual(len(sent), 12)
        self.assertEqual(
            self.said(),
            [
                "begin request=abc path=/v1/completions",
                "begin first_token=abc",
                "end first_token=abc",
                "end request=abc",
                "begin request=1 path=/generate",
                "begin first_token=1",
                "end first_token=1",
                "end request=1",
            ],
        )


if __name__ == "__main__":
    unittest.main()
