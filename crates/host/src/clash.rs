//! `Clash`: two settings that cannot be in force together.
//! The data of their knobs shows this without any fact of the machine, so a clash is found before anything is read or changed.

use std::fmt;

use crate::knob::{Knob, Place};
use crate::setting::Setting;

/// Two settings that cannot be in force together.
#[derive(Clone, Debug)]
pub struct Clash<'s> {
    /// The setting that the user named first.
    pub first: &'s Setting,
    /// The setting that the user named later.
    pub second: &'s Setting,
    /// Why the two settings cannot be in force together.
    pub why: ClashReason,
}

/// Why two settings cannot be in force together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClashReason {
    /// The same knob at the same place, with the same value.
    Repeated,
    /// The same knob at the same place, with two values.
    SameKnob,
    /// One setting is for all places of the knob, and the other is for one of these places.
    AllAndOne,
    /// Both settings write this file.
    SameFile(&'static str),
    /// Both settings set this argument of the kernel.
    SameArgument(&'static str),
    /// The kernel resets one of the settings when the other is written.
    Exclusive,
    /// Both settings change this file, and each setting needs another value in the file.
    Along(&'static str),
}

impl ClashReason {
    /// Whether the later of the two settings replaces the earlier setting completely.
    /// After a setting for all places, a setting for one place leaves the other places unchanged.
    /// A side effect covers only a part of a setting.
    pub fn later_replaces_earlier(self) -> bool {
        match self {
            ClashReason::Repeated | ClashReason::SameKnob | ClashReason::SameFile(_) | ClashReason::Exclusive => true,
            ClashReason::AllAndOne | ClashReason::SameArgument(_) | ClashReason::Along(_) => false,
        }
    }
}

impl<'s> Clash<'s> {
    /// The first two of these settings that cannot be in force together.
    pub fn find(settings: &'s [Setting]) -> Option<Clash<'s>> {
        settings
            .iter()
            .enumerate()
            .find_map(|(at, second)| settings[..at].iter().find_map(|first| Clash::between(first, second)))
    }

    /// Whether these two settings cannot be in force together, and why.
    pub fn between(first: &'s Setting, second: &'s Setting) -> Option<Clash<'s>> {
        reason(first, second).map(|why| Clash { first, second, why })
    }

    /// What the user can do about the clash.
    pub fn todo(&self) -> &'static str {
        match self.why {
            ClashReason::AllAndOne => {
                "name the places in each, as KNOB@PLACE=VALUE: `evenkeel inspect --all` shows them"
            }
            _ => "leave one of them out",
        }
    }
}

impl fmt::Display for Clash<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Clash { first, second, why } = self;
        match why {
            ClashReason::Repeated => write!(f, "{first} is given twice"),
            ClashReason::SameKnob => write!(f, "{first} and {second} are two values for one knob"),
            ClashReason::AllAndOne => {
                write!(f, "{first} and {second} exclude each other: they are one knob at all its places and at one")
            }
            ClashReason::SameFile(path) => write!(f, "{first} and {second} exclude each other: both write {path}"),
            ClashReason::SameArgument(name) => {
                write!(f, "{first} and {second} exclude each other: both are the kernel argument {name}")
            }
            ClashReason::Exclusive => {
                write!(f, "{first} and {second} exclude each other: the kernel resets one when it gets the other")
            }
            ClashReason::Along(path) => {
                write!(f, "{first} and {second} exclude each other: they want different values in {path}")
            }
        }
    }
}

/// Why the two settings cannot be in force together. `None` if they can.
fn reason(first: &Setting, second: &Setting) -> Option<ClashReason> {
    if first.knob.id == second.knob.id {
        return match (&first.place, &second.place) {
            (one, other) if one != other => (one.is_none() || other.is_none()).then_some(ClashReason::AllAndOne),
            _ if first.value == second.value => Some(ClashReason::Repeated),
            _ => Some(ClashReason::SameKnob),
        };
    }
    let (files, others) = (first.knob.place.files(), second.knob.place.files());
    if excludes(first.knob, second.knob) {
        return Some(ClashReason::Exclusive);
    }
    if first.value != second.value {
        let same_file = files.iter().find(|path| others.contains(path));
        if let Some(path) = same_file {
            return Some(ClashReason::SameFile(path));
        }
        if let (Place::KernelArgument { name }, Place::KernelArgument { name: other }) =
            (first.knob.place, second.knob.place)
            && name.replace('_', "-") == other.replace('_', "-")
        {
            return Some(ClashReason::SameArgument(name));
        }
    }
    let along = |setting: &Setting, files: &[&str], value: &str| {
        let (path, other) = setting.knob.extras.along.and_then(|along| along(&setting.value))?;
        (files.contains(&path) && other != value).then_some(ClashReason::Along(path))
    };
    along(first, &others, &second.value).or_else(|| along(second, &files, &first.value))
}

/// Whether a write to either knob changes the other knob.
fn excludes(first: &Knob, second: &Knob) -> bool {
    let changes =
        |one: &Knob, other: &Knob| other.place.files().iter().any(|path| one.extras.side_effects.contains(path));
    changes(first, second) && changes(second, first)
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;

    #[test]
    fn settings_that_exclude_each_other_are_found() {
        let rows = [
            "vm.swappiness=10 thp.enabled=never vm.swappiness=20",
            "vm.swappiness=10 sysctl:vm.swappiness=10",
            "vm.swappiness=10 sysctl:vm/swappiness=11",
            "sysctl:vm.laptop_mode=1 sysctl:vm.laptop_mode=0",
            "cmdline.idle=poll cmdline.idle=halt",
            "irq.affinity=0 irq.affinity@24=1",
            "irq.affinity@24=0 irq.affinity@24=1",
            "irq.affinity@24=0 irq.affinity@25=1",
            "vm.dirty_bytes=1000000 vm.dirty_ratio=10",
            "vm.dirty_background_ratio=5 vm.dirty_background_bytes=1000000",
            "vm.dirty_ratio=10 vm.dirty_background_bytes=1000000",
            "kernel.watchdog=0 kernel.nmi_watchdog=1",
            "kernel.nmi_watchdog=1 kernel.watchdog=0",
            "kernel.watchdog=0 kernel.nmi_watchdog=0",
            "kernel.watchdog=1 kernel.nmi_watchdog=0",
            "cmdline.clocksource=tsc clocksource=hpet",
            "cmdline.clocksource=tsc clocksource=tsc",
            "thp.enabled=always vm.min_free_kbytes=65536",
            "net.rps_cpus=0-1 net.xps_cpus=0",
        ];
        let as_text = |row: &str| {
            let settings: Vec<Setting> = row.split(' ').map(|text| Setting::parse(text).unwrap()).collect();
            let clash = Clash::find(&settings);
            let text = clash.map_or_else(|| "fine".to_owned(), |clash| format!("{clash}; {}", clash.todo()));
            format!("{row}\n    {text}\n")
        };
        expect![[r#"
            vm.swappiness=10 thp.enabled=never vm.swappiness=20
                vm.swappiness=10 and vm.swappiness=20 are two values for one knob; leave one of them out
            vm.swappiness=10 sysctl:vm.swappiness=10
                vm.swappiness=10 is given twice; leave one of them out
            vm.swappiness=10 sysctl:vm/swappiness=11
                vm.swappiness=10 and vm.swappiness=11 are two values for one knob; leave one of them out
            sysctl:vm.laptop_mode=1 sysctl:vm.laptop_mode=0
                sysctl:vm.laptop_mode=1 and sysctl:vm.laptop_mode=0 are two values for one knob; leave one of them out
            cmdline.idle=poll cmdline.idle=halt
                cmdline.idle=poll and cmdline.idle=halt are two values for one knob; leave one of them out
            irq.affinity=0 irq.affinity@24=1
                irq.affinity=0 and irq.affinity@24=1 exclude each other: they are one knob at all its places and at one; name the places in each, as KNOB@PLACE=VALUE: `evenkeel inspect --all` shows them
            irq.affinity@24=0 irq.affinity@24=1
                irq.affinity@24=0 and irq.affinity@24=1 are two values for one knob; leave one of them out
            irq.affinity@24=0 irq.affinity@25=1
                fine
            vm.dirty_bytes=1000000 vm.dirty_ratio=10
                vm.dirty_bytes=1000000 and vm.dirty_ratio=10 exclude each other: the kernel resets one when it gets the other; leave one of them out
            vm.dirty_background_ratio=5 vm.dirty_background_bytes=1000000
                vm.dirty_background_ratio=5 and vm.dirty_background_bytes=1000000 exclude each other: the kernel resets one when it gets the other; leave one of them out
            vm.dirty_ratio=10 vm.dirty_background_bytes=1000000
                fine
            kernel.watchdog=0 kernel.nmi_watchdog=1
                kernel.watchdog=0 and kernel.nmi_watchdog=1 exclude each other: they want different values in /proc/sys/kernel/nmi_watchdog; leave one of them out
            kernel.nmi_watchdog=1 kernel.watchdog=0
                kernel.nmi_watchdog=1 and kernel.watchdog=0 exclude each other: they want different values in /proc/sys/kernel/nmi_watchdog; leave one of them out
            kernel.watchdog=0 kernel.nmi_watchdog=0
                fine
            kernel.watchdog=1 kernel.nmi_watchdog=0
                fine
            cmdline.clocksource=tsc clocksource=hpet
                cmdline.clocksource=tsc and clocksource=hpet exclude each other: they want different values in /sys/devices/system/clocksource/clocksource0/current_clocksource; leave one of them out
            cmdline.clocksource=tsc clocksource=tsc
                fine
            thp.enabled=always vm.min_free_kbytes=65536
                fine
            net.rps_cpus=0-1 net.xps_cpus=0
                fine
        "#]].assert_eq(&rows.map(as_text).concat());
    }

    /// Today, no two knobs have the same file or argument. A later knob may have.
    #[test]
    fn two_knobs_of_one_place_have_one_value() {
        let clash = |id: &str, values: [&str; 2]| {
            let own = crate::knobs::find(id).unwrap();
            let other: &'static Knob = Box::leak(Box::new(Knob { id: "other", ..*own }));
            let [first, second] = [(own, values[0]), (other, values[1])].map(|(knob, value)| Setting {
                knob,
                place: None,
                value: value.to_owned(),
            });
            Clash::find(&[first, second]).map(|clash| clash.to_string())
        };
        assert_eq!(clash("vm.swappiness", ["1", "1"]), None);
        assert_eq!(
            clash("vm.swappiness", ["1", "2"]).unwrap(),
            "vm.swappiness=1 and other=2 exclude each other: both write /proc/sys/vm/swappiness"
        );
        assert_eq!(
            clash("cmdline.idle", ["poll", "halt"]).unwrap(),
            "cmdline.idle=poll and other=halt exclude each other: both are the kernel argument idle"
        );
    }
}
