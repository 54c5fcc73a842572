//! Settles one guide on a server: first tests all lines together, then finds the lines that matter.

use std::collections::BTreeMap;

use evenkeel_host::Setting;
use evenkeel_host::guide::Judged;
use evenkeel_trial::search::Wanted;

use super::asked::{Args, Judgement, print};
use crate::commands::tune::lines::{closing, outcome, settled};
use crate::commands::tune::search::{Asked, Searched, exit_of, searched};
use crate::commands::tune::{Begin, begin, log_files};
use crate::exit;
use crate::failure::{Failure, Outcome};
use crate::show::Out;
use crate::show::guide::{GuideAnswer, GuideLines, GuideLog};

pub(super) fn run(args: &Args, out: &Out, judgement: &Judgement) -> Outcome {
    let (Some(judged), Some(lines)) = (judgement.judged.first(), judgement.lines().pop()) else {
        return Err(Failure::wrong_use("a guide is missing".to_owned()));
    };
    let groups = groups(judged);
    if groups.is_empty() {
        return nothing_to_try(args, out, lines);
    }
    out.status(&lines.sentence());
    let path = args.state.path()?.join(log_files::LOG);
    let asked = Asked {
        title: "guide",
        out_args: &args.out,
        report: args.report.as_deref(),
        state: &args.state,
        path: &path,
        resume: log_files::again(None, &args.state),
    };
    let wanted = Wanted::Guide { groups, network_devices: args.plan.network_devices };
    let guide = GuideLog::new(lines, judged);
    let new = Begin { wanted, plan: &args.plan, asked: &args.workload, path: &path, guide: Some(guide.clone()) };
    let Searched { result, unwritten, .. } = searched(asked, out, |search, state| begin(search, &new, state))?;
    let code = exit_of(&result);
    let (answer, unwritten) = settled(guide, result, unwritten, args.report.as_deref());
    print(args, out, &answer, || closing(&answer))?;
    outcome(out, code, unwritten)
}

/// The settings to try, with each knob once. Settings with the largest expected effect come first.
fn groups(judged: &[Judged]) -> Vec<Vec<Setting>> {
    let mut by_knob: BTreeMap<&str, Vec<Setting>> = BTreeMap::new();
    for setting in judged.iter().filter_map(|judged| judged.setting.as_ref()) {
        by_knob.entry(setting.knob.id).or_default().push(setting.clone());
    }
    let mut groups: Vec<Vec<Setting>> = by_knob.into_values().collect();
    groups.sort_by_key(|group| group.first().map(|setting| (setting.knob.effect(), setting.knob.when())));
    groups
}

fn nothing_to_try(args: &Args, out: &Out, lines: GuideLines) -> Outcome {
    let headline = format!("{}; none of its settings can be tried here", lines.sentence());
    print(args, out, &GuideAnswer { headline, guides: vec![lines], search: None, comparison: None }, String::new)?;
    Ok(exit::NOT_POSSIBLE)
}
