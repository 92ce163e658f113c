#!/bin/sh
# What cargo is to leave out where there is no DuckDB library to link: nothing, or the fleet's crates, which is then told as a
# skip (and is a failure where nothing may be skipped).
set -eu

folder=${DUCKDB_LIB_DIR:-${XDG_CACHE_HOME:-$HOME/.cache}/gpuwhy/duckdb}
if [ -e "$folder/libduckdb.so" ]; then
    # One that somebody named is theirs to answer for, unless it is said to be the one that is fetched here.
    case ${DUCKDB_LIB_DIR:+named} in
    named) "$(dirname "$0")/duckdb.sh" --check "$folder" ;;
    *) "$(dirname "$0")/duckdb.sh" >/dev/null ;;
    esac
    exit
fi
reason="there is no libduckdb.so in $folder; scripts/setup.sh fleet fetches it"
if [ -n "${GPUWHY_REQUIRE:-}" ]; then
    echo "gpuwhy-fleet cannot be skipped: $reason" >&2
    exit 1
fi
echo "skipped: all tests of gpuwhy-fleet, and the fuzz targets: $reason" >&2
[ -z "${GPUWHY_SKIPS:-}" ] || echo "  all tests of gpuwhy-fleet, and the fuzz targets: $reason" >>"$GPUWHY_SKIPS"
echo "--exclude gpuwhy-fleet-core --exclude gpuwhy-fleet --exclude gpuwhy-fuzz"
