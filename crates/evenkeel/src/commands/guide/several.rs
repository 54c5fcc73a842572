//! Compares several guides on one server. Each guide is an arm of one trial.

use std::collections::BTreeSet;

use evenkeel_host::{Facts, Setting};
use evenkeel_hostfs::Root;
use evenkeel_trial::ArmName;
use evenkeel_trial::search::{LeftOutReason, switchable};

use super::asked::{Args, Judgement, print};
use crate::arms::Arms;
use crate::commands::prove;
use crate::exit;
use crate::failure::{Failure, Outcome};
use crate::show::Out;
use crate::show::guide::GuideAnswer;

pub(super) fn run(args: &Args, out: &Out, (root, facts): (&Root, &Facts), judgement: &Judgement) -> Outcome {
    if args.plan.stop_at.is_some() {
        return Err(Failure::wrong_use(
            "--stop-at needs one guide: with several, --guard names what may not get worse".to_owned(),
        ));
    }
    if args.out.out.is_some() {
        return Err(Failure::wrong_use(
            "--out needs one guide: settle the best of them with `evenkeel guide`".to_owned(),
        ));
    }
    let lines = judgement.lines();
    let mut asked: Vec<Vec<Setting>> = Vec::new();
    let mut names: Vec<&str> = Vec::new();
    for (judged, lines) in judgement.judged.iter().zip(&lines) {
        let mut settings: Vec<Setting> = Vec::new();
        for setting in judged.iter().filter_map(|judged| judged.setting.as_ref()) {
            match switchable(root, facts, setting, args.plan.network_devices) {
                Ok(()) | Err(LeftOutReason::AlreadyInForce) => settings.push(setting.clone()),
                Err(why) => out.status(&format!("{}: {setting} is left out: {why}", lines.name)),
            }
        }
        if settings.is_empty() {
            let cause = format!("{}: none of its settings can be tried here", lines.name);
            return Err(Failure::text(exit::NOT_POSSIBLE, "compare the guides", cause)
                .hint("`evenkeel guide GUIDE` without a server says why, line by line"));
        }
        if let Some(same) = asked.iter().position(|other| is_same(other, &settings)) {
            let cause = format!("{} tries the same here as {}: {}", lines.name, names[same], text_of(&settings));
            return Err(Failure::text(exit::NOT_POSSIBLE, "compare the guides", cause).hint("leave one of them out"));
        }
        out.status(&format!("{}: arm {}", lines.name, arm_of(asked.len())));
        names.push(lines.name.as_str());
        asked.push(settings);
    }
    let arms =
        Arms::from_settings(asked).map_err(|cause| Failure::text(exit::WRONG_USE, "compare the guides", cause))?;
    let plan = &args.plan;
    let design = prove::DesignArgs::new(
        prove::DecisionArgs {
            metric: plan.metric.clone(),
            guard: plan.guard.clone(),
            smallest_effect: plan.smallest_effect,
            window: plan.window,
            seed: plan.seed,
        },
        plan.budget,
        plan.settle,
    );
    let compared = prove::compare_arms(&arms, &design, (&args.state, &args.workload), args.report.as_deref(), out)?;
    let words = compared.session.choice.as_ref().map(|choice| choice.sentence.clone());
    let named: Vec<String> =
        lines.iter().enumerate().map(|(at, guide)| format!("{} is {}", arm_of(at), guide.name)).collect();
    let headline = format!("{} ({})", words.unwrap_or_else(|| "no guide was decided".to_owned()), named.join(", "));
    let answer = GuideAnswer { headline, guides: lines, search: None, comparison: Some(compared.session) };
    print(args, out, &answer, || format!("\n{}", compared.text))?;
    Ok(compared.exit)
}

/// Whether two guides try the same settings, in any order.
fn is_same(one: &[Setting], other: &[Setting]) -> bool {
    let sorted = |settings: &[Setting]| settings.iter().map(ToString::to_string).collect::<BTreeSet<String>>();
    sorted(one) == sorted(other)
}

fn text_of(settings: &[Setting]) -> String {
    settings.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ")
}

/// The name of the arm of a guide: A is the machine as it is. There are no more guides than arms.
fn arm_of(at: usize) -> String {
    ArmName::ALL.get(at + 1).map_or_else(|| "?".to_owned(), ToString::to_string)
}
