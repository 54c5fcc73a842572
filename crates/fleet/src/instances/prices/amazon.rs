//! Amazon's price list (`AmazonEC2` of the price list service:
//! the offer file, or the answer of `get-products`) and the history of its spot prices (`describe-spot-price-history`).

use std::collections::{BTreeMap, HashMap};
use std::fmt;

use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, Visitor};

use super::book::{Keep, NAME_BYTES_MAX, PriceBook, PriceError, is_price};

/// The maximum number of stored products. A type has one product in each region.
const PRODUCTS_MAX: usize = 200_000;
/// The maximum number of stored prices: one for each type in each zone.
const ZONES_MAX: usize = 500_000;

/// An error that ends the parser. The reason is in `refused`.
pub(super) fn stop<E: serde::de::Error>() -> E {
    E::custom("refused")
}

/// The used fields of a product.
#[derive(Debug, Deserialize)]
struct Product {
    #[serde(default)]
    attributes: Attributes,
}

/// The attributes of a product, with the names of the JSON price list. The CSV has the same attributes under other names.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Attributes {
    pub(super) instance_type: String,
    pub(super) region_code: String,
    pub(super) location: String,
    pub(super) operating_system: String,
    pub(super) tenancy: String,
    pub(super) pre_installed_sw: String,
    /// `Used` means capacity that is paid for while it runs, without a reservation.
    pub(super) capacitystatus: String,
}

impl Attributes {
    /// Whether the product is a Linux machine without additional software, on shared hosts.
    pub(super) fn is_plain(&self) -> bool {
        self.operating_system == "Linux"
            && self.tenancy == "Shared"
            && matches!(self.pre_installed_sw.as_str(), "NA" | "")
            && matches!(self.capacitystatus.as_str(), "Used" | "")
    }

    pub(super) fn region(&self) -> &str {
        if self.region_code.is_empty() { &self.location } else { &self.region_code }
    }
}

/// The wanted products: the type and the region of each SKU.
pub(super) struct Products {
    skus: HashMap<String, (String, String)>,
}

/// Reads the products.
pub(super) struct ReadProducts<'a> {
    book: &'a PriceBook,
}

impl Products {
    pub(super) fn seed(book: &PriceBook) -> ReadProducts<'_> {
        ReadProducts { book }
    }
}

impl<'de> DeserializeSeed<'de> for ReadProducts<'_> {
    type Value = Products;

    fn deserialize<D: Deserializer<'de>>(self, parser: D) -> Result<Products, D::Error> {
        parser.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for ReadProducts<'_> {
    type Value = Products;

    fn expecting(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str("products by SKU")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Products, A::Error> {
        let mut skus = HashMap::new();
        while let Some((sku, product)) = map.next_entry::<String, Product>()? {
            let attributes = product.attributes;
            let is_wanted =
                attributes.is_plain() && self.book.is_wanted(&attributes.instance_type, attributes.region());
            if is_wanted && skus.len() < PRODUCTS_MAX && sku.len() <= NAME_BYTES_MAX {
                let region = attributes.region().to_owned();
                skus.insert(sku, (attributes.instance_type, region));
            }
        }
        Ok(Products { skus })
    }
}

/// Reads the terms of the wanted products.
pub(super) struct Terms<'a> {
    pub(super) products: &'a Products,
    pub(super) book: &'a mut PriceBook,
    pub(super) refused: &'a mut Option<PriceError>,
}

impl<'de> DeserializeSeed<'de> for Terms<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, parser: D) -> Result<(), D::Error> {
        parser.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for Terms<'_> {
    type Value = ();

    fn expecting(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str("terms: OnDemand and others")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let Terms { products, book, refused } = self;
        while let Some(name) = map.next_key::<String>()? {
            if name == "OnDemand" && !book.wanted.is_spot {
                map.next_value_seed(OnDemand(Terms { products, book: &mut *book, refused: &mut *refused }))?;
            } else {
                map.next_value::<IgnoredAny>()?;
            }
        }
        Ok(())
    }
}

/// Terms by SKU.
struct OnDemand<'a>(Terms<'a>);

/// A term of a SKU.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Term {
    #[serde(default)]
    price_dimensions: BTreeMap<String, Dimension>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Dimension {
    #[serde(default)]
    unit: String,
    #[serde(default)]
    price_per_unit: BTreeMap<String, String>,
}

impl<'de> DeserializeSeed<'de> for OnDemand<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, parser: D) -> Result<(), D::Error> {
        parser.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for OnDemand<'_> {
    type Value = ();

    fn expecting(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str("terms by SKU")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let Terms { products, book, refused } = self.0;
        while let Some(sku) = map.next_key::<String>()? {
            let Some((instance_type, region)) = products.skus.get(&sku) else {
                map.next_value::<IgnoredAny>()?;
                continue;
            };
            let terms = map.next_value::<BTreeMap<String, Term>>()?;
            if let Err(error) = take_terms(&terms, (instance_type, region), book) {
                *refused = Some(error);
                return Err(stop());
            }
        }
        Ok(())
    }
}

/// Takes the prices for an hour.
fn take_terms(terms: &BTreeMap<String, Term>, at: (&str, &str), book: &mut PriceBook) -> Result<(), PriceError> {
    for dimension in terms.values().flat_map(|term| term.price_dimensions.values()) {
        let Some((currency, amount)) = dimension.price_per_unit.iter().next() else { continue };
        let Some(per_hour) = amount.parse().ok().filter(|_| dimension.unit == "Hrs") else { continue };
        book.take(at, per_hour, currency, Keep::Lowest)?;
    }
    Ok(())
}

/// A product with its terms, as a member of the list of `aws pricing get-products`.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Listed {
    product: Product,
    #[serde(default)]
    terms: ListedTerms,
    #[serde(default)]
    publication_date: String,
}

#[derive(Default, Deserialize)]
struct ListedTerms {
    #[serde(rename = "OnDemand", default)]
    on_demand: BTreeMap<String, Term>,
}

/// Takes a member of the list of `aws pricing get-products`: a text that is JSON itself.
pub(super) fn take_listed(text: String, book: &mut PriceBook) -> Result<(), PriceError> {
    let Listed { product, terms, publication_date } = serde_json::from_str(&text)?;
    let attributes = product.attributes;
    let at = (attributes.instance_type.as_str(), attributes.region());
    if book.wanted.is_spot || !attributes.is_plain() || !book.is_wanted(at.0, at.1) {
        return Ok(());
    }
    book.date(&publication_date);
    take_terms(&terms.on_demand, at, book)
}

/// A price of the spot price history.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(super) struct SpotPrice {
    instance_type: String,
    spot_price: String,
    availability_zone: String,
    #[serde(default)]
    product_description: String,
    #[serde(default)]
    timestamp: String,
}

/// The prices of a file with spot prices: for each type and zone, the newest time.
#[derive(Debug, Default)]
pub(super) struct Zones {
    newest: BTreeMap<(String, String), String>,
}

impl Zones {
    /// Adds a price. The book has the newest price of each zone, also of earlier files: a history of one region may be several files.
    pub(super) fn add(&mut self, one: SpotPrice, book: &mut PriceBook) -> Result<(), PriceError> {
        let is_linux = one.product_description.starts_with("Linux") || one.product_description.is_empty();
        if !book.wanted.is_spot || !is_linux {
            return Ok(());
        }
        // A name that is not wanted takes no memory, however long it is.
        let zone = one.availability_zone.as_str();
        if zone.len() > NAME_BYTES_MAX
            || one.timestamp.len() > NAME_BYTES_MAX
            || !book.is_wanted(&one.instance_type, region_of(zone))
        {
            return Ok(());
        }
        let Some(price) = one.spot_price.parse().ok().filter(|price| is_price(*price)) else { return Ok(()) };
        if book.zones.len() >= ZONES_MAX {
            return Err(PriceError::TooManyPlaces);
        }
        let at = (one.instance_type, one.availability_zone);
        // All times have one format, so they sort as their texts do.
        let entry = book.zones.entry(at.clone()).or_insert((String::new(), price));
        if one.timestamp >= entry.0 {
            *entry = (one.timestamp.clone(), price);
        }
        let newest = self.newest.entry(at).or_default();
        if *newest < one.timestamp {
            *newest = one.timestamp;
        }
        Ok(())
    }

    /// Adds the prices to the book.
    /// The price of a region is the highest price of its zones, so that no zone costs more than the report says.
    pub(super) fn finish(self, book: &mut PriceBook) -> Result<(), PriceError> {
        let mut regions: BTreeMap<(String, String), usize> = BTreeMap::new();
        for ((instance_type, zone), time) in self.newest {
            book.date(&time);
            *regions.entry((instance_type, region_of(&zone).to_owned())).or_default() += 1;
        }
        let mut highest: BTreeMap<(String, String), f64> = BTreeMap::new();
        for ((instance_type, zone), (_, price)) in &book.zones {
            let at = (instance_type.clone(), region_of(zone).to_owned());
            if regions.contains_key(&at) {
                let price_of_region = highest.entry(at).or_default();
                *price_of_region = price_of_region.max(*price);
            }
        }
        for ((instance_type, region), price) in highest {
            // The history does not name its currency. Amazon charges in yuan for its regions in China, and in US dollars elsewhere.
            let currency = if region.starts_with("cn-") { "CNY" } else { "USD" };
            book.take((&instance_type, &region), price, currency, Keep::Last)?;
        }
        // Each zone has a price.
        book.file().prices += regions.values().sum::<usize>().saturating_sub(regions.len());
        Ok(())
    }
}

/// The region of a zone: `us-east-1` for `us-east-1a`.
fn region_of(zone: &str) -> &str {
    zone.trim_end_matches(|letter: char| letter.is_ascii_lowercase())
}
