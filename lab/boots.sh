#!/usr/bin/env bash
# Tests that `prove boots` completes A-B-B-A on a Debian with systemd and grub, and leaves nothing behind: with manual reboots, with
# automatic reboots and a power cut in the middle, and with `evenkeel revert` half-way.
#
# usage: lab/boots.sh [-s SEED] [-p PROGRAM] [-w WAY]… [KNOB=VALUE]
#
#   -s  the seed of the order (default: 1)
#   -p  the evenkeel to test, which must run in Debian 12 (default: built here)
#   -w  the way through the boots: by_hand, by_itself or reverted (default: all three)
#
# The guest's measurements mean nothing: this script tests only the sequence of boots. Exit code 1: something failed, and the output says
# what.
set -euo pipefail
# shellcheck source=lab/common.sh
. "$(dirname "$0")/common.sh"

seed=1 evenkeel='' ways=()
while getopts s:p:w: option; do
    case $option in
    s) seed=$OPTARG ;;
    p) evenkeel=$OPTARG ;;
    w) case $OPTARG in
        by_hand | by_itself | reverted) ways+=("$OPTARG") ;;
        *)
            say "there is no way $OPTARG: by_hand, by_itself, reverted"
            exit 2
            ;;
        esac ;;
    *) exit 2 ;;
    esac
done
shift $((OPTIND - 1))
[ "${#ways[@]}" -gt 0 ] || ways=(by_hand by_itself reverted)
setting=${1:-cmdline.processor.max_cstate=1}
argument=${setting#cmdline.}

one_guest boots

program=/usr/local/bin/evenkeel
prove=("$program" prove boots start "$setting" --boots 4 --settle 2s --windows 3 --window-ms 500 --workload tick --seed "$seed")
wrong=0
complain() {
    say "WRONG: $*"
    wrong=$((wrong + 1))
}
guest() { "$machine" run "$@"; }

# status: prints the state of the trial on one line. Exit code 1 means the verdict worse.
status() {
    local code=0
    "$machine" -t 30 run "$program" prove boots status --json >"$work/status" 2>/dev/null || code=$?
    [ "$code" -le 1 ] && tr -d ' \n' <"$work/status"
}
# counted TEXT: prints how many boots count.
counted() { grep -o '"outcome":"measured"' <<<"$1" | wc -l; }
has_ended() { grep -q '"ended":' <<<"$1"; }
unit_is_there() { guest test -e /etc/systemd/system/evenkeel-boots.service; }

# is_put_back: whether the guest answers, and has neither the unit nor the argument.
is_put_back() {
    local seen
    seen=$("$machine" -t 30 run cat /proc/cmdline 2>/dev/null && "$machine" -t 30 run ls /etc/systemd/system 2>/dev/null) || return 1
    ! grep -qw -e "$argument" -e evenkeel-boots.service <<<"$seen"
}

# as_before WHAT: whether the guest is as before, after one more boot.
as_before() {
    local difference
    guest /root/photograph >"$work/now"
    difference=$(diff "$work/before" "$work/now") || complain "$1: < before, > now: $(grep '^[<>]' <<<"$difference" | head -n 20)"
    ! guest grep -qw "$argument" /proc/cmdline || complain "$1: the kernel still runs with $argument"
    ! unit_is_there || complain "$1: the unit is still there"
    say "  as before: everything under /etc, /usr/local and /boot, and the kernel line ($1)"
}

# whole TEXT: whether the trial ended with four boots, each with the arm that its command line shows.
whole() {
    local arms
    grep -q '"ended":"whole"' <<<"$1" || complain "it did not come to its end: $1"
    [ "$(counted "$1")" -eq 4 ] || complain "$(counted "$1") boots count"
    # For each boot that counts, the text has its arm, then its command line. An additional boot, for example after a power cut, has the kernel
    # that the boot before it prepared.
    arms=$(grep -o '"arm":"[AB]","tries":[0-9]*,"machine":{[^}]*},"outcome":"measured"' <<<"$1" | while read -r boot; do
        if grep -qF "$argument" <<<"$boot"; then echo -n "${boot:7:1}+ "; else echo -n "${boot:7:1}- "; fi
    done)
    say "  the boots, with whether the kernel had $argument: $arms"
    ! grep -q 'A+\|B-' <<<"$arms" || complain "a boot was not what its arm says: $arms"
    grep -q 'weakerthanatrial' <<<"$1" || complain "the verdict stands without what it rests on: $1"
}

prepare() {
    [ -n "$evenkeel" ] || evenkeel=$("$LAB/guest-program.sh")
    "$LAB/disk.sh" >/dev/null
    "$machine" start
    "$machine" push "$evenkeel" "$program"
    "$machine" push "$LAB/guest/photograph" /root/photograph
    guest sync
    guest /root/photograph >"$work/before"
    "$machine" snapshot before
}

by_hand() {
    local now='' boots=0
    say "${prove[*]}"
    guest "${prove[@]}" >"$work/begin.out" || complain "it did not begin: $(tail -n 5 "$work/begin.out")"
    while ! has_ended "$now" && [ "$boots" -lt 8 ]; do
        "$machine" reboot
        boots=$((boots + 1))
        now=$(status) || complain "no status in boot $boots"
        say "  boot $boots: $(counted "$now") of 4 count"
    done
    guest journalctl -u evenkeel-boots.service --no-pager >"$work/by-hand.journal" 2>&1 || true
    guest "$program" prove boots status >&2 || true
    whole "$now"
    # The trial reports its end first, then restores everything, and removes the unit last.
    local end=$((SECONDS + 1200))
    while unit_is_there && [ "$SECONDS" -lt "$end" ]; do
        sleep 5
    done
    "$machine" reboot
    as_before "rebooted by hand, $boots boots"
}

by_itself() {
    local now='' end=$((SECONDS + 3600)) has_cut=no
    "$machine" restore before
    say "${prove[*]} --reboot"
    guest systemd-run --quiet --collect --on-active=1 "${prove[@]}" --reboot
    while ! has_ended "$now" && [ "$SECONDS" -lt "$end" ]; do
        sleep 2
        # A machine that is shutting down or booting does not answer.
        now=$(status) || now=''
        if [ "$(counted "$now")" -ge 1 ] && [ "$has_cut" = no ]; then
            say "  power cut, with $(counted "$now") boots measured"
            "$machine" cut
            "$machine" boot || true
            has_cut=yes now=''
        fi
    done
    [ "$has_cut" = yes ] || complain "the power was never cut"
    whole "$now"
    # The last boot may have been a boot of arm B. Then evenkeel restores everything, and the machine reboots once more.
    end=$((SECONDS + 1200))
    until is_put_back || [ "$SECONDS" -ge "$end" ]; do
        sleep 5
    done
    as_before "by itself"
}

reverted() {
    local now='' boots
    "$machine" restore before
    guest "${prove[@]}" >"$work/begin.out" || complain "it did not begin: $(tail -n 5 "$work/begin.out")"
    for boots in 1 2; do
        "$machine" reboot
    done
    now=$(status)
    say "  evenkeel revert after $boots boots, of which $(counted "$now") count"
    guest "$program" revert >"$work/revert.out" || complain "revert ended with $?: $(cat "$work/revert.out")"
    ! unit_is_there || complain "the unit outlived evenkeel revert"
    "$machine" reboot
    as_before "evenkeel revert"
    has_ended "$(status)" || complain "the status does not show that the trial has ended"
}

prepare
for way in "${ways[@]}"; do
    "$way"
done
[ "$wrong" -eq 0 ] || {
    say "$wrong things were not as promised; $work has what was seen"
    exit 1
}
say "A-B-B-A over boots (${ways[*]}) goes as promised, and leaves nothing behind"
