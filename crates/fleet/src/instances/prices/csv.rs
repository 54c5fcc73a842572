//! Prices in CSV: Amazon's price list, and tables of the user.

use std::collections::HashMap;
use std::io::Read;

use super::amazon::Attributes;
use super::book::{Keep, PriceBook, PriceError, is_price};
use crate::records::{Fields, Records, TableError, TableFault, has_commas, named_twice};

/// How the first line of Amazon's price list begins, and the line with its columns.
const AMAZON: &str = "FormatVersion";
const AMAZON_COLUMNS: &str = "SKU";

pub(super) fn read(source: impl Read, book: &mut PriceBook) -> Result<(), PriceError> {
    let (mut records, mut fields) = (Records::new(source), Fields::default());
    if !records.next(&mut fields)? {
        return Err(TableError::Whole(TableFault::Empty("lines")).into());
    }
    if fields.get(0) != AMAZON && fields.get(0) != AMAZON_COLUMNS {
        return table(&mut records, &fields, book);
    }
    book.format("Amazon's price list, CSV");
    while fields.get(0) != AMAZON_COLUMNS {
        if fields.get(0) == "Publication Date" {
            book.date(fields.get(1));
        }
        if !records.next(&mut fields)? {
            return Err(TableError::Whole(TableFault::no_column(AMAZON_COLUMNS, &[AMAZON.to_owned()])).into());
        }
    }
    let columns: Vec<String> = fields.iter().map(str::to_owned).collect();
    let at = |name: &'static str| {
        let found = columns.iter().position(|column| column.eq_ignore_ascii_case(name));
        found.ok_or_else(|| PriceError::Table(TableError::Whole(TableFault::no_column(name, &columns))))
    };
    let [term, unit, amount, currency] = [at("TermType")?, at("Unit")?, at("PricePerUnit")?, at("Currency")?];
    let of_product = [at("Instance Type")?, at("Operating System")?, at("Tenancy")?];
    // Older lists lack these columns.
    let others = ["Region Code", "Location", "Pre Installed S/W", "CapacityStatus"].map(|name| at(name).ok());
    while records.next(&mut fields)? {
        let other = |nth: usize| others[nth].map_or("", |at| fields.get(at)).to_owned();
        let [instance_type, operating_system, tenancy] = of_product.map(|at| fields.get(at).to_owned());
        let [region_code, location, pre_installed_sw, capacitystatus] = [0, 1, 2, 3].map(other);
        let product = Attributes {
            instance_type,
            region_code,
            location,
            operating_system,
            tenancy,
            pre_installed_sw,
            capacitystatus,
        };
        let is_wanted =
            fields.get(term) == "OnDemand" && fields.get(unit) == "Hrs" && product.is_plain() && !book.wanted.is_spot;
        if let Some(per_hour) = fields.get(amount).parse().ok().filter(|_| is_wanted) {
            book.take((&product.instance_type, product.region()), per_hour, fields.get(currency), Keep::Lowest)?;
        }
    }
    Ok(())
}

/// A table of the user: `instance_type`, `usd_per_hour`, and optionally `region`.
fn table<R: Read>(records: &mut Records<R>, names: &Fields, book: &mut PriceBook) -> Result<(), PriceError> {
    const COLUMNS: [&str; 3] = ["instance_type", "usd_per_hour", "region"];
    has_commas(records, names)?;
    book.format("table, CSV");
    let names: Vec<String> = names.iter().map(str::to_lowercase).collect();
    if let Some(unknown) = names.iter().find(|name| !COLUMNS.contains(&name.as_str())) {
        return Err(records.fault(TableFault::unknown_column(unknown, &COLUMNS)).into());
    }
    if let Some(twice) = named_twice(&names) {
        return Err(records.fault(TableFault::Twice(twice.clone())).into());
    }
    let at = |name: &'static str| names.iter().position(|column| column == name);
    let needed = |name| at(name).ok_or_else(|| TableError::Whole(TableFault::no_column(name, &names)));
    let (instance_type, amount) = (needed("instance_type")?, needed("usd_per_hour")?);
    let mut fields = Fields::default();
    let mut seen: HashMap<(String, String), f64> = HashMap::new();
    while records.next(&mut fields)? {
        records.has_columns(&fields, names.len())?;
        let written = fields.get(amount);
        let per_hour = written.parse::<f64>().ok().filter(|usd| is_price(*usd)).ok_or_else(|| {
            records.fault(TableFault::value(
                "usd_per_hour",
                written,
                "a price of an hour in US dollars, above 0 and below 1000000",
            ))
        })?;
        let region = at("region").map_or("", |at| fields.get(at));
        let name = fields.get(instance_type);
        book.note_unknown(name);
        if book
            .is_wanted(name, if region.is_empty() { book.wanted.region.as_deref().unwrap_or_default() } else { region })
            && seen.insert((name.to_owned(), region.to_owned()), per_hour).is_some_and(|before| before != per_hour)
        {
            let place = if region.is_empty() { name.to_owned() } else { format!("{name} in {region}") };
            return Err(records.fault(TableFault::Twice(place)).into());
        }
        // A row without a region applies to every region.
        let wanted = book.wanted.region.clone().unwrap_or_default();
        let region = if region.is_empty() { &wanted } else { region };
        book.take((fields.get(instance_type), region), per_hour, "USD", Keep::Lowest)?;
    }
    Ok(())
}
