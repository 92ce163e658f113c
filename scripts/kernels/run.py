#!/usr/bin/env python3
"""Boots other kernels and tries every probe on each: run.py GPUWHY STAND-IN-FOLDER RESULTS-FOLDER [KERNEL...]"""

import json
import os
import pathlib
import platform
import shutil
import sys
import time

import archive
import cache
import image
import machine
import matrix
import verdict

# Emulated, on a busy host.
LIMIT_S = 600
TOOLS = ("qemu-system-x86_64", "busybox", "cpio", "dpkg-deb", "strip")


def main():
    gpuwhy, stand_in, results = map(pathlib.Path, sys.argv[1:4])
    kernels = matrix.chosen(sys.argv[4:])
    missing = [tool for tool in TOOLS if not shutil.which(tool)]
    if missing or platform.machine() != "x86_64":
        return skip("all kernels", f"this needs an x86-64 machine with {', '.join(missing or TOOLS)}")
    results.mkdir(parents=True, exist_ok=True)
    accel, failed = None, False
    for kernel in kernels:
        if not cache.about(kernel) or os.environ.get("GPUWHY_KERNELS_REFRESH"):
            try:
                cache.fetch(kernel)
            except archive.NotThere as error:
                failed |= skip(kernel.name, error)
                continue
        accel = accel or machine.accelerator(kernel)
        failed |= try_kernel(kernel, accel, gpuwhy, stand_in, results)
    return failed


def skip(what, why):
    """Whether that is a failure."""
    print(f"SKIPPED {what}: {why}", file=sys.stderr)
    return os.environ.get("GPUWHY_REQUIRE") == "all"


def try_kernel(kernel, accel, gpuwhy, stand_in, results):
    at = {kind: results / f"{kernel.name}.{kind}" for kind in ("initramfs", "console", "steps", "json")}
    for file in at.values():
        file.unlink(missing_ok=True)
    began = time.monotonic()
    image.build(kernel, gpuwhy, stand_in, at["initramfs"])
    steps = machine.run(kernel, accel, at["initramfs"], at["console"], at["steps"], LIMIT_S)
    at["initramfs"].unlink()
    seconds = round(time.monotonic() - began, 1)
    rows, wrong = verdict.judge(kernel, steps)
    release = steps.get("kernel", {}).get("output", "did not boot")
    tested = verdict.selftest(steps)
    document = {
        "kernel": kernel.name,
        "release": release,
        **cache.about(kernel),
        "accelerator": accel,
        "seconds": seconds,
        "step_seconds": {name: step["seconds"] for name, step in steps.items() if "." not in name},
        "said": [] if kernel.flavours else [step["errors"] for step in steps.values() if step["errors"]],
        "probes": rows,
        "programs": tested.get("programs", []),
        "load_ms": tested.get("load_ms", {}),
        "trap_ns": tested.get("trap_ns", {}),
        "wrong": wrong,
    }
    at["json"].write_text(json.dumps(document, indent=1) + "\n")
    show(document, results)
    return bool(wrong)


def show(document, results):
    print(f"\n{document['kernel']}: Linux {document['release']} ({document['accelerator']}), {document['seconds']} s")
    for row in document["probes"]:
        loaded = "loaded" if row["loaded"] else "NOT LOADED"
        print(f"  {row['probe']:<9}{row['flavour']:<12}{loaded:<11}", end="")
        print(f"{row['attached']:>4} attached {row['fired']:>5} fired  {row['reason']}")
    for line in document["said"]:
        print(f"  refused, as it must be: {line}")
    for line in document["wrong"]:
        print(f"  WRONG {line}")
    if document["wrong"]:
        print(f"  more in {results}/{document['kernel']}.steps and .console")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
