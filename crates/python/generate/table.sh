#!/bin/sh
# Writes the table of layouts: table.sh INCLUDE_FOLDER... > ../src/layouts.rs
# An INCLUDE_FOLDER is the pythonX.Y folder of one CPython's headers, internal ones included, oldest first; headers.sh
# prints some. From 3.13 on the same headers describe the free-threaded build too. Which micro version they are of does
# not matter: 3.9.2 and 3.9.18, 3.10.12 and 3.10.13, 3.11.2 and 3.11.7, 3.12.1 and 3.12.3, 3.13.0, 3.13.5 and 3.13.15,
# 3.14.4 and 3.14.10 gave the same table.
set -eu

here=$(dirname "$0")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

rows() { # rows INCLUDE_FOLDER ARGUMENT_OF_LAYOUT
    minor=$(basename "$1" | sed 's/^python3\.//')
    for free in 0 1; do
        [ "$free" = 0 ] || [ "$minor" -ge 13 ] || continue
        [ -z "$2" ] || [ "$minor" -ge 13 ] || continue
        define=
        [ "$free" = 0 ] || define=-DPy_GIL_DISABLED=1
        # The folder above has pyconfig.h where distributions keep it apart.
        cc -w $define -I"$1" -I"$1/internal" -I"$(dirname "$1")" -o "$work/layout" "$here/layout.c"
        [ "$free" = 0 ] && free_threaded=false || free_threaded=true
        # shellcheck disable=SC2086 # no argument where it is empty
        "$work/layout" $2 | sed "1s|.*|    Row { minor: $minor, free_threaded: $free_threaded, layout:|; 2s|.*|Layout {|"
        echo " },"
    done
}

{
    cat <<'HEAD'
//! Layouts by version, written by `generate/table.sh` from the headers of the versions named here: do not edit.

use crate::{FrameVia, InstrKind, Layout};

/// A layout and the builds it is of. The layouts of a minor version do not change with the micro one.
#[derive(Debug)]
pub(crate) struct Row {
    pub(crate) minor: u8,
    pub(crate) free_threaded: bool,
    pub(crate) layout: Layout,
}

HEAD
    for folder; do
        echo "// Python 3.$(basename "$folder" | sed 's/^python3\.//') is from the headers of $(
            sed -n 's/^#define PY_VERSION  *"\(.*\)"/\1/p' "$folder/patchlevel.h")."
    done
    echo "pub(crate) const LAYOUTS: &[Row] = &["
    for folder; do rows "$folder" ""; done
    echo "];"
    echo
    echo "/// Where 3.13 and newer publish each offset, in bytes from the start of _PyRuntime; 0: they do not."
    echo "/// Numbers that are no offsets are as above."
    echo "pub(crate) const PUBLISHED: &[Row] = &["
    for folder; do rows "$folder" published; done
    echo "];"
} >"$work/layouts.rs"
rustfmt --edition 2024 --config-path "$here/../../../rustfmt.toml" "$work/layouts.rs"
cat "$work/layouts.rs"
