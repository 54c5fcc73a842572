//! The hit boxes of all players during the last 250 ms, so that a shot is judged by what the shooter saw.
//! The frames are in a ring that never grows.
//! Between two frames the hit boxes are interpolated, as a client draws them between two snapshots.

use crate::game::player::Slot;
use crate::game::shape::{Capsule, Ray};
use crate::game::skeleton::{Bone, REACH_MM};

pub use crate::game::player::{Figure, View};

/// How far back the history goes, in milliseconds.
pub const HISTORY_MS: u32 = 250;

/// The result of a shot that hit.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Hit {
    /// The player that the shot hit.
    pub slot: Slot,
    /// The bone that the shot hit.
    pub bone: Bone,
    /// The distance, in millimetres.
    pub at_mm: f64,
}

/// A shot to judge.
#[derive(Debug, Clone, Copy)]
pub struct Shot {
    /// The shooter, who cannot hit themselves.
    pub by: Slot,
    /// The path of the shot: from the gun along the aim.
    pub ray: Ray,
    /// The range of the shot, in millimetres: to the next wall.
    pub reach_mm: f64,
}

/// The hit boxes of the last ticks, in a ring.
#[derive(Debug, Clone)]
pub struct History {
    /// `slots` figures per tick.
    figures: Vec<Figure>,
    slots: usize,
    frames: u32,
    newest: u32,
    held: u32,
}

impl History {
    /// Space for `HISTORY_MS` of `slots` bodies, and for the tick that is being computed.
    pub fn new(slots: usize, tick_hz: u32) -> Self {
        let frames = (HISTORY_MS * tick_hz).div_ceil(1_000) + 1;
        Self { figures: vec![Figure::default(); slots * frames as usize], slots, frames, newest: 0, held: 0 }
    }

    /// Begins the frame of `tick`, which must follow the last one, and returns it to be filled in.
    pub fn begin(&mut self, tick: u32) -> &mut [Figure] {
        self.newest = tick;
        self.held = (self.held + 1).min(self.frames);
        let at = self.index(tick);
        &mut self.figures[at..at + self.slots]
    }

    /// The hit boxes of a tick, if the ring still has that tick.
    pub fn frame(&self, tick: u32) -> Option<&[Figure]> {
        let back = self.newest.wrapping_sub(tick);
        let at = self.index(tick);
        (back < self.held).then(|| &self.figures[at..at + self.slots])
    }

    /// This view, or the nearest one in the history. A client cannot ask for a state that is too old, or in the future.
    pub fn held(&self, view: View) -> View {
        let back = self.newest.wrapping_sub(view.tick);
        // A difference of more than half the number range means a tick in the future.
        if back == 0 || back > u32::MAX / 2 {
            return View { tick: self.newest, part: 0 };
        }
        let oldest = self.held.saturating_sub(1);
        if back > oldest { View { tick: self.newest.wrapping_sub(oldest), part: 0 } } else { view }
    }

    /// The first player that the shot hits in the world as it was seen.
    pub fn first_hit(&self, view: View, shot: &Shot) -> Option<Hit> {
        let view = self.held(view);
        let before = self.frame(view.tick)?;
        let after = if view.part == 0 { before } else { self.frame(view.tick.wrapping_add(1)).unwrap_or(before) };
        let mut first: Option<Hit> = None;
        for (slot, (now, then)) in before.iter().zip(after).enumerate() {
            if now.life == 0 || slot == shot.by.0 {
                continue;
            }
            // A player who died or came back between the two frames is at the place in the later frame.
            let then = if then.life == now.life { then } else { now };
            let limit_mm = first.map_or(shot.reach_mm, |hit| hit.at_mm);
            if let Some((bone, at_mm)) = meets(now, then, view.part, &shot.ray, limit_mm) {
                first = Some(Hit { slot: Slot(slot), bone, at_mm });
            }
        }
        first
    }

    fn index(&self, tick: u32) -> usize {
        (tick % self.frames) as usize * self.slots
    }
}

/// The first hit box of a body that a ray meets before `limit_mm`.
fn meets(now: &Figure, then: &Figure, part: u8, ray: &Ray, limit_mm: f64) -> Option<(Bone, f64)> {
    let middle = now.middle.toward(then.middle, part);
    // Test the ball around the body first, before its eleven parts. Halfway between two poses no part is further out than in both.
    let ball = Capsule { a: middle, b: middle, radius_mm: REACH_MM + 10 };
    if ball.hit_mm(ray).is_none_or(|at| at > limit_mm) {
        return None;
    }
    let bones = now.bones.iter().zip(&then.bones).enumerate();
    let hits = bones.filter_map(|(bone, (now, then))| {
        let at = now.toward(then, part).hit_mm(ray)?;
        (at < limit_mm).then_some((Bone(bone as u8), at))
    });
    // At equal distances the first bone wins: the head.
    hits.reduce(|best, hit| if hit.1 < best.1 { hit } else { best })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::game::math::Look;
    use crate::game::math::Vector;
    use crate::game::skeleton::Pose;

    fn figure(x_mm: i32, life: u32) -> Figure {
        let pose = Pose { x_mm, y_mm: 5_000, look: Look { yaw: 0x4000, pitch: 0 }, ..Pose::default() };
        Figure { life, middle: pose.middle(), bones: pose.bones() }
    }

    /// A target that runs along x, 100 mm per tick, from tick 1 on, at 50 Hz.
    fn running(ticks: u32) -> History {
        let mut history = History::new(2, 50);
        for tick in 1..=ticks {
            history.begin(tick)[1] = figure(10_000 + 100 * tick as i32, 1);
        }
        history
    }

    fn shot_at(x_mm: i32) -> Shot {
        let ray = Ray { from: Vector::new(x_mm, 1_000, 1_200), toward: Vector::new(0, 1, 0) };
        Shot { by: Slot(0), ray, reach_mm: 50_000.0 }
    }

    #[test]
    fn a_shot_meets_what_was_there_when_it_was_seen() {
        let history = running(30);
        let hits = |x_mm, tick, part| history.first_hit(View { tick, part }, &shot_at(x_mm)).is_some();
        // (place, seen tick, seen part, whether it hits). The target is 350 mm wide at the chest.
        for (x_mm, tick, part, met) in [
            (13_000, 30, 0, true),
            (12_500, 30, 0, false),
            (12_500, 25, 0, true),
            (12_150, 21, 128, true),
            (11_800, 18, 0, true),  // 12 ticks back: 240 ms
            (11_200, 12, 0, false), // longer ago than is remembered
            (11_800, 3, 0, true),   // the oldest there is: tick 17, at 11,700
            (13_000, 99, 0, true),  // not seen yet: as it is now
        ] {
            assert_eq!(hits(x_mm, tick, part), met, "{x_mm} at {tick}+{part}");
        }
        assert!(history.first_hit(View { tick: 30, part: 0 }, &Shot { by: Slot(1), ..shot_at(13_000) }).is_none());
        let short = Shot { reach_mm: 3_000.0, ..shot_at(13_000) };
        assert!(history.first_hit(View { tick: 30, part: 0 }, &short).is_none(), "behind a wall");
    }

    #[test]
    fn no_player_is_hit_between_two_lives() {
        let mut history = running(30);
        history.begin(31)[1] = figure(40_000, 2);
        let at = |x_mm| history.first_hit(View { tick: 30, part: 128 }, &shot_at(x_mm)).map(|hit| hit.slot);
        assert_eq!((at(26_500), at(13_000)), (None, Some(Slot(1))));
    }

    proptest! {
        #[test]
        fn halfway_hits_are_those_of_a_body_halfway(part: u8, offset in -600..600, tick in 20u32..29) {
            // If a pose only moves, the pose in between is the same pose at the place in between.
            let history = running(30);
            let x_mm = 10_000 + 100 * tick as i32 + 100 * i32::from(part) / 256;
            let mut still = History::new(2, 50);
            still.begin(1)[1] = figure(x_mm, 1);
            let shot = shot_at(x_mm + offset);
            let seen = history.first_hit(View { tick, part }, &shot).map(|hit| (hit.slot, hit.bone));
            let there = still.first_hit(View { tick: 1, part: 0 }, &shot).map(|hit| (hit.slot, hit.bone));
            prop_assert_eq!(seen, there);
        }
    }
}
