//! Compares reports of several machines: each setting with its result on every machine, and whether the machines agree.

use evenkeel_trial::Outcome;
use evenkeel_trial::saved::{Across, Agreement, Asked, Cell, Machine};
use evenkeel_trial::words::{ChangeWay, change};

use super::chart::{self, Estimate, Source};
use super::words::{as_change, range, share};
use crate::view::{Block, Column, Text, html, sentence};

/// The maximum length of a name in a column, in characters.
const NAME_MAX: usize = 24;
/// The maximum number of machines that a sentence names. It names the first ones in the list.
const NAMED_MAX: usize = 6;

/// The page as HTML.
pub(crate) fn page(across: &Across) -> String {
    let sub = format!("{} reports · evenkeel {}", across.machines.len(), env!("CARGO_PKG_VERSION"));
    html::page("evenkeel: reports side by side", &sub.into(), &blocks(across))
}

pub(crate) fn blocks(across: &Across) -> Vec<Block> {
    let mut blocks: Vec<Block> = across.asked.iter().map(|asked| section(asked, across)).collect();
    if across.asked.is_empty() {
        blocks.push(Block::Warning("None of these reports has a trial.".to_owned()));
    }
    let machines = across.machines.iter();
    let machines = machines.map(|machine| Text::code(machine.name.as_str()).and(format!(": {}", traits(machine))));
    let note = "A result of one machine does not hold for another: nothing here is averaged.";
    blocks.push(Block::section("Machines", vec![Block::List(machines.collect()), Block::Note(note.to_owned())]));
    blocks
}

fn section(asked: &Asked, across: &Across) -> Block {
    let estimate = |cell: &Cell| Estimate {
        label: name(cell.machine, across).to_owned(),
        note: across.machines.get(cell.machine).and_then(|machine| machine.kernel.clone()).unwrap_or_default(),
        ratio: cell.ratio,
        interval: cell.interval,
        rug: Vec::new(),
    };
    let estimates: Vec<Estimate> = asked.cells.iter().map(estimate).collect();
    let matters = asked.smallest_effect_ratio.unwrap_or(0.0);
    let drawing = chart::estimates(&estimates, matters, ["lower", "higher"], &source(across));
    let caption = format!(
        "The change of `{}` on each machine, with its confidence interval. Grey band: too small to matter.",
        asked.metric
    );
    let [machine, verdict, change, interval] = ["machine", "verdict", "change", "interval"].map(Column::from);
    let header = [machine, verdict, change, interval, Column::number("pairs")];
    let servers = asked.cells.iter().map(|cell| [name(cell.machine, across).to_owned(), cell.workload.clone()]);
    let mut blocks = vec![Block::paragraph(sentence(&summary(asked, across)))];
    if !asked.caveats.is_empty() {
        blocks.push(Block::caveats(&asked.caveats));
    }
    blocks.extend([
        Block::Drawing(drawing, Text::prose(&caption)),
        Block::table(header, asked.cells.iter().map(|cell| row(cell, across)).collect()),
        Block::Detail(vec![Block::table(["machine", "server and load"], servers.collect())]),
    ]);
    Block::section(title(asked), blocks)
}

fn source(across: &Across) -> Source {
    let names: Vec<&str> = across.machines.iter().map(|machine| machine.name.as_str()).collect();
    Source {
        host: format!("{} machines", names.len()),
        date: "dates as in the reports".to_owned(),
        command: format!("evenkeel prove compare {}", names.join(" ")),
    }
}

/// The settings, and the primary metric.
fn title(asked: &Asked) -> String {
    let what = if asked.control { "control of " } else { "" };
    format!("{what}{}, by {}", asked.knob, asked.metric)
}

fn row(cell: &Cell, across: &Across) -> [Text; 5] {
    let caveats = match cell.caveats {
        0 => String::new(),
        1 => " (1 caveat)".to_owned(),
        many => format!(" ({many} caveats)"),
    };
    let interval = cell.interval.map(|(low, high)| format!("{} to {}", signed(low), signed(high)));
    [
        shortened(name(cell.machine, across)).into(),
        format!("{}{}{caveats}", cell.verdict, veto(cell)).into(),
        cell.ratio.map_or_else(|| "not measured".to_owned(), as_change).into(),
        interval.unwrap_or_else(|| "none".to_owned()).into(),
        cell.pairs.to_string().into(),
    ]
}

/// The end of a long path, because the paths of reports often differ only at their ends.
fn shortened(name: &str) -> String {
    let letters: Vec<char> = name.chars().collect();
    if letters.len() <= NAME_MAX {
        return name.to_owned();
    }
    let end: String = letters[letters.len() - NAME_MAX + 1..].iter().collect();
    format!("…{end}")
}

/// A ratio as a change with its sign, short enough for a column.
fn signed(ratio: f64) -> String {
    match change(ratio) {
        (amount, ChangeWay::Lower) => format!("-{amount}"),
        (amount, ChangeWay::Higher) => format!("+{amount}"),
        (times, way @ ChangeWay::TimesAsHigh) => format!("{times} {way}"),
    }
}

/// The name of the guard that rejected B, as text; empty if no guard rejected it.
fn veto(cell: &Cell) -> String {
    cell.vetoed_by.as_ref().map_or_else(String::new, |guard| format!(" by {guard}"))
}

fn name(machine: usize, across: &Across) -> &str {
    across.machines.get(machine).map_or("unknown", |machine| machine.name.as_str())
}

/// The machine of a report on one line.
fn traits(machine: &Machine) -> String {
    let cpus = machine.cpus.as_ref().map(|cpus| format!("CPUs {cpus}"));
    let kernel = machine.kernel.as_ref().map(|kernel| format!("kernel {kernel}"));
    let version = machine.evenkeel.as_ref().map(|version| format!("evenkeel {version}"));
    let parts = [machine.instance.clone(), kernel, machine.processor.clone(), cpus, machine.taken.clone(), version];
    let parts: Vec<String> = parts.into_iter().flatten().collect();
    if parts.is_empty() { "the report does not say what it is".to_owned() } else { parts.join(", ") }
}

/// Sentences about how far the machines agree.
fn summary(asked: &Asked, across: &Across) -> String {
    let groups = [
        (Outcome::Better, "helps on"),
        (Outcome::Worse, "hurts on"),
        (Outcome::Same, "makes no difference that matters on"),
        (Outcome::Undecided, "is undecided on"),
        (Outcome::NotEngaged, "was not engaged on"),
    ];
    let of = |verdict: Outcome| asked.cells.iter().filter(move |cell| cell.verdict == verdict);
    let said: Vec<String> = groups
        .iter()
        .filter(|(verdict, _)| of(*verdict).next().is_some())
        .map(|(verdict, words)| {
            format!("{words} {}", names(&of(*verdict).map(|cell| cell.machine).collect::<Vec<_>>(), across))
        })
        .collect();
    let subject = if asked.control { "A against A " } else { "it " };
    let said = said.join("; ");
    let mixed = of(Outcome::Better).next().is_some() && of(Outcome::Worse).next().is_some();
    let decide = if mixed { " Decide for each machine separately." } else { "" };
    format!("{subject}{said}. {}{decide}", agreement(&asked.agreement, across))
}

fn agreement(agreement: &Agreement, across: &Across) -> String {
    match agreement {
        Agreement::TooFew => {
            "Fewer than two machines have an interval, so this can't show whether they agree.".to_owned()
        }
        Agreement::Agree { low, high, confidence } => format!(
            "The machines agree: one effect {} fits all of them ({} confidence).",
            range(*low, *high),
            share(*confidence)
        ),
        Agreement::Differ { apart, confidence } => {
            let pairs: Vec<String> = apart
                .iter()
                .take(NAMED_MAX)
                .map(|(low, high)| format!("lower on {} than on {}", name(*low, across), name(*high, across)))
                .collect();
            let more = apart.len().saturating_sub(NAMED_MAX);
            let more = if more > 0 { format!(", and {more} more pairs") } else { String::new() };
            format!(
                "The machines differ: the ratio is {}{more}. Equal machines would look different in at most {} of such comparisons.",
                pairs.join(", "),
                share(1.0 - confidence)
            )
        }
    }
}

fn names(machines: &[usize], across: &Across) -> String {
    if machines.len() == across.machines.len() && machines.len() > 1 {
        return format!("all {} machines", machines.len());
    }
    let named: Vec<&str> = machines.iter().take(NAMED_MAX).map(|machine| name(*machine, across)).collect();
    let more = machines.len().saturating_sub(NAMED_MAX);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    format!("{}{more}", named.join(", "))
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;

    fn cell(machine: usize, verdict: Outcome) -> Cell {
        let (workload, vetoed_by) = (String::new(), None);
        Cell {
            machine,
            verdict,
            ratio: Some(0.5),
            interval: Some((0.45, 0.55)),
            vetoed_by,
            pairs: 30,
            caveats: 0,
            workload,
        }
    }

    fn sentence(verdicts: &[Outcome], agreement: Agreement) -> String {
        let machines = ["a", "b", "c"].map(|name| Machine { name: name.to_owned(), ..Machine::default() }).to_vec();
        let asked = Asked {
            knob: "k=1".into(),
            control: false,
            metric: "x_us".into(),
            title: "x".into(),
            smallest_effect_ratio: Some(0.05),
            cells: verdicts.iter().enumerate().map(|(machine, verdict)| cell(machine, *verdict)).collect(),
            agreement,
            caveats: Vec::new(),
        };
        summary(&asked, &Across { machines, asked: Vec::new() })
    }

    #[test]
    fn the_machines_agreement_is_one_sentence() {
        use Outcome::{Better, NotEngaged, Same, Undecided, Worse};
        let agree = || Agreement::Agree { low: 0.48, high: 0.52, confidence: 0.95 };
        let differ = || Agreement::Differ { apart: vec![(0, 1), (0, 2)], confidence: 0.95 };
        let all = [
            sentence(&[Better, Better, Better], agree()),
            sentence(&[Better, Worse, Same], differ()),
            sentence(&[Undecided, NotEngaged], Agreement::TooFew),
        ];
        expect![[r#"
            it helps on all 3 machines. The machines agree: one effect between 48 % and 52 % lower fits all of them (95 % confidence).
            it helps on a; hurts on b; makes no difference that matters on c. The machines differ: the ratio is lower on a than on b, lower on a than on c. Equal machines would look different in at most 5 % of such comparisons. Decide for each machine separately.
            it is undecided on a; was not engaged on b. Fewer than two machines have an interval, so this can't show whether they agree.
        "#]].assert_eq(&(all.join("\n") + "\n"));
    }
}
