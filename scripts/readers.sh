#!/bin/sh
# Other people's readers of what `gpuwhy export` writes, and of Python's stacks, for the tests: scripts/readers.sh [FOLDER]
# Makes a virtual environment once and prints its Python. Fails, with the reason on standard error, where pip cannot
# install them.
set -eu

folder=${1:-${XDG_CACHE_HOME:-$HOME/.cache}/gpuwhy/readers}
packages="perfetto protobuf pyarrow duckdb jsonschema py-spy"
modules="perfetto.protos.perfetto.trace.perfetto_trace_pb2, google.protobuf, pyarrow.parquet, duckdb, jsonschema"

works() { "$folder/bin/python" -c "import $modules" >/dev/null 2>&1 && "$folder/bin/py-spy" --version >/dev/null 2>&1; }

if ! works; then
    rm -rf "$folder"
    python3 -m venv "$folder" >&2
    # shellcheck disable=SC2086 # the list is meant to be split
    "$folder/bin/pip" install -q --disable-pip-version-check $packages >&2
    works || { echo "the readers were installed, but do not load" >&2; exit 1; }
fi
echo "$folder/bin/python"
