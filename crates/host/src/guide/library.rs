//! Well-known tuning guides as data. `library.txt` has only their values, each with its source.

/// A guide of the library.
#[derive(Clone, Copy, Debug)]
pub struct LibraryGuide {
    /// Its name on the command line.
    pub name: &'static str,
    /// The purpose of the guide.
    pub title: &'static str,
    /// Where the values come from.
    pub source: &'static str,
    /// The values, one setting per line.
    pub text: &'static str,
}

/// The text of all guides. Each guide has its name in brackets, a comment with its title, a comment with its source, and its settings.
const LIBRARY: &str = include_str!("library.txt");

impl LibraryGuide {
    /// Every guide.
    pub fn all() -> impl Iterator<Item = LibraryGuide> {
        LIBRARY.split("\n\n").filter_map(|guide| {
            let (name, rest) = guide.strip_prefix('[')?.split_once("]\n# ")?;
            let (title, rest) = rest.split_once("\n# ")?;
            let (source, text) = rest.split_once('\n')?;
            Some(LibraryGuide { name, title, source, text })
        })
    }

    /// The guide of this name.
    pub fn find(name: &str) -> Option<LibraryGuide> {
        LibraryGuide::all().find(|guide| guide.name == name)
    }
}
