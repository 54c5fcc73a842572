//! JSON: every answer and every error is one object with the number of its format.
//! docs/formats.md describes the formats.

use serde::Serialize;

use crate::exit;
use crate::failure::{Aftermath, Failure};
use crate::show::escape;

/// The number of the format of most answers.
/// The format may get new fields under the same number, but the meaning of a field never changes.
pub(crate) const FORMAT: u32 = 1;
/// The number of the format of a trial's answer.
/// In this format, caveats have figures, and the answer may have several arms.
const FORMAT_OF_TRIALS: u32 = 2;

#[derive(Serialize, schemars::JsonSchema)]
struct Envelope<'a, T> {
    format: u32,
    #[serde(flatten)]
    answer: &'a T,
}

#[derive(Serialize, schemars::JsonSchema)]
pub(crate) struct ErrorAnswer<'a> {
    error: ErrorFields<'a>,
    #[serde(flatten)]
    aftermath: Option<&'a Aftermath>,
}

#[derive(Serialize, schemars::JsonSchema)]
pub(crate) struct ErrorFields<'a> {
    message: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    hint: Option<&'a str>,
    exit_code: u8,
}

/// The JSON text of an answer.
pub(crate) fn answer<T: Serialize>(answer: &T) -> Result<String, Failure> {
    answer_in(FORMAT, answer)
}

/// The JSON text of a trial's answer.
pub(crate) fn answer_of_trial<T: Serialize>(answer: &T) -> Result<String, Failure> {
    answer_in(FORMAT_OF_TRIALS, answer)
}

/// The JSON text of an answer with this format number.
pub(crate) fn answer_in<T: Serialize>(format: u32, answer: &T) -> Result<String, Failure> {
    let envelope = Envelope { format, answer };
    document(&envelope).map_err(|error| Failure::text(exit::NOT_POSSIBLE, "write the answer as JSON", error))
}

/// Converts a document to text. All JSON on standard output comes from this function.
pub(crate) fn document<T: Serialize>(document: &T) -> Result<String, serde_json::Error> {
    let text = serde_json::to_string_pretty(document)?;
    Ok(escape::json(&text).into_owned() + "\n")
}

/// The JSON text of a failure. The text contains only strings and numbers, so the conversion can't fail.
pub(crate) fn failure(failure: &Failure) -> String {
    let message = failure.message();
    let error = ErrorFields { message: &message, hint: failure.hint.as_deref(), exit_code: failure.exit.code };
    answer(&ErrorAnswer { error, aftermath: failure.aftermath.as_deref() }).unwrap_or_default()
}
