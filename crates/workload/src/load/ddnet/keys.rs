//! The actions of a player: it walks, jumps, looks around, fires and hooks.
//! All actions come from a seed, so that the server has the same work in each run.

use rand::{Rng, RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::TICK_NS;

/// How many ticks of 20 ms the player walks in one direction.
const WALK_TICKS: std::ops::RangeInclusive<u32> = 10..=75;
/// The distance from the player to the point at which the mouse aims, in the game's units.
const AIM: i32 = 200;
/// The maximum of the random network delay of a packet, in nanoseconds.
/// Without a random delay, the server could keep time by the players' packets.
const WOBBLE_NS: u64 = 5_000_000;
/// The flag that the player is present, and neither chats nor opens a menu.
const PLAYING: i32 = 1;

/// The state of a player's keys and mouse.
#[derive(Clone, Debug)]
pub(super) struct Keys {
    lot: ChaCha8Rng,
    /// A separate generator for send times. So neither the time that joining takes nor the number of earlier packets changes the game.
    times: ChaCha8Rng,
    direction: i32,
    ticks_left: u32,
    aim: (i32, i32),
    is_hooking: bool,
    /// The number of presses and releases of the fire key. It is odd while the key is pressed.
    fire: i32,
}

impl Keys {
    pub(super) fn new(seed: u64, number: u32) -> Keys {
        let mut lot = ChaCha8Rng::seed_from_u64(seed);
        lot.set_stream(number.into());
        let mut times = lot.clone();
        times.set_stream(u64::from(number) | 1 << 32);
        Keys { lot, times, direction: 0, ticks_left: 0, aim: (AIM, 0), is_hooking: false, fire: 0 }
    }

    /// A random number that identifies this player's pings.
    pub(super) fn mark(&self) -> u64 {
        self.lot.clone().next_u64()
    }

    /// The phase of the player's inputs within a tick, in nanoseconds.
    pub(super) fn phase_ns(&mut self) -> u64 {
        self.times.random_range(0..TICK_NS)
    }

    /// The random network delay of the next input, in nanoseconds.
    pub(super) fn wobble_ns(&mut self) -> u64 {
        self.times.random_range(0..WOBBLE_NS)
    }

    /// The input of the next tick, in wire order: direction, aim, jump, fire, hook, flags, and the wanted weapon.
    pub(super) fn next_input(&mut self) -> [i32; 10] {
        if self.ticks_left == 0 {
            self.ticks_left = self.lot.random_range(WALK_TICKS);
            self.direction = self.lot.random_range(-1..=1);
            self.is_hooking = self.lot.random_bool(0.3);
            self.aim = (self.lot.random_range(-AIM..=AIM), self.lot.random_range(-AIM..=AIM));
        }
        self.ticks_left -= 1;
        if self.lot.random_bool(0.1) {
            // The game counts changes of this value, and uses only its low bits.
            self.fire = (self.fire + 1) & 0x3f;
        }
        let jump = i32::from(self.lot.random_bool(0.05));
        let (x, y) = self.aim;
        // The game does not accept the player's own position as the point to aim at.
        let y = if (x, y) == (0, 0) { -1 } else { y };
        [self.direction, x, y, jump, self.fire, self.is_hooking.into(), PLAYING, 0, 0, 0]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn players_of_one_seed_do_the_same_in_each_run_and_not_as_each_other() {
        let played = |seed, number| {
            let mut hands = Keys::new(seed, number);
            (0..200).map(|_| hands.next_input()).collect::<Vec<_>>()
        };
        assert_eq!(played(1, 2), played(1, 2));
        let mut late = Keys::new(1, 2);
        let mut times = vec![late.phase_ns()];
        times.extend((0..9).map(|_| late.wobble_ns()));
        assert!(times.iter().all(|ns| *ns < TICK_NS) && times[0] != times[1]);
        assert_eq!((0..200).map(|_| late.next_input()).collect::<Vec<_>>(), played(1, 2));
        assert_ne!(played(1, 2), played(1, 3));
        assert_ne!(played(1, 2), played(2, 2));
        let all = played(1, 2);
        for (index, name) in [(0, "direction"), (1, "aim"), (3, "jump"), (4, "fire"), (5, "hook")] {
            assert!(all.iter().any(|input| input[index] != all[0][index]), "{name} never changes");
        }
        assert!(all.iter().all(|input| (input[1], input[2]) != (0, 0) && (-1..=1).contains(&input[0])));
        assert_ne!(Keys::new(1, 2).mark(), Keys::new(1, 3).mark());
    }
}
