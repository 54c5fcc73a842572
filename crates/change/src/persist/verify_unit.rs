//! A service that runs `evenkeel verify` after each boot.
//! If a setting did not take effect, `systemctl --failed` and the journal show it.

use super::hold::UNIT as HOLDER;
use super::recipe::{HEAD, PersistContext};
use super::units;
use crate::persist_plan::{Cannot, PersistPlan};

const UNIT: &str = "evenkeel-verify.service";

/// The unit, if something needs verification and the program is installed.
pub(super) fn plan(context: &PersistContext<'_>, kept: &PersistPlan) -> PersistPlan {
    let mut plan = PersistPlan::default();
    let Some(program) = context.program.filter(|_| !kept.is_empty() && units::other_init(context).is_none()) else {
        return plan;
    };
    // systemd splits and expands ExecStart=, so evenkeel creates no unit for a path with special characters.
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"/._+-".contains(&byte);
    if !program.starts_with('/') || !program.bytes().all(plain) {
        plan.cannot.push(Cannot {
            setting: "evenkeel verify, after a boot".to_owned(),
            why: format!(
                "the program's path {program:?} is not absolute or has characters that are special for systemd"
            ),
            todo: "install the program as /usr/local/bin/evenkeel".to_owned(),
        });
        return plan;
    }
    let text = format!(
        "{HEAD}[Unit]
Description=Reports which settings of evenkeel do not hold after a boot
After=evenkeel-settings.service {HOLDER}{}
# A removed program is no failure of a boot.
ConditionFileIsExecutable={program}

[Service]
Type=oneshot
ExecStart={program} verify
# What still waits for a restart is no failure.
SuccessExitStatus=7

[Install]
WantedBy=multi-user.target
",
        context.unit.map(|unit| format!(" {unit}")).unwrap_or_default()
    );
    plan.files.extend(units::files(UNIT, text));
    plan.commands.push(units::daemon_reload(&format!("{}/{UNIT}", units::UNITS)));
    plan
}
