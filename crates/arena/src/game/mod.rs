//! The game, pure: the same seed and the same inputs give the same match on every machine, whatever the clock does.

pub mod bot;
pub mod history;
pub mod map;
pub mod math;
pub mod path;
pub mod player;
pub mod shape;
pub mod sim;
pub mod skeleton;
pub mod visibility;
