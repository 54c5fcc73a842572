//! Guards whose numbers come from a source that answers as the test says.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use super::super::goal::{Allow, HostGoal, HostGoalSpec, Rollout, RolloutStatus};
use super::super::rollout::NodeInfo;
use super::super::state::{HostState, HostStateSpec, Release};
use super::*;

type Answer = Result<BTreeMap<String, f64>, NoAnswer>;

/// Gives the same answer to each query, and counts the queries.
#[derive(Clone)]
struct Source {
    answer: Rc<RefCell<Answer>>,
    asked: Rc<Cell<u32>>,
}

impl Metrics for Source {
    fn query(&self, _: &str) -> Answer {
        self.asked.set(self.asked.get() + 1);
        self.answer.borrow().clone()
    }
}

struct Scene {
    goal: HostGoal,
    nodes: Vec<NodeInfo>,
    states: BTreeMap<String, HostState>,
    looks: Looks<Source>,
    source: Source,
}

fn numbers(pairs: &[(&str, f64)]) -> Answer {
    Ok(pairs.iter().map(|(node, number)| ((*node).to_owned(), *number)).collect())
}

impl Scene {
    /// Two nodes and a goal with this many guards.
    fn new(guards: usize) -> Scene {
        let guard = |i: usize| serde_json::json!({ "name": format!("g{i}"), "query": "q", "worse": "higher" });
        let guards: Vec<_> = (0..guards).map(guard).collect();
        let rollout: Rollout = serde_json::from_value(serde_json::json!({ "guards": guards })).unwrap();
        let spec = HostGoalSpec { allow: Allow::Runtime, rollout: Some(rollout), ..HostGoalSpec::default() };
        let mut goal = HostGoal::new("steady", spec);
        goal.metadata.uid = Some("uid".to_owned());
        goal.metadata.generation = Some(1);
        let node = |name: &str| NodeInfo {
            name: name.to_owned(),
            labels: BTreeMap::new(),
            is_ready: true,
            reboot: None,
            owner: None,
        };
        let source = Source { answer: Rc::new(RefCell::new(numbers(&[]))), asked: Rc::default() };
        let looks = Looks::new(Some(source.clone()));
        Scene { goal, nodes: vec![node("vm-1"), node("vm-2")], states: BTreeMap::new(), looks, source }
    }

    /// Releases the goal to the first node, which had these numbers before.
    fn released(mut self, before: &[(&str, f64)]) -> Scene {
        let release = Release { goal: "steady".to_owned(), generation: 1, uid: "uid".to_owned() };
        self.states.insert("vm-1".to_owned(), HostState::new("vm-1", HostStateSpec { released: vec![release] }));
        let state = GuardState { before: numbers(before).unwrap(), ..GuardState::default() };
        let guards = BTreeMap::from([("g0".to_owned(), state)]);
        let status = RolloutStatus { generation: 1, guards, ..RolloutStatus::default() };
        self.goal.status.get_or_insert_default().rollout = Some(status);
        self
    }

    fn look(&mut self) -> Guards {
        let Scene { goal, nodes, states, looks, .. } = self;
        looks.look(&ClusterView { goal, nodes, states, now: 0 })
    }

    /// One step in which all guards are due.
    fn step(&mut self, answer: Answer) -> Guards {
        *self.source.answer.borrow_mut() = answer;
        self.looks.forget("uid");
        self.looks.begin(&BTreeSet::from(["uid".to_owned()]));
        self.look()
    }
}

#[test]
fn each_answer_of_a_source_has_its_outcome_before_and_after_the_release() {
    let other = "the query gives numbers for other hosts only, such as 10.0.0.1:9100; the goal has nodes such as vm-1, \
                 so let the query's label `node` be the name of the node";
    let several = "the query gives several numbers for vm-1, for vm-1:9100 and vm-1:9177; aggregate them, such as \
                   `max by (node) (…)`";
    let unreachable = || NoAnswer::Unreachable("http://p: no complete answer within 5s".to_owned());
    let rows: Vec<(Answer, &str, &str)> = vec![
        (numbers(&[]), "the query gives no number", "the query gives no number"),
        (numbers(&[("10.0.0.1:9100", 1.0)]), other, other),
        (
            numbers(&[("vm-1", f64::NAN), ("vm-2", f64::INFINITY)]),
            "no number above 0 of a node",
            "no number above 0 of a released node",
        ),
        (
            numbers(&[("vm-1", 0.0), ("vm-2", -1.0)]),
            "no number above 0 of a node",
            "no number above 0 of a released node",
        ),
        (numbers(&[("vm-1:9100", 1.0), ("vm-1:9177", 1.0)]), several, several),
        (Err(unreachable()), "http://p: no complete answer within 5s", "http://p: no complete answer within 5s"),
    ];
    for (answer, before, after) in rows {
        let mut scene = Scene::new(1);
        let guards = scene.step(answer.clone());
        assert_eq!(guards.without_numbers, [format!("guard g0: {before}")]);
        assert_eq!(guards.looks, [("g0".to_owned(), GuardLook::NoNumbers)], "the first wave waits");
        let mut scene = Scene::new(1).released(&[("vm-1", 1.0), ("vm-2", 1.0)]);
        let guards = scene.step(answer);
        assert_eq!(guards.without_numbers, [format!("guard g0: {after}")]);
        assert!(guards.looks.iter().all(|(_, look)| *look == GuardLook::NoNumbers), "nothing halts");
        assert_eq!(guards.states["g0"].before.len(), 2, "the numbers from before stay");
    }
    let mut scene = Scene::new(1);
    let guards = scene.step(numbers(&[("vm-1:9100", 2.0), ("vm-2:9100", 3.0), ("of-another-pool", 4.0)]));
    assert_eq!((guards.without_numbers.len(), guards.looks.len()), (0, 0));
    assert_eq!(guards.states["g0"].before, numbers(&[("vm-1", 2.0), ("vm-2", 3.0)]).unwrap());
    let mut scene = Scene::new(1).released(&[("vm-1", 1.0), ("vm-2", 1.0)]);
    let guards = scene.step(numbers(&[("vm-1", 2.0), ("vm-2", f64::NAN)]));
    assert_eq!(guards.looks, [("g0".to_owned(), GuardLook::Well { pairs: 1 })], "a node without a number is left out");
}

#[test]
fn a_source_that_does_not_answer_is_waited_for_once_a_step() {
    let mut scene = Scene::new(10);
    let guards = scene.step(Err(NoAnswer::Unreachable("http://p: no connection".to_owned())));
    assert_eq!((scene.source.asked.get(), guards.without_numbers.len()), (1, 10));
    // An answer that is no use costs no time, so the other guards are asked.
    scene.source.asked.set(0);
    scene.step(Err(NoAnswer::NoNumbers("no".to_owned())));
    assert_eq!(scene.source.asked.get(), 10);
    // Between two queries, the reason stays: otherwise the status would change with each step.
    scene.looks.begin(&BTreeSet::from(["uid".to_owned()]));
    assert_eq!((scene.look().without_numbers.len(), scene.source.asked.get()), (10, 10));
    scene.looks.begin(&BTreeSet::new());
    assert!(scene.looks.last.is_empty(), "the goal is deleted");
}
