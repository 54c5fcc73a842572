//! One player: its place in the arrays, its input, and its state.

use crate::game::math::{Look, Vector};
use crate::game::shape::Capsule;
use crate::game::skeleton::{BONES, Pose};

/// The index of a player in the arrays.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Slot(pub usize);

/// Pressed buttons, one bit each.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Buttons(u8);

impl Buttons {
    /// Walk in the direction in which the player looks.
    pub const FORWARD: u8 = 1;
    /// Walk backwards.
    pub const BACK: u8 = 2;
    /// Walk to the left.
    pub const LEFT: u8 = 4;
    /// Walk to the right.
    pub const RIGHT: u8 = 8;
    /// Fire.
    pub const SHOOT: u8 = 16;
    /// Duck, and walk slowly.
    pub const CROUCH: u8 = 32;
    /// Insert a new magazine.
    pub const RELOAD: u8 = 64;
    /// All buttons.
    pub const ALL: u8 = 127;

    /// The valid buttons among `bits`.
    pub fn from_bits(bits: u8) -> Self {
        Self(bits & Self::ALL)
    }

    /// The buttons as bits.
    pub fn bits(self) -> u8 {
        self.0
    }

    /// Whether any button of `mask` is pressed.
    pub fn any(self, mask: u8) -> bool {
        self.0 & mask != 0
    }
}

/// What a player does until its next input.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PlayerInput {
    /// The pressed buttons.
    pub buttons: Buttons,
    /// The direction in which the player looks and aims.
    pub look: Look,
    /// The state of the match that the player saw when it made this input.
    pub view: View,
}

/// A shot of this tick.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Fired {
    /// How far the world was rewound for the shot, in 256ths of a tick.
    pub rewound: u32,
    /// Whether the rewind would have exceeded the history.
    pub too_old: bool,
    /// The player that the shot hit. None if it hit no player.
    pub hit: Option<u8>,
}

/// The state of one player.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Body {
    /// The player's place and posture.
    pub pose: Pose,
    /// The health, 0 to 100; 0 while the player waits to return.
    pub health: u8,
    /// The number of the player's current life.
    pub life: u32,
    /// The number of opponents that the player has put out of the game.
    pub score: u16,
    /// The number of shots left in the magazine.
    pub ammo: u8,
    /// The player's actions until the next input.
    pub input: PlayerInput,
    /// Sequence number of `input`; 0 before the first.
    pub input_sequence: u32,
    /// The shot of the last tick.
    pub shot: Option<Fired>,
    pub(crate) wait_ticks: u32,
    pub(crate) return_ticks: u32,
}

impl Body {
    /// False while the player waits to return.
    pub fn alive(&self) -> bool {
        self.health > 0
    }

    /// The part of the player's state that the history keeps.
    pub fn figure(&self) -> Figure {
        let life = if self.alive() { self.life } else { 0 };
        Figure { life, middle: self.pose.middle(), bones: self.pose.bones() }
    }
}

/// One body at one tick.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Figure {
    /// The number of the life in the slot. 0 if nobody is alive in it. Between two lives, positions are not interpolated.
    pub life: u32,
    /// The middle of the body. No part is further from it than [`REACH_MM`](crate::game::skeleton::REACH_MM).
    pub middle: Vector,
    /// The hit boxes.
    pub bones: [Capsule; BONES],
}

/// The moment that a client saw when it shot: this many 256ths of the way from one tick to the next.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct View {
    /// The earlier tick.
    pub tick: u32,
    /// How far the moment was towards the next tick, in 256ths.
    pub part: u8,
}
