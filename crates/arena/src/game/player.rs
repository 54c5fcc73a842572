//! One player: its place in the arrays, what it asks for, and how it stands.

use crate::game::math::{Look, Vector};
use crate::game::shape::Capsule;
use crate::game::skeleton::{BONES, Pose};

/// The place a player holds in the arrays.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Slot(pub usize);

/// Pressed buttons, one bit each.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Buttons(u8);

impl Buttons {
    /// To where it looks.
    pub const FORWARD: u8 = 1;
    /// Away from there.
    pub const BACK: u8 = 2;
    /// To its left.
    pub const LEFT: u8 = 4;
    /// To its right.
    pub const RIGHT: u8 = 8;
    /// Fire.
    pub const SHOOT: u8 = 16;
    /// Duck, and walk slowly.
    pub const CROUCH: u8 = 32;
    /// Put a new magazine in.
    pub const RELOAD: u8 = 64;
    /// All there are.
    pub const ALL: u8 = 127;

    /// Those of `bits` that there are.
    pub fn from_bits(bits: u8) -> Self {
        Self(bits & Self::ALL)
    }

    /// As bits.
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
    /// What is pressed.
    pub buttons: Buttons,
    /// Where it looks and aims.
    pub look: Look,
    /// What it saw when it did so.
    pub view: View,
}

/// A shot of this tick.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Fired {
    /// How far the world was rewound for it, in 256ths of a tick.
    pub rewound: u32,
    /// It was to be rewound further than is remembered.
    pub too_old: bool,
    /// Whom it hit.
    pub hit: Option<u8>,
}

/// One player.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Body {
    /// Where and how it stands.
    pub pose: Pose,
    /// 0 to 100; 0 while waiting to return.
    pub health: u8,
    /// Counts its lives.
    pub life: u32,
    /// Opponents put out of the game.
    pub score: u16,
    /// Shots left in the magazine.
    pub ammo: u8,
    /// What it does until the next input.
    pub input: PlayerInput,
    /// Sequence number of `input`; 0 before the first.
    pub input_sequence: u32,
    /// The shot of the last tick.
    pub shot: Option<Fired>,
    pub(crate) wait_ticks: u32,
    pub(crate) return_ticks: u32,
}

impl Body {
    /// False while it waits to return.
    pub fn alive(&self) -> bool {
        self.health > 0
    }

    /// What a history keeps of it.
    pub fn figure(&self) -> Figure {
        let life = if self.alive() { self.life } else { 0 };
        Figure { life, middle: self.pose.middle(), bones: self.pose.bones() }
    }
}

/// One body at one tick.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Figure {
    /// Counts the lives of the slot; 0 for nobody alive. Between two lives there is no way to be half along.
    pub life: u32,
    /// The middle: no part is further from it than [`REACH_MM`](crate::game::skeleton::REACH_MM).
    pub middle: Vector,
    /// The hit boxes.
    pub bones: [Capsule; BONES],
}

/// What a client saw when it shot: this many 256ths of the way from one tick to the next.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct View {
    /// The tick before.
    pub tick: u32,
    /// How far on towards the next.
    pub part: u8,
}
