//! Persists limits that last only while a process keeps a device open. A small service keeps the device open.

use evenkeel_host::{Place, Setting, TakesEffect};

use super::recipe::{HEAD, PersistContext, Recipe, refuse};
use super::units;
use crate::persist_plan::{Carried, PersistPlan, PersistedCommand};

const DEVICE: &str = "/dev/cpu_dma_latency";
pub(crate) const UNIT: &str = "evenkeel-hold.service";

pub(super) const RECIPE: Recipe =
    Recipe { takes: |setting| matches!(setting.knob.place, Place::Held { path: DEVICE }), plan };

fn plan(context: &PersistContext<'_>, settings: &[&Setting]) -> PersistPlan {
    let mut plan = PersistPlan::default();
    // All settings have the same place, so only the last setting counts.
    let Some((setting, _)) = settings.split_last() else { return plan };
    if let Some(init) = units::other_init(context) {
        let todo = format!("start at boot: sh -c '{}'", shell(0).replace("0x00000000", "VALUE"));
        plan.cannot.push(refuse(
            setting,
            format!("this system uses {init}, and evenkeel can only create systemd units"),
            todo,
        ));
        return plan;
    }
    let Ok(value_us) = setting.value.parse::<i32>() else {
        plan.cannot.push(refuse(setting, format!("{DEVICE} accepts a whole number of us"), "give a whole number"));
        return plan;
    };
    plan.files.extend(units::files(UNIT, unit(context, value_us)));
    let path = format!("{}/{UNIT}", units::UNITS);
    plan.commands.push(units::daemon_reload(&path));
    let systemctl = |verb: &str| ["systemctl", verb, UNIT].map(str::to_owned).to_vec();
    plan.commands.push(PersistedCommand {
        argv: systemctl("restart"),
        undo: systemctl("stop"),
        after: vec![path.clone()],
        why: format!("starts the service that keeps {DEVICE} open"),
        only_booted: true,
    });
    plan.carried.push(Carried { setting: setting.to_string(), by: path, takes_effect: TakesEffect::AtOnce });
    plan
}

/// The kernel accepts four bytes, or a hexadecimal number in ten characters (`pm_qos_interface.rst`).
/// The hexadecimal number has no byte order, and no bytes that are special for a shell or systemd.
/// The number must be a single write: `echo` writes such a short text in one call.
fn shell(value_us: i32) -> String {
    format!("exec 3>{DEVICE} && echo 0x{value_us:08x} >&3 && exec sleep infinity")
}

/// The unit's condition prevents the shell from creating a plain file of that name on a kernel without the device.
fn unit(context: &PersistContext<'_>, value_us: i32) -> String {
    format!(
        "{HEAD}[Unit]
Description=Holds {DEVICE} at {value_us} us
ConditionPathExists={DEVICE}
{}
[Service]
Type=exec
ExecStart=/bin/sh -c '{}'
Restart=always

[Install]
WantedBy=multi-user.target
",
        units::before(context),
        shell(value_us)
    )
}
