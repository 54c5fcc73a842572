//! Reads the output of `perf script`, for recordings of other machines. perf has already found the names there.
//!
//! A sample is a header line, and a line for each frame, innermost first:
//!
//! ```text
//! my server 4711/4713 [001] 12.345678:    1000000 cpu-clock:pppH:
//!         ffffffff8105a2b4 do_idle+0xa4 ([kernel.kallsyms])
//!                    4ac3b std::vector<int>::size (inlined)
//!                    4ac38 main+0x28 (/usr/bin/my server)
//! ```
//!
//! Everything except name, thread and event may be missing. Without call chains, the only frame is at the end of the line.

mod head;

use std::collections::HashMap;

use head::{Head, LineKind};

use crate::recording::{Event, EventId, Recording, RecordingCaveat, Sample, Switch, Thread, Unit};
use crate::stack::{Frame, Module};
use crate::unwind::FRAMES_MAX;

/// A line that can't be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{what}, at line {line}")]
pub struct BadLine {
    /// What is wrong with the line.
    pub what: &'static str,
    /// The line's number, from 1.
    pub line: usize,
}

/// The maximum number of events. Samples of further events count as samples of the last event.
const EVENTS_MAX: usize = 4096;

/// Reads the output of `perf script`. Other lines are skipped and reported as a caveat.
///
/// # Errors
/// If no line is a sample or a switch. The error has the first unreadable line.
pub fn parse(bytes: &[u8]) -> Result<Recording, BadLine> {
    let mut reader = Reader::default();
    for (at, line) in bytes.split(|byte| *byte == b'\n').enumerate() {
        reader.line(at + 1, &String::from_utf8_lossy(line.strip_suffix(b"\r").unwrap_or(line)));
    }
    reader.finish()
}

#[derive(Debug, Default)]
struct Reader {
    recording: Recording,
    events: HashMap<String, EventId>,
    /// The sample whose frames follow.
    open: Option<Sample>,
    frames: Vec<Frame>,
    /// The number of the first unreadable line, and the number of unreadable lines.
    odd: Option<(usize, u64)>,
}

impl Reader {
    fn line(&mut self, number: usize, line: &str) {
        if line.trim().is_empty() {
            self.close();
        } else if let Some(comment) = line.strip_prefix('#') {
            self.comment(comment);
        } else if self.open.is_some()
            && (line.starts_with('\t') || line.starts_with(' ') && Head::parse(line).is_none())
        {
            // perf begins the line of a frame with a tab.
            // A copy of the text may have spaces instead of the tab, and spaces also pad names.
            self.frame(line);
        } else if let Some(head) = Head::parse(line) {
            self.close();
            self.head(&head);
        } else {
            self.close();
            let (_, count) = self.odd.get_or_insert((number, 0));
            *count += 1;
        }
    }

    /// The machine, from `perf script --header`.
    fn comment(&mut self, comment: &str) {
        let Some((what, said)) = comment.split_once(" : ") else { return };
        let (machine, said) = (&mut self.recording.machine, said.trim());
        match what.trim() {
            "hostname" => machine.host = Some(said.to_owned()),
            "os release" => machine.kernel = Some(said.to_owned()),
            "arch" => machine.architecture = Some(said.to_owned()),
            "nrcpus online" => machine.cpus = said.parse().ok(),
            "cmdline" => machine.command = said.split_whitespace().map(str::to_owned).collect(),
            _ => {}
        }
    }

    fn head(&mut self, head: &Head<'_>) {
        let (at_ns, cpu) = (head.at_ns.unwrap_or(0), head.cpu.unwrap_or(0));
        let pid = head.pid.or_else(|| self.recording.threads.get(&head.tid).map(|thread| thread.pid));
        let (pid, tid) = (pid.unwrap_or(head.tid), head.tid);
        let thread = Thread { pid, name: Some(head.name.to_owned()) };
        self.recording.threads.insert(tid, thread);
        if at_ns != 0 {
            let span = &mut self.recording.span;
            span.start_ns = if span.start_ns == 0 { at_ns } else { span.start_ns.min(at_ns) };
            span.end_ns = span.end_ns.max(at_ns.saturating_add(1));
        }
        match head.kind {
            LineKind::Sample { event, period, rest } => {
                let event = self.event(event);
                let weight = period.unwrap_or(1);
                let stack = self.recording.stacks.intern(std::iter::empty());
                self.open = Some(Sample { event, at_ns, cpu, pid, tid, stack, weight, address: 0, raw: (0, 0) });
                // For a tracepoint, the rest of the line is the tracepoint's text and not a frame.
                if rest.ends_with(')') && rest.split(' ').next().is_some_and(is_address) {
                    self.frame(rest);
                }
            }
            LineKind::Switched { turn, other } => {
                self.recording.switches.push(Switch { at_ns, cpu, pid, tid, turn, other });
            }
            LineKind::Other => {}
        }
    }

    fn event(&mut self, name: &str) -> EventId {
        if let Some(event) = self.events.get(name) {
            return *event;
        }
        let events = &mut self.recording.events;
        if events.len() >= EVENTS_MAX {
            return (events.len() - 1) as EventId;
        }
        let event = events.len() as EventId;
        let mut added = Event { name: name.to_owned(), unit: Unit::Events };
        if added.is_clock() {
            added.unit = Unit::Nanoseconds;
        }
        events.push(added);
        self.events.insert(name.to_owned(), event);
        event
    }

    /// Parses a line of a stack: address, function with offset, file in brackets. Each part may be missing.
    fn frame(&mut self, line: &str) {
        let line = line.trim();
        let (address, rest) = match line.split_once(' ') {
            Some((first, rest)) if is_address(first) => (Some(first), rest.trim_start()),
            None if is_address(line) => (Some(line), ""),
            _ => (None, line),
        };
        let (function, file) = split_file(rest);
        // The source line, which `-F +srcline` prints below each frame, is not a frame.
        if self.frames.len() >= FRAMES_MAX || (address.is_none() && file.is_none()) {
            return;
        }
        let is_inlined = file == Some("inlined");
        let file = file.filter(|file| !is_inlined && *file != "[unknown]");
        let is_kernel = address.is_some_and(is_of_kernel) || file.is_some_and(is_kernel_file);
        let module = file.map(|path| Module { path: path.to_owned(), build_id: None });
        let function = without_offset(function);
        let name = match &module {
            _ if !function.is_empty() && function != "[unknown]" => function.to_owned(),
            Some(_) if is_kernel => "[kernel]".to_owned(),
            Some(module) => format!("[{}]", module.name().trim_matches(['[', ']'])),
            None => "[unknown]".to_owned(),
        };
        let name = self.recording.stacks.text(&name);
        let module = module.map(|module| self.recording.modules.number(module));
        self.frames.push(Frame::Named { name, module, is_kernel, is_inlined });
    }

    /// Adds the current sample, whose frames are complete.
    fn close(&mut self) {
        let frames = std::mem::take(&mut self.frames);
        if let Some(sample) = self.open.take() {
            let stack = self.recording.stacks.intern(frames.iter().rev().copied());
            self.recording.samples.push(Sample { stack, ..sample });
        }
        // Keep the buffer for the next sample.
        self.frames = frames;
        self.frames.clear();
    }

    fn finish(mut self) -> Result<Recording, BadLine> {
        self.close();
        let mut recording = self.recording;
        if recording.samples.is_empty() && recording.switches.is_empty() {
            let line = self.odd.map_or(1, |(line, _)| line);
            return Err(BadLine { what: "no line is a sample in the format of perf script", line });
        }
        if let Some((line, count)) = self.odd {
            recording.caveats.push(RecordingCaveat::BadLines { count, first: line });
        }
        recording.samples.sort_by_key(|sample| sample.at_ns);
        recording.switches.sort_by_key(|switch| switch.at_ns);
        Ok(recording)
    }
}

/// Whether a word is an address. perf pads addresses, so a short hexadecimal word is the name of a function.
fn is_address(word: &str) -> bool {
    (1..=16).contains(&word.len()) && word.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

/// Whether an address is in the upper half of the address space, which belongs to the kernel.
fn is_of_kernel(address: &str) -> bool {
    u64::from_str_radix(address, 16).is_ok_and(|address| address >> 63 == 1)
}

fn is_kernel_file(file: &str) -> bool {
    const OF_USERS: &[&str] = &["[vdso]", "[vsyscall]", "[heap]", "[stack]", "[anon]"];
    let is_module = [".ko", ".ko.xz", ".ko.gz", ".ko.zst"].iter().any(|ending| file.ends_with(ending));
    is_module || (file.starts_with('[') && !OF_USERS.contains(&file) && !file.starts_with("[anon"))
}

/// A function and its file in brackets. The file's name may contain spaces and brackets.
fn split_file(text: &str) -> (&str, Option<&str>) {
    let Some(inner) = text.strip_suffix(')') else { return (text, None) };
    let name = inner.strip_suffix(" (deleted)").unwrap_or(inner);
    // A path begins with a slash. Other file names contain no brackets.
    let begin = name.rfind(" (/").or_else(|| name.rfind(" (")).map(|at| at + 2);
    match begin.or_else(|| name.starts_with('(').then_some(1)) {
        Some(at) => (text[..at - 1].trim_end(), Some(&inner[at..])),
        None => (text, None),
    }
}

/// The name of a function without an offset such as `+0x12`.
fn without_offset(function: &str) -> &str {
    match function.rsplit_once("+0x") {
        Some((name, offset)) if !name.is_empty() && offset.bytes().all(|byte| byte.is_ascii_hexdigit()) => name,
        _ => function,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fold::{Base, Folded};
    use crate::names::Names;

    fn folded(text: &str) -> Vec<String> {
        let recording = parse(text.as_bytes()).unwrap();
        let names = Names::resolve(&recording, |_| Vec::new());
        let folded = Folded::from_samples(&recording, &names, Base::Nothing, recording.samples.iter());
        folded.lines.into_iter().map(|(line, weight)| format!("{line} {weight}")).collect()
    }

    #[test]
    fn every_shape_of_a_frame() {
        let cases = [
            ("  7f12 main+0x28 (/usr/bin/x)", "main"),
            ("  7f12 main (/usr/bin/x)", "main"),
            ("  7f12 main+0x28 (/usr/bin/my x (deleted))", "main"),
            (
                "  7f12 std::vector<int, a<int> >::push_back(int const&) const+0x1f (/x)",
                "std::vector<int, a<int> >::push_back(int const&) const",
            ),
            ("  7f12 operator+ (/x)", "operator+"),
            ("  7f12 (anonymous namespace)::f(int)+0x3 (/x)", "(anonymous namespace)::f(int)"),
            ("  7f12 f (inlined)", "f_[i]"),
            ("  7f12 [unknown] (/usr/lib/libc.so.6)", "[libc.so.6]"),
            ("  7f12 [unknown] ([unknown])", "[unknown]"),
            ("  7f12 [unknown] (//anon)", "[anon]"),
            ("  7f12 (/usr/lib/libc.so.6)", "[libc.so.6]"),
            ("  7f12", "[unknown]"),
            ("  7f12 __vdso_gettimeofday+0x1 ([vdso])", "__vdso_gettimeofday"),
            ("  ffffffff8105a2b4 do_idle+0xa4 ([kernel.kallsyms])", "do_idle_[k]"),
            ("  ffffffffc005a2b4 nft_do_chain+0xa4 ([nf_tables])", "nft_do_chain_[k]"),
            ("  ffffffffc005a2b4 [unknown] (/lib/modules/6.1/kernel/x.ko)", "[kernel]_[k]"),
            ("  main+0x28 (/usr/bin/x)", "main"),
            // A source line is not a frame, so no frame is left.
            ("  main.c:17", "[cut off]"),
        ];
        for (line, expected) in cases {
            assert_eq!(folded(&format!("a 1 5 e:\n{line}\n")), [format!("{expected} 5")], "{line}");
        }
    }

    #[test]
    fn samples_end_with_the_next_one_or_a_blank_line() {
        let text = "a 1 2 e:\n  1 f (x)\n  2 g (x)\nb 2 3 e:\n  1 f (x)\n\nc 3 4 e:\r\n  1 f (x)\r\n  2 g (x)\r\n";
        assert_eq!(folded(text), ["f 3", "g;f 6"]);
        assert_eq!(folded("a 1 1.5: 2 e:  7f12 main+0x2 (/x)\nb 2 1.6: 1 e:\n"), ["[cut off] 1", "main 2"]);
    }

    #[test]
    fn lines_of_no_sample_are_a_caveat() {
        let recording = parse(b"hello\na 1 2 e:\n  1 f (x)\n\nworld\n").unwrap();
        assert_eq!(recording.caveats, [RecordingCaveat::BadLines { count: 2, first: 1 }]);
        let refused = parse(b"\nhello\nworld\n").unwrap_err();
        assert_eq!(refused.line, 2);
    }
}
