//! Blocks of code in a page that are files of their own: YAML, profiles of TuneD, units of systemd.

use std::collections::HashMap;

use super::line::{Content, Guide, GuideFormat, Skip};
use super::{ansible, blocks, format, tuned, unit};

/// The content of each line of such blocks, by its index.
pub(super) fn contents(raw: &[&str]) -> HashMap<usize, Content> {
    let mut found = HashMap::new();
    for block in blocks::fenced(raw) {
        let Some(lines) = raw.get(block.lines.clone()) else { continue };
        let text: String = lines.iter().map(|line| format!("{}\n", without_indent(line, block.indent))).collect();
        if let Some(contents) = read(&text, block.is_yaml) {
            found.extend(block.lines.zip(contents.into_iter().map(quiet)));
        }
    }
    found
}

/// Removes the blanks that the fence has too.
fn without_indent(line: &str, indent: usize) -> &str {
    let blanks = line.len() - line.trim_start_matches(' ').len();
    &line[blanks.min(indent)..]
}

fn read(text: &str, is_yaml: bool) -> Option<Vec<Content>> {
    if is_yaml {
        return Some(ansible::read(text));
    }
    // A script may write such a file.
    let mut lines = text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
    lines.next().filter(|line| line.starts_with('['))?;
    if format::is_profile(text) {
        let mut profile = Guide { name: String::new(), format: GuideFormat::Tuned, lines: Vec::new() };
        tuned::read(&mut profile, text, &|_| None);
        return Some(profile.lines.into_iter().map(|line| line.content).collect());
    }
    unit::is_one(text).then(|| unit::read(text))
}

/// The rest of the file is no advice, like other text of a page.
fn quiet(content: Content) -> Content {
    match content {
        Content::NotASetting(Skip::Command | Skip::Elsewhere) => Content::NotASetting(Skip::Structure),
        content => content,
    }
}
