//! A service that continues a trial over boots. The trial's state contains everything that the user typed.
//! The unit contains none of it, because systemd splits and expands its lines.

use std::path::Path;

use evenkeel_host::Facts;

use super::recipe::{HEAD, PersistContext};
use super::units;
use crate::persist_plan::PersistPlan;

const UNIT: &str = "evenkeel-boots.service";

/// The unit for the program at `program`, with its journal in `dir` and its state in `file`.
///
/// # Errors
/// If this machine does not use systemd, or a unit cannot contain one of the paths.
pub fn boots_unit(facts: &Facts, program: &str, dir: &Path, file: &Path) -> Result<PersistPlan, String> {
    let context =
        PersistContext { facts, unit: None, program: None, is_image: false, boot_files: &[], own_arguments: &[] };
    if let Some(init) = units::other_init(&context) {
        return Err(format!(
            "continue after a boot: this machine uses {init}, and evenkeel can only create systemd units"
        ));
    }
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"/._+-".contains(&byte);
    let mut paths = Vec::new();
    for path in [Some(program), dir.to_str(), file.to_str()] {
        let path = path.filter(|path| path.starts_with('/') && path.len() <= 1024 && path.bytes().all(plain));
        paths.push(path.ok_or_else(|| {
            format!(
                "go on after a boot: the path of the program ({program:?}) or of its state ({}) is not absolute or has characters that \
                 systemd reads as its own",
                dir.display()
            )
        })?);
    }
    let [program, dir, file] = paths[..] else { return Err("continue after a boot: a path is missing".to_owned()) };
    // The unit is not oneshot, because its start, and so the boot, would last as long as the measurement.
    // After the trial has removed its unit, systemd's default start limit would apply,
    // and could stop the unit before the trial has finished.
    let text = format!(
        "{HEAD}[Unit]
Description=Goes on with evenkeel's trial over boots
ConditionPathExists={file}
After=multi-user.target

[Service]
Type=exec
ExecStart={program} prove boots resume --state {dir}

[Install]
WantedBy=multi-user.target
"
    );
    let mut plan = PersistPlan::default();
    plan.files.extend(units::files(UNIT, text));
    plan.commands.push(units::daemon_reload(&format!("{}/{UNIT}", units::UNITS)));
    Ok(plan)
}

#[cfg(test)]
mod tests {
    use evenkeel_hostfs::{Capture, Root};
    use expect_test::expect;

    use super::*;
    use crate::persist_plan::Content;

    fn facts(init: &str) -> Facts {
        let capture = format!("evenkeel-capture 1\n/run/systemd/system ->! {init}\n/proc/1/comm = runit\nend\n");
        Facts::probe(&Root::captured(Capture::parse(&capture).unwrap()))
    }

    fn unit_plan(program: &str, dir: &str) -> Result<PersistPlan, String> {
        boots_unit(&facts("EINVAL"), program, Path::new(dir), &Path::new(dir).join("boots"))
    }

    #[test]
    fn the_unit_has_nothing_in_it_that_somebody_typed() {
        let plan = unit_plan("/usr/local/bin/evenkeel", "/var/lib/evenkeel").unwrap();
        let paths: Vec<&str> = plan.files.iter().map(|file| file.path.as_str()).collect();
        assert_eq!(
            paths,
            [
                "/etc/systemd/system/evenkeel-boots.service",
                "/etc/systemd/system/multi-user.target.wants/evenkeel-boots.service"
            ]
        );
        let Content::Whole { text, mode: 0o644 } = &plan.files[0].content else { panic!("{:?}", plan.files[0]) };
        expect![[r#"
            # Written by evenkeel; `evenkeel revert` removes it, `evenkeel apply --persist` writes it anew.
            [Unit]
            Description=Goes on with evenkeel's trial over boots
            ConditionPathExists=/var/lib/evenkeel/boots
            After=multi-user.target

            [Service]
            Type=exec
            ExecStart=/usr/local/bin/evenkeel prove boots resume --state /var/lib/evenkeel

            [Install]
            WantedBy=multi-user.target
        "#]]
        .assert_eq(text);
    }

    #[test]
    fn no_path_becomes_a_line_or_a_word_of_its_own() {
        let odd = ["", "evenkeel", "/a b", "/a%i", "/a$HOME", "/a\nExecStart=/bin/sh", "/a;b", "/a'b", "/\u{e9}"];
        for path in odd {
            assert!(unit_plan(path, "/var/lib/evenkeel").is_err(), "{path:?} as the program");
            assert!(unit_plan("/usr/bin/evenkeel", path).is_err(), "{path:?} as the folder");
        }
        assert!(unit_plan(&format!("/{}", "a".repeat(2000)), "/var/lib/evenkeel").is_err());
        let other = boots_unit(&facts("ENOENT"), "/usr/bin/evenkeel", Path::new("/v"), Path::new("/v/b"));
        assert!(other.unwrap_err().contains("this machine uses runit"));
    }
}
