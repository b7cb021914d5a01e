# `make demo` and `make test` do all the set-up they need. Everything longer than a line is a script in lab/.

# In the path that sudo uses on Debian (secure_path), so that `sudo overhead` is found.
PREFIX ?= /usr/local
export PATH := $(or $(CARGO_HOME),$(HOME)/.cargo)/bin:$(PATH)

.PHONY: help demo comparison quick test test-all test-export test-kernels test-containers test-faults test-page docs fuzz crosscheck build bench export dist install bench-peers soak bless fixtures clean

help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: ## install what is missing, measure a private Redis and PostgreSQL, draw the figures
	lab/demo

comparison: ## databases, caches and key-value servers side by side, measured and explained, into docs/comparison; one: lab/comparison caches
	lab/comparison

quick: ## formatting, lints, and the tests of the crates you changed
	lab/quick

test: ## lints, docs, tests, live tests against real servers
	lab/check

test-all: ## everything that CI runs: `make test`, faults, hostile captures, exports read by Spark
	lab/check --all

test-kernels: ## the BPF programs on Debian's kernels 6.1 and 6.12, x86_64 and arm64, in emulated machines; ten minutes
	lab/test/kernels

test-faults: build ## full disks, killed servers, interfaces that go away, …: what each loses, says, and how the run is completed; a minute
	lab/install build redis
	lab/test/faults.py target/release/overhead

docs: ## docs/ as a static book with its links checked, target/book/index.html; installs mdBook the first time
	lab/install build
	lab/release/book.py
test-containers: ## servers in containers of real engines, captured by name: podman, Docker, runc, as far as they are installed
	lab/test/containers.py
	lab/test/containers.py --engines

test-page: ## pages of `overhead report` in headless Chromium: three widths, light, dark, printed, by keyboard, axe-core; a quarter of an hour
	lab/install build page
	cargo build --locked -p overhead
	lab/test/page

fuzz: ## long runs of the fuzz targets: 10 million executions each, or FUZZ_RUNS
	lab/test/fuzz

crosscheck: ## 28 drivers against real servers, tshark and the servers' own counters; minutes, a quarter of an hour the first time
	lab/install build drivers
	lab/test/crosscheck.py --drivers
	lab/test/tlsclients.py

build: ## the release binary, target/release/overhead
	lab/install build
	cargo build --release --locked -p overhead

bench: ## the load generator with its database drivers, target/release/overhead-bench
	lab/install build
	cargo build --release --locked -p overhead-bench

dist: ## static binaries for x86_64 and aarch64, their debug symbols, .deb packages and a bill of materials, into target/dist
	lab/release/dist

export: ## the exporter with its writer of Parquet, target/release/overhead-export
	lab/install build
	cargo build --release --locked -p overhead-export

test-export: ## every fixture exported, read back by DuckDB, pandas, Polars and Spark; then the fleet's jobs on a cluster of this machine
	lab/install build export
	cargo build --release --locked -p overhead -p overhead-export
	lab/test/export target/release
	lab/test/fleet.py target/release

install: build ## binaries, man pages and shell completions into PREFIX=/usr/local; asks sudo for the copying alone
	cargo build --profile quick --locked -p overhead-bench -p overhead-export
	lab/release/place '$(PREFIX)'

bench-peers: build bench ## beside tshark, tcpdump, bpftrace, perf and strace, files and live; writes docs/performance.md
	lab/install peers memcached redis postgres mariadb cassandra ferretdb
	cargo build --release --locked -p overhead-kernel --example empty_programs
	lab/measure/bench-peers.py target/release/overhead --write docs/performance.md

soak: build ## a capture at full rate for ten minutes: memory flat, no descriptor or map left; draws the curve
	lab/install soak redis
	lab/measure/soak.py --write target/release/overhead

bless: ## rewrite the expectations of the fixtures and the examples in the documents; read the diff before you commit it
	OVERHEAD_BLESS=1 cargo test --locked -p overhead --test integration -- fixtures:: explain:: schema::

fixtures: ## capture all fixtures again, from real servers
	lab/install build fixtures memcached redis postgres cassandra ferretdb
	fixtures/record --all

clean: ## what was built, and the lab's servers; runs/ stays
	lab/down
	cargo clean
