//! `Setting`: `KNOB=VALUE` or `KNOB@PLACE=VALUE` as a user writes it, checked against the knob's data.

use std::fmt;

use crate::finding::shown;
use crate::knob::Knob;
use crate::knobs;
use crate::value::SettingError;

/// A knob with a wanted value.
#[derive(Clone, Debug)]
pub struct Setting {
    /// The knob.
    pub knob: &'static Knob,
    /// The only place to set (`eth0/rx-0`, an interrupt's number). `None` means all places.
    pub place: Option<String>,
    /// The value, within the knob's range and in the kernel's form.
    pub value: String,
}

impl Setting {
    /// Parses `KNOB=VALUE` or `KNOB@PLACE=VALUE`.
    ///
    /// # Errors
    /// If there is no such knob, or if the knob does not accept the value.
    pub fn parse(text: &str) -> Result<Setting, SettingError> {
        let (name, value) = text.split_once('=').ok_or_else(|| SettingError::NoValue { text: shown(text) })?;
        let name = name.trim();
        let (id, place) = match name.split_once('@') {
            Some((id, place)) => (id, Some(shown(place))),
            None => (name, None),
        };
        let knob = knobs::find(id)?;
        Ok(Setting { knob, place, value: knob.check(value)? })
    }
}

impl fmt::Display for Setting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.place {
            Some(place) => write!(f, "{}@{place}={}", self.knob.id, self.value),
            None => write!(f, "{}={}", self.knob.id, self.value),
        }
    }
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;
    use crate::finding::SHOWN_CHARS_MAX;

    #[test]
    fn settings_are_checked_before_anything_else_sees_them() {
        let texts = [
            "net.core.busy_poll=50",
            "net.core.busy_poll = 50",
            "vm.swappiness= 030 ",
            "vm.swappiness=+7",
            "vm.swappiness=200",
            "vm.swappiness=201",
            "vm.swappiness=-1",
            "vm.swappiness=30%",
            "vm.swappiness=",
            "vm.swappiness=99999999999999999999",
            "vm.swappiness",
            "",
            "=5",
            "net.core.rmem_max=4MiB",
            "thp.enabled=madvise",
            "thp.enabled=Always",
            "clocksource=hyperv_clocksource_tsc_page",
            "clocksource=tsc;reboot",
            "clocksource=$(reboot)",
            "clocksource=../../etc/passwd",
            "clocksource=tsc\nkvm-clock",
            "net.rps_cpus=3,1,2",
            "net.rps_cpus=",
            "net.rps_cpus@eth0/rx-0=1-3",
            "net.rps_cpus=0-4294967295",
            "net.rps_cpus=8191",
            "net.rps_cpus=8192",
            "net.ipv4.udp_mem=1 2 3",
            "net.ipv4.udp_mem=\t1  02\t3\n",
            "net.ipv4.udp_mem=1 2",
            "net.ipv4.udp_mem=1 2 3 4",
            "net.ipv4.udp_mem=1 2 -3",
            "net.ipv4.udp_mem=",
            "irq.affinity@24=0",
            "irq.affinity@=0",
            "irq.affinity=",
            "irq.affinity=3-1",
            "irq.affinity=f",
            "cmdline.intel_idle.max_cstate=1",
            "cmdline.intel_idle.max_cstate=1 init=/bin/sh",
            "cpuidle.dma_latency_us=0",
            "haltpoll.guest_halt_poll_ns=4294967296",
            "process.timer_slack_ns=0",
            "vm.swapiness=30",
            "kernel.panic=1",
        ];
        let as_text = |text: &str| match Setting::parse(text) {
            Ok(setting) => format!("{text:?}: {setting}\n"),
            Err(error) => format!("{text:?}: {error}\n"),
        };
        expect![[r#"
            "net.core.busy_poll=50": net.core.busy_poll=50
            "net.core.busy_poll = 50": net.core.busy_poll=50
            "vm.swappiness= 030 ": vm.swappiness=24
            "vm.swappiness=+7": vm.swappiness does not accept "+7": it accepts a whole number from 0 to 200
            "vm.swappiness=200": vm.swappiness=200
            "vm.swappiness=201": vm.swappiness does not accept "201": it accepts a whole number from 0 to 200
            "vm.swappiness=-1": vm.swappiness does not accept "-1": it accepts a whole number from 0 to 200
            "vm.swappiness=30%": vm.swappiness does not accept "30%": it accepts a whole number from 0 to 200
            "vm.swappiness=": vm.swappiness does not accept "": it accepts a whole number from 0 to 200
            "vm.swappiness=99999999999999999999": vm.swappiness does not accept "99999999999999999999": it accepts a whole number from 0 to 200
            "vm.swappiness": "vm.swappiness" is not a setting: expected KNOB=VALUE
            "": "" is not a setting: expected KNOB=VALUE
            "=5": unknown knob "": `evenkeel explain` lists the knobs
            "net.core.rmem_max=4MiB": net.core.rmem_max does not accept "4MiB": it accepts a whole number of bytes from 2304 to 2147483647
            "thp.enabled=madvise": thp.enabled=madvise
            "thp.enabled=Always": thp.enabled does not accept "Always": it accepts one of always, madvise, never
            "clocksource=hyperv_clocksource_tsc_page": clocksource=hyperv_clocksource_tsc_page
            "clocksource=tsc;reboot": clocksource does not accept "tsc;reboot": it accepts a name of letters, digits, - and _ that the kernel offers
            "clocksource=$(reboot)": clocksource does not accept "$(reboot)": it accepts a name of letters, digits, - and _ that the kernel offers
            "clocksource=../../etc/passwd": clocksource does not accept "../../etc/passwd": it accepts a name of letters, digits, - and _ that the kernel offers
            "clocksource=tsc\nkvm-clock": clocksource does not accept "tsc\nkvm-clock": it accepts a name of letters, digits, - and _ that the kernel offers
            "net.rps_cpus=3,1,2": net.rps_cpus=1-3
            "net.rps_cpus=": net.rps_cpus=
            "net.rps_cpus@eth0/rx-0=1-3": net.rps_cpus@eth0/rx-0=1-3
            "net.rps_cpus=0-4294967295": net.rps_cpus does not accept "0-4294967295": it accepts a list of CPUs such as 0-3,8, or nothing for none
            "net.rps_cpus=8191": net.rps_cpus=8191
            "net.rps_cpus=8192": net.rps_cpus does not accept "8192": it accepts a list of CPUs such as 0-3,8, or nothing for none
            "net.ipv4.udp_mem=1 2 3": net.ipv4.udp_mem=1 2 3
            "net.ipv4.udp_mem=\t1  02\t3\n": net.ipv4.udp_mem=1 2 3
            "net.ipv4.udp_mem=1 2": net.ipv4.udp_mem does not accept "1 2": it accepts 3 whole numbers of pages, each from 0 to 9223372036854775807, separated by spaces
            "net.ipv4.udp_mem=1 2 3 4": net.ipv4.udp_mem does not accept "1 2 3 4": it accepts 3 whole numbers of pages, each from 0 to 9223372036854775807, separated by spaces
            "net.ipv4.udp_mem=1 2 -3": net.ipv4.udp_mem does not accept "1 2 -3": it accepts 3 whole numbers of pages, each from 0 to 9223372036854775807, separated by spaces
            "net.ipv4.udp_mem=": net.ipv4.udp_mem does not accept "": it accepts 3 whole numbers of pages, each from 0 to 9223372036854775807, separated by spaces
            "irq.affinity@24=0": irq.affinity@24=0
            "irq.affinity@=0": irq.affinity@=0
            "irq.affinity=": irq.affinity does not accept "": it accepts a list of CPUs such as 0-3,8
            "irq.affinity=3-1": irq.affinity does not accept "3-1": it accepts a list of CPUs such as 0-3,8
            "irq.affinity=f": irq.affinity does not accept "f": it accepts a list of CPUs such as 0-3,8
            "cmdline.intel_idle.max_cstate=1": cmdline.intel_idle.max_cstate=1
            "cmdline.intel_idle.max_cstate=1 init=/bin/sh": cmdline.intel_idle.max_cstate does not accept "1 init=/bin/sh": it accepts a whole number from 0 to 9
            "cpuidle.dma_latency_us=0": cpuidle.dma_latency_us=0
            "haltpoll.guest_halt_poll_ns=4294967296": haltpoll.guest_halt_poll_ns does not accept "4294967296": it accepts a whole number of ns from 0 to 4294967295
            "process.timer_slack_ns=0": process.timer_slack_ns does not accept "0": it accepts a whole number of ns from 1 to 1000000000
            "vm.swapiness=30": unknown knob "vm.swapiness": did you mean "vm.swappiness"? `evenkeel explain` lists the knobs
            "kernel.panic=1": unknown knob "kernel.panic": `evenkeel explain` lists the knobs
        "#]].assert_eq(&texts.map(as_text).concat());
    }

    #[test]
    fn a_setting_reads_back_as_it_is_shown() {
        for text in ["net.rps_cpus@eth0/rx-0=1-3", "net.rps_cpus=", "thp.enabled=never", "irq.affinity@24=0"] {
            assert_eq!(Setting::parse(text).unwrap().to_string(), text);
        }
    }

    #[test]
    fn long_texts_are_cut_before_they_are_shown() {
        let long = "7,".repeat(1 << 19);
        for text in [
            format!("net.rps_cpus={long}"),
            format!("vm.swappiness={long}"),
            format!("clocksource={long}"),
            format!("{long}=1"),
            long.clone(),
        ] {
            let error = Setting::parse(&text).unwrap_err().to_string();
            assert!(error.len() < 300, "{} bytes", error.len());
        }
        let setting = Setting::parse(&format!("irq.affinity@{long}=1")).unwrap();
        assert_eq!(setting.place.map(|place| place.len()), Some(SHOWN_CHARS_MAX));
    }
}
