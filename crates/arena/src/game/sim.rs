//! The match: plain arrays of players, advanced one tick at a time by their inputs.
//! Jobs compute what concerns one player only. Effects on other players are computed in the order of slots.

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};

use crate::game::history::{Figure, History, Hit, Shot, View};
use crate::game::map::{GameMap, Move, centre};
use crate::game::math::{Look, MAX_PITCH, cos, scale, sin};
use crate::game::shape::Ray;
use crate::game::skeleton::{MAX_STANCE, Pose};
use crate::game::visibility::Visibility;
use crate::worker_group::WorkerGroup;

pub use crate::game::player::{Body, Buttons, Fired, PlayerInput, Slot};

const RUN_MM_S: i32 = 5_000;
const CROUCHED_MM_S: i32 = 2_200;
const SHOTS_HZ: u32 = 10;
const RELOAD_S: u32 = 2;
/// Shots in a full magazine.
pub const MAGAZINE: u8 = 30;
const FULL_HEALTH: u8 = 100;
/// The length of one step of both legs, in millimetres.
const GAIT_MM: i32 = 2_400;
/// The time from upright to crouched, in milliseconds.
const CROUCH_MS: u32 = 240;

/// The parameters of a match.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SimConfig {
    /// Seed of the map and of the places where players appear.
    pub seed: u64,
    /// Ticks per second, 10 to 500.
    pub tick_hz: u16,
    /// The maximum number of players at a time, at most 255.
    pub slots: usize,
}

/// The whole match.
#[derive(Debug, Clone)]
pub struct Sim {
    map: GameMap,
    rng: ChaCha8Rng,
    bodies: Vec<Option<Body>>,
    aims: Vec<Option<Hit>>,
    history: History,
    visibility: Visibility,
    tick: u32,
    tick_hz: u32,
    lives: u32,
}

impl Sim {
    /// An empty match. This allocates all memory.
    pub fn new(config: SimConfig) -> Self {
        let tick_hz = u32::from(config.tick_hz.clamp(10, 500));
        let slots = config.slots.min(usize::from(u8::MAX));
        Self {
            map: GameMap::new(config.seed),
            rng: ChaCha8Rng::seed_from_u64(!config.seed),
            bodies: vec![None; slots],
            aims: vec![None; slots],
            history: History::new(slots, tick_hz),
            visibility: Visibility::new(slots, tick_hz),
            tick: 0,
            tick_hz,
            lives: 0,
        }
    }

    /// The number of simulated ticks.
    pub fn tick(&self) -> u32 {
        self.tick
    }

    /// The map.
    pub fn map(&self) -> &GameMap {
        &self.map
    }

    /// The past hit boxes of all players.
    pub fn history(&self) -> &History {
        &self.history
    }

    /// Which players each player sees.
    pub fn visibility(&self) -> &Visibility {
        &self.visibility
    }

    /// The player in `slot`, if any.
    pub fn player(&self, slot: Slot) -> Option<&Body> {
        self.bodies.get(slot.0)?.as_ref()
    }

    /// All players with their slots, in order.
    pub fn players(&self) -> impl Iterator<Item = (Slot, &Body)> {
        let numbered = self.bodies.iter().enumerate();
        numbered.filter_map(|(slot, body)| Some((Slot(slot), body.as_ref()?)))
    }

    /// Puts a new player into `slot`.
    pub fn join(&mut self, Slot(slot): Slot) {
        let body = self.fresh();
        if let Some(place) = self.bodies.get_mut(slot) {
            *place = Some(body);
        }
    }

    /// Empties `slot`.
    pub fn leave(&mut self, Slot(slot): Slot) {
        if let Some(place) = self.bodies.get_mut(slot) {
            *place = None;
        }
    }

    /// Sets the input of the player in `slot` from the next tick on. An input older than the newest one is ignored.
    pub fn set_input(&mut self, Slot(slot): Slot, sequence: u32, input: PlayerInput) {
        if let Some(Some(body)) = self.bodies.get_mut(slot)
            && sequence >= body.input_sequence
        {
            body.input = input;
            body.input_sequence = sequence;
        }
    }

    /// Advances the match by one tick.
    /// All players move, then shots land in the order of slots, then dead players return, then visibility is checked.
    pub fn step(&mut self, group: &mut WorkerGroup) {
        self.tick = self.tick.wrapping_add(1);
        let (map, tick_hz, bodies) = (&self.map, self.tick_hz, &mut self.bodies);
        group.each_mut(bodies, |_, body| {
            if let Some(body) = body {
                walk(body, map, tick_hz);
            }
        });
        let bodies = &self.bodies;
        group.each_mut(self.history.begin(self.tick), |slot, figure| {
            *figure = bodies[slot].as_ref().map_or(Figure::default(), Body::figure);
        });
        self.pull_triggers();
        let (map, history, bodies) = (&self.map, &self.history, &self.bodies);
        group.each_mut(&mut self.aims, |slot, aim| {
            let body = bodies[slot].as_ref().filter(|body| body.shot.is_some());
            *aim = body.and_then(|body| aimed_at(map, history, Slot(slot), body));
        });
        for slot in 0..self.aims.len() {
            if let Some(hit) = self.aims[slot].take() {
                self.land(slot, hit);
            }
        }
        (0..self.bodies.len()).for_each(|slot| self.maybe_return(slot));
        self.visibility.look(group, self.tick, &self.map, &self.bodies);
    }

    /// The player that a shot of `slot` would hit in the current world, without rewinding.
    pub fn aim_now(&self, slot: Slot) -> Option<Hit> {
        let body = *self.player(slot)?;
        let view = View { tick: self.tick, part: 0 };
        aimed_at(&self.map, &self.history, slot, &Body { input: PlayerInput { view, ..body.input }, ..body })
    }

    /// A hash of the whole state.
    pub fn state_hash(&self) -> u64 {
        let mut hash = Fnv::default();
        hash.write(&self.tick.to_le_bytes());
        for (slot, body) in self.players() {
            let Pose { x_mm, y_mm, look, gait, stride, stance } = body.pose;
            hash.write(&[slot.0 as u8, body.health, body.ammo, stride, stance]);
            for word in [x_mm as u32, y_mm as u32, body.life, body.input_sequence, body.wait_ticks, body.return_ticks] {
                hash.write(&word.to_le_bytes());
            }
            for word in [look.yaw, look.pitch as u16, gait, body.score] {
                hash.write(&word.to_le_bytes());
            }
        }
        hash.0
    }

    /// Finds who fires in this tick, and how far the world is rewound for each shot.
    fn pull_triggers(&mut self) {
        let (reload_ticks, shot_ticks) = (RELOAD_S * self.tick_hz, self.tick_hz / SHOTS_HZ);
        for body in self.bodies.iter_mut().flatten() {
            body.shot = None;
            body.wait_ticks = body.wait_ticks.saturating_sub(1);
            let pressed = |mask| body.input.buttons.any(mask);
            if !body.alive() || body.wait_ticks > 0 {
                continue;
            }
            if body.ammo == 0 || (pressed(Buttons::RELOAD) && body.ammo < MAGAZINE) {
                (body.ammo, body.wait_ticks) = (MAGAZINE, reload_ticks);
            } else if pressed(Buttons::SHOOT) {
                (body.ammo, body.wait_ticks) = (body.ammo - 1, shot_ticks);
                let held = self.history.held(body.input.view);
                let rewound = self.tick.wrapping_sub(held.tick).saturating_mul(256).saturating_sub(held.part.into());
                // A view in the future becomes the present, and does not count as too old.
                let too_old = held != body.input.view && held.tick != self.tick;
                body.shot = Some(Fired { rewound, too_old, hit: None });
            }
        }
    }

    fn land(&mut self, shooter: usize, hit: Hit) {
        let tick_hz = self.tick_hz;
        let Some(Some(target)) = self.bodies.get_mut(hit.slot.0) else {
            return;
        };
        // The target died by an earlier slot's shot of this tick, or by a shot that was seen later.
        if !target.alive() {
            return;
        }
        target.health = target.health.saturating_sub(hit.bone.damage());
        let is_out = !target.alive();
        if is_out {
            target.return_ticks = tick_hz;
        }
        if let Some(Some(body)) = self.bodies.get_mut(shooter) {
            if let Some(fired) = &mut body.shot {
                fired.hit = Some(hit.slot.0 as u8);
            }
            body.score = body.score.saturating_add(u16::from(is_out));
        }
    }

    fn maybe_return(&mut self, slot: usize) {
        let Some(Some(body)) = self.bodies.get_mut(slot) else {
            return;
        };
        if body.alive() {
            return;
        }
        body.return_ticks = body.return_ticks.saturating_sub(1);
        if body.return_ticks > 0 {
            return;
        }
        let old = *body;
        let fresh = self.fresh();
        self.bodies[slot] = Some(Body {
            score: old.score,
            input: old.input,
            input_sequence: old.input_sequence,
            shot: old.shot,
            ..fresh
        });
    }

    fn fresh(&mut self) -> Body {
        let (x_mm, y_mm) = centre(self.map.open_place(self.rng.next_u32()));
        self.lives += 1;
        let pose = Pose { x_mm, y_mm, ..Pose::default() };
        Body { pose, health: FULL_HEALTH, life: self.lives, ammo: MAGAZINE, ..Body::default() }
    }
}

/// The shot of `body` in the world as it was seen.
fn aimed_at(map: &GameMap, history: &History, by: Slot, body: &Body) -> Option<Hit> {
    let ray = Ray { from: body.pose.eye(), toward: body.pose.look.direction() };
    let shot = Shot { by, ray, reach_mm: map.reach_mm(&ray) };
    history.first_hit(body.input.view, &shot)
}

/// Moves a body by one tick of its input.
fn walk(body: &mut Body, map: &GameMap, tick_hz: u32) {
    if !body.alive() {
        body.pose.stride = 0;
        return;
    }
    let buttons = body.input.buttons;
    let look = body.input.look;
    body.pose.look = Look { pitch: look.pitch.clamp(-MAX_PITCH, MAX_PITCH), ..look };
    let crouch_step = (u32::from(MAX_STANCE) * 1_000).div_ceil(CROUCH_MS * tick_hz).max(1) as u8;
    body.pose.stance = match buttons.any(Buttons::CROUCH) {
        true => body.pose.stance.saturating_add(crouch_step).min(MAX_STANCE),
        false => body.pose.stance.saturating_sub(crouch_step),
    };
    let speed_mm_s = if body.pose.stance > MAX_STANCE / 2 { CROUCHED_MM_S } else { RUN_MM_S };
    let axis = |plus, minus| i32::from(buttons.any(plus)) - i32::from(buttons.any(minus));
    let (ahead, left) = (axis(Buttons::FORWARD, Buttons::BACK), axis(Buttons::LEFT, Buttons::RIGHT));
    let step_mm = speed_mm_s / tick_hz as i32;
    // Diagonals are as fast as straight lines: 181/256 is the square root of a half.
    let step_mm = if ahead != 0 && left != 0 { step_mm * 181 / 256 } else { step_mm };
    let (cos, sin) = (cos(look.yaw), sin(look.yaw));
    let by = (scale(step_mm, ahead * cos - left * sin), scale(step_mm, ahead * sin + left * cos));
    let (x_mm, y_mm) = map.slide(Move { from: (body.pose.x_mm, body.pose.y_mm), by });
    let moves = (ahead, left) != (0, 0);
    (body.pose.x_mm, body.pose.y_mm) = (x_mm, y_mm);
    body.pose.stride = if moves { (speed_mm_s * 255 / RUN_MM_S) as u8 } else { 0 };
    let walked = if moves { step_mm * 65_536 / GAIT_MM } else { 0 };
    body.pose.gait = body.pose.gait.wrapping_add(walked as u16);
}

/// The hash FNV-1a, with the current value.
#[derive(Debug, Clone, Copy)]
pub struct Fnv(pub u64);

impl Default for Fnv {
    fn default() -> Self {
        Self(0xcbf2_9ce4_8422_2325)
    }
}

impl Fnv {
    /// Adds these bytes to the hash.
    pub fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3);
        }
    }
}

#[cfg(test)]
#[path = "sim_tests.rs"]
mod tests;
