"""A machine that boots a kernel under test, and what it says on its serial lines."""

import os
import re
import subprocess
import time

import cache

# Grace periods are what taking off a probe waits for; without this a thousand of them take minutes.
ARGUMENTS = "console=ttyS0 quiet panic=-1 rcupdate.rcu_expedited=1"
DISK_BYTES = 16 << 20
# CPUs by turns: those of their own threads run into breakpoints that the kernel has just taken out of its code (switching tracepoints).
EMULATED = "tcg,thread=single"


def accelerator(kernel):
    """KVM where it boots the kernel: on some hosts it can be opened, and then nothing happens."""
    named = os.environ.get("GPUWHY_QEMU_ACCEL")
    if named or not os.access("/dev/kvm", os.R_OK | os.W_OK):
        return named or "tcg"
    test = _command(kernel, "kvm") + ["-append", "console=ttyS0 panic=-1", "-serial", "stdio"]
    try:
        said = subprocess.run(test, stdin=subprocess.DEVNULL, capture_output=True, timeout=5).stdout
    except subprocess.TimeoutExpired as late:
        said = late.stdout or b""
    return "kvm" if b"Linux version" in said else "tcg"


def run(kernel, accel, initramfs, console, results, limit_s):
    """Boots it and waits for its last word; returns the steps, by name."""
    disk = initramfs.with_suffix(".disk")
    with open(disk, "wb") as file:
        file.truncate(DISK_BYTES)
    command = _command(kernel, accel) + ["-initrd", initramfs, "-append", ARGUMENTS]
    command += ["-serial", f"file:{console}", "-serial", f"file:{results}"]
    # A slow disk: requests of less than a millisecond are not told of.
    command += ["-drive", f"file={disk},format=raw,if=none,id=disk,throttling.iops-total=50"]
    command += ["-device", "virtio-blk-pci,drive=disk"]
    began = time.monotonic()
    machine = subprocess.Popen(command, stdin=subprocess.DEVNULL)
    try:
        while machine.poll() is None and time.monotonic() - began < limit_s:
            if results.exists() and b"@done" in results.read_bytes()[-100:]:
                break
            time.sleep(0.2)
    finally:
        machine.kill()
        machine.wait()
        disk.unlink()
    return steps(results.read_text(errors="replace") if results.exists() else "")


def _command(kernel, accel):
    return [
        "qemu-system-x86_64", "-nodefaults", "-display", "none", "-no-reboot", "-accel", EMULATED if accel == "tcg" else accel,
        "-cpu", "host" if accel == "kvm" else "max", "-m", "2048", "-smp", "2",
        "-kernel", cache.folder() / kernel.name / "vmlinuz",
    ]  # fmt: skip


STEP = re.compile(
    r"^@begin (?P<name>\S+)\n(?P<output>.*?)^@errors (?P=name)\n(?P<errors>.*?)"
    r"^@end (?P=name) (?P<status>\d+) (?P<began>[\d.]+) (?P<ended>[\d.]+)$",
    re.MULTILINE | re.DOTALL,
)


def steps(text):
    return {
        match["name"]: {
            "output": match["output"].strip(),
            "errors": match["errors"].strip(),
            "status": int(match["status"]),
            "seconds": round(float(match["ended"]) - float(match["began"]), 2),
        }
        for match in STEP.finditer(text.replace("\r", ""))
    }
