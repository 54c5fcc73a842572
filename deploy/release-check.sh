#!/bin/bash
# Checks whether this tree can be released. Prints passed or FAILED for each check. Changes nothing but target/.
#
# usage: deploy/release-check.sh [--quick]
#
#   --quick   leaves out what takes over ten minutes: every test, two builds, the packages in a fresh system
# The checks are called by name.
# shellcheck disable=SC2317
# shellcheck source-path=SCRIPTDIR source=dist/common.sh
. "$(dirname "$0")/dist/common.sh"
cd "$repository"

quick=${1:-}
is_committed() { [ -z "$(git status --porcelain)" ] || { git status --short && false; }; }
changelog_names_version() { grep -E "^## \[$version\] - [0-9]{4}-[0-9]{2}-[0-9]{2}$" CHANGELOG.md || { echo "CHANGELOG.md has no \"## [$version] - DATE\"" && false; }; }
tag_is_free() { ! git rev-parse -q --verify "refs/tags/v$version"; }
is_reproducible() {
    local elsewhere
    elsewhere=$(mktemp -d)
    # shellcheck disable=SC2064 # expand the folder now
    trap "rm -rf '$elsewhere'" EXIT
    git clone -q . "$elsewhere/another-folder"
    (cd "$elsewhere/another-folder" && CYCLONEDX=$repository/target/tools/bin/cargo-cyclonedx deploy/dist.sh)
    diff "$elsewhere/another-folder/target/dist/SHA256SUMS" target/dist/SHA256SUMS
}
# Checks whether the version number allows the changes of the Rust libraries since the last tag, by the rules with which cargo resolves
# versions.
version_fits_changes() { "$semver_checks" semver-checks --baseline-rev "$1" --all-features -p evenkeel-sys -p evenkeel-stats -p evenkeel-rt; }
check_version_against_last_tag() {
    local last what='the version number allows the changes of the Rust libraries'
    if ! last=$(git describe --tags --abbrev=0 --match 'v[0-9]*' --exclude "v$version" 2>/dev/null); then
        echo "skipped: $what, because no earlier tag exists to compare with"
    elif ! make -s "$semver_checks" >target/semver-checks.log 2>&1; then
        echo "skipped: $what, because cargo-semver-checks could not be built (target/semver-checks.log)"
    else
        check "$what since $last" version_fits_changes "$last"
    fi
}

semver_checks=target/tools/bin/cargo-semver-checks
mkdir -p target
check 'everything is committed' is_committed
check 'the changelog has this version' changelog_names_version
check 'no tag has this version yet' tag_is_free
check 'formatting, lints, documents, licences, advisories' make check
check_version_against_last_tag
if [ "$quick" != --quick ]; then
    check 'the oldest Rust that is promised builds it' lab/oldest-rust.sh
    check 'every test' make test
    check 'programs and packages are made' deploy/dist.sh
    check 'a build in another folder is the same' is_reproducible
    check 'packages install, upgrade and go' lab/packages.sh
    check 'the package lives under systemd' lab/systemd.sh
    check 'the image runs in containers' lab/container.sh
    check 'the Rust libraries build from their packages' deploy/dist/crates.sh
fi
exit "$wrong"
