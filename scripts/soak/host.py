"""What the soak looks at from outside: eBPF objects by number, probed code in memory, memory in use, trace files."""

import contextlib
import ctypes
import os
import sqlite3
import subprocess
import time
from pathlib import Path

SYS_BPF = {"x86_64": 321, "aarch64": 280}[os.uname().machine]
# BPF_PROG_GET_FD_BY_ID, BPF_LINK_GET_FD_BY_ID
BY_ID = {"prog_id": 13, "link_id": 30}
LIBC = ctypes.CDLL(None, use_errno=True)


def exists(kind, number):
    """Whether the kernel still has the program or link of that number."""
    attributes = ctypes.create_string_buffer(number.to_bytes(4, "little"), 120)
    fd = LIBC.syscall(SYS_BPF, BY_ID[kind], attributes, 120)
    if fd >= 0:
        os.close(fd)
    return fd >= 0


def objects_of(pid):
    """The eBPF programs and links a process holds, by kind and number: others may trace on this host, too."""
    found = set()
    for entry in Path(f"/proc/{pid}/fdinfo").iterdir():
        try:
            text = entry.read_text()
        except OSError:
            continue
        for line in text.splitlines():
            name, _, value = line.partition(":")
            if name in BY_ID:
                found.add((name, int(value)))
    return found


def left_of(objects, patience_s=10):
    """Those that are still there after a while: the kernel drops them in its own time."""
    end = time.monotonic() + patience_s
    left = set(objects)
    while left and time.monotonic() < end:
        left = {one for one in left if exists(*one)}
        if left:
            time.sleep(0.05)
    return left


def changed_code(pid, library):
    """Bytes of a library's code that differ in a process's memory from its file: breakpoints of probes."""
    changed = 0
    with open(f"/proc/{pid}/mem", "rb") as memory:
        for line in Path(f"/proc/{pid}/maps").read_text().splitlines():
            fields = line.split(maxsplit=5)
            if len(fields) < 6 or "x" not in fields[1] or Path(fields[5]).name != library:
                continue
            start, end = (int(part, 16) for part in fields[0].split("-"))
            memory.seek(start)
            mapped = memory.read(end - start)
            with open(fields[5], "rb") as file:
                file.seek(int(fields[2], 16))
                stored = file.read(end - start)
            changed += sum(a != b for a, b in zip(mapped, stored))
    return changed


def other_agents(own):
    """Whether somebody else traces this host: probes of theirs are in the same code as ours. `own` are ours."""
    for comm in Path("/proc").glob("[0-9]*/comm"):
        try:
            if comm.read_text().strip() == "gpuwhy" and int(comm.parent.name) not in own:
                words = (comm.parent / "cmdline").read_bytes().split(b"\0")
                if {b"trace", b"demo", b"check", b"top", b"agent"} & set(words[1:2]):
                    return True
        except OSError:
            continue
    return False


def code_left(pids, library, patience_s=60):
    """Bytes of probes that are left in processes' code when our agent is gone. Nothing where others trace all the time."""
    end = time.monotonic() + patience_s
    while time.monotonic() < end:
        if not other_agents(()):
            changed = sum(changed_code(pid, library) for pid in pids)
            # One that began meanwhile, or was just ending, has put them there.
            if not changed or not other_agents(()):
                return changed
        time.sleep(0.2)
    return None


def rss_kib(pid):
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1])
    return 0


def children_rss_kib(pid):
    """Of the largest process that it has started and that has not ended."""
    most = 0
    for children in Path(f"/proc/{pid}/task").glob("*/children"):
        with contextlib.suppress(OSError):
            most = max([most, *(rss_kib(child) for child in children.read_text().split())])
    return most


def slope(samples):
    """KiB a minute, by least squares over (seconds, KiB)."""
    if len(samples) < 2:
        return 0.0
    mean_x = sum(x for x, _ in samples) / len(samples)
    mean_y = sum(y for _, y in samples) / len(samples)
    spread = sum((x - mean_x)**2 for x, _ in samples)
    return 60 * sum((x - mean_x) * (y - mean_y) for x, y in samples) / spread if spread else 0.0


@contextlib.contextmanager
def small_disk(folder, size):
    """A disk of its own at a folder, gone afterwards; whether it could be mounted."""
    folder.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "none", folder], capture_output=True)
    try:
        yield mounted.returncode == 0
    finally:
        if mounted.returncode == 0:
            subprocess.run(["umount", folder], check=False)


def fill(disk):
    """Leaves no room on it; the file to be removed for that."""
    filler = disk / "filler"
    with open(filler, "wb", buffering=0) as file, contextlib.suppress(OSError):
        while file.write(b"x" * 65536) == 65536:
            pass
    return filler


def opened(path):
    return contextlib.closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True))


def check_trace(program, path):
    """What is wrong with a trace file; nothing if nothing is."""
    try:
        with opened(path) as db:
            found = db.execute("PRAGMA integrity_check").fetchone()[0]
        if found != "ok":
            return f"{path.name}: {found}"
    except sqlite3.Error as error:
        return f"{path.name}: {error}"
    explained = subprocess.run([program, "explain", "--json", "--db", path], capture_output=True, text=True)
    # A trace in which nothing was slow has nothing to explain: that is no error.
    if explained.returncode not in (0, 2):
        return f"{path.name}: explain ended with {explained.returncode}: {explained.stderr.strip()[:300]}"
    return None


# As long as a window of sums.
WINDOW_NS = 500_000_000


class Counted:
    """Calls of an operation in a trace, by process and time."""

    def __init__(self, path, op="cuLaunchKernel"):
        self.windows = {}
        with opened(path) as db:
            for pid, start, count in db.execute("SELECT pid, window_start_ns, count FROM call_stats WHERE op = ?", (op,)):
                self.windows.setdefault(pid, []).append((start, count))

    def of(self, pid, lived):
        begin, end = lived
        return sum(count for start, count in self.windows.get(pid, []) if begin - WINDOW_NS < start < end)
