//! `NameCoverage`: which code of a recording has no name, why, and what helps.

use std::collections::HashMap;

use serde::Serialize;

use super::finding::Finding;
use super::mend;
use super::why::{Reason, Why};
use crate::names::Names;
use crate::recording::Recording;
use crate::stack::Frame;

/// How many frames there are, and how many have a name. A frame counts once for each sample that contains it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Share {
    /// The number of frames.
    pub frames: u64,
    /// The number of frames with a name.
    pub named: u64,
}

impl Share {
    /// The share of frames with a name, from 0 to 1. None if there are no frames.
    pub fn of_named(self) -> Option<f64> {
        (self.frames > 0).then(|| self.named as f64 / self.frames as f64)
    }
}

/// The frames of one file that have no name.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Unnamed {
    /// The file or pseudo-file.
    pub file: String,
    /// Whether the file is the kernel's.
    pub is_kernel: bool,
    /// The number of frames. A frame counts once for each sample that contains it.
    pub frames: u64,
    /// The share of these frames in all kernel frames, or in all user frames including addresses without code, from 0 to 1.
    pub share: f64,
    /// Why the frames have no name.
    pub why: Why,
    /// What was found instead of the file, if anything.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
    /// The command that helps, if there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mend: Option<String>,
}

/// How many frames have names.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct NameCoverage {
    /// Frames in user mode.
    pub user: Share,
    /// Frames of the kernel.
    pub kernel: Share,
    /// Addresses without code, to which stacks without frame pointers led. They do not count as user frames, because the true frames are unknown.
    pub nowhere: u64,
    /// The frames without a name by file, the file with most frames first.
    pub unnamed: Vec<Unnamed>,
}

impl NameCoverage {
    /// A caveat for each file with a relevant share of missing names.
    pub fn said(&self) -> Vec<String> {
        const LEAST_SHARE: f64 = 0.01;
        const FILES_MAX: usize = 5;
        let telling = self.unnamed.iter().filter(|unnamed| unnamed.share >= LEAST_SHARE);
        telling.take(FILES_MAX).map(Unnamed::said).collect()
    }
}

impl Unnamed {
    fn said(&self) -> String {
        let whose = if self.is_kernel { "kernel" } else { "user" };
        let (percent, file, why) = (100.0 * self.share, &self.file, self.why.words());
        let detail = self.detail.as_ref().map(|detail| format!(" ({detail})")).unwrap_or_default();
        let mend = self.mend.as_ref().map(|mend| format!("; to fix it: {mend}")).unwrap_or_default();
        format!("{percent:.1} % of {whose} frames have no name, in {file}: {why}{detail}{mend}")
    }
}

/// The coverage of a recording, from the findings of the search.
pub(super) fn coverage(recording: &Recording, names: &Names, finding: &Finding) -> NameCoverage {
    let mut coverage = NameCoverage::default();
    let mut unnamed: HashMap<(String, bool, Reason), u64> = HashMap::new();
    for (place, count) in counts(recording).into_iter().enumerate() {
        let Some(frame) = recording.stacks.frames().get(place).filter(|_| count > 0) else { continue };
        let Some(named) = names.at(place) else { continue };
        if matches!(frame, Frame::Hint(_)) {
            continue;
        }
        let is_nowhere = named.functions.is_empty() && finding.nowhere.contains(frame);
        if is_nowhere {
            coverage.nowhere = coverage.nowhere.saturating_add(count);
        }
        let share = if named.is_kernel { &mut coverage.kernel } else { &mut coverage.user };
        share.frames = share.frames.saturating_add(if is_nowhere { 0 } else { count });
        if !named.functions.is_empty() {
            share.named = share.named.saturating_add(count);
            continue;
        }
        let module =
            |id| recording.modules.get(id).map_or_else(|| named.in_place.clone(), |module| module.path.clone());
        let (file, reason) = match frame {
            Frame::InFile { module: id, .. } => (module(*id), finding.files.get(id).cloned()),
            Frame::Kernel { module: Some(id), .. } => (module(*id), finding.kernel.clone()),
            Frame::Kernel { module: None, .. } => ("[kernel]".to_owned(), finding.kernel.clone()),
            Frame::Anonymous { pid, .. } if is_nowhere => (process(recording, *pid), Some(Why::NoFramePointers.into())),
            Frame::Anonymous { pid, .. } => (process(recording, *pid), finding.processes.get(pid).cloned()),
            Frame::Named { .. } | Frame::Hint(_) => (named.in_place.clone(), None),
        };
        let reason = reason.unwrap_or(Why::NotRecorded.into());
        let sum = unnamed.entry((file, named.is_kernel, reason)).or_default();
        *sum = sum.saturating_add(count);
    }
    let mut unnamed: Vec<Unnamed> = unnamed
        .into_iter()
        .map(|((file, is_kernel, reason), frames)| {
            let all = if is_kernel { coverage.kernel.frames } else { coverage.user.frames + coverage.nowhere };
            let share = frames as f64 / all.max(1) as f64;
            let mend = mend::command(&file, reason.why);
            Unnamed { file, is_kernel, frames, share, why: reason.why, detail: reason.detail, mend }
        })
        .collect();
    unnamed.sort_by(|one, other| (other.frames, &one.file).cmp(&(one.frames, &other.file)));
    coverage.unnamed = unnamed;
    coverage
}

fn process(recording: &Recording, pid: u32) -> String {
    let name = recording.threads.get(&pid).and_then(|thread| thread.name.as_deref());
    name.map_or_else(|| format!("process {pid}"), |name| format!("{name} (process {pid})"))
}

/// How many samples contain each frame. A frame that is in a stack twice counts twice.
fn counts(recording: &Recording) -> Vec<u64> {
    let stacks = &recording.stacks;
    let mut of_stacks = vec![0_u64; stacks.count()];
    for sample in &recording.samples {
        if let Some(count) = of_stacks.get_mut(sample.stack.place()) {
            *count += 1;
        }
    }
    let mut of_frames = vec![0_u64; stacks.frames().len()];
    // A stack comes after the stacks of its callers. So in reverse order, each total is complete.
    for id in stacks.ids().rev() {
        let count = of_stacks.get(id.place()).copied().unwrap_or(0);
        let (frame, below) = stacks.top(id);
        if let Some(sum) = of_frames.get_mut(frame.place()) {
            *sum = sum.saturating_add(count);
        }
        if let Some(sum) = below.and_then(|below| of_stacks.get_mut(below.place())) {
            *sum = sum.saturating_add(count);
        }
    }
    of_frames
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_names_are_reported_with_the_command_that_helps() {
        let unnamed = |file: &str, share, why, mend: Option<&str>| Unnamed {
            file: file.to_owned(),
            is_kernel: why == Why::KernelHidden,
            frames: 10,
            share,
            why,
            detail: None,
            mend: mend.map(str::to_owned),
        };
        let coverage = NameCoverage {
            user: Share { frames: 100, named: 50 },
            kernel: Share { frames: 10, named: 0 },
            nowhere: 0,
            unnamed: vec![
                unnamed("/usr/bin/memcached", 0.5, Why::NoSymbols, Some("apt-get install memcached-dbgsym")),
                unnamed("[kernel]", 1.0, Why::KernelHidden, Some("sudo sysctl kernel.kptr_restrict=0")),
                unnamed("/usr/bin/other", 0.001, Why::Gone, None),
            ],
        };
        let expected = [
            "50.0 % of user frames have no name, in /usr/bin/memcached: it is stripped; \
             to fix it: apt-get install memcached-dbgsym",
            "100.0 % of kernel frames have no name, in [kernel]: the kernel hides its addresses; \
             to fix it: sudo sysctl kernel.kptr_restrict=0",
        ];
        assert_eq!(coverage.said(), expected);
        assert_eq!((coverage.user.of_named(), Share::default().of_named()), (Some(0.5), None));
    }
}
