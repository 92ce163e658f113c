#!/bin/sh
# Runs a test binary for cargo. What measures who had the CPU must have no neighbours: one test after the other, but for
# binaries that are known to be fine. Those of e2e see to it themselves (`alone` in tests/e2e/support.rs), and what is
# within a crate measures nothing.
case ${1##*/} in
e2e-*) RUST_TEST_THREADS=2 ;;
gpuwhy_*) unset RUST_TEST_THREADS ;;
*) RUST_TEST_THREADS=1 ;;
esac
[ -z "${RUST_TEST_THREADS:-}" ] || export RUST_TEST_THREADS
exec "$@"
