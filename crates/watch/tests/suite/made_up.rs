//! A host whose files and counters are made up by a test.

use std::collections::BTreeMap;

use evenkeel_hostfs::Root;

/// The files of a host with two CPUs, `at_s` seconds after its start. The group of server 7 has a limit.
pub(crate) fn files(at_s: u64) -> BTreeMap<String, String> {
    // CPU 0: 30 % user, 10 % system, 5 % steal. CPU 1 is idle.
    let (user, system, steal, idle) = (at_s * 30, at_s * 10, at_s * 5, at_s * 55);
    let n = at_s;
    let stat = format!(
        "cpu  {user} 0 {system} {idle} 0 0 0 {steal} 0 0\ncpu0 {user} 0 {system} {idle} 0 0 0 {steal} 0 0\n\
         cpu1 0 0 0 {} 0 0 0 0 0 0\nintr {} 1\nctxt {}\nbtime 1000\nprocesses {n}\n",
        at_s * 100,
        n * 500,
        n * 900,
    );
    let texts = [
        ("/proc/stat", stat),
        ("/proc/uptime", format!("{at_s}.00 1.00\n")),
        (
            "/proc/schedstat",
            format!("version 15\ncpu0 0 0 0 0 0 0 {} {} 1\ncpu1 0 0 0 0 0 0 0 0 0\n", n * 400_000_000, n * 20_000_000),
        ),
        ("/proc/pressure/cpu", format!("some avg10=0.00 avg60=0.00 avg300=0.00 total={}\n", n * 15_000)),
        ("/proc/meminfo", "MemTotal: 1000 kB\nMemAvailable: 600 kB\nSwapTotal: 100 kB\nSwapFree: 90 kB\n".to_owned()),
        (
            "/proc/vmstat",
            format!("pgfault {}\npgmajfault {}\npswpin {}\npswpout 0\noom_kill 0\n", n * 100, n * 3, n * 2),
        ),
        (
            "/proc/interrupts",
            format!(
                "           CPU0       CPU1\n 38: {} 0 PCI-MSI 1-edge  eth0-rx\nLOC: {} {n} Local timer interrupts\n",
                n * 250,
                n * 249
            ),
        ),
        (
            "/proc/self/net/softnet_stat",
            format!("{:08x} {:08x} {:08x} 0 0 0 0 0 0 0 0 0 00000000\n", n * 100, n, n * 2),
        ),
        (
            "/proc/self/net/snmp",
            format!(
                "Udp: InDatagrams NoPorts InErrors OutDatagrams RcvbufErrors SndbufErrors\nUdp: {} {n} {} {} {} 0\n",
                n * 100,
                n * 4,
                n * 50,
                n * 3
            ),
        ),
        (
            "/proc/self/net/dev",
            format!(
                "head\nhead\n eth0: {} {} 0 {n} 0 0 0 0 {} {} 0 0 0 0 0 0\n",
                n * 10_000,
                n * 100,
                n * 5_000,
                n * 50
            ),
        ),
        ("@ethtool/eth0/stats", format!("rx_drops=1\npps_allowance_exceeded={}\n", n * 7)),
        ("/proc/diskstats", format!(" 254 0 vda {n} 0 {} {} {n} 0 0 0 0 {} 0\n", n * 8, n * 4, n * 100)),
        ("/proc/self/cgroup", "0::/\n".to_owned()),
        ("/sys/fs/cgroup/cgroup.procs", "1\n".to_owned()),
        ("/sys/fs/cgroup/game.slice/cpu.max", "50000 100000\n".to_owned()),
        (
            "/sys/fs/cgroup/game.slice/cpu.stat",
            format!("nr_periods {}\nnr_throttled {}\nthrottled_usec {}\n", n * 10, n * 2, n * 30_000),
        ),
        ("/sys/devices/system/clocksource/clocksource0/current_clocksource", "tsc\n".to_owned()),
        ("/proc/7/cgroup", "0::/game.slice/one\n".to_owned()),
        (
            "/proc/7/stat",
            format!(
                "7 (game server) S 1 7 7 0 -1 0 {} 0 {} 0 {} 0 0 0 20 0 1 0 4711 1 1 0 0 0 0 0 0 0 0 0 0 0 0 0 17 1 0 0\n",
                n * 10,
                n * 2,
                n * 25
            ),
        ),
        ("/proc/7/status", "Name:\tgame\nVmRSS:\t    2048 kB\n".to_owned()),
        ("/proc/7/task/7/schedstat", format!("{} {} 9\n", n * 250_000_000, n * 10_000_000)),
        (
            "/proc/7/task/7/status",
            format!("Name:\tgame\nvoluntary_ctxt_switches:\t{}\nnonvoluntary_ctxt_switches:\t{}\n", n * 60, n * 5),
        ),
        (
            "/proc/7/net/udp",
            format!(
                "head\n 1: 0100007F:6D38 00000000:0000 07 00000000:00000A80 00:00000000 00000000 0 0 4711 2 0 {}\n",
                n * 6
            ),
        ),
    ];
    texts.into_iter().map(|(path, text)| (path.to_owned(), text)).collect()
}

/// The host at this second.
pub(crate) fn host(at_s: u64) -> Root {
    let mut capture = Root::from(files(at_s)).capture();
    capture.saw_entries("/proc/7/fd", Ok(vec!["0".to_owned(), "3".to_owned()]));
    capture.saw_link("/proc/7/fd/0", Ok("/dev/null".to_owned()));
    capture.saw_link("/proc/7/fd/3", Ok("socket:[4711]".to_owned()));
    Root::captured(capture)
}
