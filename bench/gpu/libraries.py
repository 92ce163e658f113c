"""What gpuwhy sees of PyTorch, NCCL, graphs, memory and the driver on a real GPU, compared with what the program did.

    python3 bench/gpu/libraries.py target/release/gpuwhy out.json

Run as root on a machine with an NVIDIA GPU and PyTorch. Twice: traced from its start, and attached to when everything
was already loaded. Then the cost of importing torch, and a kernel that faults on purpose (Xid)."""
import json
import os
import resource
import signal
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
IMPORTS = 12


def rows(db, sql, *values):
    cursor = db.execute(sql, values)
    names = [column[0] for column in cursor.description]
    return [dict(zip(names, row)) for row in cursor.fetchall()]


def number(db, sql, *values):
    return db.execute(sql, values).fetchone()[0]


def start_trace(gpuwhy, out, *flags):
    trace = subprocess.Popen([gpuwhy, "trace", "--json", "--out", out, *flags], stdout=subprocess.PIPE, text=True)
    for line in trace.stdout:
        if json.loads(line)["type"] == "started":
            # Somebody has to read on.
            threading.Thread(target=lambda: [None for _ in trace.stdout], daemon=True).start()
            return trace
    raise SystemExit("the trace did not start")


def run(gpuwhy, folder, late):
    gate, out = os.path.join(folder, f"gate{late}"), os.path.join(folder, f"trace{late}.db")
    words = [sys.executable, os.path.join(HERE, "torch_libraries.py"), gate] + (["--late"] if late else [])
    if late:
        program = subprocess.Popen(words, stdout=subprocess.PIPE, text=True)
        while not os.path.exists(gate + ".ready") and program.poll() is None:
            time.sleep(0.05)
        trace = start_trace(gpuwhy, out)
    else:
        trace = start_trace(gpuwhy, out)
        program = subprocess.Popen(words, stdout=subprocess.PIPE, text=True)
        while not os.path.exists(gate + ".ready") and program.poll() is None:
            time.sleep(0.05)
    open(gate, "w").close()
    truth = json.loads(program.stdout.readline())
    program.wait()
    time.sleep(1.5)
    trace.send_signal(signal.SIGINT)
    trace.wait()
    return compare(truth, sqlite3.connect(out), late)


def compare(truth, db, late):
    pid, phases = truth["pid"], truth["phases"]
    names = list(phases)

    def between(name, op, column="count"):
        begin = phases[names[names.index(name) - 1]]["end_ns"]
        end = phases[name]["end_ns"] + 600_000_000
        return number(db, f"SELECT coalesce(sum({column}), 0) FROM call_stats WHERE pid = ? AND op = ? AND window_start_ns BETWEEN ? AND ?",
                      pid, op, begin + 100_000_000, end)

    launches = "SELECT coalesce(sum(launches), 0) FROM kernels WHERE pid = ?"

    def live(name, op):
        """Bytes live at the end of a phase; PyTorch's allocator calls cudaMalloc, the libraries below it the driver."""
        return number(db, "SELECT coalesce(sum(bytes), 0) FROM allocations WHERE pid = ? AND kind = 'device' AND op LIKE ? AND allocated_ns <= ? "
                      "AND (freed_ns IS NULL OR freed_ns > ?)", pid, op, phases[name]["end_ns"], phases[name]["end_ns"])
    checks = {
        "item": [between("item", "cudaMemcpyAsync"), between("item", "cudaStreamSynchronize"), phases["item"]["items"]],
        "replays": [between("replay", "cudaGraphLaunch"), number(db, "SELECT max(launches) FROM graphs WHERE pid = ?", pid), phases["replay"]["replays"]],
        "capture": [between("capture", "cudaStreamBeginCapture"), between("capture", "cudaStreamEndCapture"), 1],
        "pinned": [between("pinned", "cudaMemcpyAsync"), between("pinned", "cudaMemcpyAsync", "bytes"), phases["pinned"]],
        "pageable": [between("pageable", "cudaMemcpyAsync"), between("pageable", "cudaMemcpyAsync", "bytes"), phases["pageable"]],
        "compiled launches": [between("compiled", "cuLaunchKernel"), phases["compiled"]["launches"]],
        "empty_cache frees": between("empty_cache", "cudaFree"),
        "all_reduce": [between("all_reduce", "ncclAllReduce"), phases["all_reduce"]["collectives"]],
        "teardown": [between("teardown", "ncclCommDestroy"), between("teardown", "ncclCommFinalize")],
    }
    return {
        "late": late, "pid": pid, "checks": checks,
        "launches": number(db, launches, pid),
        "launches named": number(db, launches + " AND name IS NOT NULL AND name <> ''", pid),
        "launches counted": number(db, "SELECT sum(count) FROM call_stats WHERE pid = ? AND op LIKE 'cuLaunchKernel%'", pid),
        "rows named": rows(db, "SELECT count(*) AS rows, sum(kernel IS NOT NULL) AS named FROM cuda_events WHERE pid = ? AND op LIKE 'cuLaunchKernel%'", pid),
        "kernels": rows(db, "SELECT substr(name, 1, 90) AS name, launches FROM kernels WHERE pid = ? ORDER BY launches DESC LIMIT 12", pid),
        "triton": rows(db, "SELECT name, launches FROM kernels WHERE pid = ? AND name LIKE 'triton%'", pid),
        "graphs": rows(db, "SELECT nodes, kernels, launches, capture_ns, instantiate_ns, destroyed_ns IS NOT NULL AS destroyed FROM graphs WHERE pid = ?", pid),
        "graph kernels": rows(db, "SELECT substr(kernel, 1, 80) AS kernel, nodes, launches FROM graph_kernels WHERE pid = ?", pid),
        "collectives": rows(db, "SELECT op, rank, nranks, comm_id_hash, min(seq) AS first, max(seq) AS last, count(*) AS n, sum(wait_ns IS NOT NULL) AS waited, "
                            "max(waited_in) AS waited_in FROM nccl_events WHERE pid = ? GROUP BY 1, 2, 3, 4", pid),
        "reserved, live by cudaMalloc, live by all": {name: [truth["reserved"][name], live(name, "cudaMalloc"), live(name, "%")] for name in names},
        "gpu process memory": number(db, "SELECT max(memory_bytes) FROM gpu_processes WHERE pid = ?", pid),
        "allocations by op": rows(db, "SELECT op, kind, gpu, count(*) AS n, sum(bytes) AS bytes FROM allocations WHERE pid = ? GROUP BY 1, 2, 3", pid),
        "gpu samples": rows(db, "SELECT count(*) AS n, max(sm_pct) AS sm, max(sm_active_pct) AS sm_active, max(sm_occupancy_pct) AS occupancy, max(dram_active_pct) AS dram, "
                            "max(tensor_active_pct) AS tensor, max(power_mw) AS mw, max(memory_used_bytes) AS used, max(pcie_generation) AS gen, max(pcie_width) AS width FROM gpu_samples"),
        "gpu processes": rows(db, "SELECT DISTINCT pid FROM gpu_processes"),
        "driver": rows(db, "SELECT op, pid, sum(count) AS n, sum(sum_ns) / 1000 AS us FROM driver_stats GROUP BY 1, 2 ORDER BY 4 DESC LIMIT 8"),
        "copies": rows(db, "SELECT direction, sum(count) AS n, sum(bytes) AS bytes, sum(sum_ns) / 1000 AS us FROM copy_stats WHERE pid = ? GROUP BY 1", pid),
        "gpu time": rows(db, "SELECT stream, sum(busy_lower_ns) / 1000000 AS lower_ms, sum(busy_upper_ns) / 1000000 AS upper_ms, sum(launches) AS launches, "
                         "sum(launch_ns) / 1000000 AS launch_ms FROM gpu_time WHERE pid = ? GROUP BY 1", pid),
        "coldstart": rows(db, "SELECT event, count(*) AS n, sum(duration_ns) / 1000 AS us FROM coldstart_events WHERE pid = ? GROUP BY 1", pid),
        "most called": rows(db, "SELECT op, sum(count) AS n FROM call_stats WHERE pid = ? GROUP BY 1 ORDER BY 2 DESC LIMIT 14", pid),
        "probes": rows(db, "SELECT probe, state, count(*) AS n FROM probes GROUP BY 1, 2"),
        "not attached": rows(db, "SELECT probe, target, file, state, reason FROM probes WHERE state IN ('refused', 'degraded') LIMIT 10"),
        "loss": rows(db, "SELECT probe, reason, sum(count) AS n FROM loss GROUP BY 1, 2"),
    }


def imports(gpuwhy, folder):
    """Seconds to import torch, untraced and traced in turn."""
    def once():
        began, used = time.perf_counter(), resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run([sys.executable, "-c", "import torch"], check=True)
        now = resource.getrusage(resource.RUSAGE_CHILDREN)
        return time.perf_counter() - began, now.ru_utime + now.ru_stime - used.ru_utime - used.ru_stime
    once()
    plain, traced = [], []
    for turn in range(IMPORTS):
        # Neither goes first more often than the other.
        for kind in (plain, traced) if turn % 2 else (traced, plain):
            trace = start_trace(gpuwhy, os.path.join(folder, f"import{turn}.db")) if kind is traced else None
            kind.append(once())
            if trace:
                trace.send_signal(signal.SIGINT)
                trace.wait()

    def ratio(place):
        return statistics.median(t[place] for t in traced) / statistics.median(p[place] for p in plain)
    return {"untraced (wall s, CPU s)": plain, "traced (wall s, CPU s)": traced, "ratio of wall medians": ratio(0), "ratio of CPU medians": ratio(1),
            "ratio of fastest walls": min(t[0] for t in traced) / min(p[0] for p in plain)}


FAULT = """
import torch
kernel = torch.cuda._compile_kernel('extern "C" __global__ void fault(int* at) { at[threadIdx.x] = 1; }', "fault")
kernel((1, 1, 1), (32, 1, 1), (torch.zeros(1, device="cuda", dtype=torch.int32).data_ptr() + (1 << 42),))
torch.cuda.synchronize()
"""


def xid(gpuwhy, folder):
    out = os.path.join(folder, "xid.db")
    trace = start_trace(gpuwhy, out)
    ended = subprocess.run([sys.executable, "-c", FAULT], capture_output=True, text=True)
    time.sleep(2.5)
    trace.send_signal(signal.SIGINT)
    trace.wait()
    db = sqlite3.connect(out)
    return {"program": ended.stderr.strip().splitlines()[-1:], "errors": rows(db, "SELECT event, code, device, pid, message, source FROM gpu_errors"),
            "probe": rows(db, "SELECT target, state, reason FROM probes WHERE probe IN ('xid', 'driver', 'gpu')"),
            "failed calls": rows(db, "SELECT op, ret, count(*) AS n FROM cuda_events WHERE ret <> 0 GROUP BY 1, 2")}


def main():
    gpuwhy, out = os.path.abspath(sys.argv[1]), sys.argv[2]
    with tempfile.TemporaryDirectory() as folder:
        answer = {"from the start": run(gpuwhy, folder, False), "attached late": run(gpuwhy, folder, True),
                  "xid": xid(gpuwhy, folder), "import torch": imports(gpuwhy, folder)}
    with open(out, "w") as file:
        json.dump(answer, file, indent=1)
    print(json.dumps(answer))


main()
