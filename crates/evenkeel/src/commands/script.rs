//! `script`: what `apply` would do, as something to review and to run elsewhere: a shell script, user data, an Ansible role.

use std::io::Read;
use std::path::{Path, PathBuf};

use clap::ValueEnum;
use evenkeel_change::persist::Ground;
use evenkeel_change::render::{self, RenderError, RenderedFile, ToDo};
use evenkeel_change::{MAX_PLAN_BYTES, PlanFile, PlanFileError};
use evenkeel_host::{Advice, Facts, Knob, Setting, SettingError, State as Advised, advise, knobs};
use evenkeel_sys::Root;
use serde::Serialize;

use crate::args::{GoalArgs, HostArgs};
use crate::exit;
use crate::failure::{Failure, Outcome};
use crate::show::Out;

/// The longest title of a plan, in characters.
const TITLE_CHARS_MAX: usize = 200;

/// Write what `apply` would do as a script to review, and run it where this program is not
///
/// The script is one of POSIX sh. It leaves alone what is so already, keeps on disk what undoes a change before the change, reads
/// every value back, and puts all back if one did not take. As user data of cloud-init and as an Ansible role it is the same
/// script, laid down and run.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// What to set; KNOB@PLACE=VALUE for one queue or interrupt alone
    #[arg(value_name = "KNOB=VALUE", required_unless_present_any = ["advised", "plan"], conflicts_with_all = ["advised", "plan"])]
    settings: Vec<String>,
    /// Set all that `evenkeel audit` advises
    #[arg(long, conflicts_with = "plan")]
    advised: bool,
    /// Take the settings of the plan in FILE, which must be what they come to on this machine
    #[arg(long, value_name = "FILE")]
    plan: Option<PathBuf>,
    #[command(flatten)]
    goal: GoalArgs,
    /// What to write
    #[arg(long, value_enum, default_value_t)]
    format: Format,
    /// Write the script that puts back what was seen when the plan was made
    #[arg(long)]
    undo: bool,
    /// Write to FILE instead of standard output; for ansible, make the role in the folder of this name
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Make the settings outlive a boot too
    #[arg(long, conflicts_with = "plan")]
    persist: bool,
    /// With --persist: the systemd unit of the server, such as memcached.service
    #[arg(long, value_name = "UNIT", requires = "persist")]
    unit: Option<String>,
    #[command(flatten)]
    host: HostArgs,
}

/// What a plan is written as.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "kebab-case")]
enum Format {
    /// A POSIX shell script.
    #[default]
    Sh,
    /// User data for cloud-init, which runs the script at the first boot.
    CloudInit,
    /// A role for Ansible, which runs the script on the machines of an inventory.
    Ansible,
}

#[derive(Serialize)]
struct Answer {
    kind: Format,
    undoes: bool,
    settings: Vec<String>,
    files: Vec<RenderedFile>,
    todo: Vec<ToDo>,
}

pub(crate) fn run(args: &Args, out: &Out) -> Outcome {
    if args.undo && args.format != Format::Sh {
        return Err(wrong_use("--undo is written as a shell script alone")
            .hint("a role has it as a task: include_role with tasks_from: undo"));
    }
    let root = args.host.open()?;
    let facts = Facts::probe(&root);
    let plan = match &args.plan {
        Some(file) => given(args, file, &root, &facts)?,
        None => made(args, &root, &facts)?,
    };
    let files = render(args, &plan).map_err(|error| Failure::new(exit::NOT_POSSIBLE, error))?;
    let todo = if args.undo { Vec::new() } else { render::todo(&plan) };
    let answer = Answer { kind: args.format, undoes: args.undo, settings: plan.settings, files, todo };
    match (&args.output, &answer.files[..]) {
        (None, [file]) => out.answer(&answer, || file.text.clone())?,
        (None, _) => match args.format {
            Format::Ansible if !out.is_json() => {
                return Err(wrong_use("a role is a folder of files").hint("name it with --output DIR"));
            }
            _ => out.answer(&answer, String::new)?,
        },
        (Some(path), files) => {
            write(path, args.format, files)?;
            out.answer(&answer, || format!("Written: {}\n{}", path.display(), how_to_use(args.format, path)))?;
        }
    }
    Ok(exit::WELL)
}

fn wrong_use(cause: &str) -> Failure {
    Failure::text(exit::WRONG_USE, "write the plan as a script", cause)
}

fn render(args: &Args, plan: &PlanFile) -> Result<Vec<RenderedFile>, RenderError> {
    let one = |end: &str, mode, text| vec![RenderedFile { path: format!("{}{end}", render::name(plan)), mode, text }];
    match args.format {
        Format::Sh if args.undo => Ok(one("-undo.sh", 0o755, render::undo_script(plan)?)),
        Format::Sh => Ok(one(".sh", 0o755, render::script(plan)?)),
        Format::CloudInit => Ok(one(".yaml", 0o644, render::cloud_init(plan)?)),
        Format::Ansible => render::role(plan),
    }
}

/// The plan for the settings that were given or are advised.
fn made(args: &Args, root: &Root, facts: &Facts) -> Result<PlanFile, Failure> {
    let settings: Result<Vec<Setting>, SettingError> = if args.advised {
        let advice = advise(facts, &args.goal.wish()).into_iter();
        advice.filter(|advice| advice.state == Advised::Set).filter_map(setting_of).collect()
    } else {
        args.settings.iter().map(|text| Setting::parse(text)).collect()
    };
    let settings = settings.map_err(|error| Failure::text(exit::WRONG_USE, "plan the change", error))?;
    let title = if args.advised {
        format!("advised for {}", args.goal.goal)
    } else {
        let settings: Vec<String> = settings.iter().map(Setting::to_string).collect();
        settings.join(" ").chars().take(TITLE_CHARS_MAX).collect()
    };
    let plan = plan(root, facts, &settings, &title, args.persist.then_some(args.unit.as_deref()))?;
    for (index, planned) in plan.steps.iter().enumerate() {
        let step = &planned.step;
        let is_same = |before: &&evenkeel_change::PlannedStep| {
            (&before.step.knob, &before.step.place) == (&step.knob, &step.place)
        };
        if plan.steps[..index].iter().any(|before| is_same(&before)) {
            let error = format!("{} is set twice at {}", step.knob, step.place);
            return Err(Failure::text(exit::WRONG_USE, "plan the change", error));
        }
    }
    Ok(plan)
}

fn setting_of(advice: Advice) -> Option<Result<Setting, SettingError>> {
    let value = advice.wanted?;
    let setting = |knob: &'static Knob| Ok(Setting { knob, place: Some(advice.place), value: knob.check(&value)? });
    Some(knobs::find(advice.knob).and_then(setting))
}

/// `lasting` has the server's unit, where the settings are to outlive a boot.
fn plan(
    root: &Root,
    facts: &Facts,
    settings: &[Setting],
    title: &str,
    lasting: Option<Option<&str>>,
) -> Result<PlanFile, Failure> {
    // This program may not stand on the machine that the script runs on.
    let ground = lasting.map(|unit| Ground { facts, unit, program: None, is_image: false });
    let none: &[Setting] = &[];
    PlanFile::of(root, facts, settings, title, ground.as_ref().map(|ground| (ground, none)))
        .map_err(|error| Failure::new(exit::NOT_POSSIBLE, error))
}

/// The plan in a file. What it says is not taken for itself: its settings are planned anew, and must come to the same. Only
/// what undoes it is its own: the values that were seen when it was made.
fn given(args: &Args, file: &Path, root: &Root, facts: &Facts) -> Result<PlanFile, Failure> {
    let given = read(file)?;
    let settings = given.settings().map_err(failure)?;
    let unit = given.keep.as_ref().map(|lasting| lasting.unit.as_deref());
    let mut now = plan(root, facts, &settings, &given.title, unit)?;
    if args.undo {
        for (now, given) in now.steps.iter_mut().zip(&given.steps) {
            let is_along = |path: &String| given.along.iter().find(|along| along.path == *path).cloned();
            if let evenkeel_host::Action::Write { side_effects, .. } = &now.step.action {
                now.along = side_effects.iter().filter_map(is_along).collect();
            }
            now.seen.clone_from(&given.seen);
            now.already_so = given.already_so;
        }
    }
    given.agrees_with(&now).map_err(failure)?;
    Ok(now)
}

fn read(file: &Path) -> Result<PlanFile, Failure> {
    let unreadable =
        |error: &std::io::Error| Failure::io(exit::WRONG_USE, format_args!("read the plan {}", file.display()), error);
    let mut text = String::new();
    let opened = std::fs::File::open(file).map_err(|error| unreadable(&error))?;
    opened.take(MAX_PLAN_BYTES as u64 + 1).read_to_string(&mut text).map_err(|error| unreadable(&error))?;
    PlanFile::parse(&text).map_err(failure)
}

fn failure(error: PlanFileError) -> Failure {
    let exit = match error {
        PlanFileError::Text(_) | PlanFileError::Format(_) | PlanFileError::Setting(_) => exit::WRONG_USE,
        PlanFileError::Plan(_) | PlanFileError::Differs { .. } => exit::NOT_POSSIBLE,
    };
    Failure::new(exit, error)
}

fn write(path: &Path, format: Format, files: &[RenderedFile]) -> Result<(), Failure> {
    use std::os::unix::fs::PermissionsExt;
    for file in files {
        let path = if format == Format::Ansible { path.join(&file.path) } else { path.to_owned() };
        let written = (|| {
            if let (Format::Ansible, Some(folder)) = (format, path.parent()) {
                std::fs::create_dir_all(folder)?;
            }
            std::fs::write(&path, &file.text)?;
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(file.mode))
        })();
        written.map_err(|error| Failure::io(exit::NOT_POSSIBLE, format_args!("write {}", path.display()), &error))?;
    }
    Ok(())
}

fn how_to_use(format: Format, path: &Path) -> String {
    let path = path.display();
    match format {
        Format::Sh => format!("Run as root: sh {path}\n"),
        Format::CloudInit => format!("Check: cloud-init schema --config-file {path}\n"),
        Format::Ansible => format!("Use: ansible.builtin.include_role with name: {path}\n"),
    }
}
