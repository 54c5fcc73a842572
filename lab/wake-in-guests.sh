#!/usr/bin/env bash
# Checks `evenkeel measure wake` in guests whose CPUs idle in different ways: with a driver (acpi_idle, from lab/idle.asl), without one by
# halting, and not at all (idle=poll). The cost of leaving idle must appear in the first two by both methods, and explain most of the
# difference from the third. Prints one line per cell, and the conditions that do not hold.
#
# usage: lab/wake-in-guests.sh [SECONDS]        (default: 12 per guest)
#
# EVENKEEL names a static program to measure with [default: lab/guest-program.sh]. lab/accelerator.sh chooses KVM or software emulation for
# the guests: under software emulation a CPU that halts is a thread of QEMU that sleeps, and leaving idle is that thread's wake-up.
set -euo pipefail
# shellcheck source=lab/common.sh
. "$(dirname "$0")/common.sh"

seconds=${1:-12}
need qemu-system-x86_64 qemu-system-x86
need python3 python3
unpacked=$("$LAB/kernel.sh" 6.1)
busybox=$("$LAB/busybox.sh" x86_64)
table=$("$LAB/idle-table.sh" 2)
evenkeel=${EVENKEEL:-$("$LAB/guest-program.sh" x86_64)}
mapfile -t machine < <("$LAB/accelerator.sh")
mkdir -p "$WORK/guests"
initramfs=$WORK/guests/wake.cpio.gz
"$LAB/initramfs.sh" "$unpacked" "$busybox" "$evenkeel" "$initramfs"

said=()
# boot NAME ARGUMENTS QEMU-OPTION…: one guest, until it has measured and is off.
boot() {
    local name=$1 arguments=$2 log=$WORK/guests/wake-$1.log
    shift 2
    said+=("$WORK/guests/wake-$name.said")
    rm -f "$log" "${said[-1]}"
    timeout $((seconds * 3 + 240)) qemu-system-x86_64 "${machine[@]}" -m 512 -smp '2,sockets=1,cores=2,threads=1' \
        -kernel "$unpacked"/boot/vmlinuz-* -initrd "$initramfs" \
        -append "console=ttyS0 panic=-1 settle=1 setup=wake seconds=$seconds $arguments" \
        -nodefaults -display none -no-reboot -serial "file:$log" -serial "file:${said[-1]}" "$@" </dev/null ||
        die "the guest $name ended with $?; $log has what it said"
}
boot driver '' -acpitable "file=$table"
boot halt ''
boot poll 'idle=poll'

python3 - "${said[@]}" <<'PYTHON'
import json, os, sys
seen = {}
print("guest  | driver    | kind  | gap us | plain p50 us | leaving idle, by dma latency | the same, kept awake | floor us")
for path in sys.argv[1:]:
    name = os.path.basename(path)[len("wake-"):-len(".said")]
    lines = dict(line.split(" ", 1) for line in open(path, errors="replace") if " " in line)
    for parts in json.loads(lines["wake"])["parts"]:
        kind, gap_us = parts["kind"], parts["gap_ns"] // 1000
        seen[name, kind, gap_us] = parts
        def us(part):
            part = parts[part]
            return "-" if part is None else "{ns:.1f} [{low_ns:.1f}, {high_ns:.1f}]".format(**{k: v / 1e3 for k, v in part.items() if k.endswith("ns")})
        print(f"{name:6} | {lines['driver'].strip():9} | {kind:5} | {gap_us:6} | {parts['plain_ns'] / 1e3:12.1f} | {us('idle_exit'):28} | {us('idle_exit_kept_awake'):20} | {(parts['floor_ns'] or 0) / 1e3:.1f}")
wrong = []
for (name, kind, gap_us), parts in seen.items():
    if name == "poll":
        continue
    # The cost of leaving idle: the latency minus that of a guest that never idles. So ticks and the governor are not included.
    never = seen["poll", kind, gap_us]
    lacks = parts["plain_ns"] - never["plain_ns"]
    # Keeping a CPU awake costs a switch to another thread and back. In a guest that never idles, keeping the CPU awake has no other effect,
    # so the difference is negative.
    kept = parts["idle_exit_kept_awake"]["ns"] - never["idle_exit_kept_awake"]["ns"]
    ways = [("kept awake, less than in that guest", kept)]
    if name == "driver":
        ways.append(("held by dma latency", parts["idle_exit"]["low_ns"]))
    for way, ns in ways:
        # With UDP the spread of the rounds is as large as the part: these are printed but not judged.
        holds = kind != "futex" or lacks / 3 <= ns <= lacks * 1.2
        words = f"{name}, {kind} after {gap_us} us: {lacks / 1e3:.1f} us more than a guest that never idles; {way}: {ns / 1e3:.1f}"
        print(words + ("" if holds else " WRONG"))
        wrong += [] if holds else [words]
print(f"{len(wrong)} parts of wakes by futex are not between a third and all of what a guest that never idles lacks")
sys.exit(len(wrong) > 0)
PYTHON
