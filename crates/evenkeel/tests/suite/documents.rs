//! Every link in the documents must lead to a file and a heading that exist,
//! and the documentation site must list every page.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use crate::rules::{files, project, read};

/// The pages in docs/ and in the project's root folder.
fn pages() -> Vec<PathBuf> {
    let mut pages = files(&project().join("docs"), "md");
    for entry in std::fs::read_dir(project()).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|end| end == "md") {
            pages.push(path);
        }
    }
    for page in ["hosts/README.md", "lab/README.md"] {
        pages.push(project().join(page));
    }
    pages
}

/// The lines of a page outside of code blocks.
fn prose(text: &str) -> Vec<&str> {
    let mut is_code = false;
    let is_prose = |line: &&str| {
        let is_fence = line.trim_start().starts_with("```");
        is_code ^= is_fence;
        !is_code && !is_fence
    };
    text.lines().filter(is_prose).collect()
}

/// The targets of a page's links, in both Markdown syntaxes.
fn targets(text: &str) -> Vec<String> {
    let mut targets = Vec::new();
    // The text of a link may span two lines, and may contain code.
    let whole = prose(text).join("\n");
    for rest in whole.split("](").skip(1) {
        let target = rest.split([')', ' ']).next().unwrap_or_default();
        targets.push(target.to_owned());
    }
    for line in prose(text) {
        if let Some((name, target)) = line.split_once("]: ")
            && name.starts_with('[')
        {
            targets.push(target.trim().to_owned());
        }
    }
    targets
}

/// The anchors of a page's headings, as GitHub and mdBook create them.
fn anchors(text: &str) -> BTreeSet<String> {
    let mut seen: BTreeMap<String, usize> = BTreeMap::new();
    let mut anchors = BTreeSet::new();
    for line in prose(text) {
        let title = line.trim_start_matches('#');
        if !line.starts_with('#') || !title.starts_with(' ') {
            continue;
        }
        let anchor = anchor(title);
        let count = seen.entry(anchor.clone()).or_default();
        anchors.insert(if *count == 0 { anchor } else { format!("{anchor}-{count}") });
        *count += 1;
    }
    anchors
}

fn anchor(title: &str) -> String {
    let kept = title.trim().chars().filter(|letter| letter.is_alphanumeric() || [' ', '-', '_'].contains(letter));
    kept.map(|letter| if letter == ' ' { '-' } else { letter.to_ascii_lowercase() }).collect()
}

/// The error of a link on `page`. `None` if the link is valid.
fn broken(page: &Path, target: &str) -> Option<String> {
    if target.contains("://") || target.starts_with("mailto:") {
        return None;
    }
    let (file, anchor) = target.split_once('#').unwrap_or((target, ""));
    let path = if file.is_empty() { page.to_owned() } else { page.parent().unwrap().join(file) };
    if !path.exists() {
        return Some(format!("no file {file}"));
    }
    // An anchor in a source file is a line number.
    let is_page = path.extension().is_some_and(|end| end == "md");
    (is_page && !anchor.is_empty() && !anchors(&read(&path)).contains(anchor)).then(|| format!("no heading #{anchor}"))
}

#[test]
fn every_link_leads_somewhere() {
    let (mut seen, mut wrong) = (0, Vec::new());
    for page in pages() {
        for target in targets(&read(&page)) {
            seen += 1;
            let name = page.strip_prefix(project()).unwrap().display();
            wrong.extend(broken(&page, &target).map(|why| format!("{name}: {target}: {why}")));
        }
    }
    assert!(wrong.is_empty(), "{} of {seen} links:\n{}", wrong.len(), wrong.join("\n"));
    assert!(seen > 250, "only {seen} links were found");
}

#[test]
fn links_and_headings_are_read_as_markdown_has_them() {
    let text = "# A `b` & c_d\n\nSee [`x`](y.md#z), [two\nwords](q.md).\n\n```sh\n# no heading\n[no](link)\n```\n\n# A b  c_d\n[r]: s.md\n";
    assert_eq!(targets(text), ["y.md#z", "q.md", "s.md"]);
    let expected = ["a-b--c_d", "a-b--c_d-1"];
    assert_eq!(anchors(text), expected.map(str::to_owned).into());
    let folder = tempfile::tempdir().unwrap();
    let page = folder.path().join("page.md");
    std::fs::write(&page, text).unwrap();
    assert_eq!(broken(&page, "#a-b--c_d"), None);
    assert_eq!(broken(&page, "https://example.org/x"), None);
    assert_eq!(broken(&page, "gone.md").unwrap(), "no file gone.md");
    assert_eq!(broken(&page, "page.md#gone").unwrap(), "no heading #gone");
}

/// The tests of the command lines in the documents read line by line.
/// The page of commands is generated from help texts, which wrap.
#[test]
fn no_code_in_a_line_goes_on_in_the_next_one() {
    for page in pages().iter().filter(|page| !page.ends_with("docs/commands.md")) {
        for line in prose(&read(page)) {
            let ends = line.matches('`').count() % 2 == 0;
            assert!(ends, "{}: its code continues in the next line: {line}", page.display());
        }
    }
}

/// The list of the site must contain every page. Otherwise nobody finds the page.
#[test]
fn the_site_has_every_page() {
    let docs = project().join("docs");
    let listed: BTreeSet<PathBuf> =
        targets(&read(&docs.join("SUMMARY.md"))).iter().map(|target| docs.join(target)).collect();
    for page in files(&docs, "md").into_iter().filter(|page| !page.ends_with("SUMMARY.md")) {
        assert!(listed.contains(&page), "docs/SUMMARY.md does not list {}", page.display());
    }
    let findings = docs.join("findings");
    let index = targets(&read(&findings.join("README.md")));
    for page in files(&findings, "md").into_iter().filter(|page| !page.ends_with("README.md")) {
        let name = page.file_name().unwrap().to_str().unwrap();
        assert!(index.iter().any(|target| target == name), "docs/findings/README.md does not list {name}");
    }
}
