//! The arguments of `guide`, the judged guides, and the function that prints them.

use std::path::PathBuf;

use clap::ValueEnum;
use clap::builder::PossibleValue;
use evenkeel_host::guide::{Guide, GuideFormat, Judged, LibraryGuide};

use crate::args::{Completed, HostArgs, StateArgs};
use crate::commands::tune::context::OutArgs;
use crate::commands::tune::design::PlanArgs;
use crate::exit;
use crate::failure::Outcome;
use crate::show::Out;
use crate::show::guide::{self as page, GuideAnswer, GuideLines};
use crate::view::{markdown, terminal};
use crate::workload_args::WorkloadArgs;

/// The end of `--help`.
const EXAMPLES: &str = "\
A guide is a sysctl.conf, a TuneD profile, a shell script, a page in Markdown or HTML, Ansible tasks, a
perftune.yaml, a plan or a goal file. evenkeel reads a guide as text and runs nothing of it.
Without a server it only says what each line is on this machine. With a server, it compares the guide
with the machine as it is, then finds the lines that help, hurt or do nothing. All settings are
restored at the end.

Examples:
  evenkeel guide --list
  evenkeel guide tuned:network-latency
  xclip -o | evenkeel guide -
  sudo evenkeel guide 99-game.conf --out goal.json --budget 20min -- ./my-server --port 7777
  sudo evenkeel guide tuned:network-latency bpftune:intense --workload memcached";

/// Read a tuning guide, report the state of each line on this machine, and settle it on your server
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Files, - for standard input, or guides of the library such as tuned:network-latency;
    /// several guides are compared with each other
    #[arg(value_name = "GUIDE", value_parser = Completed(names), hide_possible_values = true, required_unless_present = "list")]
    pub(super) guides: Vec<String>,
    /// List the guides of the library
    #[arg(long, conflicts_with_all = ["guides", "format", "md", "out", "report"])]
    pub(super) list: bool,
    /// Read the files in this format [default: detected by content]
    #[arg(long, value_enum, value_name = "FORMAT")]
    pub(super) format: Option<Format>,
    #[command(flatten)]
    pub(super) host: HostArgs,
    /// Print Markdown
    #[arg(long, conflicts_with = "json")]
    pub(super) md: bool,
    #[command(flatten)]
    pub(super) out: OutArgs,
    /// Write report.html and report.json into DIR
    #[arg(long, value_name = "DIR")]
    pub(super) report: Option<PathBuf>,
    #[command(flatten)]
    pub(super) state: StateArgs,
    #[command(flatten)]
    pub(super) plan: PlanArgs,
    #[command(flatten)]
    pub(super) workload: WorkloadArgs,
}

/// A format on the command line.
#[derive(Clone, Copy, Debug)]
pub(super) struct Format(pub(super) GuideFormat);

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
    LibraryGuide::all().map(|guide| PossibleValue::new(guide.name).help(guide.title)).collect()
}

/// The guides and their judgement on one machine.
pub(super) struct Judgement {
    pub(super) guides: Vec<Guide>,
    pub(super) judged: Vec<Vec<Judged>>,
}

impl Judgement {
    pub(super) fn lines(&self) -> Vec<GuideLines> {
        self.guides.iter().zip(&self.judged).map(|(guide, judged)| GuideLines::new(guide, judged)).collect()
    }
}

/// Prints an answer. Only the terminal output also has the part `more`.
pub(super) fn print(args: &Args, out: &Out, answer: &GuideAnswer, more: impl FnOnce() -> String) -> Outcome {
    let blocks = || page::blocks(answer);
    match args.md {
        true => out.text(&markdown::document("Tuning guide", &blocks()))?,
        false => out.answer(answer, || terminal::text(&blocks()) + &more())?,
    }
    Ok(exit::WELL)
}
