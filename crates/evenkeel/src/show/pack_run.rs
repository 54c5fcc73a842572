//! The page of `pack run`: each session with its CPUs, and how much CPU time it used.

use evenkeel_host::CpuSet;
use serde::Serialize;

use crate::show::page::{BAD, Indent, PLAIN, Page, WARN};

/// The result of a run.
#[derive(Serialize, schemars::JsonSchema)]
pub(crate) struct Answer {
    /// The table of sessions.
    pub(crate) file: String,
    /// How long the sessions ran, in seconds.
    pub(crate) seconds: f64,
    /// What ended the run.
    pub(crate) ended: Ended,
    /// Each session.
    pub(crate) sessions: Vec<RunSession>,
    /// What to consider before you use the answer.
    pub(crate) caveats: Vec<String>,
}

/// What ended the run.
#[derive(Clone, Copy, Debug, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Ended {
    /// The user stopped it.
    Stopped,
    /// The time was over.
    Time,
    /// All sessions had ended by themselves.
    Sessions,
}

/// A session that ran.
#[derive(Serialize, schemars::JsonSchema)]
pub(crate) struct RunSession {
    /// The name of the session in the table.
    pub(crate) session: String,
    /// The number of the session's process; `null` if it had ended.
    pub(crate) pid: Option<u32>,
    /// The CPUs that the session could run on.
    pub(crate) cpus: CpuSet,
    /// The node of these CPUs; `null` if the machine's nodes are not known.
    pub(crate) node: Option<u32>,
    /// The CPU time of the session in the table, in CPUs.
    pub(crate) planned_cpus: f64,
    /// The CPU time that the session used, in CPUs; `null` if the session had ended, or evenkeel did not start it.
    pub(crate) used_cpus: Option<f64>,
    /// Whether the session ended by itself with an error.
    pub(crate) has_failed: bool,
    /// How the session ended by itself; `null` if it ran until the end.
    pub(crate) ended: Option<String>,
}

impl RunSession {
    pub(crate) fn has_failed(&self) -> bool {
        self.has_failed
    }
}

/// The maximum number of ended sessions that the page lists, because many sessions can end for one reason.
const ENDINGS_MAX: usize = 5;

pub(crate) fn page(answer: &Answer) -> String {
    let mut page = Page::default();
    page.heading(&format!("{} ran for {:.0} s", count(answer.sessions.len()), answer.seconds));
    let rows: Vec<Vec<String>> = answer.sessions.iter().map(row).collect();
    page.table(&["session", "pid", "CPUs", "planned", "used", "state"], &rows);
    page.line(PLAIN, "");
    let ended: Vec<&RunSession> = answer.sessions.iter().filter(|one| one.ended.is_some()).collect();
    for one in ended.iter().take(ENDINGS_MAX) {
        let style = if one.has_failed { BAD } else { WARN };
        let text = format!("{}: {}", one.session, one.ended.as_deref().unwrap_or_default());
        page.paragraph(Indent { first: 0, rest: 2 }, style, &text);
    }
    if ended.len() > ENDINGS_MAX {
        page.line(WARN, &format!("{} more ended by themselves", ended.len() - ENDINGS_MAX));
    }
    for caveat in &answer.caveats {
        page.paragraph(Indent { first: 0, rest: 2 }, WARN, &format!("caveat: {caveat}"));
    }
    page.finish()
}

/// `1 session`, `2 sessions`.
pub(crate) fn count(sessions: usize) -> String {
    format!("{sessions} session{}", if sessions == 1 { "" } else { "s" })
}

fn row(one: &RunSession) -> Vec<String> {
    vec![
        one.session.clone(),
        one.pid.map_or_else(String::new, |pid| pid.to_string()),
        one.cpus.to_string(),
        format!("{:.2}", one.planned_cpus),
        one.used_cpus.map_or_else(|| "unknown".to_owned(), |used| format!("{used:.2}")),
        if one.ended.is_some() { "ended" } else { "ran" }.to_owned(),
    ]
}
