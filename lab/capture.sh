#!/usr/bin/env bash
# Boots a guest under QEMU, runs `evenkeel capture` in it, and writes hosts/NAME.txt.
#
# usage: lab/capture.sh [-k KERNEL] [-a KERNEL-ARGUMENTS] [-w WORDS] [-t SECONDS] NAME [QEMU-OPTION…]
#
#   -k  a kernel of lab/kernel.sh; 6.1-cloud unless told
#   -a  more kernel arguments
#   -w  what the machine is, for the head of the capture
#   -t  how long the guest may take; 120 seconds unless told
#
# The guest is emulated in software even where /dev/kvm exists: nested KVM boots no stock kernel on some clouds, and hangs
# rather than fails. The CPU does without MONITOR, because siblings that `nosmt` stops would otherwise spin in it.
set -euo pipefail
# shellcheck source=lab/common.sh
. "$(dirname "$0")/common.sh"

kernel=6.1-cloud arguments='' words='' seconds=120
while getopts k:a:w:t: option; do
    case $option in
    k) kernel=$OPTARG ;;
    a) arguments=$OPTARG ;;
    w) words=$OPTARG ;;
    t) seconds=$OPTARG ;;
    *) exit 2 ;;
    esac
done
shift $((OPTIND - 1))
name=${1:?"usage: lab/capture.sh [-k KERNEL] [-a KERNEL-ARGUMENTS] [-w WORDS] [-t SECONDS] NAME [QEMU-OPTION…]"}
shift

need qemu-system-x86_64 qemu-system-x86
unpacked=$("$LAB/kernel.sh" "$kernel")
evenkeel=$("$LAB/guest-program.sh")
mkdir -p "$WORK/guests"
initramfs=$WORK/guests/$kernel.cpio.gz
if [ ! "$initramfs" -nt "$evenkeel" ] || [ ! "$initramfs" -nt "$LAB/guest/init" ] || [ ! "$initramfs" -nt "$LAB/initramfs.sh" ]; then
    "$LAB/initramfs.sh" "$unpacked" "$evenkeel" "$initramfs"
fi

log=$WORK/guests/$name.log captured=$WORK/guests/$name.captured
rm -f "$log" "$captured"
append="console=ttyS0 panic=-1${arguments:+ $arguments}"
# What is told of the machine comes last, and so replaces what is told here; of accelerators QEMU takes the first.
case " $* " in
*' -accel '*) machine=() ;;
*) machine=(-accel 'tcg,thread=multi') ;;
esac
machine+=(
    -cpu 'max,vendor=GenuineIntel,family=6,model=85,stepping=4,-monitor'
    -m 1024 -smp '4,sockets=1,cores=2,threads=2'
)
status=0
timeout "$seconds" qemu-system-x86_64 "${machine[@]}" "$@" -kernel "$unpacked"/boot/vmlinuz-* -initrd "$initramfs" -append "$append" \
    -nodefaults -display none -no-reboot -serial "file:$log" -serial "file:$captured" </dev/null || status=$?
[ "$status" -eq 0 ] || die "$name: QEMU ended with $status (124: it took longer than $seconds s); $log has what the guest said"
[ "$(tail -n 1 "$captured")" = end ] || die "$name: the capture is not whole; $log has what the guest said"

# shown WORD…: the words as a shell would need them.
shown() {
    local word
    for word in "$@"; do
        case $word in
        *[!a-zA-Z0-9_.,=:/+-]*) printf " '%s'" "$word" ;;
        *) printf ' %s' "$word" ;;
        esac
    done
}
{
    echo 'evenkeel-capture 1'
    echo "# ${words:-A guest under QEMU}"
    echo '#'
    echo "# Captured, not written: in a guest that QEMU emulates in software, by lab/capture.sh on $(date -u +%Y-%m-%d). No distribution runs in it, only"
    echo '# busybox as the first program, so that no udev renames interfaces and no service changes settings.'
    printf '# qemu-system-x86_64%s -kernel vmlinuz-%s -append' "$(shown "${machine[@]}" "$@")" "$(ls "$unpacked/lib/modules")"
    shown "$append"
    printf '\n#'
    sed -n 's/^# / /p' "$captured" | head -n 1
    sed -e 1d -e '/^#/d' "$captured"
} >"$TOP/hosts/$name.txt"
say "$name: captured with $kernel in $(sed -n 's/^guest: up \([0-9]*\).*/\1/p' "$log") s of the guest's time"
