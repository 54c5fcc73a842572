//! Whether an instance with CPU credits may continue when its credits run out.

use crate::extras::Extras;
use crate::facts::Facts;
use crate::finding::Finding;
use crate::goal::AdviceContext;
use crate::knob::{Area, Knob, Place, Source, TakesEffect, Values};
use crate::shapes::burstable;

const PLACE: &str = "cloud.t_unlimited";

pub(super) const KNOB: Knob = Knob {
    id: "cloud.t_unlimited",
    title: "CPU time beyond an instance's credits",
    area: Area::Cpu,
    place: Place::ByHand {
        how: "aws ec2 modify-instance-credit-specification --instance-credit-specification InstanceId=ID,CpuCredits={}",
    },
    values: Values::Words(&["unlimited", "standard"]),
    default: "unlimited from T3 on, standard for T2",
    takes_effect: TakesEffect::AtOnce,
    mechanism: "Instances of Amazon's T families earn CPU credits at a steady rate and spend them when they are busy. In \
        standard mode, an instance without credits is limited to its baseline, a fraction of a CPU. A server that ran \
        smoothly for hours then misses every tick. In unlimited mode it continues, and Amazon bills the extra CPU \
        time. No setting inside the machine changes that; an instance of another family does.",
    risk: "CPU time beyond the credits costs extra",
    shows_in: "steal in /proc/stat, CPUCreditBalance and CPUSurplusCreditBalance in CloudWatch",
    kernels: "all: this is a setting of the cloud",
    sources: &[
        Source {
            title: "Amazon EC2 User Guide, Unlimited mode for burstable performance instances",
            says: "what each mode does, and the default of each family",
        },
        Source {
            title: "AWS, Deep Dive on Amazon EC2 Instances (2016)",
            says: "credits leak after 24 hours; watch them",
        },
    ],
    extras: Extras::NONE,
    advise,
};

fn advise(facts: &Facts, _: &AdviceContext) -> Vec<Finding> {
    if facts.machine.instance_type.known().is_none() && facts.machine.cloud.known() == Some(&crate::facts::Cloud::Aws) {
        return vec![Finding::unknown(PLACE, "the type of the instance", &facts.machine.instance_type)];
    }
    vec![match burstable(facts) {
        None => Finding::not_here(PLACE, "only Amazon's T families use CPU credits"),
        Some(instance) if instance.starts_with("t2.") => Finding::set(
            PLACE,
            "unlimited",
            format!(
                "a {instance} is standard unless you launched it otherwise: without credits it is limited to its \
                    baseline and misses ticks"
            ),
        ),
        Some(instance) => Finding::keep(
            PLACE,
            format!(
                "a {instance} is unlimited unless you launched it otherwise; for a server that is always busy, \
                    use a family without credits"
            ),
        ),
    }]
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;
    use crate::fact::Fact;
    use crate::facts::Cloud;
    use crate::goal::Goal;
    use crate::testing::check;

    fn aws(instance: &'static str) -> impl Fn(&mut Facts) {
        move |facts| {
            facts.machine.cloud = Fact::Known(Cloud::Aws);
            facts.machine.instance_type = Fact::Known(instance.into());
        }
    }

    #[test]
    fn credits_are_of_the_t_families() {
        check(
            &KNOB,
            &[
                ("no cloud", Goal::Latency, &|_| {}),
                ("c5n", Goal::Latency, &aws("c5n.xlarge")),
                ("t2", Goal::Latency, &aws("t2.small")),
                ("t4g", Goal::Density, &aws("t4g.small")),
                ("unknown", Goal::Latency, &|facts| {
                    facts.machine.cloud = Fact::Known(Cloud::Aws);
                    facts.machine.instance_type = Fact::absent("not in the capture");
                }),
            ],
            expect![[r#"
                no cloud (latency)
                  not-here cloud.t_unlimited: only Amazon's T families use CPU credits
                c5n (latency)
                  not-here cloud.t_unlimited: only Amazon's T families use CPU credits
                t2 (latency)
                  set cloud.t_unlimited ? -> "unlimited": a t2.small is standard unless you launched it otherwise: without credits it is limited to its baseline and misses ticks
                t4g (density)
                  keep cloud.t_unlimited: a t4g.small is unlimited unless you launched it otherwise; for a server that is always busy, use a family without credits
                unknown (latency)
                  unknown cloud.t_unlimited: the type of the instance is not known: not in the capture
            "#]],
        );
    }
}
