#!/bin/sh
# Installs what building and testing gpuwhy needs on Debian and Ubuntu: as root, or through sudo. Where it may do
# neither it says exactly what to run. Does nothing, quickly, when all is there.
set -eu

want=build
[ $# = 0 ] || want=$1

missing=
need() { # need PACKAGE CHECK...
    package=$1
    shift
    "$@" >/dev/null 2>&1 || missing="$missing $package"
}

has_header() { echo "#include <$1>" | cc -E -x c - ; }
has_archive() { [ -n "$(find /usr/lib /usr/lib64 -name "lib$1.a" 2>/dev/null | head -n 1)" ]; }
has_font() { [ -n "$(find /usr/share/fonts -name "*.ttf" 2>/dev/null | head -n 1)" ]; }
is_static() { [ -n "$(command -v "$1")" ] && ! ldd "$(command -v "$1")"; }

need gcc command -v cc
need make command -v make
need clang command -v clang
need pkg-config command -v pkg-config
need libelf-dev has_archive elf
need zlib1g-dev has_archive z
need linux-libc-dev has_header linux/bpf.h
# Newer libelf archives use zstd.
if pkg-config --static --libs libelf 2>/dev/null | grep -q zstd; then
    need libzstd-dev has_archive zstd
fi
if [ "$want" = test ]; then
    need python3 command -v python3
    need procps command -v ps
    need sqlite3 command -v sqlite3
    # Certificates, and clients of other people.
    need openssl command -v openssl
    need python3-venv python3 -c "import venv, ensurepip"
    # A real browser. Where it is a snap only, as on Ubuntu, the tests say that they were skipped.
    if apt-cache policy chromium 2>/dev/null | grep -q 'Candidate: [0-9]'; then
        need chromium command -v chromium
        need fonts-dejavu-core has_font
    fi
    need bsdutils command -v script
    need util-linux command -v setpriv
    # Whom the binary connects to.
    need strace command -v strace
    # A network that loses packets.
    need iproute2 command -v ip
    need nftables command -v nft
    # For scripts/telemetry.sh.
    need curl command -v curl
    need xz-utils command -v xz
fi
# The library that gpuwhy-fleet is linked to comes from npm, once.
if [ "$want" = test ] || [ "$want" = fleet ]; then
    [ -e "${XDG_CACHE_HOME:-$HOME/.cache}/gpuwhy/duckdb/libduckdb.so" ] || need npm command -v npm
fi
if [ "$want" = kernels ]; then
    need python3 command -v python3
    need qemu-system-x86 command -v qemu-system-x86_64
    need busybox-static is_static busybox
    need cpio command -v cpio
    need binutils command -v strip
fi

if ! command -v cargo >/dev/null 2>&1; then
    echo "gpuwhy needs Rust 1.89 or newer: see https://rustup.rs" >&2
    exit 1
fi
if [ -z "$missing" ]; then
    # Tests that cannot have it are skipped, and say so.
    [ "$want" != test ] || "$(dirname "$0")/duckdb.sh" >/dev/null || true
    [ "$want" != fleet ] || "$(dirname "$0")/duckdb.sh" >/dev/null
    exit 0
fi

install="apt-get install -y --no-install-recommends$missing"
if ! command -v apt-get >/dev/null 2>&1; then
    echo "gpuwhy needs these packages (Debian's names; install your distribution's):$missing" >&2
    exit 1
fi
if [ "$(id -u)" = 0 ]; then
    sudo=
elif command -v sudo >/dev/null 2>&1 && sudo -n true 2>/dev/null; then
    sudo="sudo -n"
else
    echo "gpuwhy needs some packages, and this user may not install them. Run:" >&2
    echo "    sudo apt-get update && sudo $install" >&2
    exit 1
fi
echo "installing:$missing"
export DEBIAN_FRONTEND=noninteractive
$sudo apt-get update -qq
# shellcheck disable=SC2086 # the list is meant to be split
$sudo $install
# What a newer libelf needs is known only once it is there.
exec "$0" "$@"
