"""Looks like `vllm serve`, and serves its page of metrics: requests are work on the stand-in GPU, and for a while slow.

vllm.py serve MODEL --port PORT --sim SIM --requests N --slow FROM TO"""

import argparse
import http.server
import json
import os
import sys
import threading
import time
import types

parser = argparse.ArgumentParser()
parser.add_argument("command", choices=["serve"])
parser.add_argument("model")
parser.add_argument("--port", type=int)
parser.add_argument("--sim")
parser.add_argument("--seconds", type=float)
parser.add_argument("--slow", nargs=2, type=float)
options = parser.parse_args()
sys.path.insert(0, options.sim)
import simwork


class Histogram:
    def __init__(self, name, bounds):
        self.name, self.bounds, self.counts, self.sum = name, bounds, [0] * (len(bounds) + 1), 0.0

    def add(self, value):
        self.counts[sum(value > bound for bound in self.bounds)] += 1
        self.sum += value

    def page(self, labels):
        lines, below = [f"# TYPE {self.name} histogram"], 0
        for bound, count in zip([*map(str, self.bounds), "+Inf"], self.counts):
            below += count
            lines.append(f'{self.name}_bucket{{le="{bound}",{labels}}} {below}.0')
        return lines + [f"{self.name}_count{{{labels}}} {below}.0", f"{self.name}_sum{{{labels}}} {self.sum}"]


class Metrics:
    def __init__(self):
        self.lock = threading.Lock()
        self.ttft = Histogram("vllm:time_to_first_token_seconds", [0.001, 0.005, 0.01, 0.02, 0.04, 0.1, 0.25, 1.0])
        self.itl = Histogram("vllm:inter_token_latency_seconds", [0.001, 0.01, 0.1])
        self.tokens = self.requests = 0

    def page(self):
        labels = f'engine="0",model_name="{options.model}"'
        with self.lock:
            lines = [
                f"vllm:num_requests_running{{{labels}}} 1.0",
                f"vllm:num_requests_waiting{{{labels}}} 2.0",
                f"vllm:kv_cache_usage_perc{{{labels}}} 0.5",
                f"vllm:num_preemptions_total{{{labels}}} 0.0",
                f"vllm:generation_tokens_total{{{labels}}} {self.tokens}.0",
                f'vllm:request_success_total{{finished_reason="stop",{labels}}} {self.requests}.0',
            ]
            return "\n".join(lines + self.ttft.page(labels) + self.itl.page(labels)) + "\n"


metrics = Metrics()


class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        body = metrics.page().encode()
        self.send_response(200)
        self.send_header("Content-Type", "text/plain; version=0.0.4")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


server = http.server.ThreadingHTTPServer(("127.0.0.1", options.port), Handler)
threading.Thread(target=server.serve_forever, daemon=True).start()
gpu = simwork.Gpu(12)
gpu.driver.simgpu_set(b"kernel_ns", 300_000)
model = simwork.Model(gpu, types.SimpleNamespace(copy_bytes=1 << 16, launches_per_step=5, malloc_every=0))
began = time.monotonic()
while (now := time.monotonic() - began) < options.seconds:
    slow = options.slow[0] <= now < options.slow[1]
    gpu.driver.simgpu_set(b"launch_sleep_ns", 10_000_000 if slow else 0)
    begin = time.monotonic()
    model.step(0)
    took = time.monotonic() - begin
    with metrics.lock:
        metrics.ttft.add(took)
        metrics.itl.add(took / 5)
        metrics.tokens += 5
        metrics.requests += 1
    time.sleep(0.005)
model.close()
print(json.dumps({"pid": os.getpid(), "requests": metrics.requests}), flush=True)
