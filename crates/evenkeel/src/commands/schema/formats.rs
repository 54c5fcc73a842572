//! The formats that have a schema: name, number, title, and their types.
//! A test generates the schemas in docs/schemas from the types.

use std::io::Read;

use serde::Serialize;

/// The files in docs/schemas, as build.rs packed them. Each has a name, a zero byte, a text and a zero byte.
const PACKED: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/schemas.zlib"));

/// A format and its schema.
pub(super) struct Format {
    /// The name of the command, with `-` between its words.
    pub(super) name: &'static str,
    pub(super) number: u32,
    /// The title of the schema.
    pub(super) title: &'static str,
}

impl Format {
    /// The JSON Schema, as in docs/schemas.
    pub(super) fn text(&self) -> Option<String> {
        let mut unpacked = String::new();
        flate2::read::ZlibDecoder::new(PACKED).read_to_string(&mut unpacked).ok()?;
        let file = format!("{}-v{}", self.name, self.number);
        let mut parts = unpacked.split('\0');
        // Names and texts alternate in the unpacked file.
        while let (Some(name), Some(text)) = (parts.next(), parts.next()) {
            if name == file {
                return Some(text.to_owned());
            }
        }
        None
    }
}

/// The answer of `evenkeel schema`.
#[derive(Serialize, schemars::JsonSchema)]
pub(super) struct SchemaList {
    pub(super) schemas: Vec<Listed>,
}

/// An entry of the list of schemas.
#[derive(Serialize, schemars::JsonSchema)]
pub(super) struct Listed {
    pub(super) name: &'static str,
    /// The number of the format that the schema describes.
    pub(super) number: u32,
    pub(super) title: &'static str,
}

/// Makes the schema of a type.
#[cfg(test)]
pub(super) type MakeSchema = fn(&mut schemars::SchemaGenerator) -> schemars::Schema;

/// Defines the formats, one line for each. Several types are alternatives.
macro_rules! formats {
    ($($name:literal $number:literal $title:literal => $($type:ty),+;)*) => {
        pub(super) const ALL: &[Format] = &[$(Format {
            name: $name,
            number: $number,
            title: $title,
        }),*];

        /// The schemas of the types behind each format of [`ALL`], in its order.
        #[cfg(test)]
        pub(super) fn types() -> Vec<Vec<MakeSchema>> {
            use evenkeel_change::{PlanFile, RevertReport};
            use evenkeel_measure::disturb as disturbers;
            use evenkeel_measure::{card, meters};
            use evenkeel_trial::boots::BootsReport;
            use evenkeel_trial::{saved, search};

            use crate::commands::disturb::Answer as Disturbed;
            use crate::commands::measure::Observed;
            use crate::commands::{
                apply, capacity, capture, completions, confirm, credits, explain, fleet, history, image, inspect, instances, man, measure, pack, profile, prove, regions, script, serve, verify, watch,
            };
            use crate::{report, show, workload_args};

            vec![$(vec![$(<$type as schemars::JsonSchema>::json_schema),+]),*]
        }
    };
}

formats! {
    "error" 1 "the answer of a command that failed" => show::json::ErrorAnswer<'static>;
    "inspect" 1 "evenkeel inspect" => inspect::Answer<'static>;
    "capture" 1 "evenkeel capture" => capture::Answer<'static>;
    "audit" 1 "evenkeel audit" => show::advice::Audit<'static>;
    "explain" 1 "evenkeel explain: a knob, or the list of knobs" => explain::KnobAnswer, explain::ListAnswer;
    "guide" 1 "evenkeel guide: the lines of guides, or the list of the library" => show::guide::GuideAnswer, show::guide::Library;
    "plan" 1 "evenkeel plan, and the plan file" => PlanFile;
    "goal" 1 "the goal file of evenkeel tune" => search::GoalFile;
    "diff" 1 "evenkeel diff" => show::plan::Difference;
    "apply" 1 "evenkeel apply" => apply::Answer<'static>;
    "confirm" 1 "evenkeel confirm" => confirm::Answer;
    "script" 1 "evenkeel script" => script::Answer;
    "image" 1 "evenkeel image" => image::Answer<'static>, RevertReport;
    "verify" 1 "evenkeel verify" => verify::Answer;
    "revert" 1 "evenkeel revert" => RevertReport;
    "history" 1 "evenkeel history" => history::Answer;
    "measure-clock" 1 "evenkeel measure clock" => Observed<'static, meters::clock::Report>;
    "measure-wake" 1 "evenkeel measure wake" => Observed<'static, meters::wake::Report>;
    "measure-gaps" 1 "evenkeel measure gaps" => Observed<'static, meters::gaps::Report>;
    "measure-quantum" 1 "evenkeel measure quantum" => Observed<'static, meters::quantum::Report>;
    "measure-udp" 1 "evenkeel measure udp" => Observed<'static, measure::meters::udp::Answer>;
    "measure-bandwidth" 1 "evenkeel measure bandwidth" => Observed<'static, measure::meters::bandwidth::Answer>;
    "measure-memory" 1 "evenkeel measure memory" => Observed<'static, meters::memory::Report>;
    "measure-frequency" 1 "evenkeel measure frequency" => Observed<'static, meters::frequency::Report>;
    "measure-disk" 1 "evenkeel measure disk" => Observed<'static, meters::disk::Report>;
    "measure-imbalance" 1 "evenkeel measure imbalance" => Observed<'static, meters::imbalance::Report>;
    "measure-rates" 1 "evenkeel measure rates" => Observed<'static, meters::rates::Report>;
    "measure-ticks" 2 "evenkeel measure ticks" => Observed<'static, meters::ticks::Report>;
    "measure-all" 1 "evenkeel measure all, and the card file" => Observed<'static, card::Card>;
    "measure-compare" 1 "evenkeel measure compare" => Observed<'static, show::card::Answer>;
    "disturb-quantum" 1 "evenkeel disturb quantum" =>
        Disturbed<'static, disturbers::quantum::Settings, disturbers::quantum::Report>,
        Disturbed<'static, disturbers::quota::Settings, disturbers::quota::Report>;
    "disturb-spinner" 1 "evenkeel disturb spinner" =>
        Disturbed<'static, disturbers::spinner::Settings, disturbers::spinner::Report>;
    "disturb-sibling" 1 "evenkeel disturb sibling" =>
        Disturbed<'static, disturbers::sibling::Settings, disturbers::sibling::Report>;
    "disturb-memory" 1 "evenkeel disturb memory" =>
        Disturbed<'static, disturbers::memory::pressure::Settings, disturbers::memory::pressure::Report>,
        Disturbed<'static, disturbers::memory::bandwidth::Settings, disturbers::memory::bandwidth::Report>;
    "disturb-storm" 1 "evenkeel disturb storm" =>
        Disturbed<'static, disturbers::storm::packets::Settings, disturbers::storm::packets::Report>,
        Disturbed<'static, disturbers::storm::timers::Settings, disturbers::storm::timers::Report>,
        Disturbed<'static, disturbers::storm::wakes::Settings, disturbers::storm::wakes::Report>;
    "profile-record" 1 "evenkeel profile record" => profile::record::page::Answer;
    "profile-view" 1 "evenkeel profile view" => show::profile::view::Answer;
    "profile-diff" 1 "evenkeel profile diff" => show::profile::diff::Answer;
    "profile-switches" 1 "evenkeel profile switches" => profile::switches::Answer<'static>;
    "profile-imbalance" 1 "evenkeel profile imbalance" => profile::imbalance::Answer<'static>;
    "profile-scopes" 1 "evenkeel profile scopes" => profile::scopes::Answer<'static>;
    "profile-ticks" 1 "evenkeel profile ticks" => show::profile::ticks::Answer;
    "prove" 2 "evenkeel prove, of one arm or several" => saved::TrialEntry, prove::answer::Several<'static>;
    "prove-boots" 1 "evenkeel prove boots status, and boots.json" => BootsReport;
    "prove-boots-plan" 1 "evenkeel prove boots start --plan-only" => prove::boots::planned::Planned;
    "prove-compare" 1 "evenkeel prove compare" => saved::Across;
    "prove-workloads" 1 "evenkeel prove workloads" => workload_args::List;
    "report" 2 "evenkeel demo, and report.json of demo and prove" => report::FullReport;
    "tune" 1 "evenkeel tune" => show::tune::SearchResult;
    "pack-plan" 1 "evenkeel pack plan" => pack::PlanAnswer;
    "pack-apply" 1 "evenkeel pack apply" => show::pack_apply::Answer;
    "pack-run" 1 "evenkeel pack run" => show::pack_run::Answer;
    "pack-agones" 1 "evenkeel pack agones" => pack::agones::AgonesAnswer;
    "regions" 1 "evenkeel regions" => regions::Answer;
    "capacity" 1 "evenkeel capacity" => capacity::Answer;
    "instances" 1 "evenkeel instances" => instances::Answer;
    "credits" 1 "evenkeel credits" => credits::Answer;
    "serve" 1 "evenkeel serve" => serve::Answer;
    "watch" 1 "evenkeel watch --once" => watch::Answer;
    "watch-dump" 1 "evenkeel watch --dump" => watch::dump::DumpAnswer;
    "fleet-table" 1 "evenkeel fleet table" => fleet::table::Answer;
    "fleet-audit" 1 "evenkeel fleet audit" => evenkeel_fleet::audit::FleetAudit;
    "fleet-rollout" 1 "evenkeel fleet rollout" => fleet::answers::RolloutAnswer;
    "fleet-prove" 1 "evenkeel fleet prove" => fleet::answers::ProveAnswer;
    "fleet-diff" 1 "evenkeel fleet diff" => evenkeel_fleet::audit::FleetDiff;
    "completions" 1 "evenkeel completions" => completions::Answer<'static>;
    "man" 1 "evenkeel man" => man::Answer<'static>;
    "schema" 1 "evenkeel schema: the list" => SchemaList;
}
