//! Tests of the statistical guarantees: whole trials are simulated on noise with known truth.
//! The seeds are fixed, so each run gives the same rates.

mod boots;
mod periodicity;
mod sequential;
mod simulation;
