//! The documented figures of each instance type, with source and date.
//! A machine cannot see its share of the network or its baseline of CPU time. Only a document gives these figures.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use serde::{Serialize, Serializer};

use crate::fact::Fact;

mod page;

pub use page::document;

/// One text per cloud, with the cloud's name for people and its name in options.
/// The keys of sources and the names of types are unique across all texts.
const TEXTS: [(&str, &str, &str); 3] = [
    ("Amazon EC2", "aws", include_str!("catalogue/aws.txt")),
    ("Azure", "azure", include_str!("catalogue/azure.txt")),
    ("Google Cloud", "google", include_str!("catalogue/gcp.txt")),
];

/// An instance type with its documented figures.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Instance {
    /// The cloud's name of the type.
    pub name: String,
    /// Its figures; at least one.
    pub figures: Vec<Figure>,
    /// Figures that every type has but that no source here gives.
    pub not_given: Vec<Kind>,
}

/// One figure of an instance type.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Figure {
    /// The kind of figure.
    pub figure: Kind,
    /// A number, `open` or `closed`, or words.
    pub value: &'static str,
    /// Its source.
    pub source: Origin,
}

/// The source of a figure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Origin {
    /// The title of the document.
    pub title: &'static str,
    /// The date of the document, or for a page that changes, the date of reading.
    pub date: &'static str,
}

/// The form of a value.
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
        #[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(from = "String", into = "String"))]
        pub enum Kind { $($kind),* }

        impl Kind {
            #[cfg(test)]
            const ALL: &[Kind] = &[$(Kind::$kind),*];

            /// The name of this kind of figure, which ends with the unit.
            pub fn name(self) -> &'static str {
                match self { $(Kind::$kind => $name),* }
            }

            /// The description of this kind of figure, and the unit of its value.
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
    Cores = "cores", Count, "cores", "";
    ThreadsPerCore = "threads_per_core", Count, "threads per core", "";
    MemoryGib = "memory_gib", Number, "memory", "GiB";
    Network = "network", Words, "network", "";
    NetworkMbpsBaseline = "network_mbps_baseline", Number, "sustained network", "Mbit/s";
    EbsMbps = "ebs_mbps", Count, "sustained EBS", "Mbit/s";
    EbsMbpsMax = "ebs_mbps_max", Count, "maximum EBS", "Mbit/s";
    Queues = "queues", Count, "network queues", "";
    NumaNodes = "numa_nodes", Count, "memory nodes", "";
    ClockGhzBase = "clock_ghz_base", Number, "base clock", "GHz";
    ClockGhzSustained = "clock_ghz_sustained", Number, "sustained clock", "GHz";
    ClockGhzAllCores = "clock_ghz_all_cores", Number, "clock with all cores busy", "GHz";
    ClockGhzMax = "clock_ghz_max", Number, "highest clock", "GHz";
    CStates = "c_states", State, "C states", "";
    PStates = "p_states", State, "P states", "";
    BaselinePercentPerVcpu = "baseline_percent_per_vcpu", Number, "baseline", "% of each CPU";
    CreditsPerHour = "credits_per_hour", Number, "credits per hour", "";
    CreditsMax = "credits_max", Number, "maximum credits", "";
    CreditsInitial = "credits_initial", Number, "credits at the start", "";
    SurplusUsdPerVcpuHour = "surplus_usd_per_vcpu_hour", Number, "price of surplus credits", "USD a CPU and hour";
}

/// The fields that every instance type has, documented or not.
const OF_EVERY_TYPE: &[Kind] =
    &[Kind::Vcpus, Kind::ThreadsPerCore, Kind::MemoryGib, Kind::Network, Kind::NumaNodes, Kind::CStates, Kind::PStates];

impl Serialize for Kind {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

/// A line with figures: `TYPE, TYPE | KEY | figure=value; figure=value`.
#[derive(Debug)]
struct Row {
    types: &'static str,
    key: &'static str,
    figures: Vec<(Kind, &'static str)>,
}

impl Instance {
    /// The catalogue's entry for the instance type of a machine.
    pub(crate) fn from_type(instance_type: &Fact<String>) -> Fact<Instance> {
        crate::probe::and_then(instance_type.clone(), |name| match instance(&name) {
            Some(instance) => Fact::Known(instance),
            None => Fact::absent(format!("the catalogue of instance types does not have {name}")),
        })
    }

    fn new(name: &str, figures: Vec<Figure>) -> Instance {
        let given = |kind: &Kind| figures.iter().any(|figure| figure.figure == *kind);
        let not_given = OF_EVERY_TYPE.iter().copied().filter(|kind| !given(kind)).collect();
        Instance { name: name.to_owned(), figures, not_given }
    }

    /// The figure of this kind, if a document gives it.
    pub fn figure(&self, kind: Kind) -> Option<&Figure> {
        self.figures.iter().find(|figure| figure.figure == kind)
    }

    /// The figure of this kind as a number. `None` if no document gives the figure, or if it is not a number.
    pub fn number(&self, kind: Kind) -> Option<f64> {
        self.figure(kind)?.value.parse().ok()
    }
}

/// An instance type by the name that its cloud gives it.
pub fn instance(name: &str) -> Option<Instance> {
    let figures: Vec<Figure> =
        lines().filter(|line| types(line).any(|one| one == name)).filter_map(figures).flatten().collect();
    (!figures.is_empty()).then(|| Instance::new(name, figures))
}

/// All instance types of a cloud, in the order of the documents.
///
/// `cloud` is `aws`, `azure` or `google`. For any other text the list is empty.
pub fn instances(cloud: &str) -> Vec<Instance> {
    let text = TEXTS.iter().find(|(_, name, _)| *name == cloud).map_or("", |(_, _, text)| *text);
    let mut order: Vec<&str> = Vec::new();
    let mut all: BTreeMap<&str, Vec<Figure>> = BTreeMap::new();
    for line in text.lines() {
        for figure in figures(line).into_iter().flatten() {
            for name in types(line) {
                let of_type = all.entry(name).or_default();
                if of_type.is_empty() {
                    order.push(name);
                }
                of_type.push(figure.clone());
            }
        }
    }
    order.into_iter().filter_map(|name| Some(Instance::new(name, all.remove(name)?))).collect()
}

/// The cloud of an instance type. `None` if the catalogue does not have the type.
pub fn cloud(name: &str) -> Option<&'static str> {
    let has = |text: &'static str| text.lines().filter_map(row).any(|row| row.types.split(", ").any(|one| one == name));
    TEXTS.iter().find(|(_, _, text)| has(text)).map(|(_, cloud, _)| *cloud)
}

fn lines() -> impl Iterator<Item = &'static str> {
    TEXTS.iter().flat_map(|(_, _, text)| text.lines())
}

/// The instance types of a line with figures. For any other line, the result contains no name of a type.
fn types(line: &'static str) -> impl Iterator<Item = &'static str> {
    line.split(" | ").next().unwrap_or_default().split(", ")
}

/// The figures of one line, if the whole line is valid.
fn figures(line: &'static str) -> Option<Vec<Figure>> {
    let row = row(line)?;
    let source = origin(row.key)?;
    Some(row.figures.into_iter().map(|(figure, value)| Figure { figure, value, source }).collect())
}

fn row(line: &'static str) -> Option<Row> {
    let mut parts = line.split(" | ");
    let (types, key, list) = (parts.next()?, parts.next()?, parts.next()?);
    let figure = |pair: &'static str| {
        let (name, value) = pair.split_once('=')?;
        let figure = Kind::parse(name)?;
        figure.shape().holds(value).then_some((figure, value))
    };
    if parts.next().is_some() || types.split(", ").any(str::is_empty) || types.starts_with("source ") {
        return None;
    }
    Some(Row { types, key, figures: list.split("; ").map(figure).collect::<Option<_>>()? })
}

/// The source with this key.
fn origin(key: &str) -> Option<Origin> {
    static SOURCES: LazyLock<BTreeMap<&str, Origin>> = LazyLock::new(|| lines().filter_map(source).collect());
    SOURCES.get(key).copied()
}

/// A source and its key: `source KEY | TITLE | DATE`.
fn source(line: &'static str) -> Option<(&'static str, Origin)> {
    let mut parts = line.strip_prefix("source ")?.split(" | ");
    let (key, title, date) = (parts.next()?, parts.next()?, parts.next()?);
    parts.next().is_none().then_some((key, Origin { title, date }))
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
        lines().filter(|line| !line.is_empty() && !line.starts_with('#') && !line.starts_with("source "))
    }

    fn of_machine(name: &str) -> Fact<Instance> {
        Instance::from_type(&Fact::Known(name.into()))
    }

    #[test]
    fn the_types_of_a_cloud_are_those_that_are_found_by_name() {
        for (_, name, _) in TEXTS {
            let all = instances(name);
            assert!(all.len() > 50, "{name}: {}", all.len());
            for one in all.iter().step_by(17) {
                assert_eq!(instance(&one.name).as_ref(), Some(one));
                assert_eq!(cloud(&one.name), Some(name));
            }
        }
        assert!(instances("moon").is_empty() && cloud("source paper").is_none());
    }

    /// Each type with its figures as numbers and words, so that the lookup is fast.
    fn all() -> BTreeMap<&'static str, BTreeMap<Kind, &'static str>> {
        let mut all: BTreeMap<_, BTreeMap<_, _>> = BTreeMap::new();
        for row in rows().map(|line| row(line).unwrap()) {
            for name in row.types.split(", ") {
                all.entry(name).or_default().extend(row.figures.iter().copied());
            }
        }
        all
    }

    fn number(figures: &BTreeMap<Kind, &str>, kind: Kind) -> Option<f64> {
        figures.get(&kind).map(|value| value.parse().unwrap())
    }

    #[test]
    fn every_line_is_understood_and_no_figure_stands_twice() {
        let mut seen = BTreeSet::new();
        for line in rows() {
            let figures = figures(line).unwrap_or_else(|| panic!("{line}"));
            for (name, figure) in types(line).flat_map(|name| figures.iter().map(move |figure| (name, figure))) {
                assert!(!name.contains(char::is_whitespace), "{line}: {name}");
                assert!(seen.insert((name, figure.figure.name())), "{name}: {} stands twice", figure.figure.name());
            }
        }
        assert!(seen.len() > 4000, "{}", seen.len());
        for kind in Kind::ALL {
            assert!(seen.iter().any(|(_, name)| *name == kind.name()), "nobody has {}", kind.name());
        }
    }

    /// Each source must have figures, and be listed once. A figure from memory has no source, so it is not allowed.
    #[test]
    fn sources_are_documents_and_each_is_used() {
        let listed = lines().filter(|line| line.starts_with("source "));
        let sources: Vec<(&str, Origin)> =
            listed.map(|line| source(line).unwrap_or_else(|| panic!("{line}"))).collect();
        let keys: BTreeSet<&str> = sources.iter().map(|(key, _)| *key).collect();
        assert_eq!(keys.len(), sources.len(), "{sources:?}");
        assert_eq!(keys, rows().map(|line| row(line).unwrap().key).collect());
        for (key, Origin { title, date }) in sources {
            assert!(!title.is_empty() && !title.contains("memory,"), "{key}: {title}");
            assert!(date.contains(|letter: char| letter.is_ascii_digit()) || date.starts_with("copy"), "{key}: {date}");
        }
    }

    /// Checks relations between figures, which reveal typing errors.
    #[test]
    fn figures_of_a_type_agree_with_each_other() {
        for (name, figures) in all() {
            let number = |kind| number(&figures, kind);
            if let (Some(vcpus), Some(threads)) = (number(Kind::Vcpus), number(Kind::ThreadsPerCore)) {
                assert!(vcpus % threads == 0.0 && threads <= 2.0, "{name}");
                assert!(number(Kind::Cores).is_none_or(|cores| cores * threads == vcpus), "{name}");
            }
            if let (Some(vcpus), Some(memory)) = (number(Kind::Vcpus), number(Kind::MemoryGib)) {
                assert!((0.25..=16.0).contains(&(memory / vcpus)), "{name}: {}", memory / vcpus);
            }
            if let (Some(nodes), Some(vcpus)) = (number(Kind::NumaNodes), number(Kind::Vcpus)) {
                assert!(nodes <= vcpus, "{name}");
            }
            let ebs = [Kind::EbsMbps, Kind::EbsMbpsMax].map(number);
            assert!(ebs.iter().flatten().is_sorted(), "{name}: {ebs:?}");
            for clock in [Kind::ClockGhzSustained, Kind::ClockGhzAllCores] {
                let clocks = [Kind::ClockGhzBase, clock, Kind::ClockGhzMax].map(number);
                assert!(clocks.iter().flatten().is_sorted(), "{name}: {clocks:?}");
                assert!(clocks.iter().flatten().all(|clock| (1.0..6.0).contains(clock)), "{name}: {clocks:?}");
            }
            // No type has P states without C states.
            let states = [Kind::CStates, Kind::PStates].map(|kind| figures.get(&kind).copied());
            assert!(states != [Some("closed"), Some("open")], "{name}");
            assert_eq!(states[0].is_some(), states[1].is_some(), "{name}");
        }
    }

    /// A credit is one minute of one CPU, and up to a day's worth accumulates.
    /// The names of Amazon's burstable types contain T, and the names of Microsoft's contain B.
    /// Microsoft rounds the figures of the first series.
    /// Google's shared-core types have a baseline without credits.
    #[test]
    fn burstable_types_and_no_others_have_a_baseline_and_credits() {
        for (name, figures) in all() {
            let number = |kind| number(&figures, kind);
            let burst = [Kind::BaselinePercentPerVcpu, Kind::CreditsPerHour, Kind::CreditsMax].map(number);
            let is_azure = name.starts_with("Standard_B");
            let credits = name.contains('.') && name.starts_with('t') || is_azure;
            let (percent_off, credits_off) = if is_azure { (0.25, 60.0) } else { (1e-9, 1e-9) };
            let shared = ["e2-micro", "e2-small", "e2-medium"].contains(&name);
            assert_eq!(burst.map(|figure| figure.is_some()), [credits || shared, credits, credits], "{name}");
            if let ([Some(percent), Some(credits), Some(most)], Some(vcpus)) = (burst, number(Kind::Vcpus)) {
                assert!((credits / 60.0 / vcpus * 100.0 - percent).abs() < percent_off, "{name}: {percent}");
                assert!((credits * 24.0 - most).abs() < credits_off, "{name}: {most}");
            }
        }
    }

    /// Missing or wrong sizes show in the number of types in a family and in the GiB per CPU.
    #[test]
    fn ladders_are_whole_and_even() {
        let mut families: BTreeMap<String, (usize, BTreeSet<String>)> = BTreeMap::new();
        for (name, figures) in all() {
            let (Some(memory), Some(vcpus)) = (number(&figures, Kind::MemoryGib), number(&figures, Kind::Vcpus)) else {
                continue;
            };
            let bare = name.trim_start_matches("Standard_");
            let azure = || name.chars().filter(|letter| !letter.is_ascii_digit()).collect();
            let family = match name.rsplit_once(['.', '-']) {
                _ if bare != name => azure(),
                Some((c7i, "24xl" | "48xl" | "96xl")) => c7i.split('.').next().unwrap().to_owned(),
                Some((family, _)) => family.to_owned(),
                None => panic!("{name}"),
            };
            let (count, ratios) = families.entry(family).or_default();
            *count += 1;
            ratios.insert(format!("{:.2}", memory / vcpus));
        }
        let shown = |(family, (count, ratios)): (&String, &(usize, BTreeSet<String>))| {
            format!("{family}: {count} of {}\n", Vec::from_iter(ratios.iter().map(String::as_str)).join(", "))
        };
        expect![[r#"
            Standard_A: 7 of 1.75, 7.00
            Standard_A_v: 4 of 2.00
            Standard_Am_v: 3 of 8.00
            Standard_Bals_v: 5 of 2.00
            Standard_Bas_v: 5 of 4.00
            Standard_Bats_v: 1 of 0.50
            Standard_Bls: 1 of 0.50
            Standard_Bls_v: 5 of 2.00
            Standard_Bms: 7 of 2.00, 4.00
            Standard_Bs: 2 of 1.00, 2.00
            Standard_Bs_v: 5 of 4.00
            Standard_Bts_v: 1 of 0.50
            Standard_D: 8 of 3.50, 7.00
            Standard_DS: 8 of 3.50, 7.00
            Standard_DS_v: 5 of 3.50
            Standard_D_v: 5 of 3.50
            Standard_Das_v: 8 of 4.00
            Standard_Ds_v: 8 of 4.00
            Standard_F: 5 of 2.00
            Standard_Fs: 5 of 2.00
            Standard_Fs_v: 8 of 2.00
            a1: 6 of 2.00
            c2d-standard: 7 of 4.00
            c3: 5 of 1.88
            c3-highcpu: 6 of 2.00
            c3-highmem: 6 of 8.00
            c3-standard: 6 of 4.00
            c3d-highcpu: 8 of 1.97, 2.00
            c3d-highmem: 8 of 8.00
            c3d-standard: 8 of 4.00
            c4: 5 of 1.67, 1.88
            c4-highcpu: 11 of 2.00
            c4-highmem: 11 of 7.50, 7.75
            c4-standard: 11 of 3.50, 3.75
            c5: 9 of 2.00
            c5a: 8 of 2.00
            c5n: 7 of 2.62, 2.67
            c6a: 11 of 2.00
            c6g: 9 of 2.00
            c6gn: 8 of 2.00
            c6i: 10 of 2.00
            c6in: 10 of 2.00
            c7a: 12 of 2.00
            c7g: 9 of 2.00
            c7gn: 9 of 2.00
            c7i: 11 of 2.00
            c8a: 12 of 2.00
            c8g: 12 of 2.00
            c8i: 13 of 2.00
            d2: 4 of 6.78, 7.62
            e2: 3 of 0.50, 1.00, 2.00
            e2-highcpu: 5 of 1.00
            e2-highmem: 4 of 8.00
            e2-standard: 5 of 4.00
            i2: 4 of 7.62
            i3: 7 of 7.11, 7.62
            i4i: 10 of 8.00
            m3: 4 of 3.75
            m4: 6 of 4.00
            m5: 9 of 4.00
            m5a: 8 of 4.00
            m5n: 9 of 4.00
            m5zn: 7 of 4.00
            m6a: 11 of 4.00
            m6g: 9 of 4.00
            m6i: 10 of 4.00
            m7a: 12 of 4.00
            m7g: 9 of 4.00
            m7i: 11 of 4.00
            m8a: 12 of 4.00
            m8g: 12 of 4.00
            m8i: 13 of 4.00
            n1-highcpu: 7 of 0.90
            n1-highmem: 7 of 6.50
            n1-standard: 8 of 3.75
            n2-highcpu: 9 of 1.00
            n2-highmem: 10 of 6.75, 8.00
            n2-standard: 10 of 4.00
            n2d-highcpu: 11 of 1.00
            n2d-highmem: 9 of 8.00
            n2d-standard: 11 of 4.00
            n4-highcpu: 8 of 2.00
            n4-highmem: 8 of 8.00
            n4-standard: 8 of 4.00
            p2: 3 of 11.44, 15.25
            r3: 5 of 7.50, 7.62
            r4: 6 of 7.62
            r5: 9 of 8.00
            t2: 7 of 0.50, 1.00, 2.00, 4.00
            t2d-standard: 8 of 4.00
            t3: 7 of 0.25, 0.50, 1.00, 2.00, 4.00
            t3a: 7 of 0.25, 0.50, 1.00, 2.00, 4.00
            t4g: 7 of 0.25, 0.50, 1.00, 2.00, 4.00
            x1: 2 of 15.25
            z1d: 7 of 8.00
        "#]]
        .assert_eq(&families.iter().map(shown).collect::<String>());
    }

    #[test]
    fn types_are_found_by_the_name_that_the_cloud_gives_them() {
        let shown = |name: &&str| {
            let instance = of_machine(name);
            let instance = instance.known().unwrap();
            let as_text = instance.figures.iter().map(|figure| format!("{}={}", figure.figure.name(), figure.value));
            let not_given: Vec<&str> = instance.not_given.iter().map(|kind| kind.name()).collect();
            format!("{name}: {}; not given: {}", as_text.collect::<Vec<_>>().join(", "), not_given.join(", "))
        };
        let names = ["c4.8xlarge", "c7g.2xlarge", "c7i.metal-24xl", "t3.micro", "Standard_D4s_v5", "n2-standard-8"];
        let seen: Vec<String> = names.iter().map(shown).collect();
        expect![[r#"
            c4.8xlarge: vcpus=36, cores=18, threads_per_core=2, memory_gib=60, network=10 Gbit/s, ebs_mbps=4000, clock_ghz_sustained=2.9, c_states=open, p_states=open, queues=2, numa_nodes=2, clock_ghz_base=2.9, clock_ghz_all_cores=3.2, clock_ghz_max=3.5; not given: 
            c7g.2xlarge: vcpus=8, cores=8, threads_per_core=1, memory_gib=16, network=Up to 15 Gbit/s, network_mbps_baseline=3750, ebs_mbps=2500, ebs_mbps_max=10000, clock_ghz_sustained=2.6, c_states=closed, p_states=closed; not given: numa_nodes
            c7i.metal-24xl: vcpus=96, cores=48, threads_per_core=2, memory_gib=192, network=37.5 Gbit/s, network_mbps_baseline=37500, ebs_mbps=30000, clock_ghz_sustained=3.2, c_states=open, p_states=open; not given: numa_nodes
            t3.micro: vcpus=2, cores=1, threads_per_core=2, memory_gib=1, network=Up to 5 Gbit/s, network_mbps_baseline=64, ebs_mbps=87, ebs_mbps_max=2085, clock_ghz_sustained=2.5, c_states=closed, p_states=closed, baseline_percent_per_vcpu=10, credits_per_hour=12, credits_max=288, surplus_usd_per_vcpu_hour=0.05; not given: numa_nodes
            Standard_D4s_v5: vcpus=4, memory_gib=16, network=at most 12500 Mbit/s, threads_per_core=2, clock_ghz_all_cores=3.5; not given: numa_nodes, c_states, p_states
            n2-standard-8: vcpus=8, memory_gib=32, network=up to 16 Gbit/s out, threads_per_core=2; not given: numa_nodes, c_states, p_states
        "#]].assert_eq(&(seen.join("\n") + "\n"));
    }

    #[test]
    fn types_outside_the_catalogue_are_unknown() {
        for name in ["source paper", "z9.huge", "", "# Figures of Azure sizes", "source"] {
            assert!(of_machine(name).is_absent(), "{name}");
        }
        assert_eq!(
            serde_json::to_string(&of_machine("z9.huge")).unwrap(),
            r#"{"unknown":"absent","why":"the catalogue of instance types does not have z9.huge"}"#
        );
        assert!(Instance::from_type(&Fact::absent("no cloud")).is_absent());
    }

    proptest! {
        #[test]
        fn no_text_makes_the_parser_panic(text in "(source )?([a-c0-9.]{0,5}(, )?){0,2}( \\| )?(paper|x)?( \\| )?((vcpus|c_states|memory_gib)=[0-9a-z.-]{0,6}(; )?|.){0,4}") {
            let line: &'static str = text.leak();
            for figure in figures(line).unwrap_or_default() {
                prop_assert!(figure.figure.shape().holds(figure.value));
            }
            let _ = source(line);
        }
    }
}
