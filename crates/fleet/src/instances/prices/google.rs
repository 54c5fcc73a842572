//! Google's SKUs (Cloud Billing Catalog API): a machine costs what its CPUs and its memory cost.

use serde::Deserialize;

use super::book::{PriceBook, PriceError};

/// The used fields of a SKU.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Sku {
    description: String,
    category: Category,
    service_regions: Vec<String>,
    pricing_info: Vec<PricingInfo>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Category {
    resource_family: String,
    usage_type: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct PricingInfo {
    effective_time: String,
    pricing_expression: Expression,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Expression {
    usage_unit: String,
    tiered_rates: Vec<Rate>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Rate {
    unit_price: Money,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Money {
    currency_code: String,
    units: Units,
    nanos: i64,
}

/// The whole units of an amount. The API writes them as text.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum Units {
    Text(String),
    Number(f64),
}

impl Default for Units {
    fn default() -> Units {
        Units::Number(0.0)
    }
}

impl Money {
    fn amount(&self) -> Option<f64> {
        let units = match &self.units {
            Units::Text(text) => text.parse().ok()?,
            Units::Number(number) => *number,
        };
        Some(units + self.nanos as f64 / 1e9)
    }
}

/// The subject of a SKU's price: a family such as `n2`, and its CPUs or its memory.
fn part(description: &str) -> Option<(String, bool)> {
    let words = description.strip_prefix("Spot Preemptible ").unwrap_or(description);
    let (what, _) = words.split_once(" running in ")?;
    let (family, is_vcpu) = match (what.strip_suffix(" Instance Core"), what.strip_suffix(" Instance Ram")) {
        (Some(family), _) => (family, true),
        (_, Some(family)) => (family, false),
        _ => return None,
    };
    // In `N2D AMD` and `N1 Predefined` only the first word counts; `N2 Custom` and `N2 Sole Tenancy` are other machines.
    let mut words = family.split(' ');
    let name = words.next()?.to_lowercase();
    let is_plain = words.all(|word| ["AMD", "Arm", "Predefined"].contains(&word));
    is_plain.then_some((name, is_vcpu))
}

/// Takes the price of CPUs or memory of a family.
pub(super) fn take(sku: Sku, book: &mut PriceBook) -> Result<(), PriceError> {
    let usage = if book.wanted.is_spot { "Preemptible" } else { "OnDemand" };
    if sku.category.resource_family != "Compute" || sku.category.usage_type != usage {
        return Ok(());
    }
    let (Some((family, is_vcpu)), Some(info)) = (part(&sku.description), sku.pricing_info.last()) else {
        return Ok(());
    };
    let expression = &info.pricing_expression;
    let Some(price) = expression.tiered_rates.last().map(|rate| &rate.unit_price) else { return Ok(()) };
    let is_hourly = expression.usage_unit == if is_vcpu { "h" } else { "GiBy.h" };
    let Some(amount) = price.amount().filter(|_| is_hourly) else { return Ok(()) };
    book.date(&info.effective_time);
    for region in &sku.service_regions {
        book.take_part((&family, region), is_vcpu, amount, &price.currency_code)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_description_says_what_the_price_is_of() {
        let table = [
            ("N2 Instance Core running in Americas", Some(("n2".to_owned(), true))),
            ("Spot Preemptible N2D AMD Instance Ram running in Virginia", Some(("n2d".to_owned(), false))),
            ("N1 Predefined Instance Core running in Finland", Some(("n1".to_owned(), true))),
            ("N2 Custom Instance Core running in Americas", None),
            ("N2 Sole Tenancy Instance Core running in Americas", None),
            ("Storage PD Capacity in Finland", None),
            ("", None),
        ];
        for (description, expected) in table {
            assert_eq!(part(description), expected, "{description}");
        }
    }
}
