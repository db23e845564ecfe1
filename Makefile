# Refrain's everyday commands. Each installs what it needs and is missing.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.NOTPARALLEL:
.PHONY: help demo test test-full loom fuzz gpu deviations bench sizes times order clock soak memory scale setup build install dynamorio lint clean

started := $(shell date +%s)
took = @echo "make $@: $$(($$(date +%s) - $(started))) s"

help: ## shows this list
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  make \1\t\2/p' Makefile | expand -t 20

demo: ## records a small MPI program and shows what was found
	@scripts/setup.sh demo
	cargo build --release
	@scripts/demo.sh
	$(took)

test: ## lints, and runs all tests with every MPI
	@scripts/setup.sh test
	cargo build --release
	@$(MAKE) --no-print-directory lint
	@# The tests run the release build of the agent and the command line.
	if cargo nextest --version >/dev/null 2>&1; then \
	    cargo nextest run && cargo test --doc --quiet; \
	else \
	    cargo test; \
	fi
	$(took)

test-full: ## the same, with the long tests
	@REFRAIN_TEST_FULL=1 $(MAKE) --no-print-directory test

loom: ## tries the queue of the clock encoder under every order of memory accesses
	@scripts/loom.sh
	$(took)

fuzz: ## fuzzes the readers, each for FUZZ_SECONDS (60); see fuzz/README.md
	@scripts/setup.sh demo
	@fuzz/run.sh $(FUZZ)
	$(took)

gpu: ## checks the names of GPU memory, on a machine with an NVIDIA GPU and nvcc
	cargo build --release
	@scripts/gpu.sh
	$(took)

deviations: ## shows where a traced program is known to differ; see ARCHITECTURE.md
	@scripts/setup.sh test
	cargo build --release
	-cargo nextest run --run-ignored only

bench: ## measures Refrain, and writes the results to bench/runs
	@scripts/setup.sh test
	cargo build --release
	@cargo run --release --quiet -p refrain-bench
	$(took)

sizes: ## measures how large traces are; NPB_BIN=folder adds the NAS Parallel Benchmarks
	cargo build --release
	@cargo run --release --quiet -p refrain-bench -- sizes
	$(took)

times: ## measures how the times of calls are kept; NPB_BIN=folder as above
	cargo build --release
	@cargo run --release --quiet -p refrain-bench -- times
	$(took)

order: ## measures what recording and replaying receive orders costs, and how large records are
	@scripts/setup.sh test
	cargo build --release
	@cargo run --release --quiet -p refrain-bench -- order
	$(took)

clock: ## measures receive orders by clocks: sizes step by step, hidden determinism, what they cost
	@scripts/setup.sh test
	cargo build --release
	@cargo run --release --quiet -p refrain-bench -- clock
	$(took)

soak: ## replays programs that differ from run to run 20 times each, on 4 to 32 ranks, idle and under load
	@scripts/setup.sh test
	cargo build --release
	@scripts/soak.sh
	@scripts/soak.sh --load
	$(took)

memory: ## measures memory traces of unmodified programs: speed, sizes, stacks
	@scripts/dynamorio.sh
	cargo build --release
	@cargo run --release --quiet -p refrain-bench -- memory
	$(took)

scale: ## measures the merge of up to 16,384 simulated tasks
	@cargo run --release --quiet -p refrain-bench -- scale
	$(took)

setup: ## installs the MPIs and tools of the tests
	@scripts/setup.sh test
	@echo "MPIs: $$(scripts/mpi --list | xargs)"

build: ## builds the release
	cargo build --release

PREFIX ?= /usr/local
install: build ## installs to PREFIX/bin and PREFIX/lib (PREFIX=/usr/local)
	install -D -m 755 target/release/refrain "$(DESTDIR)$(PREFIX)/bin/refrain"
	install -D -m 755 target/release/librefrain_agent.so "$(DESTDIR)$(PREFIX)/lib/librefrain_agent.so"
	install -D -m 755 target/release/librefrain_compiled.so "$(DESTDIR)$(PREFIX)/lib/librefrain_compiled.so"
	for library in $(wildcard target/dynamorio/lib*.so); do \
	    install -D -m 755 "$$library" "$(DESTDIR)$(PREFIX)/lib/$${library##*/}"; \
	done

lint: ## checks the formatting, and warnings as errors
	cargo fmt --check
	cargo clippy --workspace --all-targets --quiet -- -D warnings

dynamorio: ## builds DynamoRIO and our client of it, for refrain mem on unmodified programs
	@scripts/dynamorio.sh

clean: ## removes everything that was built, but keeps the MPIs and DynamoRIO
	[[ ! -d target ]] || find target -mindepth 1 -maxdepth 1 ! -name mpi ! -name dynamorio -exec rm -rf {} +
