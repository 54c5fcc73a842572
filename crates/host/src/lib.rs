//! What a machine is and what would suit it.
//!
//! [`Facts::probe`] reads a [`Root`](evenkeel_hostfs::Root) once; from then on everything is a pure function of facts:
//! [`advise`] gives [`Advice`] for each [`Knob`], and [`plan`](Plan::of) turns chosen settings into a [`Plan`] of steps. Nothing here
//! can write: the hand that writes is not in this crate's vocabulary.

mod advice;
pub mod catalogue;
mod cores;
mod document;
mod extras;
mod fact;
pub mod facts;
mod goal;
mod knob;
pub mod knobs;
mod load;
mod others;
mod plan;
mod probe;
mod rank;
mod setting;
mod shapes;
#[cfg(test)]
mod testing;

pub use advice::{Advice, State, advise};
pub use extras::{
    Counter, CounterPlace, Extras, Lasts, Owner, Process, Program, ServerUnit, TunedProfile, UnitLimit, Wait,
};
pub use fact::Fact;
pub use facts::Facts;
pub use goal::{Goal, Server, Wish};
pub use knob::{Area, Device, Finding, Knob, Place, Since, Source, TakesEffect, Values};
pub use plan::{Action, Plan, PlanError, Reading, Step, files_of};
pub use rank::{Effect, When};
pub use setting::{Setting, SettingError};
