//! How much of a server's output journald writes to disk before it drops the rest.

use crate::extras::Extras;
use crate::fact::Fact;
use crate::facts::Facts;
use crate::facts::Init;
use crate::finding::Finding;
use crate::goal::AdviceContext;
use crate::knob::{Area, Knob, Place, Source, TakesEffect, Values};

const PLACE: &str = "daemon.journald_rate";

pub(super) const KNOB: Knob = Knob {
    id: "daemon.journald_rate",
    title: "log lines that journald accepts from a service",
    area: Area::Process,
    place: Place::ByHand {
        how: "LogRateLimitBurst={} in a drop-in of the server's unit (systemctl edit), with LogRateLimitIntervalSec=",
    },
    values: Values::Number { min: 0, max: 1_000_000_000, unit: "lines" },
    default: "10000 in 30 s, more with much free disk space (from memory)",
    takes_effect: TakesEffect::ProcessStart,
    mechanism: "A service's output goes through a socket to journald, which uses CPU time for each line. It writes to disk, \
        perhaps to the disk that the server also uses. When journald falls behind, the socket is full, and a server \
        that prints in its tick waits. The limit drops lines and reports that. It is better to print less, from \
        another thread.",
    risk: "a higher limit lets journald take CPU time and disk bandwidth from the server; a lower one loses lines",
    shows_in: "\"Suppressed N messages\" in the journal; CPU time of systemd-journald",
    kernels: "all: this is a setting of systemd",
    sources: &[Source {
        title: "journald.conf(5) and systemd.exec(5), RateLimitBurst= and LogRateLimitBurst=",
        says: "what journald drops, for which service, and the defaults",
    }],
    extras: Extras::NONE,
    advise,
};

fn advise(facts: &Facts, _: &AdviceContext) -> Vec<Finding> {
    vec![match &facts.boot.init {
        Fact::Known(Init::Systemd) => Finding::keep(
            PLACE,
            "a server that prints in its tick waits for journald: print from another thread; the limit only drops \
                lines",
        ),
        Fact::Known(Init::Other(name)) => Finding::not_here(PLACE, format!("this machine uses {name}, not systemd")),
        unknown => Finding::unknown(PLACE, "the init system of this machine", unknown),
    }]
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;
    use crate::goal::Goal;
    use crate::testing::check;

    #[test]
    fn printing_less_is_better_than_dropping() {
        check(
            &KNOB,
            &[
                ("systemd", Goal::Latency, &|_| {}),
                ("another", Goal::Latency, &|facts| facts.boot.init = Fact::Known(Init::Other("runit".into()))),
                ("unknown", Goal::Latency, &|facts| facts.boot.init = Fact::Denied { why: "EACCES".into() }),
            ],
            expect![[r#"
                systemd (latency)
                  keep daemon.journald_rate: a server that prints in its tick waits for journald: print from another thread; the limit only drops lines
                another (latency)
                  not-here daemon.journald_rate: this machine uses runit, not systemd
                unknown (latency)
                  unknown daemon.journald_rate: the init system of this machine is not known: EACCES
            "#]],
        );
    }
}
