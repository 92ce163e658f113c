"""Forks programs from a process that has imported PyTorch, which takes seconds, and has not used CUDA: zygote.py SOCKET.

A client sends one JSON line, `{"arguments": [..], "stderr": FILE}`, and gets one with the pid, then one with the exit
status. One program at a time."""

import importlib
import json
import os
import socket
import sys

import run
from table import PROGRAMS


def load():
    """What programs import. The optimizer imports the compiler's front end at its first step, a second or more."""
    for module in ["torch", "torch.utils.data", "torch.distributed", "torch._dynamo", *sorted({program.module for program in PROGRAMS})]:
        try:
            importlib.import_module(module)
        except ImportError as why:
            print(f"zygote: {module}: {why}", file=sys.stderr)


def serve(listener):
    """Returns the arguments in each forked child, and None when the client asks for the end."""
    while True:
        client, _ = listener.accept()
        with client, client.makefile("rw") as stream:
            line = stream.readline()
            if not line.strip():
                return None
            request = json.loads(line)
            pid = os.fork()
            if pid == 0:
                listener.close()
                become_program(request["stderr"])
                return request["arguments"]
            try:
                stream.write(json.dumps({"pid": pid}) + "\n")
                stream.flush()
            finally:
                _, status = os.waitpid(pid, 0)
            stream.write(json.dumps({"status": os.waitstatus_to_exitcode(status)}) + "\n")


def become_program(stderr):
    """A process group of its own, so that what the program leaves behind can be ended with it."""
    os.setpgid(0, 0)
    output = os.open(stderr, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
    os.dup2(output, 1)
    os.dup2(output, 2)
    os.close(output)


def main():
    load()
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(sys.argv[1])
    listener.listen()
    arguments = serve(listener)
    if arguments is not None:
        run.main(arguments)


if __name__ == "__main__":
    main()
