//! Guides as people write them, line by line, and mutants of them.

use expect_test::{Expect, expect};
use proptest::prelude::*;

use super::*;
use crate::knobs;
use crate::setting::Setting;

mod against;
mod blocks;
mod branches;
mod dangers;
mod judged;
mod losses;
mod manifests;
mod others;
mod pages;
mod scripts;
mod shapes;
mod texts;

use texts::{ALL, ANSIBLE, HTML, MARKDOWN, PERFTUNE, PLAN, SHELL, SYSCTL, TUNED};

/// The result of reading a text: the format, then each line that is not empty.
#[track_caller]
fn check(text: &str, expected: Expect) {
    let guide = read(text, None);
    let mut said = format!("{:?}\n", guide.format);
    for line in &guide.lines {
        let place = line.file.as_ref().map_or_else(String::new, |file| format!("{file}:"));
        let what = match &line.content {
            Content::NotASetting(Skip::Blank) => continue,
            content => content.in_words(),
        };
        said += &format!("{place}{} {what}\n", line.number);
    }
    expected.assert_eq(&said);
}

fn read(text: &str, format: Option<GuideFormat>) -> Guide {
    let include = |name: &str| match name {
        "network-latency" => Some("[main]\ninclude=latency-performance\n[sysctl]\nnet.core.busy_read=50\n".to_owned()),
        "latency-performance" => Some("[sysctl]\nvm.swappiness=10\n".to_owned()),
        "loop" => Some("[main]\ninclude=loop\n".to_owned()),
        _ => None,
    };
    Guide::parse("a guide", text, format, &include).unwrap()
}

#[test]
fn sysctl_files() {
    check(
        SYSCTL,
        expect![[r#"
            Sysctl
            1 (Comment)
            2 net.core.rmem_max=8388608
            3 net.ipv4.tcp_fin_timeout=15
            4 net.core.somaxconn=4096
            5 net.ipv4.tcp_rmem=4096 87380 16777216
            6 ? the key has no area, such as net. or vm.: `sysctl` refuses it
            7 net.core.rmem_default=New_Value
            8 ? its value is empty, a placeholder to fill in, or has other text with it
            9 net/ipv4/conf/eth0.100/rp_filter=0
            10 (Comment)
            11 thp.enabled=never
            12 ? it is not a key = value
        "#]],
    );
}

#[test]
fn tuned_profiles() {
    check(
        TUNED,
        expect![[r#"
            Tuned
            latency-performance:1 (Structure)
            latency-performance:2 vm.swappiness=10
            network-latency:1 (Structure)
            network-latency:2 (Structure)
            network-latency:3 (Structure)
            network-latency:4 net.core.busy_read=50
            1 (Structure)
            2 (Elsewhere)
            3 ? evenkeel does not find the profile missing
            5 (Structure)
            6 (Structure)
            7 (Structure)
            9 (Structure)
            10 net.core.somaxconn>=2048
            11 vm.dirty_ratio<=40
            12 ? it needs a variable or a function of TuneD
            14 (Structure)
            15 (Structure)
            16 thp.enabled=never
            17 vm.dirty_ratio=10
            19 (Structure)
            20 cpufreq.governor=performance
            21 cpuidle.dma_latency_us=3
            22 TuneD's [cpu] energy_perf_bias=performance
            24 (Structure)
            25 ethtool -C * adaptive-rx off + net.coalesce_rx_us=0
            26 (Structure)
            27 disk.read_ahead_kb>=4096
            28 (Structure)
            29 kernel argument skew_tick=1 + cmdline.tsc=reliable + kernel argument isolcpus=managed_irq,2-3 + cmdline.nohz_full=2-3
            30 (Structure)
            31 cpufreq.governor=performance
            32 /sys/kernel/mm/ksm/run=0
            33 (Structure)
            34 (Elsewhere)
            35 (Structure)
            36 (Elsewhere)
        "#]],
    );
}

#[test]
fn shell_scripts() {
    check(
        SHELL,
        expect![[r#"
            Shell
            1 (Structure)
            2 (Comment)
            3 (Structure)
            4 net.core.busy_poll=50 + net.core.busy_read=50
            5 kernel.numa_balancing=0
            6 (Command)
            7 kernel.timer_migration=0
            8 thp.enabled=never
            9 vm.swappiness=10
            10 net.rps_cpus@eth0/rx-0=0-3
            11 cpufreq.governor=performance
            12 ethtool -C eth0 adaptive-rx off + net.coalesce_rx_us@eth0=0
            13 (Structure)
            14 net.rings@eth0=4096 + ethtool -K eth0 gro off
            15 cpufreq.governor=performance
            16 cmdline.intel_idle.max_cstate=1 + cmdline.mitigations=off
            17 cmdline.intel_pstate=disable
            18 systemctl stop irqbalance
            19 (Command)
            20 ? only a shell could expand it, and evenkeel runs nothing
            21 (Command)
            22 net.core.netdev_max_backlog=5000
            23 (Structure)
            24 irq.affinity@24=1
            25 (Command)
        "#]],
    );
}

#[test]
fn pages_in_markdown() {
    check(
        MARKDOWN,
        expect![[r#"
            Markdown
            1 (Prose)
            3 net.core.rmem_max=16777216
            4 net.core.busy_poll=50
            6 (Structure)
            7 net.core.netdev_budget=600
            8 vm.zone_reclaim_mode=1
            9 (Comment)
            10 net.ipv4.udp_mem=102400 873800 16777216
            11 (Structure)
            13 (Prose)
            14 (Structure)
            15 vm.swappiness=10
            16 ? net.core.somaxconn: the table has no value for it
            17 (Prose)
        "#]],
    );
}

#[test]
fn pages_in_html() {
    check(
        HTML,
        expect![[r#"
            Html
            1 (Structure)
            2 (Structure)
            3 (Structure)
            4 (Structure)
            5 vm.swappiness=1
            6 kernel.numa_balancing=0
            7 net.core.busy_read=50
            8 (Prose)
            9 (Structure)
        "#]],
    );
}

#[test]
fn ansible_tasks() {
    check(
        ANSIBLE,
        expect![[r#"
            Ansible
            1 (Structure)
            2 (Elsewhere)
            3 (Structure)
            4 (Elsewhere)
            5 (Structure)
            6 (Structure)
            7 net.core.netdev_max_backlog=5000
            8 (Elsewhere)
            9 (Elsewhere)
            10 (Structure)
            11 (Structure)
            12 (Command)
            13 (Structure)
            14 vm.swappiness=10
            15 (Structure)
            16 (Structure)
            17 (Structure)
            18 (Structure)
            19 net.core.somaxconn=1024
            20 (Structure)
            21 net.core.rmem_max=8388608
            22 ? net.core.wmem_max has no value here
            23 (Elsewhere)
            24 thp.enabled=never
            25 (Structure)
            26 (Structure)
            27 net.ipv4.tcp_fin_timeout=15
            28 ? its value is empty, or a variable of Ansible
        "#]],
    );
}

#[test]
fn perftune_options() {
    check(
        PERFTUNE,
        expect![[r#"
            Perftune
            1 (Elsewhere)
            2 irq.affinity@eth0=0-1
            3 (Structure)
            4 net.core.rps_sock_flow_entries=32768 + net.core.somaxconn=4096 + net.ipv4.tcp_max_syn_backlog=4096
            5 (Elsewhere)
            6 (Elsewhere)
            7 net.channels@eth0=2
        "#]],
    );
}

#[test]
fn own_plans() {
    check(
        PLAN,
        expect![[r#"
        Plan
        1 (Structure)
        2 (Structure)
        3 (Structure)
        4 (Structure)
        5 vm.swappiness=10
        6 net.rps_cpus@eth0/rx-0=1-3
        7 (Structure)
        8 (Structure)
        9 (Structure)
    "#]],
    );
}

#[test]
fn profiles_that_include_themselves_end() {
    let guide = read("[main]\ninclude=loop\n[sysctl]\nvm.swappiness=1\n", None);
    assert_eq!(guide.asks().count(), 1);
}

#[test]
fn the_library_is_understood() {
    for entry in LibraryGuide::all() {
        let guide = entry.guide().unwrap();
        for line in &guide.lines {
            let Content::Settings(asks) = &line.content else { panic!("{}: {}", entry.name, line.text) };
            for ask in asks {
                if let Target::Knob { id, .. } = &ask.target {
                    let knob = knobs::find(id).unwrap();
                    // The blog post of 2015 asks for a value that the kernel never had.
                    let is_wrong = ask.to_string() == "cmdline.intel_pstate=enable";
                    assert!(knob.check(&ask.value).is_ok() != is_wrong, "{}: {ask}", entry.name);
                }
            }
        }
        assert!(!entry.title.is_empty() && !entry.source.is_empty() && guide.asks().count() > 0);
    }
}

#[test]
fn a_sysctl_with_a_knob_is_that_knob_by_any_name() {
    for knob in knobs::ALL {
        for path in knob.place.files().iter().filter_map(|path| path.strip_prefix("/proc/sys/")) {
            for name in [format!("sysctl:{path}"), format!("sysctl:{}", path.replace('/', "."))] {
                assert_eq!(knobs::find(&name).unwrap().id, knob.id, "{name}");
            }
        }
    }
    for (text, of) in [
        ("sysctl:vm.dirty_bytes=-1", "vm.dirty_bytes"),
        ("sysctl:kernel.sched_min_granularity_ns=0", "sched.min_granularity_ns"),
        ("sysctl:kernel.sched_wakeup_granularity_ns=-1", "sched.wakeup_granularity_ns"),
    ] {
        assert!(Setting::parse(text).unwrap_err().to_string().contains(of), "{text}");
    }
}

#[test]
fn a_sysctl_without_a_knob_has_one_by_its_name() {
    let setting = Setting::parse("sysctl:net.ipv4.tcp_rmem= 4096\t87380 16777216").unwrap();
    assert_eq!(setting.to_string(), "sysctl:net.ipv4.tcp_rmem=4096 87380 16777216");
    let again = Setting::parse(&setting.to_string()).unwrap();
    assert!(std::ptr::eq(setting.knob, again.knob), "made once");
    let refused = [
        ("sysctl:kernel.panic=1", "never writes"),
        ("sysctl:vm.drop_caches=3", "never writes"),
        ("sysctl:../../etc/passwd=1", "unknown knob"),
        ("sysctl:net.ipv4.tcp_*=0", "unknown knob"),
        ("sysctl:swappiness=1", "unknown knob"),
        ("sysctl:net.core.optmem_max=$(reboot)", "does not accept"),
        ("sysctl:net.core.optmem_max=", "does not accept"),
    ];
    for (text, why) in refused {
        let error = Setting::parse(text).unwrap_err().to_string();
        assert!(error.contains(why), "{text}: {error}");
    }
}

/// Every line of the text is in the guide once, in order.
fn assert_complete(text: &str, guide: &Guide) -> Result<(), TestCaseError> {
    let own: Vec<usize> = guide.lines.iter().filter(|line| line.file.is_none()).map(|line| line.number).collect();
    prop_assert_eq!(own, (1..=text.lines().count()).collect::<Vec<_>>());
    for line in &guide.lines {
        prop_assert!(!matches!(&line.content, Content::Settings(asks) if asks.is_empty()));
        let forgotten = matches!(&line.content, Content::NotUnderstood(why) if why.contains("did not reach"));
        prop_assert!(!forgotten, "{}", line.text);
    }
    Ok(())
}

/// The number of mutants is small by default, because tests run unoptimised.
fn mutants() -> u32 {
    if std::env::var_os("EVENKEEL_CALIBRATE").is_some() { 1_000_000 } else { 1000 }
}

fn mutant() -> impl Strategy<Value = String> {
    let cut = (any::<prop::sample::Index>(), any::<prop::sample::Index>());
    let signs = vec![
        "\n", "\\\n", "=", "${", "}", "<<EOF\n", "`", "'", "\"", "{{", "[", "]", "#", "é", "<", ">", "- ", ": ", "\r",
        "\0",
    ];
    let piece = prop_oneof!["[\\PC\n]{0,8}", prop::sample::select(signs).prop_map(str::to_owned)];
    (0..ALL.len(), prop::collection::vec((cut, piece), 1..6)).prop_map(|(which, changes)| {
        let mut letters: Vec<char> = ALL[which].chars().collect();
        for ((from, length), piece) in changes {
            let from = from.index(letters.len() + 1);
            let to = (from + length.index(30)).min(letters.len());
            letters.splice(from..to, piece.chars());
        }
        letters.into_iter().collect()
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(mutants()))]
    #[test]
    fn no_mutant_panics_or_loses_a_line(text in mutant(), format in 0..=GuideFormat::ALL.len()) {
        let format = GuideFormat::ALL.get(format).map(|(_, format)| *format);
        assert_complete(&text, &read(&text, format))?;
    }
}

/// Time and memory are bounded by the length of a text, whatever it contains.
#[test]
fn hostile_texts_end() {
    let long = "9".repeat(1 << 18);
    let texts = [
        format!("A={long}\necho {} > /proc/sys/vm/swappiness\n", "$A".repeat(1 << 16)),
        format!("sysctl -w {}", "vm.swappiness=1 ".repeat(1 << 14)),
        format!("[variables]\na={long}\nb={}\n[sysctl]\nvm.swappiness=${{b}}\n", "${a}".repeat(1 << 16)),
        "echo 1 |".repeat(1 << 15),
        "sh -c '".repeat(1 << 15),
        format!(
            "#!/bin/sh\nf() {{\n{}}}\ng() {{ {} }}\n{}",
            "g $1; g $1\n".repeat(64),
            "f $1; ".repeat(64),
            "f 1; g 2\n".repeat(1 << 12)
        ),
        "f() {\n".repeat(1 << 14),
        "- name: vm.swappiness\n".repeat(1 << 14),
        "<".repeat(1 << 18),
        "\\\n".repeat(1 << 14),
        format!("{{\"settings\":[\"{}\"]}}", "vm.swappiness=1\",\"".repeat(1 << 15)),
        "vm.dirty_ratio=1\nvm.dirty_bytes=8192\n".repeat(1 << 12),
        format!("{long}={long}\n"),
        format!("runcmd:\n- |\n{}", "  a \\\n".repeat(1 << 15)),
        format!("Never {}", "`vm.swappiness=1`, don't, ".repeat(1 << 12)),
        format!("Set vm.swappiness=1. {}", "Avoid it, it hurts. ".repeat(1 << 12)),
        format!("{}vm.swappiness=1", "不要，".repeat(1 << 13)),
        format!("```\n$ sysctl -a\n{}", "$ cat <<EOF\n".repeat(1 << 12)),
        format!("```\n$ sysctl -a\n{}", "$ echo '\n".repeat(1 << 12)),
        format!("<pre>\n{}", "a@b:~$ sysctl -w vm.swappiness=1 \\\n".repeat(1 << 13)),
    ];
    for text in texts {
        for format in GuideFormat::ALL.iter().map(|(_, format)| Some(*format)).chain([None]) {
            let Ok(guide) = Guide::parse("a guide", &text, format, &|_| None) else { continue };
            assert_eq!(guide.lines.len(), text.lines().count());
        }
    }
    let too_long = "#\n".repeat(GUIDE_BYTES_MAX);
    assert_eq!(Guide::parse("a guide", &too_long, None, &|_| None), Err(GuideError::TooLong));
}
