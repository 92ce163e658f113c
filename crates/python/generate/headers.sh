#!/bin/sh
# Fetches CPython's headers from the archive's suites and prints their folders, oldest first, for table.sh:
#     headers.sh [FOLDER] | xargs ./table.sh > ../src/layouts.rs
# ARCHIVES is as for scripts/pythons.sh: 3.10 and 3.12 are in another distribution's suites than the others.
set -eu

here=$(cd "$(dirname "$0")" && pwd)
# shellcheck source=scripts/archive.sh
. "$here/../../../scripts/archive.sh"
folder=${1:-${XDG_CACHE_HOME:-$HOME/.cache}/gpuwhy/pythons}
mkdir -p "$folder"

headers() { # headers VERSION SUITE...
    version=$1
    shift
    include=$folder/headers-$version/usr/include/python$version
    for suite; do
        [ -f "$include/internal/pycore_runtime.h" ] && break
        rm -rf "$folder/headers-$version"
        unpack "$folder" "$suite" "$folder/headers-$version" "libpython$version-dev" || continue
    done
    [ -f "$include/internal/pycore_runtime.h" ] && echo "$include" || echo "skipped: Python $version" >&2
}

headers 3.9 bullseye
headers 3.10 jammy-updates jammy
headers 3.11 bookworm
headers 3.12 noble-updates noble
headers 3.13 trixie forky sid
headers 3.14 sid forky resolute
