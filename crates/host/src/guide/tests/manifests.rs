//! YAML: blocks of it in pages, manifests of Kubernetes, and what loops and files of Ansible have.

use expect_test::expect;

use super::check;

#[test]
fn a_page_with_yaml_is_a_page() {
    check(
        "# Docker\n\n```bash\nsudo rpk redpanda tune all\ncat <<EOF > /etc/systemd/system/x.service\n[Service]\nNice=-5\nEOF\nsysctl -w net.core.busy_poll=50\n```\n\n```yaml\nservices:\n  game:\n    sysctls:\n      - net.core.somaxconn=4096\n    image: x\n```\n\n```ini\n[main]\nsummary=x\n[sysctl]\nvm.dirty_ratio=5\n[cpu]\ngovernor=performance\n```\n\n```\n[Service]\nCPUAffinity=1\nNice=-5\n```\n",
        expect![[r#"
            Markdown
            1 (Prose)
            3 (Structure)
            4 rpk redpanda tune all
            5 (Command)
            6 (Structure)
            7 Nice=-5
            8 (Structure)
            9 net.core.busy_poll=50
            10 (Structure)
            12 (Structure)
            13 (Structure)
            14 (Structure)
            15 (Structure)
            16 net.core.somaxconn=4096
            17 (Structure)
            18 (Structure)
            20 (Structure)
            21 (Structure)
            22 (Structure)
            23 (Structure)
            24 vm.dirty_ratio=5
            25 (Structure)
            26 cpufreq.governor=performance
            27 (Structure)
            29 (Structure)
            30 (Structure)
            31 process.cpu_affinity=1
            32 Nice=-5
            33 (Structure)
        "#]],
    );
}

#[test]
fn yaml_loses_no_setting() {
    check(
        "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\ncpuManagerPolicy: static\nallowedUnsafeSysctls:\n- \"net.core.*\"\n",
        expect![[r#"
            Ansible
            1 (Elsewhere)
            2 (Elsewhere)
            3 (Elsewhere)
            4 (Structure)
            5 (Elsewhere)
        "#]],
    );
    check(
        "kind: DaemonSet\nspec:\n  containers:\n  - name: tune\n    command: [\"nsenter\",\"-t\",\"1\",\"-m\",\"--\",\"sh\",\"-c\"]\n    args:\n    - |\n      sysctl -w net.core.rmem_max=16777216\n      echo 3 > /proc/sys/vm/dirty_ratio\n\
         ---\nkind: ConfigMap\ndata:\n  99-game.conf: |\n    # x\n    vm.swappiness = 1\n  other: |\n    net.core.busy_poll = 50\n",
        expect![[r#"
            Ansible
            1 (Elsewhere)
            2 (Structure)
            3 (Structure)
            4 (Elsewhere)
            5 (Command)
            6 (Structure)
            7 (Command)
            8 net.core.rmem_max=16777216
            9 vm.dirty_ratio=3
            10 (Structure)
            11 (Elsewhere)
            12 (Structure)
            13 (Elsewhere)
            14 (Elsewhere)
            15 vm.swappiness=1
            16 (Elsewhere)
            17 ? it has net.core.busy_poll=50, and evenkeel does not know what reads this text
        "#]],
    );
    check(
        "network:\n  ethernets:\n    eth0:\n      mtu: 9000\n",
        expect![[r#"
        Ansible
        1 (Structure)
        2 (Structure)
        3 (Structure)
        4 (Elsewhere)
    "#]],
    );
    check(
        "- hosts: all\n  vars:\n    rmem: 1\n    s:\n      net.core.rmem_max: \"{{ rmem }}\"\n      net.core.wmem_max: \"{{ wmem }}\"\n  tasks:\n    - sysctl:\n        name: \"{{ item.key }}\"\n        value: \"{{ item.value }}\"\n      with_dict: \"{{ s }}\"\n",
        expect![[r#"
            Ansible
            1 (Elsewhere)
            2 (Structure)
            3 (Elsewhere)
            4 (Structure)
            5 net.core.rmem_max=1
            6 ? its value is empty, or a variable of Ansible
            7 (Structure)
            8 (Structure)
            9 (Structure)
            10 (Structure)
            11 (Elsewhere)
        "#]],
    );
    check(
        "- command: grubby --update-kernel=ALL --args=\"isolcpus={{ cpus }}\"\n- command: \"ethtool -G {{ nic }} rx 4096\"\n",
        expect![[r#"
            Ansible
            1 ? only a shell could expand it, and evenkeel runs nothing
            2 net.rings=4096
        "#]],
    );
    check(
        "- hosts: all\n  vars:\n    rmem: 16777216\n    sysctls:\n      net.core.rmem_max: \"{{ rmem }}\"\n    tcp:\n      - { name: net.ipv4.tcp_fastopen, value: 3 }\n      - name: net.ipv4.tcp_ecn\n        value: '1'\n  tasks:\n    \
         - sysctl: name={{ item.name }} value={{ item.value }} sysctl_set=yes\n      loop: \"{{ tcp }}\"\n    \
         - copy:\n        dest: /etc/sysctl.d/97.conf\n        content: \"vm.watermark_boost_factor=0\\nvm.zone_reclaim_mode=0\\n\"\n    \
         - lineinfile:\n        dest: /etc/sysctl.conf\n        line: \"{{ item }}\"\n      with_items:\n        - kernel.timer_migration = 0\n  kernel_settings_sysfs:\n    \
         - name: /sys/kernel/mm/ksm/run\n      value: 0\n  kernel_settings_transparent_hugepages: never\n",
        expect![[r#"
            Ansible
            1 (Elsewhere)
            2 (Structure)
            3 (Elsewhere)
            4 (Structure)
            5 net.core.rmem_max=16777216
            6 (Structure)
            7 net.ipv4.tcp_fastopen=3
            8 (Structure)
            9 net.ipv4.tcp_ecn=1
            10 (Structure)
            11 (Structure)
            12 (Elsewhere)
            13 (Structure)
            14 (Elsewhere)
            15 vm.watermark_boost_factor=0 + vm.zone_reclaim_mode=0
            16 (Structure)
            17 (Elsewhere)
            18 (Structure)
            19 (Structure)
            20 kernel.timer_migration=0
            21 (Structure)
            22 (Structure)
            23 /sys/kernel/mm/ksm/run=0
            24 thp.enabled=never
        "#]],
    );
}
