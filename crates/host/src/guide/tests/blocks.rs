//! Blocks of code: transcripts, diffs, and profiles within other texts.

use expect_test::expect;

use super::check;

#[test]
fn the_output_of_a_command_is_no_advice() {
    check(
        "# Check\n```\n$ sysctl net.core.somaxconn\nnet.core.somaxconn = 128\n```\n\
         ```console\n$ sysctl -a | grep vm.dirty\nvm.dirty_ratio = 20\nvm.dirty_background_ratio = 10\n\n$ sudo sysctl -w vm.swappiness=1\nvm.swappiness = 1\n```\n\
         ```\nuser@host:~$ sudo sysctl -w \\\n  vm.dirty_ratio=5\nvm.dirty_ratio = 5\nroot@host:~# echo 0 > /proc/sys/kernel/numa_balancing\n\
         [root@host ~]# cat <<EOF > /etc/sysctl.d/x.conf\nvm.stat_interval=9\nEOF\n[root@host ~]# sysctl -p\nvm.stat_interval = 9\n```\n\
         ```\n# sysctl vm.swappiness\nvm.swappiness = 60\n```\n",
        expect![[r#"
            Markdown
            1 (Prose)
            2 (Structure)
            3 (Command)
            4 (Prose)
            5 (Structure)
            6 (Structure)
            7 (Command)
            8 (Prose)
            9 (Prose)
            11 vm.swappiness=1
            12 (Prose)
            13 (Structure)
            14 (Structure)
            15 vm.dirty_ratio=5
            16 (Structure)
            17 (Prose)
            18 kernel.numa_balancing=0
            19 (Command)
            20 vm.stat_interval=9
            21 (Structure)
            22 (Command)
            23 (Prose)
            24 (Structure)
            25 (Structure)
            26 (Command)
            27 (Prose)
            28 (Structure)
        "#]],
    );
    check(
        "<html><p>Check:</p>\n<pre><code>$ sysctl net.core.somaxconn\nnet.core.somaxconn = 128\n</code></pre>\n<p>Set vm.swappiness=1</p>\n\
         <pre>[root@host ~]# sysctl vm.dirty_ratio\nvm.dirty_ratio = 20</pre><p>Set vm.dirty_ratio=5</p>\n",
        expect![[r#"
            Html
            1 (Prose)
            2 (Command)
            3 (Prose)
            4 (Structure)
            5 vm.swappiness=1
            6 (Command)
            7 vm.dirty_ratio=5
        "#]],
    );
}

#[test]
fn blocks_without_a_prompt_are_advice() {
    check(
        "```\n# sysctl settings\nvm.swappiness = 1\n# echo of the switch\nvm.dirty_ratio = 5\n```\n```\n$ sudo -i\nsysctl -w vm.stat_interval=9\n```\n\
         ```\nsudo sh -c '\necho 1 > /proc/sys/vm/swappiness\n'\n```\n```\n$ sudo sh -c '\necho 1 > /proc/sys/vm/swappiness\n'\n```\n",
        expect![[r#"
            Markdown
            1 (Structure)
            2 (Command)
            3 vm.swappiness=1
            4 (Prose)
            5 vm.dirty_ratio=5
            6 (Structure)
            7 (Structure)
            8 (Structure)
            9 vm.stat_interval=9
            10 (Structure)
            11 (Structure)
            12 vm.swappiness=1
            13 (Structure)
            14 (Structure)
            15 (Structure)
            16 (Structure)
            17 vm.swappiness=1
            18 (Structure)
            19 (Structure)
            20 (Structure)
        "#]],
    );
}

#[test]
fn lines_that_a_diff_removes_are_no_advice() {
    check(
        "# Change\n```diff\n--- a/sysctl.conf\n+++ b/sysctl.conf\n@@ -1,3 +1,3 @@\n vm.swappiness = 1\n- vm.page-cluster = 0\n+ vm.page-cluster = 1\n-vm.dirty_ratio=20\n+vm.dirty_ratio=5\n```\n\
         ~~~ patch\n-vm.stat_interval = 1\n+vm.stat_interval = 9\n~~~\n```\n- vm.swappiness = 2\n```\n\
         1. Change it:\n   ```diff\n   -vm.stat_interval = 1\n   - vm.stat_interval = 2\n   +vm.stat_interval = 9\n    vm.swappiness = 3\n   ```\n",
        expect![[r#"
            Markdown
            1 (Prose)
            2 (Structure)
            3 (Structure)
            4 (Structure)
            5 (Structure)
            6 vm.swappiness=1
            7 (SwitchedOff)
            8 vm.page-cluster=1
            9 (SwitchedOff)
            10 vm.dirty_ratio=5
            11 (Structure)
            12 (Structure)
            13 (SwitchedOff)
            14 vm.stat_interval=9
            15 (Structure)
            16 (Structure)
            17 vm.swappiness=2
            18 (Structure)
            19 (Prose)
            20 (Structure)
            21 (SwitchedOff)
            22 (SwitchedOff)
            23 vm.stat_interval=9
            24 vm.swappiness=3
            25 (Structure)
        "#]],
    );
    check(
        "<html>\n<pre><code class=\"language-diff\">\n-vm.page-cluster = 0\n+vm.page-cluster = 1\n</code></pre>\n",
        expect![[r#"
            Html
            1 (Structure)
            2 (Structure)
            3 (SwitchedOff)
            4 vm.page-cluster=1
            5 (Structure)
        "#]],
    );
}

#[test]
fn a_manifest_with_a_profile_keeps_its_commands() {
    check(
        "apiVersion: apps/v1\nkind: DaemonSet\nspec:\n  template:\n    spec:\n      containers:\n      - name: tune\n        command: [\"sh\", \"-c\", \"sysctl -w net.core.somaxconn=4096\"]\n\
         \x20     - name: more\n        command:\n        - sh\n        - -c\n        - |\n          sysctl -w vm.swappiness=1\n          sysctl -w vm.dirty_ratio=5\n\
         \x20     - name: args\n        args: [\"-c\", \"sysctl -w vm.stat_interval=9\"]\n\
         ---\napiVersion: tuned.openshift.io/v1\nkind: Tuned\nspec:\n  profile:\n  - data: |\n      [main]\n      include=openshift-node\n      [sysctl]\n      net.core.busy_poll=50\n    name: low-latency\n",
        expect![[r#"
            Ansible
            1 (Elsewhere)
            2 (Elsewhere)
            3 (Structure)
            4 (Structure)
            5 (Structure)
            6 (Structure)
            7 (Elsewhere)
            8 net.core.somaxconn=4096
            9 (Elsewhere)
            10 (Structure)
            11 (Command)
            12 (Command)
            13 (Command)
            14 vm.swappiness=1
            15 vm.dirty_ratio=5
            16 (Elsewhere)
            17 vm.stat_interval=9
            18 (Structure)
            19 (Elsewhere)
            20 (Elsewhere)
            21 (Structure)
            22 (Structure)
            23 (Elsewhere)
            24 (Structure)
            25 ? evenkeel does not find the profile openshift-node
            26 (Structure)
            27 net.core.busy_poll=50
            28 (Elsewhere)
        "#]],
    );
}
