#!/usr/bin/env python3
"""What `gpuwhy explain` says of programs whose fault is known, judged by class, culprit, line, severity and saving.

    truth.py GPUWHY OUT [--only NAME,...] [--seconds 5] [--late | --savings] [--plain] [--keep-traces] [--jobs N]
    truth.py --list | --self-test

Run as root on a machine with an NVIDIA GPU and PyTorch. The programs and what must be said of them are in
`programs/table.py`. By default a trace of the whole host runs while the program is forked from a process that has imported
PyTorch; `--plain` traces `-- python3 run.py NAME`; `--late` attaches to the program when it is in its loop. OUT gets
results.json, results.md and answers.json (all that `explain --json` said) after each program. A row is `right` when class,
culprit, line and severity are; the saving is judged apart. `best` counts answers of the class at the end of the path alone."""

import argparse
import concurrent.futures
import contextlib
import json
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
PROGRAMS_FOLDER = HERE / "programs"
sys.path.insert(0, str(PROGRAMS_FOLDER))
from judge import COLUMNS, class_of, expected_words, judge, judge_saving  # noqa: E402
from table import BY_NAME, PROGRAMS  # noqa: E402

DATA_BYTES = 256 << 20
# Of these the saving is judged.
SAVINGS = {"sleep", "compute", "tokenizer", "augment_torch", "gc_collect", "lock_sleep", "lock_compute", "disk_read", "loader_sleep", "loader_cpu", "child", "http", "copies",
           "queue_sleep", "mp_queue", "event_timeout", "json_log", "to_host", "item_costs"}
# Over the loop itself: imports, CUDA's start, a first compilation.
PROGRAM_TIMEOUT_S = 60
TRACE_TIMEOUT_S = 20
EXPLAIN_TIMEOUT_S = 60
# A trace that says nothing by then is taken to be ready.
READY_S = 5
# From "tracing into" until its probes are surely in place.
SETTLE_S = 0.3
# Exit statuses of a trace that was asked to end.
ENDED_BY_SIGINT = (0, 128 + signal.SIGINT)
LATE_TRACE = "4s"
LATE_LOOP_S = 30


class Failed(Exception):
    """A program or a trace did not do its part; the text says how."""


def last_line(path):
    lines = path.read_text(errors="replace").strip().splitlines() if path.exists() else []
    return lines[-1] if lines else "no message"


def end_group(leader):
    """Ends what is left of a process group."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(leader, signal.SIGKILL)


class Spawned:
    """A process of its own, started with a command, in a group of its own."""

    def __init__(self, command, stderr, env):
        self.stderr = stderr
        with open(stderr, "wb") as file:
            self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=file, stderr=file, env=env, process_group=0)

    def wait(self, timeout_s):
        try:
            return self.process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            raise Failed(f"still running after {timeout_s:.0f} s: {last_line(self.stderr)}") from None
        finally:
            end_group(self.process.pid)
            self.process.wait()


class Forked:
    """A program that the zygote has forked."""

    def __init__(self, address, arguments, stderr):
        self.stderr, self.buffer = stderr, b""
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.connect(str(address))
        self.socket.sendall(json.dumps({"arguments": arguments, "stderr": str(stderr)}).encode() + b"\n")
        self.pid = self.message(10)["pid"]

    def message(self, timeout_s):
        self.socket.settimeout(timeout_s)
        while b"\n" not in self.buffer:
            received = self.socket.recv(4096)
            if not received:
                raise Failed("the zygote has ended")
            self.buffer += received
        line, _, self.buffer = self.buffer.partition(b"\n")
        return json.loads(line)

    def wait(self, timeout_s):
        try:
            return self.message(timeout_s)["status"]
        except TimeoutError:
            end_group(self.pid)
            self.message(10)
            raise Failed(f"still running after {timeout_s:.0f} s: {last_line(self.stderr)}") from None
        finally:
            end_group(self.pid)
            self.socket.close()


class Zygote:
    """The process that programs are forked from, started when it is first needed."""

    def __init__(self, folder, env):
        self.address, self.stderr, self.env = folder / "zygote", folder / "zygote.stderr", env
        self.process = None

    def fork(self, arguments, stderr):
        if self.process is None or self.process.poll() is not None:
            self.start()
        return Forked(self.address, arguments, stderr)

    def start(self):
        self.address.unlink(missing_ok=True)
        with open(self.stderr, "wb") as file:
            self.process = subprocess.Popen([sys.executable, str(PROGRAMS_FOLDER / "zygote.py"), str(self.address)], stdin=subprocess.DEVNULL,
                                            stdout=file, stderr=file, env=self.env)
        if not waited(PROGRAM_TIMEOUT_S, lambda: self.address.exists() or self.process.poll() is not None) or self.process.poll() is not None:
            self.process.kill()
            raise Failed(f"the zygote did not start: {last_line(self.stderr)}")

    def end(self):
        if self.process:
            self.process.kill()
            self.process.wait()


def waited(timeout_s, is_so):
    """Whether it came to be so in time."""
    until = time.monotonic() + timeout_s
    while not is_so():
        if time.monotonic() > until:
            return False
        time.sleep(0.02)
    return True


class Harness:
    """Runs programs, traced and untraced, in one folder."""

    def __init__(self, options, folder, env=None):
        self.options, self.folder = options, folder
        self.env = dict(os.environ, **(env or {}))
        self.zygote = Zygote(folder, self.env)
        self.data = folder / "data"

    def make_data(self):
        with open(self.data, "wb") as file:
            for _ in range(DATA_BYTES >> 20):
                file.write(os.urandom(1 << 20))
            file.flush()
            os.fsync(file.fileno())

    @contextlib.contextmanager
    def peer(self, program):
        """The process that runs before the trace, for programs that need one: its pid and port."""
        if "peer" not in program.needs:
            yield None
            return
        process = subprocess.Popen([sys.executable, str(PROGRAMS_FOLDER / "peers.py"), "foreign"], stdout=subprocess.PIPE)
        try:
            yield {"pid": process.pid, "port": int(process.stdout.readline())}
        finally:
            process.kill()
            process.wait()

    def arguments(self, program, seconds, report, peer):
        more = ["--data", str(self.data)] if "data" in program.needs else []
        more += ["--peer", str(peer["port"])] if peer else []
        return [program.name, "--seconds", str(seconds), "--report", str(report), *more]

    def start(self, arguments, stderr):
        if self.options.plain:
            return Spawned([sys.executable, str(PROGRAMS_FOLDER / "run.py"), *arguments], stderr, self.env)
        return self.zygote.fork(arguments, stderr)

    def record(self, program, flags=()):
        """The trace of one program and what the program reported."""
        name = "".join([program.name, *flags])
        report, stderr, db = (self.folder / f"{name}.{ending}" for ending in ("report", "stderr", "db"))
        with self.peer(program) as peer:
            seconds = LATE_LOOP_S if self.options.late else self.options.seconds
            arguments = [*self.arguments(program, seconds, report, peer), *flags]
            if self.options.late:
                status = self.trace_late(arguments, db, report, stderr)
            elif self.options.plain:
                command = [sys.executable, str(PROGRAMS_FOLDER / "run.py"), *arguments]
                traced = Spawned([self.options.gpuwhy, "trace", "--out", str(db), "--", *command], stderr, self.env)
                status = traced.wait(seconds + PROGRAM_TIMEOUT_S)
            else:
                status = self.trace_host(arguments, db, stderr)
            reported = dict(read_report(report), peer=peer)
        if "skip" not in reported and "steps" not in reported:
            raise Failed(f"the program ended with status {status}: {last_line(stderr)}")
        return db, reported

    def trace_host(self, arguments, db, stderr):
        with self.tracing(["--out", str(db)], db) as (tracer, log):
            status = self.start(arguments, stderr).wait(self.options.seconds + PROGRAM_TIMEOUT_S)
            if tracer.poll() is not None:
                raise Failed(f"the trace ended by itself: {last_line(log)}")
        return status

    @contextlib.contextmanager
    def tracing(self, flags, db):
        """A trace that is ready, and its log; stopped at the end as Ctrl-C would."""
        log = db.with_suffix(".trace")
        with open(log, "wb") as file:
            tracer = subprocess.Popen([self.options.gpuwhy, "trace", *flags], stdin=subprocess.DEVNULL, stdout=file, stderr=file, env=self.env)
        try:
            waited(READY_S, lambda: b"tracing into" in log.read_bytes() or tracer.poll() is not None)
            if tracer.poll() is not None:
                raise Failed(f"the trace did not start: {last_line(log)}")
            time.sleep(SETTLE_S)
            yield tracer, log
            tracer.send_signal(signal.SIGINT)
            if tracer.wait(TRACE_TIMEOUT_S) not in ENDED_BY_SIGINT:
                raise Failed(f"the trace failed: {last_line(log)}")
        except subprocess.TimeoutExpired:
            raise Failed(f"the trace did not end within {TRACE_TIMEOUT_S} s: {last_line(log)}") from None
        finally:
            tracer.kill()
            tracer.wait()

    def trace_late(self, arguments, db, report, stderr):
        program = self.start(arguments, stderr)
        trouble = None
        if waited(PROGRAM_TIMEOUT_S, lambda: {"loop", "skip"} & read_report(report).keys()) and "loop" in read_report(report):
            pid = read_report(report)["pid"]
            tracer = Spawned([self.options.gpuwhy, "trace", "--pid", str(pid), "--duration", LATE_TRACE, "--out", str(db)], db.with_suffix(".trace"), self.env)
            try:
                if tracer.wait(TRACE_TIMEOUT_S) != 0:
                    trouble = Failed(f"the trace failed: {last_line(db.with_suffix('.trace'))}")
            except Failed as why:
                trouble = why
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGTERM)
        status = program.wait(PROGRAM_TIMEOUT_S)
        if trouble:
            raise trouble
        return status

    def explain(self, db):
        done = subprocess.run([self.options.gpuwhy, "explain", str(db), "--json"], capture_output=True, text=True, timeout=EXPLAIN_TIMEOUT_S, env=self.env)
        # With nothing to answer from, there is nothing wrong to be told of.
        if done.returncode == 3 and not done.stdout.strip():
            return {"findings": []}
        if done.returncode != 0:
            raise Failed(f"explain ended with status {done.returncode}: {(done.stderr.strip().splitlines() or ['no message'])[-1]}")
        return json.loads(done.stdout)


def read_report(path):
    """All that a program has reported, later lines over earlier ones."""
    merged = {}
    for line in path.read_text().splitlines() if path.exists() else []:
        # The last line may be half written.
        with contextlib.suppress(ValueError):
            merged.update(json.loads(line))
    return merged


def conclude(harness, program, db, report):
    """The row of a program that was recorded."""
    if "skip" in report:
        return {"state": "skipped", "said": report["skip"]}, None
    try:
        answer = harness.explain(db)
        row = dict(judge(program, answer, report), state="judged", mean_ms=report["mean_ms"], median_ms=report["median_ms"], steps=report["steps"], report=report)
        if "saving_ms" in report:
            # The program was run in turns with its fault and without it: what it measured, and what is said of that same run.
            causes = {say.cause for say in program.says}
            of_fault = (finding for finding in answer["findings"] if finding.get("phase") != "start" and class_of(finding) in causes)
            row["saving_real_ms"], row["saving_said_ms"] = report["saving_ms"], next(of_fault, {}).get("saves_ms_per_step")
            row["saving"] = judge_saving(row["saving_said_ms"], row["saving_real_ms"])
        return row, answer
    finally:
        if harness.options.keep_traces and db.exists():
            shutil.copy(db, harness.options.out)
        for path in db.parent.glob(f"{db.name}*"):
            path.unlink()


def word(value):
    return {True: "ok", False: "WRONG", None: "-"}[value]


def totals(rows):
    """Of those judged, how many are right, for each column and for all of them."""
    counted = {}
    for column in ["right", "best", *COLUMNS, "line_exact", "outlier"]:
        values = [row[column] for row in rows.values() if row["state"] == "judged" and row.get(column) is not None]
        if values:
            counted[column] = {"right": sum(values), "of": len(values), "pct": round(100 * sum(values) / len(values), 1)}
    return counted


def write(out, rows, answers, wall_s):
    """All of it again, so that a run that is cut short leaves what it has."""
    states = {state: [name for name, row in rows.items() if row["state"] == state] for state in ("failed", "skipped")}
    result = {"wall_s": round(wall_s, 1), "totals": totals(rows), **states, "programs": rows}
    (out / "results.json").write_text(json.dumps(result, indent=1))
    (out / "answers.json").write_text(json.dumps(answers))
    lines = ["| program | expected | said | class | culprit | line | severity | saving said, real (ms a step) |", "|---|---|---|---|---|---|---|---|"]
    for name, row in rows.items():
        said = (row["said"] if row["state"] == "judged" else f"{row['state']}: {row['said']}").replace("|", "\\|")
        parts = [word(row.get(column)) for column in COLUMNS[:-1]]
        if row.get("line") and not row.get("line_exact"):
            parts[2] += " (not innermost)"
        saving = f"{row['saving_said_ms']}, {row['saving_real_ms']}" if "saving_real_ms" in row else "-"
        lines.append(f"| {name} | {expected_words(BY_NAME[name])} | {said} | {' | '.join(parts)} | {saving} |".replace("\n", " "))
    lines += ["", *(f"- {column}: {count['right']} of {count['of']}, {count['pct']}%" for column, count in totals(rows).items())]
    lines += [f"- {state}: {len(names)} ({', '.join(names)})" for state, names in states.items() if names]
    lines.append(f"- {wall_s:.0f} s in all")
    (out / "results.md").write_text("\n".join(lines) + "\n")


def show(name, row):
    if row["state"] != "judged":
        print(f"{name:16} {row['state']}: {row['said']}", flush=True)
        return
    parts = " ".join(f"{column}={word(row.get(column))}" for column in COLUMNS)
    verdict = "right" if row["right"] else "WRONG"
    print(f"{name:16} {verdict} {parts} | {row['mean_ms']:.2f} ms a step, saves {row.get('saving_said_ms', '-')} of {row.get('saving_real_ms', '-')} | {row['said']}", flush=True)


def run_all(harness, programs):
    """Records one program after the other, or `--jobs` at once, while one that is recorded is explained."""
    options, began = harness.options, time.monotonic()
    rows, answers = {}, {}
    if any("data" in program.needs for program in programs):
        harness.make_data()
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as recorders, concurrent.futures.ThreadPoolExecutor(1) as explainers:

        def record(program):
            db, report = harness.record(program, ["--turns"] if options.savings else [])
            return explainers.submit(conclude, harness, program, db, report)

        recordings = [(program.name, recorders.submit(record, program)) for program in programs]
        for name, recording in recordings:
            try:
                rows[name], answers[name] = recording.result().result()
            except Failed as why:
                rows[name] = {"state": "failed", "said": str(why)}
            except Exception as why:  # One program's trouble, of whatever kind, is a row and not the end of the run.
                rows[name] = {"state": "failed", "said": f"{type(why).__name__}: {why}"}
            show(name, rows[name])
            write(options.out, rows, answers, time.monotonic() - began)
    return rows


def options_of(arguments):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("gpuwhy", nargs="?")
    parser.add_argument("out", nargs="?", type=pathlib.Path)
    parser.add_argument("--only", help="names of programs, with commas between them")
    parser.add_argument("--seconds", type=float, default=5, help="how long each loop runs")
    parser.add_argument("--late", action="store_true", help="attach when the program is in its loop")
    parser.add_argument("--savings", action="store_true", help="run programs with and without their fault in turns, and judge what is said to be saved")
    parser.add_argument("--plain", action="store_true", help="start each program with python3, traced from its first instruction")
    parser.add_argument("--keep-traces", action="store_true", help="copy the traces to OUT")
    parser.add_argument("--jobs", type=int, default=1, help="programs at once; more than one share the GPU, and need --plain")
    parser.add_argument("--list", action="store_true", help="the programs and what must be said of them")
    parser.add_argument("--self-test", action="store_true", help="check this harness with a stand-in for gpuwhy and for PyTorch")
    options = parser.parse_args(arguments)
    unknown = [name for name in (options.only or "").split(",") if name and name not in BY_NAME]
    if unknown:
        parser.error(f"there is no program {', '.join(unknown)}; --list shows them")
    if not (options.list or options.self_test or options.out):
        parser.error("GPUWHY and OUT are needed")
    if options.jobs > 1 and not options.plain:
        parser.error("a trace of the whole host sees all programs at once: --jobs needs --plain")
    return options


def main():
    options = options_of(sys.argv[1:])
    if options.list:
        for program in PROGRAMS:
            print(f"{program.name:16} {program.about}\n{'':16}   {expected_words(program)}")
        return
    if options.self_test:
        import self_test
        self_test.main(Harness, run_all, options_of)
        return
    options.out.mkdir(parents=True, exist_ok=True)
    names = options.only.split(",") if options.only else SAVINGS if options.savings else list(BY_NAME)
    with tempfile.TemporaryDirectory(dir=os.environ.get("DATA_FOLDER")) as folder:
        harness = Harness(options, pathlib.Path(folder))
        try:
            rows = run_all(harness, [program for program in PROGRAMS if program.name in names])
        finally:
            harness.zygote.end()
    for column, count in totals(rows).items():
        print(f"{column}: {count['right']} of {count['of']}, {count['pct']}%")


if __name__ == "__main__":
    main()
