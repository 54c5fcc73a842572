//! The answer: how many sessions fit, the measured curve, what limits the number, and what a session needs.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::drift::{Drift, drift};
use super::search::{Found, Search};
use super::window::{Limit, MachineUse, Window};
use crate::sessions::Session;

/// The machine that sessions share.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Machine {
    /// The number of CPUs that the sessions may use.
    pub cpus: f64,
    /// The memory in MiB.
    pub memory_mib: f64,
}

/// Why the search measured no more windows.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub enum Ended {
    /// Both bounds are proven.
    Proven,
    /// The time was used up.
    Budget,
    /// The user stopped the search.
    Stopped,
    /// A session did not start.
    NoStart {
        /// The session's number, from 1.
        session: u32,
        /// Why the session did not start.
        why: String,
    },
}

/// What limits the number of sessions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub enum EndedBy {
    /// All CPUs were busy.
    Cpu,
    /// The CPU quota of the control group was used up.
    Quota,
    /// The hypervisor gave CPU time to others.
    Steal,
    /// Memory was used up.
    Memory,
    /// Packets found full buffers.
    Packets,
    /// No other limit applies: sessions waited for each other while CPUs were idle.
    Waiting,
    /// Not even one session holds the limits.
    Alone,
}

/// Windows with one number of sessions.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Step {
    /// Running sessions.
    pub sessions: u32,
    /// Windows in which all sessions held the limits.
    pub held: u32,
    /// Windows in which at least one session broke a limit.
    pub broken: u32,
    /// For each limit, the value of the worst session: the median over the windows. `null` if there is no value.
    pub worst: Vec<Option<f64>>,
    /// The use of the machine, on average over the windows.
    pub machine: MachineUse,
}

/// How many sessions fit.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CapacityReport {
    /// The server and its load.
    pub workload: String,
    /// The limits that every session has to hold.
    pub limits: Vec<Limit>,
    /// The length of a window, in milliseconds.
    pub window_ms: u64,
    /// The machine.
    pub machine: Machine,
    /// The answer.
    pub found: Found,
    /// Why the search measured no more windows.
    pub ended: Ended,
    /// What limits the number of sessions; `null` if the limits were never broken.
    pub ended_by: Option<EndedBy>,
    /// Each number of sessions that was tried.
    pub curve: Vec<Step>,
    /// What a session needs, for `evenkeel instances` and `evenkeel pack`; `null` if only one number of sessions was tried.
    pub need: Option<Session>,
    /// The price of a session per hour: the machine's price divided by the number of sessions that fit. Absent without a price, or if none fits.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub price_per_session_hour: Option<f64>,
    /// What to consider before you use the answer.
    pub caveats: Vec<String>,
}

/// A limit of the answer.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
enum Caveat {
    #[error("the load runs on this machine too, and takes from it what players elsewhere would not")]
    LoadHere,
    #[error("not proven: {0} windows were taken, and the edge needs more")]
    NotProven(usize),
    #[error("the limits were never broken: more sessions may fit; --max raises the most")]
    NeverBroken,
    #[error("the limits were never broken before the search ended: more sessions may fit; --budget gives it more time")]
    NotYetBroken,
    #[error("the hypervisor gave {:.1} % of the CPU time to others: at another hour the number may differ", .0 * 100.0)]
    Steal(f64),
    #[error(
        "{0} sessions hold the limits in about half of the windows, and are the most that --max allows: the upper bound is not proven"
    )]
    CloseToMost(u32),
    #[error(
        "the machine changed during the search: with the same number of sessions, later windows were {0}. The interval assumes a machine that \
         does not change, so search again and compare"
    )]
    Drift(&'static str),
    #[error(
        "a window has about {ticks:.0} ticks of a session, so one bad tick of any session breaks the limit {metric}={value}. With many \
         sessions that happens by chance, so more of them may hold the share itself; a longer --window judges it better"
    )]
    ShareByChance { metric: String, value: f64, ticks: f64 },
    #[error("not even one session holds the limits here")]
    NotOne,
    #[error("what a session takes may be too low: it follows also from windows in which the limits were broken")]
    NeedFromBroken,
}

/// The share of a session's ticks that it missed.
const SHARE_OF_TICKS: &str = "missed_ticks_share";

/// Thresholds for what limits the number of sessions. Steal and busy CPUs limit it from these shares on; memory limits it if a smaller
/// share is available.
const STEAL_SHARE_MIN: f64 = 0.02;
const BUSY_SHARE_MIN: f64 = 0.85;
const MEMORY_SHARE_MIN: f64 = 0.05;
/// A quota limits the number if it is used up at least this often per second. The usual period is 100 ms.
const THROTTLED_PER_S_MIN: f64 = 1.0;
/// Full buffers limit the number of sessions if they drop at least this many packets per second.
const DROPS_PER_S_MIN: f64 = 1.0;

/// The server and the machine of a search.
#[derive(Clone, Debug, PartialEq)]
pub struct Subject {
    /// The server and its load.
    pub workload: String,
    /// The limits that every session has to hold.
    pub limits: Vec<Limit>,
    /// The length of a window, in milliseconds.
    pub window_ms: u64,
    /// The machine.
    pub machine: Machine,
    /// The tick rate of a session, if known.
    pub tick_hz: Option<f64>,
    /// Whether evenkeel generates the load on this machine, which takes CPU time from the sessions.
    pub has_load: bool,
    /// The price of the machine in an hour, in any currency.
    pub price_per_hour: Option<f64>,
}

/// Makes the report of all windows.
pub fn report(subject: Subject, search: &Search, windows: &[Window], ended: Ended) -> CapacityReport {
    let curve = curve(&subject.limits, windows);
    let found = search.found();
    let first_broken = curve.iter().find(|step| step.sessions > found.sessions && step.broken >= step.held);
    let ended_by = first_broken.map(|step| ended_by(step, &subject.machine));
    let mut caveats = Vec::new();
    caveats.extend(subject.has_load.then_some(Caveat::LoadHere));
    let steal = windows.iter().map(|window| window.machine.steal_share).sum::<f64>() / windows.len().max(1) as f64;
    caveats.extend((steal >= STEAL_SHARE_MIN).then_some(Caveat::Steal(steal)));
    caveats.extend((ended != Ended::Proven).then_some(Caveat::NotProven(windows.len())));
    // Only a search that ended as `Proven` has tried the maximum number of sessions.
    let never_broken = match ended {
        Ended::Proven => Some(Caveat::NeverBroken),
        Ended::Budget | Ended::Stopped => Some(Caveat::NotYetBroken),
        Ended::NoStart { .. } => None,
    };
    caveats.extend(never_broken.filter(|_| ended_by.is_none() && !windows.is_empty()));
    // At the maximum number of sessions, the search gives up after some windows, because it may not test a larger number.
    let most = curve.last().map(|step| step.sessions);
    let is_close = ended == Ended::Proven && found.at_most.is_none() && ended_by.is_some();
    caveats.extend(most.filter(|_| is_close).map(Caveat::CloseToMost));
    caveats.extend((found.at_most == Some(0)).then_some(Caveat::NotOne));
    caveats.extend(drift(windows, &subject.limits).map(|drift| {
        Caveat::Drift(match drift {
            Drift::Worse => "worse",
            Drift::Better => "better",
        })
    }));
    caveats.extend(share_by_chance(&subject, windows));
    let (need, is_need_sure) = need(&curve, windows, found.sessions, subject.tick_hz);
    caveats.extend((need.is_some() && !is_need_sure).then_some(Caveat::NeedFromBroken));
    CapacityReport {
        workload: subject.workload,
        limits: subject.limits,
        window_ms: subject.window_ms,
        machine: subject.machine,
        found,
        ended,
        ended_by,
        need,
        price_per_session_hour: subject
            .price_per_hour
            .filter(|_| found.sessions > 0)
            .map(|price| price / f64::from(found.sessions)),
        curve,
        caveats: caveats.iter().map(ToString::to_string).collect(),
    }
}

/// Whether windows with several sessions broke only a share that a single bad tick of a window exceeds.
fn share_by_chance(subject: &Subject, windows: &[Window]) -> Option<Caveat> {
    let ticks = subject.tick_hz? * subject.window_ms as f64 / 1000.0;
    let is_coarse = |limit: &Limit| limit.metric == SHARE_OF_TICKS && limit.value * ticks < 1.0;
    let (nth, limit) = subject.limits.iter().enumerate().find(|(_, limit)| is_coarse(limit))?;
    let without = |of: &[Limit]| {
        of.iter().enumerate().filter(|(at, _)| *at != nth).map(|(_, one)| one.clone()).collect::<Vec<_>>()
    };
    let others = without(&subject.limits);
    let breaks_alone = |window: &Window| {
        let mut rest = window.clone();
        rest.worst.remove(nth);
        window.sessions > 1 && !window.is_held(&subject.limits) && rest.is_held(&others)
    };
    let value = limit.value;
    let has_one = windows.iter().filter(|window| window.worst.len() > nth).any(breaks_alone);
    has_one.then(|| Caveat::ShareByChance { metric: limit.metric.clone(), value, ticks })
}

fn curve(limits: &[Limit], windows: &[Window]) -> Vec<Step> {
    let mut by_number: BTreeMap<u32, Vec<&Window>> = BTreeMap::new();
    for window in windows {
        by_number.entry(window.sessions).or_default().push(window);
    }
    let step = |(sessions, windows): (u32, Vec<&Window>)| {
        let held = windows.iter().filter(|window| window.is_held(limits)).count() as u32;
        let worst = |nth: usize| {
            let values: Vec<f64> = windows.iter().filter_map(|window| *window.worst.get(nth)?).collect();
            evenkeel_stats::quantile(&values, 0.5)
        };
        let mean = |of: fn(&MachineUse) -> f64| {
            windows.iter().map(|window| of(&window.machine)).sum::<f64>() / windows.len() as f64
        };
        Step {
            sessions,
            held,
            broken: windows.len() as u32 - held,
            worst: (0..limits.len()).map(worst).collect(),
            machine: MachineUse {
                cpus_busy: mean(|machine| machine.cpus_busy),
                steal_share: mean(|machine| machine.steal_share),
                memory_available_mib: mean(|machine| machine.memory_available_mib),
                udp_drops_per_s: mean(|machine| machine.udp_drops_per_s),
                throttled_per_s: mean(|machine| machine.throttled_per_s),
            },
        }
    };
    by_number.into_iter().map(step).collect()
}

/// Sessions that wait for a CPU also read their packets late, and a hypervisor takes time from CPUs that are in use.
/// So evenkeel checks for busy CPUs before it checks packets and steal.
fn ended_by(step: &Step, machine: &Machine) -> EndedBy {
    let used = &step.machine;
    if step.sessions == 1 {
        EndedBy::Alone
    } else if used.memory_available_mib < machine.memory_mib * MEMORY_SHARE_MIN {
        EndedBy::Memory
    } else if used.throttled_per_s >= THROTTLED_PER_S_MIN {
        EndedBy::Quota
    } else if used.cpus_busy >= machine.cpus * BUSY_SHARE_MIN {
        EndedBy::Cpu
    } else if used.steal_share >= STEAL_SHARE_MIN {
        EndedBy::Steal
    } else if used.udp_drops_per_s > DROPS_PER_S_MIN {
        EndedBy::Packets
    } else {
        EndedBy::Waiting
    }
}

/// The need of a session, and whether it follows only from windows in which the sessions had enough.
/// The need is the slope over the number of sessions: the base load of the machine does not change it.
/// Beyond the edge, sessions get less than they need. So only the numbers up to the edge count, if there are at least two.
fn need(curve: &[Step], windows: &[Window], edge: u32, tick_hz: Option<f64>) -> (Option<Session>, bool) {
    let points = |most: u32, of: fn(&MachineUse) -> f64| -> Vec<(f64, f64)> {
        let steps = curve.iter().filter(|step| step.sessions <= most);
        steps.map(|step| (f64::from(step.sessions), of(&step.machine))).collect()
    };
    let own = |most: u32| -> Option<f64> {
        let counted = windows.iter().filter(|window| window.sessions <= most);
        evenkeel_stats::quantile(&counted.filter_map(|window| window.session_cpus).collect::<Vec<f64>>(), 0.5)
    };
    let cpus = |most: u32| {
        let cpus = own(most).or_else(|| slope(&points(most, |machine| machine.cpus_busy)));
        cpus.filter(|cpus| *cpus > 0.0)
    };
    let memory = |machine: &MachineUse| -machine.memory_available_mib;
    let memory_mib = slope(&points(edge, memory)).or_else(|| slope(&points(u32::MAX, memory)));
    let (sure, all) = (cpus(edge), cpus(u32::MAX));
    let session = |cpus| Session { tick_hz, ..Session::new("session", cpus, memory_mib.filter(|mib| *mib >= 0.1)) };
    (sure.or(all).map(session), sure.is_some())
}

/// The slope by least squares; none for fewer than two different numbers of sessions.
fn slope(points: &[(f64, f64)]) -> Option<f64> {
    let count = points.len() as f64;
    let mean = |of: fn(&(f64, f64)) -> f64| points.iter().map(of).sum::<f64>() / count;
    let (x, y) = (mean(|point| point.0), mean(|point| point.1));
    let spread: f64 = points.iter().map(|point| (point.0 - x).powi(2)).sum();
    let along: f64 = points.iter().map(|point| (point.0 - x) * (point.1 - y)).sum();
    (spread > 0.0).then(|| along / spread)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn subject() -> Subject {
        Subject {
            workload: "a server".to_owned(),
            limits: vec![Limit {
                metric: "tick_lateness_us_p99".to_owned(),
                unit: "us".to_owned(),
                value: 2000.0,
                is_higher_better: false,
            }],
            window_ms: 3000,
            machine: Machine { cpus: 2.0, memory_mib: 4000.0 },
            tick_hz: Some(50.0),
            has_load: true,
            price_per_hour: Some(0.5),
        }
    }

    fn window(sessions: u32, worst: f64, cpus_busy: f64) -> Window {
        let memory_available_mib = 3500.0 - 20.0 * f64::from(sessions);
        let machine = MachineUse { cpus_busy, memory_available_mib, ..MachineUse::default() };
        Window { with_settings: false, sessions, worst: vec![Some(worst)], session_cpus: None, machine }
    }

    fn from_windows(windows: &[Window]) -> CapacityReport {
        let mut search = Search::new(64);
        for window in windows {
            search.add(window.sessions, window.is_held(&subject().limits));
        }
        report(subject(), &search, windows, Ended::Budget)
    }

    #[test]
    fn the_curve_shows_what_ended_it_and_what_a_session_takes() {
        let mut windows: Vec<Window> =
            (1..=10).map(|nth| window(nth, 100.0 * f64::from(nth), 0.15 * f64::from(nth) + 0.1)).collect();
        windows.extend((0..9).map(|_| window(12, 5000.0, 1.9)));
        let report = from_windows(&windows);
        assert_eq!((report.found.sessions, report.found.at_most, report.ended_by), (10, Some(11), Some(EndedBy::Cpu)));
        assert_eq!(report.price_per_session_hour, Some(0.05));
        let need = report.need.unwrap();
        assert!((need.cpus - 0.15).abs() < 0.01 && (need.memory_mib.unwrap() - 20.0).abs() < 0.1, "{need:?}");
        assert_eq!((report.curve.len(), report.curve[10].broken, report.curve[10].worst[0]), (11, 9, Some(5000.0)));
        assert!(report.caveats.iter().any(|caveat| caveat.starts_with("not proven")));
    }

    /// On two CPUs, sessions of 0.12 CPUs are late from 14 on, and 32 of them get 2 CPUs together.
    #[test]
    fn what_a_session_takes_is_not_what_it_gets_beyond_the_edge() {
        let busy = |sessions: u32| (0.12 * f64::from(sessions)).min(2.0);
        let mut windows: Vec<Window> =
            [1, 2, 4, 8].into_iter().map(|sessions| window(sessions, 100.0, busy(sessions))).collect();
        windows.extend([16, 32].map(|sessions| window(sessions, 9000.0, busy(sessions))));
        let found = from_windows(&windows);
        assert_eq!((found.found.sessions, found.ended_by), (8, Some(EndedBy::Cpu)));
        assert!((found.need.unwrap().cpus - 0.12).abs() < 1e-9, "{:?}", found.caveats);
        // A workload that counts its own CPU time.
        let counted: Vec<Window> = windows
            .iter()
            .flat_map(|one| vec![one.clone(); if one.sessions > 8 { 9 } else { 1 }])
            .map(|one| Window { session_cpus: Some(one.machine.cpus_busy / f64::from(one.sessions)), ..one })
            .collect();
        let found = from_windows(&counted);
        assert!((found.need.unwrap().cpus - 0.12).abs() < 1e-9 && found.found.sessions == 8);
        // Of two numbers of sessions, only one holds the limits.
        let found = from_windows(&[window(1, 100.0, 0.5), window(2, 9000.0, 0.6)]);
        assert!((found.need.unwrap().cpus - 0.1).abs() < 1e-9);
        assert!(found.caveats.iter().any(|caveat| caveat.contains("may be too low")), "{:?}", found.caveats);
    }

    #[test]
    fn an_edge_at_the_maximum_is_not_proven() {
        let (mut search, mut windows) = (Search::new(2), Vec::new());
        while let Some(sessions) = search.next().filter(|_| windows.len() < 100) {
            // Two sessions hold the limits in one of three windows.
            let worst = if sessions == 1 || windows.len() % 3 == 0 { 100.0 } else { 9000.0 };
            windows.push(window(sessions, worst, 0.5));
            search.add(sessions, worst < 2000.0);
        }
        assert!(windows.len() < 100);
        let found = report(subject(), &search, &windows, Ended::Proven);
        assert_eq!((found.found.sessions, found.found.at_least, found.found.at_most), (1, 1, None));
        assert!(found.caveats.iter().any(|caveat| caveat.starts_with("2 sessions hold")), "{:?}", found.caveats);
    }

    #[test]
    fn the_cause_comes_before_its_effects() {
        let machine = Machine { cpus: 2.0, memory_mib: 4000.0 };
        let idle = MachineUse { cpus_busy: 0.5, memory_available_mib: 3000.0, ..MachineUse::default() };
        let cases = [
            (idle, EndedBy::Waiting),
            (MachineUse { udp_drops_per_s: 50.0, ..idle }, EndedBy::Packets),
            (MachineUse { steal_share: 0.3, udp_drops_per_s: 50.0, ..idle }, EndedBy::Steal),
            (MachineUse { cpus_busy: 1.9, steal_share: 0.03, udp_drops_per_s: 50.0, ..idle }, EndedBy::Cpu),
            (MachineUse { cpus_busy: 1.0, throttled_per_s: 9.0, udp_drops_per_s: 50.0, ..idle }, EndedBy::Quota),
            (MachineUse { cpus_busy: 1.9, memory_available_mib: 100.0, ..idle }, EndedBy::Memory),
        ];
        for (used, expected) in cases {
            let step = |sessions| Step { sessions, held: 0, broken: 9, worst: Vec::new(), machine: used };
            assert_eq!(ended_by(&step(3), &machine), expected, "{used:?}");
            assert_eq!(ended_by(&step(1), &machine), EndedBy::Alone);
        }
    }

    #[test]
    fn a_session_without_a_value_holds_nothing() {
        let lost = Window { worst: vec![None], ..window(1, 1.0, 0.1) };
        assert!(!lost.is_held(&subject().limits) && window(1, 2000.0, 0.1).is_held(&subject().limits));
        let report = from_windows(&vec![lost; 9]);
        assert_eq!((report.found.sessions, report.found.at_most), (0, Some(0)));
        assert_eq!((report.ended_by, report.need), (Some(EndedBy::Alone), None));
        assert_eq!(report.price_per_session_hour, None);
    }

    #[test]
    fn limits_that_are_never_broken_are_a_caveat() {
        let report = from_windows(&[window(1, 10.0, 0.2), window(1, 10.0, 0.2)]);
        assert_eq!((report.ended_by, report.found.at_most, report.found.sessions), (None, None, 1));
        assert!(
            report.caveats.iter().any(|caveat| caveat.contains("--budget gives it more time")),
            "{:?}",
            report.caveats
        );
        let mut search = Search::new(1);
        (0..8).for_each(|_| search.add(1, true));
        let report = super::report(subject(), &search, &[window(1, 10.0, 0.2)], Ended::Proven);
        assert!(report.caveats.iter().any(|caveat| caveat.contains("--max raises the most")), "{:?}", report.caveats);
    }

    #[test]
    fn a_change_of_the_machine_is_a_caveat() {
        let windows = |step: f64| -> Vec<Window> {
            (0..20).map(|at| window(10 + at % 2, 1500.0 + step * f64::from(at) + f64::from(at * 7 % 5), 1.0)).collect()
        };
        let caveats = |step: f64| from_windows(&windows(step)).caveats.join("; ");
        assert!(
            caveats(50.0).contains("later windows were worse") && caveats(-50.0).contains("later windows were better")
        );
        assert!(!caveats(0.0).contains("the machine changed"), "{}", caveats(0.0));
    }

    /// One of 150 ticks is 0.7 %, so a single missed tick breaks a limit of 0.1 %.
    #[test]
    fn a_share_that_one_bad_tick_breaks_is_a_caveat() {
        let share = Limit {
            metric: SHARE_OF_TICKS.to_owned(),
            unit: "share".to_owned(),
            value: 0.001,
            is_higher_better: false,
        };
        let caveats = |sessions: u32, late: f64, missed: f64, window_ms: u64| {
            let mut asked = Subject { window_ms, ..subject() };
            asked.limits.push(share.clone());
            let windows = [Window { worst: vec![Some(late), Some(missed)], ..window(sessions, 0.0, 1.0) }];
            report(asked, &Search::new(64), &windows, Ended::Stopped).caveats.join("; ")
        };
        let is_one =
            |caveats: String| caveats.contains("one bad tick of any session breaks the limit missed_ticks_share=0.001");
        assert!(is_one(caveats(10, 100.0, 0.0067, 3000)));
        assert!(!is_one(caveats(10, 100.0, 0.0, 3000)), "no window was broken");
        assert!(!is_one(caveats(10, 9000.0, 0.0067, 3000)), "the lateness broke the window too");
        assert!(!is_one(caveats(1, 100.0, 0.0067, 3000)), "a single session");
        assert!(!is_one(caveats(10, 100.0, 0.0067, 20_000)), "1,000 ticks have room for one missed tick");
    }
}
