//! The places of a guide's setting on one machine: patterns of devices, the CPU of a frequency policy, the interface of an interrupt.

use std::collections::BTreeSet;

use super::line::{Ask, Target};
use crate::facts::Facts;
use crate::knob::{Device, Knob, Place};
use crate::knobs;
use crate::plan::devices;

/// The setting at each of the places that its pattern matches on this machine.
/// The setting stays unchanged if it has no pattern, or if no place matches.
/// `more` is the number of settings that the patterns of a guide may still add.
pub(super) fn at_each_place(facts: &Facts, ask: &Ask, more: &mut usize) -> Vec<Ask> {
    let Target::Knob { id, place: Some(wanted) } = &ask.target else { return vec![ask.clone()] };
    let Ok(knob) = knobs::find(id) else { return vec![ask.clone()] };
    let all = places(facts, knob);
    let meant: Vec<&Named> = all.iter().filter(|place| is_meant(wanted, &place.names)).collect();
    let at = |place: Option<String>| Ask { target: Target::Knob { id, place }, ..ask.clone() };
    match meant.len() {
        0 => vec![ask.clone()],
        1 => vec![at(Some(meant[0].place.clone()))],
        count if count == all.len() => vec![at(None)],
        count if count > *more => vec![ask.clone()],
        count => {
            *more -= count;
            meant.into_iter().map(|place| at(Some(place.place.clone()))).collect()
        }
    }
}

/// The settings at each of their places, where a guide has a knob at all of its places and also at some: the later line then wins at
/// each place.
pub(super) fn apart(facts: &Facts, asks: Vec<(usize, Ask)>, more: &mut usize) -> Vec<(usize, Ask)> {
    let id_of = |ask: &Ask, has_place: bool| match &ask.target {
        Target::Knob { id, place } if place.is_some() == has_place => Some(*id),
        _ => None,
    };
    let ids = |has_place: bool| asks.iter().filter_map(|(_, ask)| id_of(ask, has_place)).collect::<BTreeSet<&str>>();
    let mixed: BTreeSet<&str> = ids(true).intersection(&ids(false)).copied().collect();
    let mut found = Vec::with_capacity(asks.len());
    for (line, ask) in asks {
        match id_of(&ask, false).filter(|id| mixed.contains(id)) {
            Some(id) => found.extend(at_every_place(facts, id, &ask, more).into_iter().map(|ask| (line, ask))),
            None => found.push((line, ask)),
        }
    }
    found
}

fn at_every_place(facts: &Facts, id: &'static str, ask: &Ask, more: &mut usize) -> Vec<Ask> {
    let all = knobs::find(id).map(|knob| places(facts, knob)).unwrap_or_default();
    if all.is_empty() || all.len() > *more {
        return vec![ask.clone()];
    }
    *more -= all.len();
    let at = |place: Named| Ask { target: Target::Knob { id, place: Some(place.place) }, ..ask.clone() };
    all.into_iter().map(at).collect()
}

/// A place of a knob, with every name by which a guide may refer to it.
struct Named {
    place: String,
    names: Vec<String>,
}

fn places(facts: &Facts, knob: &Knob) -> Vec<Named> {
    match knob.place {
        Place::EachNetworkIrq => {
            let of_nic = |nic: &crate::facts::Nic| {
                let irq = |irq: &crate::facts::Irq| irq.number.to_string();
                let named = |number: String| Named { place: number.clone(), names: vec![number, nic.name.clone()] };
                nic.irqs.iter().map(irq).map(named).collect::<Vec<_>>()
            };
            facts.network.hardware().flat_map(of_nic).collect()
        }
        Place::Each { device: Device::FrequencyPolicy, .. }
        | Place::ByHandEach { device: Device::FrequencyPolicy, .. } => {
            let policies = facts.frequency.policies.known().into_iter().flatten();
            let named = |policy: &crate::facts::FrequencyPolicy| {
                let cpus = policy.cpus.known().map(|cpus| cpus.iter().map(|cpu| format!("cpu{cpu}")).collect());
                let mut names: Vec<String> = cpus.unwrap_or_else(|| vec![policy.name.replace("policy", "cpu")]);
                names.push(policy.name.clone());
                Named { place: policy.name.clone(), names }
            };
            policies.map(named).collect()
        }
        Place::Each { device, .. } | Place::ByHandEach { device, .. } => {
            let named = |(place, _): (String, String)| Named { names: vec![place.clone()], place };
            devices(facts, device).into_iter().map(named).collect()
        }
        _ => Vec::new(),
    }
}

/// Whether a list of names and patterns, separated by commas, matches a place. `!` excludes a place.
/// If every name has a `!`, every other place matches.
fn is_meant(wanted: &str, names: &[String]) -> bool {
    let rules = || wanted.split(',');
    let matches = |rule: &str| names.iter().any(|name| is_like(rule, name));
    let includes = rules().filter(|rule| !rule.starts_with('!'));
    let is_in = includes.clone().next().is_none() || includes.clone().any(matches);
    is_in && !rules().filter_map(|rule| rule.strip_prefix('!')).any(matches)
}

/// Whether a name matches a pattern with `*`, `?` and `[…]`.
fn is_like(pattern: &str, name: &str) -> bool {
    let (pattern, name): (Vec<char>, Vec<char>) = (pattern.chars().collect(), name.chars().collect());
    let (mut at, mut from, mut star): (usize, usize, Option<(usize, usize)>) = (0, 0, None);
    while from < name.len() {
        if pattern.get(at) == Some(&'*') {
            star = Some((at, from));
            at += 1;
        } else if let Some(length) = one(&pattern[at..], name[from]) {
            at += length;
            from += 1;
        } else if let Some((of, matched)) = star {
            // Let the star match one more letter.
            star = Some((of, matched + 1));
            (at, from) = (of + 1, matched + 1);
        } else {
            return false;
        }
    }
    pattern[at..].iter().all(|letter| *letter == '*')
}

/// The length of the pattern's part that matches this letter.
fn one(pattern: &[char], letter: char) -> Option<usize> {
    match pattern {
        ['?', ..] => Some(1),
        ['[', rest @ ..] => {
            let end = rest.iter().position(|letter| *letter == ']').filter(|end| *end > 0)?;
            let (is_not, set) = match &rest[..end] {
                ['!' | '^', set @ ..] => (true, set),
                set => (false, set),
            };
            let is_range = set.windows(3).any(|part| part[1] == '-' && (part[0]..=part[2]).contains(&letter));
            ((set.contains(&letter) || is_range) != is_not).then_some(end + 2)
        }
        [own, ..] => (*own == letter).then_some(1),
        [] => None,
    }
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};

    use super::*;
    use crate::fact::Fact::Known;
    use crate::guide::Guide;
    use crate::testing::{base, disk, disks, nic, nics, set, with_policies};

    /// The settings of a guide on the base machine with a second interface, a second disk, and two policies of two CPUs.
    #[track_caller]
    fn check(text: &str, expected: Expect) {
        let mut facts = base();
        nics(&mut facts).push(nic("eth7", 2, 40));
        *disks(&mut facts) = vec![disk("vda"), disk("vdb"), disk("sda")];
        with_policies("acpi-cpufreq", "powersave", None)(&mut facts);
        if let Known(policies) = &mut facts.frequency.policies {
            policies[0].cpus = Known(set("0-1"));
            policies[1].cpus = Known(set("2-3"));
        }
        let guide = Guide::parse("a guide", text, None, &|_| None).unwrap();
        let mut more = 10;
        let asks = guide.asks().flat_map(|(_, ask)| at_each_place(&facts, ask, &mut more));
        expected.assert_eq(&asks.map(|ask| format!("{ask}\n")).collect::<String>());
    }

    #[test]
    fn units_of_tuned_are_for_their_devices() {
        check(
            "[net]\ndevices=eth7\nchannels=combined 2\n[disk]\ndevices=vdb\nelevator=none\n[diskb]\ntype=disk\ndevices=!sd*\n\
             elevator=mq-deadline\n[cpu]\ndevices=cpu2\ngovernor=performance\n[neta]\ntype=net\ndevices=wlan0\nring=rx 512\nmtu=9000\n",
            expect![[r#"
                net.channels@eth7=2
                disk.scheduler@vdb=none
                disk.scheduler@vda=mq-deadline
                disk.scheduler@vdb=mq-deadline
                cpufreq.governor@policy1=performance
                net.rings@wlan0=512
                TuneD's [net] mtu=9000 for wlan0
            "#]],
        );
    }

    #[test]
    fn perftune_is_for_its_interface() {
        check(
            "irq_cpu_mask: '0x1'\nnum_rx_queues: 2\nnic: eth7 # the fast one\n",
            expect![[r#"
            irq.affinity@40=0
            irq.affinity@41=0
            net.channels@eth7=2
        "#]],
        );
        check(
            "nic:\n  - eth0\n  - eth7\nirq_cpu_mask: 0x2\n",
            expect![[r#"
            irq.affinity=1
        "#]],
        );
    }

    #[test]
    fn patterns_of_scripts_are_for_what_they_match() {
        check(
            "for d in /sys/block/sd*/queue/scheduler; do echo none > $d; done\n\
             echo none > /sys/block/vd[a-b]/queue/scheduler\n\
             echo 2 > /sys/block/xvd?/queue/read_ahead_kb\n\
             echo 0 > /sys/class/net/eth7/queues/rx-*/rps_cpus\n\
             echo powersave > /sys/devices/system/cpu/cpu1/cpufreq/scaling_governor\n\
             cpupower -c 2-3 frequency-set -g performance\ncpufreq-set -c 1 -g performance\ncpufreq-set -g powersave\n",
            expect![[r#"
                disk.scheduler@sda=none
                disk.scheduler@vda=none
                disk.scheduler@vdb=none
                disk.read_ahead_kb@xvd?=2
                net.rps_cpus@eth7/rx-0=
                net.rps_cpus@eth7/rx-1=
                cpufreq.governor@policy0=powersave
                cpufreq.governor@policy1=performance
                cpufreq.governor@policy0=performance
                cpufreq.governor@policy0=powersave
            "#]],
        );
    }

    #[test]
    fn places_are_no_more_than_a_guide_may_add() {
        let mut facts = base();
        *disks(&mut facts) = vec![disk("vda"), disk("vdb"), disk("sda")];
        let guide = Guide::parse("a guide", "disk.scheduler@vd*=none\n", None, &|_| None).unwrap();
        let (_, ask) = guide.asks().next().unwrap();
        for (mut more, settings) in [(1, 1), (2, 2)] {
            assert_eq!(at_each_place(&facts, ask, &mut more).len(), settings);
        }
    }

    #[test]
    fn patterns() {
        for (pattern, name, is) in [
            ("sd*", "sda", true),
            ("sd*", "vda", false),
            ("*a*b*", "xaxxb", true),
            ("*a*b*", "xbxxa", false),
            ("nvme?n1", "nvme0n1", true),
            ("sd[a-c]", "sdb", true),
            ("sd[!a-c]", "sdb", false),
            ("", "", true),
            ("", "a", false),
        ] {
            assert_eq!(is_like(pattern, name), is, "{pattern} {name}");
        }
    }
}
