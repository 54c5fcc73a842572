//! How a bot plays. It depends on its seed and on the snapshots, never on a clock.
//! The bot walks to places by the shortest way, turns to visible opponents as slowly as a human hand, and shoots when it aims at them.

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};

use crate::game::history::View;
use crate::game::map::{GameMap, Place, centre, place_of};
use crate::game::math::{Look, MAX_PITCH, Vector, heading, root};
use crate::game::path::Paths;
use crate::game::sim::{Buttons, PlayerInput};
use crate::game::visibility::{Entity, team};

/// The maximum turn from one input to the next, in angle units: 14 degrees.
const TURN: i32 = 2_500;
/// A bot shoots if its aim is off by less than this, in angle units: 1.4 degrees.
const ON_TARGET: i32 = 256;
/// The number of inputs between seeing an opponent and shooting.
const REACTION: u32 = 5;
/// The number of inputs for which a bot dodges in one direction.
const COURSE: u32 = 12;
/// A bot that does not move for this many inputs looks for another way.
const STUCK: u32 = 20;
/// A place on the bot's way counts as reached at this distance.
const REACHED_MM: i32 = 300;
const SIGHT_MM: i64 = 45_000;

/// Identifies a bot of a match.
#[derive(Debug, Clone, Copy)]
pub struct BotSeed {
    /// The match's seed.
    pub seed: u64,
    /// The bot's number in the match.
    pub number: u32,
}

/// The part of the match that a bot sees.
#[derive(Debug, Clone, Copy)]
pub struct Shown<'a> {
    /// The bot's own number.
    pub player: u8,
    /// The visible players, including the bot itself.
    pub entities: &'a [Entity],
    /// The time of that state.
    pub view: View,
}

/// One bot.
#[derive(Debug)]
pub struct Bot {
    rng: ChaCha8Rng,
    look: Look,
    way: Vec<Place>,
    next: usize,
    seen_for: u32,
    course: u8,
    course_left: u32,
    stuck_for: u32,
    was_at: (i32, i32),
}

impl Bot {
    /// A bot that has seen nothing yet.
    pub fn new(BotSeed { seed, number }: BotSeed) -> Self {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        rng.set_stream(u64::from(number));
        Self {
            rng,
            look: Look::default(),
            // The longest possible way visits every cell.
            way: Vec::with_capacity(512),
            next: 0,
            seen_for: 0,
            course: 0,
            course_left: 0,
            stuck_for: 0,
            was_at: (0, 0),
        }
    }

    /// The bot's next input.
    pub fn next_input(&mut self, map: &GameMap, paths: &mut Paths, shown: Shown<'_>) -> PlayerInput {
        let own = shown.entities.iter().find(|entity| entity.player == shown.player && entity.alive());
        let Some(own) = own else {
            self.way.clear();
            self.next = 0;
            return PlayerInput { look: self.look, view: shown.view, ..PlayerInput::default() };
        };
        let bits = match self.opponent(map, own, shown.entities) {
            Some(target) => self.fight(own, target),
            None => self.walk(map, paths, own),
        };
        PlayerInput { buttons: Buttons::from_bits(bits), look: self.look, view: shown.view }
    }

    /// The nearest living opponent that is visible.
    fn opponent(&self, map: &GameMap, own: &Entity, entities: &[Entity]) -> Option<Vector> {
        let eye = own.pose().eye();
        let others =
            entities.iter().filter(|other| other.alive() && team(other.player.into()) != team(own.player.into()));
        let chests = others.map(|other| {
            let chest = other.pose().eye().plus(Vector::new(0, 0, -350));
            let square = |d: i32| i64::from(d).pow(2);
            (square(chest.x - eye.x) + square(chest.y - eye.y), other.player, chest)
        });
        let near = chests.filter(|(apart2, ..)| *apart2 < SIGHT_MM.pow(2));
        let seen = near.filter(|(_, _, chest)| map.sees(eye, *chest));
        seen.min_by_key(|(apart2, player, _)| (*apart2, *player)).map(|(_, _, chest)| chest)
    }

    /// Turns to the opponent, dodges, and shoots when it aims at the opponent.
    fn fight(&mut self, own: &Entity, chest: Vector) -> u8 {
        self.seen_for += 1;
        let eye = own.pose().eye();
        let (dx, dy) = (chest.x - eye.x, chest.y - eye.y);
        let apart_mm = root(i64::from(dx).pow(2) + i64::from(dy).pow(2));
        // The hand trembles by half a degree.
        let noise = (self.rng.next_u32() % 180) as i32 - 90;
        let off = self.turn(heading(dx, dy).wrapping_add(noise as u16), heading(apart_mm, chest.z - eye.z) as i16);
        if self.course_left == 0 {
            let pick = self.rng.next_u32();
            let sides = [0, Buttons::LEFT, Buttons::RIGHT, Buttons::LEFT | Buttons::FORWARD];
            self.course = sides[(pick % 4) as usize] | if pick & 0x700 == 0 { Buttons::CROUCH } else { 0 };
            self.course_left = COURSE;
        }
        self.course_left -= 1;
        let shoots = off < ON_TARGET && self.seen_for > REACTION;
        // After a fight, the old way is of no use.
        self.way.clear();
        self.next = 0;
        self.course | if shoots { Buttons::SHOOT } else { 0 }
    }

    /// Walks along the bot's way. At the end of the way it picks another place.
    fn walk(&mut self, map: &GameMap, paths: &mut Paths, own: &Entity) -> u8 {
        self.seen_for = 0;
        let at = (i32::from(own.x_mm), i32::from(own.y_mm));
        let moved_mm = (at.0 - self.was_at.0).abs() + (at.1 - self.was_at.1).abs();
        self.stuck_for = if moved_mm < 20 { self.stuck_for + 1 } else { 0 };
        self.was_at = at;
        while let Some(place) = self.way.get(self.next) {
            let (x, y) = centre(*place);
            if (x - at.0).abs().max((y - at.1).abs()) > REACHED_MM {
                break;
            }
            self.next += 1;
        }
        if self.next >= self.way.len() || self.stuck_for > STUCK {
            let goal = map.open_place(self.rng.next_u32());
            // If there is no way, the bot stands until its next input, and then picks another place.
            let _ = paths.find(map, place_of(at), goal, &mut self.way);
            (self.next, self.stuck_for) = (0, 0);
        }
        let Some(place) = self.way.get(self.next) else {
            return 0;
        };
        let (x, y) = centre(*place);
        let off = self.turn(heading(x - at.0, y - at.1), 0);
        if off < 0x1000 { Buttons::FORWARD } else { 0 }
    }

    /// Turns towards this direction, by at most [`TURN`]. Returns how far off the yaw still is.
    fn turn(&mut self, yaw: u16, pitch: i16) -> i32 {
        let off = i32::from(yaw.wrapping_sub(self.look.yaw) as i16);
        let by = off.clamp(-TURN, TURN);
        self.look.yaw = self.look.yaw.wrapping_add(by as u16);
        let up = i32::from(pitch.clamp(-MAX_PITCH, MAX_PITCH)) - i32::from(self.look.pitch);
        self.look.pitch = (i32::from(self.look.pitch) + up.clamp(-TURN, TURN)) as i16;
        (off - by).abs()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entity(player: u8, (x_mm, y_mm): (i32, i32)) -> Entity {
        Entity { player, x_mm: x_mm as u16, y_mm: y_mm as u16, health: 100, ..Entity::default() }
    }

    #[test]
    fn a_bot_walks_to_places_without_anybody_to_shoot_at() {
        let map = GameMap::new(1);
        let mut paths = Paths::default();
        let mut bot = Bot::new(BotSeed { seed: 1, number: 1 });
        let mut at = centre(map.open_place(9));
        let start = at;
        let mut furthest = 0;
        for _ in 0..600 {
            let entities = [entity(0, at)];
            let input =
                bot.next_input(&map, &mut paths, Shown { player: 0, entities: &entities, view: View::default() });
            assert!(!input.buttons.any(Buttons::SHOOT));
            if input.buttons.any(Buttons::FORWARD) {
                let way = input.look.direction();
                at = map.slide(crate::game::map::Move { from: at, by: (way.x / 100, way.y / 100) });
            }
            furthest = furthest.max((at.0 - start.0).abs() + (at.1 - start.1).abs());
        }
        assert!(furthest > 10_000, "{furthest} mm");
    }

    #[test]
    fn a_bot_turns_to_a_visible_opponent_and_shoots_after_a_moment() {
        let map = GameMap::new(1);
        let place =
            (0..9_999).map(|pick| map.open_place(pick)).find(|(x, y)| (1..5).all(|by| map.is_open((x + by, *y))));
        let (x, y) = centre(place.unwrap());
        let entities = [entity(0, (x, y)), entity(1, (x + 4_000, y)), entity(2, (x + 1_000, y))];
        let mut bot = Bot::new(BotSeed { seed: 1, number: 1 });
        bot.look.yaw = 0x8000;
        let mut paths = Paths::default();
        let mut inputs =
            || bot.next_input(&map, &mut paths, Shown { player: 0, entities: &entities, view: View::default() });
        let shots: Vec<bool> = (0..20).map(|_| inputs().buttons.any(Buttons::SHOOT)).collect();
        assert!(!shots[..12].contains(&true) && shots[15..].iter().all(|shot| *shot), "{shots:?}");
        let dead = entities.map(|other| Entity { health: if other.player == 1 { 0 } else { 100 }, ..other });
        let input = bot.next_input(&map, &mut paths, Shown { player: 0, entities: &dead, view: View::default() });
        assert!(!input.buttons.any(Buttons::SHOOT), "its own team and the dead are left alone");
    }
}
