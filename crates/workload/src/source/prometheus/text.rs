//! The text format of metrics as Prometheus reads it (exposition formats 0.0.4 and 1.0.0) and as OpenMetrics defines it.
//! The functions are pure: they convert text to lines.

use std::borrow::Cow;

/// The maximum number of labels of a valid series.
const LABELS_MAX: usize = 128;

/// The type of a metric, as the page gives it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A value that may rise and fall.
    Gauge,
    /// A value that only grows, until the server restarts.
    Counter,
    /// Cumulative counts by upper bound.
    Histogram,
    /// Quantiles that the server computed.
    Summary,
    /// The page does not give the type.
    Untyped,
}

/// A series on the page, with its value.
#[derive(Clone, Debug, PartialEq)]
pub struct Series<'t> {
    /// The name of the series, including suffixes such as `_bucket`.
    pub name: Cow<'t, str>,
    /// The labels of the series, in the order of the text.
    pub labels: Vec<(Cow<'t, str>, Cow<'t, str>)>,
    /// The value of the series. It may be NaN.
    pub value: f64,
}

impl Series<'_> {
    /// The value of the label with this name, if the series has it.
    pub fn label(&self, name: &str) -> Option<&str> {
        self.labels.iter().find(|(label, _)| label == name).map(|(_, value)| value.as_ref())
    }
}

/// A line of the text.
#[derive(Clone, Debug, PartialEq)]
pub enum Line<'t> {
    /// The type of a metric: `# TYPE NAME KIND`.
    Kind(Cow<'t, str>, Kind),
    /// A series with its value.
    Series(Series<'t>),
    /// A comment or an empty line.
    Other,
}

/// Parses a line. None if it is invalid.
pub fn parse_line(line: &str) -> Option<Line<'_>> {
    let line = line.trim_matches([' ', '\t', '\r']);
    if line.is_empty() {
        return Some(Line::Other);
    }
    if let Some(comment) = line.strip_prefix('#') {
        return Some(parse_kind(comment).unwrap_or(Line::Other));
    }
    let (name, labels, rest) = parse_head(line)?;
    // The value may be followed by a timestamp, and in OpenMetrics by an exemplar after `#`. Both are ignored.
    let value = parse_value(rest.split_ascii_whitespace().next()?)?;
    Some(Line::Series(Series { name: name?, labels, value }))
}

fn parse_kind(comment: &str) -> Option<Line<'_>> {
    let rest = comment.trim_start().strip_prefix("TYPE")?;
    let rest = rest.strip_prefix([' ', '\t'])?.trim_start();
    let (name, rest) = parse_name(rest)?;
    let kind = match rest.trim() {
        "gauge" => Kind::Gauge,
        "counter" => Kind::Counter,
        "histogram" => Kind::Histogram,
        "summary" => Kind::Summary,
        _ => Kind::Untyped,
    };
    Some(Line::Kind(name, kind))
}

/// Parses `Inf`, `NaN` or a decimal number, in upper or lower case.
fn parse_value(text: &str) -> Option<f64> {
    text.parse().ok()
}

/// Parses a name. A name is in quotes if it has characters that were not allowed originally. Also returns the rest.
fn parse_name(text: &str) -> Option<(Cow<'_, str>, &str)> {
    if text.starts_with('"') {
        return parse_quoted(text);
    }
    let is_part = |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '_' | ':');
    let end = text.find(|letter| !is_part(letter)).unwrap_or(text.len());
    let (name, rest) = text.split_at(end);
    let starts_well = name.starts_with(|letter: char| !letter.is_ascii_digit());
    starts_well.then_some((Cow::Borrowed(name), rest))
}

/// Parses `"…"`, which may contain `\\`, `\"` and `\n`. Also returns the rest.
fn parse_quoted(text: &str) -> Option<(Cow<'_, str>, &str)> {
    let text = text.strip_prefix('"')?;
    let mut plain: Option<String> = None;
    let mut letters = text.char_indices();
    while let Some((at, letter)) = letters.next() {
        match letter {
            '"' => return Some((plain.map_or(Cow::Borrowed(&text[..at]), Cow::Owned), &text[at + 1..])),
            '\\' => {
                let plain = plain.get_or_insert_with(|| text[..at].to_owned());
                match letters.next()?.1 {
                    'n' => plain.push('\n'),
                    // An unknown escape stays as it is, as in Prometheus.
                    other @ ('\\' | '"') => plain.push(other),
                    other => plain.extend(['\\', other]),
                }
            }
            _ => {
                if let Some(plain) = &mut plain {
                    plain.push(letter);
                }
            }
        }
    }
    None
}

type Labels<'t> = Vec<(Cow<'t, str>, Cow<'t, str>)>;
type Head<'t> = (Option<Cow<'t, str>>, Labels<'t>, &'t str);

/// Parses `NAME{LABEL="VALUE",…}` or `{"NAME",LABEL="VALUE",…}`. Also returns the rest of the line.
pub(super) fn parse_head(text: &str) -> Option<Head<'_>> {
    let (mut name, rest) = match text.starts_with('{') {
        true => (None, text),
        false => parse_name(text).map(|(name, rest)| (Some(name), rest))?,
    };
    let Some(mut rest) = rest.trim_start().strip_prefix('{') else { return Some((name, Vec::new(), rest)) };
    let mut labels = Labels::new();
    // Each pass removes a label, so the loop ends.
    loop {
        rest = rest.trim_start();
        if let Some(behind) = rest.strip_prefix('}') {
            return Some((name, labels, behind));
        }
        let (label, behind) = parse_name(rest)?;
        let is_quoted = rest.starts_with('"');
        let behind = behind.trim_start();
        rest = match behind.strip_prefix('=') {
            Some(value) => {
                let (value, behind) = parse_quoted(value.trim_start())?;
                labels.push((label, value));
                behind
            }
            None if is_quoted && name.is_none() => {
                name = Some(label);
                behind
            }
            None => return None,
        };
        if labels.len() > LABELS_MAX {
            return None;
        }
        rest = rest.trim_start();
        rest = match rest.strip_prefix(',') {
            Some(behind) => behind,
            None if rest.starts_with('}') => rest,
            None => return None,
        };
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn series(name: &'static str, labels: &[(&'static str, &'static str)], value: f64) -> Option<Line<'static>> {
        let labels = labels.iter().map(|(label, value)| ((*label).into(), (*value).into())).collect();
        Some(Line::Series(Series { name: name.into(), labels, value }))
    }

    #[test]
    fn lines_are_read() {
        let table = [
            ("up 1", series("up", &[], 1.0)),
            ("up{} 1.5e3 1395066363000", series("up", &[], 1500.0)),
            (
                "http_requests_total{method=\"post\",code=\"200\"} 1027",
                series("http_requests_total", &[("method", "post"), ("code", "200")], 1027.0),
            ),
            (
                r#"msdos_file{path="C:\\DIR\\FILE.TXT",error="Cannot find \"F\"\nno",} -1"#,
                series("msdos_file", &[("path", "C:\\DIR\\FILE.TXT"), ("error", "Cannot find \"F\"\nno")], -1.0),
            ),
            ("x { a = \"b\" , c = \"}\" }\t7", series("x", &[("a", "b"), ("c", "}")], 7.0)),
            ("x_bucket{le=\"+Inf\"} 3 # {trace=\"a b\"} 0.67 1.5", series("x_bucket", &[("le", "+Inf")], 3.0)),
            ("x +Inf", series("x", &[], f64::INFINITY)),
            ("{\"my.name\",a=\"b\"} 2", series("my.name", &[("a", "b")], 2.0)),
            ("x{\"my.label\"=\"ü\"} 2", series("x", &[("my.label", "ü")], 2.0)),
            ("# TYPE x histogram", Some(Line::Kind("x".into(), Kind::Histogram))),
            ("#TYPE\tx  summary ", Some(Line::Kind("x".into(), Kind::Summary))),
            ("# TYPE x unknown", Some(Line::Kind("x".into(), Kind::Untyped))),
            ("# HELP x Text {", Some(Line::Other)),
            ("# EOF", Some(Line::Other)),
            ("", Some(Line::Other)),
        ];
        for (line, expected) in table {
            assert_eq!(parse_line(line), expected, "{line}");
        }
        for odd in [
            "x",
            "x y",
            "{} 1",
            "x{a} 1",
            "x{a=b} 1",
            "x{a=\"b} 1",
            "x{a=\"b\" 1",
            "x{a=\"b\"c=\"d\"} 1",
            "x{\"a\"} 1",
            "1x 1",
            "<html>",
            "x{,} 1",
        ] {
            assert_eq!(parse_line(odd), None, "{odd}");
        }
        let many = format!("x{{{}}} 1", "a=\"b\",".repeat(LABELS_MAX + 1));
        assert_eq!(parse_line(&many), None);
    }

    proptest! {
        #[test]
        fn no_line_is_a_panic(line in "(# TYPE )?[a-z_]{0,3}\\{?([a-z\"\\\\]{0,3}=?\"?[a-zü\\\\\"]{0,4}\"?,?){0,4}\\}? ?[-+0-9a-zA-Z.]{0,6}.{0,9}") {
            let _ = parse_line(&line);
        }

        #[test]
        fn written_samples_are_read_back(name in "[a-z_:][a-z0-9_:]{0,5}", label in "[a-z_]{1,4}", value in ".{0,9}", number in any::<f64>()) {
            let quoted = value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
            let line = format!("{name}{{{label}=\"{quoted}\"}} {number}");
            let Some(Line::Series(series)) = parse_line(&line) else { return Err(TestCaseError::fail(line)) };
            prop_assert_eq!(series.name.as_ref(), name);
            prop_assert_eq!(series.label(&label), Some(value.as_str()));
            prop_assert!(series.value == number || number.is_nan());
        }
    }
}
