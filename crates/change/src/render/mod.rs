//! Renders a plan for other tools: a POSIX shell script, user data of cloud-init, an Ansible role.
//! All of them use the same script.
//! The script does what [`apply`](crate::apply()) does, in an order that people can read.
//!
//! A plan file can come from anywhere, and its rendering runs as root.
//! So evenkeel checks and quotes every text:
//! paths are plain paths of `/proc`, `/sys`, `/etc` and `/boot`, and values are single lines.

mod ansible;
mod cloud_init;
mod sh;
mod undo;
mod words;

use evenkeel_host::{Action, Step};
use serde::Serialize;

use crate::persist_plan::PersistPlan;
use crate::plan_file::PlanFile;

pub use ansible::role;
pub use cloud_init::cloud_init;
pub use sh::script;
pub use undo::undo_script;

/// The longest value that a script writes, in bytes. The kernel accepts one page per write, and masks have two forms.
const MAX_VALUE_BYTES: usize = 8192;

/// A file that is rendered from a plan.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RenderedFile {
    /// The file's path, below a folder that the user chooses.
    pub path: String,
    /// Its permission bits.
    pub mode: u32,
    /// Its text.
    pub text: String,
}

/// A setting that the rendering cannot apply.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ToDo {
    /// The setting, as `KNOB=VALUE`.
    pub setting: String,
    /// What to do.
    pub todo: String,
}

/// A plan with a text that a script must not contain. The message continues a sentence that begins with "failed to".
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("render the plan: {what} {text:?}: {why}")]
pub struct RenderError {
    /// The kind of text, such as a path or a value.
    pub what: &'static str,
    /// The start of the text.
    pub text: String,
    /// Why a script must not contain it, and what would be valid.
    pub why: &'static str,
}

/// The steps that the user must do after a plan's script has run.
pub fn todo(plan: &PlanFile) -> Vec<ToDo> {
    let persist = plan.persist.as_ref().map(|lasting| &lasting.persist);
    let steps = plan.steps.iter().filter(|planned| !planned.already_so).filter_map(|planned| {
        let step = &planned.step;
        let setting = format!("{}={}", step.knob, step.wanted);
        let todo = match &step.action {
            Action::Write { .. } => return None,
            _ if carried(persist, step).is_some() => return None,
            Action::KernelArgument { argument } => {
                format!("add {argument} to the kernel's command line, and reboot")
            }
            Action::Hold { path } => format!("let a process keep {path} open as long as you need it"),
            Action::Process => "start the server so".to_owned(),
            Action::ByHand { todo } => todo.clone(),
        };
        Some(ToDo { setting, todo })
    });
    let mut all: Vec<ToDo> = steps.collect();
    for cannot in persist.into_iter().flat_map(|persist| &persist.cannot) {
        // The list already contains the manual steps.
        if !all.iter().any(|todo| todo.setting == cannot.setting) {
            let todo = format!("it does not persist over a boot: {}; {}", cannot.why, cannot.todo);
            all.push(ToDo { setting: cannot.setting.clone(), todo });
        }
    }
    all
}

/// The file that applies a step's setting after a boot.
fn carried<'a>(persist: Option<&'a PersistPlan>, step: &Step) -> Option<&'a str> {
    let Step { knob, place, wanted, .. } = step;
    let names = [format!("{knob}={wanted}"), format!("{knob}@{place}={wanted}")];
    persist?.carried.iter().find(|carried| names.contains(&carried.setting)).map(|carried| carried.by.as_str())
}

/// A name for the rendering of a plan.
/// The name depends only on the plan's settings or files, not on the machine or the time.
pub fn name(plan: &PlanFile) -> String {
    let unit = plan.persist.as_ref().and_then(|lasting| lasting.unit.clone()).unwrap_or_default();
    let kept = if plan.persist.is_some() { "kept" } else { "" };
    let mut parts = vec![plan.settings.join("\n"), unit, kept.to_owned()];
    // A plan without settings gets its name from its files.
    if plan.settings.is_empty() {
        let files = plan.persist.iter().flat_map(|lasting| &lasting.persist.files);
        parts.extend(files.map(|file| format!("{} {:?}", file.path, file.content)));
    }
    let text = parts.join("\0");
    format!("evenkeel-{:08x}", crc32fast::hash(text.as_bytes()))
}

fn refused(what: &'static str, text: &str, why: &'static str) -> RenderError {
    RenderError { what, text: text.chars().take(100).collect(), why }
}

/// Whether a shell, YAML and a terminal all take the character literally.
fn is_plain(letter: char) -> bool {
    let breaks_lines = matches!(letter, '\u{2028}' | '\u{2029}');
    let is_unseen = matches!(letter, '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    !letter.is_control() && !breaks_lines && !is_unseen && !matches!(letter, '\u{feff}' | '\u{fffe}' | '\u{ffff}')
}

/// Checks that `text` is one line of plain characters: a value, or a word of a command.
fn line<'a>(what: &'static str, text: &'a str) -> Result<&'a str, RenderError> {
    if text.len() > MAX_VALUE_BYTES {
        return Err(refused(what, text, "it is too long for a file of the kernel"));
    }
    if !text.chars().all(|letter| is_plain(letter) || letter == '\t') {
        return Err(refused(what, text, "it must be one line without control characters"));
    }
    Ok(text)
}

/// Checks that `text` consists of lines of plain characters, for a configuration file.
fn lines<'a>(what: &'static str, text: &'a str) -> Result<&'a str, RenderError> {
    if text.len() > evenkeel_hostfs::MAX_FILE_BYTES {
        return Err(refused(what, text, "it is too long for a configuration file"));
    }
    if !text.chars().all(|letter| is_plain(letter) || letter == '\t' || letter == '\n') {
        return Err(refused(what, text, "it must be lines without control characters"));
    }
    Ok(text)
}

/// Checks the path of a file of the kernel.
fn kernel_path(path: &str) -> Result<&str, RenderError> {
    below(path, &["/proc/", "/sys/"], "evenkeel writes only plain paths below /proc and /sys")
}

/// Checks the path of a configuration file.
fn config_path(path: &str) -> Result<&str, RenderError> {
    below(path, &["/etc/", "/boot/"], "evenkeel writes only plain paths below /etc and /boot")
}

fn below<'a>(path: &'a str, tops: &[&str], why: &'static str) -> Result<&'a str, RenderError> {
    let plain = |part: &str| !part.is_empty() && part != "." && part != "..";
    let is_inside = tops.iter().any(|top| path.starts_with(top)) && path.split('/').skip(1).all(plain);
    if is_inside && path.len() <= 4096 { line("the path", path) } else { Err(refused("the path", path, why)) }
}

/// `text` as a comment of one line.
fn comment(text: &str) -> String {
    text.chars().map(|letter| if is_plain(letter) { letter } else { '?' }).take(1000).collect()
}
