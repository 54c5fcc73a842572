//! Tests that `perf` itself can read our recordings.

use std::io::{Seek, SeekFrom, Write};
use std::process::{Command, Stdio};
use std::sync::atomic::AtomicBool;

use evenkeel_profile::live::{RecordConfig, Switches};
use evenkeel_testkit::skipped;

use crate::recorder::{Busy, MS, Stop, one_at_a_time, ourselves, read, recorded};

/// `perf` opens our files, and finds the same data as our reader.
#[test]
fn perf_reads_it() {
    if Command::new("perf").arg("--version").output().is_err() {
        return skipped("perf is not here");
    }
    let stop = AtomicBool::new(false);
    let switches = Switches::WithStacks;
    let config = RecordConfig {
        targets: ourselves(),
        clock_hz: Some(499),
        switches,
        wakes: true,
        faults: true,
        ..RecordConfig::default()
    };
    let recorded = one_at_a_time(|| {
        std::thread::scope(|scope| {
            let _stop = Stop(&stop);
            let busy = Busy::start(scope, "rec-perf", &stop);
            let mut from_ns = None;
            recorded(&config, &mut |_| busy.worked_ns() < *from_ns.get_or_insert_with(|| busy.worked_ns()) + 60 * MS)
        })
    });
    let Some((summary, bytes)) = recorded else { return };
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(&bytes).unwrap();
    file.seek(SeekFrom::Start(0)).unwrap();
    let perf = |arguments: &[&str]| {
        let mut command = Command::new("perf");
        let output = command.args(arguments).arg("-i").arg(file.path()).stdin(Stdio::null()).output().unwrap();
        assert!(output.status.success(), "perf {arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    let lines = perf(&["script", "-F", "comm,tid,event"]);
    assert_eq!(lines.lines().count() as u64, summary.status.samples);
    assert!(lines.contains("rec-perf"), "{lines}");
    for (event, count) in &summary.events {
        let named = lines.lines().filter(|line| line.contains(&format!("{event}:"))).count();
        assert_eq!(named as u64, *count, "{event}");
    }
    let report = perf(&["report", "--stdio", "--no-children", "-g", "none", "--sort", "comm"]);
    assert!(report.contains("rec-perf"), "{report}");
    // For mappings from before the recording, `perf` finds the build ID in the program itself.
    let program = std::env::current_exe().unwrap();
    let recording = read(&bytes);
    let own = recording.modules.iter().find(|(_, module)| program.to_str() == Some(&module.path));
    let id = own.and_then(|(_, module)| module.build_id.clone()).unwrap();
    let id: String = id.iter().map(|byte| format!("{byte:02x}")).collect();
    let listed = perf(&["buildid-list"]);
    assert!(listed.contains(&format!("{id} {}", program.display())), "{id}: {listed}");
    let of_busy = ["report", "--stdio", "--no-children", "-g", "none", "--comms", "rec-perf", "--sort", "dso,sym"];
    let symbols = perf(&of_busy);
    let name = program.file_name().and_then(|name| name.to_str()).unwrap();
    let own: Vec<&str> = symbols.lines().filter(|line| line.contains(name)).collect();
    assert!(!own.is_empty() && own.iter().all(|line| !line.contains("[.] 0x")), "{own:#?}");
}
