//! A plan in the words of other tools: a POSIX shell script, user data of cloud-init, an Ansible role. Each does what
//! [`apply`](crate::apply()) does, in an order that people can read, and all of them by the one script.
//!
//! A plan file can come from anywhere, and what is made of it runs as root. So every text in it is checked before it is
//! written, and quoted when it is: paths are plain ones of `/proc`, `/sys`, `/etc` and `/boot`, values are lines.

mod ansible;
mod cloud_init;
mod sh;
mod undo;
mod words;

use evenkeel_host::Action;
use serde::Serialize;

use crate::persist_plan::PersistPlan;
use crate::plan_file::PlanFile;

pub use ansible::role;
pub use cloud_init::cloud_init;
pub use sh::script;
pub use undo::undo_script;

/// The longest value that is written, in bytes: a page is what the kernel takes in one write, and masks have two spellings.
const MAX_VALUE_BYTES: usize = 8192;

/// A file that is to be made of a plan.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct RenderedFile {
    /// Its path, below the folder that somebody chooses.
    pub path: String,
    /// Its permission bits.
    pub mode: u32,
    /// Its text.
    pub text: String,
}

/// Something that nothing here does.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ToDo {
    /// The setting, as `KNOB=VALUE`.
    pub setting: String,
    /// What to do.
    pub todo: String,
}

/// A plan with a text in it that must not get into a script. Reads well after "failed to".
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("render the plan: {what} {text:?}: {why}")]
pub struct RenderError {
    /// What the text is for.
    pub what: &'static str,
    /// Its start.
    pub text: String,
    /// Why not, and what would do.
    pub why: &'static str,
}

/// What is left to do by hand once a plan's script has run.
pub fn todo(plan: &PlanFile) -> Vec<ToDo> {
    let persist = plan.persist.as_ref().map(|lasting| &lasting.persist);
    let steps = plan.steps.iter().filter(|planned| !planned.already_so).filter_map(|planned| {
        let step = &planned.step;
        let setting = format!("{}={}", step.knob, step.wanted);
        let todo = match &step.action {
            Action::Write { .. } => return None,
            _ if carried(persist, &setting).is_some() => return None,
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
        // What is done by hand in any case is not told twice.
        if !all.iter().any(|todo| todo.setting == cannot.setting) {
            let todo = format!("it does not persist over a boot: {}; {}", cannot.why, cannot.todo);
            all.push(ToDo { setting: cannot.setting.clone(), todo });
        }
    }
    all
}

/// The file that makes a setting come about after a boot.
fn carried<'a>(persist: Option<&'a PersistPlan>, setting: &str) -> Option<&'a str> {
    persist?.carried.iter().find(|carried| carried.setting == setting).map(|carried| carried.by.as_str())
}

/// A name for what is made of a plan, the same whenever and wherever its settings are planned.
pub fn name(plan: &PlanFile) -> String {
    let unit = plan.persist.as_ref().and_then(|lasting| lasting.unit.clone()).unwrap_or_default();
    let kept = if plan.persist.is_some() { "kept" } else { "" };
    let text = [plan.settings.join("\n"), unit, kept.to_owned()].join("\0");
    format!("evenkeel-{:08x}", crc32fast::hash(text.as_bytes()))
}

fn refused(what: &'static str, text: &str, why: &'static str) -> RenderError {
    RenderError { what, text: text.chars().take(100).collect(), why }
}

/// A letter that is one in every reader: a line of sh, of YAML, of a terminal.
fn is_plain(letter: char) -> bool {
    let breaks_lines = matches!(letter, '\u{2028}' | '\u{2029}');
    let is_unseen = matches!(letter, '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    !letter.is_control() && !breaks_lines && !is_unseen && !matches!(letter, '\u{feff}' | '\u{fffe}' | '\u{ffff}')
}

/// One line of letters, as a value or a word of a command must be.
fn line<'a>(what: &'static str, text: &'a str) -> Result<&'a str, RenderError> {
    if text.len() > MAX_VALUE_BYTES {
        return Err(refused(what, text, "it is too long for a file of the kernel"));
    }
    if !text.chars().all(|letter| is_plain(letter) || letter == '\t') {
        return Err(refused(what, text, "it must be one line without control characters"));
    }
    Ok(text)
}

/// Lines of letters, as a configuration file must be.
fn lines<'a>(what: &'static str, text: &'a str) -> Result<&'a str, RenderError> {
    if text.len() > evenkeel_hostfs::MAX_FILE_BYTES {
        return Err(refused(what, text, "it is too long for a configuration file"));
    }
    if !text.chars().all(|letter| is_plain(letter) || letter == '\t' || letter == '\n') {
        return Err(refused(what, text, "it must be lines without control characters"));
    }
    Ok(text)
}

/// A file of the kernel.
fn kernel_path(path: &str) -> Result<&str, RenderError> {
    below(path, &["/proc/", "/sys/"], "evenkeel writes only plain paths below /proc and /sys")
}

/// A configuration file.
fn config_path(path: &str) -> Result<&str, RenderError> {
    below(path, &["/etc/", "/boot/"], "evenkeel writes only plain paths below /etc and /boot")
}

fn below<'a>(path: &'a str, tops: &[&str], why: &'static str) -> Result<&'a str, RenderError> {
    let plain = |part: &str| !part.is_empty() && part != "." && part != "..";
    let is_inside = tops.iter().any(|top| path.starts_with(top)) && path.split('/').skip(1).all(plain);
    if is_inside && path.len() <= 4096 { line("the path", path) } else { Err(refused("the path", path, why)) }
}

/// `text` for a comment: one line, whatever it was.
fn comment(text: &str) -> String {
    text.chars().map(|letter| if is_plain(letter) { letter } else { '?' }).take(1000).collect()
}
