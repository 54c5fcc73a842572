//! Waivers: findings that a team accepts until a given day.
//! A TOML file contains them, so each decision has a reason, an end, and a history in version control.

use std::ops::Range;
use std::path::{Path, PathBuf};

use evenkeel_host::{Advice, knobs};
use evenkeel_hostfs::{json_words, user_file};
use jiff::civil::Date;
use serde::{Deserialize, Serialize, Serializer};
use toml::Spanned;

use crate::exit;
use crate::failure::Failure;

/// The default file. It is optional.
pub(crate) const DEFAULT_FILE: &str = "/etc/evenkeel/waivers.toml";

/// The maximum size of the file, in bytes. A person writes far less.
const BYTES_MAX: u64 = 1 << 20;

const HINT: &str = "a waiver is a [[waiver]] with id = \"…\" as `evenkeel audit --json` prints it (or knob = \"…\" for all of a \
                    knob), reason = \"…\", and expires = YYYY-MM-DD";

/// The waivers in one file.
#[derive(Debug)]
pub(crate) struct Waivers {
    file: PathBuf,
    waivers: Vec<Waiver>,
}

/// A waiver with its reason and its last day.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, schemars::JsonSchema)]
pub(crate) struct Waiver {
    #[serde(skip)]
    of: Of,
    /// Why the finding is acceptable.
    pub(crate) reason: String,
    /// The last day on which the waiver is valid, in UTC.
    #[serde(serialize_with = "as_text")]
    #[schemars(with = "String")]
    pub(crate) expires: Date,
    #[serde(skip)]
    line: usize,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Of {
    /// The finding with this id.
    Id(String),
    /// Every finding of a knob.
    Knob(String),
}

/// A mistake in a line of the file.
#[derive(Debug, PartialEq, Eq)]
struct Mistake {
    line: usize,
    what: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Table {
    #[serde(default)]
    waiver: Vec<Spanned<Entry>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    id: Option<String>,
    knob: Option<String>,
    reason: String,
    expires: Spanned<toml::Value>,
}

impl Waivers {
    /// Reads the waivers in a file that the user named.
    pub(crate) fn read(file: &Path) -> Result<Waivers, Failure> {
        let tried = || format!("read the waivers {}", file.display());
        let bytes =
            user_file::read(file, BYTES_MAX).map_err(|error| Failure::user_file(tried(), &error).or_hint(HINT))?;
        let text = String::from_utf8(bytes)
            .map_err(|error| Failure::text(exit::WRONG_USE, tried(), error.utf8_error()).hint(HINT))?;
        match parse(&text) {
            Ok(waivers) => Ok(Waivers { file: file.to_owned(), waivers }),
            Err(Mistake { line, what }) => {
                Err(Failure::text(exit::WRONG_USE, tried(), format_args!("line {line}: {what}")).hint(HINT))
            }
        }
    }

    pub(crate) fn file(&self) -> &Path {
        &self.file
    }

    /// Finds the waiver of each finding that is valid today, if any, in the order of the findings.
    /// Also returns notes for the user about the file.
    pub(crate) fn judge(&self, advice: &[Advice], today: Date) -> (Vec<Option<&Waiver>>, Vec<String>) {
        let waived = advice.iter().map(|advice| {
            let mut of_finding = self.waivers.iter().filter(|waiver| waiver.waives(advice));
            of_finding.find(|waiver| waiver.expires >= today)
        });
        let warnings = self.waivers.iter().filter_map(|waiver| {
            let warning = waiver.warning(advice, today)?;
            Some(format!("{} line {}: {warning}", self.file.display(), waiver.line))
        });
        (waived.collect(), warnings.collect())
    }
}

impl Waiver {
    fn is_of(&self, advice: &Advice) -> bool {
        match &self.of {
            Of::Id(id) => *id == advice.id,
            Of::Knob(knob) => knob == advice.knob,
        }
    }

    /// Whether the waiver accepts a finding. A waiver applies only to findings that ask for action.
    fn waives(&self, advice: &Advice) -> bool {
        advice.state.is_finding() && self.is_of(advice)
    }

    fn warning(&self, advice: &[Advice], today: Date) -> Option<String> {
        let (name, knob) = match &self.of {
            Of::Id(id) => (id, id.split('@').next().unwrap_or(id)),
            Of::Knob(knob) => (knob, knob.as_str()),
        };
        if let Err(error) = knobs::find(knob) {
            return Some(error.to_string());
        }
        if !advice.iter().any(|advice| self.is_of(advice)) {
            return Some(format!("this machine has no finding {name:?}: `evenkeel audit --json` lists the ids"));
        }
        (self.expires < today).then(|| {
            format!("the waiver of {name} expired on {} and hides nothing any more ({})", self.expires, self.reason)
        })
    }
}

fn parse(text: &str) -> Result<Vec<Waiver>, Mistake> {
    let line_of =
        |span: Range<usize>| text.as_bytes().iter().take(span.start).filter(|byte| **byte == b'\n').count() + 1;
    let table: Table = toml::from_str(text).map_err(|error| Mistake {
        line: line_of(error.span().unwrap_or(0..0)),
        what: json_words::of_value(&error.message().replace('\n', " ")),
    })?;
    let waiver = |entry: Spanned<Entry>| {
        let line = line_of(entry.span());
        let mistake = |line, what: &str| Err(Mistake { line, what: what.to_owned() });
        let Entry { id, knob, reason, expires } = entry.into_inner();
        let of = match (id, knob) {
            (Some(id), None) => Of::Id(id),
            (None, Some(knob)) => Of::Knob(knob),
            (None, None) => return mistake(line, "neither id nor knob: it does not say what is waived"),
            (Some(_), Some(_)) => return mistake(line, "both id and knob: one of them says what is waived"),
        };
        if reason.trim().is_empty() {
            return mistake(line, "the reason is empty");
        }
        let at = line_of(expires.span());
        match date(expires.get_ref()) {
            Some(expires) => Ok(Waiver { of, reason, expires, line }),
            None => mistake(at, "expires must be a day, written as 2027-03-31"),
        }
    };
    table.waiver.into_iter().map(waiver).collect()
}

/// A day: a TOML date, or a text.
fn date(value: &toml::Value) -> Option<Date> {
    let text = match value {
        toml::Value::Datetime(date) => date.to_string(),
        toml::Value::String(text) => text.clone(),
        _ => return None,
    };
    // jiff also accepts longer texts that contain a date, and would silently ignore a time of day.
    let is_day = text.len() == "2027-03-31".len();
    is_day.then(|| text.parse().ok()).flatten()
}

fn as_text<S: Serializer>(date: &Date, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(date)
}

#[cfg(test)]
mod tests {
    use evenkeel_host::{Facts, Goal, advise};
    use evenkeel_hostfs::{Capture, Root};
    use expect_test::{Expect, expect};

    use super::*;

    fn check(text: &str, expected: Expect) {
        let shown = match parse(text) {
            Ok(waivers) => waivers
                .iter()
                .map(|waiver| format!("{} {:?} until {}: {}\n", waiver.line, waiver.of, waiver.expires, waiver.reason))
                .collect(),
            Err(Mistake { line, what }) => format!("line {line}: {what}\n"),
        };
        expected.assert_eq(&shown);
    }

    #[test]
    fn files_say_what_is_waived_why_and_until_when() {
        check("", expect![[""]]);
        check(
            "# ours\n[[waiver]]\nid = \"thp.enabled\"\nreason = \"database\"\nexpires = 2027-03-31\n\n\
             [[waiver]]\nknob = 'irq.affinity'\nreason = \"x\"\nexpires = \"2027-01-01\"\n",
            expect![[r#"
                2 Id("thp.enabled") until 2027-03-31: database
                7 Knob("irq.affinity") until 2027-01-01: x
            "#]],
        );
    }

    #[test]
    fn mistakes_have_a_line() {
        let waiver = |fields: &str| format!("\n[[waiver]]\n{fields}\n");
        for (fields, expected) in [
            (
                "id = 'a'\nreason = 'x'",
                expect![[r#"
                    line 2: it has no field "expires"
                "#]],
            ),
            (
                "id = 'a'\nexpires = 2027-01-01",
                expect![[r#"
                    line 2: it has no field "reason"
                "#]],
            ),
            (
                "reason = 'x'\nexpires = 2027-01-01",
                expect![[r#"
                line 2: neither id nor knob: it does not say what is waived
            "#]],
            ),
            (
                "id = 'a'\nknob = 'a'\nreason = 'x'\nexpires = 2027-01-01",
                expect![[r#"
                line 2: both id and knob: one of them says what is waived
            "#]],
            ),
            (
                "id = 'a'\nreason = ' '\nexpires = 2027-01-01",
                expect![[r#"
                line 2: the reason is empty
            "#]],
            ),
            (
                "id = 'a'\nreason = 'x'\nexpires = 2027-13-01",
                expect![[r#"
                line 5: invalid date, expected month between 01 and 12
            "#]],
            ),
            (
                "id = 'a'\nreason = 'x'\nexpires = '2027-02-30'",
                expect![[r#"
                line 5: expires must be a day, written as 2027-03-31
            "#]],
            ),
            (
                "id = 'a'\nreason = 'x'\nexpires = 2027-01-01T00:00:00Z",
                expect![[r#"
                line 5: expires must be a day, written as 2027-03-31
            "#]],
            ),
            (
                "id = 'a'\nreason = 'x'\nexpires = 2027",
                expect![[r#"
                line 5: expires must be a day, written as 2027-03-31
            "#]],
            ),
            (
                "id = 'a'\nreason = 'x'\nexpires = 2027-01-01\nuntil = 1",
                expect![[r#"
                    line 6: unknown field "until"; expected "id", "knob", "reason", "expires"
                "#]],
            ),
            (
                "id = 7\nreason = 'x'\nexpires = 2027-01-01",
                expect![[r#"
                    line 3: expected a text, found the number 7
                "#]],
            ),
            (
                "id = 'a",
                expect![[r#"
                line 3: invalid literal string, expected `'`
            "#]],
            ),
        ] {
            check(&waiver(fields), expected);
        }
        check(
            "waivers = []",
            expect![[r#"
                line 1: unknown field "waivers"; expected "waiver"
            "#]],
        );
    }

    #[test]
    fn a_waiver_holds_until_its_day_is_over() {
        let text = "evenkeel-capture 1\n/sys/kernel/mm/transparent_hugepage/enabled = [always] madvise never\n\
                    /proc/sys/vm/swappiness = 60\n/proc/swaps = Filename Type Size Used Priority\nend\n";
        let facts = Facts::probe(&Root::captured(Capture::parse(text).unwrap()));
        let advice = advise(&facts, &Goal::Latency.into());
        let waiver = |of: &str, expires: &str| format!("[[waiver]]\n{of}\nreason = 'we know'\nexpires = {expires}\n");
        let shown = |text: &str, today: &str| {
            let waivers = Waivers { file: "w.toml".into(), waivers: parse(text).unwrap() };
            let (waived, warnings) = waivers.judge(&advice, today.parse().unwrap());
            let waived = advice.iter().zip(waived).filter(|(_, waiver)| waiver.is_some());
            let ids: Vec<&str> = waived.map(|(advice, _)| advice.id.as_str()).collect();
            format!("waived {ids:?}{}", warnings.iter().map(|warning| format!("\n  {warning}")).collect::<String>())
        };
        let thp = waiver("id = 'thp.enabled'", "2027-03-31");
        let table = [
            ("its last day", thp.clone(), "2027-03-31"),
            ("the day after", thp.clone(), "2027-04-01"),
            ("another still holds", thp + &waiver("knob = 'thp.enabled'", "2028-01-01"), "2027-04-01"),
            ("needs no action", waiver("id = 'vm.swappiness'", "2028-01-01"), "2027-04-01"),
            ("misspelt", waiver("id = 'vm.swapiness'", "2028-01-01"), "2027-04-01"),
            ("of another machine", waiver("id = 'net.rps_cpus@eth9/rx-0'", "2028-01-01"), "2027-04-01"),
        ];
        let shown = table.map(|(name, text, today)| format!("{name}: {}\n", shown(&text, today))).concat();
        expect![[r#"
            its last day: waived ["thp.enabled"]
            the day after: waived []
              w.toml line 1: the waiver of thp.enabled expired on 2027-03-31 and hides nothing any more (we know)
            another still holds: waived ["thp.enabled"]
              w.toml line 1: the waiver of thp.enabled expired on 2027-03-31 and hides nothing any more (we know)
            needs no action: waived []
            misspelt: waived []
              w.toml line 1: unknown knob "vm.swapiness": did you mean "vm.swappiness"? `evenkeel explain` lists the knobs
            of another machine: waived []
              w.toml line 1: this machine has no finding "net.rps_cpus@eth9/rx-0": `evenkeel audit --json` lists the ids
        "#]].assert_eq(&shown);
    }
}
