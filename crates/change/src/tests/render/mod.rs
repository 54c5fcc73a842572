//! Tests that a rendered plan does what `apply` does.
//! The script runs on plain files below a folder, since only one kernel runs here.
//! No kernel reacts to writes of plain files: brackets do not move,
//! a write has no side effects, and interrupts do not move to other CPUs.
//! The comparison leaves out only these effects.

mod hostile;
mod same;
mod tools;
mod trouble;

use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::LazyLock;

use evenkeel_host::{Action, Facts, Knob, Reading, Setting, Step, Values, knobs};
use evenkeel_hostfs::{Capture, Root};
use tempfile::TempDir;

use super::{Quick, in_memory};
use crate::persist::PersistContext;
use crate::persist_plan::Lasting;
use crate::persist_plan::{Content, PersistPlan, PersistedCommand, PersistedFile};
use crate::plan_file::PlanFile;
use crate::{State, apply};

/// A captured host, and a plan with one setting for every knob that has a place on it.
pub(super) struct Host {
    pub(super) name: String,
    pub(super) capture: Capture,
    pub(super) plan: PlanFile,
}

/// All captured hosts. Their plans are made once for all tests.
pub(super) fn hosts() -> &'static [Host] {
    static HOSTS: LazyLock<Vec<Host>> = LazyLock::new(|| {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../hosts");
        let paths = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
        let is_host = |path: &PathBuf| path.extension().is_some_and(|extension| extension == "txt");
        let host = |path: PathBuf| {
            let capture = Capture::load(&path).unwrap();
            let plan = planned(&Root::captured(capture.clone()), &every_setting(&capture));
            Host { name: name_of(&path), capture, plan }
        };
        let mut hosts: Vec<Host> = paths.filter(is_host).map(host).collect();
        hosts.sort_by(|one, other| one.name.cmp(&other.name));
        hosts
    });
    &HOSTS
}

fn name_of(path: &Path) -> String {
    path.file_stem().unwrap().to_string_lossy().into_owned()
}

/// One setting for every knob that has a place on the host.
/// If a write applies the setting, the kernel accepts the value.
pub(super) fn every_setting(capture: &Capture) -> Vec<Setting> {
    let facts = Facts::probe(&Root::captured(capture.clone()));
    let setting_of = |knob: &&Knob| {
        let settings =
            values_of(knob.values).into_iter().filter_map(|value| Setting::parse(&format!("{}={value}", knob.id)).ok());
        settings.into_iter().find(|setting| is_taken(capture, &facts, setting))
    };
    knobs::ALL.iter().copied().filter_map(|knob| setting_of(&knob)).collect()
}

/// Values of a knob. The first is the value that is least likely to be in force already.
fn values_of(values: Values) -> Vec<String> {
    match values {
        Values::Number { min, max, .. } => {
            [10, 1, 200_000, 4096, max, min].map(|number: i64| number.to_string()).into()
        }
        Values::Numbers { count, min, .. } => vec![vec![(min + 7).to_string(); count].join(" ")],
        Values::Words(words) => words.iter().rev().map(|word| (*word).to_owned()).collect(),
        Values::Name | Values::Sysctl => {
            ["performance", "acpi_pm", "kyber", "none", "fq", "tsc"].map(str::to_owned).into()
        }
        Values::Cpus { .. } => ["1", "0"].map(str::to_owned).into(),
    }
}

fn is_taken(capture: &Capture, facts: &Facts, setting: &Setting) -> bool {
    let root = Root::captured(capture.clone());
    PlanFile::new(&root, facts, std::slice::from_ref(setting), "", None).is_ok_and(|plan| applied(&root, &plan).is_ok())
}

/// Applies a plan's steps to a captured machine.
pub(super) fn applied(root: &Root, plan: &PlanFile) -> Result<(), crate::ApplyError> {
    let dir = in_memory();
    let mut state = State::open_on(dir.path(), Box::new(Quick)).unwrap();
    apply(root, &root.writer().unwrap(), &mut state, &plan.plan(), &plan.title).map(drop)
}

/// The plan for settings on a captured machine. The plan persists over boots.
pub(super) fn planned(root: &Root, settings: &[Setting]) -> PlanFile {
    let facts = Facts::probe(root);
    let context = PersistContext {
        facts: &facts,
        unit: Some(&crate::tests::GAME),
        program: None,
        is_image: false,
        boot_files: &[],
        own_arguments: &[],
    };
    PlanFile::new(root, &facts, settings, "a title", Some((&context, &[]))).unwrap()
}

/// A plan with a file of each content, with commands, and with no step.
pub(super) fn every_content() -> PlanFile {
    let file = |path: &str, content| PersistedFile { path: path.to_owned(), content };
    let whole = |text: &str, mode| Content::Whole { text: text.to_owned(), mode };
    let block = |lines: &str| Content::Block { lines: lines.to_owned() };
    let arguments = || Content::KernelArguments { arguments: vec!["idle=poll".into(), "isolcpus=2-3".into()] };
    let command = |argv: &[&str], after: &[&str]| PersistedCommand {
        argv: argv.iter().map(|word| (*word).to_owned()).collect(),
        undo: vec!["echo".into(), "undone".into()],
        after: after.iter().map(|path| (*path).to_owned()).collect(),
        why: "it's for $(a test)".to_owned(),
        only_booted: true,
    };
    let persist = PersistPlan {
        files: vec![
            file("/etc/sysctl.d/90-evenkeel.conf", whole("# it's $HOME, `id` and \\n\nvm/swappiness = 10\n", 0o644)),
            file("/etc/evenkeel/boot/run", whole("#!/bin/sh\nEND\nEND_\n\n\texit 0", 0o755)),
            file("/etc/evenkeel/empty", whole("", 0o600)),
            file("/etc/there", whole("new\n", 0o600)),
            file("/etc/systemd/system/a.wants/b.service", Content::Link { target: "../it's b.service".into() }),
            file("/etc/there.link", Content::Link { target: "/etc/there".into() }),
            file("/etc/default/irqbalance", block("A=\"1\"\nB='$2'\n")),
            file("/etc/default/no-newline", block("C=3\n")),
            file("/etc/default/not-there", block("D=4\n")),
            file("/boot/loader/entries/a.conf", arguments()),
            file("/boot/loader/entries/init.conf", arguments()),
            file("/etc/kernel/cmdline", arguments()),
        ],
        commands: vec![command(&["echo", "it's", "$HOME"], &["/etc/there"]), command(&["true"], &[])],
        ..PersistPlan::default()
    };
    let settings = vec!["vm.swappiness=10".to_owned()];
    let lasting = Lasting { unit: None, again: None, persist };
    PlanFile {
        format: 1,
        evenkeel: "0".into(),
        title: "all".into(),
        settings,
        steps: Vec::new(),
        persist: Some(lasting),
    }
}

/// Files of other owners that [`every_content`] changes.
pub(super) const THEIRS: [(&str, &str); 6] = [
    ("/etc/there", "old\n"),
    ("/etc/default/irqbalance", "# theirs\nX=1\n"),
    ("/etc/default/no-newline", "Y=2"),
    ("/boot/loader/entries/a.conf", "title a\noptions root=/dev/sda1 quiet\nlinux /v\n"),
    ("/boot/loader/entries/init.conf", "title a\noptions root=/dev/sda1 -- x\noptions b"),
    ("/etc/kernel/cmdline", "# by hand\nroot=/dev/sda1 x=\"a b\"\n\n"),
];

pub(super) fn one_step(path: &str, reading: Reading, wanted: &str) -> PlanFile {
    let action =
        Action::Write { path: path.to_owned(), reading, in_force: None, interrupt: None, side_effects: Vec::new() };
    let step = Step { knob: "a.knob".into(), place: path.to_owned(), wanted: wanted.to_owned(), action };
    // The planned step is parsed from JSON, as in a plan file. Missing fields have their defaults.
    let mut planned = serde_json::to_value(&step).unwrap();
    planned["already_so"] = false.into();
    planned["takes_effect"] = "at-once".into();
    let planned = serde_json::from_value(planned).unwrap();
    let settings = vec![format!("a.knob={wanted}")];
    PlanFile { format: 1, evenkeel: "0".into(), title: "one".into(), settings, steps: vec![planned], persist: None }
}

/// The entry at a path: a file's text and mode, a link's target, or a folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum At {
    File(String, u32),
    Link(PathBuf),
    Folder,
}

/// A root of plain files, and next to it the folder of undo scripts.
pub(super) struct Place {
    dir: TempDir,
}

impl Place {
    pub(super) fn new() -> Place {
        let dir = in_memory();
        std::fs::create_dir_all(dir.path().join("root")).unwrap();
        std::fs::create_dir(dir.path().join("here")).unwrap();
        Place { dir }
    }

    /// All texts of a captured machine below `/proc`, `/sys` and `/etc`.
    pub(super) fn from_capture(capture: &Capture) -> Place {
        let context = Place::new();
        let root = Root::captured(capture.clone());
        for line in capture.to_string().lines() {
            let path = line.split([' ', '\\']).next().unwrap_or_default();
            let is_ours = ["/proc/", "/sys/", "/etc/"].iter().any(|top| path.starts_with(top));
            // Leave out the effective CPU of an interrupt, as older kernels do.
            // A plain file could only show a wrong CPU.
            if is_ours
                && !path.contains("effective_affinity")
                && let Ok(text) = root.text(path)
            {
                context.write(path, &text);
            }
        }
        context
    }

    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    pub(super) fn at(&self, path: &str) -> PathBuf {
        self.dir.path().join("root").join(path.trim_start_matches('/'))
    }

    pub(super) fn write(&self, path: &str, text: &str) {
        let path = self.at(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }

    pub(super) fn text(&self, path: &str) -> String {
        std::fs::read_to_string(self.at(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
    }

    /// Runs a script on the root.
    pub(super) fn run(&self, script: &str) -> Output {
        let path = self.path("script.sh");
        std::fs::write(&path, script).unwrap();
        self.sh(&path)
    }

    pub(super) fn sh(&self, path: &Path) -> Output {
        let mut command = Command::new("sh");
        command.current_dir(self.path("here"));
        command.arg(path).env("EVENKEEL_ROOT", self.dir.path().join("root"));
        command.env("EVENKEEL_UNDO", self.path("undo")).output().unwrap()
    }

    /// Whether no file was created in the current folder of the scripts.
    pub(super) fn is_clean_here(&self) -> bool {
        std::fs::read_dir(self.path("here")).unwrap().next().is_none()
    }

    /// The undo script that a run left.
    pub(super) fn undo_script(&self) -> Option<PathBuf> {
        let folders = std::fs::read_dir(self.path("undo")).ok()?;
        folders.map(|entry| entry.unwrap().path().join("undo.sh")).find(|path| path.exists())
    }

    /// Everything below the root.
    pub(super) fn tree(&self) -> BTreeMap<String, At> {
        let root = self.dir.path().join("root");
        let mut tree = BTreeMap::new();
        let mut folders = vec![root.clone()];
        while let Some(folder) = folders.pop() {
            for entry in std::fs::read_dir(folder).unwrap() {
                let path = entry.unwrap().path();
                let meta = std::fs::symlink_metadata(&path).unwrap();
                let at = if meta.is_symlink() {
                    At::Link(std::fs::read_link(&path).unwrap())
                } else if meta.is_dir() {
                    folders.push(path.clone());
                    At::Folder
                } else {
                    At::File(std::fs::read_to_string(&path).unwrap(), meta.permissions().mode() & 0o7777)
                };
                tree.insert(format!("/{}", path.strip_prefix(&root).unwrap().display()), at);
            }
        }
        tree
    }
}

#[track_caller]
pub(super) fn well(output: &Output) -> String {
    let (stdout, stderr) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{:?}\n{stdout}\n{stderr}", output.status);
    assert_eq!(stderr, "", "{stdout}");
    stdout.into_owned()
}
