# evenkeel: two commands do it all. `make demo` shows the main job; `make test` runs every test.
# `make live` measures: it runs the live checks, which need a quiet machine.
# Each does the set-up that it needs on a fresh Debian or Ubuntu machine that has a Rust toolchain.

.DEFAULT_GOAL := help
.PHONY: help demo test live check model mutants lab lab-kube bench site pictures build dist release-check install-rt setup fmt clean

CARGO ?= cargo
DENY_VERSION := 0.20.2
DENY := target/tools/bin/cargo-deny
CYCLONEDX_VERSION := 0.5.9
CYCLONEDX := target/tools/bin/cargo-cyclonedx
SEMVER_CHECKS_VERSION := 0.51.0
SEMVER_CHECKS := target/tools/bin/cargo-semver-checks
MUTANTS_VERSION := 27.1.0
MUTANTS := target/tools/bin/cargo-mutants
# Tools run for seconds: to compile them fast is worth more than their speed, and nobody debugs them.
INSTALL := CARGO_PROFILE_DEV_DEBUG=0 $(CARGO) install --locked --debug --root target/tools
TARGET := $(abspath $(or $(CARGO_TARGET_DIR),target))
# What tests could not run on this machine, one line each: the harness itself counts a test that returns early as passed.
SKIPPED := $(TARGET)/skipped.txt
# Tests and live checks are one build: what is selected decides the features of all packages, and with others all is compiled again.
# Tracy is C++, which programs in C cannot link, and rt-c tests such programs: `make check`, which compiles all features, tests it.
# The benches are left out: the peers that they compare with are 40 packages that nothing else uses.
TESTED := --workspace --exclude evenkeel-bench --exclude evenkeel-bench-uring \
    --features evenkeel-rt/agones,evenkeel-rt/io-uring,evenkeel-rt/puffin,evenkeel-rt/tracing,evenkeel-rt-c/io-uring,evenkeel/kubernetes

help: ## show this list
	@grep -E '^[a-z-]+:.*##' Makefile | sed -E 's/:.*## /\t/' | expand -t 12

demo: build ## inspect, audit, put a real server under load, prove a knob, put everything back, write report.html
	target/release/evenkeel demo

test: setup ## run every test; the same result on any machine at any load
	@mkdir -p $(TARGET) && rm -f $(SKIPPED)
	export EVENKEEL_SKIPPED=$(SKIPPED) CARGO=$(CARGO); code=0; \
	lab/tests.sh $(TARGET)/unit-tests.log $(TESTED) || code=1; \
	lab/skipped.sh $(SKIPPED); exit $$code

live: setup ## run the live checks, one at a time: what measures the machine; NAME=… for some, EXTRA=1 for the longest too, RESUME=1 to continue, WITHIN=SECONDS for a sample, LIST=1
	EVENKEEL_TESTED="$(TESTED)" $(CARGO) run --locked -q -p evenkeel-testkit --bin evenkeel-live -- $(NAME) $(if $(RESUME),--resume) $(if $(WITHIN),--within $(WITHIN)) \
	    $(if $(EXTRA),--extra) $(if $(LIST),--list) $(if $(RECORD),--record) || [ $$? -eq 4 ] # none failed, and some could not be judged here

check: setup $(DENY) ## formatting, lints, documentation; the test of Tracy; the oldest Rust; the libraries for other systems; licences, duplicates and known vulnerabilities of dependencies
	$(CARGO) fmt --all --check
	$(CARGO) clippy --workspace --all-targets --all-features --locked -- -D warnings
	$(CARGO) clippy --workspace --test live --all-features --locked -- -D warnings # which --all-targets leaves out: `test = false`
	RUSTFLAGS="-D warnings" lab/oldest-rust.sh --bins || [ $$? -eq 4 ] # without features too, as users build it
	$(CARGO) test --locked -q -p evenkeel-rt --all-features --lib -- scope::
	lab/other-systems.sh
	RUSTDOCFLAGS="-D warnings" $(CARGO) doc --workspace --all-features --no-deps --locked
	$(DENY) --locked check bans licenses sources
	lab/advisories.sh $(DENY)

model: setup ## every order of steps that the locks, the job system's parts, the page of telemetry and the slot of phases can take, by the model checker
	RUSTFLAGS="--cfg loom" LOOM_MAX_PREEMPTIONS=3 $(CARGO) test --profile model --locked --target-dir $(or $(CARGO_TARGET_DIR),target)/loom -p evenkeel-sys --lib -- lock:: job:: sequence:: phase_slot::

mutants: setup $(MUTANTS) ## change the code of stats, change, host, workload and trial, and list the changes that no test notices; hours, or SHARD=0/100 for a hundredth
	$(MUTANTS) mutants -p evenkeel-stats -p evenkeel-change -p evenkeel-host -p evenkeel-workload -p evenkeel-trial --output $(TARGET) $(if $(SHARD),--shard $(SHARD))

lab: setup ## capture guests under QEMU anew (hosts/qemu-*), compare facts with other tools, try 100,000 mutated captures and edited files, fuzz; says what it skipped
	lab/run.sh

lab-kube: setup ## build a Kubernetes control plane once (some 10 minutes, needs Go), and try agents and rollouts on it
	lab/kube/build.sh target/tools/kube
	$(CARGO) test --locked $(TESTED) --test suite -- --nocapture --ignored lab_hosts::a_cluster

bench: build ## measure evenkeel beside its peers, into target/bench/; ROW=… for one row
	$(CARGO) build --release --locked -p evenkeel-bench
	$(or $(CARGO_TARGET_DIR),target)/release/evenkeel-bench $(ROW)

site: setup ## build the documentation site in target/site, with mdBook
	@deploy/setup.sh site
	lab/site.sh target/tools/bin/mdbook

pictures: build ## make the pictures of the README anew: a topology, a flame graph of a recording, a terminal session
	lab/pictures.sh $(or $(CARGO_TARGET_DIR),target)/release

build: setup ## build the program and the reference server
	$(CARGO) build --release --locked -p evenkeel -p evenkeel-arena

dist: setup $(CYCLONEDX) ## make a release in target/dist: static programs, tarballs, .deb, .rpm, a container image, lists of the crates inside; ARCH=aarch64 for another processor
	@deploy/setup.sh dist
	deploy/dist.sh $(ARCH)

release-check: setup $(CYCLONEDX) ## whether this tree can be released: every check, two builds that have to be the same, packages in a fresh Debian
	deploy/release-check.sh

install-rt: setup ## build the library for C, C++ and C#, and install it below PREFIX (by default /usr/local); FEATURES=io-uring for that
	$(CARGO) build --profile rt-c --locked -p evenkeel-rt-c $(if $(FEATURES),--features $(FEATURES))
	crates/rt-c/install.sh "$(or $(PREFIX),/usr/local)" "$(or $(CARGO_TARGET_DIR),target)/rt-c"

setup:
	@deploy/setup.sh

$(DENY):
	$(INSTALL) cargo-deny --version $(DENY_VERSION)

$(CYCLONEDX):
	$(INSTALL) cargo-cyclonedx --version $(CYCLONEDX_VERSION)

$(SEMVER_CHECKS):
	$(INSTALL) cargo-semver-checks --version $(SEMVER_CHECKS_VERSION)

$(MUTANTS):
	$(INSTALL) cargo-mutants --version $(MUTANTS_VERSION)

fmt: ## format the sources
	$(CARGO) fmt --all

clean: ## remove what was built
	$(CARGO) clean
