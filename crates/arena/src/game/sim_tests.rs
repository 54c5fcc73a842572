//! Shots land where the shooter saw the target. The same seed gives the same match, with any number of workers.

use proptest::prelude::*;

use super::*;
use crate::game::skeleton::Bone;

/// Two players that see each other, 6 m apart along x. Nothing is between them, or within 3 m behind the first.
pub(crate) fn duel(tick_hz: u16) -> Sim {
    let mut sim = Sim::new(SimConfig { seed: 1, tick_hz, slots: 2 });
    sim.join(Slot(0));
    sim.join(Slot(1));
    let is_free = |map: &GameMap, (x, y): (i32, i32)| (0..7).all(|by| (-2..3).all(|up| map.is_open((x + by, y + up))));
    let place = (0..99_999).map(|pick| sim.map.open_place(pick)).find(|place| is_free(&sim.map, *place));
    let (x_mm, y_mm) = centre(place.unwrap());
    for (slot, offset) in [(0, 0), (1, 6_000)] {
        let body = sim.bodies[slot].as_mut().unwrap();
        body.pose = Pose { x_mm: x_mm + offset, y_mm, ..Pose::default() };
    }
    sim
}

fn input(sim: &Sim, buttons: u8, look: Look) -> PlayerInput {
    PlayerInput { buttons: Buttons::from_bits(buttons), look, view: View { tick: sim.tick() + 1, part: 0 } }
}

fn step(sim: &mut Sim) {
    sim.step(&mut WorkerGroup::default());
}

#[test]
fn shots_hit_kill_and_the_fallen_return() {
    let mut sim = duel(50);
    let level = Look { yaw: 0, pitch: -400 };
    let shoot = input(&sim, Buttons::SHOOT, level);
    sim.set_input(Slot(0), 1, shoot);
    let mut health = Vec::new();
    for _ in 0..11 {
        step(&mut sim);
        health.push(sim.player(Slot(1)).unwrap().health);
    }
    // A hit in the chest costs 34, and there are ten shots per second.
    assert_eq!(health, [66, 66, 66, 66, 66, 32, 32, 32, 32, 32, 0]);
    let shooter = sim.player(Slot(0)).unwrap();
    assert_eq!((shooter.score, shooter.ammo), (1, MAGAZINE - 3));
    let idle = input(&sim, 0, level);
    sim.set_input(Slot(0), 2, idle);
    for _ in 0..50 {
        step(&mut sim);
    }
    let back = sim.player(Slot(1)).unwrap();
    assert_eq!((back.health, back.ammo), (FULL_HEALTH, MAGAZINE));
}

#[test]
fn the_head_is_deadly_and_an_empty_magazine_is_changed() {
    let mut sim = duel(50);
    let shoot = input(&sim, Buttons::SHOOT, Look::default());
    sim.set_input(Slot(0), 1, shoot);
    step(&mut sim);
    assert_eq!(sim.player(Slot(1)).unwrap().health, 0, "level from eye to eye");
    let shots = (0..149).filter(|_| {
        step(&mut sim);
        sim.player(Slot(0)).unwrap().shot.is_some()
    });
    assert_eq!(shots.count(), usize::from(MAGAZINE) - 1);
    let shots = (0..100).filter(|_| {
        step(&mut sim);
        sim.player(Slot(0)).unwrap().shot.is_some()
    });
    assert!(shots.count() <= 1, "two seconds for a new magazine");
}

#[test]
fn an_older_input_does_not_undo_a_newer() {
    let mut sim = duel(50);
    let shoot = input(&sim, Buttons::SHOOT, Look::default());
    sim.set_input(Slot(0), 5, shoot);
    sim.set_input(Slot(0), 4, PlayerInput::default());
    assert_eq!(sim.player(Slot(0)).unwrap().input, shoot);
    sim.leave(Slot(0));
    sim.set_input(Slot(0), 6, shoot);
    assert_eq!(sim.player(Slot(0)), None);
}

#[test]
fn walking_is_as_fast_in_every_direction_and_slower_crouched() {
    for (buttons, mm) in [
        (Buttons::FORWARD, 1_000),
        (Buttons::LEFT, 1_000),
        (Buttons::FORWARD | Buttons::LEFT, 990),
        (Buttons::FORWARD | Buttons::BACK, 0),
        (Buttons::FORWARD | Buttons::CROUCH, 600),
    ] {
        let mut sim = duel(50);
        let from = sim.player(Slot(0)).unwrap().pose;
        let walk = input(&sim, buttons, Look { yaw: 0x1000, pitch: 0 });
        sim.set_input(Slot(0), 1, walk);
        (0..10).for_each(|_| step(&mut sim));
        let to = sim.player(Slot(0)).unwrap().pose;
        let square = |d: i32| f64::from(d).powi(2);
        let walked = (square(to.x_mm - from.x_mm) + square(to.y_mm - from.y_mm)).sqrt();
        assert!((walked - f64::from(mm)).abs() < 60.0, "{buttons:#b}: {walked} mm");
    }
}

/// The result without the last digits of the distance.
fn summary(hit: Option<Hit>) -> Option<(Slot, Bone, i64)> {
    hit.map(|hit| (hit.slot, hit.bone, hit.at_mm.round() as i64))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// The core of lag compensation: a shot at what the client saw hits exactly what the same shot would have hit in a world
    /// that had stopped at that moment.
    #[test]
    fn a_shot_at_what_was_seen_hits_what_it_would_have_hit_then(
        moves in prop::collection::vec((0u8..48, any::<u16>()), 4),
        seen_at in 10u32..60,
        later in 0u32..12,
        aims in prop::collection::vec((-700i32..700, -900i16..500), 12),
    ) {
        let mut sim = duel(50);
        let watch = |sim: &mut Sim| {
            // The shooter stands still. The target runs about, turns and ducks.
            let (buttons, yaw) = moves[(sim.tick() / 15) as usize % moves.len()];
            let run = input(sim, buttons & !Buttons::SHOOT, Look { yaw, pitch: 0 });
            sim.set_input(Slot(1), sim.tick() + 1, run);
            step(sim);
        };
        (0..seen_at).for_each(|_| watch(&mut sim));
        let then = sim.clone();
        (0..later).for_each(|_| watch(&mut sim));
        let (eye, target) = (then.bodies[0].unwrap().pose.eye(), then.bodies[1].unwrap().pose.middle());
        let yaw = crate::game::math::heading(target.x - eye.x, target.y - eye.y);
        for (off, pitch) in aims {
            let look = Look { yaw: yaw.wrapping_add(off as u16), pitch };
            let shooter = |sim: &Sim, view| {
                let mut body = sim.bodies[0].unwrap();
                body.pose.look = look;
                body.pose.stride = 0;
                body.input = PlayerInput { look, view, ..PlayerInput::default() };
                body
            };
            let view = View { tick: then.tick(), part: 0 };
            let unrewound = aimed_at(&then.map, &then.history, Slot(0), &shooter(&then, view));
            let rewound = aimed_at(&sim.map, &sim.history, Slot(0), &shooter(&sim, view));
            prop_assert_eq!(summary(rewound), summary(unrewound));
        }
    }
}

#[test]
fn how_far_a_shot_was_rewound_is_summary() {
    let mut sim = duel(50);
    (0..40).for_each(|_| step(&mut sim));
    // (256ths of a tick between the seen state and the shot, how far it was rewound, whether that was too old)
    for (back, rewound, too_old) in
        [(0, 0, false), (256, 256, false), (300, 300, false), (3_000, 3_000, false), (9_000, 13 * 256, true)]
    {
        let mut sim = sim.clone();
        let at = (sim.tick() + 1) * 256 - back;
        let view = View { tick: at / 256, part: (at % 256) as u8 };
        let shoot = PlayerInput { view, ..input(&sim, Buttons::SHOOT, Look::default()) };
        sim.set_input(Slot(0), 1, shoot);
        step(&mut sim);
        let fired = sim.player(Slot(0)).unwrap().shot.unwrap();
        assert_eq!((fired.rewound, fired.too_old), (rewound, too_old), "{back} back");
    }
}
