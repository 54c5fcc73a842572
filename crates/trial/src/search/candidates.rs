//! The knobs that a search can try on one machine: recommended knobs,
//! knobs with another promising value, or knobs that the user named.
//! Every other knob is left out with its reason.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;

use evenkeel_change::PlanFile;
use evenkeel_host::{
    Action, Advice, AdviceContext, Device, Facts, Knob, Place, Plan, Setting, State, Step, TakesEffect, Values, advise,
    knobs,
};
use evenkeel_hostfs::Root;
use evenkeel_workload::{Workload, WorkloadError};

use super::design::{CANDIDATES_MAX, Candidate};
use super::left_out::{LeftOut, LeftOutReason};
use crate::switch::setting_name;

/// The maximum number of steps of a ladder in each direction.
const STEPS: u32 = 3;

/// The knobs to search among, as the user gave them.
#[derive(Clone, Debug)]
pub enum Wanted {
    /// All knobs that can be tried.
    All,
    /// All knobs, including those of network devices, which may interrupt the user's own connection.
    AllAndNetwork,
    /// These knobs. A knob without a value gets the recommended value or a promising value.
    Named(Vec<(&'static Knob, Option<Setting>)>),
    /// The settings of a guide, one group for each knob.
    /// The search tries only these values, because it judges the guide and seeks no better value.
    Guide {
        /// The groups of settings, one for each knob.
        groups: Vec<Vec<Setting>>,
        /// Whether to try settings of network devices, which may interrupt the user's own connection.
        network_devices: bool,
    },
}

impl Wanted {
    /// Whether the user named the knobs, and therefore knows whether other programs set them.
    fn is_named(&self) -> bool {
        matches!(self, Wanted::Named(_) | Wanted::Guide { .. })
    }
}

/// The knobs that can be tried.
#[derive(Clone, Debug, Default)]
pub struct Offer {
    /// The knobs that can be tried, the most promising first.
    pub candidates: Vec<Candidate>,
    /// The plan of each candidate, in the same order.
    pub plans: Vec<Plan>,
    /// The knobs that cannot be tried, with the reasons.
    pub left_out: Vec<LeftOut>,
}

/// The candidates for the machine of `facts` and `root`.
pub fn offer(root: &Root, facts: &Facts, context: &AdviceContext, wanted: &Wanted) -> Offer {
    let advice = advise(facts, context);
    let mut advised: BTreeMap<&str, Vec<Setting>> = BTreeMap::new();
    let mut order: Vec<&'static Knob> = Vec::new();
    for found in advice.iter().filter(|found| found.state == State::Set) {
        let (Ok(knob), Some(value)) = (knobs::find(found.knob), &found.wanted) else { continue };
        let Ok(value) = knob.check(value) else { continue };
        order.push(knob);
        advised.entry(knob.id).or_default().push(Setting { knob, place: Some(found.place.clone()), value });
    }
    order.extend(worth_a_trial());
    let asked: Vec<(&'static Knob, Vec<Setting>)> = match wanted {
        Wanted::Named(named) => named.iter().map(|(knob, own)| (*knob, own.iter().cloned().collect())).collect(),
        Wanted::Guide { groups, .. } => {
            groups.iter().filter_map(|group| Some((group.first()?.knob, group.clone()))).collect()
        }
        _ => order.into_iter().map(|knob| (knob, Vec::new())).collect(),
    };
    let mut offer = Offer::default();
    let mut seen: Vec<&str> = Vec::new();
    for (knob, own) in asked {
        if seen.contains(&knob.id) {
            continue;
        }
        seen.push(knob.id);
        let tried = match (own.is_empty(), advised.get(knob.id)) {
            (false, _) => Ok(own),
            (true, Some(settings)) => Ok(at_all_places(facts, settings)),
            (true, None) => no_place(&advice, knob, wanted).map_or_else(|| first_value(root, facts, knob), Err),
        };
        let candidate = tried.and_then(|settings| possible(root, facts, wanted, knob, settings));
        match candidate {
            Ok((candidate, plan)) if offer.candidates.len() < CANDIDATES_MAX => {
                offer.candidates.push(candidate);
                offer.plans.push(plan);
            }
            Ok(_) => offer.leave_out(knob.id, LeftOutReason::TooMany { candidates: CANDIDATES_MAX }),
            Err(why) => offer.leave_out(knob.id, why),
        }
    }
    offer
}

impl Offer {
    fn leave_out(&mut self, knob: &str, why: LeftOutReason) {
        self.left_out.push(LeftOut { knob: knob.to_owned(), why });
    }

    /// Checks a setting of the workload itself. Only the workload knows the current value, which is the first value of the ladder.
    fn try_setting(&mut self, at: usize, step: &Step, workload: &mut dyn Workload) -> Result<(), LeftOutReason> {
        let mut set = |value: Option<&str>| match setting_name(&step.knob) {
            None => workload.set_process(&step.knob, value),
            Some(name) => workload.configure(&[(name, value)]).map(|in_force| in_force.join(" ")),
        };
        let current = words(set(Some(&step.wanted)).and_then(|_| set(None)))?;
        if current == step.wanted {
            return Err(LeftOutReason::AlreadyInForce);
        }
        let ways = &mut self.candidates[at].ways;
        match setting_name(&step.knob) {
            None => ways.retain(|way| way.first() != Some(&current)),
            Some(_) => *ways = numbers(0..=i64::MAX, Some(&current), &step.wanted),
        }
        Ok(())
    }

    /// Removes candidates that this workload can't switch because they need a process property, new sockets, or a restart.
    pub fn keep_what_reaches(&mut self, workload: &mut dyn Workload) {
        // Ask the workload only once for each kind, because a restart takes long.
        let (mut reopens, mut restarts) = (None::<Result<(), LeftOutReason>>, None::<Result<(), LeftOutReason>>);
        let mut at = 0;
        while at < self.plans.len() {
            let Some(step) = self.plans[at].steps.first().cloned() else {
                at += 1;
                continue;
            };
            let is_process = self.plans[at].steps.iter().any(|step| step.action == Action::Process);
            let reached = match knobs::find(&step.knob).map(|knob| knob.takes_effect) {
                Err(_) => self.try_setting(at, &step, workload),
                Ok(_) if is_process => words(workload.set_process(&step.knob, None)).map(drop),
                Ok(TakesEffect::NewSockets) => reopens.get_or_insert_with(|| words(workload.reopen())).clone(),
                Ok(TakesEffect::ProcessStart) => restarts.get_or_insert_with(|| words(workload.restart())).clone(),
                Ok(_) => Ok(()),
            };
            match reached {
                Ok(()) => at += 1,
                Err(why) => {
                    self.candidates.remove(at);
                    self.plans.remove(at);
                    self.leave_out(&step.knob, why);
                }
            }
        }
    }
}

/// Converts a workload's error to the reason why the workload can't switch a knob.
fn words<T>(result: Result<T, WorkloadError>) -> Result<T, LeftOutReason> {
    result.map_err(|error| match error {
        WorkloadError::Program { why, .. } | WorkloadError::Switch { why, .. } => {
            LeftOutReason::Workload(format!("the workload: {why}"))
        }
        other => LeftOutReason::Workload(other.to_string()),
    })
}

/// Replaces settings at every place by an equivalent setting without a place, if all places have the same value.
fn at_all_places(facts: &Facts, settings: &[Setting]) -> Vec<Setting> {
    let Some(first) = settings.first() else { return Vec::new() };
    let whole = Setting { place: None, ..first.clone() };
    let places = Plan::from_settings(facts, std::slice::from_ref(&whole)).map_or(0, |plan| plan.steps.len());
    let is_same = places == settings.len() && settings.iter().all(|setting| setting.value == first.value);
    if is_same { vec![whole] } else { settings.to_vec() }
}

/// The reason why a knob cannot have an effect here. None if the user named the knob, or if the advice does not say so for each place.
fn no_place(advice: &[Advice], knob: &Knob, wanted: &Wanted) -> Option<LeftOutReason> {
    let mut found = advice.iter().filter(|found| found.knob == knob.id);
    let first = found.clone().next().filter(|_| !wanted.is_named())?;
    let is_out = |found: &Advice| matches!(found.state, State::NotHere | State::Removed | State::Blocked);
    found.all(is_out).then(|| LeftOutReason::Advice(first.reason.clone()))
}

/// Knobs whose current value is right by all known facts, although another value may help some servers.
/// Knobs with the largest known effects come first.
/// Among equal knobs, those that are easiest to try come first.
fn worth_a_trial() -> Vec<&'static Knob> {
    let mut found: Vec<&Knob> =
        knobs::ALL.iter().copied().filter(|knob| !knob.extras.worth_a_trial.is_empty()).collect();
    found.sort_by_key(|knob| (knob.effect(), knob.when()));
    found
}

/// The first value that is worth a trial and differs from the current value.
fn first_value(root: &Root, facts: &Facts, knob: &'static Knob) -> Result<Vec<Setting>, LeftOutReason> {
    let setting = |value: &&str| Setting { knob, place: None, value: (*value).to_owned() };
    let is_so = |setting: &Setting| {
        let plan = PlanFile::new(root, facts, std::slice::from_ref(setting), "", None);
        plan.is_ok_and(|plan| plan.steps.iter().all(|step| step.already_so))
    };
    let found = knob.extras.worth_a_trial.iter().map(setting).find(|setting| !is_so(setting));
    found.map(|setting| vec![setting]).ok_or(LeftOutReason::NoValue)
}

/// Checks whether a trial can switch this setting of a guide here.
///
/// # Errors
/// Returns the reason why no trial can switch the setting, as `tune` prints it for settings that it leaves out.
pub fn switchable(root: &Root, facts: &Facts, setting: &Setting, network_devices: bool) -> Result<(), LeftOutReason> {
    let wanted = Wanted::Guide { groups: Vec::new(), network_devices };
    possible(root, facts, &wanted, setting.knob, vec![setting.clone()]).map(|_| ())
}

/// The candidate of these settings, or the reason why they can't be tried here.
fn possible(
    root: &Root,
    facts: &Facts,
    wanted: &Wanted,
    knob: &'static Knob,
    settings: Vec<Setting>,
) -> Result<(Candidate, Plan), LeftOutReason> {
    if matches!(wanted, Wanted::All | Wanted::Guide { network_devices: false, .. }) && is_of_a_network_device(knob) {
        return Err(LeftOutReason::NetworkDevice);
    }
    if knob.takes_effect == TakesEffect::NewInterfaces {
        return Err(LeftOutReason::NewInterfaces);
    }
    let file = PlanFile::new(root, facts, &settings, "", None).map_err(|error| LeftOutReason::NoPlan(error.why))?;
    for planned in &file.steps {
        match &planned.step.action {
            Action::KernelArgument { .. } => return Err(LeftOutReason::NeedsReboot),
            Action::ByHand { todo } => return Err(LeftOutReason::ByHand { todo: todo.clone() }),
            Action::Write { .. } | Action::Hold { .. } | Action::Process => {}
        }
        if let Some(why) = planned.unseen.as_ref().or(planned.blocked.as_ref()) {
            return Err(LeftOutReason::Unreadable(why.clone()));
        }
        // If the user named the knob, the user knows that another program sets the knob.
        // Otherwise the search leaves out the knob, because the other program may reset it during the search.
        if let (Some(owner), false) = (&planned.owned, wanted.is_named()) {
            return Err(LeftOutReason::Owned(owner.clone()));
        }
    }
    if file.steps.iter().all(|planned| planned.already_so) {
        return Err(LeftOutReason::AlreadyInForce);
    }
    let current = file.steps.first().and_then(|planned| planned.seen.as_deref());
    let sought = settings.first().filter(|_| !matches!(wanted, Wanted::Guide { .. }));
    let ways = sought.map_or_else(Vec::new, |setting| {
        // A further value may exceed the machine's limits even if the requested value does not.
        let fits =
            |value: &String| Plan::from_settings(facts, &[Setting { value: value.clone(), ..setting.clone() }]).is_ok();
        let ways = rungs(knob, current, &setting.value).into_iter();
        ways.map(|way| way.into_iter().take_while(fits).collect()).filter(|way: &Vec<String>| !way.is_empty()).collect()
    });
    let candidate = Candidate { settings: settings.iter().map(ToString::to_string).collect(), ways };
    Ok((candidate, file.plan()))
}

fn is_of_a_network_device(knob: &Knob) -> bool {
    matches!(
        knob.place,
        Place::EachNetworkIrq
            | Place::Each { device: Device::Interface | Device::ReceiveQueue | Device::TransmitQueue, .. }
    )
}

/// Further values to try after the requested value.
/// For numbers: halves and doubles within the knob's range, on the same side of the current value as the requested value.
/// For words: each other word.
pub fn rungs(knob: &'static Knob, current: Option<&str>, wanted: &str) -> Vec<Vec<String>> {
    match knob.values {
        Values::Number { min, max, .. } if max > 1 => numbers(min..=max, current, wanted),
        Values::Words(words) => {
            let others = words.iter().filter(|word| **word != wanted && Some(**word) != current);
            others.map(|word| vec![(*word).to_owned()]).collect()
        }
        _ => Vec::new(),
    }
}

/// The halves and doubles of a requested number.
fn numbers(bounds: RangeInclusive<i64>, current: Option<&str>, wanted: &str) -> Vec<Vec<String>> {
    let Ok(from) = wanted.parse::<i64>() else { return Vec::new() };
    let current = current.and_then(|text| text.parse::<i64>().ok());
    let fits = |value: &i64| {
        let beyond = current.is_none_or(|current| (*value > current) == (from > current) && *value != current);
        bounds.contains(value) && *value != from && beyond
    };
    let up = (1..=STEPS).map_while(|step| from.checked_mul(1 << step));
    let down = (1..=STEPS).map(|step| from >> step).filter(|value| *value != 0);
    let way = |values: Vec<i64>| values.into_iter().take_while(fits).map(|value| value.to_string()).collect();
    [way(up.collect()), way(down.collect())].into_iter().filter(|way: &Vec<String>| !way.is_empty()).collect()
}

#[cfg(test)]
mod tests {
    use evenkeel_hostfs::Capture;

    use super::*;

    const HOST: &str = "evenkeel-capture 1
/sys/module/haltpoll/parameters/guest_halt_poll_ns = 0
/sys/devices/system/cpu/cpuidle/current_driver = haltpoll
/sys/kernel/mm/transparent_hugepage/enabled = always [madvise] never
/proc/sys/vm/swappiness = 60
/proc/sys/net/core/busy_poll = 0
/proc/sys/vm/stat_interval = 1
end
";

    fn wanted_offer(wanted: &Wanted) -> Offer {
        let root = Root::captured(Capture::parse(HOST).unwrap());
        let facts = Facts::probe(&root);
        offer(&root, &facts, &AdviceContext::default(), wanted)
    }

    fn settings(offer: &Offer) -> Vec<String> {
        offer.candidates.iter().flat_map(|candidate| candidate.settings.clone()).collect()
    }

    #[test]
    fn advised_and_promising_knobs_are_offered() {
        let offer = wanted_offer(&Wanted::All);
        let settings = settings(&offer);
        for expected in
            ["vm.stat_interval=10", "haltpoll.guest_halt_poll_ns=200000", "vm.swappiness=10", "thp.enabled=always"]
        {
            assert!(settings.iter().any(|setting| setting == expected), "{expected}: {settings:?}");
        }
        assert_eq!(offer.candidates.len(), offer.plans.len());
        let why = |knob: &str| offer.left_out.iter().find(|left| left.knob == knob).map(|left| &left.why);
        assert!(why("net.core.busy_read").is_some(), "{:?}", offer.left_out);
        // The file exists even without the idle driver that would read it. Then the setting has no effect.
        let without = HOST.replace("current_driver = haltpoll", "current_driver = none");
        let root = Root::captured(Capture::parse(&without).unwrap());
        let facts = Facts::probe(&root);
        let offer = super::offer(&root, &facts, &AdviceContext::default(), &Wanted::All);
        let left = offer.left_out.iter().find(|left| left.knob == "haltpoll.guest_halt_poll_ns").unwrap();
        assert!(left.why.to_string().contains("no idle driver here"), "{left:?}");
    }

    #[test]
    fn only_named_knobs_are_offered() {
        let swappiness = Setting::parse("vm.swappiness=30").unwrap();
        let max_cstate = Setting::parse("cmdline.intel_idle.max_cstate=1").unwrap();
        let so_already = Setting::parse("net.core.busy_poll=0").unwrap();
        let named = [swappiness, max_cstate, so_already].map(|setting| (setting.knob, Some(setting)));
        let poll = knobs::find("haltpoll.guest_halt_poll_ns").unwrap();
        let offer = wanted_offer(&Wanted::Named(named.into_iter().chain([(poll, None)]).collect()));
        assert_eq!(settings(&offer), ["vm.swappiness=30", "haltpoll.guest_halt_poll_ns=200000"]);
        let whys: Vec<_> = offer.left_out.iter().map(|left| &left.why).collect();
        assert_eq!(whys, [&LeftOutReason::NeedsReboot, &LeftOutReason::AlreadyInForce]);
    }

    #[test]
    fn ladders_end_where_the_machine_can_bear_no_more() {
        let pages = "/proc/meminfo = MemTotal: 8388608 kB\n/proc/sys/vm/nr_hugepages = 0\n\
                     /sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages = 0\nend\n";
        let root = Root::captured(Capture::parse(&HOST.replace("end\n", pages)).unwrap());
        let facts = Facts::probe(&root);
        let offered = |text: &str| {
            let setting = Setting::parse(text).unwrap();
            offer(&root, &facts, &AdviceContext::default(), &Wanted::Named(vec![(setting.knob, Some(setting))]))
        };
        let ways = |text: &str| offered(text).candidates[0].ways.clone();
        assert_eq!(ways("vm.nr_hugepages=1000")[0], ["2000"], "4000 would be 8 GiB of 8");
        assert_eq!(ways("vm.nr_hugepages=2000"), [["1000", "500", "250"]]);
        assert!(
            offered("vm.nr_hugepages=4000").left_out[0].why.to_string().starts_with("4000 pages of 2 MiB are 7.8 GiB")
        );
    }

    #[test]
    fn ladders_stay_in_range_and_on_their_side() {
        let table = [
            ("net.core.busy_poll", Some("0"), "50", "100 200 400, 25 12 6"),
            ("vm.swappiness", Some("60"), "10", "20 40, 5 2 1"),
            ("vm.swappiness", Some("60"), "0", ""),
            ("thp.enabled", Some("madvise"), "always", "never"),
            ("kernel.timer_migration", Some("1"), "0", ""),
            ("haltpoll.guest_halt_poll_ns", None, "4000000000", "2000000000 1000000000 500000000"),
        ];
        for (knob, current, wanted, expected) in table {
            let ways = rungs(knobs::find(knob).unwrap(), current, wanted);
            let rungs: Vec<String> = ways.iter().map(|way| way.join(" ")).collect();
            assert_eq!(rungs.join(", "), expected, "{knob} {current:?} {wanted}");
        }
    }
}
