#!/bin/sh
# Fetches the DuckDB library that gpuwhy-fleet is linked to while developing: scripts/duckdb.sh [FOLDER]
# With --check FOLDER it fetches nothing: it fails where the folder has a library that says it is this one, and is not.
# Compiling DuckDB takes half an hour and more (cargo's feature `bundled`, for packages); an npm package has the very library
# in it. Prints the folder. Fails, with the reason on standard error, where npm cannot fetch it, and where what is there is not
# the library that was looked at when this version was chosen.
set -eu

only_check=
[ "${1:-}" != --check ] || { only_check=1; shift; }
folder=${1:-${XDG_CACHE_HOME:-$HOME/.cache}/gpuwhy/duckdb}

# The version that the `duckdb` crate of Cargo.lock is made for, or one that has all functions it is linked to, with the SHA-256 of its
# library; both are changed together. What nobody has looked at is not fetched.
case $(uname -m) in
x86_64)
    package=@duckdb/node-bindings-linux-x64
    version=1.5.6-r.1
    digest=3f4962cdd266eab2b479a5b5a4a6d063d279b2954ae814ed00385d553b747633
    ;;
# The newest there is for arm64: it has each of the 121 functions that gpuwhy-fleet is linked to.
aarch64)
    package=@duckdb/node-bindings-linux-arm64
    version=1.5.5-r.5
    digest=d00d007f3f7ca1f2896a5e4b89c2ce141bf0508506a9d6d56f9598b8e59d074e
    ;;
*) echo "no DuckDB library is pinned for $(uname -m); build with --features bundled" >&2; exit 1 ;;
esac

is_pinned() { # is_pinned FILE
    found=$(sha256sum "$1" | cut -d ' ' -f 1)
    [ "$found" = "$digest" ] || {
        echo "$1 has the SHA-256 $found and not $digest: it is not the library of $package@$version; delete it" >&2
        return 1
    }
}

if [ -n "$only_check" ]; then
    # One without our mark is for whoever put it there to answer for.
    if [ "$(cat "$folder/version" 2>/dev/null)" = "$version" ] && [ -e "$folder/libduckdb.so" ]; then
        is_pinned "$folder/libduckdb.so"
    fi
    exit
fi
if [ "$(cat "$folder/version" 2>/dev/null)" != "$version" ] || [ ! -e "$folder/libduckdb.so" ]; then
    command -v npm >/dev/null 2>&1 || { echo "npm is needed to fetch the DuckDB library (Debian's package npm)" >&2; exit 1; }
    mkdir -p "$folder"
    work=$(mktemp -d "$folder/XXXXXX")
    trap 'rm -rf "$work"' EXIT
    # Of the package two files, and no script of it is run.
    (cd "$work" && npm pack -s "$package@$version" >/dev/null && tar xzf ./*.tgz package/libduckdb.so package/LICENSE) ||
        { echo "npm could not fetch $package@$version" >&2; exit 1; }
    is_pinned "$work/package/libduckdb.so"
    mv "$work/package/libduckdb.so" "$work/package/LICENSE" "$folder/"
    echo "$version" >"$folder/version"
fi
# Whatever came to be there since.
is_pinned "$folder/libduckdb.so"
echo "$folder"
