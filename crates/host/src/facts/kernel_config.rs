//! How the kernel was built: its timer tick, and its initial preemption model.

use evenkeel_hostfs::proc::field;
use serde::Serialize;

use crate::fact::Fact;
use crate::probe::Probe;

const CONFIG: &str = "@kernel-config";
const TICK: &str = "@tick_ns";

/// The known part of the kernel's configuration.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct KernelConfig {
    /// The file. `/proc/config.gz` comes from the kernel itself. `/boot/config-RELEASE` may belong to another build with the same name.
    pub source: String,
    /// The timer frequency in Hz (`CONFIG_HZ`).
    pub timer_hz: u32,
    /// When the timer tick stops.
    pub tick: Tick,
    /// The built-in preemption model: `none`, `voluntary`, `full`, `lazy` or `rt`.
    /// If `dynamic` is true, `preempt=` and debugfs may have changed it.
    pub preemption: String,
    /// Whether the model can be selected at boot (`CONFIG_PREEMPT_DYNAMIC`).
    pub dynamic: bool,
}

/// When the timer tick stops.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Tick {
    /// Never (`CONFIG_HZ_PERIODIC`).
    Periodic,
    /// On idle CPUs (`CONFIG_NO_HZ_IDLE`).
    StopsWhenIdle,
    /// The tick also stops on CPUs of `nohz_full=` while one task runs there (`CONFIG_NO_HZ_FULL`).
    StopsOnNohzFull,
}

impl KernelConfig {
    pub(super) fn probe(probe: Probe<'_>) -> Fact<KernelConfig> {
        let config = probe.parse(CONFIG, "lines of a kernel's configuration, CONFIG_HZ among them", parse);
        match config {
            Fact::Absent { .. } if probe.says_absent(CONFIG) => {
                Fact::absent("neither /proc/config.gz nor /boot/config-RELEASE exists for the running kernel")
            }
            config => config,
        }
    }
}

/// The timer frequency in Hz, from the resolution of the coarse clocks.
/// On every kernel this resolution is one tick, and everybody may read it.
/// Without a running kernel, the frequency comes from the configuration.
pub(super) fn probe_timer_hz(probe: Probe<'_>, config: &Fact<KernelConfig>) -> Fact<u32> {
    match (probe.parse(TICK, "the length of a tick, in nanoseconds", parse_tick), config) {
        (Fact::Absent { .. } | Fact::Unseen { .. }, Fact::Known(config)) => Fact::Known(config.timer_hz),
        (Fact::Absent { .. }, unknown) => unknown.clone().map(|config| config.timer_hz),
        (as_text, _) => as_text,
    }
}

/// The kernel rounds the tick to a nanosecond: 3333333 means 300 Hz.
fn parse_tick(text: &str) -> Option<u32> {
    let tick_ns: u32 = text.parse().ok().filter(|tick_ns| *tick_ns > 0)?;
    let hz = (1_000_000_000 + tick_ns / 2) / tick_ns;
    (10..=10_000).contains(&hz).then_some(hz)
}

fn parse(text: &str) -> Option<KernelConfig> {
    let is_set = |name: &str| field(text, &format!("CONFIG_{name}"), '=') == Some("y");
    let models = [
        ("PREEMPT_RT", "rt"),
        ("PREEMPT_LAZY", "lazy"),
        ("PREEMPT", "full"),
        ("PREEMPT_VOLUNTARY", "voluntary"),
        ("PREEMPT_NONE", "none"),
    ];
    Some(KernelConfig {
        source: field(text, "source", '=')?.to_owned(),
        timer_hz: field(text, "CONFIG_HZ", '=')?.parse().ok()?,
        tick: match () {
            () if is_set("NO_HZ_FULL") => Tick::StopsOnNohzFull,
            () if is_set("NO_HZ_IDLE") => Tick::StopsWhenIdle,
            () => Tick::Periodic,
        },
        preemption: models.iter().find(|(name, _)| is_set(name))?.1.to_owned(),
        dynamic: is_set("PREEMPT_DYNAMIC"),
    })
}

#[cfg(test)]
mod tests {
    use evenkeel_hostfs::{Capture, Root};
    use expect_test::expect;
    use proptest::prelude::*;

    use super::*;

    fn as_text(lines: &str) -> String {
        let root = Root::captured(Capture::parse(&format!("evenkeel-capture 1\n{lines}\nend\n")).unwrap());
        let config = KernelConfig::probe(Probe(&root));
        let hz = probe_timer_hz(Probe(&root), &config);
        serde_json::to_string(&(hz, config)).unwrap() + "\n"
    }

    #[test]
    fn the_tick_is_known_without_a_file() {
        let config = "@kernel-config =\n| source=/boot/config-6.1.0\n| CONFIG_HZ=1000\n| CONFIG_NO_HZ_FULL=y\n\
                      | CONFIG_PREEMPT_VOLUNTARY=y\n| CONFIG_PREEMPT_DYNAMIC=y";
        let seen = [
            as_text(&format!("@tick_ns = 4000000\n{config}")),
            as_text("@tick_ns = 3333333\n@kernel-config ! ENOENT"),
            as_text(&format!("@tick_ns ! ENOENT\n{config}")),
            as_text("@tick_ns ! ENOENT\n@kernel-config ! EACCES"),
            as_text("@tick_ns = 0\n@kernel-config = CONFIG_HZ=250"),
            as_text(""),
        ];
        expect![[r#"
            [250,{"source":"/boot/config-6.1.0","timer_hz":1000,"tick":"stops-on-nohz-full","preemption":"voluntary","dynamic":true}]
            [300,{"unknown":"absent","why":"neither /proc/config.gz nor /boot/config-RELEASE exists for the running kernel"}]
            [1000,{"source":"/boot/config-6.1.0","timer_hz":1000,"tick":"stops-on-nohz-full","preemption":"voluntary","dynamic":true}]
            [{"unknown":"denied","why":"@kernel-config: permission denied (EACCES)"},{"unknown":"denied","why":"@kernel-config: permission denied (EACCES)"}]
            [{"unknown":"odd","why":"@tick_ns should hold the length of a tick, in nanoseconds","path":"@tick_ns","raw":"0\n"},{"unknown":"odd","why":"@kernel-config should hold lines of a kernel's configuration, CONFIG_HZ among them","path":"@kernel-config","raw":"CONFIG_HZ=250\n"}]
            [{"unknown":"absent","why":"@tick_ns is not in the capture"},{"unknown":"absent","why":"@kernel-config is not in the capture"}]
        "#]].assert_eq(&seen.concat());
    }

    #[test]
    fn ticks_of_every_kernel() {
        let table = [
            ("10000000", Some(100)),
            ("4000000", Some(250)),
            ("3333333", Some(300)),
            ("1000000", Some(1000)),
            ("1", None),
            ("4294967295", None),
            ("-1", None),
            ("", None),
        ];
        for (text, expected) in table {
            assert_eq!(parse_tick(text), expected, "{text}");
        }
    }

    #[test]
    fn models_and_ticks_of_every_build() {
        let of = |options: &str| {
            let text = format!("source=x\nCONFIG_HZ=250\n{options}");
            parse(&text).map(|config| (config.preemption, config.tick, config.dynamic))
        };
        let some = |model: &str, tick, dynamic| Some((model.to_owned(), tick, dynamic));
        assert_eq!(of("CONFIG_PREEMPT_NONE=y\nCONFIG_NO_HZ_IDLE=y"), some("none", Tick::StopsWhenIdle, false));
        assert_eq!(of("CONFIG_PREEMPT_LAZY=y\nCONFIG_PREEMPT_DYNAMIC=y"), some("lazy", Tick::Periodic, true));
        assert_eq!(of("CONFIG_PREEMPT_RT=y\nCONFIG_PREEMPT=y"), some("rt", Tick::Periodic, false));
        assert_eq!(of("CONFIG_PREEMPT=y"), some("full", Tick::Periodic, false));
        assert_eq!(of("CONFIG_PREEMPTION=y"), None);
    }

    proptest! {
        #[test]
        fn no_text_makes_the_parsers_panic(text in "((source|CONFIG_HZ|CONFIG_PREEMPT)?=?[0-9y]{0,12}\n)*|.{0,40}") {
            let _ = (parse(&text), parse_tick(&text));
        }
    }
}
