//! The memory limit of all UDP sockets together.

use crate::extras::{Counter, CounterPlace, Extras, RiskAt};
use crate::facts::Facts;
use crate::finding::{Finding, State, own};
use crate::goal::AdviceContext;
use crate::knob::{Area, Knob, Place, Source, TakesEffect, Values};
use crate::load::{Load, STALL_MS};
use crate::reading::Reading;

use crate::facts::reads;
use crate::finding::shown;
use crate::shapes::one;

const PATH: &str = "/proc/sys/net/ipv4/udp_mem";

/// The page size in bytes on every x86 kernel. ARM kernels also have other sizes, and no fact shows the size.
const PAGE_BYTES: u64 = 4096;

pub(super) const KNOB: Knob = Knob {
    id: "net.ipv4.udp_mem",
    title: "memory limit of all UDP sockets together",
    area: Area::Network,
    place: Place::File { path: PATH, reading: Reading::Words },
    values: Values::Numbers { count: 3, min: 0, max: i64::MAX, unit: "pages" },
    default: "3/32, 1/8 and 3/16 of the memory that is free for buffers at boot",
    takes_effect: TakesEffect::AtOnce,
    mechanism: "Three numbers of pages, but UDP uses only the first. Above it, a socket accepts another packet only while it \
        holds less than net.ipv4.udp_rmem_min. The second and third exist because TCP's setting has three; UDP has no \
        pressure state between them. The first is 3/32 of memory by default, 9.4 %, far above the sum of the buffers \
        of single sockets. So doubling it does not help against drops at a full socket buffer (net.core.rmem_default, \
        net.core.rmem_max).",
    risk: "with a high limit, packets that nobody reads can fill the memory of the whole machine",
    shows_in: "MemErrors on the Udp line of /proc/net/snmp; mem on the UDP line of /proc/net/sockstat against the first \
               number",
    kernels: "all",
    sources: &[
        Source {
            title: "Linux Documentation/networking/ip-sysctl.rst, udp_mem",
            says: "below min no limit; pressure and max follow the format of tcp_mem; from free memory at boot",
        },
        Source {
            title: "Linux net/core/sock.c, __sk_mem_raise_allocated",
            says: "without a pressure hook, which UDP does not have, only the first limit applies",
        },
        Source {
            title: "AWS whitepaper, Optimizing Multiplayer Game Server Performance on AWS (2017)",
            says: "double it; true only if MemErrors rises",
        },
    ],
    extras: Extras {
        read_in: &[CounterPlace::Table { file: "/proc/net/snmp", names: &["MemErrors"] }],
        // The kernel counts refused packets as receive buffer errors.
        counter: Some(Counter::ReceiveBuffers),
        reject_for: Some(reject_for),
        risk_at: RiskAt::Higher,
        ..Extras::NONE
    },
    advise,
};

/// A limit below the kernel's own value divided by this number starves every UDP socket of the machine, including sockets for DNS.
const SHARE_MIN: u64 = 100;

/// Why the machine must not have a limit this small.
fn reject_for(facts: &Facts, wanted: &str) -> Option<String> {
    let first = |text: &str| text.split_whitespace().next()?.parse::<u64>().ok();
    let gate = first(wanted)?;
    let own = defaults(*facts.memory.total_bytes.known()?);
    let least = first(&own)? / SHARE_MIN;
    let is_more = || facts.sysctl(PATH).known().and_then(|text| first(text)).is_some_and(|current| gate >= current);
    (gate < least && !is_more()).then(|| {
        format!(
            "all UDP sockets together would share {gate} pages, and those beyond lose packets; at least {least} pages \
                are accepted, a hundredth of the kernel's own choice"
        )
    })
}

fn advise(facts: &Facts, context: &AdviceContext) -> Vec<Finding> {
    one(decide(facts, context))
}

fn decide(facts: &Facts, context: &AdviceContext) -> Result<Finding, Finding> {
    let text = own(PATH, &facts.sysctl(PATH))?;
    let numbers: Option<Vec<u64>> = text.split_whitespace().map(|word| word.parse().ok()).collect();
    let Some([gate, pressure, max]) = numbers.as_deref().and_then(|numbers| <[u64; 3]>::try_from(numbers).ok()) else {
        let reason = format!("the value in force is not three whole numbers: {:?}", shown(&text));
        return Err(Finding::new(State::Unknown, PATH, reason));
    };
    let current = format!("{gate} {pressure} {max}");
    let (Some(memory), Some("x86_64")) =
        (facts.memory.total_bytes.known(), facts.kernel.architecture.known().map(String::as_str))
    else {
        let reason = format!(
            "only the first number applies: {gate} pages, enough while MemErrors in /proc/net/snmp does not rise"
        );
        return Ok(Finding::keep(PATH, reason).counting(&refused(facts)).at(current));
    };
    let gate_bytes = gate.saturating_mul(PAGE_BYTES);
    let mib = gate_bytes >> 20;
    let percent = gate_bytes.saturating_mul(100) / (*memory).max(1);
    let needed = Load::from_server(&context.server).map(|load| (load.stalled_bytes(), load.label));
    let finding = if gate_bytes > memory / 16 * 3 {
        let reason = format!(
            "only the first number applies, and {mib} MiB are {percent} % of memory, which unread packets could \
                fill; the kernel's default is 3/32"
        );
        Finding::set(PATH, defaults(*memory), reason)
    } else if let Some((needed, as_text)) = needed.filter(|(needed, _)| gate_bytes < *needed) {
        let wanted = defaults(*memory);
        let reason = format!(
            "only the first number applies, at {gate_bytes} bytes; a stall of {STALL_MS} ms of {as_text} leaves \
                {needed} bytes"
        );
        // The kernel's own value may be too small as well. If so, no limit helps.
        match wanted == current {
            true => Finding::keep(PATH, format!("{reason}, which is too much of this memory: use more machines")),
            false => Finding::set(PATH, wanted, format!("{reason}; the kernel's default is 3/32 of memory")),
        }
    } else {
        let reason = format!(
            "only the first number applies: {mib} MiB, {percent} % of memory, enough while MemErrors in \
                /proc/net/snmp does not rise; full socket buffers are a separate limit (net.core.rmem_max)"
        );
        Finding::keep(PATH, reason)
    };
    Ok(finding.counting(&refused(facts)).at(current))
}

/// The text with the counter of refused packets.
fn refused(facts: &Facts) -> String {
    let count = facts.counters.udp_sum(|udp| udp.mem_errors);
    reads("MemErrors", count, "no packet was lost this way", "this many packets were lost at this limit")
}

/// The limits that the kernel would choose if all memory were free for buffers, in the same steps (`udp_init`, `net/ipv4/udp.c`).
fn defaults(memory_bytes: u64) -> String {
    let eighth = (memory_bytes / PAGE_BYTES / 8).max(128);
    let gate = eighth / 4 * 3;
    format!("{gate} {eighth} {}", gate * 2)
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;
    use crate::fact::Fact;
    use crate::testing::{check_server, with_sysctl};

    #[test]
    fn only_the_first_number_gates() {
        check_server(
            &KNOB,
            &[
                ("", &|_| {}),
                ("", &with_sysctl(PATH, "196608 0 0")),
                ("", &with_sysctl(PATH, "393217 1 1")),
                ("", &with_sysctl(PATH, "100 9999999 9999999")),
                ("players=1000", &with_sysctl(PATH, "100 9999999 9999999")),
                ("players=1000", &|_| {}),
                ("pps=1000000000", &|_| {}),
                ("", &|facts| facts.memory.total_bytes = Fact::absent("no /proc/meminfo")),
                ("", &|facts| facts.kernel.architecture = Fact::Known("aarch64".into())),
                ("", &with_sysctl(PATH, "1 2")),
                ("", &with_sysctl(PATH, "1 2 x")),
                ("", &|facts| facts.sysctls.clear()),
            ],
            expect![[r#"
                nothing known
                  keep /proc/sys/net/ipv4/udp_mem "196608 262144 393216": only the first number applies: 768 MiB, 9 % of memory, enough while MemErrors in /proc/net/snmp does not rise; full socket buffers are a separate limit (net.core.rmem_max)
                nothing known
                  keep /proc/sys/net/ipv4/udp_mem "196608 0 0": only the first number applies: 768 MiB, 9 % of memory, enough while MemErrors in /proc/net/snmp does not rise; full socket buffers are a separate limit (net.core.rmem_max)
                nothing known
                  set /proc/sys/net/ipv4/udp_mem "393217 1 1" -> "196608 262144 393216": only the first number applies, and 1536 MiB are 18 % of memory, which unread packets could fill; the kernel's default is 3/32
                nothing known
                  keep /proc/sys/net/ipv4/udp_mem "100 9999999 9999999": only the first number applies: 0 MiB, 0 % of memory, enough while MemErrors in /proc/net/snmp does not rise; full socket buffers are a separate limit (net.core.rmem_max)
                players=1000
                  set /proc/sys/net/ipv4/udp_mem "100 9999999 9999999" -> "196608 262144 393216": only the first number applies, at 409600 bytes; a stall of 100 ms of 1000 players that send 60/s each leaves 4992000 bytes; the kernel's default is 3/32 of memory
                players=1000
                  keep /proc/sys/net/ipv4/udp_mem "196608 262144 393216": only the first number applies: 768 MiB, 9 % of memory, enough while MemErrors in /proc/net/snmp does not rise; full socket buffers are a separate limit (net.core.rmem_max)
                pps=1000000000
                  keep /proc/sys/net/ipv4/udp_mem "196608 262144 393216": only the first number applies, at 805306368 bytes; a stall of 100 ms of 1000000000 packets/s leaves 83200000000 bytes, which is too much of this memory: use more machines
                nothing known
                  keep /proc/sys/net/ipv4/udp_mem "196608 262144 393216": only the first number applies: 196608 pages, enough while MemErrors in /proc/net/snmp does not rise
                nothing known
                  keep /proc/sys/net/ipv4/udp_mem "196608 262144 393216": only the first number applies: 196608 pages, enough while MemErrors in /proc/net/snmp does not rise
                nothing known
                  unknown /proc/sys/net/ipv4/udp_mem: the value in force is not three whole numbers: "1 2"
                nothing known
                  unknown /proc/sys/net/ipv4/udp_mem: the value in force is not three whole numbers: "1 2 x"
                nothing known
                  not-here /proc/sys/net/ipv4/udp_mem: not present here: the facts do not include /proc/sys/net/ipv4/udp_mem
            "#]],
        );
    }

    #[test]
    fn a_limit_that_starves_all_sockets_is_refused() {
        let with = |text: &'static str| {
            let mut facts = crate::testing::base();
            with_sysctl(PATH, text)(&mut facts);
            reject_for(&facts, "0 0 0")
        };
        assert!(with("196608 262144 393216").is_some_and(|why| why.contains("would share 0 pages")));
        assert_eq!(with("0 1 2"), None, "it is so now");
        assert_eq!(reject_for(&crate::testing::base(), "102400 873800 16777216"), None);
    }

    /// A guest with Linux 6.18 and 24,684,084 kB of memory, nearly all of it free, chose 575799 767734 1151598.
    #[test]
    fn the_kernels_own_is_computed_as_the_kernel_does() {
        assert_eq!(defaults(767_734 * 8 * PAGE_BYTES), "575799 767734 1151598");
        assert_eq!(defaults(0), "96 128 192");
    }

    /// The reason reports past losses, but no decision depends on them, whether zero or not.
    #[test]
    fn the_counter_is_quoted_and_decides_nothing() {
        check_server(
            &KNOB,
            &[("", &crate::facts::all_counted(0)), ("pps=2560", &crate::facts::all_counted(9))],
            expect![[r#"
                nothing known
                  keep /proc/sys/net/ipv4/udp_mem "196608 262144 393216": only the first number applies: 768 MiB, 9 % of memory, enough while MemErrors in /proc/net/snmp does not rise; full socket buffers are a separate limit (net.core.rmem_max); MemErrors reads 0 since boot: no packet was lost this way
                pps=2560
                  keep /proc/sys/net/ipv4/udp_mem "196608 262144 393216": only the first number applies: 768 MiB, 9 % of memory, enough while MemErrors in /proc/net/snmp does not rise; full socket buffers are a separate limit (net.core.rmem_max); MemErrors reads 9 since boot: this many packets were lost at this limit
            "#]],
        );
    }
}
