#!/usr/bin/env python3
"""What `gpuwhy explain` says of a PyTorch training loop on a real GPU, with one thing wrong at a time, checked against what
was made wrong. Usage: explain.py GPUWHY FOLDER: the traces, what was said of each, and results.json go to the folder."""

import json
import os
import pathlib
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
SECONDS = "10"
# Mode, the class expected of the finding that tells it, and the mark of its line.
CASES = [
    ("clean", None, None),
    ("hog", "cpu.preempted", None),
    ("loader", "io.block", "loader"),
    ("item", "gpu.wait", "item"),
    ("leak", "gpu.memory", "leak"),
]


def line_of(mark):
    for number, text in enumerate((HERE / "train.py").read_text().splitlines(), 1):
        if text.endswith(f"# MARK {mark}"):
            return f"train.py:{number}"
    raise SystemExit(f"train.py has no line marked {mark}")


def run(gpuwhy, folder, mode, data):
    trace = folder / f"{mode}.db"
    trace.unlink(missing_ok=True)
    command = [sys.executable, str(HERE / "train.py"), mode, SECONDS] + ([data] if data else [])
    hog = None
    if mode == "hog":
        command = ["taskset", "-c", "3", *command]
        hog = subprocess.Popen(["taskset", "-c", "3", sys.executable, "-c", "while True: pass"])
    traced = subprocess.run([gpuwhy, "trace", "--out", str(trace), "--", *command], capture_output=True, text=True)
    if hog:
        hog.kill()
    (folder / f"{mode}.trace.txt").write_text(traced.stdout + traced.stderr)
    text = subprocess.run([gpuwhy, "explain", str(trace)], capture_output=True, text=True)
    (folder / f"{mode}.txt").write_text(text.stdout + text.stderr)
    answer = subprocess.run([gpuwhy, "explain", str(trace), "--json"], capture_output=True, text=True)
    (folder / f"{mode}.json").write_text(answer.stdout)
    return json.loads(answer.stdout), hog.pid if hog else None


def judge(answer, cause, mark, hog):
    findings = answer["findings"]
    if cause is None:
        alarms = [finding["title"] for finding in findings if finding["severity"] != "low"]
        return {"right": not alarms, "alarms": alarms}
    told = [finding for finding in findings if finding["causes"] and finding["causes"][0]["class"] == cause]
    first = told[0] if told else None
    verdict = {
        "right": first is not None,
        "place_in_list": findings.index(first) + 1 if first else None,
        "title": first["title"] if first else None,
        "explained_pct": first["explained_pct"] if first else None,
    }
    if mark and first:
        line = line_of(mark)
        verdict["line"] = line
        verdict["line_right"] = any(line + " " in frame for frame in first["where"]["python"])
        verdict["right"] &= verdict["line_right"]
    if hog and first:
        verdict["culprit_right"] = first["causes"][0]["by"][0]["pid"] == hog
        verdict["right"] &= verdict["culprit_right"]
    return verdict


def main():
    gpuwhy, folder = sys.argv[1], pathlib.Path(sys.argv[2])
    folder.mkdir(parents=True, exist_ok=True)
    only = sys.argv[3:]
    results = {}
    with tempfile.TemporaryDirectory(dir=os.environ.get("DATA_FOLDER")) as data_folder:
        data = pathlib.Path(data_folder) / "data"
        subprocess.run(["dd", "if=/dev/urandom", f"of={data}", "bs=1M", "count=1024", "status=none"], check=True)
        os.sync()
        for mode, cause, mark in CASES:
            if only and mode not in only:
                continue
            answer, hog = run(gpuwhy, folder, mode, str(data) if mode == "loader" else None)
            results[mode] = judge(answer, cause, mark, hog)
            print(mode, json.dumps(results[mode]), flush=True)
    (folder / "results.json").write_text(json.dumps(results, indent=2))


main()
