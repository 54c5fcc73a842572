//! Properties of the server's own process: a drop-in for its systemd unit, where somebody says which that is.

use std::fmt::Write;

use evenkeel_host::{Place, Setting, TakesEffect};

use super::recipe::{Ground, HEAD, Recipe, refuse};
use super::units;
use crate::keep::{Carried, Content, Keep, KeptFile};

/// The knob's id, and the lines of `[Service]` that bring it about; none for a value that no line does.
type Row = (&'static str, fn(&str) -> Option<String>);

/// A list of CPUs or nodes is emptied before ours: systemd adds such lists up.
const ROWS: &[Row] = &[
    (CPU_AFFINITY, |cpus| Some(format!("CPUAffinity=\nCPUAffinity={cpus}\n"))),
    (NUMA_POLICY, |node| Some(format!("NUMAPolicy=bind\nNUMAMask=\nNUMAMask={node}\n"))),
    ("process.timer_slack_ns", |slack_ns| Some(format!("TimerSlackNSec={slack_ns}\n"))),
    (MEMORY_LOCK, |which| (which == "all").then(|| "LimitMEMLOCK=infinity\n".to_owned())),
    ("process.sched_policy", |policy| {
        // The lowest priority is enough to go before every ordinary thread, and leaves room for who must go before the server.
        let priority = if policy == "other" { "" } else { "CPUSchedulingPriority=1\n" };
        Some(format!("CPUSchedulingPolicy={policy}\n{priority}"))
    }),
    ("process.glibc_hugetlb", |way| Some(format!("Environment=GLIBC_TUNABLES=glibc.malloc.hugetlb={way}\n"))),
    ("cgroup.cpu_max", |max| (max == "max").then(|| "CPUQuota=\n".to_owned())),
    // systemd has no key for it, and sets nothing of a thread that the server starts later.
    (SCHED_SLICE, |_| None),
];

const CPU_AFFINITY: &str = "process.cpu_affinity";
const NUMA_POLICY: &str = "process.numa_policy";
const MEMORY_LOCK: &str = "process.memory_lock";
const SCHED_SLICE: &str = "process.sched_slice_ns";

pub(super) const RECIPE: Recipe = Recipe { takes: |setting| row(setting).is_some(), keep };

fn row(setting: &Setting) -> Option<fn(&str) -> Option<String>> {
    ROWS.iter().find(|(id, _)| *id == setting.knob.id).map(|(_, lines)| *lines)
}

fn keep(ground: &Ground<'_>, settings: &[&Setting]) -> Keep {
    let mut keep = Keep::default();
    let unit = match unit(ground) {
        Ok(unit) => unit,
        Err((why, todo)) => {
            let refused = settings.iter().map(|setting| refuse(setting, why.clone(), by_hand(setting, &todo)));
            keep.cannot.extend(refused);
            return keep;
        }
    };
    let path = format!("{}/{unit}.d/90-evenkeel.conf", units::UNITS);
    let mut text = format!("{HEAD}[Service]\n");
    for setting in settings {
        let Some(lines) = row(setting).and_then(|lines| lines(&setting.value)) else {
            keep.cannot.push(no_line(setting));
            continue;
        };
        text.push_str(&lines);
        keep.carried.push(Carried {
            setting: setting.to_string(),
            by: path.clone(),
            takes_effect: TakesEffect::ProcessStart,
        });
        if setting.knob.id == MEMORY_LOCK {
            let why = format!("{path} only permits it: a program's memory is locked by the program itself");
            keep.cannot.push(refuse(
                setting,
                why,
                "the server calls mlockall(MCL_CURRENT | MCL_FUTURE) when it starts",
            ));
        }
    }
    let has = |id: &str| settings.iter().any(|setting| setting.knob.id == id);
    if has(NUMA_POLICY) && !has(CPU_AFFINITY) {
        // Memory of one node is of use to threads that run there.
        let _ = writeln!(text, "CPUAffinity=\nCPUAffinity=numa");
    }
    if !keep.carried.is_empty() {
        keep.files.push(KeptFile { path: path.clone(), content: Content::Whole { text, mode: 0o644 } });
        keep.commands.push(units::daemon_reload(&path));
    }
    keep
}

/// The server's unit, or why there is none and what to do.
fn unit<'a>(ground: &Ground<'a>) -> Result<&'a str, (String, String)> {
    if let Some(init) = units::other_init(ground) {
        return Err((format!("{init} starts this system, and only units of systemd are known"), String::new()));
    }
    let todo = "name the server's systemd unit: --unit NAME.service".to_owned();
    match ground.unit {
        None => Err(("it belongs to the server's process, and nobody said which unit starts that".to_owned(), todo)),
        Some(unit) => Ok(unit.as_str()),
    }
}

/// What to do without a unit.
fn by_hand(setting: &Setting, todo: &str) -> String {
    let how = match setting.knob.place {
        Place::ByHand { how } => how.replace("{}", &setting.value),
        _ => format!("start the server so that {setting} holds from its start"),
    };
    match todo {
        _ if setting.knob.id == SCHED_SLICE => how,
        "" => how,
        todo => format!("{todo}; or {how}"),
    }
}

fn no_line(setting: &Setting) -> crate::keep::Cannot {
    let (why, todo) = match setting.knob.id {
        SCHED_SLICE => ("systemd has no key for it, and the kernel keeps it for each thread", by_hand(setting, "")),
        MEMORY_LOCK => {
            ("a server locks nothing unless it asks for it", "do not call mlockall in the server".to_owned())
        }
        _ => ("no line of a unit brings this value about", by_hand(setting, "")),
    };
    refuse(setting, why, todo)
}
