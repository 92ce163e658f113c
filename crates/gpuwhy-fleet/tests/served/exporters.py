"""OpenTelemetry's own exporters push metrics, logs and traces: exporters.py GRPC HTTP TOKEN [CERTIFICATE]"""

import logging
import sys

from opentelemetry.exporter.otlp.proto.grpc._log_exporter import OTLPLogExporter as GrpcLogs
from opentelemetry.exporter.otlp.proto.grpc.metric_exporter import OTLPMetricExporter as GrpcMetrics
from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter as GrpcSpans
from opentelemetry.exporter.otlp.proto.http import Compression
from opentelemetry.exporter.otlp.proto.http._log_exporter import OTLPLogExporter as HttpLogs
from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter as HttpMetrics
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter as HttpSpans
from opentelemetry.sdk._logs import LoggerProvider, LoggingHandler
from opentelemetry.sdk._logs.export import SimpleLogRecordProcessor
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import MetricExportResult, PeriodicExportingMetricReader
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor, SpanExportResult
import grpc

at_grpc, at_http, token, certificate = sys.argv[1:5]
bearer = {"authorization": f"Bearer {token}"}
resource = Resource.create({"cluster_id": "a", "node_id": "exporter"})
if certificate:
    credentials = grpc.ssl_channel_credentials(open(certificate, "rb").read())
    by_grpc = dict(endpoint=at_grpc, credentials=credentials, headers=bearer, timeout=10)
else:
    by_grpc = dict(endpoint=at_grpc, insecure=True, headers=bearer, timeout=10)


def checked(exporter, good):
    """The exporter, failing where it would only log."""
    export = exporter.export

    def strict(*args, **words):
        result = export(*args, **words)
        if result != good:
            print(f"{type(exporter)} failed: {result}")
            sys.exit(1)
        return result

    exporter.export = strict
    return exporter


def by_http(path, packing):
    words = dict(endpoint=f"{at_http}/v1/{path}", headers=bearer, compression=packing, timeout=10)
    if certificate:
        words["certificate_file"] = certificate
    return words


exporters = [checked(GrpcMetrics(**by_grpc), MetricExportResult.SUCCESS),
             checked(GrpcMetrics(**by_grpc, compression=grpc.Compression.Gzip), MetricExportResult.SUCCESS),
             checked(HttpMetrics(**by_http("metrics", Compression.NoCompression)), MetricExportResult.SUCCESS),
             checked(HttpMetrics(**by_http("metrics", Compression.Gzip)), MetricExportResult.SUCCESS)]
readers = [PeriodicExportingMetricReader(exporter, export_interval_millis=3_600_000) for exporter in exporters]
meters = MeterProvider(metric_readers=readers, resource=resource)
meter = meters.get_meter("test")
meter.create_counter("exporter.counter").add(7, {"rank": 3})
meter.create_gauge("exporter.gauge").set(0.5, {"rank": 3, "nranks": 8})
meter.create_histogram("exporter.histogram").record(0.25)
assert meters.force_flush(20_000)
meters.shutdown()

for exporter in (checked(GrpcSpans(**by_grpc), SpanExportResult.SUCCESS),
                 checked(HttpSpans(**by_http("traces", Compression.Gzip)), SpanExportResult.SUCCESS)):
    traces = TracerProvider(resource=resource)
    traces.add_span_processor(SimpleSpanProcessor(exporter))
    with traces.get_tracer("test").start_as_current_span("a span"):
        pass
    traces.shutdown()

for exporter in (GrpcLogs(**by_grpc), HttpLogs(**by_http("logs", Compression.Gzip))):
    logs = LoggerProvider(resource=resource)
    logs.add_log_record_processor(SimpleLogRecordProcessor(exporter))
    logger = logging.getLogger(f"test{id(exporter)}")
    logger.addHandler(LoggingHandler(logger_provider=logs))
    logger.warning("a word")
    logs.shutdown()
print("pushed")
