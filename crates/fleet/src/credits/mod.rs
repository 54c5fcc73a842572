//! Forecasts when the CPU credits of a burstable instance run out under a server's load, the cost of continuing,
//! and the types that would not run out.

mod asked;
mod forecast;
mod repeat;
mod trace;

use evenkeel_host::catalogue::{self, Instance, Kind};
use evenkeel_host::credits::{CreditMode, CreditRates};
use serde::Serialize;

pub use asked::{CreditsAsked, CreditsError, StartCredits};
pub use forecast::Forecast;
pub use trace::{StoredTime, Trace, read_trace};

use crate::instances::Architecture;

/// Steal below this share can also come from other guests.
const STEAL_SHARE_MIN: f64 = 0.02;
/// Shorter gaps of a store are not reported.
const GAP_S_MIN: f64 = 600.0;
/// A trace shorter than this lacks an evening or a night.
const DAY_S: f64 = 86_400.0;

/// The answer.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CreditsReport {
    /// The CPU use.
    pub load: Load,
    /// The mode of the instance: the mode that the user named, or the cloud's default.
    pub mode: CreditMode,
    /// The forecast in standard mode: without credits, the instance is limited to its baseline.
    pub standard: Forecast,
    /// The forecast in unlimited mode: without credits, more CPU time is charged. `null` if the cloud does not offer that.
    pub unlimited: Option<Forecast>,
    /// Types of the same cloud whose credits are enough for the whole load, those with the lowest baseline first.
    pub enough: Vec<Forecast>,
    /// What to consider before you use the answer.
    pub caveats: Vec<String>,
}

/// A summary of a trace.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Load {
    /// How long it was observed, in seconds.
    pub seconds: f64,
    /// The CPUs in use, on average.
    pub cpus_mean: f64,
    /// The maximum number of CPUs in use.
    pub cpus_max: f64,
    /// The share of CPU time that the hypervisor gave to others; `null` if that was not observed.
    pub steal_share: Option<f64>,
}

/// A limit of the answer.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
enum Caveat {
    #[error(
        "the hypervisor gave {:.1} % of the CPU time to others while the load was observed: the credits may have run out already, and the \
         server may want more than it got",
        .0 * 100.0
    )]
    Steal(f64),
    #[error("the load was observed for less than a day, and is repeated: an evening may differ")]
    ShortTrace,
    #[error("{:.1} h of the store are left out, because the machine booted between two samples", .0 / 3600.0)]
    LeftOut(f64),
    #[error("for {:.1} h of the store, only the mean CPU use is known, because its samples are more than 10 minutes apart", .0 / 3600.0)]
    Coarse(f64),
    #[error("the balance at the start was taken as full; --credits takes what the cloud's monitoring shows")]
    StartAssumed,
    #[error("{instance_type} has {vcpus} CPU{}, and the load has up to {cpus_max:.2}", if *.vcpus == 1 { "" } else { "s" })]
    TooFewCpus { instance_type: String, vcpus: u32, cpus_max: f64 },
    #[error("CPUs of other types are not as fast as those of {0}: what was measured on one differs on another")]
    OtherCpus(String),
    #[error(
        "some of the types have processors of another architecture than {0} (Arm or x86_64): the server has to be built for it"
    )]
    OtherArchitecture(String),
    #[error("no document says what {0} costs beyond its credits; --surplus-usd takes the price")]
    NoPrice(String),
    #[error("prices are those of Linux in one region of the source; yours may differ")]
    PriceOfOneRegion,
}

/// Forecasts the credits of the instance, and the credits of other types of its cloud.
///
/// # Errors
/// If the type is unknown, or has no credits, or has no mode of that name.
pub fn forecast(trace: &Trace, asked: &CreditsAsked) -> Result<CreditsReport, CreditsError> {
    let name = &asked.instance_type;
    let instance = catalogue::instance(name).ok_or_else(|| CreditsError::UnknownType(name.clone()))?;
    let rates = rates(&instance)?;
    let mode = match (asked.mode, rates.can_be_unlimited) {
        (Some(CreditMode::Unlimited), false) => return Err(CreditsError::NotUnlimited(name.clone())),
        (Some(mode), _) => mode,
        (None, _) => rates.usual_mode(),
    };
    if let StartCredits::Number(credits) = asked.start
        && credits > rates.credits_max()
    {
        return Err(CreditsError::TooMany { name: name.clone(), credits, max: rates.credits_max() });
    }
    let in_mode = |instance: &Instance, mode| {
        let mut found = forecast::forecast(instance, mode, asked.start, trace, asked.days)?;
        if let Some(usd) = asked.surplus_usd_per_vcpu_hour {
            found.surplus_usd = Some(usd * found.surplus_vcpu_hours);
        }
        Some(found)
    };
    let no_credits = || CreditsError::NoCredits(name.clone());
    let standard = in_mode(&instance, CreditMode::Standard).ok_or_else(no_credits)?;
    let unlimited = rates.can_be_unlimited.then(|| in_mode(&instance, CreditMode::Unlimited)).flatten();
    let enough = enough(&instance, trace, asked, |other| in_mode(other, CreditMode::Standard));
    let load = Load {
        seconds: trace.seconds(),
        cpus_mean: trace.cpus_mean(),
        cpus_max: trace.cpus_max(),
        steal_share: trace.steal_share,
    };
    let mut report = CreditsReport { load, mode, standard, unlimited, enough, caveats: Vec::new() };
    report.caveats = caveats(&report, trace, asked).iter().map(ToString::to_string).collect();
    Ok(report)
}

/// The rates of a type.
///
/// # Errors
/// If the type has no credits, or no document has its rates.
pub fn rates(instance: &Instance) -> Result<CreditRates, CreditsError> {
    let name = instance.name.clone();
    CreditRates::from_instance(instance).ok_or_else(|| {
        let baseline = instance.number(Kind::BaselinePercentPerVcpu).zip(instance.number(Kind::Vcpus));
        match baseline.map(|(percent, vcpus)| percent * vcpus / 100.0) {
            Some(baseline_cpus) => CreditsError::Undocumented { name, baseline_cpus },
            None => CreditsError::NoCredits(name),
        }
    })
}

/// The types of the same cloud whose credits are enough for the whole load.
fn enough(
    instance: &Instance,
    trace: &Trace,
    asked: &CreditsAsked,
    forecast: impl Fn(&Instance) -> Option<Forecast>,
) -> Vec<Forecast> {
    let has_memory = |other: &Instance| {
        let memory = other.number(Kind::MemoryGib);
        asked.memory_gib.is_none_or(|least| memory.is_some_and(|memory| memory >= least))
    };
    let has_cpus = |other: &Instance| other.number(Kind::Vcpus).is_some_and(|vcpus| vcpus >= trace.cpus_max());
    let others = catalogue::instances(catalogue::cloud(&instance.name).unwrap_or_default());
    let mut enough: Vec<Forecast> = others
        .iter()
        .filter(|other| has_memory(other) && has_cpus(other))
        .filter_map(forecast)
        .filter(Forecast::is_enough)
        .collect();
    let order = |one: &Forecast| (one.baseline_cpus, one.memory_gib.unwrap_or(0.0));
    enough.sort_by(|a, b| order(a).partial_cmp(&order(b)).unwrap_or(std::cmp::Ordering::Equal));
    enough
}

fn caveats(report: &CreditsReport, trace: &Trace, asked: &CreditsAsked) -> Vec<Caveat> {
    let (name, load) = (&report.standard.instance_type, &report.load);
    let mut caveats = Vec::new();
    caveats.extend(load.steal_share.filter(|share| *share >= STEAL_SHARE_MIN).map(Caveat::Steal));
    if load.seconds < DAY_S {
        caveats.push(Caveat::ShortTrace);
    }
    let stored = trace.stored;
    caveats.extend(Some(stored.left_out_s).filter(|seconds| *seconds >= GAP_S_MIN).map(Caveat::LeftOut));
    caveats.extend(Some(stored.coarse_s).filter(|seconds| *seconds > 0.0).map(Caveat::Coarse));
    if asked.start == StartCredits::Full {
        caveats.push(Caveat::StartAssumed);
    }
    let vcpus = report.standard.rates.vcpus;
    if load.cpus_max > f64::from(vcpus) {
        caveats.push(Caveat::TooFewCpus { instance_type: name.clone(), vcpus, cpus_max: load.cpus_max });
    }
    if report.enough.iter().any(|other| other.instance_type != *name) {
        caveats.push(Caveat::OtherCpus(name.clone()));
    }
    let architecture = |one: &Forecast| Architecture::from_type(&one.instance_type);
    if report.enough.iter().any(|other| architecture(other) != architecture(&report.standard)) {
        caveats.push(Caveat::OtherArchitecture(name.clone()));
    }
    match &report.unlimited {
        Some(unlimited) if unlimited.surplus_usd.is_none() => caveats.push(Caveat::NoPrice(name.clone())),
        Some(unlimited) if unlimited.surplus_vcpu_hours > 0.0 && asked.surplus_usd_per_vcpu_hour.is_none() => {
            caveats.push(Caveat::PriceOfOneRegion);
        }
        _ => {}
    }
    caveats
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(name: &str) -> CreditsAsked {
        CreditsAsked {
            instance_type: name.to_owned(),
            mode: None,
            start: StartCredits::Full,
            days: 30.0,
            memory_gib: None,
            surplus_usd_per_vcpu_hour: None,
        }
    }

    fn steady(seconds: f64, cpus: f64) -> Trace {
        Trace::new([(seconds, cpus)]).unwrap()
    }

    fn names(report: &CreditsReport) -> Vec<&str> {
        report.enough.iter().map(|one| one.instance_type.as_str()).collect()
    }

    #[test]
    fn the_smallest_type_that_does_not_run_out_is_named() {
        let report = forecast(&steady(86_400.0, 0.7), &asked("t3.medium")).unwrap();
        assert_eq!(report.mode, CreditMode::Unlimited);
        assert!((report.standard.empty_after_s.unwrap() - 576.0 / 0.3 * 60.0).abs() < 1e-6);
        assert_eq!(names(&report)[..2], ["t2.xlarge", "t2.2xlarge"]);
        assert!(names(&report).contains(&"t3.xlarge") && !names(&report).contains(&"t3.large"));
        let with_memory = CreditsAsked { memory_gib: Some(32.0), ..asked("t3.medium") };
        let report = forecast(&steady(86_400.0, 0.7), &with_memory).unwrap();
        assert!(report.enough.iter().all(|one| one.memory_gib >= Some(32.0)) && !report.enough.is_empty());
    }

    #[test]
    fn a_type_of_another_architecture_is_a_caveat() {
        let caveats = |name: &str| forecast(&steady(86_400.0, 0.3), &asked(name)).unwrap().caveats.join("\n");
        assert!(caveats("t3.medium").contains("another architecture than t3.medium"));
        assert!(!caveats("Standard_B2s").contains("architecture"));
    }

    #[test]
    fn types_without_credits_are_errors_that_say_why() {
        let error = |name: &str| forecast(&steady(60.0, 0.1), &asked(name)).unwrap_err().to_string();
        assert_eq!(error("c5.large"), "c5.large has no CPU credits: it may use all of its CPUs for ever");
        assert_eq!(
            error("e2-small"),
            "e2-small has a baseline of 0.5 CPUs, and no document says for how long it may use more"
        );
        assert_eq!(error("z9.huge"), "the catalogue of instance types does not have \"z9.huge\"");
        let unlimited = CreditsAsked { mode: Some(CreditMode::Unlimited), ..asked("Standard_B2s") };
        let refused = forecast(&steady(60.0, 0.1), &unlimited).unwrap_err().to_string();
        assert_eq!(refused, "Standard_B2s has no unlimited mode: without credits it is held at its baseline");
    }

    #[test]
    fn a_price_that_no_document_has_is_a_caveat() {
        let report = forecast(&steady(86_400.0, 1.5), &asked("t4g.medium")).unwrap();
        assert!(report.unlimited.as_ref().unwrap().surplus_usd.is_none());
        assert!(report.caveats.iter().any(|caveat| caveat.contains("--surplus-usd")), "{:?}", report.caveats);
        let priced = CreditsAsked { surplus_usd_per_vcpu_hour: Some(0.04), ..asked("t4g.medium") };
        let report = forecast(&steady(86_400.0, 1.5), &priced).unwrap();
        assert!(report.unlimited.unwrap().surplus_usd.unwrap() > 0.0);
    }
}
