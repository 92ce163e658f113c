#!/bin/sh
# Looks for inputs that fail, for each target of fuzz/ or for those named: scripts/fuzz.sh [TARGET...]
# FUZZ_SECONDS=600 is the time for each, FUZZ_JOBS=1 how many run at once, FUZZ_FOUND the folder for what is found: `failed/` has the
# inputs that fail, `corpus/` those that reached new code. FUZZ_BLIND=1 goes without libFuzzer, which needs a C++ compiler.
set -eu

seconds=${FUZZ_SECONDS:-600}
jobs=${FUZZ_JOBS:-1}
target=${CARGO_TARGET_DIR:-target}
host=$(rustc -vV | sed -n 's/^host: //p')
found=${FUZZ_FOUND:-$target/fuzz-found}

if [ "${FUZZ_BLIND:-}" = 1 ]; then
    ${CARGO:-cargo} build --profile fuzz -p gpuwhy-fuzz
    program=$target/fuzz/gpuwhy-fuzz
else
    # What libFuzzer needs to know which code an input reaches; with a target named, build scripts go without it.
    flags="-Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 -Cllvm-args=-sanitizer-coverage-inline-8bit-counters"
    flags="$flags -Cllvm-args=-sanitizer-coverage-pc-table -Cllvm-args=-sanitizer-coverage-trace-compares"
    RUSTFLAGS="${RUSTFLAGS:-} $flags" ${CARGO:-cargo} build --profile fuzz -p gpuwhy-fuzz --features libfuzzer --target "$host"
    program=$target/$host/fuzz/gpuwhy-fuzz
fi
mkdir -p "$found"
[ $# -gt 0 ] || set -- $("$program" | cut -d ' ' -f 1)

# One line a target at its end; what libFuzzer says meanwhile is in its log.
one() {
    log=$found/$1.log
    echo "$1: for $seconds s; how far it is: tail $log"
    began=$(date +%s)
    if nice "$program" --for "$seconds" "$1" "$found" >"$log" 2>&1; then outcome=ok; else outcome="FAILED, see $log"; fi
    runs=$(sed -n 's/^stat::number_of_executed_units: *//p; s/.*: \([0-9]*\) runs, .*failures.*/\1/p' "$log" | tail -n 1)
    rate=$(sed -n 's/^stat::average_exec_per_sec: *//p; s/.* runs, \([0-9]*\)\/s, .*/\1/p' "$log" | tail -n 1)
    grown=$(sed -n 's/^stat::new_units_added: *//p' "$log" | tail -n 1)
    echo "$1: ${runs:-?} runs in $(($(date +%s) - began)) s, ${rate:-?}/s, ${grown:-0} inputs reached new code: $outcome"
    [ "$outcome" = ok ]
}

# Rounds of as many as may run at once.
status=0
round=
finish() {
    for pid in $round; do
        wait "$pid" || status=1
    done
    round=
}
for name; do
    one "$name" &
    round="$round $!"
    # shellcheck disable=SC2086 # to be counted
    [ "$(echo $round | wc -w)" -lt "$jobs" ] || finish
done
finish
if [ -n "$(ls "$found/failed" 2>/dev/null)" ]; then
    echo "inputs that fail, to be run again with: $program TARGET FILE"
    ls "$found"/failed/*
    status=1
fi
exit "$status"
