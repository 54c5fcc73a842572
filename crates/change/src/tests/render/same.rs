//! Tests that the script and the executor make the same writes and files, and undo them in the same way.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};

use evenkeel_host::{Action, Reading};
use evenkeel_hostfs::{Capture, Entry, HostWriter, Root, WriteError};
use evenkeel_sys::Errno;

use super::{At, Host, Place, THEIRS, applied, every_content, hosts, in_memory, well};
use crate::edit;
use crate::outside::Outside;
use crate::persist_plan::Content;
use crate::plan_file::PlanFile;
use crate::render::{script, undo_script};
use crate::{State, apply};

/// The hosts whose scripts the tests run: old and new kernels, one CPU and many CPUs, each hypervisor.
/// The other hosts have the same files with other values, and other tests check their scripts.
pub(super) const RUN: [&str; 7] = [
    "aws-c4.8xlarge-xen-3.14",
    "aws-c5n.xlarge-nitro-6.1",
    "azure-a1-hyperv-1vcpu",
    "firecracker-2vcpu-6.18",
    "gcp-n2-kvm-swap-5.14",
    "qemu-4-queues-6.1",
    "qemu-4cpu-6.12",
];

/// Kernel files in which the script and the executor may differ, because plain files do not react like kernel files.
fn set_aside(plan: &PlanFile) -> BTreeSet<String> {
    let steps = plan.steps.iter().filter_map(|planned| match &planned.step.action {
        Action::Write { side_effects, .. } => Some(side_effects.clone()),
        _ => None,
    });
    steps.flatten().collect()
}

fn readings(plan: &PlanFile) -> BTreeMap<&str, Reading> {
    let steps = plan.steps.iter().filter_map(|planned| match &planned.step.action {
        Action::Write { path, reading, .. } => Some((path.as_str(), *reading)),
        _ => None,
    });
    steps.collect()
}

/// The value in a text. For a plain file that replaces a list with brackets, this is the whole text.
fn as_text(reading: Option<&Reading>, text: &str) -> String {
    match reading {
        Some(reading) => reading.value(text).unwrap_or_else(|| text.trim().to_owned()),
        None => text.to_owned(),
    }
}

/// Steps and files that the test has already run.
/// A script of a hundred steps starts thousands of programs,
/// and most steps of one host equal those of the previous host.
#[derive(Default)]
struct AlreadyRun(BTreeSet<String>);

impl AlreadyRun {
    /// Leaves out the steps of an earlier host that are equal:
    /// the same knob or file, the same original content, and the same value.
    fn leave_out(&mut self, plan: &mut PlanFile, capture: &Capture) {
        let root = Root::captured(capture.clone());
        let text = |path: &String| root.text(path).ok();
        plan.steps.retain(|planned| {
            let Action::Write { path, reading, in_force, side_effects, .. } = &planned.step.action else { return true };
            let (in_force, along) = (in_force.as_ref().map(text), side_effects.iter().map(text).collect::<Vec<_>>());
            let (knob, wanted) = (&planned.step.knob, &planned.step.wanted);
            self.0.insert(format!("{:?}", (knob, reading, wanted, text(path), in_force, along)))
        });
        let persist = &mut plan.persist.as_mut().unwrap().persist;
        persist.files.retain(|file| self.0.insert(format!("{:?}", (&file.path, &file.content, text(&file.path)))));
    }
}

#[test]
fn it_leaves_a_host_as_apply_does_and_its_undo_leaves_it_as_before() {
    let mut knobs: BTreeSet<String> = BTreeSet::new();
    let mut already_run = AlreadyRun::default();
    for host in hosts().iter().filter(|host| RUN.contains(&host.name.as_str())) {
        let mut plan = host.plan.clone();
        already_run.leave_out(&mut plan, &host.capture);
        knobs.extend(plan.steps.iter().map(|planned| planned.step.knob.clone()));
        it_does_what_apply_does(&host.name, &host.capture, &plan);
    }
    assert!(knobs.len() > 50, "{knobs:?}");
}

fn it_does_what_apply_does(name: &str, capture: &Capture, plan: &PlanFile) {
    let root = Root::captured(capture.clone());
    applied(&root, plan).unwrap_or_else(|error| panic!("{name}: {error}"));
    let place = Place::from_capture(capture);
    let before = place.tree();
    let said = well(&place.run(&script(plan).unwrap()));
    let (set_aside_paths, readings) = (set_aside(plan), readings(plan));
    for (path, at) in &place.tree() {
        let (At::File(text, _), Ok(expected)) = (at, root.text(path)) else { continue };
        // A later check compares the files below /etc with the result of the plan.
        let is_kernels = path.starts_with("/proc/") || path.starts_with("/sys/");
        let is_shadow = path.starts_with("/proc/irq/") && !readings.contains_key(path.as_str());
        if is_kernels && !set_aside_paths.contains(path) && !is_shadow {
            let reading = readings.get(path.as_str());
            assert_eq!(as_text(reading, text), as_text(reading, &expected), "{name}: {path}\n{said}");
        }
    }
    for file in &plan.persist.as_ref().unwrap().persist.files {
        assert_eq!(
            entry(&place.tree(), &file.path),
            with(&before, &file.path, &file.content).unwrap(),
            "{}",
            file.path
        );
    }
    let again = well(&place.run(&script(plan).unwrap()));
    assert!(again.ends_with("evenkeel: nothing to change\n"), "{name}: {again}");
    well(&place.sh(&place.undo_script().unwrap()));
    assert_is_as(&place, &before, &readings);
}

fn assert_is_as(place: &Place, before: &BTreeMap<String, At>, readings: &BTreeMap<&str, Reading>) {
    let now = place.tree();
    assert_eq!(now.keys().collect::<Vec<_>>(), before.keys().collect::<Vec<_>>());
    for (path, at) in &now {
        match (readings.get(path.as_str()), at, &before[path]) {
            (Some(Reading::ChosenWord), At::File(now, _), At::File(before, _)) => {
                let reading = Some(&Reading::ChosenWord);
                assert_eq!(as_text(reading, now), as_text(reading, before), "{path}");
            }
            (_, now, before) => assert_eq!(now, before, "{path}"),
        }
    }
    assert_eq!(place.undo_script(), None, "what was undone is forgotten");
}

fn entry(tree: &BTreeMap<String, At>, path: &str) -> Entry {
    match tree.get(path) {
        None | Some(At::Folder) => Entry::Absent,
        Some(At::File(text, mode)) => Entry::File { text: text.clone(), mode: *mode },
        Some(At::Link(target)) => Entry::Link { target: target.to_str().unwrap().to_owned() },
    }
}

fn with(before: &BTreeMap<String, At>, path: &str, content: &Content) -> Result<Entry, String> {
    edit::with(&entry(before, path), content)
}

pub(super) fn theirs() -> Place {
    let place = Place::new();
    for (path, text) in THEIRS {
        place.write(path, text);
    }
    std::os::unix::fs::symlink("nowhere", place.at("/etc/there.link")).unwrap();
    place
}

#[test]
fn each_kind_of_content_is_what_the_executor_makes_of_it() {
    let place = theirs();
    let before = place.tree();
    let plan = every_content();
    let said = well(&place.run(&script(&plan).unwrap()));
    assert!(said.contains("echo it's $HOME\n"), "commands are printed, not run, on a root that does not run: {said}");
    let after = place.tree();
    for file in &plan.persist.as_ref().unwrap().persist.files {
        let expected = with(&before, &file.path, &file.content).unwrap();
        assert_eq!(entry(&after, &file.path), expected, "{}", file.path);
    }
    assert!(well(&place.run(&script(&plan).unwrap())).ends_with("evenkeel: nothing to change\n"));
    assert_eq!(place.tree(), after);
    well(&place.sh(&place.undo_script().unwrap()));
    assert_is_as(&place, &before, &BTreeMap::new());
}

#[test]
fn later_changes_of_others_stay() {
    let place = theirs();
    let plan = every_content();
    well(&place.run(&script(&plan).unwrap()));
    let edited =
        ["/etc/default/irqbalance", "/etc/default/not-there", "/boot/loader/entries/a.conf", "/etc/kernel/cmdline"];
    for path in edited {
        place.write(path, &format!("# somebody else\n{}Z=9 now\n", place.text(path)));
    }
    let changed = place.tree();
    well(&place.sh(&place.undo_script().unwrap()));
    for file in plan.persist.unwrap().persist.files.iter().filter(|file| edited.contains(&file.path.as_str())) {
        let expected = edit::without(&entry(&changed, &file.path), &file.content);
        assert_eq!(entry(&place.tree(), &file.path), expected, "{}", file.path);
    }
}

#[test]
fn kernel_arguments_go_where_the_executor_puts_them() {
    let texts = [
        "title a\noptions root=/dev/sda1\noptions console=tty0 console=ttyS0\nlinux /v\n",
        "title a\nlinux /v\n",
        "title a\nlinux /v",
        "title a\noptions\n",
        "title a\noptions root=/dev/sda1 -- splash\nlinux /v\n",
        "title a\noptions root=/dev/sda1  -- x\noptions quiet\n",
        "title a\noptions -- x\noptions quiet\n",
        "title a\noptions root=/dev/sda1\noptions  idle=poll isolcpus=2-3\n",
        "root=/dev/sda1 x=\"a -- b\" ro -- 5\n",
        "root=/dev/sda1 x=\"a -- b",
        "root=/dev/sda1 --",
        "-- splash\n",
        " -- splash\n",
        "root=/dev/sda1 --  idle=poll isolcpus=2-3 x\n",
        "title a\n  options\troot=/dev/sda1   quiet \n",
        "title a\r\noptions root=/dev/sda1\r\n",
        "root=/dev/sda1 dyndbg=\"file x +p\" a==b\n",
        "root=/dev/sda1 ro",
        "# made by hand\nroot=/dev/sda1\n# not this\n\n",
        "root=/dev/sda1 isolcpus=2-3 idle=poll ro\n",
        "root=/dev/sda1  idle=poll isolcpus=2-3 ro\n",
        "root=/dev/sda1 dyndbg=\"file x\n",
        "# root=/dev/sda1\n",
        "",
    ];
    let mut plan = every_content();
    let persist = &mut plan.persist.as_mut().unwrap().persist;
    persist.commands.clear();
    persist.files.retain(|file| file.path == "/etc/kernel/cmdline");
    for text in texts {
        let place = Place::new();
        place.write("/etc/kernel/cmdline", text);
        let before = place.tree();
        let content = &plan.persist.as_ref().unwrap().persist.files[0].content;
        let output = place.run(&script(&plan).unwrap());
        match with(&before, "/etc/kernel/cmdline", content) {
            Ok(expected) => {
                let now = entry(&place.tree(), "/etc/kernel/cmdline");
                assert_eq!(now, expected, "{text:?}: {}", String::from_utf8_lossy(&output.stderr));
                // Without the script's records, the undo script of the plan still removes our part.
                well(&place.run(&undo_script(&plan).unwrap()));
                assert_eq!(entry(&place.tree(), "/etc/kernel/cmdline"), edit::without(&expected, content), "{text:?}");
            }
            Err(why) => assert!(output.status.code() == Some(4) && place.tree() == before, "{text:?}: {why}"),
        }
    }
}

/// The undo of a plan also works on files that an earlier version wrote or that somebody edited afterwards.
#[test]
fn kernel_arguments_go_from_wherever_they_are() {
    let ours = "  idle=poll isolcpus=2-3";
    let texts = [
        format!("title a\nlinux /v\noptions{ours}\n"),
        format!("title a\nlinux /v\noptions{ours}"),
        format!("title a\noptions a\noptions b{ours}\nlinux /v\n"),
        format!("title a\noptions a{ours} -- x\noptions b{ours}\nlinux /v\n"),
        format!("options a -- b{ours}\n"),
        format!("a -- b{ours}"),
        "options a\noptions b idle=poll isolcpus=2-3 -- x\n".to_owned(),
        "idle=poll isolcpus=2-3".to_owned(),
        "title a\nlinux /v\n".to_owned(),
    ];
    let mut plan = every_content();
    let persist = &mut plan.persist.as_mut().unwrap().persist;
    persist.commands.clear();
    persist.files.retain(|file| file.path == "/etc/kernel/cmdline");
    let content = &plan.persist.as_ref().unwrap().persist.files[0].content;
    for text in texts {
        let place = Place::new();
        place.write("/etc/kernel/cmdline", &text);
        let before = entry(&place.tree(), "/etc/kernel/cmdline");
        well(&place.run(&undo_script(&plan).unwrap()));
        assert_eq!(entry(&place.tree(), "/etc/kernel/cmdline"), edit::without(&before, content), "{text:?}");
    }
}

/// Records what is written to the host.
struct Watch(Arc<Mutex<Vec<(String, String)>>>);

impl Outside for Watch {
    fn sync(&mut self, _: &std::fs::File) -> Result<(), Errno> {
        Ok(())
    }

    fn write(&mut self, writer: &HostWriter, path: &str, value: &str) -> Result<(), WriteError> {
        self.0.lock().unwrap().push((path.to_owned(), value.to_owned()));
        writer.write(path, value)
    }
}

/// The script's lines of data, byte for byte, as sh parses them.
/// Replaces the script's functions with functions that print their arguments.
fn said(script: &str) -> Vec<Vec<String>> {
    let data = script.split_once("\nplan() {\n").unwrap().1.split_once("\n}\n").unwrap().0;
    let functions = r#"
        set_value() { printf 'set_value\0%s\0%s\0\001' "$2" "$3"; }
        place() { printf 'place\0%s\0%s\0' "$1" "$2"; if [ "${3-}" = cut ]; then t=$(command cat; printf x); t=${t%x}; printf %s "${t%?}"; else command cat; fi; printf '\0\001'; }
        link() { printf 'link\0%s\0%s\0\001' "$2" "$1"; }
        block() { printf 'block\0%s\0' "$1"; command cat; printf '\0\001'; }
        kernel_arguments() { printf kernel_arguments; printf '\0%s' "$@"; printf '\0\001'; }
        after() { :; } ; not_run() { :; } ; cat() { :; }
        undone_by() { printf undone_by; printf '\0%s' "$@"; printf '\0\001'; }
        run() { printf run; printf '\0%s' "$@"; printf '\0\001'; }
    "#;
    let dir = in_memory();
    let path = dir.path().join("said.sh");
    std::fs::write(&path, format!("{functions}\n{data}\n")).unwrap();
    let text = well(&std::process::Command::new("sh").arg(path).output().unwrap());
    let calls = text.split('\u{1}').filter(|call| !call.is_empty());
    calls.map(|call| call.trim_end_matches('\0').split('\0').map(str::to_owned).collect()).collect()
}

#[test]
fn every_byte_of_the_plan_is_in_the_script() {
    for Host { name, capture, plan } in hosts() {
        let root = Root::captured(capture.clone());
        let writes = Arc::new(Mutex::new(Vec::new()));
        let dir = in_memory();
        let mut state = State::open_on(dir.path(), Box::new(Watch(writes.clone()))).unwrap();
        apply(&root, &root.writer().unwrap(), &mut state, &plan.plan(), "").unwrap();
        let said = said(&script(plan).unwrap());
        let values: Vec<(String, String)> = said
            .iter()
            .filter(|call| call[0] == "set_value")
            .map(|call| (call[1].clone(), call.get(2).cloned().unwrap_or_default()))
            .collect();
        // The executor skips values that are already in force. The script checks them when it runs.
        let already: Vec<&str> =
            plan.steps.iter().filter(|step| step.already_so).map(|step| step.step.knob.as_str()).collect();
        let writes = writes.lock().unwrap().clone();
        let mut left = values.iter();
        for write in &writes {
            assert!(left.any(|value| value == write), "{}: {write:?} in its place of {values:?}", name);
        }
        assert!(values.len() >= writes.len() && values.len() <= writes.len() + already.len() + 4, "{}", name);
    }
    let plan = every_content();
    assert_eq!(said(&script(&plan).unwrap()), expected(&plan));
}

fn expected(plan: &PlanFile) -> Vec<Vec<String>> {
    let persist = &plan.persist.as_ref().unwrap().persist;
    let files = persist.files.iter().map(|file| match &file.content {
        Content::Whole { text, mode } => vec!["place".into(), format!("{mode:o}"), file.path.clone(), text.clone()],
        Content::Link { target } => vec!["link".into(), file.path.clone(), target.clone()],
        Content::Block { lines } => vec!["block".into(), file.path.clone(), lines.clone()],
        Content::KernelArguments { arguments } => {
            [vec!["kernel_arguments".to_owned(), file.path.clone()], arguments.clone()].concat()
        }
    });
    let word = |word: &str, argv: &[String]| [vec![word.to_owned()], argv.to_vec()].concat();
    let commands =
        persist.commands.iter().flat_map(|command| [word("undone_by", &command.undo), word("run", &command.argv)]);
    let mut calls: Vec<Vec<String>> = files.chain(commands).collect();
    // An empty last argument looks like a missing one.
    for call in &mut calls {
        while call.last().is_some_and(String::is_empty) {
            call.pop();
        }
    }
    calls
}

#[test]
fn the_undo_of_a_plan_puts_back_what_it_saw() {
    let mut already_run = AlreadyRun::default();
    for host in hosts().iter().filter(|host| RUN[1..4].contains(&host.name.as_str())) {
        let mut plan = host.plan.clone();
        already_run.leave_out(&mut plan, &host.capture);
        let place = Place::from_capture(&host.capture);
        let before = place.tree();
        well(&place.run(&script(&plan).unwrap()));
        let folders_of_ours: BTreeSet<String> = place
            .tree()
            .into_iter()
            .filter(|(path, at)| *at == At::Folder && !before.contains_key(path))
            .map(|(path, _)| path)
            .collect();
        std::fs::remove_dir_all(place.path("undo")).unwrap();
        well(&place.run(&undo_script(&plan).unwrap()));
        for folder in folders_of_ours.iter().rev() {
            std::fs::remove_dir(place.at(folder)).unwrap();
        }
        assert_eq_but_spelling(&place, &before, &readings(&plan));
    }
}

/// The script restores a mask without leading zeros, as the executor does. The kernel shows both forms in the same way.
fn assert_eq_but_spelling(place: &Place, before: &BTreeMap<String, At>, readings: &BTreeMap<&str, Reading>) {
    let now = place.tree();
    assert_eq!(now.keys().collect::<Vec<_>>(), before.keys().collect::<Vec<_>>());
    for (path, at) in &now {
        match (readings.get(path.as_str()), at, &before[path]) {
            (reading @ Some(_), At::File(now, _), At::File(before, _)) => {
                assert_eq!(as_text(reading, now), as_text(reading, before), "{path}");
            }
            (_, now, before) => assert_eq!(now, before, "{path}"),
        }
    }
}
