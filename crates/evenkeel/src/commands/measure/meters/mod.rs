//! The meters. Each meter has one file, and one line in `meters!`.

use super::card::CardTurn;
use super::context::Context;
use super::meter::Meter;
use crate::failure::Outcome;

pub(crate) mod bandwidth;
mod clock;
mod disk;
mod frequency;
mod gaps;
mod imbalance;
mod memory;
mod quantum;
mod rates;
pub(crate) mod ticks;
pub(crate) mod udp;
mod wake;

/// The part of a meter that the card uses.
pub(super) struct Listed {
    pub(super) name: &'static str,
    pub(super) card: Option<CardTurn>,
    pub(super) needs_idle: bool,
}

/// Defines the subcommands, and the meters on the card.
macro_rules! meters {
    ($($name:ident => $module:ident),* $(,)?) => {
        #[derive(Debug, clap::Subcommand)]
        pub(super) enum Chosen {
            $($name($module::Args)),*
        }

        impl Chosen {
            pub(super) fn run(&self, context: &Context<'_>) -> Outcome {
                match self {
                    $(Chosen::$name(meter) => meter.run(context)),*
                }
            }
        }

        pub(super) const ALL: &[Listed] = &[$(Listed {
            name: $module::Args::NAME,
            card: $module::Args::CARD,
            needs_idle: $module::Args::NEEDS_IDLE,
        }),*];
    };
}

// The order of `--help` and of the card: time first, then network, memory, and counters.
meters! {
    Clock => clock,
    Wake => wake,
    Gaps => gaps,
    Quantum => quantum,
    Udp => udp,
    Bandwidth => bandwidth,
    Memory => memory,
    Frequency => frequency,
    Disk => disk,
    Imbalance => imbalance,
    Rates => rates,
    Ticks => ticks,
}

#[cfg(test)]
mod tests {
    use clap::Subcommand;

    use super::*;

    #[test]
    fn every_meter_is_documented_under_the_name_of_its_subcommand() {
        let measuring = include_str!("../../../../../../docs/measuring.md");
        let formats = include_str!("../../../../../../docs/formats.md");
        for Listed { name, .. } in ALL {
            assert!(Chosen::has_subcommand(name), "{name}");
            assert!(measuring.contains(&format!("\n## {name}\n")), "{name} has no section in docs/measuring.md");
            let mut headings = formats.lines().filter_map(|line| line.strip_prefix("#### measure "));
            let listed = headings.any(|names| names.split(", ").any(|listed| listed == *name));
            assert!(listed, "{name} has no fields in docs/formats.md");
        }
    }
}
