//! Regions that servers may be put in: the catalogue of public clouds, or the user's own list.

use std::io::Read;

use serde::Serialize;

use super::model::{Position, parse_degrees};
use crate::records::{Fields, Records, TableError, TableFault, header};

/// Regions of public clouds. The first lines of the file say where the positions are from.
const CATALOGUE: &str = include_str!("catalogue.csv");

/// The maximum number of candidates, because a set of regions has one bit for each in a `u64`.
pub const CANDIDATES_MAX: usize = 60;
/// The maximum number of regions of a user's list; `--among` may choose from them.
const LISTED_MAX: usize = 10_000;

/// Names of columns; case does not matter.
pub(super) const LATITUDE: [&str; 2] = ["latitude", "lat"];
pub(super) const LONGITUDE: [&str; 4] = ["longitude", "lon", "lng", "long"];

/// A region that servers may be put in.
#[derive(Clone, Debug, PartialEq)]
pub struct Candidate {
    /// The cloud's name of the region.
    pub region: String,
    /// The cloud; none if the user's list does not name it.
    pub provider: Option<String>,
    /// The place, as the cloud names it; none if it is not known.
    pub named: Option<String>,
    /// Where the region is; none if it is not known.
    pub position: Option<Position>,
    /// How exact the position is; none if it is not from the catalogue.
    pub known: Option<Known>,
}

/// How exact a position of the catalogue is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Known {
    /// The cloud publishes the position of the region.
    Provider,
    /// The centre of the city that the cloud names.
    City,
    /// The cloud names only a state or country. The position is that of a city in it, which may be hundreds of kilometres from the region.
    StateOrCountry,
}

impl Candidate {
    /// A region with a known name and no other known fields.
    pub(super) fn named(region: &str) -> Candidate {
        Candidate { region: region.to_owned(), provider: None, named: None, position: None, known: None }
    }
}

/// The regions of the catalogue.
pub fn catalogue() -> Vec<Candidate> {
    // Reading cannot fail: the tests read every line of the catalogue.
    read(CATALOGUE.as_bytes()).unwrap_or_default()
}

/// The clouds of the catalogue, in order.
pub const PROVIDERS: [&str; 3] = ["aws", "azure", "google"];

/// A list of regions as CSV: a column `region`, and `latitude` and `longitude` in degrees. `provider` and `named` are optional.
///
/// # Errors
/// If a line is wrong; the error names it.
pub fn read(source: impl Read) -> Result<Vec<Candidate>, TableError> {
    let mut records = Records::new(source);
    let names = header(&mut records)?;
    let column = |wanted: &[&str]| names.iter().position(|name| wanted.contains(&name.to_lowercase().as_str()));
    let needed = |wanted: &[&str], what| column(wanted).ok_or(TableError::Whole(TableFault::no_column(what, &names)));
    let region = needed(&["region", "name", "id"], "region")?;
    let latitude = needed(&LATITUDE, "latitude")?;
    let longitude = needed(&LONGITUDE, "longitude")?;
    let (provider, named, known) = (column(&["provider"]), column(&["named"]), column(&["known"]));
    let (mut found, mut fields): (Vec<Candidate>, _) = (Vec::new(), Fields::default());
    while records.next(&mut fields)? {
        records.has_columns(&fields, names.len())?;
        let degrees = |at: usize, most, expected| {
            let wrong = || records.fault(TableFault::value(&names[at], fields.get(at), expected));
            parse_degrees(fields.get(at), most).ok_or_else(wrong)
        };
        let text = |at: Option<usize>| at.map(|at| fields.get(at)).filter(|text| !text.is_empty());
        let name = fields.get(region);
        if name.is_empty() {
            return Err(records.fault(TableFault::value(&names[region], "", "the name of a region")));
        }
        if found.iter().any(|candidate| candidate.region == name) {
            return Err(records.fault(TableFault::Twice(name.to_owned())));
        }
        if found.len() == LISTED_MAX {
            return Err(records.fault(TableFault::TooMany { limit: LISTED_MAX as u64, what: "regions" }));
        }
        found.push(Candidate {
            region: name.to_owned(),
            provider: text(provider).map(str::to_owned),
            named: text(named).map(str::to_owned),
            position: Some(Position {
                latitude: degrees(latitude, 90.0, "degrees from -90 to 90")?,
                longitude: degrees(longitude, 180.0, "degrees from -180 to 180")?,
            }),
            known: match text(known) {
                Some("provider") => Some(Known::Provider),
                Some("city") => Some(Known::City),
                Some("state or country") => Some(Known::StateOrCountry),
                _ => None,
            },
        });
    }
    if found.is_empty() { Err(TableError::Whole(TableFault::Empty("regions"))) } else { Ok(found) }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_catalogue_is_whole() {
        let all = read(CATALOGUE.as_bytes()).unwrap();
        let providers: BTreeSet<&str> = all.iter().map(|region| region.provider.as_deref().unwrap()).collect();
        assert_eq!(providers.into_iter().collect::<Vec<_>>(), PROVIDERS);
        for provider in PROVIDERS {
            let count = all.iter().filter(|region| region.provider.as_deref() == Some(provider)).count();
            assert!((30..=CANDIDATES_MAX).contains(&count), "{provider}: {count}");
            assert!(CATALOGUE.contains(&format!("# source {provider}: ")), "{provider}");
        }
        assert!(all.iter().all(|region| region.known.is_some() && region.named.is_some()), "{all:?}");
        // Regions of one city must be near each other, even if they belong to different clouds.
        let at = |name: &str| all.iter().find(|region| region.region == name).unwrap().position.unwrap();
        for (a, b) in [
            ("eu-central-1", "germanywestcentral"),
            ("ap-northeast-1", "asia-northeast1"),
            ("sa-east-1", "brazilsouth"),
        ] {
            let (a, b) = (at(a), at(b));
            assert!((a.latitude - b.latitude).abs() < 0.5 && (a.longitude - b.longitude).abs() < 0.5, "{a:?} {b:?}");
        }
    }

    #[test]
    fn a_wrong_line_is_named() {
        let refused = |text: &str| read(text.as_bytes()).unwrap_err().to_string();
        for (text, expected) in [
            ("", "it has no lines"),
            ("region,lat,lon\n", "it has no regions"),
            ("region,lat\n", "no column longitude; the first line has region, lat"),
            ("region,lat,lon\na,1\n", "line 2: 2 columns, and the first line has 3"),
            ("region,lat,lon\na,1,2\n\na,91,2\n", "line 4: \"a\" stands twice"),
            ("region,lat,lon\na,1,2\nb,91,2\n", "line 3: column \"lat\": \"91\" is not degrees from -90 to 90"),
            ("region,lat,lon\na,NaN,2\n", "line 2: column \"lat\": \"NaN\" is not degrees from -90 to 90"),
            ("region,lat,lon\n,1,2\n", "line 2: column \"region\": \"\" is not the name of a region"),
        ] {
            assert_eq!(refused(text), expected);
        }
        assert_eq!(read("Region,Latitude,Longitude\nx,-90,180\n".as_bytes()).unwrap().len(), 1);
    }

    proptest! {
        #[test]
        fn no_list_makes_it_panic(text in "[region,latlon0-9.\n\"-]{0,200}") {
            let _ = read(format!("region,lat,lon\n{text}").as_bytes());
            let _ = read(text.as_bytes());
        }
    }
}
