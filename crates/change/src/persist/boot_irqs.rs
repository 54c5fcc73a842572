//! The part of the boot script that finds interrupts.
//! Interrupt numbers change with a boot or with the number of queues.
//! So the script uses the same rules as the facts (`network.rs` of `evenkeel-host`), and a test compares both.

/// `interrupts INTERFACE NAME` prints numbers.
pub(super) const INTERRUPTS: &str = r##"
# interrupts INTERFACE NAME: the numbers of those that carry its packets: the ones of its device where the kernel lists them,
# else those that are named after it; only those called NAME unless that is empty. What a driver uses to talk with its device
# is left out.
interrupts() {
    device=$(readlink -f "/sys/class/net/$1/device") || return
    device=${device##*/}
    listed=/sys/class/net/$1/device/msi_irqs
    # A virtio interface hangs on a PCI device, which has the list.
    case $device in virtio*) listed=/sys/class/net/$1/device/../msi_irqs ;; esac
    numbers=
    if [ -d "$listed" ]; then
        numbers=' '
        for number in "$listed"/*; do
            numbers="$numbers${number##*/} "
        done
    fi
    INTERFACE=$1 DEVICE=$device NAME=$2 LISTED=$numbers awk '
        function after(action, base) { return action == base || index(action, base "-") == 1 }
        function is_named(name,    parts, count, at) {
            count = split(name, parts, ", ")
            for (; count > 0; count--) {
                if (after(parts[count], interface)) return 1
                at = index(parts[count], "@pci:")
                if (at) {
                    if (substr(parts[count], at + 5) == device) return 1
                } else if (device ~ /^virtio/ && after(parts[count], device)) return 1
            }
            return 0
        }
        function is_for_packets(name) {
            sub(/@pci:.*/, "", name)
            sub(/[0-9]+$/, "", name)
            return name !~ /(-config|-control|-mgmnt|-mgmt|:misc|_async|_pages_eq|_cmd_eq|-edge|-level|-fasteoi|Edge|Level|-event)$/
        }
        BEGIN { interface = ENVIRON["INTERFACE"]; device = ENVIRON["DEVICE"]; listed = ENVIRON["LISTED"] }
        /^ *[0-9]+:/ {
            number = $1
            sub(/:.*/, "", number)
            line = $0
            sub(/[ \t]+$/, "", line)
            # The name stands last, behind two spaces.
            if (!match(line, /.*  /)) next
            name = substr(line, RLENGTH + 1)
            if (listed == "" ? !is_named(name) : !index(listed, " " number " ")) next
            if (!is_for_packets(name)) next
            names[number] = name
            if (name != interface) others = 1
        }
        END {
            for (number in names) {
                # Beside interrupts a queue, the bare name is the mailbox to the host.
                if (others && names[number] == interface) continue
                if (ENVIRON["NAME"] == "" || names[number] == ENVIRON["NAME"]) print number
            }
        }' /proc/interrupts | sort -n
}
"##;

/// Sets one interrupt, which the script finds by name.
pub(super) const SERVE: &str = r##"
# serve INTERFACE NAME CPUS
serve() {
    found=$(interrupts "$1" "$2")
    [ -n "$found" ] || miss "$1: no interrupt $2"
    for number in $found; do
        put plain "/proc/irq/$number/smp_affinity_list" "$3"
    done
}
"##;

/// Sets the interrupts of all interfaces.
pub(super) const SERVE_ALL: &str = r##"
# serve_all CPUS
serve_all() {
    any=
    for folder in /sys/class/net/*; do
        [ -e "$folder/device" ] || continue
        for number in $(interrupts "${folder##*/}" ''); do
            any=1
            put plain "/proc/irq/$number/smp_affinity_list" "$1"
        done
    done
    [ -n "$any" ] || miss 'no interrupt of a network interface was found'
}
"##;
