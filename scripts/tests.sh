#!/bin/sh
# Runs all tests. Those that measure programs do so on a machine that has others to run as well: up to three of them
# that fail are run once more, and named at the end, whatever comes of it.
set -u
# WITHOUT is what cargo is to leave out.
host=$(rustc -vV | sed -n 's/^host: //p' | tr 'a-z-' 'A-Z_')
export "CARGO_TARGET_${host}_RUNNER=$(cd "$(dirname "$0")" && pwd)/test-runner.sh"
log=$(mktemp)
trap 'rm -f "$log" "$log.status"' EXIT

tested() {
    { "$@" 2>&1; echo $? >"$log.status"; } | tee "$log"
    return "$(cat "$log.status")"
}

# shellcheck disable=SC2086 # words of their own
tested "${CARGO:-cargo}" test --workspace ${WITHOUT:-} --lib --bins --tests --no-fail-fast && exit 0
status=$?
# `error: 1 target failed:` and its name below it.
targets=$(sed -n '/^error: [0-9]* targets\{0,1\} failed:/,$p' "$log" | grep '^    ')
failed=$(sed -n '/^failures:$/,/^test result/p' "$log" | sed -n 's/^    \([a-z0-9_:]*\)$/\1/p' | sort -u)
measures=yes
for target in $(echo "$targets" | tr -d ' `'); do
    case $target in
    -pgpuwhy--teste2e | -pgpuwhy-fleet--testserved) ;;
    *) measures=no ;;
    esac
done
[ "$measures" = yes ] && [ "$(echo "$failed" | wc -w)" -le 3 ] && [ -n "$failed" ] || exit "$status"

echo
echo "Once more, in case the machine was too busy: $(echo "$failed" | tr '\n' ' ')"
# Of the whole workspace, as before: for a package alone cargo would choose other features, and compile everything anew.
# shellcheck disable=SC2086 # names of tests have no blanks
tested "${CARGO:-cargo}" test --workspace ${WITHOUT:-} --test e2e --test served -- --exact $failed
status=$?
echo
if [ "$status" = 0 ]; then
    echo "UNSTEADY: failed once and then passed: $(echo "$failed" | tr '\n' ' ')"
fi
exit "$status"
