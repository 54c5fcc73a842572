#!/bin/bash
# Lays out all installed files as they are below /: programs, manual pages, completions, units. Every package is made of this folder.
#
# usage: deploy/dist/stage.sh ARCH
#
# Reads target/dist/ARCH/bin, writes target/dist/ARCH/root.
# shellcheck source-path=SCRIPTDIR source=common.sh
. "$(dirname "$0")/common.sh"

arch=${1:?usage: stage.sh ARCH}
own=$repository/deploy/dist
root=$dist/$arch/root
# Pages and completions are the same on every processor, and come from a program that runs here.
runs=$dist/$(uname -m)/bin/evenkeel
[ -x "$runs" ] || fail "$runs is missing: it writes the manual pages" "deploy/dist/programs.sh $(uname -m)"

command -v help2man >/dev/null || fail "help2man is missing: it writes the manual pages of the arena" "apt-get install help2man"

rm -rf "$root"
share=$root/usr/share
mkdir -p "$root/usr/bin" "$share/man/man1" "$share/bash-completion/completions" "$share/zsh/vendor-completions" \
    "$share/fish/vendor_completions.d" "$share/doc/evenkeel" "$root/usr/lib/systemd/system" "$root/usr/lib/tmpfiles.d" "$root/etc/evenkeel"

install -m 755 "$dist/$arch"/bin/* "$root/usr/bin/"

# Every command below $@, one page each.
pages() {
    local page
    page=$(IFS=-; echo "evenkeel${*:+-$*}").1
    "$runs" man "$@" | gzip -9n >"$share/man/man1/$page.gz"
    local command
    for command in $("$runs" "$@" --help | sed -n '/^Commands:/,/^$/s/^  \([a-z][a-z-]*\) .*/\1/p'); do
        [ "$command" = help ] || pages "$@" "$command"
    done
}
pages
for what in 'evenkeel-arena:reference game server of evenkeel' 'evenkeel-bots:players for evenkeel-arena'; do
    program=${what%%:*}
    help2man --no-info --name "${what#*:}" "$dist/$(uname -m)/bin/$program" | gzip -9n >"$share/man/man1/$program.1.gz"
done
"$runs" completions bash >"$share/bash-completion/completions/evenkeel"
"$runs" completions zsh >"$share/zsh/vendor-completions/_evenkeel"
"$runs" completions fish >"$share/fish/vendor_completions.d/evenkeel.fish"

install -m 644 "$own"/evenkeel-{verify,serve}.service "$own/evenkeel-verify.timer" "$own/evenkeel-serve.socket" "$root/usr/lib/systemd/system/"
install -D -m 644 -t "$share/evenkeel/prometheus" "$repository"/deploy/prometheus/evenkeel*
install -D -m 644 -t "$share/evenkeel/prometheus/scrape" "$repository"/deploy/prometheus/scrape/*.yml
install -m 644 "$own/evenkeel.tmpfiles" "$root/usr/lib/tmpfiles.d/evenkeel.conf"
install -m 644 "$own/waivers.toml" "$root/etc/evenkeel/"
install -m 644 "$repository/README.md" "$repository/LICENSE-MIT" "$repository/LICENSE-APACHE" "$share/doc/evenkeel/"
find "$root" -exec touch -h -d "@$SOURCE_DATE_EPOCH" {} +
