"""Tells a running `gpuwhy trace --annotate` which step, epoch or request a program is at.

    from gpuwhy_annotate import step, epoch, request, label

    for i, batch in enumerate(loader):
        with step(i):            # begins here, ends with the block
            train(batch)

    step(140)                    # without a block it lasts until the next step
    label("phase", "warmup")     # a moment

It never raises, never waits, and does nothing while no trace listens: a training loop can keep it. Marks that could not be
sent are counted in `dropped()`. One file, no dependencies, CPython 3.9 and newer.

The socket is $GPUWHY_ANNOTATE, else $XDG_RUNTIME_DIR/gpuwhy/annotate.sock, else /run/gpuwhy/annotate.sock.
GPUWHY_ANNOTATE=off turns it off.
"""

import json
import os
import socket
import threading
import time

__all__ = ["step", "epoch", "request", "label", "span", "begin", "end", "dropped", "Span"]
__version__ = "0.1.0"

# Looking for a trace costs a system call or two: not more often than this, in seconds.
_LOOK_EVERY = 2.0
# What may wait for a trace that does not read, in bytes.
_MOST_WAITING = 256 * 1024


class _Sender:
    """The connection, and what could not be sent yet. All methods need the lock."""

    def __init__(self):
        self.lock = threading.RLock()
        self.dropped = 0
        self._forget()

    def _forget(self):
        self.socket = None
        self.pid = None
        self.looked = None
        self.waiting = b""

    def send(self, line):
        # The kernel says who connected: a child that was forked must connect for itself.
        if self.pid != os.getpid():
            self._forget()
            self.pid = os.getpid()
        if self.socket is None and not self._connect():
            return
        if len(self.waiting) + len(line) > _MOST_WAITING:
            self.dropped += 1
            line = b""
        self.waiting += line
        try:
            while self.waiting:
                self.waiting = self.waiting[self.socket.send(self.waiting) :]
        except (BlockingIOError, InterruptedError):
            pass  # The rest goes with the next one.
        except OSError:
            # The trace has ended. What waited was for it.
            self.dropped += self.waiting.count(b"\n")
            self.close()

    def _connect(self):
        now = time.monotonic()
        if self.looked is not None and now - self.looked < _LOOK_EVERY:
            return False
        self.looked = now
        for path in _paths():
            connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            try:
                connection.setblocking(False)
                connection.connect(path)
            except OSError:
                connection.close()
                continue
            self.socket = connection
            return True
        return False

    def close(self):
        if self.socket is not None:
            self.socket.close()
        self.socket = None
        self.waiting = b""


def _paths():
    named = os.environ.get("GPUWHY_ANNOTATE", "")
    if named:
        return [] if named == "off" else [named]
    folder = os.environ.get("XDG_RUNTIME_DIR", "")
    own = [folder + "/gpuwhy/annotate.sock"] if folder.startswith("/") else []
    return own + ["/run/gpuwhy/annotate.sock"]


_sender = _Sender()


def _after_fork():
    # Another thread may have held the lock, and the connection is the parent's.
    global _sender
    parents, _sender = _sender, _Sender()
    if parents.socket is not None:
        parents.socket.close()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


def _text(value):
    # As it will be read: one line, not too long.
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        text = value if isinstance(value, str) else str(value)
        text = "".join(c if c.isprintable() else "?" for c in text[:256])
        while len(text.encode("utf-8", "replace")) > 256:
            text = text[:-1]
        return text.encode("utf-8", "replace").decode("utf-8")
    return value if isinstance(value, int) and abs(value) < 2**63 else str(value)


def _say(do, name, value, labels):
    try:
        all_labels = {str(name): _text(value)}
        for key, other in labels.items():
            all_labels.setdefault(str(key), _text(other))
        line = {"do": do, "labels": all_labels, "monotonic_ns": time.monotonic_ns()}
        data = json.dumps(line, separators=(",", ":")).encode() + b"\n"
        sender = _sender
        with sender.lock:
            sender.send(data)
    except Exception:  # Whatever it is, it is not worth a training run.
        pass


class Span:
    """What lasts. Ends with its block, or with `end()`."""

    __slots__ = ("name", "value", "labels", "is_over")

    def __init__(self, name, value, labels, do):
        self.name, self.value, self.labels, self.is_over = name, value, labels, False
        _say(do, name, value, labels)

    def end(self):
        if not self.is_over:
            self.is_over = True
            _say("end", self.name, self.value, {})

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.end()
        return False


def step(number, **labels):
    """A training step. It ends with its block, or when the next one begins."""
    return Span("step", number, labels, "next")


def epoch(number, **labels):
    """An epoch. It ends with its block, or when the next one begins."""
    return Span("epoch", number, labels, "next")


def request(id, **labels):
    """A request, many of which may be open at once. It ends with its block, or with `end()`."""
    return Span("request", id, labels, "begin")


def span(name, value="", **labels):
    """Anything else that lasts, as `span("phase", "prefill")`. It ends with its block, or with `end()`."""
    return Span(name, value, labels, "begin")


def label(name, value="", **labels):
    """A moment."""
    _say("at", name, value, labels)


def begin(name, value="", **labels):
    """For callbacks that have no block: the beginning of a span."""
    _say("begin", name, value, labels)


def end(name, value=""):
    """For callbacks that have no block: the end of what began with this name and value."""
    _say("end", name, value, {})


def dropped():
    """Marks of this process that a trace should have got and did not."""
    return _sender.dropped
