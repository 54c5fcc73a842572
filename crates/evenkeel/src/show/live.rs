//! The progress of a trial in a few lines:
//! pairs, the estimate with its interval as a small bar, the e-value, and the remaining time.
//! These are pure functions; `progress.rs` prints the lines.

use std::time::Duration;

use evenkeel_trial::Outcome;

use crate::report::words::{as_change, range, trim};
use crate::show::escape;
use crate::times;

/// The number of characters of the bar for an interval.
/// The number is odd, so that "no difference" has its own character.
const BAR_CELLS: usize = 31;
/// The reach of the bar, as a multiple of the smallest effect that matters.
/// If the estimate is further away, the bar reaches to the estimate.
const BAR_REACH: f64 = 3.0;
/// The maximum reach of the bar, as a logarithm: 4 is a factor of 55 in both directions.
const BAR_REACH_MAX: f64 = 4.0;

/// The progress of a trial, and its results so far.
#[derive(Clone, Debug)]
pub(crate) struct Live<'a> {
    /// The tested settings.
    pub(crate) title: &'a str,
    /// The trial's current stage; `None` while it measures its own pairs.
    pub(crate) stage: Option<&'a str>,
    /// The number of pairs so far that count.
    pub(crate) pairs: usize,
    /// The maximum number of pairs.
    pub(crate) of: usize,
    /// The number of dropped pairs.
    pub(crate) dropped: usize,
    /// The maximum remaining time.
    pub(crate) left: Duration,
    /// Whether the trial may end before all of its pairs.
    pub(crate) may_end_sooner: bool,
    /// The result of each arm against A so far.
    pub(crate) arms: Vec<LiveArm>,
    /// The smallest effect that matters, as a share.
    pub(crate) matters_ratio: f64,
}

/// The result of an arm against A so far.
#[derive(Clone, Debug)]
pub(crate) struct LiveArm {
    /// The arm's letter.
    pub(crate) name: String,
    /// The estimate of the arm's ratio to A so far; none without an estimate.
    pub(crate) ratio: Option<f64>,
    /// The interval of the estimate.
    pub(crate) interval: Option<(f64, f64)>,
    /// The e-value against "no effect", and the e-value that a claim needs.
    pub(crate) evidence: Option<(f64, f64)>,
    /// The verdict if the trial ended now.
    pub(crate) verdict: Outcome,
    /// Why the trial measures no further windows of the arm, as text; `None` if it measures more.
    pub(crate) left: Option<String>,
}

impl Live<'_> {
    /// The lines for a terminal of this width.
    pub(crate) fn lines(&self, columns: usize) -> Vec<String> {
        let mut lines = vec![self.title.to_owned(), format!("  {}", self.counts())];
        match &self.arms[..] {
            [one] => lines.extend(self.one(one)),
            several => {
                lines.extend(several.iter().filter(|arm| arm.ratio.is_some()).map(|arm| format!("  {}", row(arm))))
            }
        }
        lines.iter().map(|line| cut(line, columns)).collect()
    }

    /// The whole progress on one line, for a log or a pipe.
    pub(crate) fn line(&self) -> String {
        let known = |arm: &LiveArm| {
            let between = arm.interval.map_or_else(String::new, |(low, high)| format!(" ({})", range(low, high)));
            arm.ratio.map(|ratio| format!("; {} is {} so far{between}", arm.name, as_change(ratio)))
        };
        let known: String = self.arms.iter().filter_map(known).collect();
        escape::plain(&format!("{}: {}{known}", self.title, self.counts()))
    }

    /// The lines for a trial with one arm, which has room for a bar.
    fn one(&self, arm: &LiveArm) -> Vec<String> {
        let mut lines = Vec::new();
        if let Some(ratio) = arm.ratio {
            let between = arm.interval.map_or_else(|| "no interval yet".to_owned(), |(low, high)| range(low, high));
            lines.push(format!("  {} is {} so far; {between}", arm.name, as_change(ratio)));
            lines.push(format!("  {}", self.bar(arm.interval, ratio)));
        }
        lines.extend(nearness(arm).map(|words| format!("  {words}")));
        lines
    }

    fn counts(&self) -> String {
        let most = if self.may_end_sooner { "at most " } else { "" };
        let stage = self.stage.map(str::to_owned);
        // The number of pairs in the A/A phase is fixed.
        let of = if self.stage.is_some() { "" } else { most };
        let pairs = (self.of > 0).then(|| format!("{} of {of}{} pairs", self.pairs, self.of));
        let dropped = (self.dropped > 0).then(|| format!("{} dropped", self.dropped));
        let left = (self.of > 0).then(|| format!("{most}{} left", times::words(self.left)));
        [stage, pairs, dropped, left].into_iter().flatten().collect::<Vec<_>>().join(", ")
    }

    /// The interval as a bar such as `[===o==]`.
    /// `|` marks no difference, and `:` marks the smallest effects that matter.
    fn bar(&self, interval: Option<(f64, f64)>, ratio: f64) -> String {
        let matters = self.matters_ratio.max(1e-6).ln_1p();
        let (low, high) = interval.unwrap_or((ratio, ratio));
        let needed = [ratio, low, high].map(|ratio| ratio.ln().abs()).into_iter().filter(|end| end.is_finite());
        let reach = needed.fold(matters * BAR_REACH, f64::max).min(BAR_REACH_MAX);
        let middle = (BAR_CELLS / 2) as f64;
        let cell = |ratio: f64| {
            let at = middle + ratio.ln() / reach * middle;
            if at.is_finite() { at.round().clamp(0.0, (BAR_CELLS - 1) as f64) as usize } else { BAR_CELLS / 2 }
        };
        let mut cells = ['.'; BAR_CELLS];
        for end in [matters, -matters] {
            cells[cell(end.exp())] = ':';
        }
        cells[BAR_CELLS / 2] = '|';
        if interval.is_some() {
            let (from, to) = (cell(low), cell(high));
            cells[from..=to.max(from)].fill('=');
        }
        cells[cell(ratio)] = 'o';
        format!("lower {} higher   | no change, : what matters", cells.iter().collect::<String>())
    }
}

/// Text with the verdict if the trial ended now, the e-value, and the e-value that a claim needs.
fn nearness(arm: &LiveArm) -> Option<String> {
    let (e_value, bar) = arm.evidence?;
    let would = match arm.verdict {
        Outcome::Undecided | Outcome::NotEngaged => "not decided yet".to_owned(),
        verdict => format!("would be {verdict}"),
    };
    Some(format!("{would}: e-value {} (a claim needs {})", trim(e_value), trim(bar)))
}

/// One arm on one line. The verdict comes first, because a narrow terminal cuts off the end.
fn row(arm: &LiveArm) -> String {
    let known = match (arm.verdict, &arm.left, arm.evidence) {
        (_, Some(left), _) => left.clone(),
        (Outcome::Undecided | Outcome::NotEngaged, _, Some((e_value, bar))) => {
            format!("e-value {} of {}", trim(e_value), trim(bar))
        }
        (Outcome::Undecided | Outcome::NotEngaged, _, None) => "not decided yet".to_owned(),
        (verdict, ..) => verdict.to_string(),
    };
    let ratio = arm.ratio.map_or_else(|| "not measured yet".to_owned(), as_change);
    let between = arm.interval.map_or_else(|| "no interval yet".to_owned(), |(low, high)| range(low, high));
    format!("{}  {ratio}; {known}; {between}", arm.name)
}

/// Cuts a line to the width of the terminal. A wrapped line would move the other lines.
fn cut(line: &str, columns: usize) -> String {
    let line = escape::plain(line);
    if line.chars().count() < columns || columns < 2 {
        return line;
    }
    let kept: String = line.chars().take(columns.saturating_sub(2)).collect();
    format!("{kept}…")
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;

    fn live() -> Live<'static> {
        Live {
            title: "prove k=1",
            stage: None,
            pairs: 7,
            of: 60,
            dropped: 0,
            left: Duration::from_secs(100),
            may_end_sooner: true,
            arms: vec![arm()],
            matters_ratio: 0.05,
        }
    }

    fn arm() -> LiveArm {
        LiveArm {
            name: "B".to_owned(),
            ratio: Some(0.9),
            interval: Some((0.86, 0.97)),
            evidence: Some((4.21, 20.0)),
            verdict: Outcome::Undecided,
            left: None,
        }
    }

    fn with(arm: LiveArm) -> Live<'static> {
        Live { arms: vec![arm], ..live() }
    }

    fn nothing() -> Vec<LiveArm> {
        vec![LiveArm { ratio: None, interval: None, evidence: None, ..arm() }]
    }

    #[test]
    fn the_results_so_far_are_shown() {
        let table = [
            live(),
            Live { dropped: 2, ..with(LiveArm { verdict: Outcome::Better, evidence: Some((31.0, 20.0)), ..arm() }) },
            Live { arms: nothing(), pairs: 0, may_end_sooner: false, ..live() },
            Live { stage: Some("A/A phase"), pairs: 3, of: 8, arms: nothing(), ..live() },
            Live { stage: Some("finding the settle time"), of: 0, arms: nothing(), ..live() },
            with(LiveArm { ratio: Some(1e300), interval: None, ..arm() }),
            with(LiveArm { ratio: Some(5e-324), interval: Some((5e-324, 1e308)), ..arm() }),
            Live {
                title: "\u{1b}[2J a title of a hostile length that goes on and on and on and on and on and on",
                ..live()
            },
        ];
        let lines: Vec<String> =
            table.iter().map(|live| live.lines(80).join("\n") + "\n" + &live.line() + "\n\n").collect();
        expect![[r#"
            prove k=1
              7 of at most 60 pairs, at most 100 s left
              B is 10 % lower so far; between 3.0 % and 14 % lower
              lower =====o=======..|....:.......... higher   | no change, : what matters
              not decided yet: e-value 4.21 (a claim needs 20)
            prove k=1: 7 of at most 60 pairs, at most 100 s left; B is 10 % lower so far (between 3.0 % and 14 % lower)

            prove k=1
              7 of at most 60 pairs, 2 dropped, at most 100 s left
              B is 10 % lower so far; between 3.0 % and 14 % lower
              lower =====o=======..|....:.......... higher   | no change, : what matters
              would be better: e-value 31 (a claim needs 20)
            prove k=1: 7 of at most 60 pairs, 2 dropped, at most 100 s left; B is 10 % lower so far (between 3.0 % and 14 % lower)

            prove k=1
              0 of 60 pairs, 100 s left
            prove k=1: 0 of 60 pairs, 100 s left

            prove k=1
              A/A phase, 3 of 8 pairs, at most 100 s left
            prove k=1: A/A phase, 3 of 8 pairs, at most 100 s left

            prove k=1
              finding the settle time
            prove k=1: finding the settle time

            prove k=1
              7 of at most 60 pairs, at most 100 s left
              B is more than a million times as high so far; no interval yet
              lower ...............|..............o higher   | no change, : what matters
              not decided yet: e-value 4.21 (a claim needs 20)
            prove k=1: 7 of at most 60 pairs, at most 100 s left; B is more than a million times as high so far

            prove k=1
              7 of at most 60 pairs, at most 100 s left
              B is more than 99.99 % lower so far; between more than 99.99 % lower and mor…
              lower o============================== higher   | no change, : what matters
              not decided yet: e-value 4.21 (a claim needs 20)
            prove k=1: 7 of at most 60 pairs, at most 100 s left; B is more than 99.99 % lower so far (between more than 99.99 % lower and more than a million times as high)

            �[2J a title of a hostile length that goes on and on and on and on and on and …
              7 of at most 60 pairs, at most 100 s left
              B is 10 % lower so far; between 3.0 % and 14 % lower
              lower =====o=======..|....:.......... higher   | no change, : what matters
              not decided yet: e-value 4.21 (a claim needs 20)
            �[2J a title of a hostile length that goes on and on and on and on and on and on: 7 of at most 60 pairs, at most 100 s left; B is 10 % lower so far (between 3.0 % and 14 % lower)

        "#]].assert_eq(&lines.concat());
    }

    #[test]
    fn several_arms_have_a_line_each() {
        let left = Some("left after block 9: worse".to_owned());
        let arms = vec![
            arm(),
            LiveArm { name: "C".into(), verdict: Outcome::Better, ..arm() },
            LiveArm { name: "D".into(), verdict: Outcome::Worse, ratio: Some(1.3), left, ..arm() },
            LiveArm { name: "E".into(), evidence: None, interval: None, ..arm() },
            LiveArm { name: "F".into(), ratio: None, ..arm() },
        ];
        let live = Live { arms, ..live() };
        expect![[r#"
            prove k=1
              7 of at most 60 pairs, at most 100 s left
              B  10 % lower; e-value 4.21 of 20; between 3.0 % and 14 % lower
              C  10 % lower; better; between 3.0 % and 14 % lower
              D  30 % higher; left after block 9: worse; between 3.0 % and 14 % lower
              E  10 % lower; not decided yet; no interval yet
        "#]]
        .assert_eq(&(live.lines(80).join("\n") + "\n"));
        assert!(live.line().contains("; B is 10 % lower so far (between 3.0 % and 14 % lower); C is 10 % lower"));
    }

    #[test]
    fn no_line_is_wider_than_the_terminal() {
        for columns in [2, 10, 40, 80, 200] {
            for line in live().lines(columns) {
                assert!(line.chars().count() < columns.max(2) + 1, "{columns}: {line}");
            }
        }
    }
}
