"""What gpuwhy sees and costs on a real GPU with PyTorch. Run as root on a machine with both:

    python3 bench/gpu/run.py target/release/gpuwhy target/release/gpuwhy-bench out.json

First the counts: a program that makes a known number of operations is traced system-wide (it is found by itself),
and what the trace counted is compared. Then the cost: a small transformer training loop and a loop of tiny launches,
untraced and traced rounds alternated in one process."""
import json
import os
import signal
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time

# torch_steps.py makes so many in its loop of tiny launches, besides its steps.
LAUNCHES_IN_LOOP = 20_000
HERE = os.path.dirname(os.path.abspath(__file__))
ROUNDS = 20
STEPS = 60
# What each kind of round is traced with; nothing for none.
KINDS = {"untraced": None, "untraced again": None, "empty probe pair": "empty", "traced": []}


def start_trace(gpuwhy, out, *flags):
    """Starts a system-wide trace and waits until it says that it runs."""
    trace = subprocess.Popen([gpuwhy, "trace", "--json", "--out", out, *flags], stdout=subprocess.PIPE, text=True)
    lines = []
    for line in trace.stdout:
        lines.append(json.loads(line))
        if lines[-1]["type"] == "started":
            return trace, lines
    raise SystemExit("the trace did not start")


def stop_trace(trace):
    began = time.perf_counter()
    trace.send_signal(signal.SIGINT)
    rest = [json.loads(line) for line in trace.stdout]
    trace.wait()
    return rest, time.perf_counter() - began


def counts(gpuwhy, folder):
    gate = os.path.join(folder, "gate")
    db = os.path.join(folder, "counts.db")
    program = subprocess.Popen([sys.executable, os.path.join(HERE, "torch_counts.py"), gate], stdout=subprocess.PIPE, text=True)
    while not os.path.exists(gate + ".ready"):
        if program.poll() is not None:
            raise SystemExit("the PyTorch program ended early")
        time.sleep(0.05)
    trace, attached = start_trace(gpuwhy, db)
    open(gate, "w").close()
    truth = json.loads(program.stdout.readline())
    program.wait()
    time.sleep(1.5)
    rest, stop_s = stop_trace(trace)
    con = sqlite3.connect(db)
    seen = dict(con.execute("SELECT op, sum(count) FROM call_stats WHERE pid = ? GROUP BY op", (truth["pid"],)))
    seen_bytes = dict(con.execute("SELECT op, sum(bytes) FROM call_stats WHERE pid = ? GROUP BY op", (truth["pid"],)))
    process = con.execute("SELECT comm, cmdline FROM processes WHERE pid = ?", (truth["pid"],)).fetchone()
    unsummed = con.execute("SELECT count(*) FROM cuda_events WHERE abs(oncpu_ns + runq_ns + blocked_ns - duration_ns) > 2000").fetchone()[0]
    return {
        "truth": truth, "seen": seen, "seen_bytes": {op: seen_bytes.get(op) for op in truth["bytes"]},
        "match": all(seen.get(op) == n for op, n in truth["ops"].items()),
        "process": process, "kept": con.execute("SELECT count(*) FROM cuda_events").fetchone()[0],
        "kept_by": dict(con.execute("SELECT kept, count(*) FROM cuda_events GROUP BY 1")),
        "blame_not_summing": unsummed, "stop_s": stop_s,
        "lost": con.execute("SELECT coalesce(sum(count), 0) FROM loss").fetchone()[0],
        "probes": con.execute("SELECT file, flavour, state, count(*) FROM probes GROUP BY 1, 2, 3").fetchall(),
        "op_summary": con.execute("SELECT op, count, p50_us, p99_us, max_us FROM op_summary").fetchall(),
        "via": dict(con.execute("SELECT coalesce(via, 'unknown'), count(*) FROM cuda_events WHERE op = 'cuLaunchKernel' GROUP BY 1")),
        "depth": con.execute("SELECT avg(json_array_length(addresses)) FROM stacks").fetchone()[0],
        "summary": [line for line in rest if line["type"] == "summary"],
    }


def cost(gpuwhy, bench, folder):
    """Rounds of steps, each kind of round in turn: none goes first more often than another."""
    program = subprocess.Popen([sys.executable, os.path.join(HERE, "torch_steps.py"), str(STEPS)],
                               stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert program.stdout.readline().strip() == "ready"

    def measure():
        program.stdin.write("go\n")
        program.stdin.flush()
        return json.loads(program.stdout.readline())

    own = []

    def traced(db, flags):
        trace, lines = start_trace(gpuwhy, db, *flags)
        while lines[-1]["type"] != "sums":  # a second in: what attaching itself disturbed is over
            lines.append(json.loads(trace.stdout.readline()))
        result = measure()
        rest, _ = stop_trace(trace)
        own.extend(line["gpuwhy"] for line in lines + rest if line["type"] == "sums")
        return result

    def with_empty_pair():
        """The floor: probes on the launches whose programs do nothing."""
        with open(f"/proc/{program.pid}/maps") as maps:
            library = next(line.split()[-1] for line in maps if "/libcuda.so" in line)
        holder = subprocess.Popen([bench, "hold-empty", library], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert holder.stdout.readline().strip() == "ready"
        result = measure()
        holder.communicate()
        return result

    rounds = {kind: [] for kind in KINDS}
    names = list(KINDS)
    for i in range(ROUNDS):
        for kind in names[i % len(names):] + names[:i % len(names)]:
            db = os.path.join(folder, f"{kind}{i}.db".replace(" ", "-"))
            match KINDS[kind]:
                case None:
                    rounds[kind].append(measure())
                case "empty":
                    rounds[kind].append(with_empty_pair())
                case flags:
                    rounds[kind].append(traced(db, flags))
    program.stdin.close()
    program.wait()
    calls = dict(sqlite3.connect(os.path.join(folder, "traced0.db")).execute(
        "SELECT op, sum(count) FROM call_stats GROUP BY op ORDER BY 2 DESC").fetchall())
    calls["cuLaunchKernel"] -= LAUNCHES_IN_LOOP

    def spread(values):
        values = sorted(values)
        return {"median": statistics.median(values), "min": values[0], "max": values[-1],
                "quartiles": [values[len(values) // 4], values[3 * len(values) // 4]]}

    answer = {"rounds": ROUNDS, "steps_a_round": STEPS, "calls_a_step": {op: n / STEPS for op, n in calls.items()},
              "gpuwhy_rss_bytes_max": max(o["rss_bytes"] for o in own), "gpuwhy_cpu_max": max(o["cpu"] for o in own)}
    base = rounds["untraced"]
    for kind, results in rounds.items():
        steps = [statistics.median(r["step_ms"]) for r in results]
        answer[kind] = {"step_ms": spread(steps), "launch_us": spread([r["launch_us"] for r in results])}
        if kind != "untraced":
            answer[kind]["step_ratio"] = spread([s / statistics.median(u["step_ms"]) for s, u in zip(steps, base)])
            answer[kind]["launch_added_us"] = spread([r["launch_us"] - u["launch_us"] for r, u in zip(results, base)])
    return answer


def main():
    gpuwhy, bench, out = sys.argv[1:4]
    with tempfile.TemporaryDirectory() as folder:
        result = {"counts": counts(gpuwhy, folder)}
        print(json.dumps(result["counts"], indent=1), flush=True)
        result["cost"] = cost(gpuwhy, bench, folder)
        print(json.dumps(result["cost"], indent=1), flush=True)
    with open(out, "w") as f:
        json.dump(result, f, indent=1)


main()
