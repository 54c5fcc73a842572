#!/bin/bash
# Makes hosts of namespaces and runs a command among them: each host has its own network, mounts, processes, host name, root and sshd.
#
# usage: lab/hosts.sh DIR NUMBER PROGRAM COMMAND…
#
# COMMAND runs as root in a controller's namespaces, on the hosts' network. All hosts end with COMMAND: the kernel kills the processes
# of a PID namespace with its first process, and mounts and interfaces end with their namespaces. In DIR are:
#
#   inventory.ini   the hosts for Ansible: host1 (10.99.0.1), host2, …
#   key             the key for `ssh -i`
#   hostN.pid       the first process of host N, for `nsenter --target`
#
# PROGRAM is /opt/evenkeel/bin/evenkeel in each host. A host can write the settings of its own network, and no other settings of the
# machine. /sys is read-only there, and so is /proc/sys except /proc/sys/net.
#
# Exit code 4: this machine cannot make such hosts; the last line says why.
set -eu

# shellcheck source=lab/common.sh
. "$(dirname "$0")/common.sh"

# The controller's namespaces, and COMMAND in them.
controller() {
    dir=$1 number=$2 program=$3
    shift 3
    mount -t tmpfs -o mode=755 none /run
    mkdir -p /run/netns /run/sshd /run/lock
    ip link set lo up
    ip link add lab type bridge 2>/dev/null || die "the kernel has no bridges"
    ip address add 10.99.0.254/24 dev lab
    ip link set lab up
    ssh-keygen -q -t ed25519 -N '' -f "$dir/key"
    ssh-keygen -q -t ed25519 -N '' -f "$dir/host-key"
    {
        echo '[hosts]'
        for n in $(seq "$number"); do echo "host$n ansible_host=10.99.0.$n"; done
        echo '[hosts:vars]'
        echo "ansible_user=root"
        echo "ansible_ssh_private_key_file=$dir/key"
        echo "ansible_python_interpreter=/usr/bin/python3"
    } >"$dir/inventory.ini"
    for n in $(seq "$number"); do
        ip netns add "host$n"
        ip link add "veth$n" type veth peer name eth0 netns "host$n"
        ip link set "veth$n" master lab up
        mkfifo "$dir/host$n.ready"
        ip netns exec "host$n" unshare --mount --pid --uts --ipc --fork --kill-child --propagation private \
            "$0" --host "$dir" "$n" "$program" >"$dir/host$n.log" 2>&1 </dev/null &
        unshares[n]=$!
    done
    for n in $(seq "$number"); do
        # A host that fails writes its state. The time limit covers a host that could not start at all.
        read -r -t 60 state <>"$dir/host$n.ready" || state=silent
        [ "$state" = ready ] || {
            sed 's/^/hosts: /' "$dir/host$n.log" >&2
            say "host $n did not start ($state)"
            exit 1
        }
        # The first process of its PID namespace is the only child of `unshare`.
        pgrep -P "${unshares[$n]}" >"$dir/host$n.pid"
    done
    "$@"
}

# One host: its root, then sshd as its first process.
host() {
    dir=$1 n=$2 program=$3
    trap 'echo broken >"$dir/host$n.ready"' EXIT
    root=$dir/root$n
    mkdir -p "$root"
    mount -t tmpfs -o mode=755 none "$root"
    make_root "$root" "$dir" "$program"
    hostname "host$n"
    ip link set lo up
    ip address add "10.99.0.$n/24" dev eth0
    ip link set eth0 up
    exec 9>"$dir/host$n.ready"
    cd "$root"
    mkdir old
    pivot_root . old
    exec chroot . sh -c '
        umount -l /old && rmdir /old
        echo ready >&9
        exec 9>&-
        exec /usr/sbin/sshd -D -e'
}

make_root() {
    root=$1 dir=$2 program=$3
    cd "$root"
    mkdir -p usr etc/ssh var/log etc/sysctl.d etc/systemd/system var/lib var/tmp run/sshd root/.ssh tmp proc sys dev opt/evenkeel/bin srv
    chmod 700 root root/.ssh
    chmod 1777 tmp var/tmp
    mount --bind /usr usr
    mount -o remount,bind,ro usr
    mount -t tmpfs -o mode=755 none usr/local
    mkdir usr/local/bin
    for folder in bin sbin lib lib32 lib64 libx32; do
        [ -L "/$folder" ] && cp -P "/$folder" "$folder"
        [ -L "/$folder" ] || [ ! -d "/$folder" ] || { mkdir "$folder" && mount --bind "/$folder" "$folder"; }
    done
    for file in group nsswitch.conf ld.so.cache ld.so.conf ld.so.conf.d alternatives os-release localtime pam.d security login.defs; do
        [ ! -e "/etc/$file" ] || cp -a "/etc/$file" etc/
    done
    grep -E '^(root|sshd|nobody):' /etc/passwd | sed 's|^\(root:[^:]*:0:0:[^:]*\):.*|\1:/root:/bin/bash|' >etc/passwd
    echo 'root:*:19000:0:99999:7:::' >etc/shadow
    chmod 600 etc/shadow
    cp "$dir/host-key" "$dir/host-key.pub" etc/ssh/
    cp "$dir/key.pub" root/.ssh/authorized_keys
    printf '%s\n' 'HostKey /etc/ssh/host-key' 'PidFile none' 'UsePAM no' 'PasswordAuthentication no' 'PermitRootLogin prohibit-password' \
        'UseDNS no' 'MaxStartups 100' 'StrictModes no' 'Subsystem sftp internal-sftp' >etc/ssh/sshd_config
    touch opt/evenkeel/bin/evenkeel
    mount --bind "$program" opt/evenkeel/bin/evenkeel
    mount -o remount,bind,ro opt/evenkeel/bin/evenkeel
    mount -t proc none proc
    mkdir srv/net
    mount --bind proc/sys/net srv/net
    mount --bind proc/sys proc/sys
    mount -o remount,bind,ro proc/sys
    mount --move srv/net proc/sys/net
    rmdir srv/net
    mount -t sysfs -o ro none sys
    mount -t tmpfs -o mode=755 none dev
    for node in null zero full random urandom tty; do
        touch "dev/$node"
        mount --bind "/dev/$node" "dev/$node"
    done
    mkdir dev/pts dev/shm
    mount -t devpts -o newinstance,ptmxmode=0666 none dev/pts
    ln -s pts/ptmx dev/ptmx
    ln -s /proc/self/fd dev/fd
}

case ${1:-} in
--host)
    shift
    host "$@"
    ;;
--controller)
    shift
    controller "$@"
    ;;
*)
    [ $# -ge 4 ] || {
        sed -n '4s/^# //p' "$0" >&2
        exit 2
    }
    [ "$(id -u)" -eq 0 ] || die "hosts of namespaces need root"
    for needed in unshare:util-linux ip:iproute2 pgrep:procps ssh:openssh-client /usr/sbin/sshd:openssh-server; do
        need "${needed%%:*}" "${needed#*:}"
    done
    dir=$(realpath "$1") program=$(realpath "$3")
    [ -x "$program" ] || {
        say "$program is no program"
        exit 2
    }
    number=$2
    shift 3
    mkdir -p "$dir"
    unshare --mount --net --pid --uts --ipc --fork sh -c 'mount -t tmpfs none /run && mount -t proc none /proc && mount -t sysfs none /sys' 2>/dev/null ||
        die "this machine makes no namespaces, or mounts nothing in them"
    exec unshare --mount --net --pid --fork --kill-child --mount-proc --propagation private "$(realpath "$0")" --controller "$dir" "$number" "$program" "$@"
    ;;
esac
