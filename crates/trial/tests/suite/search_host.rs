//! Searches on a captured machine. Real knobs are switched, journalled and restored, while the server is simulated with known effects.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use evenkeel_change::{State, Which, revert};
use evenkeel_host::{AdviceContext, Facts, Plan, Setting};
use evenkeel_hostfs::{Capture, Root};
use evenkeel_trial::search::{
    Answer, Budget, Candidate, ClassSettle, Evidence, GoalFile, Header, HostWords, KnobOutcome, Live, Log,
    SearchCaveat, SearchDesign, SearchEnded, Settling, Stage, Tools, Verdict, Wanted, WorkloadSpec, longest_settle,
    offer, search,
};
use evenkeel_trial::{Arm, Level, Reach, Rules, SettleHow, SettleSeen, Switch, Watch};
use evenkeel_workload::{Metric, Sample, Workload, WorkloadError};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

const HOST: &str = "evenkeel-capture 1
@uname =
| release=6.18.1
| machine=x86_64
/sys/module/haltpoll/parameters/guest_halt_poll_ns = 0
/sys/devices/system/cpu/cpuidle/current_driver = haltpoll
/sys/kernel/mm/transparent_hugepage/enabled = always [madvise] never
/proc/sys/vm/swappiness = 60
/proc/sys/net/core/busy_poll = 0
/proc/sys/vm/stat_interval = 1
/proc/loadavg = 0.00 0.00 0.00 1/80 900
end
";
const METRIC: Metric = Metric::us("round_trip_us_p50", "median round trip");
const POLL: &str = "/sys/module/haltpoll/parameters/guest_halt_poll_ns";
const SWAPPINESS: &str = "/proc/sys/vm/swappiness";
const FILES: [&str; 5] = [
    POLL,
    SWAPPINESS,
    "/sys/kernel/mm/transparent_hugepage/enabled",
    "/proc/sys/net/core/busy_poll",
    "/proc/sys/vm/stat_interval",
];

/// State that all servers of one search share, so that the noise continues when a server ends.
struct Nature {
    noise: ChaCha8Rng,
    starts: usize,
    /// Whether a swappiness of 10 makes the server end.
    dies_of_swappiness: bool,
    /// The windows, counted from 1, in which the server ends with any settings.
    dies_in: Vec<usize>,
    /// Whether a new server cannot be started.
    is_gone: bool,
    /// Whether new sockets were opened since the last window.
    reopened: bool,
    /// For each window: the wait before it, and whether the sockets were new.
    waits: Vec<(Duration, bool)>,
}

/// A server that is faster the more the guest polls, up to 400 us. Its process has one property.
struct Mock {
    root: Root,
    nature: Rc<RefCell<Nature>>,
}

impl Workload for Mock {
    fn describe(&self) -> String {
        "mock".into()
    }

    fn metrics(&self) -> &[Metric] {
        const { &[METRIC] }
    }

    fn set_process(&mut self, knob: &str, value: Option<&str>) -> Result<String, WorkloadError> {
        match knob {
            "process.timer_slack_ns" => Ok(value.unwrap_or("50000").to_owned()),
            _ => Err(WorkloadError::Program { program: "mock".into(), why: "it has no such thing".into() }),
        }
    }

    fn reopen(&mut self) -> Result<(), WorkloadError> {
        self.nature.borrow_mut().reopened = true;
        Ok(())
    }

    fn window(&mut self, settle: Duration, _: Duration, begin: &mut dyn FnMut()) -> Result<Sample, WorkloadError> {
        begin();
        let mut nature = self.nature.borrow_mut();
        let reopened = std::mem::take(&mut nature.reopened);
        nature.waits.push((settle, reopened));
        let by_itself = nature.dies_in.contains(&nature.waits.len());
        if by_itself || nature.dies_of_swappiness && self.root.text(SWAPPINESS).unwrap() == "10\n" {
            return Err(WorkloadError::Program { program: "mock".into(), why: "it ended (exit status: 9)".into() });
        }
        let poll_ns: f64 = self.root.text(POLL).unwrap().trim().parse().unwrap();
        let noise = (0..12).map(|_| nature.noise.random::<f64>()).sum::<f64>() - 6.0;
        let us = 50.0 * (0.03 * noise - 0.5 * poll_ns.min(400_000.0) / 400_000.0).exp();
        Ok(Sample::from([("round_trip_us_p50".to_owned(), us), ("cpu_share".to_owned(), 0.1 + poll_ns / 1e7)]))
    }

    fn stop(&mut self) {}
}

/// A captured machine with its journal and a mock server.
struct Scene {
    root: Root,
    folder: tempfile::TempDir,
    nature: Rc<RefCell<Nature>>,
}

impl Scene {
    fn new(host: &str) -> Scene {
        let nature = Nature {
            noise: ChaCha8Rng::seed_from_u64(5),
            starts: 0,
            dies_of_swappiness: false,
            dies_in: Vec::new(),
            is_gone: false,
            reopened: false,
            waits: Vec::new(),
        };
        let root = Root::captured(Capture::parse(host).unwrap());
        Scene { root, folder: tempfile::tempdir().unwrap(), nature: Rc::new(RefCell::new(nature)) }
    }

    fn readings(&self) -> Vec<String> {
        FILES.iter().map(|file| self.root.text(file).unwrap()).collect()
    }

    fn server(&self) -> Box<dyn Workload> {
        self.nature.borrow_mut().starts += 1;
        Box::new(Mock { root: self.root.clone(), nature: Rc::clone(&self.nature) })
    }

    fn candidates(&self, wanted: &Wanted) -> (Vec<Candidate>, Vec<Plan>) {
        let facts = Facts::probe(&self.root);
        let mut offer = offer(&self.root, &facts, &AdviceContext::default(), wanted);
        offer.keep_what_reaches(&mut *self.server());
        (offer.candidates, offer.plans)
    }

    fn design(&self, candidates: Vec<Candidate>) -> SearchDesign {
        SearchDesign::new(candidates, METRIC, Budget { windows: 1000, time_ms: None }, 11)
    }

    fn search(&self, design: &SearchDesign, plans: &[Plan], log: &mut Log, stop: &dyn Fn() -> bool) -> Answer {
        let mut state = State::open(&self.folder.path().join("state")).unwrap();
        let writer = self.root.writer().unwrap();
        let mut switch = Switch::begin(&self.root, &writer, Some(&mut state), "tune", plans).unwrap();
        let watch = Watch::start(&self.root, plans);
        let revive = || match self.nature.borrow().is_gone {
            true => Err(WorkloadError::Start { program: "mock".into(), why: "it is not there".into() }),
            false => Ok(()),
        };
        let revive = || revive().map(|()| self.server());
        // No time passes in the mock. The real length of a window is the time of a few function calls.
        let rules = Rules { overrun_share_max: f64::INFINITY, ..Rules::default() };
        let workload = self.server();
        let mut live =
            Live { design, plans, switch: &mut switch, workload, revive: &revive, watch: &watch, rules, revivals: 0 };
        let answer = search(design, Tools { subject: &mut live, log, stop, on_progress: &mut |_| {} }).unwrap();
        drop(live);
        switch.end().unwrap();
        answer
    }
}

fn set(answer: &Answer) -> Vec<String> {
    answer.set.iter().flat_map(|chosen| chosen.settings.clone()).collect()
}

#[test]
fn the_knob_that_helps_is_found_among_those_of_the_machine_with_its_best_value() {
    let scene = Scene::new(HOST);
    let before = scene.readings();
    let (candidates, plans) = scene.candidates(&Wanted::All);
    let settings: Vec<&String> = candidates.iter().flat_map(|candidate| &candidate.settings).collect();
    assert!(
        candidates.len() >= 5 && settings.iter().any(|setting| *setting == "process.timer_slack_ns=1"),
        "{settings:?}"
    );
    let answer = scene.search(&scene.design(candidates), &plans, &mut Log::in_memory(Vec::new()), &|| false);
    assert_eq!((answer.verdict, &answer.ended), (Verdict::Better, &SearchEnded::Whole), "{answer:?}");
    assert_eq!(set(&answer), ["haltpoll.guest_halt_poll_ns=400000"]);
    let effect = answer.effect.as_ref().unwrap();
    assert!((0.5..0.7).contains(&effect.ratio) && effect.high.unwrap() < 1.0, "{effect:?}");
    assert!(answer.along["cpu_share"] > 1.2, "the cost is reported: {:?}", answer.along);
    assert_eq!(scene.readings(), before);
}

#[test]
fn a_search_that_is_killed_in_the_middle_is_put_back_by_revert_and_goes_on() {
    let scene = Scene::new(HOST);
    let before = scene.readings();
    let (candidates, plans) = scene.candidates(&Wanted::All);
    let design = scene.design(candidates);
    let path = scene.folder.path().join("tune.jsonl");
    {
        let mut state = State::open(&scene.folder.path().join("state")).unwrap();
        let writer = scene.root.writer().unwrap();
        let mut switch = Switch::begin(&scene.root, &writer, Some(&mut state), "tune", &plans).unwrap();
        let mut log = Log::create(&path, &Header::new(design.clone(), serde_json::Value::Null)).unwrap();
        let watch = Watch::start(&scene.root, &plans);
        let revive = || Ok(scene.server());
        let rules = Rules { overrun_share_max: f64::INFINITY, ..Rules::default() };
        let mut live = Live {
            design: &design,
            plans: &plans,
            switch: &mut switch,
            workload: scene.server(),
            revive: &revive,
            watch: &watch,
            rules,
            revivals: 0,
        };
        let asked = RefCell::new(0);
        let stop = || {
            *asked.borrow_mut() += 1;
            *asked.borrow() > 30
        };
        let tools = Tools { subject: &mut live, log: &mut log, stop: &stop, on_progress: &mut |_| {} };
        let answer = search(&design, tools).unwrap();
        assert_eq!((answer.ended, answer.verdict), (SearchEnded::Stopped, Verdict::NotProved));
        drop(live);
        // As after SIGKILL, nobody ends the session. Only its lock is released.
        std::mem::forget(switch);
    }
    assert_ne!(scene.readings(), before, "the kill came in the middle of an arm");
    let mut state = State::open(&scene.folder.path().join("state")).unwrap();
    let report = revert(&scene.root, &scene.root.writer().unwrap(), &mut state, Which::All).unwrap();
    drop(state);
    assert_eq!(scene.readings(), before, "{report:?}");
    let (header, mut log) = Log::open(&path).unwrap();
    assert_eq!((header.design == design, log.entries().len()), (true, 30));
    let answer = scene.search(&header.design, &plans, &mut log, &|| false);
    assert_eq!(set(&answer), ["haltpoll.guest_halt_poll_ns=400000"]);
    assert_eq!(scene.readings(), before);
}

#[test]
fn a_server_that_dies_of_a_knob_is_started_anew_and_the_knob_taken_out() {
    let scene = Scene::new(HOST);
    let before = scene.readings();
    let (candidates, plans) = scene.candidates(&Wanted::All);
    scene.nature.borrow_mut().dies_of_swappiness = true;
    scene.nature.borrow_mut().starts = 0;
    let at = candidates.iter().position(|candidate| candidate.settings[0] == "vm.swappiness=10").unwrap();
    let answer = scene.search(&scene.design(candidates), &plans, &mut Log::in_memory(Vec::new()), &|| false);
    assert_eq!(answer.knobs[at].outcome, KnobOutcome::Stopped);
    assert_eq!(set(&answer), ["haltpoll.guest_halt_poll_ns=400000"]);
    let starts = scene.nature.borrow().starts;
    assert!((2..=6).contains(&starts), "{starts} starts");
    let is_reported = |caveat: &SearchCaveat| match caveat {
        SearchCaveat::Died { why, .. } => why.contains("it ended (exit status: 9)"),
        _ => false,
    };
    assert!(answer.caveats.iter().any(is_reported), "{:?}", answer.caveats);
    assert_eq!(scene.readings(), before);
}

#[test]
fn a_server_that_ends_by_itself_is_started_anew_and_one_that_can_not_live_ends_the_search_with_its_words() {
    let why = "mock: it ended (exit status: 9)";
    let table: [(&[usize], bool, Option<&str>); 3] = [
        (&[3], false, None),
        (&[3, 4], false, Some("twice in a row on the unchanged machine: mock: it ended (exit status: 9)")),
        (&[3], true, Some("it ended (exit status: 9); a restart failed: start mock: it is not there")),
    ];
    for (dies_in, is_gone, fails) in table {
        let scene = Scene::new(HOST);
        let (candidates, plans) = scene.candidates(&Wanted::All);
        scene.nature.borrow_mut().dies_in = dies_in.to_vec();
        scene.nature.borrow_mut().is_gone = is_gone;
        let answer = scene.search(&scene.design(candidates), &plans, &mut Log::in_memory(Vec::new()), &|| false);
        match (fails, &answer.ended) {
            (None, SearchEnded::Whole) => {
                assert_eq!(set(&answer), ["haltpoll.guest_halt_poll_ns=400000"]);
                assert_eq!(answer.caveats, [SearchCaveat::Died { times: 1, why: why.to_owned() }]);
            }
            (Some(expected), SearchEnded::Failed { why }) => assert!(why.contains(expected), "{dies_in:?}: {why}"),
            (_, ended) => panic!("{dies_in:?}, {is_gone}: {ended:?}"),
        }
    }
}

#[test]
fn a_knob_that_does_not_take_effect_is_reported_and_the_others_continue() {
    // The captured kernel has one clock source. Like a real kernel, it ignores the name of another clock source without an error.
    let host = HOST.replace(
        "end\n",
        "/sys/devices/system/clocksource/clocksource0/current_clocksource = tsc\n\
         /sys/devices/system/clocksource/clocksource0/available_clocksource = tsc kvm-clock\nend\n",
    );
    let scene = Scene::new(&host);
    let named = ["haltpoll.guest_halt_poll_ns=200000", "clocksource=hpet", "vm.swappiness=10"];
    let named = named.map(|text| Setting::parse(text).unwrap()).map(|setting| (setting.knob, Some(setting)));
    let (candidates, plans) = scene.candidates(&Wanted::Named(named.to_vec()));
    assert_eq!(candidates.len(), 3, "{candidates:?}");
    let answer = scene.search(&scene.design(candidates), &plans, &mut Log::in_memory(Vec::new()), &|| false);
    assert!(
        matches!(&answer.knobs[1].outcome, KnobOutcome::Refused { why } if why.starts_with("hpet: ")),
        "{:?}",
        answer.knobs[1]
    );
    assert_eq!(set(&answer), ["haltpoll.guest_halt_poll_ns=400000"]);
    let clock = scene.root.text("/sys/devices/system/clocksource/clocksource0/current_clocksource").unwrap();
    assert_eq!(clock.trim(), "tsc");
}

/// A server that is slow in some windows after each switch, as with cold caches. After new sockets, the server is slow for longer.
struct Slow {
    root: Root,
    seen: Option<String>,
    cold: u32,
}

impl Workload for Slow {
    fn describe(&self) -> String {
        "slow".into()
    }

    fn metrics(&self) -> &[Metric] {
        const { &[METRIC] }
    }

    fn reopen(&mut self) -> Result<(), WorkloadError> {
        self.cold = 3;
        Ok(())
    }

    fn window(&mut self, _: Duration, _: Duration, begin: &mut dyn FnMut()) -> Result<Sample, WorkloadError> {
        begin();
        let now = self.root.text(POLL).unwrap();
        if self.seen.as_ref().is_some_and(|seen| *seen != now) {
            self.cold = self.cold.max(1);
        }
        self.seen = Some(now);
        let us = 50.0 * if self.cold > 0 { 2.0 } else { 1.0 };
        self.cold = self.cold.saturating_sub(1);
        Ok(Sample::from([("round_trip_us_p50".to_owned(), us)]))
    }

    fn stop(&mut self) {}
}

#[test]
fn how_long_a_switch_is_felt_is_found_by_each_way_of_switching_within_the_budget() {
    let host = HOST.replace("/proc/loadavg", "/proc/sys/net/core/busy_read = 0\n/proc/loadavg");
    let scene = Scene::new(&host);
    let facts = Facts::probe(&scene.root);
    let plan = |text: &str| Plan::from_settings(&facts, &[Setting::parse(text).unwrap()]).unwrap();
    let settle = |settings: &[&str], budget: u64, stop: bool| {
        let plans: Vec<Plan> = settings.iter().map(|text| plan(text)).collect();
        let mut state = State::open(&scene.folder.path().join("state")).unwrap();
        let writer = scene.root.writer().unwrap();
        let mut switch = Switch::begin(&scene.root, &writer, Some(&mut state), "settle", &plans).unwrap();
        let mut workload = Slow { root: scene.root.clone(), seen: None, cold: 0 };
        let found = Settling {
            metric: &METRIC,
            window: Duration::from_secs(1),
            smallest_effect_ratio: 0.05,
            budget: Duration::from_secs(budget),
            plans: &plans,
            switch: &mut switch,
            workload: &mut workload,
            watch: &Watch::start(&scene.root, &plans),
            stop: &|| stop,
        }
        .find()
        .unwrap();
        switch.end().unwrap();
        found
    };
    let before = scene.readings();
    let poll = "haltpoll.guest_halt_poll_ns=200000";
    let found_times = |found: &[ClassSettle]| {
        let one = |found: &ClassSettle| (found.class, found.settle.settle_ms, found.settle.how.clone());
        found.iter().map(one).collect::<Vec<_>>()
    };
    // After the switch, one short window of 250 ms is slow.
    assert_eq!(found_times(&settle(&[poll], 1200, false)), [(Some(Reach::AtOnce), 250, SettleHow::Found)]);
    // After new sockets, the settle time is longer. Knobs that take effect at once do not need the longer wait.
    let both = settle(&[poll, "net.core.busy_read=50"], 1200, false);
    assert_eq!(
        found_times(&both),
        [(Some(Reach::AtOnce), 250, SettleHow::Found), (Some(Reach::NewSockets), 750, SettleHow::Found)]
    );
    assert_eq!(both[1].knobs, ["net.core.busy_read"]);
    assert_eq!(longest_settle(&both), Some(Duration::from_millis(750)));
    // A tenth of 120 s is 12 s, which is enough to measure each kind of switch.
    // With less time, all kinds are measured together. With even less time, the settle time is a guess.
    let together = settle(&[poll, "net.core.busy_read=50"], 130, false);
    assert_eq!(found_times(&together), [(None, 750, SettleHow::Found)]);
    let guess = settle(&[poll], 60, false);
    assert!(
        matches!(&guess[0].settle.how, SettleHow::Guessed { why } if why.contains("too much of the budget")),
        "{guess:?}"
    );
    assert_eq!(guess[0].settle.settle_ms, 100);
    assert!(settle(&[poll], 1200, true).is_empty(), "it was stopped");
    assert_eq!(scene.readings(), before);
}

#[test]
fn a_goal_file_is_a_plan_with_its_evidence() {
    let scene = Scene::new(HOST);
    let (candidates, plans) = scene.candidates(&Wanted::All);
    let design = scene.design(candidates);
    let answer = scene.search(&design, &plans, &mut Log::in_memory(Vec::new()), &|| false);
    let facts = Facts::probe(&scene.root);
    let settings: Vec<Setting> = set(&answer).iter().map(|text| Setting::parse(text).unwrap()).collect();
    let plan = evenkeel_change::PlanFile::new(&scene.root, &facts, &settings, "tuned", None).unwrap();
    let spec = WorkloadSpec { name: "arena".into(), placement: "apart".into(), ..WorkloadSpec::default() };
    let host = HostWords::from_facts(&facts);
    let evidence = Evidence::new(&design, (spec, "mock".into()), host.clone(), answer, "2026-11-21 22:00 UTC".into());
    let goal = GoalFile { plan: plan.clone(), evidence };
    let text = goal.text().unwrap();
    let read = GoalFile::parse(&text).unwrap();
    assert_eq!(read.plan, plan);
    assert_eq!(read.evidence.answer.set, goal.evidence.answer.set);
    assert_eq!(
        read.settings().unwrap().iter().map(ToString::to_string).collect::<Vec<_>>(),
        set(&goal.evidence.answer)
    );
    assert_eq!(evenkeel_change::PlanFile::parse(&text).unwrap(), plan, "`evenkeel apply` reads it as any plan");
    assert_eq!(read.differences(&host), Vec::<String>::new());
    let other = HostWords { kernel: Some("5.10".into()), ..host };
    assert_eq!(read.differences(&other), ["kernel: 6.18.1 then, 5.10 now"]);
    for (broken, expected) in [
        (plan.text().unwrap(), "it is a plan without evidence"),
        (text.replace("\"written\"", "\"wrote\""), "read the goal: it has no field \"written\""),
        (text.replacen("\"format\": 1", "\"format\": 7", 1), "does not know format 7"),
        ("[]".to_owned(), "read the plan"),
    ] {
        let message = GoalFile::parse(&broken).unwrap_err().to_string();
        assert!(message.contains(expected), "{message}");
    }
}

#[test]
fn a_switch_waits_only_for_what_the_arms_that_are_compared_take() {
    let host = HOST.replace("/proc/loadavg", "/proc/sys/net/core/busy_read = 0\n/proc/loadavg");
    let scene = Scene::new(&host);
    let named = ["haltpoll.guest_halt_poll_ns=200000", "net.core.busy_read=50", "vm.swappiness=10"];
    let named = named.map(|text| Setting::parse(text).unwrap()).map(|setting| (setting.knob, Some(setting)));
    let (candidates, plans) = scene.candidates(&Wanted::Named(named.to_vec()));
    assert_eq!(candidates.len(), 3, "{candidates:?}");
    let mut design = scene.design(candidates);
    let found = |class, settle_ms| ClassSettle {
        class: Some(class),
        knobs: Vec::new(),
        settle: SettleSeen {
            settle_ms,
            how: SettleHow::Found,
            drift_ratios: Vec::new(),
            step_ms: None,
            interleaves: None,
        },
    };
    design.settles = vec![found(Reach::AtOnce, 250), found(Reach::NewSockets, 750)];
    design.settle_ms = 750;
    scene.nature.borrow_mut().waits.clear();
    let answer = scene.search(&design, &plans, &mut Log::in_memory(Vec::new()), &|| false);
    assert_eq!(set(&answer), ["haltpoll.guest_halt_poll_ns=400000"]);
    let waits = scene.nature.borrow().waits.clone();
    // While all knobs are compared, every switch opens new sockets, even the switch to the unchanged machine.
    // After that comparison, the search drops the knob that needs new sockets.
    let all = answer.windows[&Stage::Baseline] + answer.windows[&Stage::Screen];
    let (long, short) = ((Duration::from_millis(750), true), (Duration::from_millis(250), false));
    assert!(waits[..all].iter().all(|wait| *wait == long), "{waits:?}");
    // The first switch after that may restore this knob.
    assert!(waits.len() > all + 10 && waits[all + 1..].iter().all(|wait| *wait == short), "{waits:?}");
    // A settle time that the user gave applies to every switch. A single settle time for all kinds of switches does too.
    let ways = |ways: &[Reach]| ways.iter().copied().collect();
    assert_eq!(design.settle_after(&ways(&[Reach::AtOnce, Reach::NewSockets])), Duration::from_millis(750));
    assert_eq!(design.settle_after(&ways(&[Reach::AtOnce])), Duration::from_millis(250));
    assert_eq!(design.settle_after(&ways(&[Reach::AtOnce, Reach::Restart])), Duration::from_millis(750));
    design.settles.clear();
    assert_eq!(design.settle_after(&ways(&[Reach::AtOnce])), Duration::from_millis(750));
}

#[test]
fn all_arms_that_are_compared_go_one_path() {
    let host = HOST.replace("/proc/loadavg", "/proc/sys/net/core/busy_read = 0\n/proc/loadavg");
    let scene = Scene::new(&host);
    let facts = Facts::probe(&scene.root);
    let plan = |text: &str| Plan::from_settings(&facts, &[Setting::parse(text).unwrap()]).unwrap();
    let plans = ["haltpoll.guest_halt_poll_ns=200000", "net.core.busy_read=50"].map(plan);
    let mut state = State::open(&scene.folder.path().join("state")).unwrap();
    let writer = scene.root.writer().unwrap();
    let mut switch = Switch::begin(&scene.root, &writer, Some(&mut state), "ways", &plans).unwrap();
    let mut server = scene.server();
    let arm = |poll, read| {
        let level = |on| if on { Level::Planned } else { Level::AsItWas };
        Arm(vec![level(poll), level(read)])
    };
    let (none, both, poll, read) = (arm(false, false), arm(true, true), arm(true, false), arm(false, true));
    // At first, the current state is unknown.
    // Each step has the knobs that are compared from then on, and three arms.
    // Each arm comes with a flag: whether the switch to it opens new sockets.
    type Step<'a> = (Option<&'a [usize]>, [(&'a Arm, bool); 3]);
    let steps: [Step<'_>; 4] = [
        (None, [(&none, true), (&none, true), (&both, true)]),
        (Some(&[0, 1]), [(&both, true), (&poll, true), (&none, true)]),
        (Some(&[1]), [(&none, true), (&read, true), (&read, true)]),
        // The server opens new sockets once more to restore the knob that needs them, and then no more.
        (Some(&[0]), [(&none, true), (&poll, false), (&poll, false)]),
    ];
    for (compared, arms) in steps {
        compared.into_iter().for_each(|compared| switch.compares(compared.iter().copied()));
        for (arm, opens) in arms {
            assert_eq!(switch.ways(arm).contains(&Reach::NewSockets), opens, "{compared:?} {arm:?}");
            switch.to(arm, &mut *server).unwrap();
            assert_eq!(std::mem::take(&mut scene.nature.borrow_mut().reopened), opens, "{compared:?} {arm:?}");
        }
    }
    switch.end().unwrap();
}

#[test]
fn a_server_that_ends_once_wherever_that_is_takes_nothing_from_the_answer() {
    let named = ["haltpoll.guest_halt_poll_ns=200000", "vm.swappiness=10"];
    let named = named.map(|text| Setting::parse(text).unwrap()).map(|setting| (setting.knob, Some(setting)));
    let mut stages = 0;
    for at in (1..=85).step_by(2) {
        let scene = Scene::new(HOST);
        let (candidates, plans) = scene.candidates(&Wanted::Named(named.to_vec()));
        scene.nature.borrow_mut().dies_in = vec![at];
        let answer = scene.search(&scene.design(candidates), &plans, &mut Log::in_memory(Vec::new()), &|| false);
        assert_eq!(set(&answer), ["haltpoll.guest_halt_poll_ns=400000"], "it ended in window {at}: {answer:?}");
        assert_eq!(answer.knobs[1].outcome, KnobOutcome::NoEffect, "it ended in window {at}");
        assert_eq!(answer.caveats.len(), 1, "it ended in window {at}: {:?}", answer.caveats);
        stages = answer.windows.len();
    }
    assert!(stages >= 4, "every stage was met");
}
