//! Tuning guides: reads a guide in any of the usual formats, and judges each line for one machine.
//!
//! Reading never runs anything: a shell script is text like any other.
//! The result contains every line of a guide once.
//! A line is kept as settings, as a line without a setting, or as a line that evenkeel does not understand.

mod against;
mod ansible;
mod arguments;
mod arithmetic;
mod blocks;
mod boot;
mod branches;
mod commands;
mod compare;
mod config;
mod foreign;
mod format;
mod functions;
mod harmless;
mod hazards;
mod here;
mod html;
mod inner;
mod judge;
mod library;
mod line;
mod lists;
mod mentions;
mod names;
mod outdated;
mod overrides;
mod own;
mod parse;
mod perftune;
mod places;
mod prompt;
mod prose;
mod readings;
mod refused;
mod reservations;
mod settings;
mod shell;
mod shell_file;
mod shell_found;
mod shell_line;
mod shell_sysctl;
mod spans;
mod state;
mod sysctls;
mod table;
#[cfg(test)]
mod tests;
mod text;
mod tmpfiles;
mod tools;
mod tuned;
mod udev;
mod unit;
mod variables;
mod wide;
mod words;

pub use judge::judge;
pub use library::LibraryGuide;
pub use line::{Ask, Bound, Content, GUIDE_BYTES_MAX, Guide, GuideError, GuideFormat, GuideLine, Skip, Target};
pub use parse::Include;
pub use readings::Readings;
pub use state::{Judged, SettingState};
