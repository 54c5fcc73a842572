//! `evenkeel guide`: judges a tuning guide from the web, of TuneD or of a colleague line by line on this machine.
//! Then settles it on the user's server.

use evenkeel_host::Facts;
use evenkeel_host::guide::{Guide, Readings, judge};

use crate::exit;
use crate::failure::{Failure, Outcome};
use crate::show::Out;
use crate::show::guide::{self as page, GuideAnswer, GuideLines};
use crate::view::terminal;

mod asked;
mod read;
mod settle;
mod several;

pub(crate) use asked::Args;
use asked::{Judgement, print};

pub(crate) fn run(args: &Args, out: &Out) -> Outcome {
    if args.list {
        let library = page::library();
        out.answer(&library, || terminal::text(&page::library_blocks(&library)))?;
        return Ok(exit::WELL);
    }
    let root = args.host.open()?;
    let guides = args.guides.iter().map(|name| read::guide(name, args.format.map(|format| format.0), &root));
    let guides = guides.collect::<Result<Vec<Guide>, Failure>>()?;
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
        (true, _) => several::run(args, out, (&root, &facts), &judgement),
    }
}

/// Prints the state of each line on this machine, without a measurement.
fn only_judged(args: &Args, out: &Out, judgement: &Judgement) -> Outcome {
    if args.out.out.is_some() || args.report.is_some() {
        return Err(Failure::wrong_use("--out and --report need a server to measure: name one after --".to_owned()));
    }
    let guides = judgement.lines();
    let headline = guides.iter().map(GuideLines::sentence).collect::<Vec<_>>().join("; ");
    let answer = GuideAnswer { headline, guides, search: None, comparison: None };
    print(args, out, &answer, String::new)
}
