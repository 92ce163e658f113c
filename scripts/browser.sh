#!/bin/sh
# A real browser for the tests of the dashboards: Playwright and axe in a virtual environment, made once, and the system's Chromium.
# scripts/browser.sh [FOLDER] prints the environment's Python and the browser, a line each. Fails, with the reason on standard
# error, where one of them cannot be had.
set -eu

folder=${1:-${XDG_CACHE_HOME:-$HOME/.cache}/gpuwhy/browser}
browser=$(command -v chromium || command -v chromium-browser || command -v google-chrome) ||
    { echo "there is no chromium; Debian's package is \`chromium\`" >&2; exit 1; }

works() { "$folder/bin/python" -c "import playwright, axe_playwright_python" >/dev/null 2>&1; }

if ! works; then
    { python3 -m venv "$folder" && "$folder/bin/pip" install -q --disable-pip-version-check playwright axe-playwright-python; } >&2 &&
        works || { echo "Playwright cannot be installed with pip" >&2; exit 1; }
fi
printf '%s\n%s\n' "$folder/bin/python" "$browser"
