//! How many flows the firewall can keep track of.

use crate::extras::{Counter, Extras, Program};
use crate::fact::Fact;
use crate::facts::Facts;
use crate::finding::{Finding, own_number};
use crate::goal::AdviceContext;
use crate::knob::{Area, Knob, Place, Source, TakesEffect, Values};
use crate::rank::Effect;
use crate::reading::Reading;
use crate::shapes::one;

const PATH: &str = "/proc/sys/net/netfilter/nf_conntrack_max";

pub(super) const KNOB: Knob = Knob {
    id: "net.netfilter.nf_conntrack_max",
    title: "flows that connection tracking can hold",
    area: Area::Network,
    place: Place::File { path: PATH, reading: Reading::Plain },
    values: Values::Number { min: 1, max: i32::MAX as i64, unit: "flows" },
    default: "computed from memory",
    takes_effect: TakesEffect::AtOnce,
    mechanism: "Where a firewall or a container network has loaded connection tracking, each player is an entry of its \
                table, and so is every forged address of a flood. In a full table the kernel drops the packets of \
                whoever comes new. Entries of players who left stay until they time out. A rule with NOTRACK for the \
                game's ports in the raw table keeps them out of it altogether, which no size does.",
    risk: "memory for each entry; a table over its number of buckets is searched more slowly",
    shows_in: "nf_conntrack_count beside it; drop and early_drop of /proc/net/stat/nf_conntrack; \"table full\" in the \
               kernel's log",
    kernels: "all that have the nf_conntrack module loaded; writable outside containers only",
    sources: &[
        Source {
            title: "Linux Documentation/networking/nf_conntrack-sysctl.rst, nf_conntrack_max",
            says: "the most entries; its default is computed from the number of buckets",
        },
        Source {
            title: "Linux net/netfilter/nf_conntrack_core.c, __nf_conntrack_alloc",
            says: "drops what finds the table full and no entry that may go early",
        },
    ],
    extras: Extras {
        counter: Some(Counter::TrackedConnections),
        // A full table drops the packets of new players.
        effect: Some(Effect::Large),
        set_by: &[Program::ContainerNetwork],
        ..Extras::NONE
    },
    advise,
};

fn advise(facts: &Facts, context: &AdviceContext) -> Vec<Finding> {
    one(decide(facts, context))
}

fn decide(facts: &Facts, context: &AdviceContext) -> Result<Finding, Finding> {
    if let Fact::Absent { why } = facts.sysctl(PATH) {
        return Ok(Finding::not_here(PATH, format!("no connection tracking is found, so none limits flows: {why}")));
    }
    let current = own_number(facts, PATH)?;
    let Some(players) = context.server.players else {
        let reason = format!(
            "room for {current} flows, one a player and one a forged address of a flood; NOTRACK for the game's ports \
             keeps them out (`--server players=N` has the size judged)"
        );
        return Ok(Finding::keep(PATH, reason).at(current));
    };
    // Half of the table for those who play; the other for those who left and whose entries have not timed out.
    let needed = players.saturating_mul(2);
    let finding = if u64::try_from(current).is_ok_and(|current| current >= needed) {
        let reason = format!(
            "room for {current} flows, {players} players twice over; NOTRACK for the game's ports keeps them out"
        );
        Finding::keep(PATH, reason)
    } else {
        let wanted = needed.next_power_of_two().min(1 << 30);
        let reason = format!(
            "room for {current} flows is less than {players} players twice over, those who left counted until they time \
             out: new players would be dropped; NOTRACK for the game's ports is better still"
        );
        Finding::set(PATH, wanted, reason)
    };
    Ok(finding.at(current))
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;
    use crate::testing::{check_told, with_sysctl};

    #[test]
    fn players_fit_twice() {
        check_told(
            &KNOB,
            &[
                ("", &|_| {}),
                ("players=64", &|_| {}),
                ("", &with_sysctl(PATH, "262144")),
                ("players=64", &with_sysctl(PATH, "262144")),
                ("players=4096", &with_sysctl(PATH, "8192")),
                ("players=4097", &with_sysctl(PATH, "8192")),
                ("players=1000000000", &with_sysctl(PATH, "8192")),
                ("", &|facts| {
                    facts.sysctls.insert(PATH, Fact::Denied { why: "permission denied (EACCES)".into() });
                }),
            ],
            expect![[r#"
                nothing told
                  not-here /proc/sys/net/netfilter/nf_conntrack_max: no connection tracking is found, so none limits flows: no such file or directory (ENOENT)
                players=64
                  not-here /proc/sys/net/netfilter/nf_conntrack_max: no connection tracking is found, so none limits flows: no such file or directory (ENOENT)
                nothing told
                  keep /proc/sys/net/netfilter/nf_conntrack_max "262144": room for 262144 flows, one a player and one a forged address of a flood; NOTRACK for the game's ports keeps them out (`--server players=N` has the size judged)
                players=64
                  keep /proc/sys/net/netfilter/nf_conntrack_max "262144": room for 262144 flows, 64 players twice over; NOTRACK for the game's ports keeps them out
                players=4096
                  keep /proc/sys/net/netfilter/nf_conntrack_max "8192": room for 8192 flows, 4096 players twice over; NOTRACK for the game's ports keeps them out
                players=4097
                  set /proc/sys/net/netfilter/nf_conntrack_max "8192" -> "16384": room for 8192 flows is less than 4097 players twice over, those who left counted until they time out: new players would be dropped; NOTRACK for the game's ports is better still
                players=1000000000
                  set /proc/sys/net/netfilter/nf_conntrack_max "8192" -> "1073741824": room for 8192 flows is less than 1000000000 players twice over, those who left counted until they time out: new players would be dropped; NOTRACK for the game's ports is better still
                nothing told
                  unknown /proc/sys/net/netfilter/nf_conntrack_max: the value in force is not known: permission denied (EACCES)
            "#]],
        );
    }
}
