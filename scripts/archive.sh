# shellcheck shell=sh
# Packages of other suites of the archive this machine installs from, unpacked into a folder. To be sourced.
# Addresses come from apt's own sources, and from ARCHIVES (addresses, a space between them).

architecture=$(dpkg --print-architecture)

archives() {
    {
        printf '%s\n' ${ARCHIVES:-}
        cat /etc/apt/sources.list /etc/apt/sources.list.d/*.list 2>/dev/null |
            sed -n 's/^deb  *\(\[[^]]*\]  *\)\{0,1\}\([^ ]*\) .*/\2/p'
        cat /etc/apt/sources.list.d/*.sources 2>/dev/null | sed -n 's/^URIs: *//p' | tr ' ' '\n'
    } | sed 's|/*$||' | grep '^https\{0,1\}:' | awk '!seen[$0]++'
}

fetch() { # fetch ADDRESS FILE: whole or not at all
    curl -fsSL --retry 2 -o "$2.part" "$1" 2>/dev/null && mv "$2.part" "$2"
}

# The index of a suite, each file's address made whole; kept for a day, unless no archive has it.
index() { # index FOLDER SUITE
    kept=$1/index/$2
    if [ -z "$(find "$kept" -size +0 -mmin -1440 2>/dev/null)" ]; then
        mkdir -p "$1/index"
        : >"$kept.new"
        for archive in $(archives); do
            for component in main universe; do
                fetch "$archive/dists/$2/$component/binary-$architecture/Packages.xz" "$kept.xz" || continue
                xz -dc "$kept.xz" | sed "s|^Filename: |&$archive/|" >>"$kept.new"
            done
        done
        rm -f "$kept.xz"
        mv "$kept.new" "$kept"
    fi
    [ -s "$kept" ] && echo "$kept"
}

# Unpacks packages into a folder. Fails, and says why on standard error, where one is missing or not as it was signed for.
unpack() { # unpack CACHE SUITE INTO PACKAGE...
    cache=$1 suite=$2 into=$3
    shift 3
    list=$(index "$cache" "$suite") || {
        echo "no archive of this machine has the suite $suite" >&2
        return 1
    }
    mkdir -p "$into"
    for package; do
        # The newest of those the index has: a suite and its updates come in order.
        found=$(awk -v want="$package" '
            /^Package: / { here = $2 == want }
            here && /^Filename: / { file = $2 }
            here && /^SHA256: / { sum = $2 }
            END { if (file) print file, sum }' "$list")
        [ -n "$found" ] || {
            echo "$suite has no $package" >&2
            return 1
        }
        fetch "${found% *}" "$into/package.deb" || {
            echo "$package of $suite cannot be fetched" >&2
            return 1
        }
        echo "${found#* }  $into/package.deb" | sha256sum -c --quiet - >&2 || return 1
        dpkg-deb -x "$into/package.deb" "$into"
        rm "$into/package.deb"
    done
}
