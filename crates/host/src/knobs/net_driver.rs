//! Whether a network device's driver is recent enough.

use crate::extras::Extras;
use crate::facts::{Facts, Nic};
use crate::finding::{Finding, own};
use crate::goal::AdviceContext;
use crate::knob::{Area, Device, Knob, Place, Source, TakesEffect, Values};
use crate::shapes::each_interface;

/// A driver with the minimum version that matters, and the reason.
const LEAST: [(&str, [u32; 3], &str); 2] = [
    ("ixgbevf", [2, 14, 2], "the minimum that Amazon requires"),
    ("ena", [2, 2, 9], "the minimum for ENA Express and the third generation of the card"),
];

pub(super) const KNOB: Knob = Knob {
    id: "net.driver",
    title: "the driver of a network device",
    area: Area::Network,
    place: Place::ByHandEach {
        device: Device::Interface,
        how: "install a {} driver for {device}, from its vendor or with a new kernel",
    },
    values: Values::Words(&["newer"]),
    default: "the one in the kernel",
    takes_effect: TakesEffect::Reboot,
    mechanism: "Hardware vendors publish their own drivers, and each kernel includes one as well. A vendor's driver reports \
        its own version. A driver of a kernel from 5.6 on (from memory) reports the kernel's release. That says \
        nothing about a driver version, so evenkeel does not compare it with one.",
    risk: "if a driver does not load, the machine has no network: have a console, and an image to go back to",
    shows_in: "`ethtool -i`",
    kernels: "all",
    sources: &[
        Source {
            title: "Amazon EC2 User Guide, Enhanced networking with the Intel 82599 VF interface",
            says: "ixgbevf 2.14.2 or later; enterprise kernels of 2016 brought 2.12",
        },
        Source { title: "Amazon EC2 User Guide, ENA Express", says: "driver 2.2.9 or later (from memory)" },
    ],
    extras: Extras::NONE,
    advise,
};

fn advise(facts: &Facts, _: &AdviceContext) -> Vec<Finding> {
    each_interface(facts, KNOB.id, |nic| decide(facts, nic))
}

fn decide(facts: &Facts, nic: &Nic) -> Result<Finding, Finding> {
    let place = &nic.name;
    let driver = match nic.driver.known() {
        Some(driver) => driver,
        None => return Err(Finding::unknown(place, "its driver", &nic.driver)),
    };
    let Some((_, least, why)) = LEAST.iter().find(|(name, ..)| name == driver) else {
        return Err(Finding::not_here(place, format!("no version of {driver} is known to be too old")));
    };
    let version = own(place, &nic.driver_version)?;
    let needed = least.map(|number| number.to_string()).join(".");
    if facts.kernel.release.known().is_some_and(|release| *release == version) {
        let reason = format!(
            "{driver} is part of the kernel and reports the kernel's release, which cannot be compared with \
                {needed}"
        );
        return Ok(Finding::keep(place, reason).at(version));
    }
    let finding = match parse_version(&version) {
        None => {
            let unread = Finding::keep(
                place,
                format!("{driver} reports no version that evenkeel could compare with {needed}, {why}"),
            );
            return Ok(unread.at(version));
        }
        Some(found) if found < *least => {
            Finding::set(place, "newer", format!("{driver} {version} is older than {needed}, {why}"))
        }
        Some(_) => Finding::keep(place, format!("{driver} {version}: {needed} is {why}")),
    };
    Ok(finding.at(version))
}

/// The three numbers in `2.14.2`, `2.12.1-k`, `2.11.0g`, `4.1`.
/// Letters after the last number come from the vendor or the distribution.
fn parse_version(text: &str) -> Option<[u32; 3]> {
    let mut numbers = [0; 3];
    for (at, part) in text.splitn(3, '.').enumerate() {
        let end = part.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(part.len());
        *numbers.get_mut(at)? = part.get(..end)?.parse().ok()?;
    }
    text.contains('.').then_some(numbers)
}

#[cfg(test)]
mod tests {
    use expect_test::expect;
    use proptest::prelude::*;

    use super::*;
    use crate::fact::Fact;
    use crate::goal::Goal;
    use crate::testing::{check, nics};

    fn with(driver: &'static str, version: &'static str) -> impl Fn(&mut Facts) {
        move |facts| {
            nics(facts)[0].driver = Fact::Known(driver.into());
            nics(facts)[0].driver_version = Fact::Known(version.into());
        }
    }

    #[test]
    fn versions_are_compared_where_they_are_the_drivers() {
        check(
            &KNOB,
            &[
                ("virtio", Goal::Latency, &|_| {}),
                ("as of 2016", Goal::Latency, &with("ixgbevf", "2.12.1-k")),
                ("as of the whitepaper", Goal::Latency, &with("ixgbevf", "2.14.2")),
                ("a later one", Goal::Latency, &with("ixgbevf", "4.1.0-k-rh7.7")),
                ("Linux 4.14", Goal::Latency, &with("ena", "1.5.0K")),
                ("Amazon's", Goal::Throughput, &with("ena", "2.11.0g")),
                ("the kernel's own", Goal::Latency, &with("ena", "6.12.3-amd64")),
                ("no version", Goal::Latency, &with("ena", "git")),
                ("server unknown", Goal::Latency, &|facts| {
                    with("ena", "1")(facts);
                    nics(facts)[0].driver_version = Fact::absent("the driver reports no version");
                }),
                ("no driver", Goal::Latency, &|facts| nics(facts)[0].driver = Fact::Denied { why: "EACCES".into() }),
            ],
            expect![[r#"
                virtio (latency)
                  not-here eth0: no version of virtio_net is known to be too old
                as of 2016 (latency)
                  set eth0 "2.12.1-k" -> "newer": ixgbevf 2.12.1-k is older than 2.14.2, the minimum that Amazon requires
                as of the whitepaper (latency)
                  keep eth0 "2.14.2": ixgbevf 2.14.2: 2.14.2 is the minimum that Amazon requires
                a later one (latency)
                  keep eth0 "4.1.0-k-rh7.7": ixgbevf 4.1.0-k-rh7.7: 2.14.2 is the minimum that Amazon requires
                Linux 4.14 (latency)
                  set eth0 "1.5.0K" -> "newer": ena 1.5.0K is older than 2.2.9, the minimum for ENA Express and the third generation of the card
                Amazon's (throughput)
                  keep eth0 "2.11.0g": ena 2.11.0g: 2.2.9 is the minimum for ENA Express and the third generation of the card
                the kernel's own (latency)
                  keep eth0 "6.12.3-amd64": ena is part of the kernel and reports the kernel's release, which cannot be compared with 2.2.9
                no version (latency)
                  keep eth0 "git": ena reports no version that evenkeel could compare with 2.2.9, the minimum for ENA Express and the third generation of the card
                server unknown (latency)
                  not-here eth0: not present here: the driver reports no version
                no driver (latency)
                  unknown eth0: its driver is not known: EACCES
            "#]],
        );
    }

    #[test]
    fn letters_do_not_count() {
        let table = [
            ("2.14.2", Some([2, 14, 2])),
            ("2.12.1-k", Some([2, 12, 1])),
            ("2.11.0g", Some([2, 11, 0])),
            ("4.1", Some([4, 1, 0])),
            ("5.15.0-1031-aws", Some([5, 15, 0])),
            ("4", None),
            ("git", None),
            ("1..2", None),
            ("99999999999.1.1", None),
        ];
        for (text, expected) in table {
            assert_eq!(parse_version(text), expected, "{text}");
        }
    }

    proptest! {
        #[test]
        fn no_text_makes_the_parser_panic(text in "[0-9.a-zé-]{0,16}|.{0,12}") {
            let _ = parse_version(&text);
        }
    }
}
