//! How a bot plays: a function of its seed and the number of inputs it has given, never of the network or the clock, so
//! that every arm of a comparison gets the same load.

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};

use crate::wire::{Buttons, PlayerInput};

/// Inputs for which a bot keeps to one course.
const COURSE_INPUTS: u32 = 15;

/// Which bot of which game.
#[derive(Debug, Clone, Copy)]
pub(crate) struct BotSeed {
    /// The run's seed.
    pub(crate) seed: u64,
    /// The bot's number in it.
    pub(crate) number: u32,
}

/// Wanders, sweeps its gun round and fires most of the time.
#[derive(Debug)]
pub(crate) struct Bot {
    rng: ChaCha8Rng,
    input: PlayerInput,
    left_on_course: u32,
}

impl Bot {
    pub(crate) fn new(BotSeed { seed, number }: BotSeed) -> Self {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        rng.set_stream(u64::from(number));
        Self { rng, input: PlayerInput::default(), left_on_course: 0 }
    }

    pub(crate) fn next_input(&mut self) -> PlayerInput {
        if self.left_on_course == 0 {
            self.left_on_course = COURSE_INPUTS;
            let bits = self.rng.next_u32();
            self.input.buttons = Buttons::from_low_bits(bits as u8 | (bits >> 8) as u8 & Buttons::SHOOT);
            self.input.aim = ((bits >> 16) as i8, (bits >> 24) as i8);
        }
        self.left_on_course -= 1;
        // A quarter turn every eight inputs or so: enough to sweep past somebody.
        let (x, y) = self.input.aim;
        self.input.aim = (x.wrapping_sub(y / 5), y.wrapping_add(x / 5));
        self.input
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bot_repeats_itself_and_no_other() {
        let inputs = |number| {
            let mut bot = Bot::new(BotSeed { seed: 1, number });
            (0..200).map(|_| bot.next_input()).collect::<Vec<_>>()
        };
        assert_eq!(inputs(1), inputs(1));
        assert_ne!(inputs(1), inputs(2));
        let moving = |input: &&PlayerInput| input.buttons.any(15);
        assert!(inputs(1).iter().filter(moving).count() > 50);
    }
}
