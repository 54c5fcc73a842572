//! `evenkeel schema`: prints the JSON Schemas of the answers, and of the files that programs may read.

#[cfg(test)]
mod compatible;
mod formats;
#[cfg(test)]
mod generate;

use self::formats::{ALL, Format, Listed, SchemaList};
use crate::exit;
use crate::failure::{Failure, Outcome};
use crate::show::Out;
use crate::show::page::Page;

/// Print the JSON Schema of an answer, or list all schemas
///
/// With --json, each command prints one JSON object.
/// Its schema has the name of the command, such as `audit` or `measure-gaps`.
/// The schema `error` describes the answer of a command that failed. docs/formats.md explains the fields.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  evenkeel schema
  evenkeel schema audit")]
pub(crate) struct Args {
    /// The schema to print; without it, a list of all
    #[arg(value_name = "NAME")]
    name: Option<String>,
}

pub(crate) fn run(args: &Args, out: &Out) -> Outcome {
    match &args.name {
        None => {
            let listed = |format: &Format| Listed { name: format.name, number: format.number, title: format.title };
            let answer = SchemaList { schemas: ALL.iter().map(listed).collect() };
            out.answer(&answer, || list(&answer.schemas))?;
        }
        Some(name) => {
            let format = ALL.iter().find(|format| format.name == name).ok_or_else(|| {
                Failure::wrong_use(format!("unknown schema {name:?}")).hint("`evenkeel schema` lists the schemas")
            })?;
            let missing =
                || Failure::text(exit::NOT_POSSIBLE, "print the schema", format_args!("{name} is not in this program"));
            let text = format.text().ok_or_else(missing)?;
            out.plain(&text, || text.clone())?;
        }
    }
    Ok(exit::WELL)
}

/// The schema with this name, as JSON. Leaves out the members that only a separate schema file needs.
pub(super) fn parsed(name: &str) -> Option<serde_json::Map<String, serde_json::Value>> {
    let format = ALL.iter().find(|format| format.name == name)?;
    let mut schema: serde_json::Map<_, _> = serde_json::from_str(&format.text()?).ok()?;
    schema.remove("$schema");
    Some(schema)
}

fn list(schemas: &[Listed]) -> String {
    let mut page = Page::default();
    let names: Vec<String> = schemas.iter().map(|one| format!("{} (format {})", one.name, one.number)).collect();
    let width = names.iter().map(String::len).max().unwrap_or(0);
    for (name, one) in names.iter().zip(schemas) {
        page.term(name, width, one.title);
    }
    page.finish()
}
