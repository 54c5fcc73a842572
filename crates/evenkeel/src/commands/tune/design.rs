//! The decisions before a search: primary metric, guards, and the settle time after a switch.

use std::sync::atomic::Ordering;
use std::time::Duration;

use evenkeel_change::State;
use evenkeel_host::Plan;
use evenkeel_trial::search::{Budget, Candidate, SearchDesign, Settling, longest_settle, windows_to_screen};
use evenkeel_trial::{Guard, NetworkPath, SettleHow, Switch, Watch};
use evenkeel_workload::Workload;

use super::context::{SearchContext, not_possible};
use crate::args::GoalArgs;
use crate::commands::prove;
use crate::exit;
use crate::experiment;
use crate::failure::Failure;
use crate::smallest_effect::SmallestEffect;
use crate::times::{SettleArgs, WindowArgs, time};

/// The defaults: the time limit of a search, the length of a window, and the factor by which a bad window stops an arm.
const BUDGET: Duration = Duration::from_secs(20 * 60);
const WINDOW: Duration = Duration::from_secs(1);
const STOP_AT: f64 = 3.0;
/// The maximum number of windows that a time budget allows.
const WINDOWS_MAX: usize = 100_000;
/// The shortest default window.
const WINDOW_MIN: Duration = Duration::from_millis(250);

/// The candidates, and the metric that decides.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Search")]
pub(crate) struct PlanArgs {
    /// Maximum time, such as 90s or 1h [default: 20min]
    #[arg(long, value_name = "TIME", value_parser = time)]
    pub(crate) budget: Option<Duration>,
    /// The metric that decides [default: chosen by knobs and workload]
    #[arg(long, value_name = "NAME")]
    pub(crate) metric: Option<String>,
    #[command(flatten)]
    pub(crate) smallest_effect: SmallestEffect,
    #[command(flatten)]
    pub(crate) window: WindowArgs,
    #[command(flatten)]
    pub(crate) settle: SettleArgs,
    /// Reject sets that make NAME worse by PERCENT; repeatable; none:
    /// no guard [default: p99 of the metric, or p90 with few ticks, 25]
    #[arg(long, value_name = "NAME[=PERCENT]")]
    pub(crate) guard: Vec<String>,
    /// Never repeat an arm that is this many times worse [default: 3]
    #[arg(long, value_name = "TIMES")]
    pub(crate) stop_at: Option<f64>,
    /// Also try network device knobs; one may cut your own connection
    #[arg(long)]
    pub(crate) network_devices: bool,
    /// Seed of the random order, to repeat a search
    #[arg(long, value_name = "N")]
    pub(crate) seed: Option<u64>,
    #[command(flatten)]
    pub(crate) goal: GoalArgs,
}

/// Everything except the settle time, which needs a measurement.
pub(crate) fn asked(
    args: &PlanArgs,
    workload: &dyn Workload,
    candidates: Vec<Candidate>,
    seed: u64,
    whole_first: bool,
) -> Result<SearchDesign, Failure> {
    let metric = match &args.metric {
        Some(name) => experiment::metric(workload, name)?,
        None => experiment::usual_metric(workload, &knobs(&candidates))?,
    };
    let time_ms = u64::try_from(args.budget.unwrap_or(BUDGET).as_millis()).ok();
    let mut design = SearchDesign::new(candidates, metric, Budget { windows: WINDOWS_MAX, time_ms }, seed);
    design.whole_first = whole_first;
    design.smallest_effect_ratio = args.smallest_effect.ratio(&design.metric);
    design.window_ms = args.window.asked().map_or_else(|| usual_window_ms(workload, &design), as_ms);
    let (guards, stop_at) = guards(args, workload, &design)?;
    design.guards = guards;
    design.guard_ratio = stop_at;
    design.network = NetworkPath::from_workload(workload);
    if let Some(time) = args.settle.asked() {
        design.settle_ms = as_ms(time);
    }
    check(&design)?;
    Ok(design)
}

/// The default length of a window. The window is shorter if the budget is otherwise too small to screen all knobs.
/// Tails and rare events need the whole second, and each window needs some ticks.
fn usual_window_ms(workload: &dyn Workload, design: &SearchDesign) -> u64 {
    let usual = as_ms(experiment::window_with_ticks(workload, WINDOW));
    let least = as_ms(experiment::window_with_ticks(workload, WINDOW_MIN));
    let Some(budget_ms) = design.budget.time_ms.filter(|_| workload.takes_turns() && !design.metric.is_tail()) else {
        return usual;
    };
    let each_ms = budget_ms / windows_to_screen(design).max(1) as u64;
    each_ms.saturating_sub(design.settle_ms).clamp(least, usual)
}

fn as_ms(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

/// The ids of the candidates' knobs.
fn knobs(candidates: &[Candidate]) -> Vec<&str> {
    let settings = candidates.iter().flat_map(|candidate| &candidate.settings);
    settings.filter_map(|text| text.split(['@', '=']).next()).collect()
}

pub(crate) fn check(design: &SearchDesign) -> Result<(), Failure> {
    design.check().map_err(|error| {
        let failure = Failure::new(exit::WRONG_USE, error);
        match design.is_too_short() {
            true => failure.hint("increase --budget, or use shorter windows (--window)"),
            false => failure,
        }
    })
}

/// The guards, and the factor by which a window may be worse.
/// In `--guard`, a bare number means that factor, as in older versions.
fn guards(args: &PlanArgs, workload: &dyn Workload, design: &SearchDesign) -> Result<(Vec<Guard>, f64), Failure> {
    let number = |text: &String| text.parse::<f64>().ok();
    let stop_at = args.guard.iter().filter_map(number).next_back().or(args.stop_at).unwrap_or(STOP_AT);
    let named: Vec<&String> = args.guard.iter().filter(|text| number(text).is_none()).collect();
    let guards = match named.as_slice() {
        [] => experiment::usual_guards(workload, &design.metric, Some(Duration::from_millis(design.window_ms))),
        [none] if *none == "none" => Vec::new(),
        named => named.iter().map(|text| prove::guard(workload, text)).collect::<Result<_, _>>()?,
    };
    Ok((guards, stop_at))
}

/// Measures how long the effect of a switch lasts, and subtracts the time of this measurement from the budget.
/// The host is restored when this call returns.
/// Returns whether a settle time had to be guessed, because the server may have ended.
pub(crate) fn settle(
    search: &SearchContext<'_>,
    state: &mut State,
    design: &mut SearchDesign,
    plans: &[Plan],
    workload: &mut dyn Workload,
) -> Result<bool, Failure> {
    search.out.status("finding the settle time");
    let writer = search.root.writer().map_err(not_possible)?;
    let title = "tune: find the settle time";
    let mut switch = Switch::begin(search.root, &writer, Some(state), title, plans).map_err(not_possible)?;
    let watch = Watch::start(search.root, plans).with_concurrent(&search.concurrent).of_workload(workload);
    let begun = watch.clock().now();
    let settling = Settling {
        metric: &design.metric,
        window: design.window(),
        smallest_effect_ratio: design.smallest_effect_ratio,
        budget: Duration::from_millis(design.budget.time_ms.unwrap_or(u64::MAX / 1_000_000)),
        plans,
        switch: &mut switch,
        workload,
        watch: &watch,
        stop: &|| search.stop.load(Ordering::Relaxed),
    };
    let found = settling.find();
    switch.end().map_err(|error| {
        Failure::new(exit::NOT_UNDONE, error).hint(format!("{} tries again", search.state.revert()))
    })?;
    design.settles = found.map_err(not_possible)?;
    if let Some(longest) = longest_settle(&design.settles) {
        design.settle_ms = u64::try_from(longest.as_millis()).unwrap_or(u64::MAX);
    }
    let took_ms = u64::try_from(watch.clock().since(begun).as_millis()).unwrap_or(u64::MAX);
    design.budget.time_ms = design.budget.time_ms.map(|time_ms| time_ms.saturating_sub(took_ms));
    check(design)?;
    Ok(design.settles.iter().any(|found| matches!(found.settle.how, SettleHow::Guessed { .. })))
}
