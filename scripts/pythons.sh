#!/bin/sh
# Fetches CPythons to test with into a folder: scripts/pythons.sh [FOLDER]
# They come from suites of the archive this machine installs from, with the libraries of their suite, and run from where
# they are. Prints `VERSION COMMAND` for each. What cannot be had is named on standard error and left out.
#
# Free-threaded builds are no packages there: with FREE_THREADED=1 they are built from the archive's source (minutes).
# ARCHIVES="ADDRESS..." looks into more archives, say another distribution's, which has other versions.
set -eu

here=$(cd "$(dirname "$0")" && pwd)
# shellcheck source=scripts/archive.sh
. "$here/archive.sh"
folder=${1:-${XDG_CACHE_HOME:-$HOME/.cache}/gpuwhy/pythons}
mkdir -p "$folder"
folder=$(cd "$folder" && pwd)

# Prints the version if the command in a folder works and is the one wanted.
works() { # works NAME VERSION
    said=$("$folder/$1/python" -c 'import asyncio, ctypes, functools, json, threading; print("%d.%d" % __import__("sys").version_info[:2])' 2>&1) || return 1
    [ "$said" = "$2" ] && echo "$1 $folder/$1/python"
}

# The program as it is where this machine's libraries will do, but for ctypes' own; else through the loader of its suite.
command_of() { # command_of FOLDER VERSION
    program=$1/usr/bin/python$2
    mkdir -p "$1/own"
    find "$1" -path "$1/own" -prune -o -name 'libffi.so.*' -exec cp -P {} "$1/own" \;
    if PYTHONHOME="$1/usr" LD_LIBRARY_PATH="$1/own" "$program" -c 'import asyncio, ctypes' 2>/dev/null; then
        start="'$program'"
    else
        loader=$(find "$1" -name 'ld-linux*.so.*' | head -n 1)
        libraries=$(find "$1" -name 'lib*.so.*' -exec dirname {} \; | sort -u | tr '\n' ':')
        start="'$loader' --library-path '$libraries' '$program'"
    fi
    printf '#!/bin/sh\nexport PYTHONHOME="%s" LD_LIBRARY_PATH="%s"\nexec %s "$@"\n' \
        "$1/usr" "$1/own" "$start" >"$1/python"
    chmod +x "$1/python"
}

packaged() { # packaged VERSION SUITE...: the first suite that has it
    version=$1
    shift
    works "$version" "$version" && return
    for suite; do
        rm -rf "${folder:?}/$version"
        unpack "$folder" "$suite" "$folder/$version" \
            "python$version-minimal" "libpython$version-minimal" "libpython$version-stdlib" libc6 zlib1g libexpat1 ||
            continue
        # For ctypes; older suites have an older one.
        unpack "$folder" "$suite" "$folder/$version" libffi8 2>/dev/null ||
            unpack "$folder" "$suite" "$folder/$version" libffi7 || continue
        command_of "$folder/$version" "$version"
        works "$version" "$version" && return
        echo "Python $version of $suite does not run here" >&2
    done
    rm -rf "${folder:?}/$version"
    echo "skipped: Python $version" >&2
}

# From the newest source there is for it.
free_threaded() { # free_threaded VERSION
    works "$1t" "$1" && return
    # Not beside the others, whose folders have a `python` each.
    work=$folder/build/$1t
    for archive in $(archives); do
        for suite in sid forky trixie resolute; do
            mkdir -p "$work"
            fetch "$archive/dists/$suite/main/source/Sources.xz" "$work/sources.xz" || continue
            # Newest last.
            for file in $(xz -dc "$work/sources.xz" | sed -n "s/.* \(python$1_[0-9.]*\.orig\.tar\.xz\)\$/\1/p" | sort -uVr); do
                fetch "$archive/pool/main/p/python$1/$file" "$work/source.tar.xz" || continue
                tar -xf "$work/source.tar.xz" -C "$work" --strip-components=1
                (cd "$work" && ./configure -q --disable-gil --disable-test-modules --without-ensurepip \
                    --prefix="$folder/$1t" OPT="-O1 -DNDEBUG" && make -s && make -s install) >"$work/log" 2>&1 || {
                    echo "skipped: free-threaded Python $1 does not build, see $work/log" >&2
                    return
                }
                rm -rf "$work"
                ln -sf "bin/python$1t" "$folder/$1t/python"
                works "$1t" "$1" && return
            done
        done
    done
    rm -rf "$work"
    echo "skipped: free-threaded Python $1, whose source no archive has" >&2
}

packaged 3.9 bullseye
packaged 3.10 jammy-updates jammy
packaged 3.11 bookworm
packaged 3.12 noble-updates noble
packaged 3.13 trixie forky sid
packaged 3.14 sid forky resolute
if [ "${FREE_THREADED:-}" = 1 ]; then
    free_threaded 3.13
    free_threaded 3.14
fi
