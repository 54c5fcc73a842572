#!/bin/bash
# Writes what a release is made of, as CycloneDX: one list for each program and one for the library.
#
# usage: deploy/dist/sbom.sh ARCH
#
#   ARCH   x86_64 or aarch64
#
# A list has the linked crates: `cargo tree` names them, and cargo-cyclonedx describes them. cargo-cyclonedx alone would also list
# dependencies that only other crates of the workspace turn on. CYCLONEDX names the program cargo-cyclonedx [default: the one that
# `make dist` builds]. Writes target/dist/NAME-VERSION-ARCH.cdx.json.
# shellcheck source-path=SCRIPTDIR source=common.sh
. "$(dirname "$0")/common.sh"

arch=${1:?usage: sbom.sh ARCH}
cyclonedx=${CYCLONEDX:-$repository/target/tools/bin/cargo-cyclonedx}
[ -x "$cyclonedx" ] || fail "$cyclonedx is missing: it describes the crates of a release" "make dist builds it"
command -v jq >/dev/null || fail "jq is missing: it selects the crates that are linked" "apt-get install jq"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
# The tool writes a file next to every manifest of the workspace, so it works in a copy.
mkdir "$work/copy"
tar -C "$repository" --exclude=./target --exclude=./fuzz/target --exclude=./.git -cf - . | tar -C "$work/copy" -xf -
cd "$work/copy"

# The crates that are linked into PACKAGE, as a list of NAME@VERSION in JSON. Crates that run only in the compiler are left out.
linked() { # PACKAGE TARGET
    "${CARGO:-cargo}" tree --locked -p "$1" --target "$2" -e normal,no-proc-macro --prefix none --no-dedupe --format '{p}' |
        sed 's/^\([^ ]*\) v\([^ ]*\).*/\1@\2/' | sort -u | jq -R . | jq -s .
}

# Removes names of this machine's folders, dead links, and unlinked crates; sorts by name.
# shellcheck disable=SC2016 # jq's own variables
select='
    walk(if type == "string" then gsub("path\\+file://" + $folder + "/"; "path+file:///usr/src/evenkeel/") | sub("\\?download_url=[^#]*"; "") else . end)
    | walk(if type == "object" and has("externalReferences") then
        .externalReferences |= map(select(.url != "")) | if .externalReferences == [] then del(.externalReferences) else . end
      else . end)
    | .components |= (map(select((.name + "@" + .version) as $id | $linked | index($id))) | sort_by(.name, .version))
    | ([.metadata.component."bom-ref"] + [.components[]."bom-ref"]) as $kept
    | .dependencies |= (map(select(.ref as $ref | $kept | index($ref))
        | if .dependsOn then .dependsOn |= map(select(. as $ref | $kept | index($ref))) else . end) | sort_by(.ref))
    | if (.components | length) + 1 == ($linked | length) then . else error("linked, and not described: \($linked - [.components[] | .name + "@" + .version])") end'

bill() { # PACKAGE NAME TARGET
    local folder=crates/${1#evenkeel-}
    linked "$1" "$3" >"$work/linked"
    "$cyclonedx" cyclonedx -q --manifest-path "$folder/Cargo.toml" --format json --spec-version 1.5 --no-build-deps \
        --target "$3" --override-filename bill
    jq -S --slurpfile lists "$work/linked" --arg folder "$work/copy" "\$lists[0] as \$linked | $select" "$folder/bill.json" \
        >"$dist/$2-$version-$arch.cdx.json"
}

mkdir -p "$dist"
bill evenkeel evenkeel "$arch-unknown-linux-musl"
bill evenkeel-arena evenkeel-arena "$arch-unknown-linux-musl"
if [ "$arch" = "$(uname -m)" ]; then
    bill evenkeel-rt-c evenkeel-rt "$arch-unknown-linux-gnu"
fi
