#!/bin/sh
# Runs the slow trials of tests/slow.txt: scripts/slow.sh [--until SECONDS]
# With --until it begins no further one after so many seconds (of SPENT that were spent before), and begins with another one
# for each commit, so that CI plays all of them in turn.
set -u
until=
[ "${1:-}" != --until ] || until=$2
folder=$(cd "$(dirname "$0")/.." && pwd)
host=$(rustc -vV | sed -n 's/^host: //p' | tr 'a-z-' 'A-Z_')
export "CARGO_TARGET_${host}_RUNNER=$folder/scripts/test-runner.sh"
names=$(sed 's/ *#.*//; /^$/d' "$folder/tests/slow.txt")
total=$(echo "$names" | wc -l)
began=$(date +%s)
spent() { echo $(($(date +%s) - began + ${SPENT:-0})); }

first=0
[ -z "$until" ] || first=$(($(git -C "$folder" rev-list --count HEAD 2>/dev/null || echo 0) % total))
log=$(mktemp)
trap 'rm -f "$log" "$log.status"' EXIT
passed=0
failed=
for name in $(echo "$names" | tail -n +$((first + 1)); echo "$names" | head -n "$first"); do
    [ -z "$until" ] || [ "$(spent)" -lt "$until" ] || break
    # Of the whole workspace, as `make test` does: for a package alone cargo would choose other features, and compile everything anew.
    # shellcheck disable=SC2086 # words of their own
    { "${CARGO:-cargo}" test -q --workspace ${WITHOUT:-} --test e2e --test served -- --exact "$name" 2>&1; echo $? >"$log.status"; } | tee "$log"
    # A name that no test has runs nothing, and that must not pass.
    if [ "$(cat "$log.status")" = 0 ] && grep -q '^test result: ok. 1 passed' "$log"; then
        passed=$((passed + 1))
        echo "ok after $(spent) s: $name"
    else
        failed="$failed $name"
        echo "FAILED: $name"
    fi
done
echo
echo "slow trials: $passed of $total passed, $(echo "$failed" | wc -w) failed$failed"
[ -z "$failed" ]
