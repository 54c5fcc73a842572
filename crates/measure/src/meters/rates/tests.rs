//! Tests with two readings of simulated machines, which are made of texts.

use std::collections::BTreeMap;
use std::fmt::Write;

use evenkeel_hostfs::Root;
use evenkeel_sys::Errno;
use expect_test::expect;
use proptest::prelude::*;

use super::*;

const SECOND_NS: u64 = 1_000_000_000;

/// A machine with two CPUs and a limited version 2 group, after `turn` seconds of constant rates.
fn machine(turn: u64) -> BTreeMap<String, String> {
    let mut stat = String::from("cpu  0 0 0 0 0 0 0 0 0 0\n");
    for cpu in 0..2 {
        // Each hundred ticks have 50 user, 10 system, 30 idle, 5 iowait, and 5 steal.
        let of = |share: u64| 1000 + share * turn;
        let _ = writeln!(stat, "cpu{cpu} {} 0 {} {} {} 0 0 {} 0 0", of(50), of(10), of(30), of(5), of(5));
    }
    let n = |base: u64, grown: u64| base + grown * turn;
    let _ = write!(stat, "intr {} 1 2 3\nctxt {}\nbtime 7\nprocesses {}\n", n(99, 1000), n(5, 2500), n(10, 2));
    let _ = writeln!(stat, "softirq {} 1 2", n(7, 300));
    let group = "/sys/fs/cgroup/game";
    let texts = [
        ("/proc/stat", stat),
        (
            "/proc/vmstat",
            format!(
                "pgfault {}\npgmajfault {}\npswpin {}\npswpout 8\nallocstall_dma 0\nallocstall_normal {}\noom_kill 1\n",
                n(500, 110),
                n(50, 10),
                n(4, 4),
                n(0, 1)
            ),
        ),
        ("/proc/meminfo", "MemTotal: 1000 kB\nMemAvailable: 400 kB\nSwapTotal: 100 kB\nSwapFree: 60 kB\n".into()),
        ("/proc/pressure/cpu", format!("some avg10=0.00 total={}\nfull avg10=0.00 total=0\n", n(77, 250_000))),
        ("/proc/pressure/memory", format!("some total={0}\nfull total={0}\n", n(0, 20_000))),
        ("/proc/pressure/io", "some total=5\nfull total=5\n".into()),
        ("/proc/7/cgroup", "0::/game\n".into()),
        ("/proc/self/cgroup", "0::/game\n".into()),
        (&format!("{group}/cpu.max"), "50000 100000\n".into()),
        (
            &format!("{group}/cpu.stat"),
            format!(
                "usage_usec 9\nnr_periods {}\nnr_throttled {}\nthrottled_usec {}\n",
                n(3, 10),
                n(1, 4),
                n(9, 80_000)
            ),
        ),
        ("/sys/fs/cgroup/cpu.stat", "usage_usec 9\n".into()),
        (&format!("{group}/memory.max"), "512000\n".into()),
        (&format!("{group}/memory.current"), "409600\n".into()),
        (&format!("{group}/memory.stat"), format!("pgmajfault {}\nworkingset_refault_anon {}\n", n(0, 3), n(0, 6))),
        (&format!("{group}/cpu.pressure"), format!("some total={}\n", n(0, 500_000))),
        (
            "/proc/7/stat",
            format!("7 (game) S 1 7 7 0 -1 0 {} 0 {} 0 {} 0 0 0 20 0 1 0 4242 0 0", n(40, 20), n(2, 1), n(10, 40)),
        ),
        ("/proc/7/status", format!("Name:\tgame\nVmRSS:\t300 kB\nVmSwap:\t{} kB\n", n(8, 4))),
        (
            "/proc/7/task/7/status",
            format!("Name:\tgame\nvoluntary_ctxt_switches:\t{}\nnonvoluntary_ctxt_switches:\t{}\n", n(3, 60), n(0, 5)),
        ),
        ("/proc/7/task/7/schedstat", format!("{} {} 9\n", n(5, 400_000_000), n(6, 100_000_000))),
    ];
    texts.into_iter().map(|(path, text)| (path.to_owned(), text)).collect()
}

fn counts(texts: &BTreeMap<String, String>, target: &Target, at_ns: u64) -> Counts {
    let mut capture = Root::from(texts.clone()).capture();
    // For the root group of version 2, and for a process that has ended, the kernel reports ENOENT.
    for path in ["/sys/fs/cgroup/cpu.max", "/sys/fs/cgroup/memory.max", "/proc/7/stat"] {
        if !texts.contains_key(path) {
            capture.saw_text(path, Err(Errno::NOENT));
        }
    }
    Counts::read(&Root::captured(capture), target, &|| at_ns)
}

fn rates_of(before: &BTreeMap<String, String>, after: &BTreeMap<String, String>, elapsed_ns: u64) -> Rates {
    let target = Target::Process(7);
    between(&counts(before, &target, 0), &counts(after, &target, elapsed_ns), None)
}

/// The machine after two seconds, with some texts replaced.
fn changed<const N: usize>(changes: [(&str, &str); N]) -> BTreeMap<String, String> {
    let mut texts = machine(2);
    texts.extend(changes.map(|(path, text)| (path.to_owned(), text.to_owned())));
    texts
}

#[test]
fn two_readings_become_rates() {
    let rates = rates_of(&machine(0), &machine(2), 2 * SECOND_NS);
    expect![[r#"
        {
          "system": {
            "cpu_time_unit_ms": 10,
            "all": {
              "user": 0.5,
              "system": 0.1,
              "irq": 0.0,
              "softirq": 0.0,
              "steal": 0.05,
              "idle": 0.35,
              "iowait": 0.05,
              "counted": 1.0
            },
            "cpus": [
              {
                "cpu": 0,
                "shares": {
                  "user": 0.5,
                  "system": 0.1,
                  "irq": 0.0,
                  "softirq": 0.0,
                  "steal": 0.05,
                  "idle": 0.35,
                  "iowait": 0.05,
                  "counted": 1.0
                }
              },
              {
                "cpu": 1,
                "shares": {
                  "user": 0.5,
                  "system": 0.1,
                  "irq": 0.0,
                  "softirq": 0.0,
                  "steal": 0.05,
                  "idle": 0.35,
                  "iowait": 0.05,
                  "counted": 1.0
                }
              }
            ],
            "context_switches_per_s": 2500.0,
            "interrupts_per_s": 1000.0,
            "softirqs_per_s": 300.0,
            "forks_per_s": 2.0,
            "minor_faults_per_s": 100.0,
            "major_faults_per_s": 10.0,
            "swap_ins_per_s": 4.0,
            "swap_outs_per_s": 0.0,
            "direct_reclaims_per_s": 1.0,
            "refaults_per_s": {
              "unknown": "absent",
              "why": "this kernel does not count workingset_refault of /proc/vmstat"
            },
            "oom_kills": 0,
            "pressure": [
              {
                "resource": "cpu",
                "some": 0.25,
                "full": 0.0
              },
              {
                "resource": "memory",
                "some": 0.02,
                "full": 0.02
              },
              {
                "resource": "io",
                "some": 0.0,
                "full": 0.0
              }
            ],
            "memory": {
              "total_bytes": 1024000,
              "available_bytes": 409600,
              "swap_bytes": 102400,
              "swap_used_bytes": 40960
            }
          },
          "group": {
            "levels": [
              {
                "directory": "/sys/fs/cgroup/game",
                "quota": {
                  "quota_us": 50000,
                  "period_us": 100000
                },
                "periods": 20,
                "throttled_periods": 8,
                "throttled_ns": 160000000
              },
              {
                "directory": "/sys/fs/cgroup",
                "quota": null,
                "periods": {
                  "unknown": "absent",
                  "why": "this kernel does not count nr_periods of /sys/fs/cgroup/cpu.stat"
                },
                "throttled_periods": {
                  "unknown": "absent",
                  "why": "this kernel does not count nr_throttled of /sys/fs/cgroup/cpu.stat"
                },
                "throttled_ns": {
                  "unknown": "absent",
                  "why": "this kernel does not count throttled time of /sys/fs/cgroup/cpu.stat"
                }
              }
            ],
            "pressure": [
              {
                "resource": "cpu",
                "some": 0.5,
                "full": {
                  "unknown": "absent",
                  "why": "this kernel does not count the total of full pressure on cpu"
                }
              },
              {
                "resource": "memory",
                "some": {
                  "unknown": "absent",
                  "why": "read /sys/fs/cgroup/game/memory.pressure: not in the capture"
                },
                "full": {
                  "unknown": "absent",
                  "why": "read /sys/fs/cgroup/game/memory.pressure: not in the capture"
                }
              },
              {
                "resource": "io",
                "some": {
                  "unknown": "absent",
                  "why": "read /sys/fs/cgroup/game/io.pressure: not in the capture"
                },
                "full": {
                  "unknown": "absent",
                  "why": "read /sys/fs/cgroup/game/io.pressure: not in the capture"
                }
              }
            ],
            "used_bytes": 409600,
            "limit": {
              "bytes": 512000,
              "directory": "/sys/fs/cgroup/game"
            },
            "major_faults_per_s": 3.0,
            "refaults_per_s": 6.0
          },
          "process": {
            "pid": 7,
            "name": "game",
            "elapsed_ns": 2000000000,
            "cpu": 0.4,
            "minor_faults_per_s": 20.0,
            "major_faults_per_s": 1.0,
            "major_faults": 2,
            "voluntary_switches_per_s": 60.0,
            "involuntary_switches_per_s": 5.0,
            "run_delay": 0.1,
            "threads": [
              {
                "tid": 7,
                "name": "game",
                "cpu": 0.4,
                "run_delay": 0.1,
                "voluntary_switches_per_s": 60.0,
                "involuntary_switches_per_s": 5.0
              }
            ],
            "memory": {
              "rss_bytes": 307200,
              "pss_bytes": {
                "unknown": "absent",
                "why": "it is read once, at the end"
              },
              "swap_bytes": 16384,
              "swap_grown_bytes": 8192,
              "referenced_bytes": {
                "unknown": "absent",
                "why": "it is read once, at the end"
              },
              "referenced_since": "its pages were mapped, or somebody cleared the marks",
              "limit_bytes": 512000,
              "limit_by": "/sys/fs/cgroup/game",
              "share_of_limit": 0.632
            },
            "lost": {
              "count": 0
            }
          }
        }"#]]
    .assert_eq(&serde_json::to_string_pretty(&rates).unwrap());
}

/// Each case has the result for one field, and the fields that must not change with it.
#[test]
fn counters_that_go_back_have_a_reason_and_no_rate() {
    let back = "went back from";
    let stat = machine(2)["/proc/stat"].clone();
    let with = |from: &str, to: &str| {
        assert!(stat.contains(from), "{from} is not in {stat}");
        stat.replacen(from, to, 1)
    };
    let rates = |path: &str, text: &str| rates_of(&machine(0), &changed([(path, text)]), 2 * SECOND_NS);

    let reset = rates("/proc/stat", &with("ctxt 5005", "ctxt 4"));
    assert_eq!(
        reset.system.context_switches_per_s.why(),
        Some("ctxt of /proc/stat went back from 5 to 4: it wrapped or was reset")
    );
    assert_eq!(reset.system.interrupts_per_s.known(), Some(&1000.0), "the others stay");

    // The steal count of CPU 0 decreased. So that CPU gets no shares, and the sum does not include it.
    let stolen = rates("/proc/stat", &with("cpu0 1100 0 1020 1060 1010 0 0 1010", "cpu0 1100 0 1020 1060 1010 0 0 3"));
    let [zero, one] = &stolen.system.cpus[..] else { panic!("two CPUs") };
    assert!(zero.shares.why().unwrap().starts_with("steal of CPU 0 went back"), "{zero:?}");
    assert_eq!(stolen.system.all.known(), one.shares.known());

    // The iowait count may decrease, because its time moved to idle.
    let waited = rates("/proc/stat", &with("1060 1010 0 0 1010", "1071 999 0 0 1010"));
    let shares = waited.system.cpus[0].shares.known().unwrap();
    assert_eq!((shares.idle, shares.iowait.why()), (0.35, Some("iowait of CPU 0 went back, as the kernel lets it")));
    assert!(waited.system.all.known().unwrap().iowait.known().is_none());

    // The steal count exceeds all elapsed time, as on some kernels.
    let much = rates("/proc/stat", &with("1060 1010 0 0 1010", "1060 1010 0 0 18446744073709551000"));
    assert!(much.system.cpus[0].shares.why().unwrap().contains("while 2000 ms passed"), "{much:?}");

    for (path, text) in
        [("/proc/pressure/cpu", "some total=3\n"), ("/proc/pressure/cpu", "some total=76\nfull total=0\n")]
    {
        let pressure = rates(path, text).system.pressure[0].clone();
        assert!(pressure.some.why().unwrap().contains(back), "{pressure:?}");
    }
    let group = rates("/sys/fs/cgroup/game/cpu.stat", "nr_periods 1\nnr_throttled 9\nthrottled_usec 10\n").group;
    let level = &group.levels.known().unwrap()[0];
    assert!(level.periods.why().unwrap().contains(back) && level.throttled_periods.known() == Some(&8), "{level:?}");
}

#[test]
fn cpus_that_go_and_come_are_named() {
    let (both, one) = (machine(2), machine(2)["/proc/stat"].replace("cpu1 ", "cpu9 "));
    let rates = rates_of(&machine(0), &changed([("/proc/stat", &one)]), 2 * SECOND_NS);
    let reasons: Vec<(usize, Option<&str>)> = rates.system.cpus.iter().map(|cpu| (cpu.cpu, cpu.shares.why())).collect();
    let expected = [(0, None), (1, Some("CPU 1 went offline meanwhile")), (9, Some("CPU 9 came online meanwhile"))];
    assert_eq!(reasons, expected);
    assert_eq!(rates.system.all.known().unwrap().counted, 1.0, "the sum is of those that were there throughout");
    // A CPU that was offline for a while counted less than the time that passed.
    let rates = rates_of(&machine(0), &both, 4 * SECOND_NS);
    assert_eq!(rates.system.cpus[1].shares.known().unwrap().counted, 0.5);
}

#[test]
fn a_process_that_ended_or_was_replaced_is_reported() {
    let mut gone = machine(2);
    gone.remove("/proc/7/stat");
    let rates = rates_of(&machine(0), &gone, 2 * SECOND_NS);
    assert_eq!(rates.process.unwrap().why(), Some("read /proc/7/stat: no such file or directory (ENOENT)"));
    assert_eq!(rates.system.context_switches_per_s.known(), Some(&2500.0));

    let other = machine(2)["/proc/7/stat"].replace(" 4242 ", " 9999 ");
    let rates = rates_of(&machine(0), &changed([("/proc/7/stat", &other)]), 2 * SECOND_NS);
    assert_eq!(rates.process.unwrap().why(), Some("process 7 ended, and another has its number now"));

    let zombie = machine(2)["/proc/7/stat"].replace(") S ", ") Z ");
    let rates = rates_of(&machine(0), &changed([("/proc/7/stat", &zombie)]), 2 * SECOND_NS);
    assert_eq!(rates.process.unwrap().why(), Some("process 7 (game) has ended"));

    // The counts of an ended thread are gone. A new thread counts from its own start.
    let mut threads = machine(2);
    for file in ["status", "schedstat"] {
        let text = threads.remove(&format!("/proc/7/task/7/{file}")).unwrap();
        threads.insert(format!("/proc/7/task/8/{file}"), text);
    }
    let rates = rates_of(&machine(0), &threads, 2 * SECOND_NS);
    let process = rates.process.unwrap();
    let process = process.known().unwrap();
    assert_eq!((process.lost.count, process.voluntary_switches_per_s.known()), (1, Some(&61.5)));
}

#[test]
fn readings_of_the_same_moment_have_no_rates() {
    let rates = rates_of(&machine(0), &machine(2), 0);
    assert_eq!(rates.system.context_switches_per_s.why(), Some("no time passed between the readings"));
    let rates = rates_of(&machine(0), &machine(0), 1_000_000);
    assert!(rates.system.all.why().unwrap().starts_with("nothing was counted"));
}

#[test]
fn a_denied_user_gets_the_reason() {
    let mut capture = Root::from(machine(0)).capture();
    capture.saw_text("/proc/pressure/cpu", Err(Errno::OPNOTSUPP));
    capture.saw_text("/proc/7/task/7/schedstat", Err(Errno::ACCESS));
    let counts = Counts::read(&Root::captured(capture), &Target::Process(7), &|| 0);
    let why = "read /proc/pressure/cpu: the kernel does not count pressure (psi=1 on its command line)";
    assert_eq!(counts.pressure[0].why(), Some(why));
    let process = counts.process.unwrap();
    let threads = &process.known().unwrap().threads;
    assert!(matches!(threads, Measured::Unknown(Unknown { unknown: Kind::Denied, .. })), "{threads:?}");
}

/// /proc/stat of a machine with 200 CPUs, with as many interrupts as such a machine has.
fn large(turn: u64) -> String {
    let mut text = String::from("cpu  0 0 0 0 0 0 0 0 0 0\n");
    for cpu in 0..200_u64 {
        let steal = cpu * turn / 4;
        let _ = writeln!(text, "cpu{cpu} {} 0 0 {} 0 0 0 {steal} 0 0", 7 + turn * 50, 9 + turn * 50 - steal);
    }
    let _ = write!(text, "intr {}", turn * 200);
    for irq in 0..6000 {
        let _ = write!(text, " {irq}");
    }
    let _ = write!(text, "\nctxt {}\nprocesses 1\nsoftirq 1 1\n", turn * 1000);
    text
}

#[test]
fn two_hundred_cpus_are_read() {
    let texts = |turn| changed([("/proc/stat", &large(turn))]);
    let rates = rates_of(&texts(0), &texts(1), SECOND_NS);
    assert_eq!(rates.system.cpus.len(), 200);
    assert_eq!(rates.system.cpus[199].shares.known().unwrap().steal, 0.49);
    assert_eq!(rates.system.all.known().unwrap().counted, 1.0);
    assert_eq!(rates.system.interrupts_per_s.known(), Some(&200.0));
}

/// Texts like the kernel's `/proc/stat`, with any numbers.
fn any_stat() -> impl Strategy<Value = String> {
    let number = prop_oneof![0..200_u64, Just(u64::MAX), any::<u64>()];
    prop::collection::vec(prop::collection::vec(number, 8), 0..4).prop_map(|cpus| {
        let line = |(cpu, times): (usize, &Vec<u64>)| {
            let times: Vec<String> = times.iter().map(u64::to_string).collect();
            format!("cpu{cpu} {}\n", times.join(" "))
        };
        let cpus: String = cpus.iter().enumerate().map(line).collect();
        format!("{cpus}intr 5\nctxt 6\n")
    })
}

proptest! {
    #[test]
    fn no_two_texts_make_nonsense(one in any_stat(), other in any_stat(), elapsed_ns in prop_oneof![Just(0), any::<u64>()]) {
        let rates = rates_of(&changed([("/proc/stat", &one)]), &changed([("/proc/stat", &other)]), elapsed_ns);
        let shares = rates.system.cpus.iter().filter_map(|cpu| cpu.shares.known()).chain(rates.system.all.known());
        for shares in shares {
            let of = [shares.user, shares.system, shares.irq, shares.softirq, shares.steal, shares.idle];
            prop_assert!(of.iter().all(|share| (0.0..=1.0).contains(share)), "{:?}", shares);
            prop_assert!((of.iter().sum::<f64>() - 1.0).abs() < 1e-6, "{:?}", shares);
            prop_assert!(shares.counted.is_finite());
        }
    }
}
