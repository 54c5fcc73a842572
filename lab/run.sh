#!/usr/bin/env bash
# What `make lab` runs: all that takes too long, or too much software, for `make test`.
set -euo pipefail
# shellcheck source=lab/common.sh
. "$(dirname "$0")/common.sh"
cd "$TOP"

"$LAB/machines.sh"
"$LAB/kernel-line.sh" || [ $? -eq 4 ] # not possible here, and it has said why
"$LAB/reboot.sh" || [ $? -eq 4 ]
say "trying 100,000 mutated captures"
EVENKEEL_MUTATIONS=100000 cargo test --release --locked -p evenkeel-host --test mutations -- --nocapture
