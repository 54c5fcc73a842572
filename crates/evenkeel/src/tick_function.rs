//! `--tick-function`: finds the function that a server enters once per tick, among the symbols of its programs.

use std::sync::Arc;

use evenkeel_measure::MeterError;
use evenkeel_measure::meters::ticks::function::TickFunction;
use evenkeel_profile::live::probe::{self, NoPlace, PlaceSpec, Until, parse_place};
use evenkeel_sys::perf_probe::Probe;

/// Reads the option's value.
pub(crate) fn parse(text: &str) -> Result<TickFunction, String> {
    let asked = parse_place(text)?;
    Ok(TickFunction { name: text.to_owned(), find: Arc::new(move |_, pids| find(&asked, pids)) })
}

/// The address of the function's first byte, in the programs of these processes.
fn find(asked: &PlaceSpec, pids: &[u32]) -> Result<Probe, MeterError> {
    // Probe only the entry of the function. A probe on the return is unnecessary, and is not safe in every program.
    let of = |pids: &[u32]| probe::beginning_and_end(asked, &Until::Wait, pids);
    let found = match of(pids) {
        // A server that a script started consists of two programs. Only one of them may have the function.
        Err(several @ NoPlace::Several { .. }) => {
            let mut each = pids.iter().filter_map(|pid| of(&[*pid]).ok());
            match (each.next(), each.next()) {
                (Some(found), None) => Ok(found),
                _ => Err(several),
            }
        }
        found => found,
    };
    let places = found.map_err(refused)?;
    let first = places.into_iter().next().map(|place| place.probe);
    first.ok_or_else(|| MeterError::not_possible(format!("look for {asked}"), "it was not found"))
}

fn refused(error: NoPlace) -> MeterError {
    let (asked, text) = ("use --tick-function", error.to_string());
    match error {
        NoPlace::Unreadable { pid, errno, .. } if errno.is_denial() => {
            MeterError::refused(format!("{asked} (you need root): read what process {pid} has mapped"), errno)
        }
        NoPlace::Odd { .. } | NoPlace::NoReturn { .. } => MeterError::not_possible(asked, text),
        _ => MeterError::wrong_use(asked, text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_invalid_function_is_refused_on_the_command_line() {
        assert_eq!(parse("game::World::tick").unwrap().name, "game::World::tick");
        assert!(parse("").is_err() && parse("a\nb").is_err());
    }

    #[test]
    fn a_function_that_is_not_there_is_named() {
        let none = parse("no_such_function_of_ours").unwrap().probed(&[std::process::id()]).unwrap_err();
        assert!(matches!(&none, MeterError::WrongUse { .. }), "{none}");
        assert!(none.to_string().contains("the file has no function of that name"), "{none}");
    }
}
