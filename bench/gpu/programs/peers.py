"""The processes beside a program: peers.py NAME [ARGUMENT]. None of them uses PyTorch, so that they start at once."""

import fcntl
import http.server
import os
import socket
import sys
import time


def busy(core):
    """Computes without end on one core."""
    os.sched_setaffinity(0, {int(core)})
    while True:
        pass


def reader():
    """Takes one pipe's fill of its input at a time, slowly."""
    while os.read(0, 1 << 16):
        time.sleep(0.02)  # MARK slow_reader


class Answers(http.server.BaseHTTPRequestHandler):
    """Looks an answer up, which is slow."""

    def do_GET(self):
        body = self.look_up()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def look_up(self):
        time.sleep(0.015)  # MARK http_server
        return b"an answer"

    def log_message(self, *_):
        """Its log would go to the program's."""


def server():
    listener = http.server.HTTPServer(("127.0.0.1", 0), Answers)
    print(listener.server_port, flush=True)
    listener.serve_forever()


def foreign():
    """Answers each byte of a connection 15 ms later. Says its port first."""
    listener = socket.create_server(("127.0.0.1", 0))
    print(listener.getsockname()[1], flush=True)
    while True:
        client, _ = listener.accept()
        with client:
            while client.recv(1):
                time.sleep(0.015)  # MARK foreign_peer
                client.sendall(b"!")


def locker(path):
    """Holds the lock of a file most of the time."""
    with open(path, "w") as file:
        while True:
            fcntl.flock(file, fcntl.LOCK_EX)
            time.sleep(0.018)  # MARK hold_file
            fcntl.flock(file, fcntl.LOCK_UN)
            time.sleep(0.002)


def evaluate():
    """Computes for a tenth of a second."""
    until = time.perf_counter() + 0.1
    while time.perf_counter() < until:
        sum(number * number for number in range(20_000))  # MARK evaluate


if __name__ == "__main__":
    roles = {"busy": busy, "reader": reader, "server": server, "foreign": foreign, "locker": locker, "evaluate": evaluate}
    roles[sys.argv[1]](*sys.argv[2:])
