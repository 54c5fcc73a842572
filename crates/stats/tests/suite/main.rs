//! The statistics held to their promises: whole trials are simulated on noise whose truth is known. The seeds are fixed, so each run gives
//! the same rates.

mod boots;
mod periodicity;
mod sequential;
mod simulation;
