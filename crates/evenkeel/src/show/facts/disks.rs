//! The part of `inspect` about disks: a row for each disk, and the disk of the root file system.

use evenkeel_host::facts::{DiskKind, Disks};

use super::cells::{cell, notes};
use crate::show::page::Page;
use crate::show::units::bytes;

pub(super) fn disks(page: &mut Page, disks: &Disks) {
    page.heading("Disks");
    let Some(all) = disks.disks.known() else {
        page.fact_as("disks", &disks.disks, |_| String::new());
        return;
    };
    let mut unknowns = Vec::new();
    let rows: Vec<Vec<String>> = all
        .iter()
        .map(|disk| {
            vec![
                disk.name.clone(),
                kind(disk.kind).to_owned(),
                cell(&disk.scheduler, |scheduler| scheduler.chosen.clone(), &mut unknowns),
                cell(&disk.nr_requests, u64::to_string, &mut unknowns),
                cell(&disk.read_ahead_kb, |kb| bytes(kb.saturating_mul(1024)), &mut unknowns),
                cell(&disk.rotational, |turns| if *turns { "yes" } else { "no" }.to_owned(), &mut unknowns),
            ]
        })
        .collect();
    page.table(&["disk", "kind", "scheduler", "requests", "read-ahead", "said to turn"], &rows);
    notes(page, unknowns.into_iter());
    page.fact_as("root on", &disks.root, |root| {
        let alone = matches!(all.as_slice(), [only] if only.name == *root);
        if alone { format!("{root}, the only disk: logs and the server's files share it") } else { root.clone() }
    });
    if all.iter().any(|disk| disk.kind == DiskKind::Xen) {
        page.fact_as("persistent grants", &disks.xen_persistent_grants, |on| if *on { "on" } else { "off" }.to_owned());
    }
}

fn kind(kind: DiskKind) -> &'static str {
    match kind {
        DiskKind::Ebs => "EBS",
        DiskKind::Nvme => "NVMe",
        DiskKind::Virtio => "virtio",
        DiskKind::Xen => "Xen",
        DiskKind::Scsi => "SCSI",
        DiskKind::Other => "other",
    }
}
