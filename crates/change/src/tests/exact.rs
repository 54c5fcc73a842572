//! Tests that the plan is an exact dry run: applying it writes exactly the bytes of the plan, in the plan's order.

use std::fs::File;
use std::sync::{Arc, Mutex};

use evenkeel_host::{Action, Facts, Setting};
use evenkeel_hostfs::{Capture, Entry, HostWriter, Root, Tree, TreeError, WriteError};
use evenkeel_sys::Errno;

use super::Quick;
use crate::outside::Outside;
use crate::persist::PersistContext;
use crate::{Job, PlanFile, State, carry_out, edit};

/// Records everything that is written to the host.
#[derive(Clone, Default)]
struct Recorder(Arc<Mutex<Vec<String>>>);

impl Recorder {
    fn note(&self, what: String) {
        self.0.lock().unwrap().push(what);
    }
}

impl Outside for Recorder {
    fn sync(&mut self, file: &File) -> Result<(), Errno> {
        Quick.sync(file)
    }

    fn write(&mut self, writer: &HostWriter, path: &str, value: &str) -> Result<(), WriteError> {
        self.note(format!("write {value:?} to {path}"));
        writer.write(path, value)
    }

    fn put(&mut self, tree: &Tree, path: &str, entry: &Entry) -> Result<(), TreeError> {
        self.note(format!("put {entry:?} at {path}"));
        tree.put(path, entry)
    }

    fn rehearse(&mut self, argv: &[String]) -> Result<(), String> {
        self.note(format!("run {argv:?}"));
        Ok(())
    }
}

const SETTINGS: &[&str] = &[
    "vm.swappiness=10",
    "net.core.rmem_max=4194304",
    "net.core.busy_poll=50",
    "thp.enabled=never",
    "vm.dirty_background_bytes=1048576",
    "irq.affinity=1",
    "net.rps_cpus=1",
    "vm.min_free_kbytes=90000",
    "cmdline.processor.max_cstate=1",
];

fn hosts() -> Vec<(String, String)> {
    let dir = concat!(env!("CARGO_MANIFEST_DIR"), "/../../hosts");
    let entries = std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path());
    let texts = entries.filter(|path| path.extension().is_some_and(|end| end == "txt"));
    texts.map(|path| (path.display().to_string(), std::fs::read_to_string(&path).unwrap())).collect()
}

#[test]
fn exactly_the_planned_changes_are_made() {
    let (mut hosts_planned, mut writes, mut files) = (0, 0, 0);
    for (name, text) in hosts() {
        let root = Root::captured(Capture::parse(&text).unwrap());
        let facts = Facts::probe(&root);
        let context = PersistContext {
            facts: &facts,
            unit: Some(&super::GAME),
            program: None,
            is_image: false,
            boot_files: &[],
            own_arguments: &[],
        };
        // Not every machine has the place of every setting.
        let has_place =
            |setting: &Setting| PlanFile::new(&root, &facts, std::slice::from_ref(setting), "t", None).is_ok();
        let settings: Vec<Setting> =
            SETTINGS.iter().map(|text| Setting::parse(text).unwrap()).filter(has_place).collect();
        let plan = PlanFile::new(&root, &facts, &settings, "t", Some((&context, &[]))).unwrap();
        // The plan goes through a file, like a reviewed plan.
        let plan = PlanFile::parse(&plan.text().unwrap()).unwrap();

        let recorder = Recorder::default();
        let dir = tempfile::tempdir().unwrap();
        let mut state = State::open_on(dir.path(), Box::new(recorder.clone())).unwrap();
        let steps = plan.plan();
        let job = Job { settings: &plan.settings, lasting: plan.persist.as_ref(), ..Job::new(&steps, "t") };
        let before = root.capture();
        if let Err(error) = carry_out(&root, &root.writer().unwrap(), &mut state, &job, |_| Ok(())) {
            // A refusal that the capture records stops the plan. evenkeel has restored all earlier writes.
            println!("{name}: {error}");
            continue;
        }
        let expected = expected(&plan, &Root::captured(before));
        assert_eq!(*recorder.0.lock().unwrap(), expected, "{name}");
        hosts_planned += 1;
        writes += expected.iter().filter(|line| line.starts_with("write")).count();
        files += expected.iter().filter(|line| line.starts_with("put")).count();
    }
    println!("{hosts_planned} hosts, {writes} writes, {files} files");
    assert!(hosts_planned > 15 && writes > 60 && files > 15, "{hosts_planned} hosts, {writes} writes, {files} files");
}

/// The writes that follow from the plan alone, on the unchanged machine.
fn expected(plan: &PlanFile, before: &Root) -> Vec<String> {
    let mut lines = Vec::new();
    // A side effect of an earlier step may set or change the value of a later step. Then we expect the kernel's value.
    let writer = before.writer().unwrap();
    for planned in &plan.steps {
        let Action::Write { path, reading, .. } = &planned.step.action else { continue };
        let now = before.text(path).ok().and_then(|text| reading.value(&text));
        if !now.is_some_and(|now| crate::place::same(&now, &planned.step.wanted)) {
            let text = reading.text(&planned.step.wanted);
            lines.push(format!("write {text:?} to {path}"));
            let _ = writer.write(path, &text);
        }
    }
    let Some(lasting) = &plan.persist else { return lines };
    let tree = before.tree().unwrap();
    let mut changed = Vec::new();
    for file in &lasting.persist.files {
        let now = tree.look(&file.path).unwrap();
        let after = edit::with(&now, &file.content).unwrap();
        if now != after {
            lines.push(format!("put {after:?} at {}", file.path));
            changed.push(file.path.clone());
        }
    }
    let runs = lasting
        .persist
        .commands
        .iter()
        .filter(|command| command.after.is_empty() || command.after.iter().any(|path| changed.contains(path)));
    lines.extend(runs.map(|command| format!("run {:?}", command.argv)));
    lines
}
