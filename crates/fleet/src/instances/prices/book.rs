//! The book of prices: by type and region, from several files.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::io;

use evenkeel_host::catalogue::{self, Instance, Kind};
use serde::Serialize;

use crate::records::TableError;

/// The maximum number of regions, zones and price areas of all files.
const PLACES_MAX: usize = 5_000;
/// The maximum length of a name from a price file, in bytes.
pub(super) const NAME_BYTES_MAX: usize = 200;
/// How many unknown types and files a caveat names.
const NAMED_MAX: usize = 5;

/// Why a file of prices can't be used. The message continues a sentence that begins with "failed to read FILE: ".
#[derive(Debug, thiserror::Error)]
pub enum PriceError {
    /// The kernel refused to read on.
    #[error("{0}")]
    Read(#[from] io::Error),
    /// A table can't be read.
    #[error(transparent)]
    Table(#[from] TableError),
    /// The file is not valid JSON, or does not have the structure of a price file. The message gives the line.
    #[error("{0}")]
    Json(#[from] serde_json::Error),
    /// The file is valid JSON, but has no price list.
    #[error(
        "it has no known list of prices: neither products and terms, nor PriceList, Items, skus or SpotPriceHistory"
    )]
    NoList,
    /// The file lists terms before the products that they refer to.
    #[error("its terms come before its products, so evenkeel cannot match the two")]
    TermsFirst,
    /// The prices of two files are in different currencies, so they cannot be compared.
    #[error("its prices are in {found}, and those before it in {before}")]
    Currencies {
        /// The currency of this file.
        found: String,
        /// The currency of the earlier files.
        before: String,
    },
    /// The files have more regions, zones and price areas than all clouds together.
    #[error("more than {PLACES_MAX} regions")]
    TooManyPlaces,
    /// The file has no price that is wanted.
    #[error("it has no price of a type in the catalogue for {0}")]
    NoPrices(&'static str),
}

/// Which prices are wanted.
#[derive(Clone, Debug, Default)]
pub struct PricesWanted {
    /// Whether the prices are for capacity that the cloud may take back.
    pub is_spot: bool,
    /// If set, only the prices of this region.
    pub region: Option<String>,
    /// If set, only prices that have begun at this time, such as `2026-11-30T05:00:00Z`. Azure lists prices before they begin.
    pub at: Option<String>,
}

/// A file that prices came from.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PriceFile {
    /// The file's name, as the user gave it.
    pub file: String,
    /// The file's format, in words.
    pub format: &'static str,
    /// The date of the file. If the file has none, the latest date of its prices.
    pub date: Option<String>,
    /// How many prices were taken from it.
    pub prices: usize,
    /// Whether the file is a page of a list that goes on in another file.
    #[cfg_attr(feature = "schema", schemars(extend("x-since" = "0.1.0")))]
    pub is_continued: bool,
}

/// The price of an instance in a region.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Price {
    /// The region, as the cloud names it; `null` if the file does not name a region.
    pub region: Option<String>,
    /// The price for an hour, in the currency of the answer.
    pub per_hour: f64,
    /// The file with the price.
    pub file: String,
}

/// Prices by type and region.
#[derive(Debug, Default)]
pub struct PriceBook {
    pub(super) wanted: PricesWanted,
    pub(super) files: Vec<PriceFile>,
    currency: Option<String>,
    known: HashSet<String>,
    by_type: BTreeMap<(String, String), (f64, usize)>,
    /// For Azure, by type and region: whether the latest price has no end, and when it began.
    since: HashMap<(String, String), (bool, String)>,
    /// For Amazon's spot prices: the newest price of each type in each zone, with its time.
    pub(super) zones: HashMap<(String, String), (String, f64)>,
    /// For Google: the price of a CPU and of a GiB of memory, by family and region.
    parts: HashMap<(String, String), Parts>,
    /// Types in tables of the user that the catalogue does not have, and how many more there are than it stores.
    unknown: BTreeSet<String>,
    unknown_more: bool,
}

#[derive(Clone, Copy, Debug, Default)]
struct Parts {
    vcpu: Option<f64>,
    gib: Option<f64>,
    file: usize,
}

impl PriceBook {
    /// An empty book.
    pub fn new(wanted: PricesWanted) -> PriceBook {
        let clouds = ["aws", "azure", "google"];
        let known = clouds.iter().flat_map(|cloud| catalogue::instances(cloud)).map(|instance| instance.name).collect();
        PriceBook { wanted, known, ..PriceBook::default() }
    }

    /// Whether the book has no file.
    pub fn is_empty(&self) -> bool {
        self.files.is_empty()
    }

    /// The files of the book.
    pub fn files(&self) -> &[PriceFile] {
        &self.files
    }

    /// The currency of all prices.
    pub fn currency(&self) -> Option<&str> {
        self.currency.as_deref()
    }

    /// Refuses a book whose files have no wanted price at all. The error is about the first file.
    ///
    /// # Errors
    /// If there are files, and none of them has a price.
    pub fn refuse_empty(&self) -> Result<(), PriceError> {
        match !self.files.is_empty() && self.files.iter().all(|file| file.prices == 0) {
            true => Err(PriceError::NoPrices(if self.wanted.is_spot { "spot" } else { "on demand" })),
            false => Ok(()),
        }
    }

    /// What to consider before the prices are used.
    pub(in super::super) fn caveats(&self) -> Vec<String> {
        let mut caveats = Vec::new();
        let formats: BTreeSet<&str> = self.files.iter().map(|file| file.format).collect();
        for format in formats {
            let mut of_format = self.files.iter().filter(|file| file.format == format);
            // Only the last page of a list does not name a next page. With several lists, some pages may still be missing.
            if of_format.all(|file| file.is_continued) {
                caveats.push(format!(
                    "{format}: the list goes on in further pages, so prices are missing; name every page"
                ));
            }
        }
        // Some pages of a list have no wanted price.
        let has_prices = |format: &str| self.files.iter().any(|file| file.format == format && file.prices > 0);
        let without: Vec<&str> =
            self.files.iter().filter(|file| !has_prices(file.format)).map(|file| file.file.as_str()).collect();
        if !without.is_empty() {
            let more = if without.len() > NAMED_MAX { ", …" } else { "" };
            let named = without.iter().take(NAMED_MAX).copied().collect::<Vec<_>>().join(", ");
            caveats.push(format!("without a price of a type in the catalogue: {named}{more}"));
        }
        if !self.unknown.is_empty() {
            let more = if self.unknown_more { ", …" } else { "" };
            let named = self.unknown.iter().map(String::as_str).collect::<Vec<_>>().join(", ");
            caveats.push(format!("the catalogue does not have {named}{more}: their prices were not used"));
        }
        caveats
    }

    /// Begins a file.
    pub(super) fn begin(&mut self, name: &str) {
        let file = PriceFile { file: name.to_owned(), format: "", date: None, prices: 0, is_continued: false };
        self.files.push(file);
    }

    pub(super) fn file(&mut self) -> &mut PriceFile {
        if self.files.is_empty() {
            self.begin("");
        }
        let last = self.files.len() - 1;
        &mut self.files[last]
    }

    /// Whether the catalogue has the type and the user wants the region.
    pub(super) fn is_wanted(&self, instance_type: &str, region: &str) -> bool {
        self.known.contains(instance_type) && self.is_region(region)
    }

    /// Remembers a type of the user's table that the catalogue does not have.
    pub(super) fn note_unknown(&mut self, instance_type: &str) {
        if self.known.contains(instance_type) || self.unknown.contains(instance_type) {
            return;
        }
        match self.unknown.len() < NAMED_MAX {
            true => drop(self.unknown.insert(instance_type.chars().take(NAME_BYTES_MAX).collect())),
            false => self.unknown_more = true,
        }
    }

    pub(super) fn is_region(&self, region: &str) -> bool {
        region.len() <= NAME_BYTES_MAX && self.wanted.region.as_ref().is_none_or(|wanted| wanted == region)
    }

    /// Keeps the later of the two dates.
    pub(super) fn date(&mut self, date: &str) {
        if !date.is_empty() && date.len() <= NAME_BYTES_MAX && self.file().date.as_deref() < Some(date) {
            self.file().date = Some(date.to_owned());
        }
    }

    pub(super) fn format(&mut self, format: &'static str) {
        self.file().format = format;
    }

    /// Adds a price if it is valid and wanted. `keep` chooses between two prices of one type and region.
    pub(super) fn take(
        &mut self,
        at: (&str, &str),
        per_hour: f64,
        currency: &str,
        keep: Keep,
    ) -> Result<(), PriceError> {
        if !is_price(per_hour) || !self.is_wanted(at.0, at.1) {
            return Ok(());
        }
        self.in_currency(currency)?;
        if self.by_type.len() >= PLACES_MAX * 20 {
            return Err(PriceError::TooManyPlaces);
        }
        let file = self.files.len() - 1;
        let entry = self.by_type.entry((at.0.to_owned(), at.1.to_owned())).or_insert((per_hour, file));
        entry.0 = match keep {
            // A price of a later file replaces the price of an earlier file.
            _ if entry.1 != file => per_hour,
            Keep::Lowest => entry.0.min(per_hour),
            Keep::Last => per_hour,
        };
        entry.1 = file;
        self.file().prices += 1;
        Ok(())
    }

    /// Whether a price that begins at `start` and ends at `end` is not the latest of this type and region.
    /// If it is the latest, it is stored as such. A price without an end is later than one with an end.
    /// The pages of a list are several files, so the dates decide, and not the order of the files.
    pub(super) fn is_outdated(&mut self, at: (&str, &str), start: &str, end: &str) -> bool {
        let this = (end.is_empty(), start.chars().take(NAME_BYTES_MAX).collect::<String>());
        let place = (at.0.to_owned(), at.1.to_owned());
        let is_outdated = self.since.get(&place).is_some_and(|latest| *latest > this);
        if !is_outdated && self.since.len() < PLACES_MAX * 20 {
            self.since.insert(place, this);
        }
        is_outdated
    }

    fn in_currency(&mut self, currency: &str) -> Result<(), PriceError> {
        match &self.currency {
            None => self.currency = Some(currency.chars().take(NAME_BYTES_MAX).collect()),
            Some(before) if before == currency => {}
            Some(before) => {
                let (found, before) = (currency.chars().take(NAME_BYTES_MAX).collect(), before.clone());
                return Err(PriceError::Currencies { found, before });
            }
        }
        Ok(())
    }

    /// Adds the price of a CPU or of a GiB of memory of a family.
    pub(super) fn take_part(
        &mut self,
        at: (&str, &str),
        is_vcpu: bool,
        per_hour: f64,
        currency: &str,
    ) -> Result<(), PriceError> {
        if !is_price(per_hour) || !self.is_region(at.1) || at.0.len() > NAME_BYTES_MAX {
            return Ok(());
        }
        self.in_currency(currency)?;
        if self.parts.len() >= PLACES_MAX * 20 {
            return Err(PriceError::TooManyPlaces);
        }
        let file = self.files.len() - 1;
        let parts = self.parts.entry((at.0.to_owned(), at.1.to_owned())).or_default();
        parts.file = file;
        *(if is_vcpu { &mut parts.vcpu } else { &mut parts.gib }) = Some(per_hour);
        self.file().prices += 1;
        Ok(())
    }

    /// The lowest price of a type, in the requested region, or in any.
    /// A price of a later file replaces those of earlier files in its region; a price without a region replaces them in every region.
    pub fn price(&self, instance: &Instance) -> Option<Price> {
        let start = (instance.name.clone(), String::new());
        let own = self.by_type.range(start..).take_while(|((name, _), _)| *name == instance.name);
        let own = own.map(|((_, region), (per_hour, file))| (region.clone(), *per_hour, *file));
        let all: Vec<(String, f64, usize)> = own.chain(self.by_parts(instance)).collect();
        let mut latest: HashMap<&str, usize> = HashMap::new();
        for (region, _, file) in &all {
            let last = latest.entry(region).or_insert(*file);
            *last = (*last).max(*file);
        }
        let is_replaced = |(region, _, file): &(String, f64, usize)| {
            [region.as_str(), ""].iter().any(|region| latest.get(region).is_some_and(|last| last > file))
        };
        let lowest = all.iter().filter(|one| !is_replaced(one)).min_by(|a, b| a.1.total_cmp(&b.1))?.clone();
        let region = (!lowest.0.is_empty()).then_some(lowest.0);
        Some(Price { region, per_hour: lowest.1, file: self.files.get(lowest.2)?.file.clone() })
    }

    /// The prices of a Google type, computed from the prices of its CPUs and of its memory.
    fn by_parts(&self, instance: &Instance) -> Vec<(String, f64, usize)> {
        // Types with a shared core have their own prices.
        let is_shared = instance.figure(Kind::BaselinePercentPerVcpu).is_some();
        let sizes = instance.number(Kind::Vcpus).zip(instance.number(Kind::MemoryGib)).filter(|_| !is_shared);
        let (Some((vcpus, gib)), Some((family, _))) = (sizes, instance.name.split_once('-')) else { return Vec::new() };
        let of_family = self.parts.iter().filter(|((name, _), _)| name == family);
        let priced = of_family.filter_map(|((_, region), parts)| {
            Some((region.clone(), parts.vcpu? * vcpus + parts.gib? * gib, parts.file))
        });
        priced.collect()
    }
}

/// Chooses between two prices of one type and region.
#[derive(Clone, Copy, Debug)]
pub(super) enum Keep {
    Lowest,
    /// The one that is added last.
    Last,
}

pub(super) fn is_price(per_hour: f64) -> bool {
    per_hour > 0.0 && per_hour < 1e6
}
