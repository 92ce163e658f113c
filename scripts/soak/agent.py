"""`gpuwhy trace` as the soak runs it."""

import signal
import subprocess
import threading

from host import objects_of
from started import popen

PATIENCE_S = 60


class Agent:
    """Traces every process of the host into a file; what it says is kept beside that."""

    def __init__(self, program, out, *options, log=None):
        self.out, self.log = out, log or out.with_suffix(".log")
        self.said = open(self.log, "ab")
        self.process = popen(
            [program, "trace", "--json", "--budget", "100%", "--out", out, *options],
            stdout=subprocess.PIPE, stderr=self.said)
        self.attached = threading.Event()
        self.reader = threading.Thread(target=self.read, daemon=True)
        self.reader.start()

    def read(self):
        """All of it, so that a full pipe holds nobody; sums come from when everything is attached."""
        for line in self.process.stdout:
            if b'"type":"sums"' in line:
                self.attached.set()

    @property
    def pid(self):
        return self.process.pid

    def await_attached(self):
        return self.attached.wait(PATIENCE_S)

    def is_running(self):
        return self.process.poll() is None

    def kill(self):
        """SIGKILL; the eBPF objects it held until then."""
        held = objects_of(self.pid)
        self.process.kill()
        self.finish()
        return held

    def end(self):
        """Ctrl-C; its exit status."""
        if self.is_running():
            self.process.send_signal(signal.SIGINT)
        return self.finish()

    def finish(self):
        try:
            status = self.process.wait(timeout=PATIENCE_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            status = f"did not end within {PATIENCE_S} s of its signal"
            self.process.wait()
        self.reader.join(timeout=5)
        self.said.close()
        return status
