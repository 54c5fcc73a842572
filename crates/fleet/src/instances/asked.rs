//! The question to `evenkeel instances`.

use evenkeel_host::catalogue::Instance;

use crate::pack::LOAD_MAX;

/// The question about instance types.
#[derive(Clone, Debug, PartialEq)]
pub struct InstancesAsked {
    /// If not empty, the answer has only types of these clouds.
    pub clouds: Vec<String>,
    /// If set, only types with a price in this region.
    pub region: Option<String>,
    /// If set, only types of this architecture.
    pub architecture: Option<Architecture>,
    /// Whether burstable types are left out.
    pub is_burst_excluded: bool,
    /// Whether to use spot prices, for capacity that the cloud may take back.
    pub is_spot: bool,
    /// The minimum number of sessions that an instance has to hold.
    pub sessions_min: u32,
    /// The maximum load of a CPU, as a share of the CPU.
    pub load_max: f64,
    /// How much work the second thread of a core adds, as a share of the first.
    pub second_thread_share: f64,
    /// The type on which the sessions were measured.
    pub measured_on: Option<Instance>,
}

impl Default for InstancesAsked {
    fn default() -> InstancesAsked {
        InstancesAsked {
            clouds: Vec::new(),
            region: None,
            architecture: None,
            is_burst_excluded: false,
            is_spot: false,
            sessions_min: 1,
            load_max: LOAD_MAX,
            second_thread_share: 0.0,
            measured_on: None,
        }
    }
}

/// The architecture of a processor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub enum Architecture {
    /// AMD and Intel.
    #[serde(rename = "x86_64")]
    X86,
    /// Graviton, Ampere and others.
    #[serde(rename = "arm64")]
    Arm,
}

impl Architecture {
    /// Derives it from the name of the type, by the rules that each cloud documents for its names.
    ///
    /// Amazon's Graviton families are `a1`, and those with a `g` after the generation's number; Azure's have a `p` after the number of CPUs;
    /// Google's Arm families are `t2a` and those with an `a` after the generation's number.
    pub fn from_type(name: &str) -> Architecture {
        let after_number = |text: &str| -> String {
            text.chars().skip_while(|letter| !letter.is_ascii_digit()).skip_while(char::is_ascii_digit).collect()
        };
        let is_arm = if let Some(size) = name.strip_prefix("Standard_") {
            after_number(size).split('_').next().unwrap_or_default().contains('p')
        } else if let Some((family, _)) = name.split_once('.') {
            family == "a1" || after_number(family).starts_with('g')
        } else {
            let family = name.split('-').next().unwrap_or_default();
            after_number(family) == "a"
        };
        if is_arm { Architecture::Arm } else { Architecture::X86 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_architecture_follows_from_the_name() {
        let arm = [
            "a1.large",
            "t4g.nano",
            "c7gn.xlarge",
            "m8g.large",
            "Standard_B2pts_v2",
            "Standard_D4pds_v5",
            "t2a-standard-1",
            "c4a-highmem-8",
        ];
        let x86 = [
            "g4dn.xlarge",
            "c5.large",
            "m5zn.large",
            "c7i.metal-24xl",
            "Standard_D4as_v5",
            "n2d-standard-8",
            "c3-highcpu-4",
            "e2-micro",
        ];
        assert!(arm.iter().all(|name| Architecture::from_type(name) == Architecture::Arm));
        assert!(x86.iter().all(|name| Architecture::from_type(name) == Architecture::X86));
    }
}
