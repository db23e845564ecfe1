# Refrain's everyday commands. Each installs what it needs and is missing.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.NOTPARALLEL:
.PHONY: help demo test test-full mbi check-programs proxies loom fuzz gpu deviations bench calls coupled stalls ends sizes nests nas histograms nest-speed ablation times order clock soak memory cache scale check-speed walk setup build install dynamorio lint clean

started := $(shell date +%s)
took = @echo "make $@: $$(($$(date +%s) - $(started))) s"

help: ## shows this list
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  make \1\t\2/p' Makefile | expand -t 20

demo: ## records a small MPI program and shows what was found
	@scripts/setup.sh demo
	@$(MAKE) --no-print-directory build
	@scripts/demo.sh
	$(took)

test: ## lints, runs all tests with every MPI, and says where the time went
	@scripts/test.sh
	$(took)

test-full: ## the same, with the long tests
	@REFRAIN_TEST_FULL=1 $(MAKE) --no-print-directory test

mbi: ## checks the MPI Bugs Initiative's programs (20 minutes each on MPICH and Open MPI); MBI='--sample 200' for fewer
	@scripts/setup.sh test
	@$(MAKE) --no-print-directory build
	@mkdir -p target/mbi
	@scripts/mbi.py --mpi mpich-4.0 --failures --table target/mbi/mpich-4.0.txt $(MBI)
	@scripts/mbi.py --mpi openmpi-4.1 --failures --table target/mbi/openmpi-4.1.txt $(MBI)
	$(took)

check-programs: ## checks that MPI errors are found in no program that has none; NPB_BIN=folder adds the NAS benchmarks
	@scripts/setup.sh test
	@$(MAKE) --no-print-directory build
	REFRAIN_CHECK_PROGRAMS=1 cargo nextest run -p refrain --no-capture -E 'test(checking_programs)'
	$(took)

proxies: ## generates the proxies of many programs, and compares their traces with those of the programs
	@scripts/setup.sh test
	@$(MAKE) --no-print-directory build
	REFRAIN_PROXIES=1 cargo nextest run -p refrain --no-capture -E 'test(nearly_every_program_has_a_fixed_point)'
	$(took)

loom: ## tries the queue of the clock encoder under every order of memory accesses
	@scripts/loom.sh
	$(took)

fuzz: ## fuzzes the readers, each for FUZZ_SECONDS (60); see fuzz/README.md
	@scripts/setup.sh demo
	@fuzz/run.sh $(FUZZ)
	$(took)

gpu: ## checks the names of GPU memory, on a machine with an NVIDIA GPU and nvcc
	@$(MAKE) --no-print-directory build
	@scripts/gpu.sh
	$(took)

deviations: ## shows where a traced program is known to differ; see ARCHITECTURE.md
	@scripts/setup.sh test
	@$(MAKE) --no-print-directory build
	-cargo nextest run --run-ignored only

bench: ## measures Refrain, and writes the results to bench/runs
	@scripts/setup.sh test
	@$(MAKE) --no-print-directory build
	@cargo run --release --quiet -p refrain-bench
	$(took)

calls: ## measures what a traced call and whole traced runs cost
	@scripts/setup.sh test
	@$(MAKE) --no-print-directory build
	@cargo run --release --quiet -p refrain-bench -- calls
	$(took)

coupled: ## measures what tracing costs jobs whose ranks wait for each other
	@scripts/setup.sh test
	@$(MAKE) --no-print-directory build
	@cargo run --release --quiet -p refrain-bench -- coupled
	$(took)

stalls: ## measures how long the agent delays programs at a time, and what that costs on many cores
	@scripts/setup.sh test
	@$(MAKE) --no-print-directory build
	@cargo build --release --quiet -p refrain-agent --features stalls --target-dir target/stalls
	@cargo run --release --quiet -p refrain-bench -- stalls
	$(took)

ends: ## measures what comes before and after a traced program: start, end of the run, verify
	@scripts/setup.sh test
	@$(MAKE) --no-print-directory build
	@cargo run --release --quiet -p refrain-bench -- ends
	$(took)

sizes: ## measures how large traces are; NPB_BIN=folder adds the NAS Parallel Benchmarks
	@$(MAKE) --no-print-directory build
	@cargo run --release --quiet -p refrain-bench -- sizes
	$(took)

nests: ## measures traces of irregular programs; REFRAIN_BASELINE=file compares with an earlier refrain
	@$(MAKE) --no-print-directory build
	@cargo run --release --quiet -p refrain-bench -- nests
	$(took)

nas: ## checks that traces of the NAS Parallel Benchmarks are exact; NPB_BIN=folder as above
	@$(MAKE) --no-print-directory build
	@cargo run --release --quiet -p refrain-bench -- nas
	$(took)

histograms: ## measures traces with histograms: the same size for any number of steps and ranks
	@$(MAKE) --no-print-directory build
	@cargo run --release --quiet -p refrain-bench -- histograms
	$(took)

nest-speed: ## measures how fast grammars become loop nests, and the memory for it
	@cargo run --release --quiet -p refrain-bench -- nest-speed
	$(took)

ablation: ## measures what each step of folding is worth; NPB_BIN=folder as above
	@$(MAKE) --no-print-directory build
	@cargo run --release --quiet -p refrain-bench -- ablation
	$(took)

times: ## measures how the times of calls are kept; NPB_BIN=folder as above
	@$(MAKE) --no-print-directory build
	@cargo run --release --quiet -p refrain-bench -- times
	$(took)

order: ## measures what recording and replaying receive orders costs, and how large records are
	@scripts/setup.sh test
	@$(MAKE) --no-print-directory build
	@cargo run --release --quiet -p refrain-bench -- order
	$(took)

clock: ## measures receive orders by clocks: sizes step by step, hidden determinism, what they cost
	@scripts/setup.sh test
	@$(MAKE) --no-print-directory build
	@cargo run --release --quiet -p refrain-bench -- clock
	$(took)

soak: ## replays programs that differ from run to run 20 times each, on 4 to 32 ranks, idle and under load
	@scripts/setup.sh test
	@$(MAKE) --no-print-directory build
	@scripts/soak.sh
	@scripts/soak.sh --load
	$(took)

memory: ## measures memory traces of unmodified programs: speed, sizes, stacks
	@scripts/dynamorio.sh
	@$(MAKE) --no-print-directory build
	@cargo run --release --quiet -p refrain-bench -- memory
	$(took)

scale: ## measures the merge of up to 16,384 simulated tasks, and the memory to read them
	@cargo run --release --quiet -p refrain-bench -- scale
	$(took)

cache: ## measures the simulation of caches against a naive one; REFRAIN_DINERO=program adds Dinero IV
	@cargo run --release --quiet -p refrain-bench -- cache
	$(took)

check-speed: ## measures how fast errors are searched for in long traces, regular and irregular
	@cargo build --release --quiet -p refrain
	@cargo run --release --quiet -p refrain-bench -- check
	$(took)

walk: ## measures the memory that reading a trace of 16,384 simulated ranks takes
	@cargo run --release --quiet -p refrain-bench -- walk
	$(took)

setup: ## installs the MPIs and tools of the tests
	@scripts/setup.sh test
	@echo "MPIs: $$(scripts/mpi --list | xargs)"

# One build each: in a build of the whole workspace, features of one package's dependencies would get
# into the libraries that are loaded into programs.
build: ## builds the release: the command, the agent, the library for recompiled programs
	cargo build --release -p refrain-agent
	cargo build --release -p refrain-compiled
	cargo build --release -p refrain

PREFIX ?= /usr/local
install: build ## installs to PREFIX/bin and PREFIX/lib (PREFIX=/usr/local), without debug information
	@scripts/install.sh "$(DESTDIR)$(PREFIX)"

# With the profile of the tests, so that C code of dependencies is compiled once for both.
lint: ## checks the formatting, and warnings as errors
	cargo fmt --check
	cargo clippy --workspace --all-targets --profile test --quiet -- -D warnings

dynamorio: ## builds DynamoRIO and our client of it, for refrain mem on unmodified programs
	@scripts/dynamorio.sh

clean: ## removes everything that was built, but keeps the MPIs and DynamoRIO
	[[ ! -d target ]] || find target -mindepth 1 -maxdepth 1 ! -name mpi ! -name dynamorio -exec rm -rf {} +
