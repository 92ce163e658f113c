#!/bin/sh
# Fetches the DuckDB library that gpuwhy-fleet is linked to while developing: scripts/duckdb.sh [FOLDER]
# Compiling DuckDB takes half an hour and more (cargo's feature `bundled`, for packages); an npm package has the very library
# in it. Prints the folder. Fails, with the reason on standard error, where npm cannot fetch it, and where what is there is not
# the library that was looked at when this version was chosen.
set -eu

# The version that the `duckdb` crate of Cargo.lock is made for.
version=1.5.6-r.1
folder=${1:-${XDG_CACHE_HOME:-$HOME/.cache}/gpuwhy/duckdb}

# With the SHA-256 of its library; both are changed together. What nobody has looked at is not fetched.
case $(uname -m) in
x86_64)
    package=@duckdb/node-bindings-linux-x64
    digest=3f4962cdd266eab2b479a5b5a4a6d063d279b2954ae814ed00385d553b747633
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
