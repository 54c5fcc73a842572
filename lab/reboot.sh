#!/usr/bin/env bash
# Tests that changes survive a reboot, and disappear without a trace, on a Debian with systemd and grub: applied, rebooted, checked without
# evenkeel, reverted, rebooted, checked again. Then the power is cut during an apply, and during a revert.
#
# usage: lab/reboot.sh [-c CUTS] [-s SEED] [-p PROGRAM] [KNOB=VALUE…]
#
#   -c  how many power cuts (default: 4)
#   -s  the seed of their times (default: from the clock)
#   -p  the evenkeel to test, a static program (default: built here)
#
# Without settings, the script uses one setting of each kind that survives a reboot in its own way; `settings` below lists the possible
# settings. A round takes two to four minutes, mostly for grub. Exit code 1: something failed, and the output says what.
set -euo pipefail
# shellcheck source=lab/common.sh
. "$(dirname "$0")/common.sh"

cuts=4 seed=$(($(date +%s) % 32768)) evenkeel=''
while getopts c:s:p: option; do
    case $option in
    c) cuts=$OPTARG ;;
    s) seed=$OPTARG ;;
    p) evenkeel=$OPTARG ;;
    *) exit 2 ;;
    esac
done
shift $((OPTIND - 1))
RANDOM=$seed

one_guest reboot

# The lines of guest/values for each setting after a reboot. The machine has two cores with two threads each.
declare -A shows=(
    [cmdline.processor.max_cstate=1]='max_cstate 1'
    [clocksource=hpet]='clocksource hpet'
    [smt.control=off]=$'smt off\nonline 0,2'
    [thp.enabled=never]='thp always madvise [never]'
    [net.core.rmem_max=16777216]='rmem_max 16777216'
    [net.core.busy_read=50]='busy_read 50'
    [irqbalance.banned_cpus=2]='irqbalance-banned 2'
    [process.cpu_affinity=0]=$'memcached-unit-CPUAffinity 0\nmemcached-cpus 0'
    [process.timer_slack_ns=1000]=$'memcached-unit-TimerSlackNSec 1000\nmemcached-slack-ns 1000'
)
settings=("$@")
[ $# -gt 0 ] || mapfile -t settings < <(printf '%s\n' "${!shows[@]}" | sort)
wanted=('irqbalance active' 'memcached active' 'failed-units ')
for setting in "${settings[@]}"; do
    [ -n "${shows[$setting]:-}" ] || die "guest/values does not show $setting; it does: ${!shows[*]}"
    mapfile -t -O "${#wanted[@]}" wanted <<<"${shows[$setting]}"
done

program=/usr/local/bin/evenkeel
apply=("$program" apply --persist --unit memcached.service "${settings[@]}")
revert=("$program" revert)

wrong=0 timings=() took=0
complain() {
    say "WRONG: $*"
    wrong=$((wrong + 1))
}

# timed WHAT COMMAND…: writes the time of the command to `timings`, and in whole seconds to `took`.
timed() {
    local what=$1 began=$SECONDS status=0
    shift
    "$@" || status=$?
    took=$((SECONDS - began))
    timings+=("$(printf '%4d s  %s' "$took" "$what")")
    return "$status"
}

guest() { "$machine" run "$@"; }
look() { guest "/root/$1" >"$work/$2"; }

# same WHAT BEFORE AFTER: reports each line that differs.
same() {
    local difference
    if difference=$(diff "$work/$2" "$work/$3"); then
        say "  as before: $1"
    else
        complain "$1: < before, > now"
        grep '^[<>]' <<<"$difference" | head -n 40 | sed 's/^/    /' >&2
    fi
}

# in_force FILE: whether guest/values printed the wanted values.
in_force() {
    local line found=0
    for line in "${wanted[@]}"; do
        if grep -qxF "$line" "$work/$1"; then
            found=$((found + 1))
        else
            complain "not '$line' but '$(grep "^${line%% *} " "$work/$1")'"
        fi
    done
    say "  $found of ${#wanted[@]} values are what was asked for, by the kernel's and systemd's word"
}

# verified CODE…: whether evenkeel finds no drift from what it applied. Code 7: a change waits for the reboot.
verified() {
    local status=0
    guest "$program" verify --json >"$work/verify.json" || status=$?
    if [[ " $* " != *" $status "* ]] || ! tr -d ' \n' <"$work/verify.json" | grep -qF '"drift":[]'; then
        complain "evenkeel verify ends with $status and says: $(cat "$work/verify.json")"
    else
        say "  evenkeel verify: no drift (exit code $status)"
    fi
}

prepare() {
    [ -n "$evenkeel" ] || evenkeel=$("$LAB/guest-program.sh")
    "$LAB/disk.sh" >/dev/null
    timed 'first boot' "$machine" start
    "$machine" push "$evenkeel" "$program"
    for file in photograph values until-records; do
        "$machine" push "$LAB/guest/$file" "/root/$file"
    done
    # Our own files must be on the disk: otherwise a power cut right after the snapshot would remove them, and look like an error of
    # evenkeel.
    guest sync
    look photograph files.before
    look values values.before
    "$machine" snapshot before
}

records() { guest bash -c 'wc -l </var/lib/evenkeel/journal || echo 0' 2>/dev/null; }

# outlives_reboot: the main test.
outlives_reboot() {
    say "${apply[*]}"
    timed 'apply' guest "${apply[@]}" >"$work/apply.out" || complain "apply ended with $?: $(tail -n 5 "$work/apply.out")"
    apply_seconds=$took
    apply_records=$(records)
    verified 0 7
    "$machine" snapshot applied
    timed 'reboot' "$machine" reboot
    look values values.applied
    in_force values.applied
    verified 0

    timed 'revert' guest "${revert[@]}" >"$work/revert.out" || complain "revert ended with $?: $(tail -n 5 "$work/revert.out")"
    timed 'reboot' "$machine" reboot
    look photograph files.reverted
    look values values.reverted
    same 'everything under /etc, /usr/local and /boot' files.before files.reverted
    same 'values, and the kernel line' values.before values.reverted
    verified 0
}

# cut_in SNAPSHOT COUNT DELAY COMMAND…: cuts the power after this many records and seconds of a command, boots, reverts, compares.
cut_in() {
    local snapshot=$1 count=$2 delay=$3 status=0 reached
    shift 3
    "$machine" restore "$snapshot"
    reached=$(guest /root/until-records "$count" "$@")
    sleep "$delay"
    "$machine" cut
    say "power cut in $(basename "$1") $2, at $reached and $delay s"
    timed "boot after a power cut at $reached" "$machine" boot || {
        complain "it does not boot after a power cut at $reached and $delay s of: $*"
        return
    }
    guest "$program" history >"$work/history.cut" 2>&1 || complain "history ended with $? after the power cut"
    timed 'revert after it' guest "${revert[@]}" >"$work/revert.cut" 2>&1 || status=$?
    [ "$status" -eq 0 ] || complain "revert ended with $status after the power cut: $(tail -n 5 "$work/revert.cut")"
    look photograph files.cut
    same 'everything under /etc, /usr/local and /boot' files.before files.cut
}

survives_power_cuts() {
    local round
    say "cutting the power $cuts times (-s $seed)"
    for ((round = 0; round < cuts; round++)); do
        case $((round % 4)) in
        # One record of the journal is on the disk, and the next is not.
        0) cut_in before $((1 + RANDOM % apply_records)) 0 "${apply[@]}" ;;
        # The power is cut at any moment: most of the time, grub's scripts are running then.
        1) cut_in before 1 $((RANDOM % (apply_seconds + 1))) "${apply[@]}" ;;
        2) cut_in applied 1 $((RANDOM % (apply_seconds + 1))) "${revert[@]}" ;;
        3) cut_in before "$apply_records" 0 "${apply[@]}" ;;
        esac
    done
}

prepare
outlives_reboot
survives_power_cuts
say "how long it took, by $("$LAB/accelerator.sh" | sed -n 2p):"
printf 'lab:   %s\n' "${timings[@]}" >&2
[ "$wrong" -eq 0 ] || {
    say "$wrong things were not as promised; $work has what was seen"
    exit 1
}
say "changes outlive a reboot, a revert leaves nothing behind, $cuts power cuts included"
