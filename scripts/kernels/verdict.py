"""What came of each probe on a kernel, and whether that is what must come of it."""

import json

ON_FUNCTIONS = ("cuda", "hip", "nccl", "rdma")
ON_KERNEL = ("process", "inflight", "sched", "mem", "irq", "io", "tcp", "driver", "xid")


def judge(kernel, steps):
    """Rows of the table, and what is wrong, a sentence each."""
    if "kernel" not in steps:
        return [], ["it did not boot"]
    if not kernel.flavours:
        return [], _refusal(steps)
    wrong = [] if _ended_well(steps, "check") else [f"check: {_last(steps, 'check')}"]
    tested = selftest(steps)
    if not _ended_well(steps, "selftest"):
        wrong.append(f"selftest: {_last(steps, 'selftest')}")
    wrong += [
        f"selftest: {op['op']} was called {op['called']} times and seen {op['seen']} times"
        for op in tested.get("operations", [])
        if op["called"] != op["seen"]
    ]
    loaded = {program["probe"] for program in tested.get("programs", [])}
    best = kernel.flavours[0]
    if not any(program["program"].startswith(f"call_{best}") for program in tested.get("programs", [])):
        wrong.append(f"selftest: it used another kind of probe than {best}, the best of this kernel")
    rows = [_on_functions(steps, flavour, probe) for flavour in kernel.flavours for probe in ON_FUNCTIONS]
    rows += [_on_kernel(steps, best, probe, probe in loaded) for probe in ON_KERNEL]
    rows.append(_on_kernel(steps, "kprobe", "driver", "driver" in loaded))
    for flavour in (*kernel.flavours, "kprobe"):
        if not _ended_well(steps, flavour):
            wrong.append(f"{flavour}: {_last(steps, flavour)}")
        wrong += [f"{flavour}: {difference}" for difference in _differences(steps, flavour)]
    for row in rows:
        if row["probe"] in kernel.absent:
            if row["attached"] or not row["reason"]:
                wrong.append(f"{row['probe']} should be absent: {kernel.absent[row['probe']]}")
        elif not (row["loaded"] and row["attached"] and row["fired"]) or row["refused"]:
            wrong.append(f"{row['probe']} ({row['flavour']}) did not work: {row['reason'] or 'it never fired'}")
    return rows, wrong


def selftest(steps):
    return _json(steps, "selftest").get("selftest") or {}


def _refusal(steps):
    wrong = []
    for step in ("check", "refusal"):
        if step not in steps:
            wrong.append(f"{step}: it did not come to an end")
            continue
        errors = [line for line in steps[step]["errors"].splitlines() if line]
        if steps[step]["status"] != 1 or len(errors) != 1 or "panicked" in steps[step]["errors"]:
            wrong.append(f"{step}: not a refusal of one sentence and status 1, but {steps[step]['status']} {errors}")
    bad = [check for check in _json(steps, "check").get("checks", []) if check["needed"] and not check["ok"]]
    if not bad or not all(check["fix"] for check in bad):
        wrong.append("check: what is missing and what to do is not said")
    return wrong


def _on_functions(steps, flavour, probe):
    states = [row for row in _rows(steps, f"{flavour}.probes") if row["probe"] == probe and row["flavour"] == flavour]
    ops = {"cuda": "cu", "hip": "hip", "nccl": "nccl", "rdma": "ibv"}[probe]
    fired = sum(row["n"] for row in _rows(steps, f"{flavour}.calls") if row["op"].startswith(ops))
    if probe == "rdma":
        fired = _fired(steps, flavour, probe)
    return _row(probe, flavour, states, True, fired)


def _on_kernel(steps, step, probe, loaded):
    states = [row for row in _rows(steps, f"{step}.probes") if row["probe"] == probe]
    fired = _fired(steps, step, probe)
    if probe == "driver":
        fired = sum(row["n"] for row in _rows(steps, f"{step}.calls") if row["op"].startswith("ioctl"))
    flavour = next((row["flavour"] for row in states if row["state"] == "attached"), "")
    if step == "kprobe" and flavour != "kprobe":
        states = [{"state": "refused", "n": 1, "flavour": "kprobe", "reason": f"{flavour} was used instead"}]
    return _row(probe, flavour, states, loaded, fired)


def _row(probe, flavour, states, loaded, fired):
    def count(*names):
        return sum(row["n"] for row in states if row["state"] in names)

    reasons = [row["reason"] for row in states if row["state"] in ("refused", "absent") and row["reason"]]
    # What a library of this version does not export is no news.
    reasons = [reason for reason in reasons if "does not export" not in reason]
    return {
        "probe": probe,
        "flavour": flavour,
        "loaded": loaded and (count("attached", "degraded") > 0 or not count("refused")),
        "attached": count("attached", "degraded"),
        "refused": count("refused"),
        "fired": fired,
        "reason": "; ".join(reasons),
    }


def _differences(steps, step):
    """Operations that the workloads did and that were not counted as often."""
    did = {}
    for line in steps.get(step, {}).get("output", "").splitlines():
        if line.startswith('{"command"'):
            for symbol, calls in json.loads(line)["ops"].items():
                did[symbol] = did.get(symbol, 0) + calls
    counted = {row["op"]: row["n"] for row in _rows(steps, f"{step}.calls")}
    # Spellings of a function (_v2, _ptsz) are counted as one: the self-test compares those. Contexts the runtime makes on
    # its own are counted too.
    compared = (
        symbol
        for symbol in did.keys() & counted.keys()
        if symbol != "cuDevicePrimaryCtxRetain" and not any(other.startswith(f"{symbol}_") for other in did)
    )
    return [
        f"{symbol} was called {did[symbol]} times and counted {counted[symbol]} times"
        for symbol in sorted(compared)
        if did[symbol] != counted[symbol]
    ]


def _ended_well(steps, step):
    return step in steps and steps[step]["status"] == 0


def _last(steps, step):
    if step not in steps:
        return "it did not come to an end"
    lines = steps[step]["errors"].splitlines()
    return lines[-1] if lines else f"status {steps[step]['status']}"


def _fired(steps, step, probe):
    return sum(row["n"] for row in _rows(steps, f"{step}.fired") if row["probe"] == probe)


def _json(steps, step):
    try:
        return json.loads(steps[step]["output"])
    except (KeyError, ValueError):
        return {}


def _rows(steps, step):
    answer = _json(steps, step)
    return answer if isinstance(answer, list) else answer.get("rows", [])
