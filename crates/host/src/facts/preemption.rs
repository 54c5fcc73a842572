//! The preemption model: when kernel code yields a CPU.
//! debugfs shows the model completely, and the kernel's version text shows it only in part.

use serde::Serialize;

use super::kernel_config::KernelConfig;
use crate::fact::Fact;
use crate::probe::Probe;

const DEBUGFS: &str = "/sys/kernel/debug/sched/preempt";

/// The preemption model.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Preemption {
    /// `none`, `voluntary`, `full`, `lazy` or `rt`.
    pub model: Fact<String>,
    /// Whether `preempt=` on the command line selects it (`CONFIG_PREEMPT_DYNAMIC`).
    pub dynamic: Fact<bool>,
    /// The available models, if debugfs is readable.
    pub on_offer: Fact<Vec<String>>,
}

impl Preemption {
    pub(super) fn probe(probe: Probe<'_>, config: &Fact<KernelConfig>) -> Preemption {
        let modes = probe.parse(DEBUGFS, "preemption models with the chosen one in parentheses", parse_modes);
        let built = probe
            .parse("/proc/version", "the model that the kernel was built with", |text| Some(Built::from_version(text)));
        let model = match (&modes, &built) {
            (_, Fact::Known(Built::RealTime)) => Fact::Known("rt".to_owned()),
            (Fact::Known(modes), _) => Fact::Known(modes.chosen.clone()),
            (_, Fact::Known(Built::Full)) => Fact::Known("full".to_owned()),
            // debugfs is not readable, but a model that cannot be selected at boot is the built-in model.
            (_, Fact::Known(Built::Not)) if config.known().is_some_and(|config| !config.dynamic) => {
                config.clone().map(|config| config.preemption)
            }
            (unknown, Fact::Known(built)) => {
                let why = unknown.unknown_why().unwrap_or_default();
                Fact::absent(format!("{}, and only debugfs shows which ({why})", built.leaves_open()))
            }
            (_, unknown) => unknown.clone().map(|_| String::new()),
        };
        let dynamic = match &modes {
            Fact::Known(_) => Fact::Known(true),
            _ => built.map(|built| built == Built::Dynamic),
        };
        Preemption { model, dynamic, on_offer: modes.map(|modes| modes.on_offer) }
    }
}

/// The meaning of the word after `SMP` in the kernel's version text (`init/Makefile`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Built {
    /// `PREEMPT_RT`.
    RealTime,
    /// `PREEMPT_DYNAMIC`: selected at boot.
    Dynamic,
    /// `PREEMPT`.
    Full,
    /// No word: none or voluntary.
    Not,
}

impl Built {
    fn from_version(version: &str) -> Built {
        let has = |word: &str| version.split_ascii_whitespace().any(|part| part == word);
        match () {
            () if has("PREEMPT_RT") => Built::RealTime,
            () if has("PREEMPT_DYNAMIC") => Built::Dynamic,
            () if has("PREEMPT") => Built::Full,
            () => Built::Not,
        }
    }

    fn leaves_open(self) -> &'static str {
        match self {
            Built::Not => "it was built as none or voluntary",
            _ => "it is selected at boot",
        }
    }
}

struct Modes {
    on_offer: Vec<String>,
    chosen: String,
}

/// `none voluntary (full)`.
fn parse_modes(text: &str) -> Option<Modes> {
    let bare = |word: &str| word.trim_matches(['(', ')']).to_owned();
    let mut chosen = text.split_whitespace().filter(|word| word.starts_with('(') && word.ends_with(')'));
    let (one, other) = (chosen.next()?, chosen.next());
    let modes = Modes { on_offer: text.split_whitespace().map(bare).collect(), chosen: bare(one) };
    (other.is_none() && modes.on_offer.iter().all(|word| !word.is_empty())).then_some(modes)
}

#[cfg(test)]
mod tests {
    use evenkeel_hostfs::{Capture, Root};
    use proptest::prelude::*;

    use super::super::kernel_config::Tick;
    use super::*;

    #[test]
    fn debugfs_has_more_than_the_version() {
        let table = [
            ("#1 SMP PREEMPT_DYNAMIC Thu", "= none voluntary (full)"),
            ("#1 SMP PREEMPT_DYNAMIC Thu", "= full (lazy)"),
            ("#1 SMP PREEMPT_DYNAMIC Thu", "! EPERM"),
            ("#1 SMP PREEMPT_DYNAMIC Thu", "= none voluntary"),
            ("#1 SMP PREEMPT_RT Thu", "= (full) lazy"),
            ("#1 SMP PREEMPT Thu", "! ENOENT"),
            ("#1 SMP Thu", "! ENOENT"),
        ];
        let as_text = table.map(|(version, debugfs)| {
            let text = format!("evenkeel-capture 1\n/proc/version = {version}\n{DEBUGFS} {debugfs}\nend\n");
            let root = Root::captured(Capture::parse(&text).unwrap());
            serde_json::to_string(&Preemption::probe(Probe(&root), &Fact::absent("not asked"))).unwrap() + "\n"
        });
        expect_test::expect![[r#"
            {"model":"full","dynamic":true,"on_offer":["none","voluntary","full"]}
            {"model":"lazy","dynamic":true,"on_offer":["full","lazy"]}
            {"model":{"unknown":"absent","why":"it is selected at boot, and only debugfs shows which (/sys/kernel/debug/sched/preempt: operation not permitted (EPERM))"},"dynamic":true,"on_offer":{"unknown":"denied","why":"/sys/kernel/debug/sched/preempt: operation not permitted (EPERM)"}}
            {"model":{"unknown":"absent","why":"it is selected at boot, and only debugfs shows which (/sys/kernel/debug/sched/preempt should hold preemption models with the chosen one in parentheses)"},"dynamic":true,"on_offer":{"unknown":"odd","why":"/sys/kernel/debug/sched/preempt should hold preemption models with the chosen one in parentheses","path":"/sys/kernel/debug/sched/preempt","raw":"none voluntary\n"}}
            {"model":"rt","dynamic":true,"on_offer":["full","lazy"]}
            {"model":"full","dynamic":false,"on_offer":{"unknown":"absent","why":"/sys/kernel/debug/sched/preempt: no such file or directory (ENOENT)"}}
            {"model":{"unknown":"absent","why":"it was built as none or voluntary, and only debugfs shows which (/sys/kernel/debug/sched/preempt: no such file or directory (ENOENT))"},"dynamic":false,"on_offer":{"unknown":"absent","why":"/sys/kernel/debug/sched/preempt: no such file or directory (ENOENT)"}}
        "#]].assert_eq(&as_text.concat());
    }

    #[test]
    fn the_configuration_has_what_debugfs_lacks() {
        let model = |preemption: &str, dynamic| {
            let text = format!("evenkeel-capture 1\n/proc/version = #1 SMP Thu\n{DEBUGFS} ! EACCES\nend\n");
            let root = Root::captured(Capture::parse(&text).unwrap());
            let (source, preemption) = ("/boot/config-6.1".into(), preemption.into());
            let config = KernelConfig { source, timer_hz: 250, tick: Tick::StopsWhenIdle, preemption, dynamic };
            Preemption::probe(Probe(&root), &Fact::Known(config)).model.known().cloned()
        };
        assert_eq!(model("voluntary", false).as_deref(), Some("voluntary"));
        assert_eq!(model("voluntary", true), None, "it may have been chosen otherwise");
    }

    proptest! {
        #[test]
        fn no_text_makes_the_parser_panic(text in "[( )a-z]{0,20}|.{0,20}") {
            if let Some(modes) = parse_modes(&text) {
                prop_assert!(modes.on_offer.contains(&modes.chosen));
            }
        }
    }
}
