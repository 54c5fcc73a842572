//! `evenkeel profile diff A B`.

use std::path::{Path, PathBuf};

use evenkeel_profile::fold::Folded;
use evenkeel_profile::graph::{self, Changed, Direction, Pair, Quantity, Style, Totals};
use evenkeel_profile::tree::{Kind as FrameKind, Tree};

use super::pick::{By, Pick};
use super::source::{self, Source};
use super::written::{self, Kind, Output};
use crate::exit;
use crate::failure::{Failure, Outcome};
use crate::show::profile::diff::{Answer, Row, Side};
use crate::show::units::part;
use crate::show::{Out, profile};
use crate::view::terminal;

/// Compare two recordings: which functions take more time, and which less
///
/// evenkeel scales both recordings to the same total, so it compares shares;
/// --raw compares without scaling. --output writes a differential flame graph:
/// widths are those of B, red is more than in A, blue is less.
/// A and B are recordings or folded stacks.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  evenkeel profile diff before.data after.data --output difference.svg")]
pub(crate) struct Args {
    /// The first recording
    #[arg(value_name = "A")]
    before: PathBuf,
    /// The second recording
    #[arg(value_name = "B")]
    after: PathBuf,
    #[command(flatten)]
    output: Output,
    /// Compare weights without scaling to the same total
    #[arg(long)]
    raw: bool,
    /// Draw the graph from the top down
    #[arg(long)]
    icicle: bool,
    /// What the base of each stack shows
    #[arg(long, value_enum, default_value_t)]
    by: By,
    #[command(flatten)]
    pick: Pick,
    /// How many functions to show in each table
    #[arg(long, value_name = "N", default_value_t = 15, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    top: u32,
}

pub(crate) fn run(args: &Args, out: &Out) -> Outcome {
    let wanted = args.output.wanted()?;
    let tree = |file: &Path, by: By| {
        let source = source::open(file)?;
        if let Source::Recording(opened) = &source {
            opened.warn(file, out);
        }
        let origin = match &source {
            Source::Recording(opened) => opened.origin(),
            Source::Folded(_) => String::new(),
        };
        source.tree(&args.pick, by, file).map(|(tree, quantity)| (tree, quantity, origin))
    };
    let (before, old_quantity, old_origin) = tree(&args.before, args.by)?;
    let (after, new_quantity, new_origin) = tree(&args.after, args.by)?;
    let totals = if args.raw { Totals::Raw } else { Totals::Equal };
    if args.raw && old_quantity != new_quantity {
        let why = format!("one counts {}, the other counts {}", old_quantity.words(), new_quantity.words());
        return Err(Failure::text(exit::WRONG_USE, "compare without scaling", why).hint("omit --raw to compare shares"));
    }
    let pair = Pair::new(&before, &after, totals);
    let side = |file: &Path, tree: &Tree, quantity: Quantity| Side {
        file: file.display().to_string(),
        unit: quantity.words().to_owned(),
        weight: tree.total(),
        quantity,
    };
    let mut answer = Answer {
        before: side(&args.before, &before, old_quantity),
        after: side(&args.after, &after, new_quantity.clone()),
        totals: if args.raw { "raw" } else { "equal" },
        scale: pair.scale,
        grew: Vec::new(),
        shrank: Vec::new(),
        written: None,
    };
    fill(&mut answer, &pair, args.top as usize);
    if let Some((path, kind)) = wanted {
        write(args, &pair, &answer, [&old_origin, &new_origin], path, kind)?;
        answer.written = Some(path.display().to_string());
    }
    out.answer(&answer, || terminal::text(&profile::diff::blocks(&answer)))?;
    Ok(exit::WELL)
}

fn fill(answer: &mut Answer, pair: &Pair, top: usize) {
    let whole = pair.whole();
    for one in pair.changed() {
        let change = one.own_change();
        let rows = if change > 0 { &mut answer.grew } else { &mut answer.shrank };
        if change != 0 && rows.len() < top {
            rows.push(row(&one, whole));
        }
    }
}

fn row(one: &Changed, whole: u64) -> Row {
    let (kind, bare) = FrameKind::parse(&one.name);
    Row {
        function: bare.to_owned(),
        kind: kind.word(),
        own_before_share: part(one.before.0, whole),
        own_after_share: part(one.after.0, whole),
        own_change_share: one.own_change() as f64 / whole.max(1) as f64,
        with_before_share: part(one.before.1, whole),
        with_after_share: part(one.after.1, whole),
    }
}

fn write(
    args: &Args,
    pair: &Pair,
    answer: &Answer,
    origins: [&str; 2],
    path: &Path,
    kind: Kind,
) -> Result<(), Failure> {
    let name = |file: &Path| file.file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned());
    let how = if args.raw { "without scaling" } else { "as shares of the total" };
    let words = |side: &Side| side.quantity.to_text(side.weight);
    let [before, after] = origins;
    let is_known = !before.is_empty() || !after.is_empty();
    let style = Style {
        title: format!("{} → {}", name(&args.before), name(&args.after)),
        subtitle: format!("before: {}; after: {}; compared {how}", words(&answer.before), words(&answer.after)),
        origin: if is_known { format!("before: {before}; after: {after}") } else { String::new() },
        quantity: answer.after.quantity.clone(),
        direction: if args.icicle { Direction::Icicle } else { Direction::Flame },
    };
    written::write(path, drawn(pair, &style, path, kind)?.as_bytes())
}

/// Draws the comparison in the format that the file's extension selects.
pub(super) fn drawn(pair: &Pair, style: &Style, path: &Path, kind: Kind) -> Result<String, Failure> {
    match kind {
        Kind::Svg => Ok(graph::differential_of(pair, style)),
        Kind::Html => Ok(graph::html_differential_of(pair, style)),
        Kind::Folded => Ok(folded(pair)),
        Kind::Firefox => {
            let why = "the Firefox Profiler cannot show a difference of two recordings";
            Err(Failure::text(exit::WRONG_USE, format_args!("write {}", path.display()), why)
                .hint("use the extension .svg, .html or .folded"))
        }
    }
}

/// The comparison in the format of `difffolded.pl`: each line has a stack, its weight before, and its weight after.
fn folded(pair: &Pair) -> String {
    let (before, after) = (Folded::from(&pair.old()), Folded::from(&pair.tree));
    let mut stacks: Vec<&String> = before.lines.keys().chain(after.lines.keys()).collect();
    stacks.sort_unstable();
    stacks.dedup();
    let of = |folded: &Folded, stack: &String| folded.lines.get(stack).copied().unwrap_or(0);
    stacks.into_iter().map(|stack| format!("{stack} {} {}\n", of(&before, stack), of(&after, stack))).collect()
}
