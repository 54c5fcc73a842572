//! `evenkeel guide`: a tuning guide of the web, of TuneD or of a colleague, judged line by line on this machine and settled on the user's server.

use std::path::PathBuf;

use clap::ValueEnum;
use clap::builder::PossibleValue;
use evenkeel_host::Facts;
use evenkeel_host::guide::{Guide, GuideFormat, Judged, LIBRARY, Readings, judge};

use crate::args::{Completed, HostArgs, StateArgs};
use crate::commands::tune::context::OutArgs;
use crate::commands::tune::design::PlanArgs;
use crate::exit;
use crate::failure::{Failure, Outcome};
use crate::show::Out;
use crate::show::guide::{self as page, GuideAnswer, GuideLines};
use crate::view::{markdown, terminal};
use crate::workload_args::WorkloadArgs;

mod read;
mod settle;
mod several;

/// The end of `--help`.
const EXAMPLES: &str = "\
A guide is a sysctl.conf, a TuneD profile, a shell script, a page in Markdown or HTML, Ansible tasks, a
perftune.yaml, a plan or a goal file. evenkeel reads it as text and runs nothing of it. Without a server it
only says what each line is on this machine. With one, it compares the guide with the machine as it is,
then finds the lines that help, hurt or do nothing. All settings are restored at the end.

Examples:
  evenkeel guide --list
  evenkeel guide tuned:network-latency
  evenkeel guide page.html --host capture.txt --json
  sudo evenkeel guide 99-game.conf --out goal.json --budget 20min -- ./my-server --port 7777
  sudo evenkeel guide tuned:network-latency bpftune:intense --workload memcached";

/// Read a tuning guide, say what each line is on this machine, and settle it on your server
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Files, or guides of the library such as tuned:network-latency; several are compared with each other
    #[arg(value_name = "GUIDE", value_parser = Completed(names), hide_possible_values = true, required_unless_present = "list")]
    guides: Vec<String>,
    /// List the guides of the library
    #[arg(long, exclusive = true)]
    list: bool,
    /// Read the files in this format [default: recognised by content]
    #[arg(long, value_enum, value_name = "FORMAT")]
    format: Option<Format>,
    #[command(flatten)]
    host: HostArgs,
    /// Print Markdown
    #[arg(long, conflicts_with = "json")]
    md: bool,
    #[command(flatten)]
    out: OutArgs,
    /// Write report.html and report.json into DIR
    #[arg(long, value_name = "DIR")]
    report: Option<PathBuf>,
    #[command(flatten)]
    state: StateArgs,
    #[command(flatten)]
    plan: PlanArgs,
    #[command(flatten)]
    workload: WorkloadArgs,
}

/// A format on the command line.
#[derive(Clone, Copy, Debug)]
struct Format(GuideFormat);

impl ValueEnum for Format {
    fn value_variants<'a>() -> &'a [Format] {
        const ALL: [Format; GuideFormat::ALL.len()] = {
            let mut all = [Format(GuideFormat::Sysctl); GuideFormat::ALL.len()];
            let mut at = 0;
            while at < all.len() {
                all[at] = Format(GuideFormat::ALL[at].1);
                at += 1;
            }
            all
        };
        &ALL
    }

    fn to_possible_value(&self) -> Option<PossibleValue> {
        Some(PossibleValue::new(page::format_name(self.0)))
    }
}

fn names() -> Vec<PossibleValue> {
    LIBRARY.iter().map(|guide| PossibleValue::new(guide.name).help(guide.title)).collect()
}

/// The guides, judged on one machine.
struct Judgement {
    guides: Vec<Guide>,
    judged: Vec<Vec<Judged>>,
}

impl Judgement {
    fn lines(&self) -> Vec<GuideLines> {
        self.guides.iter().zip(&self.judged).map(|(guide, judged)| GuideLines::new(guide, judged)).collect()
    }
}

pub(crate) fn run(args: &Args, out: &Out) -> Outcome {
    if args.list {
        let library = page::library();
        out.answer(&library, || terminal::text(&page::library_blocks(&library)))?;
        return Ok(exit::WELL);
    }
    let guides = args.guides.iter().map(|name| read::guide(name, args.format.map(|format| format.0)));
    let guides = guides.collect::<Result<Vec<Guide>, Failure>>()?;
    let root = args.host.open()?;
    let facts = Facts::probe(&root);
    let readings = Readings::take(&root, &facts, &guides);
    let context = args.plan.goal.context();
    let judged = guides.iter().map(|guide| judge(&facts, &readings, &context, guide)).collect();
    let judgement = Judgement { guides, judged };
    let has_server = args.workload.runs_command() || args.workload.workload.is_some();
    match (has_server, &judgement.guides[..]) {
        (false, _) => only_judged(args, out, &judgement),
        (true, _) if !args.host.is_this_machine() => Err(Failure::wrong_use(
            "a server can only be measured on this machine: leave out --host and --root, or the server".to_owned(),
        )),
        (true, [_]) => settle::run(args, out, &judgement),
        (true, _) => several::run(args, out, &facts, &judgement),
    }
}

/// What the lines are here, without a measurement.
fn only_judged(args: &Args, out: &Out, judgement: &Judgement) -> Outcome {
    if args.out.out.is_some() || args.report.is_some() {
        return Err(Failure::wrong_use("--out and --report need a server to measure: name one after --".to_owned()));
    }
    let guides = judgement.lines();
    let headline = guides.iter().map(GuideLines::sentence).collect::<Vec<_>>().join("; ");
    let answer = GuideAnswer { headline, guides, search: None, comparison: None };
    print(args, out, &answer, String::new)
}

/// Prints an answer; `more` is a part that only the terminal has.
fn print(args: &Args, out: &Out, answer: &GuideAnswer, more: impl FnOnce() -> String) -> Outcome {
    let blocks = || page::blocks(answer);
    match args.md {
        true => out.text(&markdown::document("Tuning guide", &blocks()))?,
        false => out.answer(answer, || terminal::text(&blocks()) + &more())?,
    }
    Ok(exit::WELL)
}
