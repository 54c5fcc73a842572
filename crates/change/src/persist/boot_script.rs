//! Persists values under `/sys` and `/proc/irq` with a script that a unit runs at each boot.
//!
//! We use a script and not `tmpfiles.d`, because a script can find interrupts
//! by name, look for queues and disks, and read each value back.
//! If a value does not take effect, the script reports that and continues.
//! It then fails at its end, so that the unit shows as failed.

use evenkeel_host::facts::{Nic, Version};
use evenkeel_host::{Device, Place, Reading, Setting, TakesEffect, files_of};

use super::recipe::{HEAD, PersistContext, Recipe, refuse};
use super::{boot_irqs, units};
use crate::persist_plan::{Carried, Content, PersistPlan, PersistedFile};
use crate::shell::word;

const SCRIPT: &str = "/etc/evenkeel/settings.sh";
const UNIT: &str = "evenkeel-settings.service";

pub(super) const RECIPE: Recipe = Recipe { takes, plan };

fn takes(setting: &Setting) -> bool {
    match setting.knob.place {
        Place::File { path, .. } => !path.starts_with("/proc/sys/"),
        Place::FileSince { .. } | Place::Each { .. } | Place::EachNetworkIrq => true,
        _ => false,
    }
}

fn plan(context: &PersistContext<'_>, settings: &[&Setting]) -> PersistPlan {
    let mut plan = PersistPlan::default();
    let mut calls = String::new();
    for setting in settings {
        if let Some(version) = gone(context, setting) {
            let why = format!("Linux {version} has no file for it");
            plan.cannot.push(refuse(
                setting,
                why,
                format!("do not set it; `evenkeel explain {}` shows since when", setting.knob.id),
            ));
            continue;
        }
        let call = match units::other_init(context) {
            Some(init) => Err(format!("this system uses {init}, and evenkeel can only create systemd units")),
            None => call(context, setting),
        };
        match call {
            Ok(call) => {
                calls.push_str(&call);
                calls.push('\n');
                plan.carried.push(Carried {
                    setting: setting.to_string(),
                    by: SCRIPT.to_owned(),
                    takes_effect: TakesEffect::AtOnce,
                });
            }
            Err(why) => {
                plan.cannot.push(refuse(setting, why, format!("set it after each boot: evenkeel apply {setting}")));
            }
        }
    }
    if plan.carried.is_empty() {
        return plan;
    }
    plan.files
        .push(PersistedFile { path: SCRIPT.to_owned(), content: Content::Whole { text: script(&calls), mode: 0o755 } });
    plan.files.extend(units::files(UNIT, unit(context, settings.iter().any(|setting| is_of_network(setting)))));
    plan.commands.push(units::daemon_reload(&format!("{}/{UNIT}", units::UNITS)));
    plan
}

/// The kernel's version, if kernels moved the setting's file and this kernel has no such file.
fn gone(context: &PersistContext<'_>, setting: &Setting) -> Option<Version> {
    // The kernel of an image is not the kernel of the machine that builds the image.
    let version = context.facts.kernel.version.known().filter(|_| !context.is_image)?;
    let moved = matches!(setting.knob.place, Place::FileSince { .. });
    (moved && files_of(setting.knob, context.facts).is_empty()).then_some(*version)
}

fn is_of_network(setting: &Setting) -> bool {
    match setting.knob.place {
        Place::EachNetworkIrq => true,
        Place::Each { device, .. } => {
            matches!(device, Device::Interface | Device::ReceiveQueue | Device::TransmitQueue)
        }
        _ => false,
    }
}

/// The unit runs after programs that set the same values at their start (TuneD, irqbalance), and before the server.
/// Interfaces exist once the network is up.
/// Waiting until udev settles would also wait for all other devices, and guarantees no interface.
/// ExecStart names the shell because SELinux does not allow a service to execute a file of `/etc`.
fn unit(context: &PersistContext<'_>, is_of_network: bool) -> String {
    let (wants, online) =
        if is_of_network { ("Wants=network-online.target\n", " network-online.target") } else { ("", "") };
    format!(
        "{HEAD}[Unit]
Description=Settings of the running kernel that evenkeel keeps over a boot
{wants}After=systemd-modules-load.service systemd-sysctl.service tuned.service irqbalance.service{online}
{}
[Service]
Type=oneshot
RemainAfterExit=yes
TimeoutStartSec=60
ExecStart=/bin/sh {SCRIPT}

[Install]
WantedBy=multi-user.target
",
        units::before(context)
    )
}

/// Writes one setting as a line of the script.
fn call(context: &PersistContext<'_>, setting: &Setting) -> Result<String, String> {
    let knob = setting.knob;
    match knob.place {
        Place::File { path, reading } => {
            Ok(format!("put {} {} {}", kind(reading), word(path), word(&reading.text(&setting.value))))
        }
        Place::FileSince { files, reading } => {
            let mut paths: Vec<&str> = files.iter().rev().filter_map(|since| since.path).collect();
            paths.dedup();
            Ok(format!("first {} {}", word(&reading.text(&setting.value)), paths.join(" ")))
        }
        Place::Each { device, file, reading } => {
            let text = word(&reading.text(&setting.value));
            match &setting.place {
                None => Ok(format!("each {} {text} {}/{file}", kind(reading), folders(device)?.pattern)),
                Some(place) => {
                    let folder = (folders(device)?.folder)(place);
                    let folder = folder.ok_or_else(|| format!("{place:?} is not the name of a device of this kind"))?;
                    Ok(format!("put {} {} {text}", kind(reading), word(&format!("{folder}/{file}"))))
                }
            }
        }
        Place::EachNetworkIrq => match &setting.place {
            None => Ok(format!("serve_all {}", word(&setting.value))),
            Some(number) => {
                let (nic, name) = interrupt(context, number)?;
                Ok(format!("serve {} {} {}", word(nic), word(name), word(&setting.value)))
            }
        },
        _ => Err("it is not a file".to_owned()),
    }
}

fn kind(reading: Reading) -> &'static str {
    if reading == Reading::CpuMask { "mask" } else { "plain" }
}

/// Where the devices of a kind are.
struct Folders {
    device: Device,
    /// The pattern of the device folders. The script skips folders of devices without hardware.
    pattern: &'static str,
    /// The folder of one device; `None` for a name that could point outside the folder.
    folder: fn(&str) -> Option<String>,
}

const FOLDERS: &[Folders] = &[
    Folders {
        device: Device::Interface,
        pattern: "/sys/class/net/*",
        folder: |place| is_name(place).then(|| format!("/sys/class/net/{place}")),
    },
    Folders {
        device: Device::ReceiveQueue,
        pattern: "/sys/class/net/*/queues/rx-*",
        folder: |place| queue(place, "rx-"),
    },
    Folders {
        device: Device::TransmitQueue,
        pattern: "/sys/class/net/*/queues/tx-*",
        folder: |place| queue(place, "tx-"),
    },
    Folders {
        device: Device::Disk,
        pattern: "/sys/block/*",
        folder: |place| is_name(place).then(|| format!("/sys/block/{place}")),
    },
    Folders {
        device: Device::Cpu,
        pattern: "/sys/devices/system/cpu/cpu[0-9]*",
        folder: |place| is_numbered(place, "cpu", "").then(|| format!("/sys/devices/system/cpu/{place}")),
    },
    Folders {
        device: Device::ThpSize,
        pattern: "/sys/kernel/mm/transparent_hugepage/hugepages-*",
        folder: |place| {
            let is_size = is_numbered(place, "hugepages-", "kB");
            is_size.then(|| format!("/sys/kernel/mm/transparent_hugepage/{place}"))
        },
    },
    Folders {
        device: Device::FrequencyPolicy,
        pattern: "/sys/devices/system/cpu/cpufreq/policy*",
        folder: |place| is_numbered(place, "policy", "").then(|| format!("/sys/devices/system/cpu/cpufreq/{place}")),
    },
];

fn folders(device: Device) -> Result<&'static Folders, String> {
    let found = FOLDERS.iter().find(|folders| folders.device == device);
    found.ok_or_else(|| "the boot script cannot find such devices".to_owned())
}

fn is_name(name: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"_-.:@!".contains(&byte);
    !name.is_empty() && name != "." && name != ".." && name.bytes().all(plain)
}

/// Whether a name consists of `before`, digits and `after`.
fn is_numbered(name: &str, before: &str, after: &str) -> bool {
    let digits = name.strip_prefix(before).and_then(|rest| rest.strip_suffix(after));
    digits.is_some_and(|digits| !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit()))
}

fn queue(place: &str, before: &str) -> Option<String> {
    let (nic, queue) = place.split_once('/')?;
    (is_name(nic) && is_numbered(queue, before, "")).then(|| format!("/sys/class/net/{nic}/queues/{queue}"))
}

/// The interface and the name of the interrupt that currently has this number.
fn interrupt<'a>(context: &PersistContext<'a>, number: &str) -> Result<(&'a str, &'a str), String> {
    let of_nic = |nic: &'a Nic| nic.irqs.iter().map(move |irq| (nic, irq));
    let (nic, irq) = context
        .facts
        .network
        .hardware()
        .flat_map(of_nic)
        .find(|(_, irq)| irq.number.to_string() == number)
        .ok_or_else(|| {
            format!("interrupt {number} belongs to no known network interface, and interrupt numbers change at a boot")
        })?;
    if nic.irqs.iter().filter(|other| other.name == irq.name).count() > 1 {
        return Err(format!(
            "{} has several interrupts named {:?}, and their numbers can change at boot",
            nic.name, irq.name
        ));
    }
    let is_plain = |text: &str| !text.is_empty() && text.bytes().all(|byte| (b' '..=b'~').contains(&byte));
    if !is_plain(&nic.name) || !is_plain(&irq.name) {
        return Err(format!("the boot script cannot search for the name {:?}", irq.name));
    }
    Ok((&nic.name, &irq.name))
}

/// The complete script, with only the functions that its calls need.
fn script(calls: &str) -> String {
    let has = |function: &str| calls.lines().any(|line| line.split(' ').next() == Some(function));
    let parts: [(&[&str], &str); 5] = [
        (&["each"], EACH),
        (&["first"], FIRST),
        (&["serve", "serve_all"], boot_irqs::INTERRUPTS),
        (&["serve"], boot_irqs::SERVE),
        (&["serve_all"], boot_irqs::SERVE_ALL),
    ];
    let needed = parts.iter().filter(|(functions, _)| functions.iter().any(|function| has(function)));
    let text: String = needed.map(|(_, body)| *body).collect();
    let text = format!("#!/bin/sh\n{HEAD}{BASE}{text}");
    format!("{text}\n{calls}\nexit \"$failed\"\n")
}

/// The beginning of every script.
/// The script writes each value at once: the shell's `printf` writes such a short text in one call.
const BASE: &str = r##"#
# Settings that only the running kernel knows; evenkeel-settings.service runs this at each boot. A value that did not take effect is reported,
# and the rest is set all the same.
LC_ALL=C
export LC_ALL
failed=0

miss() {
    echo "evenkeel: $*" >&2
    failed=1
}

# shown FILE: its text on one line, with single spaces.
shown() {
    text=$(tr -s '[:space:]' ' ' <"$1") 2>/dev/null || return
    text=${text# }
    printf '%s' "${text% }"
}

# digits MASK: without commas and leading zeros, however many CPUs the kernel was built for.
digits() {
    printf '%s' "$1" | tr -d ',' | sed 's/^0*\(.\)/\1/'
}

# put KIND FILE VALUE: writes it and reads it back: as it is, as the word in brackets, or as a mask.
put() {
    if ! (printf '%s\n' "$3" >"$2") 2>/dev/null; then
        miss "$2: writing $3 was refused"
        return
    fi
    now=$(shown "$2")
    case $1/$now in
        mask/*) [ "$(digits "$now")" = "$(digits "$3")" ] && return ;;
        "$1/$3") return ;;
        "$1/[$3]" | "$1/[$3] "* | *" [$3]" | *" [$3] "*) return ;;
    esac
    miss "$2: $3 was written, and it reads $now"
}
"##;

const EACH: &str = r##"
# is_hardware FILE: whether it is there, and its device is more than software.
is_hardware() {
    [ -e "$1" ] || return
    case $1 in
        /sys/class/net/*)
            device=${1#/sys/class/net/}
            [ -e "/sys/class/net/${device%%/*}/device" ]
            ;;
        /sys/block/*)
            device=${1#/sys/block/}
            case ${device%%/*} in
                *[!a-zA-Z0-9]* | loop[0-9]* | ram[0-9]* | zram[0-9]* | md[0-9]* | sr[0-9]* | fd[0-9]* | nbd[0-9]*) return 1 ;;
            esac
            ;;
    esac
}

# each KIND VALUE FILE...: puts it into the file of each device.
each() {
    kind=$1
    value=$2
    shift 2
    any=
    for file; do
        is_hardware "$file" || continue
        any=1
        put "$kind" "$file" "$value"
    done
    [ -n "$any" ] || miss "$1: no device has it"
}
"##;

const FIRST: &str = r##"
# first VALUE FILE...: puts it into the first of the files that this kernel has.
first() {
    value=$1
    shift
    for file; do
        if [ -e "$file" ]; then
            put plain "$file" "$value"
            return
        fi
    done
    miss "this kernel has none of $*"
}
"##;
