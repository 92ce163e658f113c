"""Lines, stacks, the host's side and the cost of being watched on a real GPU with PyTorch.

    python3 bench/gpu/threads.py target/release/gpuwhy out.json

Run as root on a machine with an NVIDIA GPU and PyTorch."""
import json
import os
import re
import signal
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
LINES = os.path.join(HERE, "torch_lines.py")
STEPS = os.path.join(HERE, "torch_steps.py")


def rows(db, sql, *values):
    cursor = db.execute(sql, values)
    names = [column[0] for column in cursor.description]
    return [dict(zip(names, row)) for row in cursor.fetchall()]


def marks():
    found = {}
    with open(LINES) as script:
        for number, line in enumerate(script, 1):
            mark = re.search(r"# mark: (\w+)", line)
            if mark:
                found[mark.group(1)] = number
    return found


def peak_mb(pid):
    with open(f"/proc/{pid}/status") as status:
        return next((int(line.split()[1]) / 1024 for line in status if line.startswith("VmHWM")), 0)


def lines(gpuwhy, out):
    began = time.monotonic()
    subprocess.run([sys.executable, LINES, "8"], check=True, stdout=subprocess.DEVNULL)
    untraced = time.monotonic() - began
    began, memory = time.monotonic(), 0
    trace = subprocess.Popen([gpuwhy, "trace", "--out", out, "--", sys.executable, LINES, "8"],
                             stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    while trace.poll() is None:
        try:
            memory = max(memory, peak_mb(trace.pid))
        except OSError:
            pass
        time.sleep(0.1)
    took = time.monotonic() - began
    db = sqlite3.connect(out)
    text = open(LINES).read().splitlines()
    known = marks()
    innermost = rows(db, """
        SELECT c.op, f.line, f.function, count(*) AS calls FROM cuda_events c
        JOIN frames f ON f.stack_id = c.stack_id AND f.kind = 'python' AND f.file LIKE '%torch_lines.py'
        WHERE f.depth = (SELECT min(depth) FROM frames g WHERE g.stack_id = f.stack_id AND g.kind = 'python' AND g.file LIKE '%torch_lines.py')
        GROUP BY 1, 2, 3 ORDER BY 4 DESC""")
    for row in innermost:
        row["text"] = text[row["line"] - 1].strip() if row["line"] else None
    seen = {row["line"] for row in innermost}
    stacks = rows(db, """SELECT count(*) AS stacks, sum(complete) AS complete,
        (SELECT count(*) FROM cuda_events) AS kept, (SELECT count(*) FROM cuda_events WHERE stack_id IS NOT NULL) AS with_stack,
        (SELECT count(DISTINCT stack_id) FROM frames WHERE kind = 'python') AS with_python,
        (SELECT count(*) FROM frames WHERE kind = 'python' AND function IS NULL) AS python_unnamed,
        (SELECT count(*) FROM frames WHERE kind = 'native') AS native_frames,
        (SELECT count(*) FROM frames WHERE kind = 'native' AND function IS NULL) AS native_unnamed FROM stacks""")[0]
    item = rows(db, """SELECT f.depth, f.kind, f.function, f.file, f.line, f.module FROM frames f WHERE f.stack_id = (
        SELECT c.stack_id FROM cuda_events c WHERE c.op = 'cudaStreamSynchronize' AND c.stack_id IS NOT NULL ORDER BY c.timestamp_ns DESC LIMIT 1)
        ORDER BY f.depth""")
    unnamed = rows(db, "SELECT module, count(*) AS frames FROM frames WHERE kind = 'native' AND function IS NULL GROUP BY 1 ORDER BY 2 DESC LIMIT 10")
    return {
        "wall_s": took,
        "untraced_wall_s": untraced,
        "agent_peak_mb": memory,
        "marks": known,
        "marks_seen": sorted(name for name, line in known.items() if line in seen),
        "innermost": innermost[:25],
        "stacks": stacks,
        "unnamed": unnamed,
        "item": item,
        "gil": rows(db, "SELECT cause, by_comm, by_tid, sum(ns) / 1e6 AS ms FROM blame WHERE cause = 'python.gil' GROUP BY 1, 2, 3"),
        "blame": rows(db, "SELECT op, cause, by_comm, sum(ns) / 1e6 AS ms FROM blame GROUP BY 1, 2, 3 ORDER BY 4 DESC LIMIT 20"),
        "bill": rows(db, "SELECT sum(calls) AS calls, sum(cost_ns) / 1e6 AS cost_ms, max(worst_thread_pct) AS worst_pct FROM watch_costs"),
        "changes": rows(db, "SELECT probe, min(target) AS target, state, reason, count(*) AS times FROM watch_changes GROUP BY 1, 3, 4"),
        "probes": rows(db, "SELECT probe, target, state, reason FROM probes WHERE state <> 'attached' AND state <> 'absent' LIMIT 40"),
        "loss": rows(db, "SELECT reason, sum(count) AS count FROM loss GROUP BY 1"),
        "size": os.path.getsize(out),
    }


def steps(gpuwhy, folder):
    """One process; rounds of training steps in it, untraced and attached to, in turns."""
    program = subprocess.Popen([sys.executable, STEPS, "300"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    program.stdout.readline()
    rounds = []

    def play(flags):
        trace = None
        if flags:
            out = os.path.join(folder, f"steps{time.monotonic_ns()}.db")
            trace = subprocess.Popen([gpuwhy, "trace", "--pid", str(program.pid), "--out", out, *flags],
                                     stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            time.sleep(1.5)
        program.stdin.write("go\n")
        program.stdin.flush()
        played = json.loads(program.stdout.readline())
        answer = {"step_ms": statistics.median(played["step_ms"]), "mean_ms": statistics.mean(played["step_ms"]), "launch_us": played["launch_us"]}
        if trace:
            trace.send_signal(signal.SIGINT)
            trace.wait()
            db = sqlite3.connect(out)
            answer["bill"] = rows(db, "SELECT sum(calls) AS calls, sum(cost_ns) / 1e6 AS cost_ms, avg(worst_thread_pct) AS mean_pct FROM watch_costs")
            answer["changes"] = rows(db, "SELECT state, count(*) AS times, count(DISTINCT target) AS targets FROM watch_changes GROUP BY 1")
            answer["loss"] = rows(db, "SELECT reason, sum(count) AS count FROM loss GROUP BY 1")
        return answer

    for _ in range(8):
        rounds.append({
            "untraced": play(None),
            "budget_1": play(["--budget", "1%"]),
            "untraced_again": play(None),
            "no_budget": play(["--budget", "100%"]),
        })
    program.stdin.close()
    program.wait()
    return rounds


def main():
    gpuwhy, out = sys.argv[1:]
    result = {}
    with tempfile.TemporaryDirectory() as folder:
        result["lines"] = lines(gpuwhy, os.path.splitext(out)[0] + ".db")
        json.dump(result, open(out, "w"), indent=1)
        result["steps"] = steps(gpuwhy, folder)
        for name in ("budget_1", "no_budget"):
            for what in ("step_ms", "mean_ms", "launch_us"):
                ratios = [r[name][what] / statistics.mean([r["untraced"][what], r["untraced_again"][what]]) for r in result["steps"]]
                result[f"{name}_{what}_over_untraced"] = [round(ratio, 4) for ratio in sorted(ratios)]
    json.dump(result, open(out, "w"), indent=1)
    print(json.dumps({k: v for k, v in result.items() if k not in ("lines", "steps")}, indent=1))


main()
