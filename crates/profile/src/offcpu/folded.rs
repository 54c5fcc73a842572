//! Spells as folded stacks, weighted by their length in nanoseconds: what an off-CPU flame graph and a wake-up graph are drawn of.

use super::Spell;
use crate::fold::{Base, Folded};
use crate::names::Names;
use crate::recording::{Recording, Sample};
use crate::stack::StackId;

/// The spells by where threads were, with the reason as the innermost frame. Those that ended with the thread are left out: they have no
/// length.
pub fn folded(recording: &Recording, names: &Names, spells: &[Spell], base: Base) -> Folded {
    let mut folded = Folded::default();
    for reason in super::Reason::ALL {
        let own: Vec<(Sample, bool, u64)> = spells
            .iter()
            .filter(|spell| spell.reason == reason && spell.span.length_ns() > 0)
            .filter_map(|spell| {
                let stack = spell.stack.or_else(|| recording.stacks.ids().next())?;
                let (cpu, at_ns) = (spell.cpu, spell.span.start_ns);
                Some((
                    of_thread((spell.pid, spell.tid), cpu, at_ns, stack),
                    spell.stack.is_some(),
                    spell.span.length_ns(),
                ))
            })
            .collect();
        let known = own.iter().filter(|(_, is_known, _)| *is_known);
        let known = Folded::weighted(recording, names, base, known.map(|(sample, _, weight)| (sample, *weight)));
        let unknown = own.iter().filter(|(_, is_known, _)| !is_known);
        let unknown = unknown.map(|(sample, _, weight)| (base.of(recording, sample), *weight));
        for (line, weight) in known.lines.into_iter().chain(unknown) {
            let parting = if line.is_empty() { "" } else { ";" };
            folded.add(format!("{line}{parting}{}", leaf(reason)), weight);
        }
    }
    folded
}

/// The innermost frame of a reason.
fn leaf(reason: super::Reason) -> String {
    format!("off CPU: {}", reason.words())
}

/// The spells that somebody is known to have ended: the waker's thread and stack, and on top of it the woken one's.
pub fn woken(recording: &Recording, names: &Names, spells: &[Spell]) -> Folded {
    let mut folded = Folded::default();
    let line = |who: (u32, u32), spell: &Spell, stack: StackId| {
        let sample = of_thread(who, spell.cpu, spell.span.start_ns, stack);
        let one = Folded::weighted(recording, names, Base::Thread, std::iter::once((&sample, 1)));
        one.lines.into_keys().next().unwrap_or_default()
    };
    for spell in spells {
        let Some((by, Some(stack))) = spell.woken_by else { continue };
        let pid = recording.threads.get(&by).map_or(0, |thread| thread.pid);
        let waker = line((pid, by), spell, stack);
        let own = spell.stack.map(|stack| line((spell.pid, spell.tid), spell, stack));
        let own = own.unwrap_or_else(|| {
            Base::Thread.of(recording, &of_thread((spell.pid, spell.tid), spell.cpu, spell.span.start_ns, stack))
        });
        folded.add(format!("{waker};{own};{}", leaf(spell.reason)), spell.span.length_ns());
    }
    folded
}

/// What a fold asks of a sample.
fn of_thread((pid, tid): (u32, u32), cpu: u32, at_ns: u64, stack: StackId) -> Sample {
    Sample { event: 0, at_ns, cpu, pid, tid, stack, weight: 1, address: 0, raw: (0, 0) }
}
