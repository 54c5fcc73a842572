//! `Block`: a part of a page. `Text`: words with marks for plain text, code, or bad values.

use evenkeel_measure::{Samples, Unit};
use evenkeel_trial::Outcome;
use maud::Markup;

use crate::show::finding::Finding;

/// A part of a page.
#[derive(Clone, Debug)]
pub(crate) enum Block {
    /// The part that a reader needs first. HTML puts it below its own heading.
    Opening(Vec<Block>),
    /// A heading, and the blocks below it.
    Section(Text, Vec<Block>),
    /// A heading like that of a section, but its blocks follow in the list.
    Heading(String),
    Subheading(&'static str),
    /// The answer of a report in one sentence.
    Verdict(Verdict),
    /// The caveats of the numbers.
    Caveats(Vec<String>),
    /// Whether the numbers are good. The first field names their subject if the page has several.
    Finding(Option<&'static str>, Finding),
    Paragraph(Text),
    List(Vec<Text>),
    /// Terms with their meanings.
    Terms(Vec<(&'static str, Text)>),
    /// A label and its value.
    Row(String, String),
    /// A table: the titles of its columns, and its rows. The first cell of a row names the row.
    Table {
        header: Vec<Column>,
        rows: Vec<Vec<Text>>,
    },
    /// A remark on the numbers.
    Note(String),
    /// A warning: data was lost, or the numbers are unreliable.
    Warning(String),
    /// The distribution of samples.
    Histogram(Samples),
    /// A timeline: times with a length or a rate.
    Timeline(Timeline),
    /// A chart with its caption. Only HTML shows the chart. Markdown and the terminal show the table next to it.
    Drawing(Markup, Text),
    /// A command to copy.
    Command(String),
    /// A file within the page. Only HTML has it.
    Download {
        name: &'static str,
        kind: &'static str,
        content: String,
        what: &'static str,
    },
    /// Blocks that a reader opens by clicking on a line. The terminal leaves these blocks out.
    Details(String, Vec<Block>),
    /// Blocks that the terminal leaves out, to keep its page short.
    Detail(Vec<Block>),
}

/// The answer of a report.
#[derive(Clone, Debug)]
pub(crate) struct Verdict {
    /// `None` before the verdict.
    pub(crate) outcome: Option<Outcome>,
    /// The words of the badge.
    pub(crate) badge: String,
    /// Whether the sentence also names the verdict. Then only HTML shows the badge.
    pub(crate) is_repeated: bool,
    pub(crate) says: String,
}

/// A column of a table.
#[derive(Clone, Debug)]
pub(crate) struct Column {
    pub(crate) title: String,
    pub(crate) is_number: bool,
}

impl Column {
    pub(crate) fn number(title: impl Into<String>) -> Column {
        Column { title: title.into(), is_number: true }
    }
}

impl<T: Into<String>> From<T> for Column {
    fn from(title: T) -> Column {
        Column { title: title.into(), is_number: false }
    }
}

/// Lengths, or rates, over time.
#[derive(Clone, Debug)]
pub(crate) struct Timeline {
    /// The title of the timeline.
    pub(crate) title: String,
    /// The total duration, in nanoseconds.
    pub(crate) total_ns: u64,
    /// The unit of the values.
    pub(crate) unit: Unit,
    /// The points: nanoseconds since the start, and a value.
    pub(crate) points: Vec<(u64, u64)>,
}

impl Block {
    pub(crate) fn row(label: &str, value: impl Into<String>) -> Block {
        Block::Row(label.to_owned(), value.into())
    }

    pub(crate) fn heading(title: impl Into<String>) -> Block {
        Block::Heading(title.into())
    }

    pub(crate) fn section(title: impl Into<Text>, blocks: Vec<Block>) -> Block {
        Block::Section(title.into(), blocks)
    }

    pub(crate) fn paragraph(words: impl Into<Text>) -> Block {
        Block::Paragraph(words.into())
    }

    pub(crate) fn table<C: Into<Column>, T: Into<Text>, const N: usize>(header: [C; N], rows: Vec<[T; N]>) -> Block {
        let rows = rows.into_iter().map(|row| row.map(T::into).to_vec());
        Block::Table { header: header.map(C::into).to_vec(), rows: rows.collect() }
    }

    pub(crate) fn caveats<C: ToString>(caveats: &[C]) -> Block {
        Block::Caveats(caveats.iter().map(C::to_string).collect())
    }
}

/// Words of one line.
#[derive(Clone, Debug, Default)]
pub(crate) struct Text(pub(crate) Vec<Span>);

/// A part of a text.
#[derive(Clone, Debug)]
pub(crate) enum Span {
    Plain(String),
    /// A name, a value or a command.
    Code(String),
    /// Words that need attention.
    Bad(String),
}

impl Text {
    /// A text by evenkeel itself, with names and commands between backticks.
    pub(crate) fn prose(text: &str) -> Text {
        let span = |(at, part): (usize, &str)| match at % 2 {
            0 => Span::Plain(part.to_owned()),
            _ => Span::Code(part.to_owned()),
        };
        Text(text.split('`').enumerate().filter(|(_, part)| !part.is_empty()).map(span).collect())
    }

    pub(crate) fn code(code: impl Into<String>) -> Text {
        Text(vec![Span::Code(code.into())])
    }

    pub(crate) fn bad(words: impl Into<String>) -> Text {
        Text(vec![Span::Bad(words.into())])
    }

    pub(crate) fn and(mut self, words: impl Into<Text>) -> Text {
        self.0.extend(words.into().0);
        self
    }

    /// The words of the text without their marks.
    pub(crate) fn words(&self) -> String {
        self.0.iter().map(Span::words).collect()
    }
}

impl Span {
    fn words(&self) -> String {
        match self {
            Span::Plain(words) | Span::Bad(words) => words.clone(),
            // Quote a command with spaces, so that a reader sees where the command ends in the sentence.
            Span::Code(code) if code.contains(' ') => format!("`{code}`"),
            Span::Code(code) => code.clone(),
        }
    }
}

impl<T: Into<String>> From<T> for Text {
    fn from(words: T) -> Text {
        Text(vec![Span::Plain(words.into())])
    }
}

/// Makes a sentence with a capital first letter and a full stop.
pub(crate) fn sentence(text: &str) -> String {
    let mut letters = text.chars();
    let first = letters.next().map(|letter| letter.to_uppercase().collect::<String>()).unwrap_or_default();
    // The name of a knob is not a word, so keep its first letter.
    let begins_with_a_name = text.split([' ', ',']).next().is_some_and(|word| word.contains(['=', '.', '_', ':']));
    let start = if begins_with_a_name { text.to_owned() } else { first + letters.as_str() };
    if start.ends_with(['.', '!', '?']) { start } else { start + "." }
}
