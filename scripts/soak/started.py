"""All that the soak starts, so that nothing of a part outlives it."""

import subprocess
from pathlib import Path

STARTED = []


def popen(command, **more):
    command = [str(word) for word in command]
    process = subprocess.Popen(command, **more)
    STARTED.append((Path(command[0]).name, process))
    return process


def end_all():
    """Kills what has not ended; its names."""
    left = [(name, process) for name, process in STARTED if process.poll() is None]
    STARTED.clear()
    for _, process in left:
        process.kill()
        process.wait()
    return [name for name, _ in left]
