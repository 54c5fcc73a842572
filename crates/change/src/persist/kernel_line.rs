//! Persists kernel arguments, with one method for each boot loader.
//!
//! evenkeel adds arguments and changes none.
//! If another owner has set an argument of the same name, that argument stays, and evenkeel reports it.
//! Adding our argument would not help. For some arguments both values count, and for others only the last value.
//! And nobody would remember the arguments of each boot entry.

use std::fmt::Write;

use evenkeel_host::facts::BootLoader;
use evenkeel_host::{Place, Setting, TakesEffect};

use super::boot_files::{self, Obstacle};
use super::grub_defaults::LINUX;
use super::recipe::{HEAD, PersistContext, Recipe, refuse};
use crate::arguments;
use crate::persist_plan::{Carried, Content, PersistPlan, PersistedCommand, PersistedFile};

/// GRUB reads this file after `/etc/default/grub` and after the cloud image's `50-cloudimg-settings.cfg`.
const GRUB_DROP_IN: &str = "/etc/default/grub.d/90-evenkeel.cfg";

pub(super) const RECIPE: Recipe = Recipe { takes: |setting| name(setting).is_some(), plan };

fn name(setting: &Setting) -> Option<&'static str> {
    match setting.knob.place {
        Place::KernelArgument { name } => Some(name),
        _ => None,
    }
}

fn plan(context: &PersistContext<'_>, settings: &[&Setting]) -> PersistPlan {
    let mut plan = PersistPlan::default();
    let mut arguments: Vec<(&Setting, String)> = Vec::new();
    for (at, setting) in settings.iter().enumerate() {
        let Some(name) = name(setting) else { continue };
        if settings[at + 1..].iter().any(|later| self::name(later) == Some(name)) {
            continue;
        }
        let argument = format!("{name}={}", setting.value);
        if !is_plain(&argument) {
            let why = "its value has characters that are special for boot loaders and shells";
            plan.cannot.push(refuse(setting, why, format!("add {argument:?} to the kernel command line yourself")));
        } else if let Some(other) = others(context, name, &argument) {
            plan.cannot.push(refuse(
                setting,
                format!("this kernel was started with {other}, which evenkeel did not set"),
                format!(
                    "remove {other} from the boot loader's configuration, or reboot if it is already removed; then \
                    apply {setting} again"
                ),
            ));
        } else if let Some(obstacle) = in_image(context, &argument) {
            let (why, todo) = words_of(&obstacle, &argument);
            plan.cannot.push(refuse(setting, why, format!("{todo}; then run this again")));
        } else {
            arguments.push((setting, argument));
        }
    }
    if !arguments.is_empty() {
        by_loader(context, &arguments, &mut plan);
    }
    plan
}

fn by_loader(context: &PersistContext<'_>, arguments: &[(&Setting, String)], plan: &mut PersistPlan) {
    match context.facts.boot.loader.known() {
        Some(BootLoader::GrubDropIns) => grub_drop_in(arguments, plan),
        Some(BootLoader::Grubby) if context.is_image => entries(context, arguments, plan),
        Some(BootLoader::Grubby) => grubby(context, arguments, plan),
        loader => {
            for (setting, argument) in arguments {
                let (why, todo) = by_hand(context, loader, argument);
                plan.cannot.push(refuse(setting, why, todo));
            }
        }
    }
}

/// Characters that have no special meaning for a shell, GRUB or systemd, even without quotes.
fn is_plain(argument: &str) -> bool {
    argument.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._-=,:+/@".contains(&byte))
}

/// An argument of the same name that another owner passed to the running kernel.
/// An argument with the same value does no harm.
fn others<'a>(context: &PersistContext<'a>, name: &str, argument: &str) -> Option<&'a str> {
    // A mounted image may contain the /proc of the build machine.
    let booted = context.facts.kernel.command_line.known().filter(|_| !context.is_image)?;
    booted
        .iter()
        .take_while(|other| !arguments::is_end(other))
        .filter(|other| arguments::is_same_name(other, name))
        .find(|other| *other != argument && !context.own_arguments.contains(other))
        .map(String::as_str)
}

/// What prevents an argument from taking effect on a machine that boots from the image.
fn in_image<'a>(context: &PersistContext<'a>, argument: &str) -> Option<Obstacle<'a>> {
    if context.is_image { boot_files::obstacle(context, argument, GRUB_DROP_IN) } else { None }
}

/// Why evenkeel refuses an argument, and what to do.
fn words_of(obstacle: &Obstacle<'_>, ours: &str) -> (String, String) {
    match obstacle {
        Obstacle::Other { argument, origin } => (
            format!("{origin} of the image gives the kernel {argument}, which evenkeel did not add"),
            format!("remove {argument} from {}", origin.path),
        ),
        Obstacle::Ended(origin) => (
            format!(
                "{origin} of the image has the word `--` before evenkeel's argument: the kernel passes all words \
                    after it to init"
            ),
            format!("remove `--` from {}, or move it behind the kernel arguments", origin.path),
        ),
        Obstacle::Replaced(origin) => (
            format!("{origin} of the image sets {LINUX} again after {GRUB_DROP_IN}, which drops {ours}"),
            format!(
                "start its value with ${LINUX} and a space, or rename the file so that it is read before \
                    {GRUB_DROP_IN}"
            ),
        ),
        Obstacle::Closed { path, why } => (
            format!("evenkeel cannot add an argument to {path} of the image: {why}"),
            format!("correct {path}, or remove it if nothing boots with it"),
        ),
    }
}

/// Writes the drop-in for GRUB. `update-grub` runs such files as shell scripts.
/// Each line adds one argument to the earlier arguments.
///
/// Use `GRUB_CMDLINE_LINUX` and not `…_DEFAULT`, because recovery entries lack the latter.
/// A kernel that needs an argument to run well needs it in recovery too.
fn grub_drop_in(arguments: &[(&Setting, String)], plan: &mut PersistPlan) {
    let mut text = HEAD.to_owned();
    for (setting, argument) in arguments {
        // Writing to a String cannot fail.
        let _ = writeln!(text, "GRUB_CMDLINE_LINUX=\"$GRUB_CMDLINE_LINUX {argument}\"");
        plan.carried.push(carried(setting, GRUB_DROP_IN));
    }
    plan.files.push(PersistedFile { path: GRUB_DROP_IN.to_owned(), content: Content::Whole { text, mode: 0o644 } });
    plan.commands.push(PersistedCommand {
        argv: vec!["update-grub".to_owned()],
        undo: vec!["update-grub".to_owned()],
        after: vec![GRUB_DROP_IN.to_owned()],
        why: "writes GRUB's menu again, with the arguments in each entry".to_owned(),
        only_booted: false,
    });
}

/// `grubby` changes every entry, and the source of arguments for future kernels.
/// evenkeel has no file of its own there, so each argument is a command.
/// An argument that the kernel already has from another owner gets no command,
/// because the undo would remove the other owner's argument.
fn grubby(context: &PersistContext<'_>, arguments: &[(&Setting, String)], plan: &mut PersistPlan) {
    let booted = context.facts.kernel.command_line.known().map(Vec::as_slice).unwrap_or_default();
    for (setting, argument) in arguments {
        if booted.contains(argument) && !context.own_arguments.contains(argument) {
            plan.carried.push(Carried {
                setting: setting.to_string(),
                by: "the boot loader, which already passes it".to_owned(),
                takes_effect: TakesEffect::AtOnce,
            });
            continue;
        }
        let argv = |option: &str| {
            vec!["grubby".to_owned(), "--update-kernel=ALL".to_owned(), format!("--{option}={argument}")]
        };
        plan.carried.push(carried(setting, &argv("args").join(" ")));
        plan.commands.push(PersistedCommand {
            argv: argv("args"),
            undo: argv("remove-args"),
            after: Vec::new(),
            why: format!("every boot entry gets {argument}"),
            only_booted: true,
        });
    }
}

/// Nobody runs `grubby` in an image. So evenkeel edits the entries, and the source for entries of future kernels.
fn entries(context: &PersistContext<'_>, arguments: &[(&Setting, String)], plan: &mut PersistPlan) {
    let paths: Vec<&String> = boot_files::entries(context).map(|file| &file.path).collect();
    if paths.is_empty() {
        for (setting, argument) in arguments {
            let why = "the image has no boot entries yet: its first boot or its build tool creates them";
            let todo = format!(
                "give {argument} to that tool, or run on the machine: grubby --update-kernel=ALL --args={argument}"
            );
            plan.cannot.push(refuse(setting, why, todo));
        }
        return;
    }
    let words: Vec<String> = arguments.iter().map(|(_, argument)| argument.clone()).collect();
    for path in &paths {
        let content = Content::KernelArguments { arguments: words.clone() };
        plan.files.push(PersistedFile { path: (*path).clone(), content });
    }
    plan.carried.extend(arguments.iter().map(|(setting, _)| carried(setting, paths[0])));
}

fn carried(setting: &Setting, by: &str) -> Carried {
    Carried { setting: setting.to_string(), by: by.to_owned(), takes_effect: TakesEffect::Reboot }
}

fn by_hand(context: &PersistContext<'_>, loader: Option<&BootLoader>, argument: &str) -> (String, String) {
    let (why, todo) = match loader {
        Some(BootLoader::Grub) => (
            "GRUB reads only /etc/default/grub here, a shell script that evenkeel does not edit",
            format!("add {argument} to GRUB_CMDLINE_LINUX in it, then run: grub-mkconfig -o /boot/grub/grub.cfg"),
        ),
        Some(BootLoader::GrubLegacy) => (
            "a GRUB before 2 starts this machine, and evenkeel does not edit its grub.conf",
            format!("add {argument} to the kernel lines of /boot/grub/grub.conf"),
        ),
        Some(BootLoader::SystemdBoot) => (
            "systemd-boot starts this machine, and each distribution creates its entries in another way",
            format!(
                "run kernelstub --add-options {argument} if kernelstub exists; else add it to /etc/kernel/cmdline \
                    and run: kernel-install add \"$(uname -r)\" \"/lib/modules/$(uname -r)/vmlinuz\""
            ),
        ),
        Some(BootLoader::Uki) => (
            "the arguments are part of a unified kernel image, which may be signed",
            format!(
                "add {argument} to /etc/kernel/cmdline, build the image again with ukify or kernel-install, and \
                    sign it"
            ),
        ),
        Some(BootLoader::Ostree) => {
            ("ostree creates the boot entries", format!("rpm-ostree kargs --append={argument}"))
        }
        Some(BootLoader::None) => (
            "this root has no boot loader: whoever starts the machine passes the kernel its arguments",
            format!("add {argument} to the definition of the machine: the microVM's boot_args, or QEMU's -append"),
        ),
        _ => {
            let why = context.facts.boot.loader.unknown_why().unwrap_or("nothing shows it");
            let why = format!("evenkeel does not know which boot loader starts this machine: {why}");
            return (why, format!("run it as root; else add {argument} to the kernel command line yourself"));
        }
    };
    (why.to_owned(), todo)
}
