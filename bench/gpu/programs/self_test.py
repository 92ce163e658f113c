"""Checks the harness without a GPU: the judging with made-up answers, and the way from a program to its row with a stand-in
for gpuwhy and, where PyTorch is missing, one for PyTorch, on which only the programs' CPU side runs."""

import contextlib
import importlib.util
import io
import json
import pathlib
import tempfile

from judge import judge, judge_saving
from table import BY_NAME, HERE, PROGRAMS, lines_of

GPUWHY = '''#!/usr/bin/env python3
import json, pathlib, signal, subprocess, sys
words = sys.argv[1:]
if words[0] == "explain":
    print(json.dumps({"steps": [], "findings": []}))
    sys.exit()
out = pathlib.Path(words[words.index("--out") + 1])
out.touch()
if out.stem.startswith("poll"):
    sys.exit("gpuwhy: this trace fails")
print("gpuwhy: tracing into", out, file=sys.stderr, flush=True)
if "--" in words:
    sys.exit(subprocess.run(words[words.index("--") + 1:]).returncode)
signal.signal(signal.SIGINT, lambda *_: sys.exit())
signal.sigtimedwait([], 0.5) if "--duration" in words else signal.pause()
'''

TORCH = '''"""Absorbs whatever is done to it."""
import sys, time

class Anything:
    def __init__(self, *_, **__): pass
    def __getattr__(self, name):
        if name.startswith("__"): raise AttributeError(name)
        return Anything()
    def __call__(self, *_, **__): return Anything()
    def __enter__(self): return self
    def __exit__(self, *_): return None
    def __getitem__(self, _): return Anything()
    def __iter__(self): return iter([Anything()] * 3)
    def __next__(self): return Anything()
    def __matmul__(self, _): return Anything()
    __mul__ = __rmul__ = __add__ = __radd__ = __matmul__
    def backward(self): time.sleep(0.002)

class nn(Anything):
    class Module(Anything): pass

class IterableDataset(Anything): pass

def no_grad(): return lambda function: function
def __getattr__(name):
    if name.startswith("__"): raise AttributeError(name)
    return IterableDataset if name == "IterableDataset" else sys.modules[__name__] if name in ("utils", "data", "checkpoint", "distributed") else Anything()
nn.Linear = nn.LayerNorm = nn.Sequential = nn.functional = Anything()
for name in ("utils", "utils.data", "utils.checkpoint", "distributed"):
    sys.modules[__name__ + "." + name] = sys.modules[__name__]
__path__ = []
'''
# What these do is done by PyTorch or by a GPU.
NEED_TORCH = {"augment_torch", "train_loader", "loader_cpu", "loader_sleep", "loader_lock", "loader_disk", "compile_storm", "gpu_neighbour", "loader_pinned", "loader_stall",
              "openmp", "pin_each", "nonzero", "generate", "generate_sample", "amp", "to_host", "gloo_straggler", "json_dataset",
              "slow_worker", "shared_reader", "snapshot_state", "fast_tokenizer", "pool_reads", "ordinary_script", "recompute"}


def finding(cause, severity="high", pid=10, by=(), mark=None, phase="loop", under=()):
    file, line = lines_of(mark)[0] if mark else ("loop.py", 1)
    python = ["/usr/lib/python3.12/threading.py:5 run", "/x/site-packages/torch/loop.py:1 f", *under, f"/work/programs/{file}:{line} it"]
    return {"phase": phase, "severity": severity, "pid": pid, "title": "a title", "where": {"python": python},
            "causes": [{"class": cause, "by": list(by), "evidence": []}]}


def judged(name, *findings, **report):
    report = {"pid": 10, "helpers": {"worker": 11, "neighbour": 12}, "threads": {"logger": 15}, "peer": {"pid": 16, "port": 4321}, **report}
    return judge(BY_NAME[name], {"steps": [{"outliers": [{"ms": 310}]}], "findings": list(findings)}, report)


def check_judging():
    """Each line: what was said, and what of it must be found right or wrong."""
    other = [{"pid": 99, "comm": "other"}]
    assert judged("sleep", finding("self.sleep", mark="fetch"))["right"]
    assert judged("sleep", finding("gpu.coldstart", "critical", phase="start"), finding("self.sleep", mark="fetch"))["right"]
    assert judged("sleep", finding("self.sleep", mark="fetch", phase=None))["right"]
    assert judged("sleep", finding("cpu.self", mark="fetch"))["class"] is False
    assert judged("sleep", finding("self.sleep", mark="fetch", by=other))["culprit"] is False
    assert judged("sleep", finding("self.sleep", mark="poll"))["line"] is False
    assert judged("sleep", finding("self.sleep", "low", mark="fetch"))["severity"] is False
    assert judged("sleep")["right"] is False
    inner = judged("sleep", finding("self.sleep", mark="fetch", under=["/work/programs/loop.py:7 inner"]))
    assert inner["line"] and not inner["line_exact"]
    assert judged("loader_cpu", finding("cpu.self", by=[{"pid": 11, "comm": "python3"}], mark="loader_cpu"))["right"]
    assert judged("loader_cpu", finding("cpu.self", by=other, mark="loader_cpu"))["culprit"] is False
    assert judged("lock_sleep", finding("self.sleep", by=[{"pid": 10, "comm": "logger"}], mark="hold_asleep"))["best"]
    second = judged("lock_sleep", finding("lock.futex", by=[{"pid": 15, "comm": "python3"}], mark="want_lock"))
    assert second["right"] and not second["best"]
    assert judged("lock_sleep", finding("lock.futex", mark="want_lock"))["culprit"] is False
    assert judged("child", finding("proc.wait", by=[{"pid": 50, "comm": "sleep"}], mark="child"))["right"]
    assert judged("foreign", finding("net.wait", by=[{"pid": None, "comm": "127.0.0.1:4321"}], mark="foreign"))["right"]
    assert not judged("foreign", finding("net.wait", by=[{"pid": None, "comm": "127.0.0.1:43210"}], mark="foreign"))["culprit"]
    beside = judged("gpu_neighbour", finding("gpu.wait", pid=12), finding("gpu.wait", by=[{"pid": 12, "comm": "python3"}]))
    assert beside["right"] and not beside["best"]
    assert judged("stall_short", finding("self.sleep", "low", mark="reload_config"))["outlier"]
    assert judged("gpu_bound", finding("gpu.wait", "low"))["right"]
    assert not judged("gpu_bound", finding("gpu.wait", "medium"))["right"]
    allowed = judged("train", finding("launch.bound", "medium"))
    assert allowed["right"] and not allowed["best"]
    assert not judged("train", finding("launch.bound", "medium"), finding("cpu.self", "medium"))["right"]
    assert judged("slow_start", finding("cpu.self", "high", phase="start"))["right"]
    assert judge_saving(10.5, 12) and not judge_saving(10, 12) and judge_saving(0.5, 0) and not judge_saving(4, 12) and not judge_saving(None, 5)


def check_runs(make_harness, run_all, options_of):
    """Every way to trace: no row may fail but the one whose trace does."""
    has_torch = importlib.util.find_spec("torch") is not None
    names = [program.name for program in PROGRAMS if has_torch or program.name not in NEED_TORCH]
    few = "sleep,poll,foreign,engine_pipe,stall_short"
    for only, flags in [(",".join(names), []), (few, ["--plain"]), (few, ["--late"]), (few, ["--late", "--plain"]), (few.replace("stall_short", "queue_sleep").replace("foreign,", "").replace("engine_pipe,", ""), ["--savings"])]:
        with tempfile.TemporaryDirectory() as folder:
            folder = pathlib.Path(folder)
            (folder / "gpuwhy").write_text(GPUWHY)
            (folder / "gpuwhy").chmod(0o755)
            if not has_torch:
                (folder / "torch").mkdir()
                (folder / "torch" / "__init__.py").write_text(TORCH)
            options = options_of([str(folder / "gpuwhy"), str(folder), "--seconds", "0.5", "--only", only, *flags])
            harness = make_harness(options, folder, {"PYTHONPATH": f"{folder}:{HERE}"})
            lines = io.StringIO()
            try:
                with contextlib.redirect_stdout(lines):
                    rows = run_all(harness, [BY_NAME[name] for name in only.split(",")])
            finally:
                harness.zygote.end()
            failed = {name: row["said"] for name, row in rows.items() if row["state"] == "failed"}
            assert list(failed) == ["poll"] and "this trace fails" in failed["poll"], failed
            result = json.loads((folder / "results.json").read_text())
            assert result["programs"].keys() == set(only.split(",")) and "| sleep |" in (folder / "results.md").read_text()
            skipped = {name: row["said"] for name, row in rows.items() if row["state"] == "skipped"}
            print(f"{' '.join(flags) or 'default'}: {len(rows)} programs in {result['wall_s']} s; skipped: {skipped or 'none'}", flush=True)


def check_table():
    """Each mark is on a line, and each program's function is in its module's text."""
    for program in PROGRAMS:
        assert f"\ndef {program.name}(run):" in (HERE / f"{program.module}.py").read_text(), program.name
        for say in program.says:
            assert say.mark is None or lines_of(say.mark), say


def main(make_harness, run_all, options_of):
    check_table()
    check_judging()
    check_runs(make_harness, run_all, options_of)
    print("all right")
