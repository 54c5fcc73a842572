//! The values that a guide would change, read only once. After this, judging a guide reads nothing.

use std::collections::{BTreeMap, BTreeSet};

use evenkeel_hostfs::Root;

use super::line::{Guide, Target};
use super::lists;
use crate::fact::Fact;
use crate::facts::Facts;
use crate::knobs;
use crate::plan::files_of;
use crate::probe::Probe;
use crate::sysctl;

/// The text of every file that guides name, by path.
#[derive(Clone, Debug, Default)]
pub struct Readings(BTreeMap<String, Fact<String>>);

impl Readings {
    /// Reads what these guides name.
    pub fn take(root: &Root, facts: &Facts, guides: &[Guide]) -> Readings {
        let mut paths = BTreeSet::new();
        for (_, ask) in guides.iter().flat_map(Guide::asks) {
            match &ask.target {
                Target::Knob { id, .. } => {
                    paths.extend(knobs::find(id).into_iter().flat_map(|knob| files_of(knob, facts)))
                }
                Target::Sysctl(path) if !path.contains('*') => {
                    paths.insert(format!("{}{path}", sysctl::FOLDER));
                }
                _ => {}
            }
        }
        let lists: Vec<String> = paths.iter().filter_map(|path| lists::list_of(path)).collect();
        paths.extend(lists);
        // An empty file is a value too.
        let read = |path: String| {
            let text = Probe(root).parse(&path, "a text", |text| Some(text.to_owned()));
            (path, text)
        };
        Readings(paths.into_iter().map(read).collect())
    }

    pub(super) fn value(&self, path: &str) -> Fact<String> {
        self.0.get(path).cloned().unwrap_or_else(|| Fact::absent(format!("{path} was not read")))
    }
}
