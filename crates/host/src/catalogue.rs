//! What documents say of an instance type, each figure with its source and date. A machine can't see its share of the network or
//! its baseline of CPU time; for those a document is all there is.

use serde::{Serialize, Serializer};

use crate::fact::Fact;

const TEXT: &str = include_str!("catalogue.txt");

/// An instance type, with the figures that documents give for it; there is none that nobody gave.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Instance {
    /// As the cloud names it.
    pub name: String,
    /// At least one.
    pub figures: Vec<Figure>,
}

/// One figure of an instance type.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Figure {
    /// Which.
    pub figure: Kind,
    /// A number, `open` or `closed`, or words.
    pub value: &'static str,
    /// Who says so.
    pub source: Origin,
}

/// Where a figure comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Origin {
    /// Of the document.
    pub title: &'static str,
    /// When it was written, or for a page that changes, read.
    pub date: &'static str,
}

/// What a value may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Shape {
    Count,
    Number,
    State,
    Words,
}

macro_rules! kinds {
    ($($kind:ident = $name:literal, $shape:ident, $what:literal, $unit:literal;)*) => {
        /// Which figure of an instance type.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        #[expect(missing_docs, reason = "the names say it, with their units in `words`")]
        pub enum Kind { $($kind),* }

        impl Kind {
            #[cfg(test)]
            const ALL: &[Kind] = &[$(Kind::$kind),*];

            /// Its name, the unit last.
            pub fn name(self) -> &'static str {
                match self { $(Kind::$kind => $name),* }
            }

            /// What it is, and the unit of its value.
            pub fn words(self) -> (&'static str, &'static str) {
                match self { $(Kind::$kind => ($what, $unit)),* }
            }

            fn shape(self) -> Shape {
                match self { $(Kind::$kind => Shape::$shape),* }
            }

            fn parse(name: &str) -> Option<Kind> {
                match name { $($name => Some(Kind::$kind),)* _ => None }
            }
        }
    };
}

kinds! {
    Vcpus = "vcpus", Count, "virtual CPUs", "";
    ThreadsPerCore = "threads_per_core", Count, "threads a core", "";
    MemoryGib = "memory_gib", Number, "memory", "GiB";
    Network = "network", Words, "network", "";
    EbsMbps = "ebs_mbps", Count, "EBS", "Mbit/s";
    Queues = "queues", Count, "network queues", "";
    NumaNodes = "numa_nodes", Count, "memory nodes", "";
    ClockGhzBase = "clock_ghz_base", Number, "base clock", "GHz";
    ClockGhzAllCores = "clock_ghz_all_cores", Number, "clock with all cores busy", "GHz";
    ClockGhzMax = "clock_ghz_max", Number, "highest clock", "GHz";
    CStates = "c_states", State, "C states", "";
    PStates = "p_states", State, "P states", "";
    BaselinePercent = "baseline_percent", Count, "baseline", "% of one CPU";
    CreditsPerHour = "credits_per_hour", Count, "credits an hour", "";
}

impl Serialize for Kind {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

impl Instance {
    /// What the catalogue has on the instance type of a machine.
    pub(crate) fn of(instance_type: &Fact<String>) -> Fact<Instance> {
        crate::probe::and_then(instance_type.clone(), |name| {
            let of_type = |line: &&'static str| line.split_once(" | ").is_some_and(|(first, _)| first == name);
            let figures: Vec<Figure> = TEXT.lines().filter(of_type).filter_map(figures).flatten().collect();
            if figures.is_empty() {
                return Fact::absent(format!("the catalogue of instance types does not have {name}"));
            }
            Fact::Known(Instance { name, figures })
        })
    }
}

/// The figures of one line, `TYPE | SOURCE | figure=value; figure=value`, if all of it is understood.
fn figures(line: &'static str) -> Option<Vec<Figure>> {
    let mut parts = line.split(" | ");
    let (_name, source, list) = (parts.next()?, origin(parts.next()?)?, parts.next()?);
    let figure = |pair: &'static str| {
        let (name, value) = pair.split_once('=')?;
        let figure = Kind::parse(name)?;
        figure.shape().holds(value).then_some(Figure { figure, value, source })
    };
    if parts.next().is_some() {
        return None;
    }
    list.split("; ").map(figure).collect()
}

/// The source with this key: `source KEY | TITLE | DATE`.
fn origin(key: &str) -> Option<Origin> {
    TEXT.lines().filter_map(|line| line.strip_prefix("source ")).find_map(|line| {
        let mut parts = line.split(" | ");
        let (name, title, date) = (parts.next()?, parts.next()?, parts.next()?);
        (name == key && parts.next().is_none()).then_some(Origin { title, date })
    })
}

impl Shape {
    fn holds(self, value: &str) -> bool {
        match self {
            Shape::Count => value.parse::<u32>().is_ok_and(|count| count > 0),
            Shape::Number => value.parse::<f64>().is_ok_and(|number| number > 0.0 && number.is_finite()),
            Shape::State => value == "open" || value == "closed",
            Shape::Words => !value.is_empty(),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use expect_test::expect;
    use proptest::prelude::*;

    use super::*;

    /// The lines with figures.
    fn rows() -> impl Iterator<Item = &'static str> {
        TEXT.lines().filter(|line| !line.is_empty() && !line.starts_with('#') && !line.starts_with("source "))
    }

    fn number(instance: &Instance, kind: Kind) -> Option<f64> {
        instance.figures.iter().find(|figure| figure.figure == kind).map(|figure| figure.value.parse().unwrap())
    }

    fn all() -> Vec<Instance> {
        let names: BTreeSet<&str> = rows().map(|row| row.split_once(" | ").unwrap().0).collect();
        names.into_iter().map(|name| Instance::of(&Fact::Known(name.into())).known().unwrap().clone()).collect()
    }

    #[test]
    fn every_line_is_understood_and_no_figure_stands_twice() {
        let mut seen = BTreeSet::new();
        let mut used = BTreeSet::new();
        for row in rows() {
            let figures = figures(row).unwrap_or_else(|| panic!("{row}"));
            let name = row.split_once(" | ").unwrap().0;
            for figure in figures {
                assert!(seen.insert((name, figure.figure.name())), "{row}: {} stands twice", figure.figure.name());
                used.insert(figure.source.title);
            }
        }
        assert_eq!(TEXT.lines().filter(|line| line.starts_with("source ")).count(), used.len(), "{used:?}");
        assert!(seen.len() > 300, "{}", seen.len());
        for kind in Kind::ALL {
            assert!(seen.iter().any(|(_, name)| *name == kind.name()), "nobody has {}", kind.name());
        }
    }

    /// Slips of the pen show where figures hang together.
    #[test]
    fn figures_of_a_type_agree_with_each_other() {
        for instance in all() {
            let number = |kind| number(&instance, kind);
            let name = &instance.name;
            if let (Some(vcpus), Some(threads)) = (number(Kind::Vcpus), number(Kind::ThreadsPerCore)) {
                assert!(vcpus % threads == 0.0 && threads <= 2.0, "{name}");
            }
            if let (Some(vcpus), Some(memory)) = (number(Kind::Vcpus), number(Kind::MemoryGib)) {
                assert!((0.25..=16.0).contains(&(memory / vcpus)), "{name}: {}", memory / vcpus);
            }
            // A credit is a minute of one CPU.
            let earned = number(Kind::CreditsPerHour).map(|credits| credits / 60.0 * 100.0);
            assert_eq!(earned.map(f64::round), number(Kind::BaselinePercent), "{name}");
            let clocks = [Kind::ClockGhzBase, Kind::ClockGhzAllCores, Kind::ClockGhzMax].map(number);
            assert!(clocks.iter().flatten().is_sorted(), "{name}: {clocks:?}");
            let states: BTreeSet<&str> = instance
                .figures
                .iter()
                .filter(|figure| figure.figure.shape() == Shape::State)
                .map(|figure| figure.value)
                .collect();
            assert!(states.len() <= 1, "{name}: {states:?}");
        }
    }

    #[test]
    fn what_is_not_in_the_catalogue_is_unknown() {
        let of = |name: &str| serde_json::to_string(&Instance::of(&Fact::Known(name.into()))).unwrap();
        let seen = [of("t2.medium"), of("source paper"), of("z9.huge"), of("")];
        expect![[r#"
            {"name":"t2.medium","figures":[{"figure":"vcpus","value":"2","source":{"title":"Amazon, Deep Dive on Amazon EC2 Instances (A. Boeglin)","date":"2016-11-29"}},{"figure":"memory_gib","value":"4","source":{"title":"Amazon, Deep Dive on Amazon EC2 Instances (A. Boeglin)","date":"2016-11-29"}},{"figure":"baseline_percent","value":"40","source":{"title":"Amazon, Deep Dive on Amazon EC2 Instances (A. Boeglin)","date":"2016-11-29"}},{"figure":"credits_per_hour","value":"24","source":{"title":"Amazon, Deep Dive on Amazon EC2 Instances (A. Boeglin)","date":"2016-11-29"}}]}
            {"unknown":"absent","why":"the catalogue of instance types does not have source paper"}
            {"unknown":"absent","why":"the catalogue of instance types does not have z9.huge"}
            {"unknown":"absent","why":"the catalogue of instance types does not have "}
        "#]].assert_eq(&(seen.join("\n") + "\n"));
        assert!(Instance::of(&Fact::absent("no cloud")).is_absent());
    }

    proptest! {
        #[test]
        fn no_text_makes_the_parser_panic(text in "([a-c0-9.]{0,5} \\| )?(paper|x)?( \\| )?((vcpus|c_states|memory_gib)=[0-9a-z.-]{0,6}(; )?|.){0,4}") {
            let line: &'static str = text.leak();
            for figure in figures(line).unwrap_or_default() {
                prop_assert!(figure.figure.shape().holds(figure.value));
            }
        }
    }
}
