//! `pack apply`: sets the CPUs of each session's systemd service, as one transaction that `evenkeel revert` undoes.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Read;
use std::path::{Path, PathBuf};

use clap::ValueEnum;
use evenkeel_change::persist::{UnitLines, has_unit_file, is_session_unit, session_units};
use evenkeel_change::{ApplyError, Job, Log, PlanFile, Status, Transaction, history, render};
use evenkeel_fleet::pack::{self, Machine, Service, ServicesError};
use evenkeel_host::Facts;
use evenkeel_hostfs::{Root, RootKind, json_words};

use super::question::Question;
use crate::args::{HostArgs, StateArgs};
use crate::commands::apply::{half_way_failure, log_of, open_state};
use crate::commands::capture;
use crate::exit;
use crate::failure::{Failure, Outcome, exit_of};
use crate::overdue;
use crate::show::pack_apply::{Answer, PlacedService};
use crate::show::{self, Out};
use crate::state;
use crate::user_table;

/// The maximum number of caveats. Hundreds of services can have the same problem, for example a missing unit file.
const CAVEATS_MAX: usize = 10;

/// The end of `--help`.
const EXAMPLES: &str = "\
evenkeel places the sessions as `evenkeel pack plan` does, or takes its saved answer, and writes a
drop-in for each service that the column `unit` names. In a row with a count, {n} stands for the
number of each session: arena@{n}.service. With control groups of version 2, services that run get
their CPUs at once, otherwise at their next start. `evenkeel verify` shows which run where, and
`evenkeel revert` undoes it. docs/packing.md explains every option.

Examples:
  evenkeel pack apply sessions.csv --plan-only
  evenkeel pack plan sessions.csv --json > plan.json && evenkeel pack apply --plan plan.json
  evenkeel pack apply sessions.csv --script > place.sh";

/// Give each session's systemd service its CPUs, as one transaction
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    #[command(flatten)]
    host: HostArgs,
    /// The sessions, as CSV, with the column unit
    #[arg(value_name = "SESSIONS.csv", required_unless_present = "plan")]
    sessions: Option<PathBuf>,
    /// Take the saved answer of `evenkeel pack plan --json`
    #[arg(long, value_name = "FILE", conflicts_with_all = ["sessions", "load_max", "system_cpus", "interrupt_cpus", "cpu_sets", "slices"])]
    plan: Option<PathBuf>,
    #[command(flatten)]
    question: Question,
    /// How systemd assigns CPUs to a service: auto, group, or process (at its next start)
    #[arg(long, value_enum, value_name = "HOW", default_value_t, hide_possible_values = true)]
    by: By,
    /// Show what would change, and change nothing
    #[arg(long)]
    plan_only: bool,
    /// Print the change as a POSIX shell script, and change nothing
    #[arg(long, conflicts_with = "plan_only")]
    script: bool,
    /// With --host: write the captured machine after the change to FILE
    #[arg(long, short, value_name = "FILE", requires = "host", conflicts_with_all = ["plan_only", "script"])]
    output: Option<PathBuf>,
    #[command(flatten)]
    state: StateArgs,
}

/// How systemd assigns CPUs to a service.
#[derive(Clone, Copy, Debug, Default, ValueEnum)]
enum By {
    #[default]
    Auto,
    Group,
    Process,
}

pub(crate) fn run(args: &Args, out: &Out) -> Outcome {
    let root = args.host.open()?;
    if !args.plan_only && !args.script {
        overdue::settle(&root, &args.state, out);
    }
    let facts = Facts::probe(&root);
    let machine = args.question.machine(&root, facts.clone())?;
    let (file, services) = args.services(&machine)?;
    let by = args.lines(&root)?;
    let units: Vec<_> = services.iter().map(|service| service.unit.clone()).collect();
    let (steps, persist) = session_units(&facts, by, &units).map_err(|why| not_possible(&file, why))?;
    let log = log_of(&args.state, &root)?;
    let title = format!("place {} services on their CPUs", services.len());
    let plan = PlanFile::of_files(&root, steps, persist, &title, &args.again(&file));
    let mut answer = Answer {
        file: file.display().to_string(),
        by,
        services: services.iter().map(PlacedService::from).collect(),
        transaction: None,
        script: None,
        caveats: caveats(&root, &services),
    };
    if args.script {
        let script = render::script(&plan).map_err(|error| Failure::new(exit::NOT_POSSIBLE, error))?;
        answer.script = Some(script.clone());
        out.answer(&answer, || script)?;
        return Ok(exit::WELL);
    }
    refuse_earlier(&root, &log, &plan, &file, &args.state)?;
    if !args.plan_only {
        let is_done =
            plan.is_done(&root).map_err(|error| Failure::new(exit_of(error.errno, exit::NOT_POSSIBLE), error))?;
        if is_done {
            out.answer(&answer, || "Nothing to do: all services have these CPUs already.\n".to_owned())?;
            return Ok(exit::WELL);
        }
        answer.transaction = Some(change(args, &root, &plan)?);
    }
    if let Some(file) = &args.output {
        capture::write(file, &capture::text_of(&root))?;
    }
    let is_rehearsal = root.kind() == RootKind::Captured;
    let again = args.state.again();
    out.answer(&answer, || show::pack_apply::page(&answer, is_rehearsal, &again)).map_err(|failure| {
        match answer.transaction.is_some() && !is_rehearsal {
            true => failure.after_a_change(format_args!("evenkeel revert{again}")),
            false => failure,
        }
    })?;
    Ok(exit::WELL)
}

impl Args {
    /// The services, and the file that names them.
    fn services(&self, machine: &Machine) -> Result<(PathBuf, Vec<Service>), Failure> {
        if let Some(path) = &self.plan {
            let mut text = String::new();
            let read = user_table::open(path, pack::PLAN_BYTES_MAX)?.read_to_string(&mut text);
            read.map_err(|error| Failure::io(exit::WRONG_USE, format_args!("read {}", path.display()), &error))?;
            let services = pack::parse_services(&text, machine).map_err(|error| wrong(path, &error))?;
            return Ok((path.clone(), services));
        }
        // The parser requires `SESSIONS.csv` or `--plan`.
        let path = self.sessions.clone().unwrap_or_default();
        let report = self.question.place(&path, machine)?;
        let services = pack::services(&report, machine).map_err(|error| wrong(&path, &error))?;
        Ok((path, services))
    }

    fn lines(&self, root: &Root) -> Result<UnitLines, Failure> {
        match self.by {
            By::Group => Ok(UnitLines::ControlGroup),
            By::Process => Ok(UnitLines::Process),
            By::Auto => UnitLines::of_machine(root).map_err(|why| {
                Failure::text(exit::NOT_POSSIBLE, "find which control groups systemd has here", why)
                    .hint("say it: --by group for control groups of version 2, or --by process")
            }),
        }
    }

    /// The command that would write the same drop-ins again.
    fn again(&self, file: &Path) -> String {
        let path = std::path::absolute(file).unwrap_or_else(|_| file.to_owned());
        let mut words = vec!["evenkeel".to_owned(), "pack".to_owned(), "apply".to_owned()];
        words.extend(self.plan.iter().map(|_| "--plan".to_owned()));
        words.push(path.display().to_string());
        words.extend(self.question.words());
        words.extend(match self.by {
            By::Auto => None,
            By::Group => Some("--by=group".to_owned()),
            By::Process => Some("--by=process".to_owned()),
        });
        words.iter().map(|word| crate::shell::word(word)).collect::<Vec<_>>().join(" ")
    }
}

fn wrong(path: &Path, error: &ServicesError) -> Failure {
    let (code, hint) = match error {
        ServicesError::LeftOut(_) => {
            (exit::NO, "`evenkeel pack plan` shows them with the reasons; lower the counts, or raise --load-max")
        }
        ServicesError::NoUnit(_) => {
            (exit::WRONG_USE, "add the column unit: arena.service, or arena@{n}.service in a row with a count")
        }
        ServicesError::Machine { .. } => (exit::NOT_POSSIBLE, "make the plan again: evenkeel pack plan SESSIONS.csv"),
        ServicesError::Text(_) | ServicesError::Format(_) | ServicesError::TooMany | ServicesError::Unit { .. } => {
            (exit::WRONG_USE, "`evenkeel pack plan SESSIONS.csv --json > FILE` writes such a file")
        }
    };
    let why = match error {
        ServicesError::Text(why) => {
            format!("it is not an answer of `evenkeel pack plan --json`: {}", json_words::plain(why))
        }
        other => other.to_string(),
    };
    Failure::text(code, format_args!("place the services of {}", path.display()), why).hint(hint)
}

fn not_possible(path: &Path, why: String) -> Failure {
    Failure::text(exit::NOT_POSSIBLE, format_args!("apply {}", path.display()), why)
}

/// Refuses the plan if an earlier transaction placed services that this plan leaves out.
/// Those services would keep CPUs that the plan gives to other services.
fn refuse_earlier(root: &Root, log: &Log, plan: &PlanFile, file: &Path, state: &StateArgs) -> Result<(), Failure> {
    let planned: BTreeSet<&str> =
        plan.persist.iter().flat_map(|lasting| &lasting.persist.files).map(|file| file.path.as_str()).collect();
    for done in history(root, log).iter().filter(|done| matches!(done.status, Status::InForce | Status::Overdue)) {
        let is_left = |what: &&str| is_session_unit(what) && !planned.contains(what);
        let left = done.persisted.iter().map(|one| one.what.as_str()).find(is_left);
        // A user may have removed the drop-in since.
        let is_there = |path: &&str| {
            root.tree().is_ok_and(|tree| tree.look(path).is_ok_and(|entry| entry != evenkeel_hostfs::Entry::Absent))
        };
        if let Some(path) = left.filter(is_there) {
            let why = format!("transaction {} wrote {path}, for a service that this plan leaves out", done.id);
            let again = state.again();
            return Err(not_possible(file, why).hint(format!("evenkeel revert {}{again}, then apply again", done.id)));
        }
    }
    Ok(())
}

/// The caveats about services without a unit file.
/// Drop-ins for such a service have no effect, and systemd does not warn.
fn caveats(root: &Root, services: &[Service]) -> Vec<String> {
    // Look for a template only once, because many instances may share it.
    let names: BTreeMap<String, &Service> =
        services.iter().map(|service| (service.unit.unit.template(), service)).collect();
    let caveat = |(name, service): (&String, &&Service)| match has_unit_file(root, &service.unit.unit) {
        Ok(true) => None,
        Ok(false) => Some(format!("systemd has no unit {name}: its CPUs take effect once the unit exists")),
        Err(why) => Some(format!("whether systemd has the unit {name} is not known ({why})")),
    };
    names.iter().filter_map(caveat).take(CAVEATS_MAX).collect()
}

fn change(args: &Args, root: &Root, plan: &PlanFile) -> Result<Transaction, Failure> {
    let writer = root
        .writer()
        .map_err(|error| Failure::new(exit::NOT_POSSIBLE, error).hint("for an image: --script, and run it there"))?;
    let (mut state, _rehearsal) = open_state(&args.state, root)?;
    let steps = plan.plan();
    let job = Job { lasting: plan.persist.as_ref(), ..Job::new(&steps, &plan.title) };
    evenkeel_change::carry_out(root, &writer, &mut state, &job, |_| Ok(())).map_err(|error| match error {
        ApplyError::Journal(error) => state::failure(error),
        ApplyError::HalfWay(half_way) => half_way_failure(*half_way),
    })
}
