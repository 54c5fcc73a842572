//! The facts of a machine, and advice for it.
//!
//! [`Facts::probe`] reads a [`Root`](evenkeel_hostfs::Root) once. Everything after that is a pure function of facts.
//! [`advise`] returns [`Advice`] for each [`Knob`], and [`plan`](Plan::from_settings) turns selected settings into a [`Plan`] of steps.
//! This crate cannot write: it never names the type of the writer.

mod advice;
pub mod catalogue;
mod clash;
mod cores;
pub mod credits;
mod document;
mod extras;
mod fact;
pub mod facts;
mod finding;
mod goal;
pub mod guide;
mod knob;
pub mod knobs;
mod least;
mod load;
mod look;
mod never;
mod number;
mod others;
mod plan;
mod probe;
mod rank;
mod reading;
mod reserve;
mod setting;
mod shapes;
mod sysctl;
#[cfg(test)]
mod testing;
mod value;

pub use advice::{Advice, advise};
pub use clash::{Clash, ClashReason};
pub use document::knobs_page;
pub use evenkeel_sys::CpuSet;
pub use extras::{
    Along, Counter, CounterPlace, Extras, Lasts, MaxBefore, Owner, Process, ProcessFiles, ProcessValue, Program,
    RiskAt, ServerUnit, TunedProfile, UnitLimit, Wait,
};
pub use fact::Fact;
pub use facts::Facts;
pub use finding::{Against, Finding, State};
pub use goal::{AdviceContext, Goal, Server};
pub use knob::{Area, Device, Knob, Place, Since, Source, TakesEffect, Values};
pub use plan::{Action, Plan, PlanError, Step, files_of};
pub use rank::{Effect, When};
pub use reading::Reading;
pub use setting::Setting;
pub use sysctl::PREFIX as SYSCTL_PREFIX;
pub use value::SettingError;
