//! Whether a page fault waits while the kernel makes room for a huge page.

use crate::extras::{Counter, CounterPlace, Extras, RiskAt};
use crate::facts::Facts;
use crate::finding::{Finding, own};
use crate::goal::{AdviceContext, Goal};
use crate::knob::{Area, Knob, Place, Source, TakesEffect, Values};
use crate::rank::Effect;
use crate::reading::Reading;
use crate::shapes::one;

const PATH: &str = "/sys/kernel/mm/transparent_hugepage/defrag";

pub(super) const KNOB: Knob = Knob {
    id: "thp.defrag",
    title: "page fault effort to get a huge page",
    area: Area::Memory,
    place: Place::File { path: PATH, reading: Reading::ChosenWord },
    values: Values::Words(&["always", "defer", "defer+madvise", "madvise", "never"]),
    default: "madvise since Linux 4.6, always before",
    takes_effect: TakesEffect::AtOnce,
    mechanism: "It decides what a page fault does if memory may use huge pages but none is free. always waits while the kernel \
        reclaims and moves memory to make one. defer asks background threads to make one and continues with a small \
        page. madvise and defer+madvise wait only for memory for which the program requested huge pages. never uses \
        what is free. The wait happens in the tick that touches new memory.",
    risk: "with less effort at the fault, memory gets fewer huge pages",
    shows_in: "compact_stall and thp_fault_fallback in /proc/vmstat",
    kernels: "all that are built with CONFIG_TRANSPARENT_HUGEPAGE; defer since Linux 4.6, defer+madvise since 4.11",
    sources: &[
        Source {
            title: "Linux Documentation/admin-guide/mm/transhuge.rst, defrag",
            says: "what each word makes a page fault do",
        },
        Source {
            title: "AWS, Deep Dive on Amazon EC2 Instances (2016), redhat_transparent_hugepage/defrag",
            says: "never; that path is of RHEL 6 only, today's is transparent_hugepage",
        },
    ],
    extras: Extras {
        read_in: &[CounterPlace::Table { file: "/proc/vmstat", names: &["compact_stall", "thp_fault_fallback"] }],
        counter: Some(Counter::HugePageFaults),
        // The kernel moves or frees memory before the requesting thread continues.
        effect: Some(Effect::Large),
        worth_a_trial: &["never", "madvise"],
        called: &["tuned vm transparent_hugepage.defrag"],
        risk_at: RiskAt::Except(&["always"]),
        ..Extras::NONE
    },
    advise,
};

fn advise(facts: &Facts, context: &AdviceContext) -> Vec<Finding> {
    one(decide(facts, context.goal))
}

fn decide(facts: &Facts, goal: Goal) -> Result<Finding, Finding> {
    let current = own(PATH, &facts.memory.thp_defrag)?;
    let Some(whose) = who_gets_them(facts) else {
        return Err(Finding::unknown(PATH, "thp.enabled", &facts.memory.thp_enabled).at(current));
    };
    let finding = match (whose, current.as_str()) {
        (Whose::Nobody, _) => Finding::keep(PATH, "thp.enabled is never, so no fault looks for a huge page"),
        (Whose::Askers, "always" | "madvise" | "defer+madvise") => {
            Finding::keep(PATH, "a fault waits only for memory for which the program requested huge pages")
        }
        (Whose::All, "always") if goal == Goal::Throughput => {
            Finding::keep(PATH, "faults wait for huge pages, and programs then walk large data faster")
        }
        (Whose::All, "always") => {
            Finding::set(PATH, "madvise", "any page fault may wait while the kernel reclaims and moves memory")
        }
        (Whose::All, "madvise" | "defer+madvise") => {
            Finding::keep(PATH, "a fault waits only for memory for which the program requested huge pages")
        }
        _ => Finding::keep(PATH, "no page fault waits for a huge page"),
    };
    Ok(finding.at(current))
}

/// Whose memory gets transparent huge pages.
#[derive(Clone, Copy, PartialEq, PartialOrd)]
enum Whose {
    Nobody,
    Askers,
    All,
}

/// Whose memory gets the pages: the widest answer of the main setting and of the settings for single sizes.
/// `None` if the main setting is unknown.
fn who_gets_them(facts: &Facts) -> Option<Whose> {
    let whose = |word: &str| match word {
        "always" => Whose::All,
        "madvise" => Whose::Askers,
        _ => Whose::Nobody,
    };
    let whole = whose(facts.memory.thp_enabled.known()?);
    let sizes = facts.memory.thp_sizes.known().into_iter().flatten();
    let words = sizes.filter_map(|size| size.enabled.known());
    Some(words.map(|word| whose(word)).fold(whole, |widest, next| if next > widest { next } else { widest }))
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;
    use crate::fact::Fact;
    use crate::facts::ThpSize;
    use crate::testing::check;

    fn words(enabled: &'static str, defrag: &'static str) -> impl Fn(&mut Facts) {
        move |facts| {
            facts.memory.thp_enabled = Fact::Known(enabled.into());
            facts.memory.thp_defrag = Fact::Known(defrag.into());
        }
    }

    #[test]
    fn faults_do_not_wait() {
        check(
            &KNOB,
            &[
                ("the default", Goal::Latency, &|_| {}),
                ("always", Goal::Latency, &words("always", "always")),
                ("always, for those who ask", Goal::Density, &words("madvise", "always")),
                ("one size always", Goal::Latency, &|facts| {
                    words("never", "always")(facts);
                    let size = ThpSize { size_bytes: 65536, enabled: Fact::Known("always".into()) };
                    facts.memory.thp_sizes = Fact::Known(vec![size]);
                }),
                ("always", Goal::Throughput, &words("always", "always")),
                ("defer", Goal::Latency, &words("always", "defer")),
                ("no huge pages", Goal::Latency, &words("never", "always")),
                ("unknown", Goal::Latency, &|facts| facts.memory.thp_enabled = Fact::odd("/x", "?", "no brackets")),
                ("not there", Goal::Latency, &|facts| facts.memory.thp_defrag = Fact::absent("no such file")),
            ],
            expect![[r#"
                the default (latency)
                  keep /sys/kernel/mm/transparent_hugepage/defrag "madvise": a fault waits only for memory for which the program requested huge pages
                always (latency)
                  set /sys/kernel/mm/transparent_hugepage/defrag "always" -> "madvise": any page fault may wait while the kernel reclaims and moves memory
                always, for those who ask (density)
                  keep /sys/kernel/mm/transparent_hugepage/defrag "always": a fault waits only for memory for which the program requested huge pages
                one size always (latency)
                  set /sys/kernel/mm/transparent_hugepage/defrag "always" -> "madvise": any page fault may wait while the kernel reclaims and moves memory
                always (throughput)
                  keep /sys/kernel/mm/transparent_hugepage/defrag "always": faults wait for huge pages, and programs then walk large data faster
                defer (latency)
                  keep /sys/kernel/mm/transparent_hugepage/defrag "defer": no page fault waits for a huge page
                no huge pages (latency)
                  keep /sys/kernel/mm/transparent_hugepage/defrag "always": thp.enabled is never, so no fault looks for a huge page
                unknown (latency)
                  unknown /sys/kernel/mm/transparent_hugepage/defrag "madvise": thp.enabled is not known: no brackets
                not there (latency)
                  not-here /sys/kernel/mm/transparent_hugepage/defrag: not present here: no such file
            "#]],
        );
        assert!(!KNOB.place.files().iter().any(|path| path.contains("redhat")), "a path of RHEL 6");
    }
}
