//! Whether the kernel checks audit rules in each system call.

use crate::extras::Extras;
use crate::fact::Fact;
use crate::facts::Facts;
use crate::finding::Finding;
use crate::goal::AdviceContext;
use crate::knob::{Area, Knob, Place, Source, TakesEffect, Values};

const PLACE: &str = "daemon.auditd";

pub(super) const KNOB: Knob = Knob {
    id: "daemon.auditd",
    title: "audit rules that the kernel checks on system calls",
    area: Area::Process,
    place: Place::ByHand {
        how: "keep rules on system calls {}: remove them from /etc/audit/rules.d and load the rest with augenrules --load",
    },
    values: Values::Words(&["off"]),
    default: "none, unless somebody hardened the image",
    takes_effect: TakesEffect::AtOnce,
    mechanism: "If rules on system calls are loaded, the kernel checks them at the exit of each call. It writes a record for \
        each match, and auditd writes that record to disk. A UDP server makes one or two calls per packet and pays for \
        each. Rules on files (-w) that a server does not touch cost it little. Only root can list the rules: auditctl \
        -l.",
    risk: "the kernel no longer records what the rules covered: ask whoever is responsible for the audit",
    shows_in: "auditctl -l and auditctl -s; audit_filter_syscall in a profile of the server",
    kernels: "all, with CONFIG_AUDITSYSCALL",
    sources: &[Source {
        title: "auditctl(8), performance tips",
        says: "the kernel checks system call rules on each call of each program; use fewer rules, or exclusions first",
    }],
    extras: Extras { called: &["systemctl auditd"], ..Extras::NONE },
    advise,
};

fn advise(facts: &Facts, _: &AdviceContext) -> Vec<Finding> {
    vec![match &facts.daemons.auditd {
        Fact::Known(false) => Finding::not_here(PLACE, "auditd does not run, so nothing loads rules here"),
        Fact::Known(true) => Finding::keep(
            PLACE,
            "auditd runs; rules on system calls slow each call of the server; as root, `auditctl -l` lists them (-S)",
        ),
        unknown => Finding::unknown(PLACE, "whether auditd runs", unknown),
    }]
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;
    use crate::goal::Goal;
    use crate::testing::check;

    #[test]
    fn rules_are_for_their_owner_to_judge() {
        check(
            &KNOB,
            &[
                ("not running", Goal::Latency, &|_| {}),
                ("running", Goal::Latency, &|facts| facts.daemons.auditd = Fact::Known(true)),
                ("unknown", Goal::Latency, &|facts| facts.daemons.auditd = Fact::absent("in a container")),
            ],
            expect![[r#"
                not running (latency)
                  not-here daemon.auditd: auditd does not run, so nothing loads rules here
                running (latency)
                  keep daemon.auditd: auditd runs; rules on system calls slow each call of the server; as root, `auditctl -l` lists them (-S)
                unknown (latency)
                  unknown daemon.auditd: whether auditd runs is not known: in a container
            "#]],
        );
    }
}
