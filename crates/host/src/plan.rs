//! `Plan`: the steps for a host, as data. `evenkeel-change` applies it.

use std::fmt;

use evenkeel_sys::CpuSet;
use serde::{Deserialize, Serialize};

use crate::facts::{Facts, Irq, Nic, Queue, ThpSize};
use crate::knob::{Device, Knob, Place, Values, file_in};
use crate::reading::Reading;
use crate::setting::Setting;

/// Steps in the order of application.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Plan {
    /// The steps.
    pub steps: Vec<Step>,
}

/// One change at one place.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Step {
    /// The knob's id.
    pub knob: String,
    /// The place, as in advice.
    pub place: String,
    /// The wanted value, in the kernel's form.
    pub wanted: String,
    /// How it is applied.
    #[serde(flatten)]
    pub action: Action,
}

/// How a step is applied.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "action", rename_all = "kebab-case")]
pub enum Action {
    /// Write `wanted` to a file, which takes effect at once.
    Write {
        /// The file to write.
        path: String,
        /// How the file's text is parsed, before and after the write.
        reading: Reading,
        /// The file with the value in force, if the written file only shows the requested value.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        in_force: Option<String>,
        /// The interrupt's name, which stays the same over a boot. Its number, and so the path, may change.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        interrupt: Option<String>,
        /// Files that the kernel changes along with it.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        side_effects: Vec<String>,
    },
    /// Add an argument to the kernel command line. It takes effect after a reboot.
    KernelArgument {
        /// The whole argument.
        argument: String,
    },
    /// Keep a device open. The setting lasts while a process does this.
    Hold {
        /// The device.
        path: String,
    },
    /// Set a property of the server's process when it starts.
    Process,
    /// Something that this program cannot do.
    ByHand {
        /// What to do.
        todo: String,
    },
}

/// A setting that no step can apply on this machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlanError {
    /// The setting, as given.
    pub setting: String,
    /// The reason, and what to do.
    pub why: String,
}

impl fmt::Display for PlanError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "plan {}: {}", self.setting, self.why)
    }
}

impl std::error::Error for PlanError {}

impl Plan {
    /// The steps that apply `settings` on the machine of `facts`.
    ///
    /// # Errors
    /// If a per-device setting names no device of the machine, or the machine cannot have the value.
    pub fn from_settings(facts: &Facts, settings: &[Setting]) -> Result<Plan, PlanError> {
        let mut steps = Vec::new();
        for setting in settings {
            if let Some(why) = setting.knob.extras.reject_for.and_then(|reject_for| reject_for(facts, &setting.value)) {
                return Err(PlanError { setting: setting.to_string(), why });
            }
            if let Some(why) = setting.knob.extras.max_before.and_then(|most| most.refusal(facts, &setting.value)) {
                return Err(PlanError { setting: setting.to_string(), why });
            }
            if let Some(why) = no_such_cpu(facts, setting) {
                return Err(PlanError { setting: setting.to_string(), why });
            }
            let planned = steps_of(facts, setting);
            let chosen =
                planned.into_iter().filter(|step| setting.place.as_ref().is_none_or(|place| *place == step.place));
            let before = steps.len();
            steps.extend(chosen);
            if steps.len() == before {
                return Err(no_place(facts, setting));
            }
        }
        Ok(Plan { steps })
    }
}

/// Why the machine cannot have this list of CPUs.
/// The kernel refuses a list that contains no CPU of the machine.
/// Some files also refuse a list that contains a CPU which the machine lacks.
fn no_such_cpu(facts: &Facts, setting: &Setting) -> Option<String> {
    let Values::Cpus { .. } = setting.knob.values else { return None };
    let (asked, possible) = (CpuSet::parse_list(&setting.value)?, facts.cpus.possible.known()?);
    let beyond = asked.iter().find(|cpu| !possible.contains(*cpu))?;
    Some(format!("there is no CPU {beyond}: this machine has {possible}"))
}

fn no_place(facts: &Facts, setting: &Setting) -> PlanError {
    let places: Vec<String> = steps_of(facts, setting).into_iter().map(|step| step.place).collect();
    let why = match (&setting.place, places.is_empty()) {
        (Some(place), false) => {
            format!("{} has no place {place:?} here; its places are {}", setting.knob.id, places.join(", "))
        }
        _ => format!("this machine has no place for {}", setting.knob.id),
    };
    PlanError { setting: setting.to_string(), why }
}

fn steps_of(facts: &Facts, setting: &Setting) -> Vec<Step> {
    let knob = setting.knob;
    let step = |place: String, action| Step { knob: knob.id.to_owned(), place, wanted: setting.value.clone(), action };
    let write = |path: String, reading, in_force| Action::Write {
        interrupt: None,
        side_effects: side_effects(knob, path.strip_suffix(file_of(knob)).unwrap_or_default()),
        path,
        reading,
        in_force,
    };
    match knob.place {
        Place::File { path, reading } => vec![step(path.to_owned(), write(path.to_owned(), reading, None))],
        Place::FileSince { files, reading } => file_in(facts, files)
            .map(|path| step(path.to_owned(), write(path.to_owned(), reading, None)))
            .into_iter()
            .collect(),
        Place::Each { device, file, reading } => devices(facts, device)
            .into_iter()
            .map(|(place, folder)| step(place, write(format!("{folder}/{file}"), reading, None)))
            .collect(),
        Place::EachNetworkIrq => network_irqs(facts)
            .map(|Irq { number, name, .. }| {
                let action = Action::Write {
                    path: irq_file(*number),
                    reading: Reading::CpuList,
                    in_force: Some(format!("/proc/irq/{number}/effective_affinity_list")),
                    interrupt: Some(name.clone()),
                    side_effects: Vec::new(),
                };
                step(number.to_string(), action)
            })
            .collect(),
        Place::KernelArgument { name } => {
            let argument = format!("{name}={}", setting.value);
            vec![step(name.to_owned(), Action::KernelArgument { argument })]
        }
        Place::Held { path } => vec![step(path.to_owned(), Action::Hold { path: path.to_owned() })],
        Place::Process => vec![step("server".to_owned(), Action::Process)],
        Place::ByHandEach { device, how } => devices(facts, device)
            .into_iter()
            .map(|(place, _)| {
                let todo = how.replace("{device}", &place).replace("{}", &setting.value);
                step(place, Action::ByHand { todo })
            })
            .collect(),
        Place::ByHand { how } => {
            vec![step(knob.id.to_owned(), Action::ByHand { todo: how.replace("{}", &setting.value) })]
        }
    }
}

/// Every file for a knob on this machine, and the files that the kernel changes with them.
pub fn files_of(knob: &Knob, facts: &Facts) -> Vec<String> {
    let mut files: Vec<String> = match knob.place {
        Place::File { path, .. } => vec![path.to_owned()],
        Place::FileSince { files, .. } => file_in(facts, files).map(str::to_owned).into_iter().collect(),
        Place::Each { device, file, .. } => {
            let of_one = |(_, folder): (String, String)| {
                let own = format!("{folder}/{file}");
                [own].into_iter().chain(side_effects(knob, &format!("{folder}/")))
            };
            return devices(facts, device).into_iter().flat_map(of_one).collect();
        }
        Place::EachNetworkIrq => network_irqs(facts).map(|irq| irq_file(irq.number)).collect(),
        Place::KernelArgument { .. }
        | Place::Held { .. }
        | Place::Process
        | Place::ByHand { .. }
        | Place::ByHandEach { .. } => Vec::new(),
    };
    files.extend(side_effects(knob, ""));
    files
}

/// The file with the CPUs that may serve an interrupt.
fn irq_file(irq: u32) -> String {
    format!("/proc/irq/{irq}/smp_affinity_list")
}

/// The file's name within a device's folder, for a knob with one file per device.
fn file_of(knob: &Knob) -> &'static str {
    match knob.place {
        Place::Each { file, .. } => file,
        _ => "",
    }
}

/// The files that the kernel changes along with the knob's file. `folder` is the device's folder, with its last slash.
fn side_effects(knob: &Knob, folder: &str) -> Vec<String> {
    let whole = |path: &str| if path.starts_with('/') { path.to_owned() } else { format!("{folder}{path}") };
    knob.extras.side_effects.iter().map(|path| whole(path)).collect()
}

/// Name and folder of each device of a kind.
pub(crate) fn devices(facts: &Facts, device: Device) -> Vec<(String, String)> {
    let queues = |direction: &str, queues: fn(&Nic) -> &[Queue]| {
        let of_nic = |nic| queues(nic).iter().map(move |queue: &Queue| (&nic.name, queue.index));
        facts
            .network
            .hardware()
            .flat_map(of_nic)
            .map(|(nic, index)| {
                let queue = format!("{direction}-{index}");
                (format!("{nic}/{queue}"), format!("/sys/class/net/{nic}/queues/{queue}"))
            })
            .collect()
    };
    match device {
        Device::Interface => {
            facts.network.hardware().map(|nic| (nic.name.clone(), format!("/sys/class/net/{}", nic.name))).collect()
        }
        Device::Disk => {
            facts.disks.each().map(|disk| (disk.name.clone(), format!("/sys/block/{}", disk.name))).collect()
        }
        Device::FrequencyPolicy => {
            let policies = facts.frequency.policies.known().into_iter().flatten();
            policies.map(|policy| (policy.name.clone(), policy.folder.clone())).collect()
        }
        Device::Cpu => {
            let online = facts.cpus.cpus.iter().filter(|cpu| cpu.online.known() == Some(&true));
            let named = |cpu: usize| (format!("cpu{cpu}"), format!("/sys/devices/system/cpu/cpu{cpu}"));
            online.map(|cpu| named(cpu.cpu)).collect()
        }
        Device::ThpSize => {
            let sizes =
                facts.memory.thp_sizes.known().into_iter().flatten().filter(|size| size.enabled.known().is_some());
            let named = |size: &ThpSize| format!("hugepages-{}kB", size.size_bytes / 1024);
            sizes.map(|size| (named(size), format!("/sys/kernel/mm/transparent_hugepage/{}", named(size)))).collect()
        }
        Device::ReceiveQueue => queues("rx", |nic| &nic.rx_queues),
        Device::TransmitQueue => queues("tx", |nic| &nic.tx_queues),
    }
}

/// The interrupts of the interfaces with hardware.
pub(crate) fn network_irqs(facts: &Facts) -> impl Iterator<Item = &Irq> + '_ {
    facts.network.hardware().flat_map(|nic| &nic.irqs)
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};
    use proptest::prelude::*;

    use super::*;
    use crate::knobs;
    use crate::testing::{base, nic, nics};

    /// The plan for settings on the base machine, with a second interface of two queues.
    /// The result has one line per step, or the error.
    #[track_caller]
    fn check(settings: &[&str], expected: Expect) {
        let mut facts = base();
        nics(&mut facts).push(nic("ens6", 2, 40));
        let settings: Vec<Setting> = settings.iter().map(|text| Setting::parse(text).unwrap()).collect();
        let as_text = match Plan::from_settings(&facts, &settings) {
            Ok(plan) => plan.steps.iter().map(|step| serde_json::to_string(step).unwrap() + "\n").collect(),
            Err(error) => format!("{error}\n"),
        };
        expected.assert_eq(&as_text);
    }

    #[test]
    fn cpus_that_the_machine_does_not_have_are_refused() {
        let plan = |setting: &str| Plan::from_settings(&base(), &[Setting::parse(setting).unwrap()]);
        let why = plan("workqueue.cpumask=0,500").unwrap_err().why;
        assert!(why.starts_with("there is no CPU 500: this machine has 0-"), "{why}");
        assert!(plan("workqueue.cpumask=0").is_ok());
    }

    #[test]
    fn no_settings_give_no_steps() {
        check(&[], expect![[r#""#]]);
    }

    #[test]
    fn steps_keep_the_order_of_settings() {
        check(
            &[
                "thp.enabled=madvise",
                "net.core.busy_poll=50",
                "clocksource=kvm-clock",
                "cmdline.intel_idle.max_cstate=1",
                "cpuidle.dma_latency_us=0",
                "process.timer_slack_ns=1",
            ],
            expect![[r#"
                {"knob":"thp.enabled","place":"/sys/kernel/mm/transparent_hugepage/enabled","wanted":"madvise","action":"write","path":"/sys/kernel/mm/transparent_hugepage/enabled","reading":"chosen-word","side_effects":["/proc/sys/vm/min_free_kbytes"]}
                {"knob":"net.core.busy_poll","place":"/proc/sys/net/core/busy_poll","wanted":"50","action":"write","path":"/proc/sys/net/core/busy_poll","reading":"plain"}
                {"knob":"clocksource","place":"/sys/devices/system/clocksource/clocksource0/current_clocksource","wanted":"kvm-clock","action":"write","path":"/sys/devices/system/clocksource/clocksource0/current_clocksource","reading":"plain"}
                {"knob":"cmdline.intel_idle.max_cstate","place":"intel_idle.max_cstate","wanted":"1","action":"kernel-argument","argument":"intel_idle.max_cstate=1"}
                {"knob":"cpuidle.dma_latency_us","place":"/dev/cpu_dma_latency","wanted":"0","action":"hold","path":"/dev/cpu_dma_latency"}
                {"knob":"process.timer_slack_ns","place":"server","wanted":"1","action":"process"}
            "#]],
        );
    }

    #[test]
    fn values_beyond_the_machine_are_refused() {
        check(
            &["vm.swappiness=10", "vm.nr_hugepages=2147483647"],
            expect![[r#"
                plan vm.nr_hugepages=2147483647: 2147483647 pages of 2 MiB are 4194304.0 GiB, and this machine has 8.0 GiB: you may reserve at most three quarters of that, 3072 pages
            "#]],
        );
    }

    #[test]
    fn a_setting_of_devices_is_a_step_for_each() {
        check(
            &["net.rps_cpus=2-3"],
            expect![[r#"
            {"knob":"net.rps_cpus","place":"eth0/rx-0","wanted":"2-3","action":"write","path":"/sys/class/net/eth0/queues/rx-0/rps_cpus","reading":"cpu-mask"}
            {"knob":"net.rps_cpus","place":"ens6/rx-0","wanted":"2-3","action":"write","path":"/sys/class/net/ens6/queues/rx-0/rps_cpus","reading":"cpu-mask"}
            {"knob":"net.rps_cpus","place":"ens6/rx-1","wanted":"2-3","action":"write","path":"/sys/class/net/ens6/queues/rx-1/rps_cpus","reading":"cpu-mask"}
        "#]],
        );
        check(
            &["irq.affinity=1"],
            expect![[r#"
                {"knob":"irq.affinity","place":"24","wanted":"1","action":"write","path":"/proc/irq/24/smp_affinity_list","reading":"cpu-list","in_force":"/proc/irq/24/effective_affinity_list","interrupt":"eth0-Tx-Rx-0"}
                {"knob":"irq.affinity","place":"40","wanted":"1","action":"write","path":"/proc/irq/40/smp_affinity_list","reading":"cpu-list","in_force":"/proc/irq/40/effective_affinity_list","interrupt":"ens6-Tx-Rx-0"}
                {"knob":"irq.affinity","place":"41","wanted":"1","action":"write","path":"/proc/irq/41/smp_affinity_list","reading":"cpu-list","in_force":"/proc/irq/41/effective_affinity_list","interrupt":"ens6-Tx-Rx-1"}
            "#]],
        );
    }

    #[test]
    fn a_place_chooses_one_device() {
        check(
            &["net.rps_cpus@ens6/rx-1=", "irq.affinity@40=3"],
            expect![[r#"
                {"knob":"net.rps_cpus","place":"ens6/rx-1","wanted":"","action":"write","path":"/sys/class/net/ens6/queues/rx-1/rps_cpus","reading":"cpu-mask"}
                {"knob":"irq.affinity","place":"40","wanted":"3","action":"write","path":"/proc/irq/40/smp_affinity_list","reading":"cpu-list","in_force":"/proc/irq/40/effective_affinity_list","interrupt":"ens6-Tx-Rx-0"}
            "#]],
        );
    }

    #[test]
    fn a_place_that_is_not_there_is_an_error() {
        check(
            &["vm.swappiness=10", "net.rps_cpus@eth0/rx-7=1"],
            expect![[r#"
                plan net.rps_cpus@eth0/rx-7=1: net.rps_cpus has no place "eth0/rx-7" here; its places are eth0/rx-0, ens6/rx-0, ens6/rx-1
            "#]],
        );
        check(
            &["irq.affinity@=1"],
            expect![[r#"
                plan irq.affinity@=1: irq.affinity has no place "" here; its places are 24, 40, 41
            "#]],
        );
        check(
            &["process.timer_slack_ns@bots=1"],
            expect![[r#"
                plan process.timer_slack_ns@bots=1: process.timer_slack_ns has no place "bots" here; its places are server
            "#]],
        );
        let mut facts = base();
        nics(&mut facts).retain(|nic| nic.name == "lo");
        for text in ["net.rps_cpus=1", "irq.affinity@24=1"] {
            let setting = Setting::parse(text).unwrap();
            let error = Plan::from_settings(&facts, &[setting]).unwrap_err();
            assert_eq!(error.why, format!("this machine has no place for {}", text.split(['=', '@']).next().unwrap()));
        }
    }

    #[test]
    fn a_plan_survives_being_written_and_read() {
        let settings =
            ["thp.enabled=madvise", "irq.affinity=1", "cpuidle.dma_latency_us=2", "process.timer_slack_ns=1"];
        let settings = settings.map(|text| Setting::parse(text).unwrap());
        let plan = Plan::from_settings(&base(), &settings).unwrap();
        let text = serde_json::to_string(&plan).unwrap();
        assert_eq!(serde_json::from_str::<Plan>(&text).unwrap(), plan);
    }

    #[test]
    fn files_of_a_knob_are_those_its_steps_write_and_their_side_effects() {
        let as_text = |id| files_of(knobs::find(id).unwrap(), &base()).join(" ");
        assert_eq!(as_text("net.rps_cpus"), "/sys/class/net/eth0/queues/rx-0/rps_cpus");
        assert_eq!(as_text("irq.affinity"), "/proc/irq/24/smp_affinity_list");
        let thp = "/sys/kernel/mm/transparent_hugepage/enabled /proc/sys/vm/min_free_kbytes";
        assert_eq!(as_text("thp.enabled"), thp);
        assert_eq!(as_text("process.timer_slack_ns"), "");
    }

    #[test]
    fn each_reading_extracts_a_value() {
        for (reading, text, value) in [
            (Reading::Plain, " 60\n", Some("60")),
            (Reading::Words, "575799\t767734\t1151598\n", Some("575799 767734 1151598")),
            (Reading::ChosenWord, "always [madvise] never\n", Some("madvise")),
            (Reading::ChosenWord, "always madvise never\n", None),
            (Reading::CpuList, "0,1,2,8\n", Some("0-2,8")),
            (Reading::CpuList, "\n", Some("")),
            (Reading::CpuList, "two\n", None),
            (Reading::CpuMask, "00000000,0000010e\n", Some("1-3,8")),
            (Reading::CpuMask, "0\n", Some("")),
            (Reading::CpuMask, "0x3\n", None),
        ] {
            assert_eq!(reading.value(text).as_deref(), value, "{reading:?} {text:?}");
        }
    }

    proptest! {
        #[test]
        fn written_cpu_lists_read_back(cpus in prop::collection::btree_set(0_usize..256, 0..20)) {
            let value = cpus.into_iter().collect::<CpuSet>().to_string();
            for reading in [Reading::Plain, Reading::CpuList, Reading::CpuMask] {
                prop_assert_eq!(reading.value(&reading.text(&value)), Some(value.clone()));
            }
        }
    }
}
