#!/usr/bin/env bash
# Boots a guest under QEMU, runs `evenkeel capture` in it, and writes hosts/NAME.txt.
#
# usage: lab/capture.sh [-k KERNEL] [-a KERNEL-ARGUMENTS] [-w WORDS] [-t SECONDS] [-s TOOLS] NAME [QEMU-OPTION…]
#
#   -k  a kernel of lab/kernel.sh (default: 6.1-cloud)
#   -a  more kernel arguments
#   -w  a description of the machine, for the head of the capture
#   -t  the guest's time limit in seconds (default: 120)
#   -s  tools to run too; their output goes to target/lab/NAME/said.txt, and the capture next to it instead of hosts/
#
# The guest uses software emulation even if /dev/kvm exists: on some clouds, nested KVM hangs with stock kernels. The CPU has no MONITOR,
# because siblings that `nosmt` stops would spin in it.
set -euo pipefail
# shellcheck source=lab/common.sh
. "$(dirname "$0")/common.sh"

kernel=6.1-cloud arguments='' words='' seconds=120 tools=()
while getopts k:a:w:t:s: option; do
    case $option in
    k) kernel=$OPTARG ;;
    a) arguments=$OPTARG ;;
    w) words=$OPTARG ;;
    t) seconds=$OPTARG ;;
    s) read -ra tools <<<"$OPTARG" ;;
    *) exit 2 ;;
    esac
done
shift $((OPTIND - 1))
name=${1:?"usage: lab/capture.sh [-k KERNEL] [-a KERNEL-ARGUMENTS] [-w WORDS] [-t SECONDS] [-s TOOLS] NAME [QEMU-OPTION…]"}
shift

case $kernel in
*-arm64) machine=aarch64 package=qemu-system-arm ;;
*) machine=x86_64 package=qemu-system-x86 ;;
esac
qemu=qemu-system-$machine
need "$qemu" "$package"
unpacked=$("$LAB/kernel.sh" "$kernel")
busybox=$("$LAB/busybox.sh" "$machine")
evenkeel=$("$LAB/guest-program.sh" "$machine")
mkdir -p "$WORK/guests"
initramfs=$WORK/guests/$kernel${tools[*]:+-tools}.cpio.gz
if [ ! -e "$initramfs" ] || [ -n "$(find "$evenkeel" "$LAB/guest" "$LAB/initramfs.sh" -newer "$initramfs")" ]; then
    "$LAB/initramfs.sh" "$unpacked" "$busybox" "$evenkeel" "$initramfs" ${tools[@]+"${tools[@]}"}
fi

log=$WORK/guests/$name.log captured=$WORK/guests/$name.captured
rm -f "$log" "$captured"
# The caller's options come last and replace these options. If there are several accelerators, QEMU takes the first.
case " $* " in
*' -accel '*) hardware=() ;;
*) hardware=(-accel 'tcg,thread=multi') ;;
esac
case $machine in
x86_64)
    console=ttyS0
    hardware+=(-cpu 'max,vendor=GenuineIntel,family=6,model=85,stepping=4,-monitor' -m 1024 -smp '4,sockets=1,cores=2,threads=2')
    out=(-serial "file:$captured")
    ;;
aarch64)
    console=ttyAMA0
    hardware+=(-machine virt -cpu neoverse-n1 -m 1024 -smp '4,sockets=1,cores=4,threads=1')
    out=(-device virtio-serial-pci -chardev "file,id=out,path=$captured" -device 'virtserialport,chardev=out,name=capture')
    ;;
esac
append="console=$console panic=-1${arguments:+ $arguments}"
status=0
timeout "$seconds" "$qemu" "${hardware[@]}" "$@" -kernel "$unpacked"/boot/vmlinuz-* -initrd "$initramfs" -append "$append" \
    -nodefaults -display none -no-reboot -serial "file:$log" "${out[@]}" </dev/null || status=$?
[ "$status" -eq 0 ] || die "$name: QEMU ended with $status (124: it took longer than $seconds s); $log has what the guest said"
written=$TOP/hosts/$name.txt
if [ ${#tools[@]} -gt 0 ]; then
    mkdir -p "$WORK/$name"
    written=$WORK/$name/capture.txt
    sed '1,/^end$/d' "$captured" >"$WORK/$name/said.txt"
    sed -i '/^end$/q' "$captured"
fi
[ "$(tail -n 1 "$captured")" = end ] || die "$name: the capture is not whole; $log has what the guest said"

# shown WORD…: the words, quoted for a shell.
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
    printf '# %s%s -kernel vmlinuz-%s -append' "$qemu" "$(shown "${hardware[@]}" "$@")" "$(ls "$unpacked/lib/modules")"
    shown "$append"
    printf '\n#'
    sed -n 's/^# / /p' "$captured" | head -n 1
    sed -e 1d -e '/^#/d' "$captured"
} >"$written"
say "$name: captured with $kernel in $(sed -n 's/^guest: up \([0-9]*\).*/\1/p' "$log") s of the guest's time"
