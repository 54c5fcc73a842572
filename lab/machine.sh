#!/usr/bin/env bash
# A machine of the lab: lab/disk.sh's Debian, with power, a reset button and somebody who types commands into it.
#
# usage: lab/machine.sh start                 powers on a machine whose disk is as lab/disk.sh made it
#        lab/machine.sh [-t S] [-i] run WORD… runs a command as root: its output, its errors, its exit code; -i: with our standard input
#        lab/machine.sh push FILE PATH        puts a file into it, with the file's mode
#        lab/machine.sh pull PATH FILE        gets a file out of it
#        lab/machine.sh reboot                reboots it in good order, and waits for the new boot
#        lab/machine.sh cut                   takes the power away, in the middle of what the machine does
#        lab/machine.sh boot                  powers it on again, with the disk as it was left
#        lab/machine.sh snapshot NAME         keeps disk and memory as they are now, while it runs
#        lab/machine.sh restore NAME          goes back to that snapshot, in about a second
#        lab/machine.sh stop                  takes the power away, and forgets the disk
#
# EVENKEEL_LAB_MACHINE selects the machine if there are several. Every wait has a limit, after which the last lines of the console
# are printed. Exit code 125 is a failure of the machine, not of the command in it.
#
# A power cut loses what the guest had not written to its disk. Data that the guest wrote without a flush is still in the host's cache and
# survives; a real disk may lose that data too.
set -euo pipefail
# shellcheck source=lab/common.sh
. "$(dirname "$0")/common.sh"

folder=$WORK/machines/${EVENKEEL_LAB_MACHINE:-machine}
overlay=$folder/disk.qcow2 console=$folder/console.log
# The machine is emulated, on a host that does other work: a boot takes 25 s, sometimes 150.
boot_seconds=600

fail() {
    say "$@"
    if [ -s "$console" ]; then
        say "the console said last:"
        tail -n 25 "$console" | tr -d '\r' | sed 's/^/    /' >&2
    fi
    exit 125
}

# pid: prints the number of this machine's QEMU if it runs, and never that of another process that reused the number.
pid() {
    local pid
    pid=$(cat "$folder/pid" 2>/dev/null) && tr '\0' ' ' 2>/dev/null <"/proc/$pid/cmdline" | grep -qF "file=$overlay" && echo "$pid"
}

# open_channels: 4 and 5 to and from the agent, 6 and 7 to and from QEMU's monitor. Opened for both directions, so that opening never waits.
open_channels() {
    pid >/dev/null || fail "the machine is not running: lab/machine.sh start"
    exec 8>"$folder/lock"
    flock -w 60 8 || fail "somebody else has been using the machine for a minute"
    exec 4<>"$folder/agent.in" 5<>"$folder/agent.out" 6<>"$folder/monitor.in" 7<>"$folder/monitor.out"
}

# power_on QEMU-OPTION…
power_on() {
    local path
    rm -f "$folder"/{agent,monitor}.{in,out}
    for path in "$folder"/{agent,monitor}.{in,out}; do
        mkfifo "$path"
    done
    local machine turn
    mapfile -t machine < <("$LAB/accelerator.sh")
    # A killed QEMU holds its locks, on its pid file and on the disk, until its memory is freed. With much memory this takes long;
    # its process number is free before that.
    for turn in {1..50}; do
        if try_power_on "$@" 2>"$folder/said"; then
            break
        fi
        if ! grep -q 'lock' "$folder/said" || [ "$turn" -eq 50 ]; then
            cat "$folder/said" >&2
            fail "QEMU did not start"
        fi
        sleep 0.2
    done
    open_channels
    monitor qmp_capabilities '{}' >/dev/null
}

# try_power_on QEMU-OPTION…: uses `machine`.
try_power_on() {
    # Not cache=unsafe: that keeps the overlay's own tables in QEMU's memory, where a power cut would lose even what the guest flushed.
    qemu-system-x86_64 "${machine[@]}" -m 1024 -smp '4,sockets=1,cores=2,threads=2' \
        -drive "file=$overlay,format=qcow2,if=virtio,cache=writeback" -nodefaults -display none -no-user-config \
        -chardev "file,id=console,path=$console,append=on" -serial chardev:console \
        -chardev "pipe,id=agent,path=$folder/agent" -device virtio-serial-pci \
        -device virtserialport,chardev=agent,name=evenkeel.lab \
        -chardev "pipe,id=monitor,path=$folder/monitor" -mon chardev=monitor,mode=control \
        -daemonize -pidfile "$folder/pid" "$@" 8>&-
}

# monitor COMMAND ARGUMENTS: sends one command to QEMU, and prints its answer.
monitor() {
    local line end=$((SECONDS + 120))
    echo "{\"execute\": \"$1\", \"arguments\": $2, \"id\": \"$$\"}" >&6
    while [ "$SECONDS" -lt "$end" ]; do
        # Lines without the number of our command are events, and the greeting.
        if read -r -t 5 -u 7 line && [[ $line == *"\"id\": \"$$\""* ]]; then
            echo "$line"
            return
        fi
    done
    fail "QEMU's monitor has not answered $1 for 120 s"
}

# await_answer TOKEN SECONDS: reads from the agent until TOKEN's answer, and leaves its exit code and sizes in `answer`.
await_answer() {
    local end=$((SECONDS + $2)) token rest
    while [ "$SECONDS" -lt "$end" ]; do
        if read -r -t 5 -u 5 token rest; then
            read -r -a answer <<<"$rest"
            if [ "$token" = "$1" ]; then
                return
            fi
            [ "$token" != hello ] || fail "the machine rebooted by itself"
            # A late answer to a caller that has given up.
            timeout 60 head -c $((answer[1] + answer[2])) <&5 >/dev/null || fail "half an answer came from the machine"
        fi
        pid >/dev/null || fail "the machine lost its power"
    done
    return 1
}

# ask SECONDS INPUT WORD…: runs a command in the guest.
ask() {
    local seconds=$1 input=$2 command token=$$.$RANDOM answer=()
    shift 2
    command=$(printf '%q ' "$@")
    {
        echo "$token $seconds $(printf %s "$command" | wc -c) $(stat -L -c %s "$input")"
        printf %s "$command"
        # The reader of the pipe may be gone, and a write would not report that.
        timeout "$seconds" cat "$input"
    } >&4
    await_answer "$token" $((seconds + 30)) || fail "no answer for $seconds s to: $command"
    timeout 120 head -c "${answer[1]}" <&5
    timeout 120 head -c "${answer[2]}" <&5 >&2
    return "${answer[0]}"
}

# await_boot: waits until the agent answers and systemd has no jobs left.
await_boot() {
    local answer=() began=$SECONDS state
    await_hello || fail "the machine has not booted within $boot_seconds s"
    # A failed unit is for the tests to judge. A unit that is still starting would change while they run.
    state=$(ask 300 /dev/null systemctl is-system-running --wait) || [ "$state" = degraded ] || fail "the machine came up $state"
    say "booted in $((SECONDS - began)) s"
}

await_hello() {
    local end=$((SECONDS + boot_seconds)) token rest
    while [ "$SECONDS" -lt "$end" ]; do
        if read -r -t 5 -u 5 token rest && [ "$token" = hello ]; then
            return
        fi
        pid >/dev/null || fail "the machine lost its power"
    done
    return 1
}

power_off() {
    local pid turns
    pid=$(pid) || return 0
    kill -KILL "$pid"
    for turns in {1..100}; do
        if ! pid >/dev/null; then
            return
        fi
        sleep 0.1
    done
    fail "QEMU, process $pid, has outlived SIGKILL for ${turns%00} s"
}

reboot_in_order() {
    local before after
    before=$(ask 30 /dev/null cat /proc/sys/kernel/random/boot_id)
    # Reboots a second later, so that this answer arrives first.
    ask 30 /dev/null systemd-run --quiet --on-active=1 systemctl reboot
    await_boot
    after=$(ask 30 /dev/null cat /proc/sys/kernel/random/boot_id)
    [ "$before" != "$after" ] || fail "the machine has not rebooted: boot $before goes on"
}

seconds=600 input=/dev/null
while getopts t:i option; do
    case $option in
    t) seconds=$OPTARG ;;
    i) input=- ;;
    *) exit 2 ;;
    esac
done
shift $((OPTIND - 1))
verb=${1:-help}
[ $# -eq 0 ] || shift
need qemu-system-x86_64 qemu-system-x86
need qemu-img qemu-utils

case $verb in
start)
    disk=$("$LAB/disk.sh")
    power_off
    rm -rf "$folder"
    mkdir -p "$folder"
    qemu-img create -q -f qcow2 -b "$disk" -F raw "$overlay"
    power_on
    await_boot
    ;;
boot)
    ! pid >/dev/null || fail "the machine runs already"
    power_on
    await_boot
    ;;
run)
    open_channels
    if [ "$input" = - ]; then
        input=$folder/input
        cat >"$input"
    fi
    ask "$seconds" "$input" "$@"
    ;;
push)
    open_channels
    ask "$seconds" "$1" install -m "$(stat -L -c %a "$1")" /dev/stdin "$2"
    ;;
pull)
    open_channels
    ask "$seconds" /dev/null cat "$1" >"$2"
    ;;
reboot)
    open_channels
    reboot_in_order
    ;;
cut) power_off ;;
snapshot)
    open_channels
    said=$(monitor human-monitor-command "{\"command-line\": \"savevm $1\"}")
    [[ $said == *'"return": ""'* ]] || fail "no snapshot: $said"
    ;;
restore)
    power_off
    power_on -loadvm "$1"
    ask 60 /dev/null true
    ;;
stop)
    power_off
    rm -f "$folder"/{agent,monitor}.{in,out} "$folder/input" "$overlay"
    ;;
*)
    sed -n 's/^# \{0,1\}//; 2,/^$/p' "$0" | sed -n '/^usage/,/^$/p' >&2
    exit 2
    ;;
esac
