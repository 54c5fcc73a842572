//! Every public type, function and method of the library appears in an example that runs. So a reader never has to guess how to call it.
//!
//! An example is a code block that the documentation tests run: in the comments of this crate, of its re-exports, or in docs/rt.md.
//! A type has an example if its name appears in an example, or if its own comment has one.
//! A function or method has an example that calls it, and that is in the same file or names its type.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use syn::{ImplItem, Item, Type, UseTree, Visibility};

/// A code block that runs.
struct Example {
    file: PathBuf,
    code: String,
}

/// Something that a user of the library can name.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Public {
    file: PathBuf,
    /// The type that a method belongs to.
    of: Option<String>,
    name: String,
    is_call: bool,
}

fn project() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

fn sources(folder: &Path) -> BTreeMap<PathBuf, String> {
    let mut folders = vec![folder.to_owned()];
    let mut found = BTreeMap::new();
    while let Some(folder) = folders.pop() {
        for path in std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
            if path.is_dir() {
                folders.push(path);
            } else {
                found.insert(path.clone(), std::fs::read_to_string(path).unwrap());
            }
        }
    }
    found
}

/// The code blocks of a Markdown text that documentation tests run.
fn blocks(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut block: Option<(bool, String)> = None;
    for line in text.lines() {
        match (line.trim_start().strip_prefix("```"), block.as_mut()) {
            (Some(_), Some(_)) => found.extend(block.take().filter(|(runs, _)| *runs).map(|(_, code)| code)),
            (Some(language), None) => block = Some((matches!(language, "" | "rust"), String::new())),
            (None, Some((_, code))) => {
                code.push_str(line);
                code.push('\n');
            }
            (None, None) => {}
        }
    }
    found
}

/// The documentation comments (`///` and `//!`) of a source file, without their slashes.
fn documentation(source: &str) -> String {
    let comment = |line: &str| {
        let line = line.trim_start();
        let text = line.strip_prefix("///").or_else(|| line.strip_prefix("//!"))?;
        Some(format!("{}\n", text.strip_prefix(' ').unwrap_or(text)))
    };
    source.lines().filter_map(comment).collect()
}

/// Whether a word is in the code, preceded by an element of `before` and followed by one of `after`.
fn has(code: &str, word: &str, before: &[&str], after: &[&str]) -> bool {
    code.match_indices(word).any(|(at, _)| {
        let (head, tail) = (&code[..at], &code[at + word.len()..]);
        let is_part = |c: Option<char>| c.is_some_and(|c| c.is_alphanumeric() || c == '_');
        !is_part(head.chars().next_back())
            && !is_part(tail.chars().next())
            && (before.is_empty() || before.iter().any(|before| head.trim_end().ends_with(before)))
            && (after.is_empty() || after.iter().any(|after| tail.starts_with(after)))
    })
}

fn is_public(visibility: &Visibility) -> bool {
    matches!(visibility, Visibility::Public(_))
}

fn has_own_example(attributes: &[syn::Attribute]) -> bool {
    let texts = attributes.iter().filter(|attribute| attribute.path().is_ident("doc")).filter_map(|attribute| {
        let syn::Meta::NameValue(value) = &attribute.meta else { return None };
        let syn::Expr::Lit(literal) = &value.value else { return None };
        let syn::Lit::Str(text) = &literal.lit else { return None };
        let text = text.value();
        Some(format!("{}\n", text.strip_prefix(' ').unwrap_or(&text)))
    });
    !blocks(&texts.collect::<String>()).is_empty()
}

/// The public items of a file, except types with an example in their own comment. If `only` is given, only its names count.
fn public(file: &Path, source: &str, only: Option<&BTreeSet<String>>) -> Vec<Public> {
    let counts = |name: &str| only.is_none_or(|only| only.contains(name));
    let mut found = Vec::new();
    let parsed = syn::parse_file(source).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
    let mut items: Vec<&Item> = parsed.items.iter().collect();
    while let Some(item) = items.pop() {
        let mut named = |name: &syn::Ident, of: Option<&str>, is_call: bool| {
            found.push(Public {
                file: file.to_owned(),
                of: of.map(str::to_owned),
                name: name.to_string().trim_start_matches("r#").to_owned(),
                is_call,
            });
        };
        let (name, attributes, visibility, is_call) = match item {
            Item::Struct(it) => (&it.ident, &it.attrs, &it.vis, false),
            Item::Enum(it) => (&it.ident, &it.attrs, &it.vis, false),
            Item::Trait(it) => (&it.ident, &it.attrs, &it.vis, false),
            Item::Type(it) => (&it.ident, &it.attrs, &it.vis, false),
            Item::Fn(it) => (&it.sig.ident, &it.attrs, &it.vis, true),
            Item::Impl(it) if it.trait_.is_none() => {
                let Type::Path(path) = &*it.self_ty else { continue };
                let of = path.path.segments.last().unwrap().ident.to_string();
                for one in it.items.iter().filter(|_| counts(&of)) {
                    if let ImplItem::Fn(function) = one
                        && is_public(&function.vis)
                    {
                        named(&function.sig.ident, Some(&of), true);
                    }
                }
                continue;
            }
            Item::Mod(it) => {
                let is_test = it.attrs.iter().any(|attribute| attribute.path().is_ident("cfg"));
                if let (false, Some((_, inner))) = (is_test, &it.content) {
                    items.extend(inner);
                }
                continue;
            }
            _ => continue,
        };
        if is_public(visibility) && counts(&name.to_string()) && (is_call || !has_own_example(attributes)) {
            named(name, None, is_call);
        }
    }
    found
}

/// The names in a `use`, each with the modules on the way to it.
fn names(tree: &UseTree, before: &[String], found: &mut Vec<(Vec<String>, String)>) {
    match tree {
        UseTree::Path(path) => names(&path.tree, &[before, &[path.ident.to_string()]].concat(), found),
        UseTree::Name(name) => found.push((before.to_owned(), name.ident.to_string())),
        UseTree::Group(group) => group.items.iter().for_each(|tree| names(tree, before, found)),
        UseTree::Rename(_) | UseTree::Glob(_) => panic!("a re-export is renamed or a glob: teach this test to read it"),
    }
}

/// The library's re-exports from the crates below it.
fn re_exported(own: &BTreeMap<PathBuf, String>, below: &BTreeMap<PathBuf, String>) -> Vec<Public> {
    let mut named = Vec::new();
    for source in own.values() {
        for item in syn::parse_file(source).unwrap().items {
            if let Item::Use(it) = item
                && is_public(&it.vis)
            {
                names(&it.tree, &[], &mut named);
            }
        }
    }
    let mut found = Vec::new();
    for (path, name) in named {
        let Some(package) = path.first().and_then(|first| first.strip_prefix("evenkeel_")) else { continue };
        // A module of that name, as a file or a folder. For a type, this covers the modules that lead to the type.
        let module = project().join("crates").join(package).join("src").join(path[1..].join("/"));
        let is_module = name.starts_with(char::is_lowercase) && below.contains_key(&module.join(format!("{name}.rs")));
        let only = BTreeSet::from([name.clone()]);
        for (file, source) in below {
            if is_module && *file == module.join(format!("{name}.rs")) {
                found.extend(public(file, source, None));
            } else if file.starts_with(&module) || *file == module.with_extension("rs") {
                found.extend(public(file, source, Some(&only)));
            }
        }
    }
    found
}

#[test]
fn everything_public_is_in_an_example_that_runs() {
    let own = sources(&project().join("crates/rt/src"));
    let mut below = sources(&project().join("crates/sys/src"));
    below.extend(sources(&project().join("crates/stats/src")));
    let mut examples = Vec::new();
    for (file, source) in own.iter().chain(&below) {
        let of_file = blocks(&documentation(source)).into_iter();
        examples.extend(of_file.map(|code| Example { file: file.clone(), code }));
    }
    let page = project().join("docs/rt.md");
    let of_page = blocks(&std::fs::read_to_string(&page).unwrap());
    examples.extend(of_page.into_iter().map(|code| Example { file: page.clone(), code }));
    assert!(examples.len() > 30, "{} examples", examples.len());

    let mut all: Vec<Public> = own.iter().flat_map(|(file, source)| public(file, source, None)).collect();
    all.extend(re_exported(&own, &below));
    assert!(all.len() > 150, "{} public names", all.len());
    let is_shown = |one: &Public| {
        examples.iter().any(|example| match (&one.of, one.is_call) {
            (_, false) => has(&example.code, &one.name, &[], &[]),
            (None, true) => has(&example.code, &one.name, &[], &["(", "::<"]),
            (Some(of), true) => {
                // Examples rarely name a builder: `T::builder()` creates it.
                let made_by = of.strip_suffix("Builder").unwrap_or(of);
                (example.file == one.file || has(&example.code, of, &[], &[]) || has(&example.code, made_by, &[], &[]))
                    && (has(&example.code, &one.name, &[".", "::"], &["(", "::<"])
                        || has(&example.code, &format!("{of}::{}", one.name), &[], &[]))
            }
        })
    };
    let missing: BTreeSet<String> = all
        .iter()
        .filter(|one| !is_shown(one))
        .map(|one| {
            let file = one.file.strip_prefix(project()).unwrap().display();
            format!("{file}: {}{}", one.of.as_ref().map(|of| format!("{of}::")).unwrap_or_default(), one.name)
        })
        .collect();
    let list = missing.iter().map(String::as_str).collect::<Vec<_>>().join("\n");
    assert!(missing.is_empty(), "no example that runs shows these {}:\n{list}", missing.len());
}
