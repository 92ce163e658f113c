"""Programs on the simulated GPU that say what they did, and what is done to them."""

import json
import os
import random
import shutil
import signal
import subprocess
import time
from pathlib import Path

from started import popen

V1 = Path("/sys/fs/cgroup/pids")


def truth(output):
    """The line a workload ends with, or nothing where it was killed."""
    for line in reversed(output.splitlines()):
        if line.startswith("{"):
            return json.loads(line)
    return None


class Workloads:
    """Starts them; `true` has each that ended well, its process id, its launches and when it lived, as numbers of processes come again
    after some thousands; `loose` those whose first calls may be missed."""

    def __init__(self, stand_in, folder, seed):
        self.stand_in, self.folder, self.random = stand_in, folder, random.Random(seed)
        self.true, self.loose, self.done, self.began = [], [], {}, {}
        self.copies = 0

    def note(self, kind, started, exact=True):
        output, _ = started.communicate(timeout=120)
        said = truth(output)
        self.done[kind] = self.done.get(kind, 0) + 1
        if said and started.returncode == 0:
            lived = (self.began.pop(started.pid), time.time_ns())
            (self.true if exact else self.loose).append((said["pid"], said["ops"].get("cuLaunchKernel", 0), lived))

    def start(self, *words, folder=None, before=(), **more):
        command = [*before, (folder or self.stand_in) / "simwork", "launch", "--via", "driver", *words]
        return self.popen(command, **more)

    def popen(self, command, **more):
        began = time.time_ns()
        started = popen(command, stdout=subprocess.PIPE, text=True, **more)
        self.began[started.pid] = began
        return started

    def storm(self):
        """Many short processes at once."""
        kind = "process storm"
        count = self.random.randrange(20, 80)
        started = [self.start("--launches", self.random.randrange(1, 2_000)) for _ in range(count)]
        for one in started:
            self.note(kind, one)

    def pythons(self):
        """Programs in Python, whose stacks are read from outside while they begin and end."""
        command = [self.stand_in / "simwork.py", "train", "--steps", self.random.randrange(1, 100)]
        started = [self.popen(command) for _ in range(self.random.randrange(1, 4))]
        for one in started:
            self.note("Python program", one)

    def containers(self):
        """Processes in namespaces and cgroups of their own, which are gone with them."""
        for _ in range(self.random.randrange(3, 10)):
            cgroup = V1 / f"gpuwhy-soak-{os.getpid()}-{self.random.randrange(1 << 30)}"
            enter = []
            if V1.is_dir():
                cgroup.mkdir()
                enter = ["sh", "-c", f'echo $$ > {cgroup}/cgroup.procs && exec "$@"', "sh"]
            # In a pid namespace the workload's own number is not the host's, so these are only counted as run.
            pid_namespace = self.random.random() < 0.3
            before = [*enter, "unshare", "--mount", "--uts", "--ipc", *(["--pid", "--fork"] if pid_namespace else [])]
            started = self.start("--launches", 500, before=before)
            if pid_namespace:
                started.communicate(timeout=120)
                self.done["container"] = self.done.get("container", 0) + 1
            else:
                self.note("container", started)
            if enter:
                cgroup.rmdir()

    def time_namespaces(self):
        """Processes whose clocks are days ahead; the host's own clock is never set."""
        offset = str(self.random.randrange(1, 30) * 86_400)
        self.note("other clock", self.start("--launches", 1_000, before=["unshare", "--time", "--monotonic", offset, "--boottime", offset]))

    def own_folder(self):
        self.copies += 1
        folder = self.folder / f"copy{self.copies}"
        folder.mkdir()
        for name in ("simwork", "libcuda.so.1", "libcudart.so.12", "libnccl.so.2", "libnvidia-ml.so.1"):
            shutil.copy2(self.stand_in / name, folder / name)
        return folder

    def replaced_libraries(self):
        """A library that gets another file under its name while processes run it, and one that is written over in place."""
        folder = self.own_folder()
        library = folder / "libcuda.so.1"
        first = self.start("--launches", 0, "--gap-us", 200, "--stop-file", folder / "stop", folder=folder)
        time.sleep(0.5)
        shutil.copy2(library, folder / "new")
        (folder / "new").rename(library)
        second = self.start("--launches", 2_000, "--gap-us", 100, folder=folder)
        time.sleep(0.3)
        (folder / "stop").touch()
        self.note("replaced library", first, exact=False)
        self.note("replaced library", second, exact=False)
        # In place: the process may die of it, the agent must not.
        third = self.start("--launches", 2_000, "--gap-us", 100, folder=folder)
        time.sleep(0.2)
        with open(library, "r+b") as file:
            content = file.read()
            file.seek(0)
            file.write(content[:len(content) // 2])
            file.truncate()
            time.sleep(0.05)
            file.write(content[len(content) // 2:])
        third.communicate(timeout=120)
        self.done["library cut in place"] = self.done.get("library cut in place", 0) + 1
        shutil.rmtree(folder)

    def stopped(self):
        """A process that is stopped in its calls and goes on, and one that is killed while it is stopped."""
        first, second = (self.start("--launches", 3_000, "--gap-us", 100) for _ in range(2))
        time.sleep(0.2)
        for one in (first, second):
            one.send_signal(signal.SIGSTOP)
        time.sleep(self.random.uniform(0.2, 1.5))
        second.kill()
        second.communicate(timeout=120)
        first.send_signal(signal.SIGCONT)
        self.note("stopped and continued", first)
