#!/usr/bin/env bash
# Does to a guest from outside what a hypervisor does, and checks how `evenkeel measure gaps` inside explains the gaps. The script stops the
# whole guest for a moment (a pause of the whole machine), and takes one virtual CPU away while the other continues.
#
# usage: lab/gaps.sh [-k KERNEL]
#
# The guest is emulated in software, with two CPUs, whose threads are pinned to two CPUs of this machine. Inside, neither the steal counter
# nor run delay changes. Needs root, and two CPUs.
set -euo pipefail
# shellcheck source=lab/common.sh
. "$(dirname "$0")/common.sh"

kernel=6.1-cloud
while getopts k: option; do
    case $option in
    k) kernel=$OPTARG ;;
    *) exit 2 ;;
    esac
done
[ "$(id -u)" -eq 0 ] || die "a real-time thread takes root"
[ "$(nproc)" -gt 1 ] || die "it takes two CPUs"
need qemu-system-x86_64 qemu-system-x86
need python3 python3
need taskset util-linux

cd "$TOP"
unpacked=$("$LAB/kernel.sh" "$kernel")
busybox=$("$LAB/busybox.sh" x86_64)
evenkeel=$("$LAB/guest-program.sh" x86_64)
cargo build --quiet --release --locked -p evenkeel-measure --example rt_hog
hog=${CARGO_TARGET_DIR:-$TOP/target}/release/examples/rt_hog
mkdir -p "$WORK/guests"
initramfs=$WORK/guests/gaps.cpio.gz
"$LAB/initramfs.sh" "$unpacked" "$busybox" "$evenkeel" "$initramfs"

# The disturbance and the expected cause, and from outside: length in ms, period in ms, count.
cases=("pause 60 400 12" "robbed 6 50 0" "left-alone 0 0 0")
log=$WORK/guests/gaps.log said=$WORK/guests/gaps.said did=$WORK/guests/gaps.did
rm -f "$log" "$said" "$did"
qemu-system-x86_64 -accel tcg,thread=multi -cpu 'max,-monitor' -m 512 -smp 2 -name gaps,debug-threads=on \
    -kernel "$unpacked"/boot/vmlinuz-* -initrd "$initramfs" \
    -append "console=ttyS0 panic=-1 settle=1 tsc=reliable setup=gaps cases=${#cases[@]}" \
    -nodefaults -display none -no-reboot -serial "file:$log" -serial "file:$said" </dev/null &
qemu=$!
robber=''
trap 'kill -CONT "$qemu" 2>/dev/null || true; kill "$qemu" $robber 2>/dev/null || true' EXIT

# Pins each virtual CPU's thread to its own CPU, above the ordinary class there.
pin() {
    local task cpu
    for task in /proc/"$qemu"/task/*; do
        case $(cat "$task/comm") in
        'CPU '?'/TCG')
            read -r _ cpu <"$task/comm"
            taskset -cp "${cpu%/TCG}" "${task##*/}" >/dev/null && renice -n -20 -p "${task##*/}" >/dev/null
            ;;
        esac
    done
}
# await WORDS: waits until the guest has printed the words.
await() {
    local end=$((SECONDS + 120))
    until grep -qs "$1" "$log"; do
        kill -0 "$qemu" 2>/dev/null || die "the guest ended early; $log has what it said"
        [ "$SECONDS" -lt "$end" ] || die "the guest has not come to '$1' in 120 s; $log has what it said"
        sleep 0.1
    done
}

for at in "${!cases[@]}"; do
    read -r what length_ms every_ms times <<<"${cases[$at]}"
    await "gaps: ready for $((at + 1))"
    pin
    [ -z "$robber" ] || { kill "$robber" 2>/dev/null || true; wait "$robber" 2>/dev/null || true; robber=''; }
    if [ "$what" = robbed ]; then
        # The hog runs during the guest's 8 seconds and the time before.
        "$hog" 1 "$every_ms" "$(python3 -c "print(1 - $length_ms / $every_ms)")" 0 60 >/dev/null &
        robber=$!
    fi
    await "gaps: watching $((at + 1))"
    [ "$what" = pause ] || continue
    # The last action always resumes the guest.
    python3 - "$qemu" "$length_ms" "$every_ms" "$times" >"$did" <<'PYTHON'
import os, signal, sys, time
guest, length, every, times = int(sys.argv[1]), float(sys.argv[2]) / 1e3, float(sys.argv[3]) / 1e3, int(sys.argv[4])
time.sleep(1.5)
try:
    for _ in range(times):
        begin = time.monotonic()
        os.kill(guest, signal.SIGSTOP)
        time.sleep(length)
        os.kill(guest, signal.SIGCONT)
        print((time.monotonic() - begin) * 1e3)
        time.sleep(every - length)
finally:
    os.kill(guest, signal.SIGCONT)
PYTHON
done
wait "$qemu" || die "QEMU ended with $?; $log has what the guest said"

python3 - "$said" "$did" "${cases[@]}" <<'PYTHON'
import json, sys
said, did, cases = sys.argv[1], sys.argv[2], sys.argv[3:]
stops = [float(line) for line in open(did)]
wrong = answers = 0
for line in open(said, errors="replace"):
    number, _, answer = line.partition(" ")
    if not number.isdigit():
        continue
    answers += 1
    answer = json.loads(answer)
    what, length = cases[int(number) - 1].split()[0], float(cases[int(number) - 1].split()[1])
    caveats = [caveat for caveat in answer["caveats"] if "tracepoint" in caveat]
    print(f"{what}:", "each gap's interrupt is unknown: " + caveats[0] if caveats else "interrupts by tracepoints")
    for cpu in answer["cpus"]:
        causes = ", ".join(f"{name} {cause['count']} ({cause['total_ns'] / 1e6:.1f} ms)" for name, cause in sorted(cpu["causes"].items()))
        print(f"  CPU {cpu['cpu']}: {causes}; longest {cpu['all']['longest_ns'] / 1e6:.1f} ms")
    count = lambda cpu, least, most, cause: sum(least <= gap["length_ns"] / 1e6 <= most and (cause is None or gap["cause"] == cause) for gap in answer["cpus"][cpu]["gaps"])
    if what == "pause":
        # A stop takes effect when its signal arrives, so the guest sees a shorter stop than the host.
        for cpu in (0, 1):
            like, right = (count(cpu, length / 2, max(stops) + 15, cause) for cause in (None, "pause"))
            is_right = right >= len(stops) * 0.9
            wrong += not is_right
            print(f"  CPU {cpu}: of {len(stops)} stops {like} seen, {right} called pause{'' if is_right else ' WRONG'}")
    elif what == "robbed":
        # The emulator sometimes makes one CPU wait for the other. Then both CPUs stop.
        like, one, both = (count(1, length * 0.9, length * 1.5, cause) for cause in (None, "hypervisor", "pause"))
        is_right = like > 80 and one + both >= like * 0.95 and one >= like / 2
        wrong += not is_right
        print(f"  CPU 1: of some 160 turns of {length:.0f} ms {like} seen, {one} called hypervisor, {both} pause{'' if is_right else ' WRONG'}")
    else:
        pauses = sum(count(cpu, length, 1e9, "pause") for cpu in (0, 1))
        print(f"  called pause without one: {pauses} (the machine below may have stopped)")
wrong += answers != len(cases)
print(f"{wrong} wrong, {answers} of {len(cases)} answers")
sys.exit(wrong > 0)
PYTHON
