"""Reads one OTLP request from standard input and says what is in it, a line each.

Whatever the messages do not define is a failure.
"""

import sys

from google.protobuf import unknown_fields
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span


def check(message):
    """Fails on fields that nobody has defined, at any depth."""
    found = unknown_fields.UnknownFieldSet(message)
    if len(found):
        sys.exit(f"unknown fields in {type(message).__name__}")
    for field, value in message.ListFields():
        if field.type != field.TYPE_MESSAGE:
            continue
        for one in value if field.is_repeated else [value]:
            check(one)


def service(resource):
    names = [one.value.string_value for one in resource.attributes if one.key == "service.name"]
    return names[0] if names else "?"


def main():
    body = sys.stdin.buffer.read()
    if sys.argv[1] == "/v1/traces":
        request = ExportTraceServiceRequest.FromString(body)
        check(request)
        for of_resource in request.resource_spans:
            for scope in of_resource.scope_spans:
                for span in scope.spans:
                    assert len(span.trace_id) == 16 and len(span.span_id) == 8
                    assert 0 < span.start_time_unix_nano <= span.end_time_unix_nano
                    kind = Span.SpanKind.Name(span.kind)
                    print(kind, span.name, span.trace_id.hex(), span.parent_span_id.hex(), service(of_resource.resource))
    else:
        request = ExportMetricsServiceRequest.FromString(body)
        check(request)
        for of_resource in request.resource_metrics:
            for scope in of_resource.scope_metrics:
                for metric in scope.metrics:
                    assert metric.WhichOneof("data")
                    print("metric", metric.name, service(of_resource.resource))


main()
