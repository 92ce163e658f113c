#!/bin/sh
# Runs a command as root where that is possible without asking, else as it is: eBPF needs root, nothing else does.
set -eu
if [ "$(id -u)" = 0 ]; then
    exec "$@"
elif command -v sudo >/dev/null 2>&1 && sudo -n true 2>/dev/null; then
    exec sudo -n --preserve-env=GPUWHY_REQUIRE,GPUWHY_SKIPS,CARGO_TARGET_DIR,SOAK_MINUTES,SOAK_SEED,SOAK_FOLDER,PYTHONDONTWRITEBYTECODE "$@"
else
    exec "$@"
fi
