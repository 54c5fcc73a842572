//! The scheduler of a disk's requests.

use crate::extras::{Counter, Extras};
use crate::fact::Fact;
use crate::facts::{Disk, DiskKind, Facts, Hypervisor, Scheduler};
use crate::finding::Finding;
use crate::goal::{AdviceContext, Goal};
use crate::knob::{Area, Device, Knob, Place, Source, TakesEffect, Values};
use crate::reading::Reading;

const FILE: &str = "queue/scheduler";

pub(super) const KNOB: Knob = Knob {
    id: "disk.scheduler",
    title: "the I/O scheduler of a disk",
    area: Area::Disk,
    place: Place::Each { device: Device::Disk, file: FILE, reading: Reading::ChosenWord },
    values: Values::Name,
    default: "none for NVMe and other disks with several queues, mq-deadline for those with one; cfq in old kernels",
    takes_effect: TakesEffect::AtOnce,
    mechanism: "A scheduler delays requests to sort them, to limit how long each waits (mq-deadline), or to share the disk \
        fairly between processes and control groups. bfq, and cfq before it, share the disk, and wait idle for a \
        process's next request. Behind a virtual disk the host sorts the requests again, so sorting in the guest gains \
        little. A game server that logs and loads maps rarely waits for a disk.",
    risk: "without bfq, the io.weight of control groups has no effect; another scheduler brings its own nr_requests",
    shows_in: "/sys/block/DISK/inflight, iostat -x, /proc/pressure/io",
    kernels: "noop, deadline, cfq up to Linux 4.20; since then none, mq-deadline, kyber, bfq, depending on what the kernel \
        includes",
    sources: &[
        Source { title: "Linux Documentation/block/switching-sched.rst", says: "how to select a scheduler for a disk" },
        Source { title: "Linux block/elevator.c", says: "none for several queues, mq-deadline for one" },
        Source {
            title: "AWS whitepaper, Optimizing Multiplayer Game Server Performance on AWS (2017)",
            says: "disks rarely matter for game servers",
        },
    ],
    extras: Extras {
        counter: Some(Counter::DiskRequests),
        side_effects: &["queue/nr_requests"],
        called: &["tuned disk elevator", "tuned disk scheduler"],
        ..Extras::NONE
    },
    advise,
};

fn advise(facts: &Facts, context: &AdviceContext) -> Vec<Finding> {
    let findings: Vec<Finding> = match &facts.disks.disks {
        Fact::Known(_) => facts.disks.each().map(|disk| decide(facts, disk, context.goal)).collect(),
        unknown => vec![Finding::unknown("any disk", "which disks there are", unknown)],
    };
    if findings.is_empty() { vec![Finding::not_here("any disk", "there is no disk here")] } else { findings }
}

fn decide(facts: &Facts, disk: &Disk, goal: Goal) -> Finding {
    let Fact::Known(scheduler) = &disk.scheduler else {
        return Finding::unknown(&disk.name, "its scheduler", &disk.scheduler);
    };
    let finding = match scheduler.chosen.as_str() {
        "none" | "noop" => Finding::keep(&disk.name, "requests go to the device immediately"),
        "mq-deadline" | "deadline" | "kyber" => Finding::keep(
            &disk.name,
            "no request waits for another process's; sorting costs little for a server that is not disk-bound",
        ),
        fair @ ("bfq" | "cfq") if goal == Goal::Density => Finding::keep(
            &disk.name,
            format!("{fair} shares the disk between sessions according to the weights of their control groups"),
        ),
        fair @ ("bfq" | "cfq") if is_virtual(facts, disk) => match without(scheduler) {
            Some(without) => Finding::set(
                &disk.name,
                without,
                format!(
                    "{fair} keeps the disk idle to wait for a process's next request, and behind this {} the host \
                        sorts the requests again",
                    what(disk)
                ),
            ),
            None => Finding::keep(
                &disk.name,
                format!("{fair} waits for a process's next request, but no other scheduler is available"),
            ),
        },
        "bfq" | "cfq" => Finding::keep(
            &disk.name,
            "evenkeel does not know whether the disk is virtual; if not, only this scheduler sorts requests",
        ),
        other => Finding::keep(&disk.name, format!("somebody selected {other:?}; evenkeel knows nothing against it")),
    };
    finding.at(&scheduler.chosen)
}

/// Whether the host schedules the requests too.
fn is_virtual(facts: &Facts, disk: &Disk) -> bool {
    let in_guest = facts.machine.hypervisor.known().is_some_and(|hypervisor| *hypervisor != Hypervisor::None);
    matches!(disk.kind, DiskKind::Ebs | DiskKind::Virtio | DiskKind::Xen) || (in_guest && disk.kind == DiskKind::Scsi)
}

fn without(scheduler: &Scheduler) -> Option<&'static str> {
    ["none", "noop"].into_iter().find(|word| scheduler.available.iter().any(|offered| offered == word))
}

fn what(disk: &Disk) -> &'static str {
    match disk.kind {
        DiskKind::Ebs => "EBS volume",
        _ => "virtual disk",
    }
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;
    use crate::plan::{Action, Plan};
    use crate::setting::Setting;
    use crate::testing::{base, check, disk, disks};

    fn with(kind: DiskKind, chosen: &'static str, available: &'static [&str]) -> impl Fn(&mut Facts) {
        move |facts| {
            let available = available.iter().map(|word| (*word).to_owned()).collect();
            let scheduler = Fact::Known(Scheduler { chosen: chosen.into(), available });
            disks(facts)[0] = Disk { kind, scheduler, ..disk("sda") };
        }
    }

    #[test]
    fn the_host_sorts_again() {
        const OLD: &[&str] = &["noop", "deadline", "cfq"];
        const NEW: &[&str] = &["none", "mq-deadline", "bfq"];
        check(
            &KNOB,
            &[
                ("virtio", Goal::Latency, &|_| {}),
                ("EBS", Goal::Latency, &with(DiskKind::Ebs, "none", NEW)),
                ("EBS with bfq", Goal::Latency, &with(DiskKind::Ebs, "bfq", NEW)),
                ("EBS with bfq", Goal::Density, &with(DiskKind::Ebs, "bfq", NEW)),
                ("Xen with cfq", Goal::Throughput, &with(DiskKind::Xen, "cfq", OLD)),
                ("bfq alone", Goal::Latency, &with(DiskKind::Virtio, "bfq", &["bfq"])),
                ("SCSI with bfq", Goal::Latency, &with(DiskKind::Scsi, "bfq", NEW)),
                ("metal with bfq", Goal::Latency, &|facts| {
                    with(DiskKind::Scsi, "bfq", NEW)(facts);
                    facts.machine.hypervisor = Fact::Known(Hypervisor::None);
                }),
                ("two disks, one dumb", Goal::Latency, &|facts| {
                    let dumb = Disk { scheduler: Fact::absent("no such file"), ..disk("vdb") };
                    disks(facts).push(dumb);
                }),
                ("no disk", Goal::Latency, &|facts| disks(facts).clear()),
                ("unknown", Goal::Latency, &|facts| facts.disks.disks = Fact::absent("no /sys/block")),
            ],
            expect![[r#"
                virtio (latency)
                  keep vda "mq-deadline": no request waits for another process's; sorting costs little for a server that is not disk-bound
                EBS (latency)
                  keep sda "none": requests go to the device immediately
                EBS with bfq (latency)
                  set sda "bfq" -> "none": bfq keeps the disk idle to wait for a process's next request, and behind this EBS volume the host sorts the requests again
                EBS with bfq (density)
                  keep sda "bfq": bfq shares the disk between sessions according to the weights of their control groups
                Xen with cfq (throughput)
                  set sda "cfq" -> "noop": cfq keeps the disk idle to wait for a process's next request, and behind this virtual disk the host sorts the requests again
                bfq alone (latency)
                  keep sda "bfq": bfq waits for a process's next request, but no other scheduler is available
                SCSI with bfq (latency)
                  set sda "bfq" -> "none": bfq keeps the disk idle to wait for a process's next request, and behind this virtual disk the host sorts the requests again
                metal with bfq (latency)
                  keep sda "bfq": evenkeel does not know whether the disk is virtual; if not, only this scheduler sorts requests
                two disks, one dumb (latency)
                  keep vda "mq-deadline": no request waits for another process's; sorting costs little for a server that is not disk-bound
                  unknown vdb: its scheduler is not known: no such file
                no disk (latency)
                  not-here any disk: there is no disk here
                unknown (latency)
                  unknown any disk: which disks there are is not known: no /sys/block
            "#]],
        );
    }

    #[test]
    fn each_disk_is_a_step_that_knows_what_changes_with_it() {
        let mut facts = base();
        disks(&mut facts).push(disk("vdb"));
        let plan = Plan::from_settings(&facts, &[Setting::parse("disk.scheduler=none").unwrap()]).unwrap();
        let shown = |action: &Action| match action {
            Action::Write { path, side_effects, .. } => format!("{path} with {}", side_effects.join(" ")),
            other => format!("{other:?}"),
        };
        let steps: Vec<String> = plan.steps.iter().map(|step| shown(&step.action)).collect();
        assert_eq!(
            steps,
            [
                "/sys/block/vda/queue/scheduler with /sys/block/vda/queue/nr_requests",
                "/sys/block/vdb/queue/scheduler with /sys/block/vdb/queue/nr_requests",
            ]
        );
        let files = crate::plan::files_of(&KNOB, &facts);
        assert_eq!((files.len(), files[3].as_str()), (4, "/sys/block/vdb/queue/nr_requests"));
    }
}
