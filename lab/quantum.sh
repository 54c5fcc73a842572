#!/usr/bin/env bash
# Takes a guest's virtual CPU away from outside, as a hypervisor does, and checks what `evenkeel measure quantum` reports inside.
#
# usage: lab/quantum.sh [-k KERNEL] [PERIOD_MS:SHARE[:JITTER]…]
#
# SHARE is the share of the CPU that the RT hog leaves to the guest. The guest is emulated in software, with one CPU whose thread is pinned
# to this machine's last CPU, where the hog runs. Inside, neither the steal counter nor run delay changes. Needs root, and two CPUs.
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
shift $((OPTIND - 1))
cases=("$@")
[ $# -gt 0 ] || cases=(10:0.4 1000:1 5:0.6 8:0.5 15.6:0.4:0.02 20:0.8 30:0.3:0.02)
[ "$(id -u)" -eq 0 ] || die "a real-time thread takes root"
cpu=$(($(nproc) - 1))
[ "$cpu" -gt 0 ] || die "one CPU is robbed, and another one needed for the rest"
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
initramfs=$WORK/guests/quantum.cpio.gz
"$LAB/initramfs.sh" "$unpacked" "$busybox" "$evenkeel" "$initramfs"

log=$WORK/guests/quantum.log said=$WORK/guests/quantum.said
rm -f "$log" "$said"
qemu-system-x86_64 -accel tcg,thread=multi -cpu 'max,-monitor' -m 512 -smp 1 -name quantum,debug-threads=on \
    -kernel "$unpacked"/boot/vmlinuz-* -initrd "$initramfs" \
    -append "console=ttyS0 panic=-1 settle=1 setup=quantum cases=${#cases[@]}" \
    -nodefaults -display none -no-reboot -serial "file:$log" -serial "file:$said" </dev/null &
qemu=$!
robber=''
trap 'kill "$qemu" $robber 2>/dev/null || true' EXIT

# Pins the virtual CPU's thread to the hog's CPU, above the ordinary class there, and all others elsewhere.
pin() {
    local task
    for task in /proc/"$qemu"/task/*; do
        case $(cat "$task/comm") in
        'CPU 0/TCG') taskset -cp "$cpu" "${task##*/}" >/dev/null && renice -n -20 -p "${task##*/}" >/dev/null ;;
        *) taskset -cp "0-$((cpu - 1))" "${task##*/}" >/dev/null ;;
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
    IFS=: read -r period share jitter <<<"${cases[$at]}"
    await "quantum: ready for $((at + 1))"
    pin
    [ -z "$robber" ] || { kill "$robber" 2>/dev/null || true; wait "$robber" 2>/dev/null || true; robber=''; }
    if [ "$share" != 1 ]; then
        "$hog" "$cpu" "$period" "$share" "${jitter:-0}" 60 >/dev/null &
        robber=$!
    fi
done
wait "$qemu" || die "QEMU ended with $?; $log has what the guest said"

python3 - "$said" "${cases[@]}" <<'PYTHON'
import json, sys
said, cases = sys.argv[1], sys.argv[2:]
wrong = 0
print("period share jitter | probe | model | period_ms share confidence | period off %, share off")
for line in open(said, errors="replace"):
    words = line.split(" ", 2)
    if len(words) < 3 or not words[0].isdigit():
        continue
    period, share, *jitter = cases[int(words[0]) - 1].split(":")
    head = f"{period:>5} ms {share} {(jitter or ['0'])[0]}"
    if words[1] == "stat":
        both = words[2].split("cpu")[1:]
        steal = [int(part.split()[7]) for part in both]
        print(f"{head} | steal counter: {steal[0]} -> {steal[1]} ticks")
        continue
    cpu = json.loads(words[2])["cpus"][0]
    found = cpu["model"] == "fixed-slot" and cpu["period_ms"] is not None
    off = f"{(cpu['period_ms'] / float(period) - 1) * 100:+.3f} % {cpu['share'] - float(share):+.4f}" if found and share != "1" else ""
    is_right = (not found) if share == "1" else found and abs(cpu["period_ms"] / float(period) - 1) <= 0.01 and abs(cpu["share"] - float(share)) <= 0.03
    if not words[1].startswith("baseline"):
        wrong += not is_right
    labels = (cpu.get("labels") or {}).get("by", "")
    print(f"{head} | {words[1]:<20} | {cpu['model']:<11} | {cpu['period_ms']} {cpu['share']} {cpu['confidence']} | {off} {'' if is_right else 'WRONG'} {labels}")
print(f"{wrong} results of evenkeel are outside the bars (period 1 %, share 0.03)")
sys.exit(wrong > 0)
PYTHON
