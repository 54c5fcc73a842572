//! How much of what a server prints the journal writes to disk before it drops the rest.

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
    title: "lines a service may log before some are dropped",
    area: Area::Process,
    place: Place::ByHand {
        how: "LogRateLimitBurst={} in a drop-in of the server's unit (systemctl edit), with LogRateLimitIntervalSec=",
    },
    values: Values::Number { min: 0, max: 1_000_000_000, unit: "lines" },
    default: "10000 in 30 s, more with much free disk (from memory)",
    takes_effect: TakesEffect::ProcessStart,
    mechanism: "What a service prints goes through a socket to journald, which takes CPU time for each line and writes to the disk that the \
                server may write to as well. A server that prints in its tick waits when journald is behind, since the socket \
                is then full. The limit drops lines and says so; better is to print less, from another thread.",
    risk: "a higher limit lets the journal take CPU time and disk from the server; a lower one loses lines",
    shows_in: "\"Suppressed N messages\" in the journal; CPU time of systemd-journald",
    kernels: "all: systemd's own",
    sources: &[Source {
        title: "journald.conf(5) and systemd.exec(5), RateLimitBurst= and LogRateLimitBurst=",
        says: "what is dropped, for which service, and the defaults",
    }],
    extras: Extras::NONE,
    advise,
};

fn advise(facts: &Facts, _: &AdviceContext) -> Vec<Finding> {
    vec![match &facts.boot.init {
        Fact::Known(Init::Systemd) => Finding::keep(
            PLACE,
            "a server that prints within its tick waits for the journal: print from another thread; the limit only drops lines",
        ),
        Fact::Known(Init::Other(name)) => Finding::not_here(PLACE, format!("{name} starts this machine, not systemd")),
        unknown => Finding::unknown(PLACE, "what starts this machine", unknown),
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
                  keep daemon.journald_rate: a server that prints within its tick waits for the journal: print from another thread; the limit only drops lines
                another (latency)
                  not-here daemon.journald_rate: runit starts this machine, not systemd
                unknown (latency)
                  unknown daemon.journald_rate: what starts this machine is not known: EACCES
            "#]],
        );
    }
}
