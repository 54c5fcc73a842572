//! The libraries are ready for a registry:
//! each package contains the sources, a README and the licences, and nothing else.
//! `deploy/dist/crates.sh` also builds the packaged sources, which takes minutes.

use std::collections::BTreeSet;
use std::process::Command;

use serde_json::Value;

use crate::rules::{files, project, read};

/// The folders of the libraries, in the order of publication.
const LIBRARIES: [&str; 3] = ["sys", "stats", "rt"];
/// The categories of the registry that a library of this project uses.
const CATEGORIES: [&str; 5] = ["concurrency", "game-development", "mathematics", "os::linux-apis", "science"];

fn cargo(arguments: &[&str]) -> String {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(cargo).args(arguments).args(["--offline", "--locked"]).current_dir(project()).output();
    let output = output.unwrap();
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// The packages of the workspace: the folder and the metadata of each.
fn packages() -> Vec<(&'static str, Value)> {
    let all: Value = serde_json::from_str(&cargo(&["metadata", "--no-deps", "--format-version", "1"])).unwrap();
    let of = |folder: &&'static str| {
        let name = format!("evenkeel-{folder}");
        (*folder, all["packages"].as_array().unwrap().iter().find(|package| package["name"] == *name).unwrap().clone())
    };
    LIBRARIES.iter().map(of).collect()
}

fn words(list: &Value) -> Vec<&str> {
    list.as_array().unwrap().iter().map(|word| word.as_str().unwrap()).collect()
}

/// Whether a package may contain this file. Cargo itself adds the files of `own`.
fn belongs(file: &str) -> bool {
    let own = [".cargo_vcs_info.json", "Cargo.lock", "Cargo.toml", "Cargo.toml.orig"];
    let ours = ["README.md", "LICENSE-APACHE", "LICENSE-MIT"];
    let is_source = (file.starts_with("src/") || file.starts_with("examples/")) && file.ends_with(".rs");
    own.contains(&file) || ours.contains(&file) || is_source
}

#[test]
fn a_package_has_its_sources_and_nothing_that_does_not_belong() {
    for folder in LIBRARIES {
        let list = cargo(&["package", "--list", "--allow-dirty", "-p", &format!("evenkeel-{folder}")]);
        let packaged: BTreeSet<&str> = list.lines().collect();
        for file in &packaged {
            assert!(belongs(file), "{folder}: the package has {file}");
        }
        for file in ["README.md", "LICENSE-APACHE", "LICENSE-MIT", "Cargo.toml"] {
            assert!(packaged.contains(file), "{folder}: the package lacks {file}");
        }
        let at = project().join("crates").join(folder);
        for source in files(&at.join("src"), "rs") {
            let file = source.strip_prefix(&at).unwrap().to_str().unwrap();
            assert!(packaged.contains(file), "{folder}: the package lacks {file}");
        }
        for licence in ["LICENSE-APACHE", "LICENSE-MIT"] {
            assert_eq!(read(&at.join(licence)), read(&project().join(licence)), "{folder}: {licence}");
        }
    }
}

#[test]
fn a_manifest_has_what_a_registry_asks_for() {
    for (folder, package) in packages() {
        assert_eq!(package["readme"], "README.md", "{folder}");
        assert!(package["description"].as_str().is_some_and(|text| text.len() > 20), "{folder}");
        let keywords = words(&package["keywords"]);
        assert!((1..=5).contains(&keywords.len()), "{folder}: {keywords:?}");
        for keyword in keywords {
            let is_plain = keyword.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-');
            assert!(keyword.len() <= 20 && is_plain, "{folder}: {keyword}");
        }
        let categories = words(&package["categories"]);
        assert!((1..=5).contains(&categories.len()), "{folder}: {categories:?}");
        for category in categories {
            assert!(CATEGORIES.contains(&category), "{folder}: the registry has no category {category}");
        }
        assert!(package["metadata"]["docs"]["rs"]["all-features"] == true, "{folder}");
    }
}

/// A dependency on a crate of this workspace must name this version.
/// A dev-dependency has no version, so that cargo leaves it out of the package.
#[test]
fn dependencies_within_the_workspace_have_this_version() {
    let mut seen = 0;
    for (folder, package) in packages() {
        let version = package["version"].as_str().unwrap();
        for dependency in package["dependencies"].as_array().unwrap() {
            let name = dependency["name"].as_str().unwrap();
            if !name.starts_with("evenkeel-") {
                continue;
            }
            let expected = if dependency["kind"] == "dev" { "*".to_owned() } else { format!("^{version}") };
            assert_eq!(dependency["req"], expected, "{folder} needs {name}");
            seen += 1;
        }
    }
    assert!(seen >= 5, "{seen} dependencies");
}

#[test]
fn a_readme_names_every_feature_and_the_oldest_rust() {
    for (folder, package) in packages() {
        let readme = read(&project().join("crates").join(folder).join("README.md"));
        for feature in package["features"].as_object().unwrap().keys() {
            assert!(feature == "default" || readme.contains(&format!("| `{feature}`")), "{folder}: feature {feature}");
        }
        let rust = package["rust_version"].as_str().unwrap();
        assert!(readme.contains(&format!("Rust {rust} or later")), "{folder}: the README does not name Rust {rust}");
        // A relative link in a README does not work on the registry's page.
        let links = readme.split("](").skip(1).filter_map(|rest| rest.split(')').next());
        let relative: Vec<&str> = links.filter(|link| !link.contains("://")).collect();
        assert!(relative.is_empty(), "{folder}: {relative:?}");
    }
}
