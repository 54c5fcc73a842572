//! The lines of a guide: the content and the state of each line.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::finding::shown;
use crate::sysctl;

/// The longest guide that evenkeel reads, in bytes.
pub const GUIDE_BYTES_MAX: usize = 4 << 20;
/// The maximum number of lines of a guide with all included files.
pub(super) const LINES_MAX: usize = 50_000;
/// The maximum number of settings of one line. The rest of the line is not understood.
const ASKS_MAX: usize = 200;

/// How a guide is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum GuideFormat {
    /// `key = value` lines: sysctl.conf, sysctl.d, or evenkeel's own `KNOB=VALUE`.
    Sysctl,
    /// A TuneD profile.
    Tuned,
    /// A shell script, or commands to paste.
    Shell,
    /// A page in Markdown.
    Markdown,
    /// A page in HTML.
    Html,
    /// Ansible tasks or variables.
    Ansible,
    /// The options of Seastar's perftune.
    Perftune,
    /// A plan or a goal file of evenkeel.
    Plan,
}

impl GuideFormat {
    /// Every format, with its name on the command line.
    pub const ALL: [(&'static str, GuideFormat); 8] = [
        ("sysctl", GuideFormat::Sysctl),
        ("tuned", GuideFormat::Tuned),
        ("shell", GuideFormat::Shell),
        ("markdown", GuideFormat::Markdown),
        ("html", GuideFormat::Html),
        ("ansible", GuideFormat::Ansible),
        ("perftune", GuideFormat::Perftune),
        ("plan", GuideFormat::Plan),
    ];
}

/// A guide, line by line.
#[derive(Clone, Debug, PartialEq)]
pub struct Guide {
    /// Its name, for people.
    pub name: String,
    /// The format of the guide.
    pub format: GuideFormat,
    /// Every line. Lines of included files come first, because later lines win.
    pub lines: Vec<GuideLine>,
}

/// One line of a guide.
#[derive(Clone, Debug, PartialEq)]
pub struct GuideLine {
    /// The included file or profile that contains this line. `None` for the guide itself.
    pub file: Option<String>,
    /// The number of the line in its file, from 1.
    pub number: usize,
    /// The beginning of the line.
    pub text: String,
    /// What the line says.
    pub content: Content,
}

/// What a line says.
#[derive(Clone, Debug, PartialEq)]
pub enum Content {
    /// These settings.
    Settings(Vec<Ask>),
    /// No setting.
    NotASetting(Skip),
    /// Something that evenkeel does not understand, and why.
    NotUnderstood(String),
}

#[cfg(test)]
impl Content {
    /// The content in one line, as tests expect it.
    pub(super) fn in_words(&self) -> String {
        match self {
            Content::Settings(asks) => asks.iter().map(ToString::to_string).collect::<Vec<_>>().join(" + "),
            Content::NotASetting(skip) => format!("({skip:?})"),
            Content::NotUnderstood(why) => format!("? {why}"),
        }
    }
}

/// Why a line is not a setting.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Skip {
    /// It is empty.
    Blank,
    /// It is a comment.
    Comment,
    /// It is text for people.
    Prose,
    /// The line belongs to the format: a heading, a bracket, the name of a task.
    Structure,
    /// It is a command or an option in which evenkeel knows no setting.
    Command,
    /// The line belongs to the other program and has no meaning outside it.
    Elsewhere,
    /// The guide itself switches the line off.
    SwitchedOff,
}

/// One setting of a line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ask {
    /// What it sets.
    pub target: Target,
    /// The value, in the form of the target.
    pub value: String,
    /// Whether the value is a limit.
    pub bound: Bound,
    /// The branches of the script around the setting.
    pub branch: Branch,
}

/// The arms of `if` and `case` around a setting of a script, the outermost first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Branch(pub(super) Vec<Arm>);

/// One arm of an `if` or a `case`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Arm {
    /// The number of the script in its text, and of the `if` or `case` in the script.
    pub(super) block: (usize, usize),
    /// The number of the arm.
    pub(super) arm: usize,
    /// Whether the arm runs when the script starts its service or applies its settings.
    pub(super) is_start: bool,
}

impl Branch {
    /// The arms of the same `if` or `case` that separate two settings: only one of the two can run.
    pub(super) fn apart(&self, other: &Branch) -> Option<(Arm, Arm)> {
        let (own, other) = self.0.iter().zip(&other.0).find(|(own, other)| own != other)?;
        (own.block == other.block).then_some((*own, *other))
    }
}

/// The meaning of a value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Bound {
    /// Exactly this value.
    #[default]
    Exactly,
    /// At least this value: a larger value stays.
    AtLeast,
    /// At most this value: a smaller value stays.
    AtMost,
}

/// What a setting sets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// A knob, at one place or at all places.
    Knob {
        /// The knob's id.
        id: &'static str,
        /// The place. `None` for all places.
        place: Option<String>,
    },
    /// A knob whose file takes a mask of CPUs, with a value that is not a mask.
    NoMask {
        /// The knob's id.
        id: &'static str,
        /// The place. `None` for all places.
        place: Option<String>,
    },
    /// A file under /proc/sys for which no knob exists, by its path below /proc/sys.
    Sysctl(String),
    /// Another file of the kernel for which no knob exists.
    File(String),
    /// A kernel argument for which no knob exists.
    Argument(String),
    /// A setting of a tool or of another program for which no knob exists, in its own words.
    Tool(String),
    /// No setting: the part of a line that evenkeel does not understand, and why.
    Unclear(String),
}

/// A guide that evenkeel does not read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GuideError {
    /// The guide has too many bytes.
    TooLong,
    /// The guide has too many lines, with all included files.
    TooManyLines,
    /// The guide is for Windows.
    Windows,
    /// The guide is a file of this program, which evenkeel does not read.
    OtherProgram(&'static str),
}

impl fmt::Display for GuideError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            GuideError::TooLong => write!(f, "it has more than {GUIDE_BYTES_MAX} bytes"),
            GuideError::TooManyLines => {
                write!(f, "it has more than {LINES_MAX} lines, with the files that it includes")
            }
            GuideError::Windows => write!(f, "it is for Windows, and evenkeel tunes Linux"),
            GuideError::OtherProgram(what) => write!(f, "it is {what}, which evenkeel does not read"),
        }
    }
}

impl std::error::Error for GuideError {}

impl Guide {
    /// Every setting, with the index of its line.
    pub fn asks(&self) -> impl Iterator<Item = (usize, &Ask)> {
        self.lines.iter().enumerate().flat_map(|(at, line)| {
            let asks: &[Ask] = match &line.content {
                Content::Settings(asks) => asks,
                _ => &[],
            };
            asks.iter().filter(|ask| !matches!(ask.target, Target::Unclear(_))).map(move |ask| (at, ask))
        })
    }

    /// Adds the lines of the guide itself, each with its content.
    pub(super) fn add(&mut self, text: &str, contents: Vec<Content>) {
        self.add_of(None, text, contents);
    }

    /// Adds the lines of a file. If the reader returned fewer results than the file has lines, the remaining lines count as not understood.
    pub(super) fn add_of(&mut self, file: Option<&str>, text: &str, contents: Vec<Content>) {
        let mut contents = contents.into_iter();
        for (at, line) in text.lines().enumerate().take(LINES_MAX + 1) {
            let content =
                contents.next().unwrap_or_else(|| Content::NotUnderstood("the reader did not reach it".into()));
            let line = GuideLine { file: file.map(shown), number: at + 1, text: shown(line.trim()), content };
            self.lines.push(line);
        }
    }
}

impl GuideLine {
    /// Why evenkeel does not understand the line, or a part of it. The other parts may be settings.
    pub fn not_understood(&self) -> Option<String> {
        match &self.content {
            Content::Settings(asks) => Some(reasons(asks)).filter(|why| !why.is_empty()),
            Content::NotASetting(_) => None,
            Content::NotUnderstood(why) => Some(why.clone()),
        }
    }
}

/// The parts of these settings that evenkeel does not understand.
fn reasons(asks: &[Ask]) -> String {
    let why = |ask: &Ask| match &ask.target {
        Target::Unclear(why) => Some(why.clone()),
        _ => None,
    };
    asks.iter().filter_map(why).collect::<Vec<_>>().join("; ")
}

impl Content {
    pub(super) fn not(why: impl Into<String>) -> Content {
        Content::NotUnderstood(why.into())
    }

    /// A line with these settings. A line without settings, or with too many settings, counts as not understood.
    pub(super) fn settings(asks: Vec<Ask>) -> Content {
        match asks.len() {
            0 => Content::not("it has no setting"),
            _ if asks.iter().all(|ask| matches!(ask.target, Target::Unclear(_))) => Content::not(reasons(&asks)),
            1..=ASKS_MAX => Content::Settings(asks),
            _ => Content::not(format!("it has more than {ASKS_MAX} settings")),
        }
    }
}

impl Ask {
    /// Represents the part of a line that evenkeel does not understand, if the line also has settings.
    pub(super) fn not_understood(why: String) -> Ask {
        Ask::new(Target::Unclear(why), "")
    }

    pub(super) fn new(target: Target, value: impl Into<String>) -> Ask {
        Ask { target, value: value.into(), bound: Bound::Exactly, branch: Branch::default() }
    }

    /// Whether both settings give the same target the same value, in any branch.
    pub(super) fn is_same(&self, other: &Ask) -> bool {
        self.target == other.target && self.value == other.value && self.bound == other.bound
    }
}

impl fmt::Display for Ask {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sign = match self.bound {
            Bound::Exactly => "=",
            Bound::AtLeast => ">=",
            Bound::AtMost => "<=",
        };
        match &self.target {
            Target::Knob { id, place: None } | Target::NoMask { id, place: None } => write!(f, "{id}"),
            Target::Knob { id, place: Some(place) } | Target::NoMask { id, place: Some(place) } => {
                write!(f, "{id}@{place}")
            }
            Target::Sysctl(path) => write!(f, "{}", sysctl::dotted(path)),
            Target::File(path) => write!(f, "{path}"),
            Target::Argument(name) if self.value.is_empty() => return write!(f, "kernel argument {name}"),
            Target::Argument(name) => write!(f, "kernel argument {name}"),
            Target::Tool(words) if self.value.is_empty() => return write!(f, "{words}"),
            Target::Tool(words) => write!(f, "{words}"),
            Target::Unclear(why) => return write!(f, "not understood: {why}"),
        }?;
        write!(f, "{sign}{}", self.value.split_whitespace().collect::<Vec<_>>().join(" "))
    }
}
