//! Each format, with files made after the clouds' documents, and with misleading files.

use std::io::{self, Read};

use evenkeel_host::catalogue;
use proptest::prelude::*;

use super::*;

const AMAZON: &str = r#"{"formatVersion":"v1.0","disclaimer":"…","offerCode":"AmazonEC2","publicationDate":"2026-11-20T10:00:00Z",
"products":{
 "AAA":{"sku":"AAA","productFamily":"Compute Instance","attributes":{"instanceType":"c5.xlarge","regionCode":"us-east-1","operatingSystem":"Linux","tenancy":"Shared","preInstalledSw":"NA","capacitystatus":"Used","vcpu":"4"}},
 "BBB":{"sku":"BBB","attributes":{"instanceType":"c5.xlarge","regionCode":"us-east-1","operatingSystem":"Windows","tenancy":"Shared","preInstalledSw":"NA","capacitystatus":"Used"}},
 "CCC":{"sku":"CCC","attributes":{"instanceType":"c5.xlarge","regionCode":"us-east-1","operatingSystem":"Linux","tenancy":"Dedicated","preInstalledSw":"NA","capacitystatus":"Used"}},
 "DDD":{"sku":"DDD","attributes":{"volumeType":"gp3"}}},
"terms":{"OnDemand":{
  "AAA":{"AAA.JRTCKXETXF":{"offerTermCode":"JRTCKXETXF","sku":"AAA","priceDimensions":{"AAA.JRTCKXETXF.6YS6EN2CT7":{"unit":"Hrs","pricePerUnit":{"USD":"0.1700000000"}}},"termAttributes":{}}},
  "BBB":{"x":{"priceDimensions":{"y":{"unit":"Hrs","pricePerUnit":{"USD":"0.05"}}}}}},
 "Reserved":{"AAA":{"z":{"priceDimensions":{"y":{"unit":"Hrs","pricePerUnit":{"USD":"0.01"}}}}}}},
"attributesList":{}}"#;

const AMAZON_CSV: &str = "\"FormatVersion\",\"v1.0\"\n\"Disclaimer\",\"…\"\n\"Publication Date\",\"2026-11-20T10:00:00Z\"\n\"Version\",\"1\"\n\"OfferCode\",\"AmazonEC2\"\n\"SKU\",\"OfferTermCode\",\"TermType\",\"Unit\",\"PricePerUnit\",\"Currency\",\"Instance Type\",\"Tenancy\",\"Operating System\",\"Region Code\",\"CapacityStatus\",\"Pre Installed S/W\"\n\"AAA\",\"J\",\"OnDemand\",\"Hrs\",\"0.1700000000\",\"USD\",\"c5.xlarge\",\"Shared\",\"Linux\",\"us-east-1\",\"Used\",\"NA\"\n\"AAA\",\"J\",\"Reserved\",\"Hrs\",\"0.01\",\"USD\",\"c5.xlarge\",\"Shared\",\"Linux\",\"us-east-1\",\"Used\",\"NA\"\n";

const AZURE: &str = r#"{"BillingCurrency":"USD","CustomerEntityId":"Default","Items":[
 {"currencyCode":"USD","tierMinimumUnits":0.0,"retailPrice":0.192,"unitPrice":0.192,"armRegionName":"westeurope","effectiveStartDate":"2026-10-01T00:00:00Z","meterName":"D4s v5","productName":"Virtual Machines Dsv5 Series","skuName":"D4s v5","serviceName":"Virtual Machines","unitOfMeasure":"1 Hour","type":"Consumption","armSkuName":"Standard_D4s_v5"},
 {"currencyCode":"USD","retailPrice":0.03,"armRegionName":"westeurope","meterName":"D4s v5 Spot","productName":"Virtual Machines Dsv5 Series","skuName":"D4s v5 Spot","serviceName":"Virtual Machines","unitOfMeasure":"1 Hour","type":"Consumption","armSkuName":"Standard_D4s_v5"},
 {"currencyCode":"USD","retailPrice":0.376,"armRegionName":"westeurope","meterName":"D4s v5","productName":"Virtual Machines Dsv5 Series Windows","skuName":"D4s v5","serviceName":"Virtual Machines","unitOfMeasure":"1 Hour","type":"Consumption","armSkuName":"Standard_D4s_v5"}],
"NextPageLink":null,"Count":3}"#;

const GOOGLE: &str = r#"{"skus":[
 {"name":"services/6F81/skus/1","description":"N2 Instance Core running in Americas","category":{"resourceFamily":"Compute","resourceGroup":"CPU","usageType":"OnDemand"},"serviceRegions":["us-central1"],"pricingInfo":[{"effectiveTime":"2026-11-01T00:00:00Z","pricingExpression":{"usageUnit":"h","tieredRates":[{"startUsageAmount":0,"unitPrice":{"currencyCode":"USD","units":"0","nanos":31611000}}]}}]},
 {"description":"N2 Instance Ram running in Americas","category":{"resourceFamily":"Compute","usageType":"OnDemand"},"serviceRegions":["us-central1"],"pricingInfo":[{"pricingExpression":{"usageUnit":"GiBy.h","tieredRates":[{"unitPrice":{"currencyCode":"USD","units":"0","nanos":4237000}}]}}]}]}"#;

const SPOT: &str = r#"{"SpotPriceHistory":[
 {"AvailabilityZone":"us-east-1a","InstanceType":"c5.xlarge","ProductDescription":"Linux/UNIX","SpotPrice":"0.0700","Timestamp":"2026-11-25T10:00:00+00:00"},
 {"AvailabilityZone":"us-east-1a","InstanceType":"c5.xlarge","ProductDescription":"Linux/UNIX","SpotPrice":"0.9","Timestamp":"2026-11-24T10:00:00+00:00"},
 {"AvailabilityZone":"us-east-1b","InstanceType":"c5.xlarge","ProductDescription":"Linux/UNIX","SpotPrice":"0.0800","Timestamp":"2026-11-25T09:00:00+00:00"},
 {"AvailabilityZone":"us-east-1b","InstanceType":"c5.xlarge","ProductDescription":"Windows","SpotPrice":"0.2","Timestamp":"2026-11-25T09:00:00+00:00"}]}"#;

fn book(is_spot: bool, text: &str) -> Result<PriceBook, String> {
    let mut book = PriceBook::new(PricesWanted { is_spot, ..PricesWanted::default() });
    let read = book.add("file", text.as_bytes()).and_then(|()| book.refuse_empty());
    read.map(|()| book).map_err(|error| error.to_string())
}

/// An item of Azure's list, with these texts in place of the usual ones.
fn azure_item(changes: &[(&str, &str)]) -> String {
    let item = r#"{"currencyCode":"USD","retailPrice":0.2,"armRegionName":"westeurope","effectiveStartDate":"2025-02-01T00:00:00Z","meterName":"D4s v5","productName":"Virtual Machines Dsv5 Series","skuName":"D4s v5","serviceName":"Virtual Machines","unitOfMeasure":"1 Hour","type":"Consumption","armSkuName":"Standard_D4s_v5"}"#;
    changes.iter().fold(item.to_owned(), |item, (from, to)| {
        assert!(item.contains(from), "{from}");
        item.replace(from, to)
    })
}

fn azure_page(items: &[String], next: &str) -> String {
    format!("{{\"Items\":[{}],\"NextPageLink\":{next}}}", items.join(","))
}

fn price_of(book: &PriceBook, name: &str) -> f64 {
    book.price(&catalogue::instance(name).unwrap()).unwrap().per_hour
}

fn price(is_spot: bool, text: &str, name: &str) -> (f64, Option<String>) {
    let found = book(is_spot, text).unwrap().price(&catalogue::instance(name).unwrap()).unwrap();
    (found.per_hour, found.region)
}

#[test]
fn each_cloud_has_its_own_format() {
    let at = |region: &str| Some(region.to_owned());
    assert_eq!(price(false, AMAZON, "c5.xlarge"), (0.17, at("us-east-1")));
    assert_eq!(price(false, AMAZON_CSV, "c5.xlarge"), (0.17, at("us-east-1")));
    assert_eq!(price(false, AZURE, "Standard_D4s_v5"), (0.192, at("westeurope")));
    assert_eq!(price(true, AZURE, "Standard_D4s_v5"), (0.03, at("westeurope")));
    let (n2, region) = price(false, GOOGLE, "n2-standard-8");
    assert!((n2 - (8.0 * 0.031611 + 32.0 * 0.004237)).abs() < 1e-12 && region == at("us-central1"));
    // The highest of the newest prices of all zones.
    assert_eq!(price(true, SPOT, "c5.xlarge"), (0.08, at("us-east-1")));
    let files: Vec<String> = [AMAZON, AMAZON_CSV, AZURE, GOOGLE]
        .iter()
        .map(|text| format!("{:?}", book(false, text).unwrap().files()[0].date))
        .collect();
    assert_eq!(files.join(" ").matches("2026-").count(), 4, "{files:?}");
    let undated = GOOGLE.replace(r#""effectiveTime":"2026-11-01T00:00:00Z","#, "");
    assert_eq!(book(false, &undated).unwrap().files()[0].date, None);
}

/// The answer of `aws pricing get-products`: each member is a text that is JSON itself.
#[test]
fn the_answer_of_get_products_is_a_price_list() {
    let product = |system: &str, usd: &str| {
        let text = format!(
            r#"{{"product":{{"productFamily":"Compute Instance","attributes":{{"instanceType":"c5.xlarge","regionCode":"us-east-1","operatingSystem":"{system}","tenancy":"Shared","preInstalledSw":"NA","capacitystatus":"Used"}},"sku":"A"}},"serviceCode":"AmazonEC2","terms":{{"OnDemand":{{"A.J":{{"priceDimensions":{{"A.J.6":{{"unit":"Hrs","pricePerUnit":{{"USD":"{usd}"}}}}}}}}}},"Reserved":{{"A.Z":{{"priceDimensions":{{"x":{{"unit":"Hrs","pricePerUnit":{{"USD":"0.01"}}}}}}}}}}}},"version":"1","publicationDate":"2026-11-20T10:00:00Z"}}"#
        );
        serde_json::to_string(&text).unwrap()
    };
    let list = format!(
        r#"{{"FormatVersion":"aws_v1","PriceList":[{},{}]}}"#,
        product("Windows", "0.354"),
        product("Linux", "0.1700000000")
    );
    assert_eq!(price(false, &list, "c5.xlarge"), (0.17, Some("us-east-1".to_owned())));
    assert!(book(true, &list).is_err());
    assert!(book(false, r#"{"PriceList":["{"]}"#).unwrap_err().contains("EOF"));
}

#[test]
fn what_is_no_file_of_prices_is_refused_with_the_reason() {
    let cases = [
        (r#"{"a":1}"#, "it has no known list of prices"),
        ("[1,2]", "invalid type: sequence, expected an object with prices at line 1 column"),
        (r#"{"terms":{"OnDemand":{}},"products":{}}"#, "its terms come before its products"),
        ("{\"Items\":[\n{\"retailPrice\":\"x\"}]}", "at line 2 column"),
        (r#"{"Items":[]}"#, "it has no price of a type in the catalogue for on demand"),
        (SPOT, "it has no price of a type in the catalogue for on demand"),
        ("instance_type,eur_per_hour\n", "line 1: no column is called \"eur_per_hour\""),
        ("instance_type,usd_per_hour\nc5.large,-1\n", "line 2: column \"usd_per_hour\": \"-1\" is not a price"),
        ("instance_type,usd_per_hour\nc5.large,nan\n", "line 2: column \"usd_per_hour\": \"nan\" is not a price"),
        ("instance_type;usd_per_hour\n", "line 1: its columns are separated by semicolons"),
        ("instance_type,usd_per_hour,USD_per_hour\nc5.large,1,2\n", "line 1: \"usd_per_hour\" stands twice"),
        ("instance_type,usd_per_hour\nc5.large\n", "line 2: 1 column, and the first line has 2"),
        ("", "it has no lines"),
    ];
    for (text, expected) in cases {
        let found = book(false, text).unwrap_err();
        assert!(found.contains(expected), "{text}: {found}");
    }
    let deep = format!("{{\"x\":{}", "[".repeat(100_000));
    assert!(book(false, &deep).unwrap_err().contains("nested more than 100 deep"));
}

#[test]
fn a_string_without_an_end_takes_no_memory() {
    let mut book = PriceBook::new(PricesWanted::default());
    let endless = Read::chain(&b"{\"x\": \""[..], io::repeat(b'a'));
    let refused = book.add("endless", endless).unwrap_err().to_string();
    assert!(refused.contains("a string is longer than 1 MiB"), "{refused}");
}

/// The parser keeps the details of one product in memory.
#[test]
fn details_without_an_end_take_no_memory() {
    for start in [
        r#"{"skus":[{"serviceRegions":["a""#,
        r#"{"products":{"A":{"attributes":{"operatingSystem":"Linux","tenancy":"Shared","instanceType":"c5.xlarge","regionCode":"x"}}},"terms":{"OnDemand":{"A":{"t":{"priceDimensions":{"d":{"pricePerUnit":{"USD":"1""#,
    ] {
        let piece: &[u8] = if start.contains("skus") { b",\"a\"" } else { b",\"a\":\"b\"" };
        let mut book = PriceBook::new(PricesWanted::default());
        let text = [start.as_bytes(), &piece.repeat((20 << 20) / piece.len())].concat();
        let refused = book.add("endless", &text[..]).unwrap_err().to_string();
        assert!(refused.contains("longer than 16 MiB"), "{refused}");
    }
}

#[test]
fn a_price_of_one_place_is_one_price() {
    let refused = book(false, "instance_type,usd_per_hour,region\nc5.large,0.1,x\nc5.large,0.2,y\nc5.large,0.09,x\n");
    assert_eq!(refused.unwrap_err(), "line 4: \"c5.large in x\" stands twice");
    assert!(book(false, "instance_type,usd_per_hour\nc5.large,0.1\nc5.large,0.1\n").is_ok());
}

/// Azure's lists may have earlier and later prices, before or after today's, on one page or on several.
#[test]
fn of_several_prices_the_one_that_began_last_counts() {
    let began =
        |usd: &str, dates: &str| azure_item(&[("0.2", usd), (r#""effectiveStartDate":"2025-02-01T00:00:00Z""#, dates)]);
    let old = began("0.1", r#""effectiveStartDate":"2024-01-01T00:00:00Z","effectiveEndDate":"2025-01-31T23:59:00Z""#);
    let oldest = began("0.3", r#""effectiveStartDate":"2023-01-01T00:00:00Z""#);
    let future = began("0.4", r#""effectiveStartDate":"2027-01-01T00:00:00Z""#);
    let free = began("0", r#""effectiveStartDate":"2026-01-01T00:00:00Z""#);
    let new = azure_item(&[]);
    let wanted = || PricesWanted { at: Some("2026-11-30T05:00:00Z".to_owned()), ..PricesWanted::default() };
    let lists = [[&old, &new, &oldest, &future, &free], [&free, &future, &new, &old, &oldest]];
    for list in lists {
        let (mut together, mut apart) = (PriceBook::new(wanted()), PriceBook::new(wanted()));
        together.add("all", azure_page(&list.map(String::clone), "null").as_bytes()).unwrap();
        for item in list {
            apart.add("page", azure_page(std::slice::from_ref(item), "\"https://next\"").as_bytes()).unwrap();
        }
        assert_eq!(price_of(&together, "Standard_D4s_v5"), 0.2, "{list:?}");
        assert_eq!(price_of(&apart, "Standard_D4s_v5"), 0.2, "{list:?}");
    }
}

/// Azure sells the same size as other products, of which some began later and cost about twice as much.
#[test]
fn other_products_of_a_size_are_left_out() {
    let item = |changes: &[(&str, &str)]| azure_item(&[&[("0.2", "0.376"), ("2025", "2026")][..], changes].concat());
    for changes in [
        ("Dsv5 Series", "Dsv5 Series Windows"),
        ("Virtual Machines Dsv5 Series", "Dsv5 Series CloudServices"),
        ("Virtual Machines Dsv5 Series", "Dsv5 Series Cloud Services"),
        ("\"skuName\":\"D4s v5\"", "\"skuName\":\"D4s v5 Low Priority\""),
        ("Consumption", "Reservation"),
        ("Consumption", "DevTestConsumption"),
    ] {
        let list = azure_page(&[azure_item(&[]), item(&[changes])], "null");
        assert_eq!(price(false, &list, "Standard_D4s_v5").0, 0.2, "{changes:?}");
    }
}

/// A long list is cut into pages, and a page may have no wanted price.
#[test]
fn pages_are_one_list() {
    let windows = azure_item(&[("Dsv5 Series", "Dsv5 Series Windows")]);
    let pages = [
        azure_page(&[windows], "\"https://prices.azure.com/api/retail/prices?$skip=1000\""),
        azure_page(&[azure_item(&[])], "null"),
    ];
    let mut book = PriceBook::new(PricesWanted::default());
    book.add("1.json", pages[0].as_bytes()).unwrap();
    assert!(matches!(book.refuse_empty(), Err(PriceError::NoPrices("on demand"))));
    book.add("2.json", pages[1].as_bytes()).unwrap();
    book.refuse_empty().unwrap();
    assert_eq!((price_of(&book, "Standard_D4s_v5"), book.caveats()), (0.2, Vec::new()));
    let found: Vec<(usize, bool)> = book.files().iter().map(|file| (file.prices, file.is_continued)).collect();
    assert_eq!(found, [(0, true), (1, false)]);
    // Only the first page was given.
    for (text, format) in [
        (AZURE.replace("null", "\"https://next\""), "Azure's retail prices"),
        (GOOGLE.replace("{\"skus\"", "{\"nextPageToken\":\"x\",\"skus\""), "Google's SKUs"),
    ] {
        let caveats = self::book(false, &text).unwrap().caveats();
        assert!(caveats.len() == 1 && caveats[0].starts_with(format), "{caveats:?}");
    }
    let mut both = self::book(false, AZURE).unwrap();
    both.add("google.json", br#"{"skus":[],"nextPageToken":""}"#.as_slice()).unwrap();
    assert_eq!(both.caveats(), ["without a price of a type in the catalogue: google.json"]);
}

/// The user's own price counts, although the prices of CPUs and memory give another one.
#[test]
fn a_later_file_replaces_an_earlier_one() {
    let own = |row: &str, text: &str| {
        let mut both = book(false, text).unwrap();
        both.add("own", format!("instance_type,usd_per_hour,region\n{row}\n").as_bytes()).unwrap();
        both
    };
    assert_eq!(price_of(&own("n2-standard-8,9,us-central1", GOOGLE), "n2-standard-8"), 9.0);
    assert_eq!(price_of(&own("n2-standard-8,9,", GOOGLE), "n2-standard-8"), 9.0);
    assert_eq!(price_of(&own("c5.xlarge,9,", AMAZON), "c5.xlarge"), 9.0);
    assert_eq!(price_of(&own("c5.xlarge,9,eu-west-1", AMAZON), "c5.xlarge"), 0.17, "another region");
    let mut both = book(false, "instance_type,usd_per_hour\nn2-standard-8,9\nz9.huge,1\n").unwrap();
    assert_eq!(both.caveats(), ["the catalogue does not have z9.huge: their prices were not used"]);
    both.add("google", GOOGLE.as_bytes()).unwrap();
    assert!(price_of(&both, "n2-standard-8") < 1.0);
}

/// Amazon charges in yuan for its regions in China.
#[test]
fn spot_prices_have_the_currency_of_their_region() {
    let china = book(true, &SPOT.replace("us-east-1", "cn-north-1")).unwrap();
    assert_eq!((china.currency(), price_of(&china, "c5.xlarge")), (Some("CNY"), 0.08));
    let long = SPOT.replace("us-east-1a", &"a".repeat(10_000));
    assert_eq!(price_of(&book(true, &long).unwrap(), "c5.xlarge"), 0.08);
}

/// A long history is several files: some have other zones, others have earlier days.
#[test]
fn spot_prices_of_one_region_may_be_in_several_files() {
    let file = |rows: &[(&str, &str, &str)]| {
        let row = |(zone, price, time): &(&str, &str, &str)| {
            format!(
                r#"{{"InstanceType":"c5.xlarge","SpotPrice":"{price}","AvailabilityZone":"{zone}","ProductDescription":"Linux/UNIX","Timestamp":"{time}"}}"#
            )
        };
        format!(r#"{{"SpotPriceHistory":[{}]}}"#, rows.iter().map(row).collect::<Vec<_>>().join(","))
    };
    let price_of_files = |files: &[String]| {
        let mut book = PriceBook::new(PricesWanted { is_spot: true, ..PricesWanted::default() });
        for (at, text) in files.iter().enumerate() {
            book.add(&format!("page {at}"), text.as_bytes()).unwrap();
        }
        assert!(book.files().iter().all(|file| file.prices == 1), "{:?}", book.files());
        price_of(&book, "c5.xlarge")
    };
    let first = file(&[("us-east-1a", "0.09", "2026-11-26T10:00:00Z")]);
    let other_zone = file(&[("us-east-1b", "0.07", "2026-11-26T09:00:00Z")]);
    for files in [[first.clone(), other_zone.clone()], [other_zone.clone(), first.clone()]] {
        assert_eq!(price_of_files(&files), 0.09, "the highest of the zones");
    }
    let earlier = file(&[("us-east-1a", "0.30", "2026-11-20T10:00:00Z")]);
    for files in [[first.clone(), earlier.clone()], [earlier, first.clone()]] {
        assert_eq!(price_of_files(&files), 0.09, "the newest of a zone");
    }
    // The user's own price comes last, and counts.
    let mut book = PriceBook::new(PricesWanted { is_spot: true, ..PricesWanted::default() });
    for text in [first.as_str(), other_zone.as_str(), "instance_type,usd_per_hour\nc5.xlarge,0.05\n"] {
        book.add("file", text.as_bytes()).unwrap();
    }
    assert_eq!(price_of(&book, "c5.xlarge"), 0.05);
}

#[test]
fn a_byte_order_mark_is_no_part_of_a_file() {
    for text in [AMAZON, AMAZON_CSV, AZURE] {
        assert!(book(false, &format!("\u{feff}{text}")).is_ok(), "{text}");
    }
}

#[test]
fn two_currencies_are_not_compared() {
    let mut both = book(false, AZURE).unwrap();
    let euros = AZURE.replace("USD", "EUR");
    let refused = both.add("euros", euros.as_bytes()).unwrap_err().to_string();
    assert_eq!(refused, "its prices are in EUR, and those before it in USD");
}

#[test]
fn only_the_region_that_is_wanted_is_kept() {
    let wanted = PricesWanted { region: Some("eu-west-1".to_owned()), ..PricesWanted::default() };
    let mut book = PriceBook::new(wanted);
    book.add("amazon", AMAZON.as_bytes()).unwrap();
    assert!(matches!(book.refuse_empty(), Err(PriceError::NoPrices(_))));
    book.add("own", "instance_type,usd_per_hour\nc5.xlarge,0.2\n".as_bytes()).unwrap();
    let found = book.price(&catalogue::instance("c5.xlarge").unwrap()).unwrap();
    assert_eq!((found.per_hour, found.file.as_str()), (0.2, "own"));
}

proptest! {
    /// A file with one changed byte gives an answer or an error, and never a panic.
    #[test]
    fn a_changed_file_is_no_panic(which in 0..5_usize, at in 0..4000_usize, byte: u8, cut: bool) {
        let mut text = [AMAZON, AMAZON_CSV, AZURE, GOOGLE, SPOT][which].as_bytes().to_vec();
        let at = at % text.len();
        text[at] = byte;
        if cut {
            text.truncate(at);
        }
        for is_spot in [false, true] {
            let mut book = PriceBook::new(PricesWanted { is_spot, ..PricesWanted::default() });
            let _ = book.add("changed", &text[..]);
        }
    }
}
