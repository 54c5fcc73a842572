//! CPUs to which irqbalance must not move interrupts.

use evenkeel_sys::CpuSet;

use crate::extras::{CounterPlace, Extras, Lasts, Owner, Process, ProcessFiles, ProcessValue};
use crate::facts::Facts;
use crate::finding::Finding;
use crate::goal::AdviceContext;
use crate::knob::{Area, Knob, Place, Source, TakesEffect, Values};
use crate::shapes::one;

use super::irq_affinity::Split;

pub(super) const KNOB: Knob = Knob {
    id: "irqbalance.banned_cpus",
    title: "CPUs that irqbalance does not give interrupts",
    area: Area::Network,
    place: Place::ByHand {
        how: "IRQBALANCE_BANNED_CPULIST={} (irqbalance 1.8.0 and newer; before that the same as a hexadecimal mask in \
              IRQBALANCE_BANNED_CPUS) in /etc/default/irqbalance on Debian and Ubuntu, in /etc/sysconfig/irqbalance on \
              Red Hat and Amazon Linux, then `systemctl restart irqbalance`",
    },
    values: Values::Cpus { may_be_empty: false },
    default: "none but isolated CPUs",
    takes_effect: TakesEffect::AtOnce,
    mechanism: "Every 10 s irqbalance checks how interrupts are spread and moves some, including those that you pinned. It \
        gives none to banned CPUs. So the server's CPUs stay free of interrupts while irqbalance runs. Version 1.8.0 \
        reads a list and discards the mask. Older versions need the mask and do not know the list.",
    risk: "all interrupts share the remaining CPUs; the wrong variable for the version has no effect and gives little \
        warning",
    shows_in: "/proc/interrupts by CPU over more than 10 s; `systemctl status irqbalance`",
    kernels: "all; the variable depends on irqbalance's version",
    sources: &[
        Source {
            title: "irqbalance(1), environment variables",
            says: "IRQBALANCE_BANNED_CPULIST since 1.8.0; irqbalance bans isolated and nohz_full CPUs by itself",
        },
        Source {
            title: "amzn-drivers, ENA_Linux_Best_Practices.rst",
            says: "leave irqbalance running and ban CPUs, by the older variable; against the next source",
        },
        Source {
            title: "AWS Graviton Getting Started, perfrunbook/optimization_recommendation.md",
            says: "stop irqbalance and pin the interrupts",
        },
    ],
    extras: Extras {
        read_in: &[CounterPlace::Table { file: "/proc/interrupts", names: &[] }],
        process: Some(Process {
            of: Owner::Service("irqbalance.service"),
            while_it_runs: false,
            has: Some(has),
            reset_by: None,
        }),
        lasts: Some(Lasts::IrqbalanceVariables),
        called: &["tuned irqbalance banned_cpus", "irqbalance IRQBALANCE_BANNED_CPULIST"],
        ..Extras::NONE
    },
    advise,
};

fn has(file: ProcessFiles<'_>, wanted: &str) -> Option<ProcessValue> {
    let wanted = CpuSet::parse_list(wanted)?;
    let environ = file("environ")?;
    let value = |name: &str| environ.split('\0').filter_map(|variable| variable.strip_prefix(name)).next_back();
    let list = value("IRQBALANCE_BANNED_CPULIST=").and_then(CpuSet::parse_list);
    let mask = || value("IRQBALANCE_BANNED_CPUS=").and_then(CpuSet::parse_mask);
    let banned = list.or_else(mask);
    let text = banned.as_ref().map_or_else(|| "no banned CPUs".to_owned(), CpuSet::to_string);
    Some(ProcessValue::new(banned.is_some_and(|banned| banned == wanted), text))
}

fn advise(facts: &Facts, context: &AdviceContext) -> Vec<Finding> {
    one(decide(facts, context))
}

fn decide(facts: &Facts, context: &AdviceContext) -> Result<Finding, Finding> {
    match facts.owners.irqbalance.known() {
        None => return Err(Finding::unknown(KNOB.id, "whether irqbalance runs", &facts.owners.irqbalance)),
        Some(false) => return Err(Finding::not_here(KNOB.id, "irqbalance does not run")),
        Some(true) => {}
    }
    if facts.cpus.online.known().is_some_and(|online| online.len() <= 1) {
        return Err(Finding::not_here(KNOB.id, "1 CPU serves everything"));
    }
    let Some(needed) = context.server.cpus else {
        let reason =
            "irqbalance moves interrupts among all CPUs; with `--server cpus=N` evenkeel computes which to ban";
        return Ok(Finding::keep(KNOB.id, reason));
    };
    if facts.cpus.online.known().is_none() {
        return Err(Finding::unknown(KNOB.id, "how many CPUs there are", &facts.cpus.online));
    }
    let Some(split) = Split::from_facts(facts, needed) else {
        let reason = format!("{needed} CPUs for the server leave no core for interrupts, so there is no CPU to ban");
        return Ok(Finding::keep(KNOB.id, reason));
    };
    if let Some(done) = already(facts, &split.server) {
        return Ok(done);
    }
    let line = line(facts, &split.server);
    let reason = format!("irqbalance moves interrupts to the server's {needed} CPUs within 10 s: {line}");
    Ok(Finding::set(KNOB.id, &split.server, reason))
}

/// The finding if irqbalance already avoids these CPUs, or moves interrupts only once.
fn already(facts: &Facts, server: &CpuSet) -> Option<Finding> {
    let options = facts.owners.irqbalance_options.known()?;
    if options.once {
        let reason = format!(
            "with {}, irqbalance moves interrupts only once, at its start: interrupts that you pin later stay",
            options.file
        );
        return Some(Finding::keep(KNOB.id, reason));
    }
    let banned = options.banned_cpus.known().filter(|banned| server.is_subset(banned))?;
    Some(
        Finding::keep(KNOB.id, format!("{} bans CPUs {banned}, including those of the server", options.file))
            .at(banned),
    )
}

/// Whether irqbalance reads a list, by its version. Up to 1.7 it reads the mask, and from 1.8.0 on it reads only the list.
fn takes_list(version: &str) -> Option<bool> {
    let version = version.split_once(':').map_or(version, |(_, version)| version);
    let mut numbers = version.split(|letter: char| !letter.is_ascii_digit());
    let (major, minor): (u32, u32) = (numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?);
    Some((major, minor) >= (1, 8))
}

/// The line that irqbalance reads here, and its file. Both lines if its version is unknown.
fn line(facts: &Facts, banned: &CpuSet) -> String {
    let distribution = facts.machine.distribution.known();
    // A mask has at least one digit, and has more digits only if they are needed.
    let (list, mask) = (format!("IRQBALANCE_BANNED_CPULIST={banned}"), mask(banned));
    let id = distribution.map(|distribution| distribution.id.as_str());
    let file = match id {
        Some("debian" | "ubuntu") => "in /etc/default/irqbalance",
        Some("rhel" | "rocky" | "almalinux" | "centos" | "fedora" | "amzn" | "ol") => "in /etc/sysconfig/irqbalance",
        _ => "the environment file of its service",
    };
    let version = distribution.and_then(|distribution| distribution.version.as_deref());
    let major: Option<u32> = version.and_then(|version| version.split('.').next()?.parse().ok());
    match facts.owners.irqbalance_version.known().and_then(|version| takes_list(version)) {
        Some(true) => return format!("{list} {file}"),
        Some(false) => return format!("{mask} {file}"),
        None => {}
    }
    match (id, major) {
        (Some("debian"), Some(..=11)) => format!("{mask} {file}"),
        (Some("debian"), Some(13..)) | (Some("ubuntu"), Some(24..)) => format!("{list} {file}"),
        _ => format!("{list}, or before irqbalance 1.8.0 {mask}, {file}"),
    }
}

fn mask(banned: &CpuSet) -> String {
    format!("IRQBALANCE_BANNED_CPUS={}", banned.to_mask(1))
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;
    use crate::fact::Fact;
    use std::collections::BTreeMap;

    use crate::facts::{Distribution, IrqbalanceOptions};
    use crate::testing::{check_server, set, two_nodes, with_cpus};

    fn on(id: &'static str, version: &'static str) -> impl Fn(&mut Facts) {
        move |facts| {
            facts.owners.irqbalance = Fact::Known(true);
            let distribution = Distribution { id: id.into(), version: Some(version.into()), name: None };
            facts.machine.distribution = Fact::Known(distribution);
        }
    }

    #[test]
    fn the_version_itself_decides_where_it_is_known() {
        let table = [
            ("1.9.4-1", Some(true)),
            ("1.8.0", Some(true)),
            ("1.7.0-1", Some(false)),
            ("2:1.10.0", Some(true)),
            ("1", None),
            ("git", None),
        ];
        for (version, expected) in table {
            assert_eq!(takes_list(version), expected, "{version}");
        }
        let as_text = |text: &'static str, once| {
            move |facts: &mut Facts| {
                with_cpus(8)(facts);
                facts.owners.irqbalance = Fact::Known(true);
                facts.owners.irqbalance_version = Fact::Known("1.7.0-1".into());
                let (file, banned_cpus) = ("/etc/default/irqbalance".into(), Fact::Known(set(text)));
                let policy_script = Fact::absent("no script");
                let options = IrqbalanceOptions { file, variables: BTreeMap::new(), banned_cpus, policy_script, once };
                facts.owners.irqbalance_options = Fact::Known(options);
            }
        };
        check_server(
            &KNOB,
            &[("cpus=2", &as_text("", false)), ("cpus=2", &as_text("4-7", false)), ("cpus=2", &as_text("", true))],
            expect![[r#"
                cpus=2
                  set irqbalance.banned_cpus ? -> "6-7": irqbalance moves interrupts to the server's 2 CPUs within 10 s: IRQBALANCE_BANNED_CPUS=c0 in /etc/default/irqbalance
                cpus=2
                  keep irqbalance.banned_cpus "4-7": /etc/default/irqbalance bans CPUs 4-7, including those of the server
                cpus=2
                  keep irqbalance.banned_cpus: with /etc/default/irqbalance, irqbalance moves interrupts only once, at its start: interrupts that you pin later stay
            "#]],
        );
    }

    #[test]
    fn the_variable_follows_the_version() {
        check_server(
            &KNOB,
            &[
                ("cpus=2", &|_| {}),
                ("", &on("debian", "13")),
                ("cpus=2", &on("debian", "13")),
                ("cpus=2", &on("debian", "11")),
                ("cpus=2", &on("ubuntu", "24.04")),
                ("cpus=2", &on("amzn", "2023")),
                ("cpus=2", &on("gentoo", "")),
                ("cpus=4", &on("debian", "13")),
                ("cpus=34", &|facts| {
                    on("debian", "11")(facts);
                    two_nodes(facts);
                    facts.limits.cpus_allowed = facts.cpus.online.clone();
                }),
                ("cpus=1", &|facts| {
                    on("debian", "13")(facts);
                    with_cpus(1)(facts);
                }),
                ("cpus=1", &|facts| facts.owners.irqbalance = Fact::Denied { why: "EACCES".into() }),
            ],
            expect![[r#"
                cpus=2
                  not-here irqbalance.banned_cpus: irqbalance does not run
                nothing known
                  keep irqbalance.banned_cpus: irqbalance moves interrupts among all CPUs; with `--server cpus=N` evenkeel computes which to ban
                cpus=2
                  set irqbalance.banned_cpus ? -> "1,3": irqbalance moves interrupts to the server's 2 CPUs within 10 s: IRQBALANCE_BANNED_CPULIST=1,3 in /etc/default/irqbalance
                cpus=2
                  set irqbalance.banned_cpus ? -> "1,3": irqbalance moves interrupts to the server's 2 CPUs within 10 s: IRQBALANCE_BANNED_CPUS=a in /etc/default/irqbalance
                cpus=2
                  set irqbalance.banned_cpus ? -> "1,3": irqbalance moves interrupts to the server's 2 CPUs within 10 s: IRQBALANCE_BANNED_CPULIST=1,3 in /etc/default/irqbalance
                cpus=2
                  set irqbalance.banned_cpus ? -> "1,3": irqbalance moves interrupts to the server's 2 CPUs within 10 s: IRQBALANCE_BANNED_CPULIST=1,3, or before irqbalance 1.8.0 IRQBALANCE_BANNED_CPUS=a, in /etc/sysconfig/irqbalance
                cpus=2
                  set irqbalance.banned_cpus ? -> "1,3": irqbalance moves interrupts to the server's 2 CPUs within 10 s: IRQBALANCE_BANNED_CPULIST=1,3, or before irqbalance 1.8.0 IRQBALANCE_BANNED_CPUS=a, the environment file of its service
                cpus=4
                  keep irqbalance.banned_cpus: 4 CPUs for the server leave no core for interrupts, so there is no CPU to ban
                cpus=34
                  set irqbalance.banned_cpus ? -> "0-4,6-22,24-35": irqbalance moves interrupts to the server's 34 CPUs within 10 s: IRQBALANCE_BANNED_CPUS=f,ff7fffdf in /etc/default/irqbalance
                cpus=1
                  not-here irqbalance.banned_cpus: 1 CPU serves everything
                cpus=1
                  unknown irqbalance.banned_cpus: whether irqbalance runs is not known: EACCES
            "#]],
        );
    }

    /// The mask of 16 CPUs without CPUs 3 and 4. A well-known guide has a wrong mask here.
    #[test]
    fn all_but_two_of_sixteen() {
        let banned = set("0-2,5-15");
        assert_eq!(mask(&banned), "IRQBALANCE_BANNED_CPUS=ffe7");
        let mut facts = crate::testing::base();
        facts.machine.distribution = Fact::absent("no os-release");
        assert!(line(&facts, &banned).starts_with("IRQBALANCE_BANNED_CPULIST=0-2,5-15, or before"));
    }
}
