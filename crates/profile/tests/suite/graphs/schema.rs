//! Checks the processed profile of the Firefox Profiler, version 55.
//! The check covers the tables, the lengths of their columns, valid indices, and increasing times.
//! The check rejects a profile that the profiler would not read.

use std::collections::BTreeSet;

use serde_json::Value;

type Checked = Result<(), String>;

/// The columns of a table, and the allowed values of each column.
type Columns = &'static [(&'static str, Holds)];

/// The allowed values of a column.
#[derive(Clone, Copy)]
enum Holds {
    /// Indices into this table of the thread. `Maybe` says whether indices may be missing.
    Place(&'static str, Maybe),
    /// Indices into the list of texts.
    Text(Maybe),
    /// The index of a category.
    Category,
    /// A whole number. -1 means none.
    Number,
    /// Any number, or null.
    Amount,
    /// True or false.
    Flag,
    /// Anything, because it is checked separately.
    Other,
}
use Holds::{Amount, Category, Flag, Number, Other, Place, Text};

#[derive(Clone, Copy, PartialEq)]
enum Maybe {
    Always,
    OrNone,
}
use Maybe::{Always, OrNone};

const TABLES: &[(&str, Columns)] = &[
    (
        "samples",
        &[
            ("stack", Place("stackTable", OrNone)),
            ("timeDeltas", Amount),
            ("weight", Amount),
            ("threadCPUDelta", Amount),
        ],
    ),
    ("stackTable", &[("frame", Place("frameTable", Always)), ("prefix", Place("stackTable", OrNone))]),
    (
        "frameTable",
        &[
            ("address", Number),
            ("category", Category),
            ("subcategory", Number),
            ("func", Place("funcTable", Always)),
            ("inlineDepth", Number),
            ("innerWindowID", Amount),
            ("line", Amount),
            ("column", Amount),
            ("nativeSymbol", Place("nativeSymbols", OrNone)),
        ],
    ),
    (
        "funcTable",
        &[
            ("name", Text(Always)),
            ("fileName", Text(OrNone)),
            ("lineNumber", Amount),
            ("columnNumber", Amount),
            ("isJS", Flag),
            ("relevantForJS", Flag),
            ("resource", Number),
        ],
    ),
    ("nativeSymbols", &[("address", Number), ("functionSize", Amount), ("libIndex", Number), ("name", Text(Always))]),
    ("resourceTable", &[("host", Text(OrNone)), ("lib", Amount), ("name", Text(Always)), ("type", Number)]),
    (
        "markers",
        &[
            ("category", Category),
            ("data", Other),
            ("startTime", Amount),
            ("endTime", Amount),
            ("name", Text(Always)),
            ("phase", Number),
        ],
    ),
];
/// The fields of a thread, except its tables.
const OF_THREAD: &[&str] = &[
    "name",
    "isMainThread",
    "pid",
    "tid",
    "processName",
    "processType",
    "processStartupTime",
    "processShutdownTime",
    "registerTime",
    "unregisterTime",
    "pausedRanges",
    "showMarkersInTimeline",
    "stringArray",
];
const COLOURS: &[&str] = &[
    "transparent",
    "purple",
    "green",
    "orange",
    "yellow",
    "lightblue",
    "blue",
    "brown",
    "magenta",
    "red",
    "lightred",
    "darkgrey",
    "grey",
];

fn need(is_so: bool, what: impl FnOnce() -> String) -> Checked {
    if is_so { Ok(()) } else { Err(what()) }
}

fn list<'v>(of: &'v Value, key: &str) -> Result<&'v Vec<Value>, String> {
    of[key].as_array().ok_or_else(|| format!("{key} is not a list"))
}

fn length(thread: &Value, table: &str) -> Result<usize, String> {
    let length = thread[table]["length"].as_u64();
    length.map(|length| length as usize).ok_or_else(|| format!("{table} has no length"))
}

/// Checks whether the profiler could read a profile.
pub(crate) fn check(profile: &Value) -> Checked {
    let meta = &profile["meta"];
    need(meta["preprocessedProfileVersion"] == 55, || "it is of another version".into())?;
    need(meta["version"].is_u64() && meta["processType"] == 0, || "its head lacks something".into())?;
    need(meta["interval"].as_f64().is_some_and(|ms| ms > 0.0), || "it has no interval".into())?;
    need(meta["startTime"].is_number() && meta["product"].is_string(), || "it has no beginning".into())?;
    need(meta["symbolicated"] == true, || "a browser would look for its names".into())?;
    for category in list(meta, "categories")? {
        let colour = category["color"].as_str().unwrap_or("");
        need(COLOURS.contains(&colour) && category["name"].is_string(), || format!("a category is {category}"))?;
        let parts = list(category, "subcategories")?;
        need(!parts.is_empty() && parts.iter().all(Value::is_string), || format!("its parts are {parts:?}"))?;
    }
    for schema in list(meta, "markerSchema")? {
        need(schema["name"].is_string() && schema["display"].is_array(), || format!("a sort of marks is {schema}"))?;
        for field in list(schema, "fields")? {
            need(field["key"].is_string() && field["format"].is_string(), || format!("a field is {field}"))?;
        }
    }
    let mut tids = BTreeSet::new();
    for thread in list(profile, "threads")? {
        let at_thread = |why: String| format!("thread {} {}: {why}", thread["name"], thread["tid"]);
        of_thread(thread, meta).map_err(at_thread)?;
        need(tids.insert((thread["pid"].to_string(), thread["tid"].to_string())), || {
            at_thread("it is there twice".into())
        })?;
    }
    Ok(())
}

fn of_thread(thread: &Value, meta: &Value) -> Checked {
    let keys = thread.as_object().ok_or("it is not an object")?.keys();
    for key in keys {
        let is_known = OF_THREAD.contains(&key.as_str()) || TABLES.iter().any(|(table, _)| table == key);
        need(is_known, || format!("it has {key}"))?;
    }
    for key in ["name", "pid", "tid", "processName", "processType"] {
        need(thread[key].is_string(), || format!("{key} is not a text"))?;
    }
    let texts = list(thread, "stringArray")?;
    need(texts.iter().all(Value::is_string), || "a text is not a string".into())?;
    let distinct: BTreeSet<&str> = texts.iter().filter_map(Value::as_str).collect();
    need(distinct.len() == texts.len(), || "a text is there twice".into())?;
    for (table, columns) in TABLES {
        of_table(thread, meta, table, columns).map_err(|why| format!("{table}: {why}"))?;
    }
    for (at, prefix) in list(&thread["stackTable"], "prefix")?.iter().enumerate() {
        let is_below = prefix.as_u64().is_none_or(|prefix| (prefix as usize) < at);
        need(is_below, || format!("stack {at} stands on a later one"))?;
    }
    for (frame, (category, part)) in
        list(&thread["frameTable"], "category")?.iter().zip(list(&thread["frameTable"], "subcategory")?).enumerate()
    {
        let parts = &meta["categories"][category.as_u64().unwrap_or(0) as usize]["subcategories"];
        let is_there = part.as_u64().is_some_and(|part| parts[part as usize].is_string());
        need(is_there, || format!("frame {frame} is of part {part}"))?;
    }
    let back = list(&thread["samples"], "timeDeltas")?.iter().position(|step| step.as_f64().is_none_or(|ms| ms < 0.0));
    need(back.is_none(), || format!("sample {} goes back in time", back.unwrap_or(0)))?;
    need(thread["samples"]["weightType"] == "samples", || "its weights are of nothing".into())?;
    of_marks(thread, meta)
}

fn of_table(thread: &Value, meta: &Value, table: &str, columns: Columns) -> Checked {
    let count = length(thread, table)?;
    for key in thread[table].as_object().ok_or("it is not an object")?.keys() {
        let is_known = columns.iter().any(|(name, _)| name == key) || matches!(key.as_str(), "length" | "weightType");
        need(is_known, || format!("it has {key}"))?;
    }
    for (name, holds) in columns {
        let values = list(&thread[table], name)?;
        need(values.len() == count, || format!("{name} has {} of {count}", values.len()))?;
        for (at, value) in values.iter().enumerate() {
            let within = |end: usize, maybe: Maybe| match value.as_u64() {
                Some(place) => (place as usize) < end,
                None => maybe == OrNone && value.is_null(),
            };
            let is_good = match holds {
                Place(other, maybe) => within(length(thread, other)?, *maybe),
                Text(maybe) => within(list(thread, "stringArray")?.len(), *maybe),
                Category => within(list(meta, "categories")?.len(), Always),
                Number => value.as_i64().is_some_and(|number| number >= -1),
                Amount => value.is_number() || value.is_null(),
                Flag => value.is_boolean(),
                Other => true,
            };
            need(is_good, || format!("{name}[{at}] is {value}"))?;
        }
    }
    Ok(())
}

/// Checks that each marker has the times that its phase requires, and data that match the declared type.
fn of_marks(thread: &Value, meta: &Value) -> Checked {
    let marks = &thread["markers"];
    let mut last_ms = 0.0;
    for at in 0..length(thread, "markers")? {
        let (start, end) = (marks["startTime"][at].as_f64(), marks["endTime"][at].as_f64());
        let is_timed = match marks["phase"][at].as_u64() {
            Some(0 | 2) => start.is_some(),
            Some(1) => start.zip(end).is_some_and(|(start, end)| start <= end),
            Some(3) => end.is_some(),
            _ => false,
        };
        need(is_timed, || format!("mark {at} is from {start:?} to {end:?}"))?;
        let begins = start.or(end).unwrap_or(0.0);
        need(begins >= last_ms, || format!("mark {at} goes back in time"))?;
        last_ms = begins;
        let data = &marks["data"][at];
        if data.is_null() {
            continue;
        }
        let schema = list(meta, "markerSchema")?.iter().find(|schema| schema["name"] == data["type"]);
        let schema = schema.ok_or_else(|| format!("mark {at} is of the sort {}", data["type"]))?;
        for (key, value) in data.as_object().ok_or("it has no data")?.iter().filter(|(key, _)| *key != "type") {
            let field = list(schema, "fields")?.iter().find(|field| field["key"] == **key);
            let field = field.ok_or_else(|| format!("mark {at} has {key}"))?;
            let texts = list(thread, "stringArray")?.len() as u64;
            let is_good = field["format"] != "unique-string" || value.as_u64().is_some_and(|text| text < texts);
            need(is_good, || format!("mark {at}: {key} is {value}"))?;
        }
    }
    Ok(())
}

/// A profile that is damaged in one place must be rejected. This shows that the check can fail.
#[test]
fn the_check_finds_what_is_wrong() {
    let golden: Value = serde_json::from_str(include_str!("firefox.json")).unwrap();
    assert_eq!(check(&golden), Ok(()));
    let table: &[(&str, Value)] = &[
        ("/meta/preprocessedProfileVersion", 54.into()),
        ("/meta/interval", 0.into()),
        ("/meta/categories/1/color", "mauve".into()),
        ("/meta/markerSchema/0/name", "Other".into()),
        ("/threads/0/samples/length", 99.into()),
        ("/threads/0/samples/stack/0", 99.into()),
        ("/threads/0/samples/timeDeltas/1", (-1).into()),
        ("/threads/0/stackTable/prefix/1", 1.into()),
        ("/threads/0/stackTable/frame/0", Value::Null),
        ("/threads/0/frameTable/func/0", 99.into()),
        ("/threads/0/frameTable/category/0", 6.into()),
        ("/threads/0/frameTable/subcategory/0", 1.into()),
        ("/threads/0/frameTable/nativeSymbol/0", 0.into()),
        ("/threads/0/funcTable/name/0", 99.into()),
        ("/threads/0/funcTable/isJS/0", 0.into()),
        ("/threads/0/markers/name/0", 99.into()),
        ("/threads/0/markers/phase/0", 4.into()),
        ("/threads/0/markers/endTime/0", 1.into()),
        ("/threads/0/markers/startTime/0", 21.9.into()),
        ("/threads/0/markers/data/0/text", 99.into()),
        ("/threads/0/markers/data/0/type", "Unheard".into()),
        ("/threads/0/stringArray/1", "game".into()),
        ("/threads/0/stringArray/0", 7.into()),
        ("/threads/0/tid", 7.into()),
        ("/threads/1/tid", golden["threads"][0]["tid"].clone()),
    ];
    for (place, value) in table {
        let mut damaged = golden.clone();
        *damaged.pointer_mut(place).unwrap_or_else(|| panic!("{place}")) = value.clone();
        if *place == "/threads/0/markers/startTime/0" {
            damaged["threads"][0]["markers"]["startTime"][1] = 20.0.into();
        }
        if *place == "/threads/1/tid" {
            damaged["threads"][1]["pid"] = golden["threads"][0]["pid"].clone();
        }
        assert!(check(&damaged).is_err(), "{place} may be {value}");
    }
    let mut longer = golden;
    longer["threads"][0]["funcTable"]["name"].as_array_mut().unwrap().push(0.into());
    assert!(check(&longer).is_err());
}
