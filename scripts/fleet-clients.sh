#!/bin/sh
# Other people's clients for the tests of gpuwhy-fleet: OpenTelemetry's exporters, the official MCP client, DuckDB.
# scripts/fleet-clients.sh [FOLDER] makes a virtual environment once and prints its Python. Fails, with the reason on standard
# error, where pip cannot install them.
set -eu

folder=${1:-${XDG_CACHE_HOME:-$HOME/.cache}/gpuwhy/fleet-clients}
packages="opentelemetry-sdk opentelemetry-exporter-otlp-proto-grpc opentelemetry-exporter-otlp-proto-http mcp jsonschema openapi-spec-validator duckdb"
modules="opentelemetry.exporter.otlp.proto.grpc.metric_exporter, opentelemetry.exporter.otlp.proto.http.metric_exporter, mcp, jsonschema, openapi_spec_validator, duckdb"

works() { "$folder/bin/python" -c "import $modules" >/dev/null 2>&1; }

if ! works; then
    rm -rf "$folder"
    python3 -m venv "$folder" >&2
    # shellcheck disable=SC2086 # the list is meant to be split
    "$folder/bin/pip" install -q --disable-pip-version-check $packages >&2
    works || { echo "the clients were installed, but do not load" >&2; exit 1; }
fi
echo "$folder/bin/python"
