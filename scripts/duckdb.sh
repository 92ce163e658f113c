#!/bin/sh
# Fetches the DuckDB library that gpuwhy-fleet is linked to while developing: scripts/duckdb.sh [FOLDER]
# Compiling DuckDB takes half an hour and more (cargo's feature `bundled`, for packages); an npm package has the very library
# in it. Prints the folder. Fails, with the reason on standard error, where npm cannot fetch it.
set -eu

# The version that the `duckdb` crate of Cargo.lock is made for.
version=1.5.6-r.1
folder=${1:-${XDG_CACHE_HOME:-$HOME/.cache}/gpuwhy/duckdb}

case $(uname -m) in
x86_64) package=@duckdb/node-bindings-linux-x64 ;;
aarch64) package=@duckdb/node-bindings-linux-arm64 ;;
*) echo "there is no DuckDB library for $(uname -m); build with --features bundled" >&2; exit 1 ;;
esac

if [ "$(cat "$folder/version" 2>/dev/null)" != "$version" ] || [ ! -e "$folder/libduckdb.so" ]; then
    command -v npm >/dev/null 2>&1 || { echo "npm is needed to fetch the DuckDB library (Debian's package npm)" >&2; exit 1; }
    mkdir -p "$folder"
    work=$(mktemp -d "$folder/XXXXXX")
    trap 'rm -rf "$work"' EXIT
    (cd "$work" && npm pack -s "$package@$version" >/dev/null && tar xzf ./*.tgz) ||
        { echo "npm could not fetch $package@$version" >&2; exit 1; }
    mv "$work/package/libduckdb.so" "$work/package/LICENSE" "$folder/"
    echo "$version" >"$folder/version"
fi
echo "$folder"
