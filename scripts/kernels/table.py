#!/usr/bin/env python3
"""The measurement page of the kernels, from what run.py left: table.py RESULTS-FOLDER DATE > PAGE"""

import json
import pathlib
import sys

import matrix


def main():
    results = pathlib.Path(sys.argv[1])
    files = [results / f"{kernel.name}.json" for kernel in matrix.KERNELS]
    kernels = [json.loads(file.read_text()) for file in files if file.exists()]
    working = [kernel for kernel in kernels if kernel["programs"]]
    if not working:
        sys.exit(f"{results} has no results: run `make test-kernels` first")
    accel = {"tcg": "qemu TCG", "kvm": "qemu KVM"}[working[0]["accelerator"]]
    print(f"# Kernels: what loads, what fires, what the verifier takes, {sys.argv[2]}\n")
    print(f"Machine: {accel}, 2 CPUs; Debian's kernels. Made by `scripts/kernels/table.py` from what `make test-kernels` left.")
    print("Times on an emulated machine tell what is dear and what is cheap, not how long it takes elsewhere.\n")
    table(["kernel", "release", "whole run", "came of it"], [
        [kernel["kernel"], kernel["release"], f"{kernel['seconds']:.0f} s", outcome(kernel)] for kernel in kernels
    ])  # fmt: skip
    print("## Probes: targets attached, and how often they were seen to fire\n")
    by_probe(working, lambda kernel: {
        (row["probe"], row["flavour"]): f"{row['attached']} / {row['fired']}" if row["attached"] else "absent"
        for row in kernel["probes"]
    })  # fmt: skip
    print("## Verifier: instructions gone through (of 1,000,000), as the kernel tells\n")
    print("The best kind of probe of each kernel. In brackets: instructions of the program as loaded.\n")
    by_probe(working, lambda kernel: {
        (program["probe"], program["program"]): f"{program['verified_insns']:,} ({program['instructions']:,})"
        for program in kernel["programs"]
    })  # fmt: skip
    print("## Loading a probe, maps included, ms\n")
    by_probe(working, lambda kernel: {(probe, ""): f"{ms:,.0f}" for probe, ms in kernel["load_ms"].items()})
    print("## An empty probe pair, us a call\n")
    by_probe(working, lambda kernel: {(kind, ""): f"{ns / 1000:.1f}" for kind, ns in kernel["trap_ns"].items()})


def outcome(kernel):
    if kernel["wrong"]:
        return "; ".join(kernel["wrong"])
    return kernel["said"][0] if kernel["said"] else "every probe as it must be"


def by_probe(kernels, cells):
    """A row for each thing, a column for each kernel."""
    columns = [cells(kernel) for kernel in kernels]
    keys = list(dict.fromkeys(key for column in columns for key in column))
    rows = [[" ".join(f"`{word}`" if word else "" for word in key).strip()] for key in keys]
    for row, key in zip(rows, keys):
        row += [column.get(key, "") for column in columns]
    table(["", *(kernel["kernel"] for kernel in kernels)], rows)


def table(head, rows):
    for row in [head, ["---"] * len(head), *rows]:
        print(f"| {' | '.join(row)} |")
    print()


if __name__ == "__main__":
    main()
