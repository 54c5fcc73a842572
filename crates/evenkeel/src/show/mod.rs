//! The only module that prints. An answer is a JSON object, or a text made from the same data.

pub(crate) mod advice;
pub(crate) mod card;
pub(crate) mod change;
pub(crate) mod credits;
pub(crate) mod escape;
pub(crate) mod facts;
pub(crate) mod finding;
pub(crate) mod fleet;
pub(crate) mod guide;
pub(crate) mod instances;
pub(crate) mod json;
pub(crate) mod knob;
pub(crate) mod live;
pub(crate) mod markdown;
pub(crate) mod pack;
pub(crate) mod pack_apply;
pub(crate) mod pack_run;
pub(crate) mod page;
pub(crate) mod plan;
pub(crate) mod profile;
pub(crate) mod regions;
pub(crate) mod sarif;
pub(crate) mod step;
pub(crate) mod topology;
pub(crate) mod tune;
pub(crate) mod units;
pub(crate) mod watch;

use std::io::{self, IsTerminal, Write};

use anstream::AutoStream;
use schemars::JsonSchema;
use serde::Serialize;

use crate::args::{Color, OutputOptions};
use crate::exit::{self, Exit};
use crate::failure::Failure;
use crate::progress::Telling;
use crate::show::page::BAD;

/// How answers are printed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Out {
    output: OutputOptions,
}

impl Out {
    pub(crate) fn new(output: OutputOptions) -> Out {
        Out { output }
    }

    /// Prints an answer as a JSON object, or as the text that `text` returns.
    ///
    /// A closed pipe (`| head`) is not a failure: the exit code is still the answer's code.
    pub(crate) fn answer<T: Serialize + JsonSchema>(
        &self,
        answer: &T,
        text: impl FnOnce() -> String,
    ) -> Result<(), Failure> {
        let text = if self.output.json { json::answer(answer)? } else { text() };
        self.text(&text)
    }

    /// Like [`Out::answer`], with this format number in the JSON.
    pub(crate) fn answer_in<T: Serialize + JsonSchema>(
        &self,
        format: u32,
        answer: &T,
        text: impl FnOnce() -> String,
    ) -> Result<(), Failure> {
        let text = if self.output.json { json::answer_in(format, answer)? } else { text() };
        self.text(&text)
    }

    /// Prints the answer of a trial. Its JSON has its own format number.
    pub(crate) fn answer_of_trial<T: Serialize + JsonSchema>(
        &self,
        answer: &T,
        text: impl FnOnce() -> String,
    ) -> Result<(), Failure> {
        let text = if self.output.json { json::answer_of_trial(answer)? } else { text() };
        self.text(&text)
    }

    /// Prints an answer with the JSON text `document`, which has its own format number.
    pub(crate) fn plain(&self, document: &str, text: impl FnOnce() -> String) -> Result<(), Failure> {
        let text = if self.output.json { escape::json(document).into_owned() } else { text() };
        self.text(&text)
    }

    /// Whether answers are JSON.
    pub(crate) fn is_json(&self) -> bool {
        self.output.json
    }

    /// Whether standard output gets colours.
    pub(crate) fn has_colors(&self) -> bool {
        AutoStream::new(io::stdout(), self.choice()).current_choice() != anstream::ColorChoice::Never
    }

    /// Prints a text in the format that the user requested.
    pub(crate) fn text(&self, text: &str) -> Result<(), Failure> {
        self.print(&escape::styled(text))
            .map_err(|error| Failure::io(exit::NOT_POSSIBLE, "write the answer to standard output", &error))
    }

    /// Prints the status of a long command immediately.
    /// With `--json` it prints nothing, because standard output then has only the answer.
    pub(crate) fn status(&self, text: &str) {
        if !self.output.json {
            // Ignore a failed write, because the answer contains the text too.
            let _ = self.print(&format!("{}\n", escape::page(text)));
        }
    }

    /// Prints a warning or a note to standard error, separate from the answer.
    pub(crate) fn warn(&self, text: &str) {
        self.complain(&escape::page(text));
    }

    /// Prints a warning with styles to standard error.
    /// The caller must have cleaned all names in the text, because a style in a name could hide the rest.
    pub(crate) fn warn_page(&self, page: &str) {
        self.complain(&escape::styled(page));
    }

    /// Whether the command shows its progress to a person.
    pub(crate) fn shows_progress(&self) -> bool {
        self.telling() == Telling::Drawn
    }

    /// How a long command shows its progress.
    /// On a terminal, it redraws the progress; otherwise it prints a line from time to time.
    pub(crate) fn telling(&self) -> Telling {
        match (self.output.json, io::stderr().is_terminal()) {
            (true, _) => Telling::Nothing,
            (false, true) => Telling::Drawn,
            (false, false) => Telling::Lines,
        }
    }

    /// Prints why the command has no answer, and returns the exit code.
    pub(crate) fn failure(&self, failure: &Failure) -> Exit {
        let message = failure.message();
        if self.output.json {
            // Ignore a failed write, because the exit code still reports the failure.
            let _ = self.print(&json::failure(failure));
        } else if let Some(aftermath) = &failure.aftermath {
            let _ = self.print(&change::aftermath(aftermath));
        }
        let mut text = format!("{BAD}error:{BAD:#} {}\n", page::one_line(&message));
        for (at, line) in failure.hint.iter().flat_map(|hint| hint.lines()).enumerate() {
            let label = if at == 0 { "hint:" } else { "     " };
            text.push_str(&format!("{label} {}\n", page::one_line(line)));
        }
        self.complain(&text);
        failure.exit
    }

    /// Prints the help or version that the user requested.
    /// A command line without a command also gets the help, but with the exit code of wrong use.
    pub(crate) fn help(&self, help: &clap::Error) -> Exit {
        let text = help.render().ansi().to_string();
        if !help.use_stderr() {
            return match self.text(&text) {
                Ok(()) => exit::WELL,
                Err(failure) => self.failure(&failure),
            };
        }
        if self.output.json {
            let missing = Failure::wrong_use("a command is missing".to_owned());
            return self.failure(&missing.hint("`evenkeel --help` lists the commands"));
        }
        self.complain(&text);
        exit::WRONG_USE
    }

    fn print(&self, text: &str) -> io::Result<()> {
        let mut stdout = AutoStream::new(io::stdout().lock(), self.choice());
        match stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()) {
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
            other => other,
        }
    }

    fn complain(&self, text: &str) {
        // Ignore a failed write, because then nobody reads standard error.
        let _ = AutoStream::new(io::stderr().lock(), self.choice()).write_all(text.as_bytes());
    }

    fn choice(&self) -> anstream::ColorChoice {
        match self.output.color {
            Color::Auto => anstream::ColorChoice::Auto,
            Color::Always => anstream::ColorChoice::Always,
            Color::Never => anstream::ColorChoice::Never,
        }
    }
}
