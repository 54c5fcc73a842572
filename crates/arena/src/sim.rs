//! The game itself, pure: the same seed and the same inputs give the same state on every machine, whatever the clock does.

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};

use crate::wire::{Buttons, PlayerInput};
use crate::world::{BODY_MM, Move, Point, Ray, World};

const SPEED_MM_S: i32 = 6_000;
const SHOTS_PER_S: u32 = 10;
const DAMAGE: u8 = 20;
const FULL_HEALTH: u8 = 100;

/// What a simulation is made from.
#[derive(Debug, Clone, Copy)]
pub struct SimConfig {
    /// Places the boxes and picks where players appear.
    pub seed: u64,
    /// Ticks a second, at least 10 (below, a step could jump over a box).
    pub tick_hz: u16,
    /// Most players at a time, at most 255.
    pub slots: usize,
}

/// The place a player holds in the arrays.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Slot(pub usize);

/// One player.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Player {
    /// Millimetres from the west wall.
    pub x_mm: i32,
    /// Millimetres from the south wall.
    pub y_mm: i32,
    /// 0 to 100; 0 while waiting to return.
    pub health: u8,
    /// Others put out of the game.
    pub score: u32,
    /// What it does until the next input.
    pub input: PlayerInput,
    /// Sequence number of `input`; 0 before the first.
    pub input_sequence: u32,
    /// Whether it fired in the last tick.
    pub shot: bool,
    reload_ticks: u32,
    return_ticks: u32,
}

impl Player {
    /// False while it waits to return.
    pub fn alive(&self) -> bool {
        self.health > 0
    }

    fn at(&self) -> Point {
        (self.x_mm, self.y_mm)
    }
}

/// All players, and the ground they stand on.
#[derive(Debug, Clone)]
pub struct Sim {
    world: World,
    rng: ChaCha8Rng,
    players: Vec<Option<Player>>,
    tick: u32,
    tick_hz: u32,
}

impl Sim {
    /// An empty arena.
    pub fn new(config: SimConfig) -> Self {
        Self {
            world: World::new(config.seed),
            rng: ChaCha8Rng::seed_from_u64(!config.seed),
            players: vec![None; config.slots.min(usize::from(u8::MAX))],
            tick: 0,
            tick_hz: u32::from(config.tick_hz.max(10)),
        }
    }

    /// Ticks simulated so far.
    pub fn tick(&self) -> u32 {
        self.tick
    }

    /// The player in `slot`, if any.
    pub fn player(&self, slot: usize) -> Option<&Player> {
        self.players.get(slot)?.as_ref()
    }

    /// All players with their slots, in order.
    pub fn players(&self) -> impl Iterator<Item = (usize, &Player)> {
        let numbered = self.players.iter().enumerate();
        numbered.filter_map(|(slot, player)| Some((slot, player.as_ref()?)))
    }

    /// Puts a new player into `slot`.
    pub fn join(&mut self, Slot(slot): Slot) {
        let player = self.fresh();
        if let Some(place) = self.players.get_mut(slot) {
            *place = Some(player);
        }
    }

    /// Empties `slot`.
    pub fn leave(&mut self, Slot(slot): Slot) {
        if let Some(place) = self.players.get_mut(slot) {
            *place = None;
        }
    }

    /// Sets what the player in `slot` does from the next tick on; an input older than the newest is ignored.
    pub fn set_input(&mut self, Slot(slot): Slot, sequence: u32, input: PlayerInput) {
        if let Some(Some(player)) = self.players.get_mut(slot)
            && sequence >= player.input_sequence
        {
            player.input = input;
            player.input_sequence = sequence;
        }
    }

    /// One tick: everyone moves, then shots land in slot order, then the fallen return.
    pub fn step(&mut self) {
        self.tick = self.tick.wrapping_add(1);
        let step_mm = SPEED_MM_S / self.tick_hz as i32;
        for player in self.players.iter_mut().flatten() {
            player.shot = false;
            player.reload_ticks = player.reload_ticks.saturating_sub(1);
            if player.alive() {
                let by = wish(player.input.buttons, step_mm);
                let from = player.at();
                (player.x_mm, player.y_mm) = self.world.slide(Move { from, by });
            }
        }
        for shooter in 0..self.players.len() {
            self.shoot(shooter);
        }
        for slot in 0..self.players.len() {
            self.maybe_return(slot);
        }
    }

    /// A number that differs when any part of the state does, up to chance (FNV-1a).
    pub fn state_hash(&self) -> u64 {
        let mut hash = Fnv(0xcbf2_9ce4_8422_2325);
        hash.write(self.tick);
        for (slot, player) in self.players() {
            let (aim_x, aim_y) = player.input.aim;
            let small = [slot as u8, player.health, aim_x as u8, aim_y as u8];
            for word in [
                u32::from_le_bytes(small),
                player.x_mm as u32,
                player.y_mm as u32,
                player.score,
                player.input_sequence,
                player.reload_ticks,
                player.return_ticks,
            ] {
                hash.write(word);
            }
        }
        hash.0
    }

    fn shoot(&mut self, shooter: usize) {
        let reload_ticks = self.tick_hz / SHOTS_PER_S;
        let Some(Some(player)) = self.players.get_mut(shooter) else {
            return;
        };
        let aim = player.input.aim;
        let wants = player.input.buttons.any(Buttons::SHOOT) && aim != (0, 0);
        if !wants || !player.alive() || player.reload_ticks > 0 {
            return;
        }
        player.shot = true;
        player.reload_ticks = reload_ticks;
        let ray = Ray { from: player.at(), direction: (i32::from(aim.0), i32::from(aim.1)) };
        let Some(target) = self.first_hit(shooter, ray) else {
            return;
        };
        let tick_hz = self.tick_hz;
        if let Some(Some(hit)) = self.players.get_mut(target) {
            hit.health = hit.health.saturating_sub(DAMAGE);
            if hit.alive() {
                return;
            }
            hit.return_ticks = tick_hz;
        }
        if let Some(Some(player)) = self.players.get_mut(shooter) {
            player.score += 1;
        }
    }

    /// The nearest living player other than the shooter whose body the ray meets before it meets a box.
    fn first_hit(&self, shooter: usize, ray: Ray) -> Option<usize> {
        let wall = self.world.cast(ray);
        let (dx, dy) = (i64::from(ray.direction.0), i64::from(ray.direction.1));
        let length2 = dx * dx + dy * dy;
        let body2 = i64::from(BODY_MM).pow(2) * length2;
        self.players()
            .filter(|&(slot, player)| slot != shooter && player.alive())
            .filter_map(|(slot, player)| {
                let px = i64::from(player.x_mm - ray.from.0);
                let py = i64::from(player.y_mm - ray.from.1);
                // Along the ray, and across it, both times the direction's length: exact in integers.
                let along = px * dx + py * dy;
                let across = px * dy - py * dx;
                let met = along >= 0 && across * across <= body2;
                let behind_wall = along as f64 > wall * length2 as f64;
                (met && !behind_wall).then_some((along, slot))
            })
            .min()
            .map(|(_, slot)| slot)
    }

    fn maybe_return(&mut self, slot: usize) {
        let Some(Some(player)) = self.players.get_mut(slot) else {
            return;
        };
        if player.alive() {
            return;
        }
        player.return_ticks = player.return_ticks.saturating_sub(1);
        if player.return_ticks > 0 {
            return;
        }
        let old = *player;
        let fresh = self.fresh();
        self.players[slot] =
            Some(Player { score: old.score, input: old.input, input_sequence: old.input_sequence, ..fresh });
    }

    fn fresh(&mut self) -> Player {
        let (x_mm, y_mm) = self.world.spawn_place(self.rng.next_u32());
        Player { x_mm, y_mm, health: FULL_HEALTH, ..Player::default() }
    }
}

/// The change of place these buttons ask for. Diagonals are as fast as straight lines: 181/256 is the root of a half.
fn wish(buttons: Buttons, step_mm: i32) -> (i32, i32) {
    let axis = |plus, minus| i32::from(buttons.any(plus)) - i32::from(buttons.any(minus));
    let x = axis(Buttons::EAST, Buttons::WEST);
    let y = axis(Buttons::NORTH, Buttons::SOUTH);
    let step_mm = if x != 0 && y != 0 { step_mm * 181 / 256 } else { step_mm };
    (x * step_mm, y * step_mm)
}

struct Fnv(u64);

impl Fnv {
    fn write(&mut self, word: u32) {
        for byte in word.to_le_bytes() {
            self.0 = (self.0 ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
        }
    }
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;
    use crate::player::{Bot, BotSeed};

    fn played(seed: u64, players: usize, ticks: u32) -> Sim {
        let mut sim = Sim::new(SimConfig { seed, tick_hz: 50, slots: players });
        let mut bots: Vec<Bot> = (0..players as u32).map(|number| Bot::new(BotSeed { seed, number })).collect();
        for slot in 0..players {
            sim.join(Slot(slot));
        }
        for tick in 1..=ticks {
            for (slot, bot) in bots.iter_mut().enumerate() {
                sim.set_input(Slot(slot), tick, bot.next_input());
            }
            sim.step();
        }
        sim
    }

    #[test]
    fn same_seed_and_inputs_give_the_same_state() {
        let sim = played(7, 32, 1_000);
        assert_eq!(sim.state_hash(), played(7, 32, 1_000).state_hash());
        assert_ne!(sim.state_hash(), played(8, 32, 1_000).state_hash());
        // Pinned, so that another machine or compiler cannot quietly play another game.
        expect!["e7f6461f300780e0"].assert_eq(&format!("{:016x}", sim.state_hash()));
        let score: u32 = sim.players().map(|(_, p)| p.score).sum();
        assert!(score > 0, "nobody was ever hit");
    }

    /// Two players on one line of sight with nothing between them.
    fn duel() -> Sim {
        let mut sim = Sim::new(SimConfig { seed: 1, tick_hz: 50, slots: 2 });
        sim.join(Slot(0));
        sim.join(Slot(1));
        for pick in 0.. {
            let (x, y) = sim.world.spawn_place(pick);
            let ray = Ray { from: (x, y), direction: (1, 0) };
            if sim.world.cast(ray) > 3_000.0 {
                for (slot, offset) in [(0, 0), (1, 2_000)] {
                    let player = sim.players[slot].as_mut().unwrap();
                    (player.x_mm, player.y_mm) = (x + offset, y);
                }
                return sim;
            }
        }
        unreachable!()
    }

    fn shooting(aim: (i8, i8)) -> PlayerInput {
        PlayerInput { buttons: Buttons::from_low_bits(Buttons::SHOOT), aim }
    }

    #[test]
    fn shots_hit_kill_and_the_fallen_return() {
        let mut sim = duel();
        sim.set_input(Slot(0), 1, shooting((1, 0)));
        let mut health = Vec::new();
        for _ in 0..21 {
            sim.step();
            health.push(sim.player(1).unwrap().health);
        }
        expect!["[80, 80, 80, 80, 80, 60, 60, 60, 60, 60, 40, 40, 40, 40, 40, 20, 20, 20, 20, 20, 0]"]
            .assert_eq(&format!("{health:?}"));
        assert_eq!(sim.player(0).unwrap().score, 1);
        sim.set_input(Slot(0), 2, PlayerInput::default());
        for _ in 0..50 {
            sim.step();
        }
        assert_eq!(sim.player(1).unwrap().health, FULL_HEALTH);
    }

    #[test]
    fn shots_miss_what_they_do_not_point_at() {
        for (aim, hit) in [
            ((127, 0), true),
            ((127, 18), true),  // 283 mm off at 2 m: within the body
            ((127, 20), false), // 315 mm off
            ((-1, 0), false),
            ((0, 1), false),
            ((0, 0), false),
        ] {
            let mut sim = duel();
            sim.set_input(Slot(0), 1, shooting(aim));
            sim.step();
            assert_eq!(sim.player(1).unwrap().health < FULL_HEALTH, hit, "{aim:?}");
        }
    }

    #[test]
    fn a_shot_does_not_pass_a_wall() {
        let mut sim = duel();
        let player = *sim.player(0).unwrap();
        let ray = Ray { from: player.at(), direction: (1, 0) };
        let beyond = player.x_mm + sim.world.cast(ray) as i32 + 1_500;
        sim.players[1].as_mut().unwrap().x_mm = beyond;
        sim.set_input(Slot(0), 1, shooting((1, 0)));
        sim.step();
        assert_eq!(sim.player(1).unwrap().health, FULL_HEALTH);
    }

    #[test]
    fn an_older_input_does_not_undo_a_newer() {
        let mut sim = duel();
        sim.set_input(Slot(0), 5, shooting((1, 0)));
        sim.set_input(Slot(0), 4, PlayerInput::default());
        assert_eq!(sim.player(0).unwrap().input, shooting((1, 0)));
        sim.leave(Slot(0));
        sim.set_input(Slot(0), 6, PlayerInput::default());
        assert_eq!(sim.player(0), None);
    }
}
