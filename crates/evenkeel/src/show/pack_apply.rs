//! The page of `pack apply`: each service with its CPUs and its drop-in, and what to do next.

use evenkeel_change::Transaction;
use evenkeel_change::persist::UnitLines;
use evenkeel_fleet::pack::Service;
use evenkeel_host::CpuSet;
use serde::Serialize;

use crate::show::page::{DIM, Indent, PLAIN, Page, WARN};

/// The services with their CPUs.
#[derive(Serialize, schemars::JsonSchema)]
pub(crate) struct Answer {
    /// The table of sessions, or the saved plan.
    pub(crate) file: String,
    /// How systemd assigns the CPUs to the services.
    pub(crate) by: UnitLines,
    /// Each service.
    pub(crate) services: Vec<PlacedService>,
    /// The change; absent if the command changed nothing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) transaction: Option<Transaction>,
    /// The script of `--script`; absent without this option.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) script: Option<String>,
    /// What to consider before you use the answer.
    pub(crate) caveats: Vec<String>,
}

/// A service, with its CPUs, its memory node and its weight.
#[derive(Serialize, schemars::JsonSchema)]
pub(crate) struct PlacedService {
    /// The name of the service.
    pub(crate) unit: String,
    /// The name of the session in the table.
    pub(crate) session: String,
    /// The CPUs that the service may run on.
    pub(crate) cpus: CpuSet,
    /// The node whose memory the service uses; `null` if it may use all nodes.
    pub(crate) node: Option<u32>,
    /// The weight of the service for the scheduler; `null` if the table has no weight.
    pub(crate) cpu_weight: Option<u32>,
    /// The path of the service's drop-in.
    pub(crate) drop_in: String,
}

impl From<&Service> for PlacedService {
    fn from(service: &Service) -> PlacedService {
        let unit = &service.unit;
        PlacedService {
            unit: unit.unit.to_string(),
            session: service.session.clone(),
            cpus: unit.cpus.clone(),
            node: unit.node,
            cpu_weight: unit.cpu_weight,
            drop_in: unit.path(),
        }
    }
}

/// The page. `again` has the options with which other commands find the same journal.
pub(crate) fn page(answer: &Answer, is_rehearsal: bool, again: &str) -> String {
    let mut page = Page::default();
    page.heading(&format!(
        "CPUs of {} service{}",
        answer.services.len(),
        if answer.services.len() == 1 { "" } else { "s" }
    ));
    services(&mut page, answer);
    page.line(PLAIN, "");
    for caveat in &answer.caveats {
        page.paragraph(Indent { first: 0, rest: 2 }, WARN, &format!("caveat: {caveat}"));
    }
    let next = match (&answer.transaction, answer.by) {
        (None, _) => "Nothing was changed. Without --plan-only, evenkeel writes these drop-ins.".to_owned(),
        (Some(_), _) if is_rehearsal => "Rehearsed on the captured machine; this one was not changed.".to_owned(),
        (Some(done), UnitLines::ControlGroup) => format!(
            "Services that run have their CPUs now; others get them when they start.\nCheck: evenkeel verify{again}\nUndo:  evenkeel revert {}{again}",
            done.id
        ),
        (Some(done), UnitLines::Process) => format!(
            "Restart the services: they get their CPUs when they start.\nCheck: evenkeel verify{again}\nUndo:  evenkeel revert {}{again}",
            done.id
        ),
    };
    next.lines().for_each(|line| page.line(PLAIN, line));
    page.finish()
}

fn services(page: &mut Page, answer: &Answer) {
    let rows: Vec<Vec<String>> = answer
        .services
        .iter()
        .map(|one| {
            vec![
                one.unit.clone(),
                one.cpus.to_string(),
                one.node.map_or_else(String::new, |node| node.to_string()),
                one.cpu_weight.map_or_else(String::new, |weight| weight.to_string()),
                answer.transaction.as_ref().map_or("", |done| state(done, &one.drop_in)).to_owned(),
            ]
        })
        .collect();
    page.table(&["unit", "CPUs", "memory of node", "weight", "drop-in"], &rows);
    if let Some(first) = answer.services.first() {
        page.line(DIM, &format!("  in {}{}", first.drop_in, if answer.services.len() > 1 { " and so on" } else { "" }));
    }
}

fn state(done: &Transaction, path: &str) -> &'static str {
    match done.persisted.iter().find(|one| one.what == path) {
        Some(one) if one.changed => "written",
        _ => "as it was",
    }
}
