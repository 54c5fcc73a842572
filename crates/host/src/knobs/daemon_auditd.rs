//! Whether rules of the audit system are looked at in each system call.

use crate::extras::Extras;
use crate::fact::Fact;
use crate::facts::Facts;
use crate::finding::Finding;
use crate::goal::AdviceContext;
use crate::knob::{Area, Knob, Place, Source, TakesEffect, Values};

const PLACE: &str = "daemon.auditd";

pub(super) const KNOB: Knob = Knob {
    id: "daemon.auditd",
    title: "rules that each system call is held against",
    area: Area::Process,
    place: Place::ByHand {
        how: "keep rules on system calls {}: take them out of /etc/audit/rules.d and load the rest with augenrules --load",
    },
    values: Values::Words(&["off"]),
    default: "none, unless the image was hardened",
    takes_effect: TakesEffect::AtOnce,
    mechanism: "With rules on system calls loaded, the kernel goes through them at the exit of each call and writes a record of what fits, \
                which auditd writes to disk. A UDP server makes a call or two a packet, and pays for each. Rules on files \
                (-w) that a server does not touch cost it little. Whether rules are loaded only root can ask: auditctl -l.",
    risk: "what the rules were to record is no longer recorded: ask whoever is to answer for that",
    shows_in: "auditctl -l and auditctl -s; audit_filter_syscall in a profile of the server",
    kernels: "all, with CONFIG_AUDITSYSCALL",
    sources: &[Source {
        title: "auditctl(8), performance tips",
        says: "system call rules are looked at for each call of each program; fewer rules, or exclusions first",
    }],
    extras: Extras::NONE,
    advise,
};

fn advise(facts: &Facts, _: &AdviceContext) -> Vec<Finding> {
    vec![match &facts.daemons.auditd {
        Fact::Known(false) => Finding::not_here(PLACE, "auditd does not run: nobody loads rules here"),
        Fact::Known(true) => Finding::keep(
            PLACE,
            "auditd runs; rules on system calls, which `auditctl -l` lists to root (-S), cost each call of the server",
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
                  not-here daemon.auditd: auditd does not run: nobody loads rules here
                running (latency)
                  keep daemon.auditd: auditd runs; rules on system calls, which `auditctl -l` lists to root (-S), cost each call of the server
                unknown (latency)
                  unknown daemon.auditd: whether auditd runs is not known: in a container
            "#]],
        );
    }
}
