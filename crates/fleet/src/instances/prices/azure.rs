//! Azure's retail prices (`api/retail/prices`).

use serde::Deserialize;

use super::book::{Keep, PriceBook, PriceError, is_price};

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
    // The same machine has further products at other prices: "… Series Windows", "… Series Cloud Services" and "… Series CloudServices".
    let product = item.product_name.to_lowercase().replace(' ', "");
    let is_plain = item.service_name == "Virtual Machines"
        && item.kind == "Consumption"
        && item.unit_of_measure == "1 Hour"
        && !product.contains("windows")
        && !product.contains("cloudservices")
        && !item.sku_name.ends_with("Low Priority")
        && !item.meter_name.ends_with("Low Priority");
    // All dates have one format, so they sort as their texts do.
    let is_future = book.wanted.at.as_ref().is_some_and(|at| item.effective_start_date > *at);
    if !is_plain
        || is_future
        || !is_price(item.retail_price)
        || is_spot != book.wanted.is_spot
        || !book.is_wanted(&item.arm_sku_name, &item.arm_region_name)
    {
        return Ok(());
    }
    book.date(&item.effective_start_date);
    let at = (item.arm_sku_name.as_str(), item.arm_region_name.as_str());
    let (start, end) = (&item.effective_start_date, &item.effective_end_date);
    // A list with earlier prices has several prices for one type and region.
    if book.is_outdated(at, start, end) {
        return Ok(());
    }
    book.take(at, item.retail_price, &item.currency_code, Keep::Last)
}
