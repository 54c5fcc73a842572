//! Azure's retail prices (`api/retail/prices`).

use serde::Deserialize;

use super::book::{Keep, PriceBook, PriceError};

/// The used fields of a price.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Item {
    currency_code: String,
    retail_price: f64,
    arm_region_name: String,
    effective_start_date: String,
    effective_end_date: String,
    meter_name: String,
    product_name: String,
    sku_name: String,
    service_name: String,
    unit_of_measure: String,
    #[serde(rename = "type")]
    kind: String,
    arm_sku_name: String,
}

/// Takes the price of a Linux machine if it is a price per hour.
pub(super) fn take(item: Item, book: &mut PriceBook) -> Result<(), PriceError> {
    let is_spot = item.sku_name.ends_with("Spot") || item.meter_name.ends_with("Spot");
    let is_plain = item.service_name == "Virtual Machines"
        && item.kind == "Consumption"
        && item.unit_of_measure == "1 Hour"
        && !item.product_name.contains("Windows")
        && !item.product_name.contains("Cloud Services")
        && !item.sku_name.ends_with("Low Priority")
        && !item.meter_name.ends_with("Low Priority");
    if !is_plain || is_spot != book.wanted.is_spot || !book.is_wanted(&item.arm_sku_name, &item.arm_region_name) {
        return Ok(());
    }
    book.date(&item.effective_start_date);
    let at = (item.arm_sku_name.as_str(), item.arm_region_name.as_str());
    let (start, end) = (&item.effective_start_date, &item.effective_end_date);
    // A list with earlier prices has several prices for one type and region. All dates have one format, so they sort as their texts do.
    if book.is_outdated(at, start, end) {
        return Ok(());
    }
    book.take(at, item.retail_price, &item.currency_code, Keep::Last)
}
