//! Reads the latencies of players to regions, or their positions, from CSV.

use std::io::Read;

use rustc_hash::FxHashMap;

use super::asked::{Candidates, RegionsError};
use super::candidates::{CANDIDATES_MAX, Candidate, LATITUDE, LONGITUDE, catalogue};
use super::latencies::{Latencies, UNMEASURED};
use super::model::{Direction, Position, parse_degrees};
use crate::records::{Fields, Records, TableError, TableFault, header};

/// Weights are counted in millionths of a player, so that sums are exact.
pub(super) const UNITS: f64 = 1e6;
/// The maximum number of players of one row.
const WEIGHT_MAX: f64 = 1e9;
/// The maximum number of players in a table.
const PLAYERS_MAX: u64 = 1_000_000_000_000;
/// The maximum number of latencies in memory, four bytes each.
const CELLS_MAX: usize = 120_000_000;
/// The maximum number of names of groups.
const GROUPS_MAX: usize = 10_000;
/// The maximum latency, in milliseconds.
const LATENCY_MS_MAX: f64 = 60_000.0;
/// Positions are rounded to this part of a degree, 11 m. Players at one place then share one row.
const DEGREE_PARTS: f64 = 10_000.0;

/// Names of columns; case does not matter.
const WEIGHT: [&str; 3] = ["players", "weight", "count"];
const GROUP: [&str; 2] = ["group", "country"];
/// Columns that only distinguish rows.
const IGNORED: [&str; 11] =
    ["player", "player_id", "user", "user_id", "id", "name", "session", "time", "timestamp", "date", "ip"];
/// The values that the column of a region accepts. Every column with an unknown name counts as a region.
const LATENCY: &str = "milliseconds from 0 to 60000, or empty; is the column a region?";

/// Players, and the regions that they could be served from.
#[derive(Debug)]
pub(super) struct Players {
    pub(super) latencies: Latencies,
    pub(super) candidates: Vec<Candidate>,
    /// The names of the groups, by their numbers in [`Latencies::groups`]; empty if the table has no such column.
    pub(super) groups: Vec<String>,
    /// The position of each row; none if the table has latencies.
    pub(super) places: Option<Vec<Position>>,
    /// The number of rows of the table.
    pub(super) rows: u64,
    /// The number of latencies that the table leaves empty.
    pub(super) unmeasured: u64,
}

/// The columns that both kinds of tables have.
struct Columns {
    names: Vec<String>,
    weight: Option<usize>,
    group: Option<usize>,
}

impl Columns {
    fn find(&self, wanted: &[&str]) -> Option<usize> {
        self.names.iter().position(|name| wanted.contains(&name.to_lowercase().as_str()))
    }

    /// Whether a column has the name of a region: of a cloud's, or of one that the user listed.
    fn has_regions(&self, wanted: &Candidates) -> bool {
        let (known, listed) = (catalogue(), wanted.listed.iter().flatten());
        let mut regions = known.iter().chain(listed).map(|one| &one.region).chain(&wanted.among).chain(&wanted.keep);
        regions.any(|region| self.names.contains(region))
    }
}

/// Sums over all rows of the table.
#[derive(Default)]
struct Sums {
    rows: u64,
    total: u64,
    groups: Vec<String>,
    numbers: FxHashMap<String, u32>,
}

/// Reads a table of players.
///
/// # Errors
/// If a line is wrong, there are no players, or the candidates do not fit the table.
pub(super) fn read(source: impl Read, candidates: &Candidates) -> Result<Players, RegionsError> {
    let mut records = Records::new(source);
    let names = header(&mut records)?;
    let mut columns = Columns { names, weight: None, group: None };
    (columns.weight, columns.group) = (columns.find(&WEIGHT), columns.find(&GROUP));
    let no_column = |wanted| Err(TableError::Whole(TableFault::no_column(wanted, &columns.names)).into());
    let players = match (columns.find(&LATITUDE), columns.find(&LONGITUDE)) {
        // If the table has both, use the measured latencies: they are better than estimates from positions.
        (Some(_), Some(_)) if columns.has_regions(candidates) => measured(&mut records, &columns, candidates)?,
        (Some(latitude), Some(longitude)) => positions(&mut records, &columns, (latitude, longitude), candidates)?,
        (Some(_), None) => return no_column("longitude"),
        (None, Some(_)) => return no_column("latitude"),
        (None, None) => measured(&mut records, &columns, candidates)?,
    };
    if players.latencies.total == 0 {
        return Err(TableError::Whole(TableFault::Empty("players")).into());
    }
    Ok(players)
}

/// The weight and the group of a row; checks the number of columns.
fn common<R: Read>(
    records: &Records<R>,
    columns: &Columns,
    fields: &Fields,
    sums: &mut Sums,
) -> Result<(u64, u32), TableError> {
    records.has_columns(fields, columns.names.len())?;
    let weight = match columns.weight {
        None => UNITS as u64,
        Some(at) => parse_weight(fields.get(at)).ok_or_else(|| {
            records.fault(TableFault::value(&columns.names[at], fields.get(at), "a number of players from 0 to 10⁹"))
        })?,
    };
    sums.rows += 1;
    sums.total += weight;
    if sums.total > PLAYERS_MAX * UNITS as u64 {
        return Err(records.fault(TableFault::TooMany { limit: PLAYERS_MAX, what: "players" }));
    }
    let group = match columns.group.map(|at| fields.get(at)) {
        None => 0,
        Some(name) => match sums.numbers.get(name) {
            Some(number) => *number,
            None if sums.groups.len() == GROUPS_MAX => {
                let limit = GROUPS_MAX as u64;
                return Err(records.fault(TableFault::TooMany { limit, what: "different groups" }));
            }
            None => {
                let number = sums.groups.len() as u32;
                sums.groups.push(name.to_owned());
                sums.numbers.insert(name.to_owned(), number);
                number
            }
        },
    };
    Ok((weight, group))
}

/// Reads a table of latencies. The columns are the regions.
fn measured<R: Read>(
    records: &mut Records<R>,
    columns: &Columns,
    wanted: &Candidates,
) -> Result<Players, RegionsError> {
    if wanted.listed.is_some() {
        return Err(RegionsError::ListedAndMeasured);
    }
    let is_region = |(at, name): &(usize, &String)| {
        let lower = name.to_lowercase();
        // A table may have `players` and `count`, or `group` and `country`.
        // The first of these columns counts, and the second one is not a region.
        let others = [&IGNORED[..], &LATITUDE, &LONGITUDE, &WEIGHT, &GROUP].concat();
        !others.contains(&lower.as_str())
            && !name.is_empty()
            && Some(*at) != columns.weight
            && Some(*at) != columns.group
    };
    let regions: Vec<(usize, &String)> = columns.names.iter().enumerate().filter(is_region).collect();
    if regions.is_empty() {
        return Err(TableError::Whole(TableFault::no_column(
            "of a region, and none of a latitude and a longitude",
            &columns.names,
        ))
        .into());
    }
    let known = catalogue();
    let candidate = |(_, name): &(usize, &String)| {
        known.iter().find(|one| one.region == **name).cloned().unwrap_or_else(|| Candidate::named(name))
    };
    let candidates = wanted.narrow(regions.iter().map(candidate).collect())?;
    let kept: Vec<usize> = candidates
        .iter()
        .filter_map(|one| regions.iter().find(|(_, name)| **name == one.region))
        .map(|(at, _)| *at)
        .collect();
    let (mut latencies, mut sums, mut fields) = (Latencies::new(candidates.len()), Sums::default(), Fields::default());
    let (mut row, mut unmeasured) = (Vec::with_capacity(kept.len()), 0);
    while records.next(&mut fields)? {
        let (weight, group) = common(records, columns, &fields, &mut sums)?;
        row.clear();
        for at in &kept {
            let text = fields.get(*at);
            let latency = parse_latency_us(text)
                .ok_or_else(|| records.fault(TableFault::value(&columns.names[*at], text, LATENCY)))?;
            unmeasured += u64::from(latency == UNMEASURED);
            row.push(latency);
        }
        push(records, &mut latencies, &row, weight, group)?;
    }
    Ok(Players { latencies, candidates, groups: sums.groups, places: None, rows: sums.rows, unmeasured })
}

fn push<R: Read>(
    records: &Records<R>,
    latencies: &mut Latencies,
    row: &[u32],
    weight: u64,
    group: u32,
) -> Result<(), TableError> {
    if latencies.values.len() + row.len() > CELLS_MAX {
        let limit = (CELLS_MAX / row.len().max(1)) as u64;
        return Err(records.fault(TableFault::TooMany { limit, what: "rows; add up rows that are alike" }));
    }
    if weight > 0 {
        latencies.push(row, weight, group);
    }
    Ok(())
}

/// Reads a table of positions. The model estimates the latencies.
fn positions<R: Read>(
    records: &mut Records<R>,
    columns: &Columns,
    (latitude, longitude): (usize, usize),
    wanted: &Candidates,
) -> Result<Players, RegionsError> {
    let listed = wanted.listed.clone().ok_or(RegionsError::NoCandidates)?;
    let candidates = wanted.narrow(listed)?;
    let directions: Vec<Direction> = candidates.iter().filter_map(|one| one.position).map(Direction::from).collect();
    let (mut sums, mut fields) = (Sums::default(), Fields::default());
    let mut places: FxHashMap<(i32, i32, u32), u64> = FxHashMap::default();
    while records.next(&mut fields)? {
        let (weight, group) = common(records, columns, &fields, &mut sums)?;
        let degrees = |at: usize, most, expected| {
            let wrong = || records.fault(TableFault::value(&columns.names[at], fields.get(at), expected));
            parse_degrees(fields.get(at), most).ok_or_else(wrong)
        };
        let north = degrees(latitude, 90.0, "degrees from -90 to 90")?;
        let east = degrees(longitude, 180.0, "degrees from -180 to 180")?;
        if weight > 0 {
            let rounded = |degrees: f64| (degrees * DEGREE_PARTS).round() as i32;
            *places.entry((rounded(north), rounded(east), group)).or_default() += weight;
        }
        if places.len() * directions.len() > CELLS_MAX {
            let limit = (CELLS_MAX / directions.len().max(1)) as u64;
            return Err(records.fault(TableFault::TooMany { limit, what: "places; round the positions" }).into());
        }
    }
    let mut places: Vec<((i32, i32, u32), u64)> = places.into_iter().collect();
    places.sort_unstable();
    let mut latencies = Latencies::new(candidates.len());
    latencies.reserve(places.len());
    let mut row = Vec::with_capacity(directions.len());
    let position = |north: i32, east: i32| Position {
        latitude: f64::from(north) / DEGREE_PARTS,
        longitude: f64::from(east) / DEGREE_PARTS,
    };
    for ((north, east, group), weight) in &places {
        let from = Direction::from(position(*north, *east));
        row.clear();
        row.extend(directions.iter().map(|region| from.round_trip_us(*region)));
        latencies.push(&row, *weight, *group);
    }
    let places = places.iter().map(|((north, east, _), _)| position(*north, *east)).collect();
    Ok(Players { latencies, candidates, groups: sums.groups, places: Some(places), rows: sums.rows, unmeasured: 0 })
}

impl Candidates {
    /// The regions that may be chosen.
    fn narrow(&self, all: Vec<Candidate>) -> Result<Vec<Candidate>, RegionsError> {
        for name in self.among.iter().chain(&self.keep) {
            if !all.iter().any(|candidate| candidate.region == *name) {
                return Err(RegionsError::UnknownRegion(name.clone()));
            }
        }
        let is_wanted = |candidate: &Candidate| {
            self.among.is_empty() || self.among.contains(&candidate.region) || self.keep.contains(&candidate.region)
        };
        let kept: Vec<Candidate> = all.into_iter().filter(is_wanted).collect();
        if kept.len() > CANDIDATES_MAX { Err(RegionsError::TooManyCandidates(kept.len())) } else { Ok(kept) }
    }
}

/// A number of players, in millionths ([`UNITS`]).
fn parse_weight(text: &str) -> Option<u64> {
    let weight = text.parse::<f64>().ok().filter(|weight| (0.0..=WEIGHT_MAX).contains(weight))?;
    Some((weight * UNITS).round() as u64)
}

/// A latency in milliseconds, as microseconds. An empty field means not measured.
fn parse_latency_us(text: &str) -> Option<u32> {
    if text.is_empty() {
        return Some(UNMEASURED);
    }
    let ms = text.parse::<f64>().ok().filter(|ms| (0.0..=LATENCY_MS_MAX).contains(ms))?;
    Some((ms * 1000.0).round() as u32)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn listed() -> Candidates {
        let aws = catalogue().into_iter().filter(|one| one.provider.as_deref() == Some("aws"));
        Candidates { listed: Some(aws.collect()), among: Vec::new(), keep: Vec::new() }
    }

    #[test]
    fn a_wrong_line_is_named() {
        let long = format!("a,b\n{}\n", "1".repeat(100_000));
        for (text, expected) in [
            ("", "it has no lines"),
            ("a,b\n", "it has no players"),
            ("a,b,players\n1,2,0\n", "it has no players"),
            ("1,2\n3,4\n", "line 1: the first line has to name the columns; \"1\" is a number"),
            ("a,b,a\n", "line 1: \"a\" stands twice"),
            (
                "players\n3\n",
                "no column of a region, and none of a latitude and a longitude; the first line has players",
            ),
            ("a,b\n1,2\n3\n", "line 3: 1 column, and the first line has 2"),
            ("a,b\n1,2,3\n", "line 2: 3 columns, and the first line has 2"),
            (
                "a,b\n1,NaN\n",
                "line 2: column \"b\": \"NaN\" is not milliseconds from 0 to 60000, or empty; is the column a region?",
            ),
            (
                "a,b\n1,inf\n",
                "line 2: column \"b\": \"inf\" is not milliseconds from 0 to 60000, or empty; is the column a region?",
            ),
            (
                "a,b\n\n\n1,-2\n",
                "line 4: column \"b\": \"-2\" is not milliseconds from 0 to 60000, or empty; is the column a region?",
            ),
            ("a,players\n1,-1\n", "line 2: column \"players\": \"-1\" is not a number of players from 0 to 10⁹"),
            ("a,players\n1,NaN\n", "line 2: column \"players\": \"NaN\" is not a number of players from 0 to 10⁹"),
            (&long, "line 2: longer than 65536 bytes; is it a table with one row a line?"),
        ] {
            let wanted = Candidates::default();
            assert_eq!(read(text.as_bytes(), &wanted).unwrap_err().to_string(), expected);
        }
        for (text, expected) in [
            ("lat,lon\n91,0\n", "line 2: column \"lat\": \"91\" is not degrees from -90 to 90"),
            ("lat,lon\n0,NaN\n", "line 2: column \"lon\": \"NaN\" is not degrees from -180 to 180"),
            ("lat,lon\n0,181\n", "line 2: column \"lon\": \"181\" is not degrees from -180 to 180"),
            ("lat,x\n0,181\n", "no column longitude; the first line has lat, x"),
            ("lon,x\n0,181\n", "no column latitude; the first line has lon, x"),
        ] {
            assert_eq!(read(text.as_bytes(), &listed()).unwrap_err().to_string(), expected);
        }
    }

    #[test]
    fn equal_places_are_one_row_and_the_date_line_is_no_border() {
        let text = "Lat,Lng,players\n0,180,2\n0,-180,3\n0.00001,180,0.5\n90,7,1\n90,-120,1\n";
        let players = read(text.as_bytes(), &listed()).unwrap();
        let latencies = &players.latencies;
        assert_eq!((players.rows, latencies.total), (5, 7_500_000));
        assert_eq!(latencies.weights.len(), 4);
        let rows: Vec<&[u32]> = latencies.rows().collect();
        // The rows are sorted by position. Positions on both sides of the date line are one place, and so are all longitudes at a pole.
        assert_eq!(rows[0], rows[1]);
        assert_eq!(rows[2], rows[3]);
    }

    #[test]
    fn columns_of_a_matrix_are_regions_but_for_names_and_weights() {
        let text = "player_id,country,us-east-1,mine,players\nx,DE,90,12.5,10\ny,FR,,13,2\n";
        let players = read(text.as_bytes(), &Candidates::default()).unwrap();
        let names: Vec<&str> = players.candidates.iter().map(|one| one.region.as_str()).collect();
        assert_eq!(names, ["us-east-1", "mine"]);
        assert_eq!(players.candidates.iter().map(|one| one.position.is_some()).collect::<Vec<_>>(), [true, false]);
        assert_eq!(players.latencies.values, [90_000, 12_500, UNMEASURED, 13_000]);
        assert_eq!((players.groups, players.unmeasured), (vec!["DE".to_owned(), "FR".to_owned()], 1));
    }

    #[test]
    fn a_second_column_of_players_is_no_region() {
        let text = "us-east-1,eu-west-1,Players,count,group,Country\n10,80,5,3,a,DE\n";
        let players = read(text.as_bytes(), &Candidates::default()).unwrap();
        let names: Vec<&str> = players.candidates.iter().map(|one| one.region.as_str()).collect();
        assert_eq!(
            (names, players.latencies.total, players.groups),
            (vec!["us-east-1", "eu-west-1"], 5_000_000, vec!["a".to_owned()])
        );
    }

    #[test]
    fn measured_latencies_come_before_positions() {
        let text = "timestamp,lat,lon,us-east-1,eu-west-1\n2026-11-26,40.7,-74,12,80\n";
        let players = read(text.as_bytes(), &Candidates::default()).unwrap();
        assert_eq!((players.latencies.values, players.places.is_none()), (vec![12_000, 80_000], true));
        assert!(matches!(read(text.as_bytes(), &listed()).unwrap_err(), RegionsError::ListedAndMeasured));
        // Names that the user chose.
        let own = "lat,lon,fra,city\n50,8,9,x\n";
        let among = Candidates { among: vec!["fra".to_owned()], ..Candidates::default() };
        assert_eq!(read(own.as_bytes(), &among).unwrap().latencies.values, [9_000]);
        assert!(read(own.as_bytes(), &listed()).unwrap().places.is_some());
    }

    #[test]
    fn candidates_are_those_that_are_named() {
        let text = "lat,lon\n1,2\n";
        let with = |among: &[&str], keep: &[&str]| Candidates {
            among: among.iter().map(|name| (*name).to_owned()).collect(),
            keep: keep.iter().map(|name| (*name).to_owned()).collect(),
            ..listed()
        };
        assert_eq!(read(text.as_bytes(), &with(&["eu-west-1"], &["us-east-1"])).unwrap().candidates.len(), 2);
        let refused = |wanted: &Candidates| read(text.as_bytes(), wanted).unwrap_err();
        assert!(matches!(refused(&with(&["nowhere"], &[])), RegionsError::UnknownRegion(name) if name == "nowhere"));
        assert!(matches!(refused(&Candidates::default()), RegionsError::NoCandidates));
        let all = Candidates { listed: Some(catalogue()), ..Candidates::default() };
        assert!(matches!(refused(&all), RegionsError::TooManyCandidates(count) if count > 100));
        assert!(matches!(read("a\n1\n".as_bytes(), &listed()).unwrap_err(), RegionsError::ListedAndMeasured));
    }

    proptest! {
        #[test]
        fn no_table_makes_it_panic(head in "(lat,lon|a,b|a,players,group)", text in "[a0-9.,eE+\n\"-]{0,200}") {
            let table = format!("{head}\n{text}");
            let _ = read(table.as_bytes(), &Candidates::default());
            let _ = read(table.as_bytes(), &listed());
        }
    }
}
