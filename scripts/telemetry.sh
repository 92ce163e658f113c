#!/bin/sh
# Fetches others' readers of what gpuwhy tells, to test with, into a folder: scripts/telemetry.sh [FOLDER]
# Prometheus 3 and its promtool come from a suite of the archive this machine installs from, with the C library of that
# suite where this machine's is too old; OpenTelemetry's protobuf classes and gRPC come from pip. Prints `NAME COMMAND`
# for each. What cannot be had is named on standard error and left out. GPUWHY_PROMETHEUS names another Prometheus 3 to
# test with: Debian builds its own without the OTLP receiver.
set -eu

here=$(cd "$(dirname "$0")" && pwd)
# shellcheck source=scripts/archive.sh
. "$here/archive.sh"
folder=${1:-${XDG_CACHE_HOME:-$HOME/.cache}/gpuwhy/telemetry}
mkdir -p "$folder"
folder=$(cd "$folder" && pwd)

# The program as it is where this machine's C library will do; else through the loader of its suite.
command_of() { # command_of NAME
    program=$folder/package/usr/bin/$1
    if "$program" --version >/dev/null 2>&1; then
        start="'$program'"
    else
        loader=$(find "$folder/package" -name 'ld-linux*.so.*' | head -n 1)
        libraries=$(find "$folder/package" -name 'lib*.so.*' -exec dirname {} \; | sort -u | tr '\n' ':')
        start="'$loader' --library-path '$libraries' '$program'"
    fi
    printf '#!/bin/sh\nexec %s "$@"\n' "$start" >"$folder/$1"
    chmod +x "$folder/$1"
}

works() {
    "$folder/prometheus" --version 2>&1 | grep -q '^prometheus, version 3\.' &&
        "$folder/promtool" --version >/dev/null 2>&1
}

for suite in sid forky; do
    ! works || break
    rm -rf "$folder/package"
    unpack "$folder" "$suite" "$folder/package" prometheus promtool libc6 || continue
    command_of prometheus
    command_of promtool
done
if [ -n "${GPUWHY_PROMETHEUS:-}" ]; then
    echo "prometheus $GPUWHY_PROMETHEUS"
elif works; then
    echo "prometheus $folder/prometheus"
fi
if works; then
    echo "promtool $folder/promtool"
else
    echo "skipped: Prometheus 3, which no archive of this machine has" >&2
fi

python=$folder/python/bin/python
reads() { "$python" -c 'import grpc, opentelemetry.exporter.prometheus, opentelemetry.proto.collector.metrics.v1.metrics_service_pb2' 2>/dev/null; }
if ! reads; then
    rm -rf "$folder/python"
    { python3 -m venv "$folder/python" && "$folder/python/bin/pip" install -q opentelemetry-proto grpcio prometheus-client opentelemetry-exporter-prometheus; } >/dev/null 2>&1 || true
fi
if reads; then
    echo "python $python"
else
    rm -rf "$folder/python"
    echo "skipped: OpenTelemetry's classes, which pip cannot install" >&2
fi
