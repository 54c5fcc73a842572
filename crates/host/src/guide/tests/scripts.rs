//! Functions of shells, templates, and the files that cloud-init writes.

use expect_test::expect;

use super::check;

#[test]
fn functions_are_read_with_the_arguments_of_each_call() {
    check(
        "#!/bin/bash\nset_sysctl() { sysctl -w \"$1=$2\"; echo \"$1 = $2\" >> /etc/sysctl.d/99-x.conf; }\n\
         set_sysctl net.core.rmem_max 26214400\n\
         function tune {\n  local key=$1 val=$2\n  if [ -n \"$val\" ]; then {\n    sysctl -w $key=$val\n  }\n  fi\n  sysctl -w vm.swappiness=1\n}\n\
         for key in net.core.busy_read net.core.busy_poll; do tune $key 50; done\n\
         tune net.core.somaxconn \"$UNKNOWN\"\n\
         main()\n{\n  set_sysctl vm.dirty_ratio 5\n  main\n}\nmain \"$@\"\nsysctl -w $1=2\n",
        expect![[r#"
            Shell
            1 (Structure)
            2 (Structure)
            3 net.core.rmem_max=26214400
            4 (Structure)
            5 (Structure)
            6 (Structure)
            7 (Structure)
            8 (Structure)
            9 (Structure)
            10 vm.swappiness=1
            11 (Structure)
            12 net.core.busy_read=50 + net.core.busy_poll=50
            13 ? only a shell could expand it, and evenkeel runs nothing
            14 (Structure)
            15 (Structure)
            16 vm.dirty_ratio=5
            17 (Structure)
            18 (Structure)
            19 ? its calls of functions are too many, or too deep, to follow
            20 ? only a shell could expand it, and evenkeel runs nothing
        "#]],
    );
}

#[test]
fn what_a_function_sets_without_an_argument_counts_once() {
    check(
        "#!/bin/sh\nonce() { sysctl -w vm.swappiness=1; }\nonce\nmain() {\n  sysctl -w net.core.busy_read=50\n}\nmain\n",
        expect![[r#"
            Shell
            1 (Structure)
            2 vm.swappiness=1
            3 (Command)
            4 (Structure)
            5 net.core.busy_read=50
            6 (Structure)
            7 (Command)
        "#]],
    );
}

#[test]
fn a_template_and_a_table_lose_no_kernel_argument() {
    check(
        "| Parameter | Description |\n|---|---|\n| `isolcpus=2-7` | isolate CPUs |\n| `vm.swappiness=1` | swap less |\n\n\
         Set GRUB_CMDLINE_LINUX=\"{{ base }} idle=poll intel_idle.max_cstate=0\" and reboot.\n",
        expect![[r#"
            Markdown
            1 (Prose)
            2 (Structure)
            3 cmdline.isolcpus=2-7
            4 vm.swappiness=1
            6 cmdline.idle=poll + cmdline.intel_idle.max_cstate=0
        "#]],
    );
    check(
        "GRUB_CMDLINE_LINUX=\"{{ base }} idle=poll {{ more\"\n",
        expect![[r#"
        Shell
        1 cmdline.idle=poll + kernel argument more
    "#]],
    );
}

#[test]
fn cloud_init_writes_units_and_files_of_sysctls() {
    check(
        "#cloud-config\nwrite_files:\n  - path: /etc/systemd/system/tune.service\n    content: |\n      [Service]\n      \
         ExecStart=/sbin/sysctl -w net.core.busy_read=50\n      Restart=no\n  - path: /etc/sysctl.d/99-game.conf\n    content: |\n      \
         net.core.rmem_max=26214400\nruncmd:\n  - sysctl -w vm.swappiness=1\n",
        expect![[r#"
            Ansible
            1 (Comment)
            2 (Structure)
            3 (Elsewhere)
            4 (Elsewhere)
            5 (Structure)
            6 net.core.busy_read=50
            7 (Elsewhere)
            8 (Elsewhere)
            9 (Elsewhere)
            10 net.core.rmem_max=26214400
            11 (Structure)
            12 vm.swappiness=1
        "#]],
    );
}
