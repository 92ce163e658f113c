"""The module against a socket of the test's own: what is sent, and that nothing ever goes wrong for the caller."""

import contextlib
import importlib
import json
import os
import shutil
import socket
import sys
import tempfile
import threading
import time
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import gpuwhy_annotate


class Listener:
    """A socket that takes lines."""

    def __init__(self, path):
        self.listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.listener.bind(path)
        self.listener.listen(8)
        self.listener.settimeout(10)

    def lines(self, count):
        connection, _ = self.listener.accept()
        connection.settimeout(10)
        with connection, connection.makefile("rb") as file:
            return [json.loads(file.readline()) for _ in range(count)]

    def close(self):
        self.listener.close()


class Case(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp()
        self.path = os.path.join(self.folder, "a.sock")
        self.environment = dict(os.environ)
        os.environ["GPUWHY_ANNOTATE"] = self.path
        importlib.reload(gpuwhy_annotate)

    def tearDown(self):
        with gpuwhy_annotate._sender.lock:
            gpuwhy_annotate._sender.close()
        os.environ.clear()
        os.environ.update(self.environment)
        shutil.rmtree(self.folder)

    def listener(self):
        listener = Listener(self.path)
        self.addCleanup(listener.close)
        return listener

    def test_a_block_is_a_span(self):
        listener = self.listener()
        before = time.monotonic_ns()
        with gpuwhy_annotate.step(140, lr=0.5):
            gpuwhy_annotate.label("phase", "forward")
        begin, moment, end = listener.lines(3)
        self.assertEqual((begin["do"], begin["labels"]), ("next", {"step": 140, "lr": "0.5"}))
        self.assertEqual(list(begin["labels"])[0], "step")
        self.assertEqual((moment["do"], moment["labels"]), ("at", {"phase": "forward"}))
        self.assertEqual((end["do"], end["labels"]), ("end", {"step": 140}))
        self.assertTrue(before <= begin["monotonic_ns"] <= end["monotonic_ns"] <= time.monotonic_ns())
        self.assertNotIn("pid", begin, "the kernel says whose it is")

    def test_an_exception_passes_through_and_ends_the_span(self):
        listener = self.listener()
        with self.assertRaises(KeyError):
            with gpuwhy_annotate.request("r-1"):
                raise KeyError("the program's own")
        self.assertEqual([line["do"] for line in listener.lines(2)], ["begin", "end"])

    def test_without_blocks_there_are_functions(self):
        listener = self.listener()
        gpuwhy_annotate.epoch(3)
        gpuwhy_annotate.begin("batch", 7, rank=1)
        gpuwhy_annotate.end("batch", 7)
        span = gpuwhy_annotate.span("phase", "prefill")
        span.end()
        span.end()
        said = [(line["do"], line["labels"]) for line in listener.lines(5)]
        self.assertEqual(
            said,
            [
                ("next", {"epoch": 3}),
                ("begin", {"batch": 7, "rank": 1}),
                ("end", {"batch": 7}),
                ("begin", {"phase": "prefill"}),
                ("end", {"phase": "prefill"}),
            ],
        )

    def test_without_a_trace_nothing_happens_and_one_that_comes_is_found(self):
        for _ in range(100):
            with gpuwhy_annotate.step(1):
                pass
        self.assertEqual(gpuwhy_annotate.dropped(), 0)
        listener = self.listener()
        gpuwhy_annotate._sender.looked = None  # As if the pause were over.
        gpuwhy_annotate.step(2)
        self.assertEqual(listener.lines(1)[0]["labels"], {"step": 2})

    def test_off_is_off(self):
        os.environ["GPUWHY_ANNOTATE"] = "off"
        gpuwhy_annotate.step(1)
        self.assertIsNone(gpuwhy_annotate._sender.socket)

    def test_a_trace_that_ends_is_no_trouble(self):
        listener = self.listener()
        gpuwhy_annotate.step(1)
        listener.lines(1)
        listener.close()
        for n in range(10):
            gpuwhy_annotate.step(n)
        self.assertIsNone(gpuwhy_annotate._sender.socket)

    def test_a_trace_that_does_not_read_never_makes_the_program_wait(self):
        self.listener()
        # If it waited, this would not end.
        for n in range(50_000):
            gpuwhy_annotate.label("step", n, text="x" * 100)
        self.assertGreater(gpuwhy_annotate.dropped(), 0)
        self.assertLessEqual(len(gpuwhy_annotate._sender.waiting), gpuwhy_annotate._MOST_WAITING)

    def test_lines_are_whole_although_the_reader_is_slow(self):
        listener = self.listener()
        count = 2000
        got = []
        for n in range(count):
            gpuwhy_annotate.label("step", n, text="x" * 50)
        reader = threading.Thread(target=lambda: got.extend(listener.lines(count)))
        reader.start()
        # What waits goes with later marks.
        while reader.is_alive() and len(got) < count:
            gpuwhy_annotate.label("more")
            time.sleep(0.001)
        reader.join(10)
        self.assertEqual([line["labels"]["step"] for line in got if "step" in line["labels"]], list(range(count)))

    def test_odd_values_are_sent_tamely(self):
        listener = self.listener()

        class Odd:
            def __str__(self):
                raise RuntimeError("no text")

        gpuwhy_annotate.label("odd", Odd())
        gpuwhy_annotate.label("text", "a\nb\x1b[31m" + "é" * 500)
        gpuwhy_annotate.label("lone", "\ud800")
        gpuwhy_annotate.label("number", float("nan"))
        gpuwhy_annotate.label("big", 2**80)
        gpuwhy_annotate.label("truth", True)
        gpuwhy_annotate.label("none", None)
        lines = [line["labels"] for line in listener.lines(6)]
        self.assertTrue(lines[0]["text"].startswith("a?b?[31mé"))
        self.assertLessEqual(len(lines[0]["text"].encode()), 256)
        self.assertEqual(lines[2:], [{"number": "nan"}, {"big": str(2**80)}, {"truth": "True"}, {"none": "None"}])

    def test_a_forked_child_speaks_for_itself(self):
        listener = self.listener()
        gpuwhy_annotate.step(1)
        first, _ = listener.listener.accept()
        child = os.fork()
        if child == 0:
            with contextlib.suppress(BaseException):
                gpuwhy_annotate.step(2)
            os._exit(0)
        os.waitpid(child, 0)
        self.assertEqual(listener.lines(1)[0]["labels"], {"step": 2}, "by a connection of its own")
        first.settimeout(0.1)
        self.assertEqual(first.recv(4096).count(b"\n"), 1, "and not by its parent's")
        first.close()

    def test_threads_do_not_mix_their_lines(self):
        listener = self.listener()
        got = []
        # As many as a socket holds though nobody reads: marks never wait, those beyond are dropped.
        reader = threading.Thread(target=lambda: got.extend(listener.lines(160)))
        threads = [
            threading.Thread(target=lambda t=t: [gpuwhy_annotate.label("t", f"{t}-{n}") for n in range(40)])
            for t in range(4)
        ]
        gpuwhy_annotate._sender.looked = None
        reader.start()
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        reader.join(10)
        self.assertEqual(len({line["labels"]["t"] for line in got}), 160)


if __name__ == "__main__":
    unittest.main()
