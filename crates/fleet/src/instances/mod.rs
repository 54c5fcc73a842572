//! Compares instance types for a measured need: how many sessions each holds by its documented figures, and what a session costs there.

mod asked;
mod cores;
mod fit;
mod mix;
mod prices;

use evenkeel_host::catalogue::{self, Instance, Kind};
use serde::Serialize;

pub use asked::{Architecture, InstancesAsked};
pub use fit::{Fit, Resource, Share, Unknown};
pub use prices::{Price, PriceBook, PriceError, PriceFile, PricesWanted};

use crate::sessions::Session;

/// Hours of a month: a year has 8,760.
const MONTH_HOURS: f64 = 730.0;
const CLOUDS: [&str; 3] = ["aws", "azure", "google"];

/// The answer.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct InstancesReport {
    /// The need.
    pub need: Vec<Session>,
    /// The price files that were read.
    pub prices: Vec<PriceFile>,
    /// The currency of all prices; `null` without prices.
    pub currency: Option<String>,
    /// Types that hold the sessions.
    /// First those with a price, by the cost of a session; then those without a price, well documented and small ones first.
    pub candidates: Vec<Candidate>,
    /// How many types hold fewer sessions than the requested number.
    pub too_small: usize,
    /// What to consider before you use the answer.
    pub caveats: Vec<String>,
}

/// An instance type for the need.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Candidate {
    /// The cloud's name of the type.
    pub instance_type: String,
    /// `aws`, `azure` or `google`.
    pub cloud: &'static str,
    /// The architecture, derived from the name of the type.
    pub architecture: Architecture,
    /// The number of CPUs.
    pub vcpus: u32,
    /// The memory in GiB; `null` if no document has it.
    pub memory_gib: Option<f64>,
    /// How many sessions fit, and what limits that.
    pub fit: Fit,
    /// The lowest price of the type; `null` if no file has a price.
    pub price: Option<Price>,
    /// The cost of a session for a month of 730 hours, if the instance is full; `null` without a price.
    pub session_per_month: Option<f64>,
    /// The documents that the figures are from, with their dates.
    pub sources: Vec<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
enum Caveat {
    #[error(
        "no type was measured: documents know neither how fast a CPU is nor how it is disturbed; measure the first candidates"
    )]
    Documents,
    #[error("no packets a second are documented, and the table has some: a network limit may come earlier")]
    Packets,
    #[error("the second thread of a core counts for nothing; --second-thread takes what you measured")]
    SecondThread,
    #[error("sessions differ: the number counts them in the proportions of the table, rounded to whole sessions")]
    Mix,
    #[error("no price was given; --prices FILE takes price lists of the clouds, or your own CSV")]
    NoPrices,
    #[error("the price files have no price of any of these types: are they of another cloud?")]
    PricesOfOthers,
    #[error("spot capacity may be taken back at any time, with its sessions")]
    Spot,
    #[error(
        "Google takes 20 to 30 % less for n1, n2 and n2d machines that run the whole month (sustained use); these prices are without it"
    )]
    SustainedUse,
}

/// The families for which Google documents discounts for sustained use.
const SUSTAINED_USE: [&str; 3] = ["n1", "n2", "n2d"];

/// Searches the catalogue for types that hold the sessions.
pub fn choose(sessions: &[Session], asked: &InstancesAsked, book: &PriceBook) -> InstancesReport {
    let clouds = CLOUDS.iter().filter(|cloud| asked.clouds.is_empty() || asked.clouds.iter().any(|one| one == *cloud));
    let all = clouds.flat_map(|cloud| catalogue::instances(cloud).into_iter().map(move |instance| (*cloud, instance)));
    let is_allowed = |instance: &Instance| {
        let is_burst = instance.figure(Kind::BaselinePercentPerVcpu).is_some();
        !(asked.is_burst_excluded && is_burst)
            && asked.architecture.is_none_or(|wanted| Architecture::from_type(&instance.name) == wanted)
    };
    let mut fitter = fit::Fitter::new(sessions, asked);
    let (mut candidates, mut too_small) = (Vec::new(), 0);
    for (cloud, instance) in all.filter(|(_, instance)| is_allowed(instance)) {
        match candidate(cloud, &instance, &mut fitter, book) {
            Some(found) if found.fit.sessions >= asked.sessions_min.max(1) => candidates.push(found),
            _ => too_small += 1,
        }
    }
    // With a region and prices, drop types without a price: they may not exist in that region.
    if asked.region.is_some() && !book.is_empty() {
        candidates.retain(|one| one.price.is_some());
    }
    candidates.sort_by(|a, b| {
        let cost = |one: &Candidate| one.session_per_month.unwrap_or(f64::INFINITY);
        let unchecked = |one: &Candidate| one.fit.unchecked().count();
        cost(a)
            .total_cmp(&cost(b))
            .then_with(|| unchecked(a).cmp(&unchecked(b)))
            .then(a.vcpus.cmp(&b.vcpus))
            .then_with(|| a.instance_type.cmp(&b.instance_type))
    });
    let caveats = caveats(sessions, asked, book, &candidates);
    InstancesReport {
        need: sessions.to_vec(),
        prices: book.files().to_vec(),
        currency: book.currency().map(str::to_owned),
        candidates,
        too_small,
        caveats: caveats.iter().map(ToString::to_string).chain(book.caveats()).collect(),
    }
}

fn candidate(
    cloud: &'static str,
    instance: &Instance,
    fitter: &mut fit::Fitter<'_>,
    book: &PriceBook,
) -> Option<Candidate> {
    let fit = fitter.fit(instance)?;
    let price = book.price(instance);
    let used = [
        Kind::Vcpus,
        Kind::ThreadsPerCore,
        Kind::MemoryGib,
        Kind::NetworkMbpsBaseline,
        Kind::ClockGhzSustained,
        Kind::CreditsPerHour,
    ];
    let of_used = instance.figures.iter().filter(|figure| used.contains(&figure.figure));
    let mut sources: Vec<String> =
        of_used.map(|figure| format!("{} ({})", figure.source.title, figure.source.date)).collect();
    sources.sort();
    sources.dedup();
    let session_per_month =
        price.as_ref().filter(|_| fit.sessions > 0).map(|price| price.per_hour * MONTH_HOURS / f64::from(fit.sessions));
    Some(Candidate {
        instance_type: instance.name.clone(),
        cloud,
        architecture: Architecture::from_type(&instance.name),
        vcpus: instance.number(Kind::Vcpus)? as u32,
        memory_gib: instance.number(Kind::MemoryGib),
        fit,
        price,
        session_per_month,
        sources,
    })
}

fn caveats(sessions: &[Session], asked: &InstancesAsked, book: &PriceBook, candidates: &[Candidate]) -> Vec<Caveat> {
    let family = |one: &Candidate| one.instance_type.split('-').next().unwrap_or_default().to_owned();
    let is_sustained =
        |one: &Candidate| one.cloud == "google" && one.price.is_some() && SUSTAINED_USE.contains(&family(one).as_str());
    let conditions = [
        (Caveat::Documents, !candidates.is_empty()),
        (Caveat::Packets, sessions.iter().any(|one| one.packets_per_s.is_some())),
        (Caveat::SecondThread, asked.second_thread_share == 0.0),
        (Caveat::Mix, sessions.len() > 1),
        (Caveat::NoPrices, book.is_empty()),
        (Caveat::PricesOfOthers, !book.is_empty() && candidates.iter().all(|one| one.price.is_none())),
        (Caveat::Spot, asked.is_spot),
        (Caveat::SustainedUse, !asked.is_spot && candidates.iter().any(is_sustained)),
    ];
    conditions.into_iter().filter_map(|(caveat, applies)| applies.then_some(caveat)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sessions(table: &str) -> Vec<Session> {
        crate::sessions::read_sessions(table.as_bytes()).unwrap()
    }

    fn book(table: &str) -> PriceBook {
        let mut book = PriceBook::new(PricesWanted::default());
        book.add("prices.csv", table.as_bytes()).unwrap();
        book
    }

    #[test]
    fn the_lowest_cost_of_a_session_comes_first() {
        let need = sessions("cpus,memory_mib\n0.2,600\n");
        let book = book(
            "instance_type,usd_per_hour,region\nc5.xlarge,0.17,us-east-1\nc5.4xlarge,0.68,us-east-1\nc6g.xlarge,0.136,us-east-1\nc6g.xlarge,0.15,eu-west-1\nnew.type,0.01,us-east-1\n",
        );
        let report = choose(&need, &InstancesAsked::default(), &book);
        let first: Vec<(&str, u32)> =
            report.candidates.iter().take(3).map(|one| (one.instance_type.as_str(), one.fit.sessions)).collect();
        assert_eq!(first, [("c6g.xlarge", 9), ("c5.4xlarge", 24), ("c5.xlarge", 4)]);
        let best = &report.candidates[0];
        assert_eq!(best.price.as_ref().unwrap().region.as_deref(), Some("us-east-1"));
        assert!((best.session_per_month.unwrap() - 0.136 * 730.0 / 9.0).abs() < 1e-9);
        assert!(report.candidates[3].price.is_none() && best.fit.limit == Resource::Cpu);
        assert_eq!((report.currency.as_deref(), report.prices[0].prices), (Some("USD"), 4));
    }

    #[test]
    fn prices_of_other_types_have_a_caveat() {
        let book = book("instance_type,usd_per_hour,region\nc5.xlarge,0.17,us-east-1\n");
        let of = |cloud: &str| {
            let asked = InstancesAsked { clouds: vec![cloud.to_owned()], ..InstancesAsked::default() };
            choose(&sessions("cpus\n0.2\n"), &asked, &book).caveats.join("; ")
        };
        assert!(of("google").contains("no price of any of these types") && !of("aws").contains("no price of any"));
    }

    /// Among types without a price, those whose network rate is documented come first. Many small types have no documented sustained rate.
    #[test]
    fn without_prices_a_type_that_was_checked_comes_first() {
        let report =
            choose(&sessions("cpus,network_mbps\n0.1,900\n"), &InstancesAsked::default(), &PriceBook::default());
        let first = &report.candidates[0];
        assert!(first.fit.unchecked().next().is_none(), "{first:?}");
        assert!(
            report.candidates.iter().any(|one| one.fit.unchecked().eq([Unknown::Network]) && one.vcpus <= first.vcpus)
        );
    }

    #[test]
    fn constraints_leave_types_out() {
        let need = sessions("cpus\n0.2\n");
        let names = |asked: &InstancesAsked| -> Vec<String> {
            let report = choose(&need, asked, &PriceBook::default());
            report.candidates.into_iter().map(|one| one.instance_type).collect()
        };
        let arm = InstancesAsked {
            architecture: Some(Architecture::Arm),
            is_burst_excluded: true,
            ..InstancesAsked::default()
        };
        let found = names(&arm);
        assert!(
            found.contains(&"c7g.large".to_owned()) && !found.iter().any(|name| name.starts_with('t')),
            "{found:?}"
        );
        let azure = InstancesAsked { clouds: vec!["azure".to_owned()], sessions_min: 60, ..InstancesAsked::default() };
        let found = names(&azure);
        assert!(!found.is_empty() && found.iter().all(|name| name.starts_with("Standard_")), "{found:?}");
    }

    #[test]
    fn what_fits_nowhere_has_no_candidates() {
        let report = choose(&sessions("cpus\n5000\n"), &InstancesAsked::default(), &PriceBook::default());
        assert!(report.candidates.is_empty() && report.too_small > 500);
    }
}
