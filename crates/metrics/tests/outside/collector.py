"""An OTLP server to push to, which behaves as it is told.

collector.py grpc|http PORT|0 [--tls CERT KEY]: prints its port, then reads words from standard input:
    ok                take everything
    fail STATUS [N]   answer with the status (HTTP's number, gRPC's name), and N seconds as when to come again
    slow SECONDS      answer only after so long
    partial N         take all but N items
    report            print what was taken as one line of JSON
Everything is decoded with OpenTelemetry's own classes; what does not decode is counted as broken.
"""

import gzip
import http.server
import json
import ssl
import sys
import threading
import time

from google.protobuf import any_pb2, duration_pb2
from google.protobuf.json_format import MessageToDict
from opentelemetry.proto.collector.logs.v1 import logs_service_pb2 as logs
from opentelemetry.proto.collector.metrics.v1 import metrics_service_pb2 as metrics
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2 as traces

REQUESTS = {
    "metrics": (metrics.ExportMetricsServiceRequest, metrics.ExportMetricsServiceResponse, "rejected_data_points"),
    "logs": (logs.ExportLogsServiceRequest, logs.ExportLogsServiceResponse, "rejected_log_records"),
    "traces": (traces.ExportTraceServiceRequest, traces.ExportTraceServiceResponse, "rejected_spans"),
}


def items(signal, request):
    """Data points, records or spans in a request."""
    if signal == "logs":
        return sum(len(s.log_records) for r in request.resource_logs for s in r.scope_logs)
    if signal == "traces":
        return sum(len(s.spans) for r in request.resource_spans for s in r.scope_spans)
    kinds = ["gauge", "sum", "histogram", "exponential_histogram"]
    return sum(
        len(getattr(m, k).data_points)
        for r in request.resource_metrics
        for s in r.scope_metrics
        for m in s.metrics
        for k in kinds
        if m.HasField(k)
    )


class Behaviour:
    def __init__(self):
        self.lock = threading.Lock()
        self.status, self.after, self.slow, self.partial = None, None, 0.0, 0
        self.taken = {signal: [] for signal in REQUESTS}
        self.asked, self.broken, self.headers, self.times = 0, 0, {}, []

    def told(self, words):
        with self.lock:
            self.status, self.after, self.slow, self.partial = None, None, 0.0, 0
            if words[0] == "fail":
                self.status = words[1]
                self.after = float(words[2]) if len(words) > 2 else None
            elif words[0] == "slow":
                self.slow = float(words[1])
            elif words[0] == "partial":
                self.partial = int(words[1])

    def answer(self, signal, body, headers):
        """The status to fail with and when to come again, or the reply."""
        with self.lock:
            self.asked += 1
            self.times.append(time.time())
            self.headers.update(headers)
            status, after, slow = self.status, self.after, self.slow
        if slow:
            time.sleep(slow)
        if status:
            return status, after, None
        request_class, reply_class, rejected = REQUESTS[signal]
        reply = reply_class()
        with self.lock:
            try:
                request = request_class.FromString(body)
            except Exception:
                self.broken += 1
                return None, None, reply
            self.taken[signal].append(request)
            if self.partial:
                setattr(reply.partial_success, rejected, self.partial)
                reply.partial_success.error_message = "not these"
        return None, None, reply

    def report(self):
        with self.lock:
            return {
                "asked": self.asked,
                "broken": self.broken,
                "headers": self.headers,
                "times": self.times,
                "items": {s: sum(items(s, r) for r in rs) for s, rs in self.taken.items()},
                "requests": {s: [MessageToDict(r) for r in rs] for s, rs in self.taken.items()},
            }


behaviour = Behaviour()


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        if self.headers.get("Content-Encoding") == "gzip":
            body = gzip.decompress(body)
        signal = self.path.rsplit("/", 1)[-1]
        if self.path != f"/v1/{signal}" or signal not in REQUESTS:
            return self.reply(404, b"")
        status, after, reply = behaviour.answer(signal, body, {k.lower(): v for k, v in self.headers.items()})
        if status:
            return self.reply(int(status), b"", after)
        self.reply(200, reply.SerializeToString())

    def reply(self, status, body, after=None):
        self.send_response(status)
        self.send_header("Content-Type", "application/x-protobuf")
        self.send_header("Content-Length", str(len(body)))
        if after is not None:
            self.send_header("Retry-After", str(int(after)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *words):
        pass


def serve_http(port, tls):
    server = http.server.ThreadingHTTPServer(("127.0.0.1", port), Handler)
    server.daemon_threads = True
    if tls:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(*tls)
        server.socket = context.wrap_socket(server.socket, server_side=True)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server.server_address[1]


def serve_grpc(port, tls):
    from concurrent import futures

    import grpc

    def method(signal):
        def export(body, context):
            headers = {k: v for k, v in context.invocation_metadata() if isinstance(v, str)}
            status, after, reply = behaviour.answer(signal, body, headers)
            if status:
                if after is not None:
                    context.set_trailing_metadata([("grpc-status-details-bin", retry_info(status, after))])
                context.abort(grpc.StatusCode[status], "as told")
            return reply.SerializeToString()

        return grpc.unary_unary_rpc_method_handler(export)

    server = grpc.server(futures.ThreadPoolExecutor(8), options=[("grpc.so_reuseport", 0)])
    packages = {"metrics": "metrics.v1.MetricsService", "logs": "logs.v1.LogsService", "traces": "trace.v1.TraceService"}
    for signal, package in packages.items():
        name = f"opentelemetry.proto.collector.{package}"
        server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(name, {"Export": method(signal)}),))
    address = f"127.0.0.1:{port}"
    if tls:
        certificate, key = (open(file, "rb").read() for file in tls)
        bound = server.add_secure_port(address, grpc.ssl_server_credentials([(key, certificate)]))
    else:
        bound = server.add_insecure_port(address)
    server.start()
    return bound, server


def retry_info(status, after):
    """google.rpc.Status with google.rpc.RetryInfo, written by hand: its classes are another package."""
    duration = duration_pb2.Duration(seconds=int(after), nanos=int(after % 1 * 1e9)).SerializeToString()
    info = any_pb2.Any(type_url="type.googleapis.com/google.rpc.RetryInfo", value=b"\x0a" + bytes([len(duration)]) + duration)
    packed = info.SerializeToString()
    return b"\x1a" + bytes([len(packed)]) + packed


def main():
    tls = sys.argv[sys.argv.index("--tls") + 1 :] if "--tls" in sys.argv else None
    port = int(sys.argv[2])
    if sys.argv[1] == "grpc":
        port, server = serve_grpc(port, tls)  # the server ends with its last reference
    else:
        port = serve_http(port, tls)
    print(port, flush=True)
    for line in sys.stdin:
        words = line.split()
        if words == ["report"]:
            print(json.dumps(behaviour.report()), flush=True)
        else:
            behaviour.told(words)
            print("told", flush=True)


main()
