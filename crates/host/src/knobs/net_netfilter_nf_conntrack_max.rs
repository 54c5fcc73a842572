//! How many flows connection tracking can hold.

use crate::extras::{Counter, Extras, Program, RiskAt};
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
    mechanism: "If a firewall or a container network has loaded connection tracking, each player is an entry in its table. So \
        is each forged address of a flood. When the table is full, the kernel drops packets of new flows. Entries of \
        players who left stay until they time out. A NOTRACK rule for the game's ports in the raw table keeps them out \
        of the table; a larger size does not.",
    risk: "memory for each entry; searches are slower if the table has more entries than buckets",
    shows_in: "compare with nf_conntrack_count; drop and early_drop in /proc/net/stat/nf_conntrack; \"table full\" in the \
        kernel log",
    kernels: "all that have the nf_conntrack module loaded; writable outside containers only",
    sources: &[
        Source {
            title: "Linux Documentation/networking/nf_conntrack-sysctl.rst, nf_conntrack_max",
            says: "the most entries; its default is computed from the number of buckets",
        },
        Source {
            title: "Linux net/netfilter/nf_conntrack_core.c, __nf_conntrack_alloc",
            says: "drops packets if the table is full and no entry can go early",
        },
    ],
    extras: Extras {
        counter: Some(Counter::TrackedConnections),
        // A full table drops the packets of new players.
        effect: Some(Effect::Large),
        set_by: &[Program::ContainerNetwork],
        reject_for: Some(reject_for),
        risk_at: RiskAt::Higher,
        ..Extras::NONE
    },
    advise,
};

/// A quiet machine has tens of flows at a time, and a scan of its addresses adds hundreds.
const FLOWS_MIN: u64 = 1024;

/// Why the table would be too small. A kernel without the table refuses nothing.
fn reject_for(facts: &Facts, wanted: &str) -> Option<String> {
    let is_here = !matches!(facts.sysctl(PATH), Fact::Absent { .. });
    let is_small = wanted.parse::<u64>().is_ok_and(|wanted| wanted < FLOWS_MIN);
    (is_here && is_small).then(|| {
        format!(
            "evenkeel writes {FLOWS_MIN} or more there: once the table is full, the kernel drops every new \
                connection, your login among them"
        )
    })
}

fn advise(facts: &Facts, context: &AdviceContext) -> Vec<Finding> {
    one(decide(facts, context))
}

fn decide(facts: &Facts, context: &AdviceContext) -> Result<Finding, Finding> {
    if let Fact::Absent { why } = facts.sysctl(PATH) {
        return Ok(Finding::not_here(PATH, format!("connection tracking is not loaded, so it limits no flows: {why}")));
    }
    let current = own_number(facts, PATH)?;
    let Some(players) = context.server.players else {
        let reason = format!(
            "room for {current} flows, one per player and one per forged address of a flood; NOTRACK for the \
                game's ports keeps them out (with `--server players=N` evenkeel judges the size)"
        );
        return Ok(Finding::keep(PATH, reason).at(current));
    };
    // Half of the table is for current players. The other half is for players who left and whose entries have not timed out.
    let needed = players.saturating_mul(2);
    let finding = if u64::try_from(current).is_ok_and(|current| current >= needed) {
        let reason = format!(
            "room for {current} flows, at least twice {players} players; NOTRACK for the game's ports keeps them out"
        );
        Finding::keep(PATH, reason)
    } else {
        let wanted = needed.next_power_of_two().min(1 << 30);
        let reason = format!(
            "room for {current} flows is less than twice {players} players (players who left count until they \
                time out): the kernel would drop new players; NOTRACK for the game's ports is better still"
        );
        Finding::set(PATH, wanted, reason)
    };
    Ok(finding.at(current))
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;
    use crate::testing::{check_server, with_sysctl};

    #[test]
    fn players_fit_twice() {
        check_server(
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
                nothing known
                  not-here /proc/sys/net/netfilter/nf_conntrack_max: connection tracking is not loaded, so it limits no flows: no such file or directory (ENOENT)
                players=64
                  not-here /proc/sys/net/netfilter/nf_conntrack_max: connection tracking is not loaded, so it limits no flows: no such file or directory (ENOENT)
                nothing known
                  keep /proc/sys/net/netfilter/nf_conntrack_max "262144": room for 262144 flows, one per player and one per forged address of a flood; NOTRACK for the game's ports keeps them out (with `--server players=N` evenkeel judges the size)
                players=64
                  keep /proc/sys/net/netfilter/nf_conntrack_max "262144": room for 262144 flows, at least twice 64 players; NOTRACK for the game's ports keeps them out
                players=4096
                  keep /proc/sys/net/netfilter/nf_conntrack_max "8192": room for 8192 flows, at least twice 4096 players; NOTRACK for the game's ports keeps them out
                players=4097
                  set /proc/sys/net/netfilter/nf_conntrack_max "8192" -> "16384": room for 8192 flows is less than twice 4097 players (players who left count until they time out): the kernel would drop new players; NOTRACK for the game's ports is better still
                players=1000000000
                  set /proc/sys/net/netfilter/nf_conntrack_max "8192" -> "1073741824": room for 8192 flows is less than twice 1000000000 players (players who left count until they time out): the kernel would drop new players; NOTRACK for the game's ports is better still
                nothing known
                  unknown /proc/sys/net/netfilter/nf_conntrack_max: the value in force is not known: permission denied (EACCES)
            "#]],
        );
    }
}
