//! Reads files into counters, and lists the files that this user may not read.

use evenkeel_hostfs::{Refusal, Root};
use evenkeel_measure::meters::rates::{Kind, Measured, Unknown};

use crate::sample::{Counted, HostSample, ServerSample, Unreadable};

/// The result of `parse` on a file. `what` names the expected content.
pub(super) fn parsed<T>(root: &Root, path: &str, what: &str, parse: impl FnOnce(&str) -> Option<T>) -> Counted<T> {
    let text = root.text(path).map_err(|refusal| refused(&refusal))?;
    parse(&text).ok_or_else(|| odd(format!("{path} does not hold {what}")))
}

/// A value that is unknown because of this error of the kernel.
pub(super) fn refused(refusal: &Refusal) -> Unknown {
    match Measured::<()>::refused(refusal) {
        Measured::Unknown(unknown) => unknown,
        // A refusal always gives an unknown value, so this cannot happen.
        Measured::Known(()) => odd(refusal.to_string()),
    }
}

/// A value that is unknown because the text is invalid.
pub(super) fn odd(why: impl Into<String>) -> Unknown {
    Unknown { unknown: Kind::Odd, why: why.into() }
}

/// A value that is unknown because this machine does not have it.
pub(super) fn absent(why: impl Into<String>) -> Unknown {
    Unknown { unknown: Kind::Absent, why: why.into() }
}

/// The files that root may read, but this user may not.
/// If root itself may not read a file, as in a container without the capability, no command on this machine gives access.
pub(super) fn denied(host: &HostSample, servers: &[ServerSample], is_root: bool) -> Vec<Unreadable> {
    let mut found = Vec::new();
    let mend = (!is_root).then(|| "sudo evenkeel watch".to_owned());
    let mut add = |what: &str, unknown: Option<&Unknown>| {
        if let Some(unknown) = unknown.filter(|unknown| unknown.unknown == Kind::Denied) {
            let (what, why) = (what.to_owned(), unknown.why.clone());
            found.push(Unreadable { what, why, mend: mend.clone() });
        }
    };
    add("CPU times", host.stat.as_ref().err());
    add("run-queue delay", host.run_queues.as_ref().err());
    add("CPU pressure", host.pressure.cpu.as_ref().err());
    add("memory pressure", host.pressure.memory.as_ref().err());
    add("disk pressure", host.pressure.io.as_ref().err());
    add("throttling of control groups", host.groups.as_ref().err());
    add("frequency", host.frequency_khz.as_ref().err());
    add("idle states", host.idle.as_ref().err());
    add("interrupts", host.interrupts.as_ref().err());
    add("network", host.softnet.as_ref().err());
    add("UDP errors", host.udp.as_ref().err());
    add("disks", host.disks.as_ref().err());
    for server in servers {
        let of = |what: &str| format!("{what} of {}", server.name);
        add(&of("CPU time"), server.process.as_ref().err());
        add(&of("threads"), server.process.as_ref().ok().and_then(|process| process.thread_sums.as_ref().err()));
        add(&of("UDP sockets"), server.sockets.as_ref().err());
        add(&of("ticks"), server.outside.as_ref().and_then(|ticks| ticks.as_ref().err()));
        add(&of("telemetry"), server.telemetry.as_ref().and_then(|page| page.as_ref().err()));
    }
    found
}
