# evenkeel: two commands do it all. `make demo` shows the main job; `make test` runs every test.
# Each does the set-up that it needs on a fresh Debian or Ubuntu machine that has a Rust toolchain.

.DEFAULT_GOAL := help
.PHONY: help demo test check model lab bench build install-rt setup fmt clean

CARGO ?= cargo
DENY_VERSION := 0.20.2
DENY := target/tools/bin/cargo-deny

help: ## show this list
	@grep -E '^[a-z-]+:.*##' Makefile | sed -E 's/:.*## /\t/' | expand -t 12

demo: build ## inspect, audit, put a real server under load, prove a knob, put everything back, write report.html
	target/release/evenkeel demo

test: setup ## run every test
	$(CARGO) build --workspace --locked
	$(CARGO) test --workspace --locked --no-fail-fast
	$(CARGO) test --locked --no-fail-fast -p evenkeel-rt --all-features
	$(CARGO) test --locked --no-fail-fast -p evenkeel-rt-c --all-features

check: setup $(DENY) ## formatting, lints, documentation, licences and duplicates of dependencies
	$(CARGO) fmt --all --check
	$(CARGO) clippy --workspace --all-targets --all-features --locked -- -D warnings
	RUSTDOCFLAGS="-D warnings" $(CARGO) doc --workspace --all-features --no-deps --locked
	$(DENY) --locked check bans licenses sources

model: setup ## every order of steps that the locks, the job system's parts and the page of telemetry can take, by the model checker
	RUSTFLAGS="--cfg loom" LOOM_MAX_PREEMPTIONS=3 $(CARGO) test --release --locked --target-dir $(or $(CARGO_TARGET_DIR),target)/loom -p evenkeel-sys --lib -- lock:: job:: sequence::

lab: setup ## capture guests under QEMU anew (hosts/qemu-*), compare facts with other tools, try 100,000 mutated captures and edited files, fuzz; says what it skipped
	lab/run.sh

bench: build ## measure evenkeel beside its peers, into target/bench/; ROW=… for one row
	$(CARGO) build --release --locked -p evenkeel-bench
	$(or $(CARGO_TARGET_DIR),target)/release/evenkeel-bench $(ROW)

build: setup ## build the program and the reference server
	$(CARGO) build --release --locked -p evenkeel -p evenkeel-arena

install-rt: setup ## build the library for C, C++ and C#, and install it below PREFIX (/usr/local unless told); FEATURES=io-uring for that
	$(CARGO) build --profile rt-c --locked -p evenkeel-rt-c $(if $(FEATURES),--features $(FEATURES))
	crates/rt-c/install.sh "$(or $(PREFIX),/usr/local)" "$(or $(CARGO_TARGET_DIR),target)/rt-c"

setup:
	@deploy/setup.sh

$(DENY):
	$(CARGO) install cargo-deny --version $(DENY_VERSION) --locked --root target/tools

fmt: ## format the sources
	$(CARGO) fmt --all

clean: ## remove what was built
	$(CARGO) clean
