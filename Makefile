# `make demo` and `make test` do all the set-up on a fresh Debian or Ubuntu machine that has Rust.

# CI clones afresh each time: what it builds is kept in a cache folder.
ifeq ($(CI),true)
export CARGO_TARGET_DIR ?= $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/gpuwhy/target
endif
TARGET := $(or $(CARGO_TARGET_DIR),target)
CARGO ?= cargo
# Versions of clang-format disagree; this one decides.
CLANG_FORMAT := 14

.PHONY: all fleet setup demo demo-fleet test test-kernels fuzz soak accuracy lint bench docs static deny clean

all: setup
	$(CARGO) build --release -p gpuwhy

setup:
	@scripts/setup.sh

# The cluster side, linked to the DuckDB library that an npm package has in it.
fleet:
	@scripts/setup.sh fleet
	$(CARGO) build --release -p gpuwhy-fleet

# A server, eight simulated ranks under real eBPF, one of them late, and what is said of it.
demo-fleet: all fleet
	@scripts/setup.sh test
	$(CARGO) run -q -p gpuwhy-simgpu --example unpack $(TARGET)/stand-in
	scripts/as-root.sh scripts/demo-fleet.py $(TARGET)/release/gpuwhy $(TARGET)/release/gpuwhy-fleet $(TARGET)/stand-in

demo: all
	scripts/as-root.sh $(TARGET)/release/gpuwhy demo

# Tests that need eBPF run as root where that is possible; skips are counted and named.
test: export GPUWHY_SKIPS := $(shell mktemp)
test:
	@scripts/setup.sh test
	@$(MAKE) --no-print-directory lint
	WITHOUT=$$(scripts/without-fleet.sh) || exit 1; export WITHOUT; \
	    $(CARGO) test --workspace $$WITHOUT --lib --bins --tests --no-run || exit 1; \
	    CARGO="$(CARGO)" scripts/tests.sh; status=$$?; \
	    if [ -s $$GPUWHY_SKIPS ]; then echo; echo "$$(wc -l < $$GPUWHY_SKIPS) tests were skipped:"; cat $$GPUWHY_SKIPS; fi; \
	    rm -f $$GPUWHY_SKIPS; exit $$status

# Every probe on other kernels, in qemu; KERNELS="6.1 6.12" for some of them. Fetches kernels from Debian's archive once.
test-kernels: export PYTHONDONTWRITEBYTECODE := 1
test-kernels:
	@scripts/setup.sh kernels
	$(CARGO) build -p gpuwhy
	$(CARGO) run -q -p gpuwhy-simgpu --example unpack $(TARGET)/kernels/stand-in
	@scripts/kernels/run.py $(TARGET)/debug/gpuwhy $(TARGET)/kernels/stand-in $(TARGET)/kernels $(KERNELS)

# Looks for inputs that make a parser panic, hang or take too much memory, for ten minutes a target; TARGETS="otlp journal" for
# some of them, FUZZ_SECONDS=60 for less. `make test` runs the corpus and a few mutations.
fuzz:
	@scripts/setup.sh fleet
	@CARGO="$(CARGO)" scripts/fuzz.sh $(TARGETS)

# An agent and a fleet under everything that goes wrong (storms of processes, containers, replaced libraries, kills, a full disk), for
# half an hour; SOAK_MINUTES=10 for less. What was counted and left behind is checked, and the figures are written down.
soak: export PYTHONDONTWRITEBYTECODE := 1
soak: DATE ?= $(shell date -u +%F)
soak: all fleet
	$(CARGO) run -q -p gpuwhy-simgpu --example unpack $(TARGET)/stand-in
	scripts/as-root.sh scripts/soak/run.py $(TARGET)/release/gpuwhy $(TARGET)/release/gpuwhy-fleet $(TARGET)/stand-in \
	    docs/measurements/$(DATE)-soak.md

# Every scenario with random parameters: is the right cause named? GPUWHY_SEED=N makes a run come again.
accuracy: export GPUWHY_RUNS ?= 5
accuracy: export GPUWHY_SEED ?= $(shell date -u +%s)
accuracy: DATE ?= $(shell date -u +%F)
accuracy: export GPUWHY_ACCURACY = $(CURDIR)/docs/measurements/$(DATE)-accuracy.md
accuracy:
	@scripts/setup.sh test
	$(CARGO) test -p gpuwhy --test e2e faults_are_named_and_nobody_else -- --nocapture

# Each check runs where its tool is installed.
lint:
	@if $(CARGO) fmt --version >/dev/null 2>&1; then $(CARGO) fmt --all --check; else echo "no rustfmt: skipped"; fi
	@if $(CARGO) clippy --version >/dev/null 2>&1; then $(CARGO) clippy -q --workspace --all-targets -- -D warnings; \
	    else echo "no clippy: skipped"; fi
	@if clang-format --version 2>/dev/null | grep -q 'version $(CLANG_FORMAT)\.'; then \
	    git ls-files '*.c' '*.h' | xargs clang-format --dry-run -Werror; else echo "no clang-format $(CLANG_FORMAT): skipped"; fi

bench: setup
	$(CARGO) build --release -p gpuwhy-bench
	scripts/as-root.sh $(TARGET)/release/gpuwhy-bench bench/out/bench.json

# The pages made from the program's own tables.
docs: setup
	$(CARGO) build -p gpuwhy
	$(TARGET)/debug/gpuwhy docs schema > docs/schema.md
	$(TARGET)/debug/gpuwhy docs probes > docs/probes.md
	$(TARGET)/debug/gpuwhy docs rules > docs/rules.md
	$(TARGET)/debug/gpuwhy docs causes > docs/causes.md
	$(TARGET)/debug/gpuwhy docs formats > docs/formats.md
	$(TARGET)/debug/gpuwhy docs metrics > docs/metrics.md
	$(TARGET)/debug/gpuwhy docs api > docs/api.md

# One binary with libc in it too.
static: setup
	RUSTFLAGS="-C target-feature=+crt-static" $(CARGO) build --release -p gpuwhy --target $(shell rustc -vV | sed -n 's/host: //p')

# Licences, wildcards and sources, and the DuckDB library that is linked to; advisories where cargo-deny and its database can be had.
deny:
	@scripts/duckdb.sh --check $(DUCKDB_LIB_DIR)
	@if $(CARGO) deny --version >/dev/null 2>&1; then $(CARGO) deny check licenses bans sources; else scripts/deny.py $(CARGO); fi
	@if ! $(CARGO) deny --version >/dev/null 2>&1; then echo "no cargo-deny: advisories are skipped"; \
	    elif ! $(CARGO) deny fetch db >/dev/null 2>&1; then echo "no database of advisories can be had: skipped"; \
	    else $(CARGO) deny check advisories; fi

clean:
	$(CARGO) clean
