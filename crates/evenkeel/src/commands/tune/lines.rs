//! The answer of a search that settles a guide: the result of each line.

use std::path::Path;

use crate::exit::Exit;
use crate::failure::{Failure, Outcome};
use crate::report::search as report;
use crate::show::Out;
use crate::show::guide::{GuideAnswer, GuideLog, blocks, headline};
use crate::show::tune::{self, SearchResult};

/// The answer line by line, with its report in a folder if the user named one.
/// If evenkeel could not write a file, `unwritten` is the reason.
pub(crate) fn settled(
    guide: GuideLog,
    mut result: SearchResult,
    unwritten: Option<Failure>,
    folder: Option<&Path>,
) -> (GuideAnswer, Option<Failure>) {
    result.notes.extend(unwritten.as_ref().map(Failure::message));
    let lines = guide.measured(&result);
    let headline = headline(&lines, &result);
    let mut answer = GuideAnswer { headline, guides: vec![lines], search: None, comparison: None };
    let pages = blocks(&answer);
    answer.search = Some(result);
    let (Some(folder), None, Some(result)) = (folder, &unwritten, &answer.search) else { return (answer, unwritten) };
    let written = report::write(folder, &answer, result, pages);
    let unwritten = match (written, &mut answer.search) {
        (Ok(note), Some(result)) => {
            result.notes.push(note);
            None
        }
        (written, result) => {
            let failure = written.err();
            result.iter_mut().for_each(|result| result.notes.extend(failure.as_ref().map(Failure::message)));
            failure
        }
    };
    (answer, unwritten)
}

/// The outcome after the answer was printed.
/// With `--json`, the answer was the only document on standard output, and its notes contain the failure.
pub(crate) fn outcome(out: &Out, exit: Exit, unwritten: Option<Failure>) -> Outcome {
    match unwritten {
        Some(failure) if out.is_json() => {
            out.warn(&format!("evenkeel: {}\n", failure.message()));
            Ok(failure.exit)
        }
        Some(failure) => Err(failure),
        None => Ok(exit),
    }
}

/// The end of the page in the terminal.
pub(crate) fn closing(answer: &GuideAnswer) -> String {
    answer.search.as_ref().map(|result| format!("\n{}", tune::closing(result))).unwrap_or_default()
}
