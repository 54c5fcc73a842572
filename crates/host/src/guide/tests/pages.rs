//! Pages: tables, blocks of HTML, and sentences that speak against a setting.

use expect_test::expect;

use super::check;

#[test]
fn the_head_of_a_table_says_which_value_counts() {
    check(
        "# Tuning\n\n| Setting | Default | Recommended |\n|---|---|---|\n| vm.watermark_scale_factor | 10 | 200 |\n| [`vm.swappiness`](https://x.y) | 60 | **1** |\n\
         | net.core.rmem_max | 212992 | 16MB |\n| net.core.somaxconn | 128 | |\n\n\
         Sysctl | Type | Old value | New value\n--- | --- | --- | ---\nvm.dirty\\_ratio | int | 20 | 5\n\n\
         | Name | Small | Large |\n|:--|--:|--:|\n| net.core.netdev_max_backlog | 1000 | 5000 |\n\n\
         | Name | Default | Why |\n|---|---|---|\n| net.core.busy_read | 0 | latency |\n\n\
         | Old | New |\n|---|---|\n| `net.core.busy_poll=0` | `net.core.busy_poll=50` |\n\n\
         | Name | Value | Unit |\n|---|---|---|\n| vm.min_free_kbytes | 64 | MB |\n\n\
         | Profile | vm.swappiness | vm.dirty_ratio |\n|---|---|---|\n| game | 1 | 5 |\n",
        expect![[r#"
            Markdown
            1 (Prose)
            3 (Prose)
            4 (Structure)
            5 vm.watermark_scale_factor=200
            6 vm.swappiness=1
            7 ? net.core.rmem_max: the table has no value for it
            8 ? net.core.somaxconn: the table has no column of values to set
            10 (Prose)
            11 (Structure)
            12 vm.dirty_ratio=5
            14 (Prose)
            15 (Structure)
            16 ? net.core.netdev_max_backlog: the table has several columns of values
            18 (Prose)
            19 (Structure)
            20 ? net.core.busy_read: the table has no column of values to set
            22 (Prose)
            23 (Structure)
            24 net.core.busy_poll=50 + not understood: net.core.busy_poll=0: it is in a column of other values
            26 (Prose)
            27 (Structure)
            28 ? vm.min_free_kbytes: the table has a unit for it, and evenkeel does not convert units
            30 ? the names are in the head of the table: vm.swappiness, vm.dirty_ratio
            31 (Structure)
            32 (Prose)
        "#]],
    );
    check(
        "<html><table><tr><th>Key</th><th>Default</th><th>Set to</th></tr>\n<tr><td>vm.dirty_ratio</td><td>20</td><td>5</td></tr></table>\n\
         <dl><dt>vm.swappiness</dt><dd>10</dd>\n<dt><code>net.core.busy_read</code>\n<dd>50\n</dl>\n",
        expect![[r#"
            Html
            1 (Prose)
            2 vm.dirty_ratio=5
            3 vm.swappiness=10
            4 net.core.busy_read=50
            5 (Structure)
            6 (Structure)
        "#]],
    );
}

#[test]
fn blocks_of_html_are_lines() {
    check(
        "<html>\n<div>kernel.watchdog = 0</div><div>kernel.nmi_watchdog = 1</div>\n<h3>x</h3>vm.stat_interval=9\n\
         <pre><div class=line>net.core.busy_read&#61;50</div><div class=line>net.core.busy_poll&#x3d;50</div></pre>\n\
         <p>echo 0 &#62;&#160;/proc/sys/kernel/numa_balancing</p>\n<ul><li>net.core.rmem_max: 8388608</li></ul>\n\
         <pre><code class=\"sh\"># the backlog\nsysctl -w net.core.netdev_max_backlog=5000\n</code></pre>\n<p><del>vm.swappiness=1</del> no</p>\n\
         <!-- vm.dirty_ratio=1 > -->\n",
        expect![[r#"
            Html
            1 (Structure)
            2 kernel.watchdog=0 + kernel.nmi_watchdog=1
            3 vm.stat_interval=9
            4 net.core.busy_read=50 + net.core.busy_poll=50
            5 kernel.numa_balancing=0
            6 net.core.rmem_max=8388608
            7 (Comment)
            8 net.core.netdev_max_backlog=5000
            9 (Structure)
            10 ? vm.swappiness is struck out
            11 (Structure)
        "#]],
    );
}

#[test]
fn sentences_that_speak_against_a_setting() {
    check(
        "# Notes\nDon't set `kernel.sched_rt_runtime_us=-1`.\nnever set vm.watermark_boost_factor to 0\n~~`kernel.watchdog=0`~~ no longer needed\n\
         Increase `net.core.rmem_max` to 16 MB.\n- net.core.netdev_budget=600, net.core.netdev_budget_usecs=4000\n- **vm.stat_interval**: `10`\n\
         Set vm.swappiness to a value between 1 and 10\nThe default is vm.dirty_ratio=20. Set vm.dirty_ratio=5.\nSet vm.swappiness to 1 or 10.\n\
         Set vm.dirty_ratio to 10 to write earlier.\nset vm.swappiness = 10 on all hosts\nWhy `vm.swappiness=0`?\nUse net.core.busy_read=50 instead of net.core.busy_poll=50.\n\
         Read https://kernel.org and net.core first.\n",
        expect![[r#"
            Markdown
            1 (Prose)
            2 ? it names kernel.sched_rt_runtime_us=-1, but has "don't", so it may not recommend this value
            3 ? it names vm.watermark_boost_factor=0, but has "never", so it may not recommend this value
            4 ? kernel.watchdog is struck out
            5 ? it names net.core.rmem_max=16 mb, and evenkeel does not convert units
            6 net.core.netdev_budget=600 + net.core.netdev_budget_usecs=4000
            7 vm.stat_interval=10
            8 ? it names vm.swappiness without a value to set
            9 vm.dirty_ratio=5 + not understood: it names vm.dirty_ratio=20, but has "default", so it may not recommend this value
            10 ? it names vm.swappiness=1 and another value
            11 vm.dirty_ratio=10
            12 vm.swappiness=10
            13 ? it names vm.swappiness=0, but has "?", so it may not recommend this value
            14 ? it names net.core.busy_read=50, but has "instead of", so it may not recommend this value; it names net.core.busy_poll=50, but has "instead of", so it may not recommend this value
            15 (Prose)
        "#]],
    );
}
