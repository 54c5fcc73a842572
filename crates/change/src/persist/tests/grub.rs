//! Tests our drop-in next to files that other people wrote. `update-grub` runs all of them as shell.
//! A small evaluator of shell assignments tries many cases. A real shell checks the evaluator in some of them.

use std::collections::BTreeMap;
use std::process::Command;

use proptest::prelude::*;

use super::*;
use crate::edit::tests::cases;

type Variables = BTreeMap<String, String>;
/// The text of each file by its name; `grub` is `/etc/default/grub`.
pub(super) type Files = BTreeMap<String, String>;

/// Applies a file of assignments to variables, as a shell does. `None` if it has an unknown statement.
fn source(text: &str, variables: &mut Variables) -> Option<()> {
    for line in text.lines() {
        let line = line.trim_start();
        if line.is_empty() || line.starts_with('#') || line.starts_with("export ") {
            continue;
        }
        let (name, value) = line.split_once('=')?;
        let value = expand(value, variables)?;
        variables.insert(name.to_owned(), value);
    }
    Some(())
}

/// One word without its quotes, and with its variables expanded.
fn expand(word: &str, variables: &Variables) -> Option<String> {
    let mut out = String::new();
    let mut rest = word.chars().peekable();
    let mut is_double = false;
    while let Some(next) = rest.next() {
        match next {
            '"' => is_double = !is_double,
            '\'' if !is_double => loop {
                match rest.next()? {
                    '\'' => break,
                    inner => out.push(inner),
                }
            },
            '\\' => match rest.next()? {
                escaped if !is_double || "\"\\$`".contains(escaped) => out.push(escaped),
                other => out.extend(['\\', other]),
            },
            '$' => {
                let is_braced = rest.next_if_eq(&'{').is_some();
                let mut name = String::new();
                while let Some(letter) = rest.next_if(|next| next.is_ascii_alphanumeric() || *next == '_') {
                    name.push(letter);
                }
                if is_braced && rest.next()? != '}' {
                    return None;
                }
                match (name.is_empty(), is_braced) {
                    (true, true) => return None,
                    (true, false) => out.push('$'),
                    _ => out.push_str(variables.get(&name).map(String::as_str).unwrap_or_default()),
                }
            }
            // The word ends here. Only a comment may follow.
            ' ' | '\t' if !is_double => {
                return rest.find(|next| !next.is_whitespace()).is_none_or(|next| next == '#').then_some(out);
            }
            '`' | ';' | '&' | '|' | '(' | ')' | '<' | '>' if !is_double || next == '`' => return None,
            other => out.push(other),
        }
    }
    (!is_double).then_some(out)
}

/// Runs the files as `grub-mkconfig` of Debian does: `/etc/default/grub`, then the drop-ins by name.
pub(super) fn evaluate(files: &Files) -> Option<Variables> {
    let mut variables = Variables::new();
    source(files.get("grub")?, &mut variables)?;
    for (_, text) in files.iter().filter(|(name, _)| *name != "grub") {
        source(text, &mut variables)?;
    }
    Some(variables)
}

const PRINTED: [&str; 3] = ["GRUB_CMDLINE_LINUX", "GRUB_CMDLINE_LINUX_DEFAULT", "GRUB_TIMEOUT"];

/// The result of a real shell, for several sets of files.
/// One shell reads each set in a subshell, because starting a program takes more time than the rest of the test.
fn by_sh<const SETS: usize>(sets: [&BTreeMap<String, String>; SETS]) -> [Variables; SETS] {
    let dir = tempfile::tempdir().unwrap();
    let prints = PRINTED.map(|name| format!("printf '%s\\0' \"${{{name}-}}\"\n")).concat();
    let mut script = "set -e\n".to_owned();
    for (number, files) in sets.into_iter().enumerate() {
        let folder = dir.path().join(number.to_string());
        std::fs::create_dir(&folder).unwrap();
        for (name, text) in files {
            std::fs::write(folder.join(name), text).unwrap();
        }
        script += &format!(
            "(\ncd '{}'\n. ./grub\nfor x in *.cfg; do if [ -e \"$x\" ]; then . \"./$x\"; fi; done\n{prints})\n",
            folder.display()
        );
    }
    let output = Command::new("sh").env_clear().env("LC_ALL", "C").args(["-c", &script]).output().unwrap();
    assert!(output.status.success(), "{sets:?}: {}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).unwrap();
    let mut values = text.split('\0').map(str::to_owned);
    sets.map(|_| PRINTED.map(|name| (name.to_owned(), values.next().unwrap())).into_iter().collect())
}

/// A line that people or packages write.
fn line() -> impl Strategy<Value = String> {
    const WORDS: &[&str] = &[
        "quiet",
        "console=tty0",
        "console=ttyS0,115200n8",
        "rd.lvm.lv=vg/root",
        "rd.lvm.lv=vg/swap",
        "isolcpus=1",
        "a==b=c",
        "dyndbg=\\\"file x +p\\\"",
        "\\$vt_handoff",
        "crashkernel=384M-:128M",
        "ro",
        "",
    ];
    let words = proptest::collection::vec(proptest::sample::select(WORDS), 0..5).prop_map(|words| words.join(" "));
    let name = || proptest::sample::select(&["GRUB_CMDLINE_LINUX", "GRUB_CMDLINE_LINUX_DEFAULT"][..]);
    prop_oneof![
        3 => (name(), words.clone()).prop_map(|(name, words)| format!("{name}=\"{words}\"")),
        3 => (name(), words.clone()).prop_map(|(name, words)| format!("{name}=\"${name} {words}\"")),
        2 => (name(), words.clone()).prop_map(|(name, words)| format!("{name}=\"{words} ${{{name}}}\"  # by hand")),
        1 => (name(), words.clone()).prop_map(|(name, words)| format!("{name}='{words}'")),
        1 => (name(), words).prop_map(|(name, words)| format!("# {name}=\"{words}\"")),
        1 => Just("GRUB_CMDLINE_LINUX=\"$GRUB_CMDLINE_LINUX_DEFAULT\"".to_owned()),
        1 => Just("GRUB_CMDLINE_LINUX=net.ifnames=0".to_owned()),
        1 => Just("GRUB_TIMEOUT=5".to_owned()),
        1 => Just("export GRUB_CMDLINE_LINUX".to_owned()),
        1 => Just(String::new()),
    ]
}

/// `/etc/default/grub`, and drop-ins of other owners. GRUB reads some of these drop-ins after ours.
pub(super) fn grub_files() -> impl Strategy<Value = Files> {
    const NAMES: &[&str] =
        &["50-cloudimg-settings.cfg", "40-force-partuuid.cfg", "init-select.cfg", "README", "a.cfg.dpkg-old"];
    let text = || {
        let end = proptest::sample::select(&["\n", ""][..]);
        (proptest::collection::vec(line(), 0..6), end).prop_map(|(lines, end)| lines.join("\n") + end)
    };
    let drop_ins = proptest::collection::btree_map(proptest::sample::select(NAMES), text(), 0..4);
    (text(), drop_ins).prop_map(|(grub, drop_ins)| {
        let drop_ins = drop_ins.into_iter().filter(|(name, _)| name.ends_with(".cfg"));
        let mut files: BTreeMap<String, String> = drop_ins.map(|(name, text)| (name.to_owned(), text)).collect();
        files.insert("grub".to_owned(), grub);
        files
    })
}

fn our_settings() -> impl Strategy<Value = Vec<&'static str>> {
    const TEXTS: &[&str] = &[
        "cmdline.isolcpus=2-3,8",
        "kernel.preempt=full",
        "cmdline.idle=poll",
        "cmdline.nohz_full=2-3,8",
        "cmdline.tsc=nowatchdog",
    ];
    proptest::sample::subsequence(TEXTS, 1..=3)
        .prop_filter("that knobs take", |texts| texts.iter().all(|text| Setting::parse(text).is_ok()))
}

/// Our drop-in, and the arguments in it, in their order.
fn ours(texts: &[&str]) -> (String, String) {
    let facts = host_with("debian-12", "/proc/cmdline = ro\n");
    let plan = plan(&context(&facts), &settings(texts));
    let drop_in = match &file(&plan, "/etc/default/grub.d/90-evenkeel.cfg").unwrap().content {
        Content::Whole { text, .. } => text.clone(),
        other => panic!("{other:?}"),
    };
    let arguments = texts.iter().map(|text| {
        let setting = Setting::parse(text).unwrap();
        match setting.knob.place {
            Place::KernelArgument { name } => format!("{name}={}", setting.value),
            _ => panic!("{text}"),
        }
    });
    (drop_in, arguments.collect::<Vec<_>>().join(" "))
}

/// With our file, the line has the earlier words, then our arguments, then the words that later files add.
fn check(before: &Variables, after: &Variables, arguments: &str) -> Result<(), TestCaseError> {
    let of = |variables: &Variables, name: &str| variables.get(name).cloned().unwrap_or_default();
    for name in ["GRUB_CMDLINE_LINUX_DEFAULT", "GRUB_TIMEOUT"] {
        prop_assert_eq!(of(before, name), of(after, name));
    }
    prop_assert_eq!(format!("{} {arguments}", of(before, "GRUB_CMDLINE_LINUX")), of(after, "GRUB_CMDLINE_LINUX"));
    Ok(())
}

/// The files that are read before ours. This test ignores the effect of later files on our line.
fn until_ours(files: BTreeMap<String, String>) -> BTreeMap<String, String> {
    files.into_iter().filter(|(name, _)| name == "grub" || name.as_str() < "90-evenkeel.cfg").collect()
}

proptest! {
    #![proptest_config(cases())]

    #[test]
    fn the_line_is_what_it_was_and_then_ours(files in grub_files(), texts in our_settings()) {
        let (drop_in, arguments) = ours_of(&texts);
        let mut files = until_ours(files);
        let before = evaluate(&files).unwrap();
        files.insert("90-evenkeel.cfg".to_owned(), drop_in);
        check(&before, &evaluate(&files).unwrap(), &arguments)?;
    }
}

/// The drop-in for these settings.
/// We compute it once, because probing facts for each of 100,000 cases would take longer than the rest of the test.
fn ours_of(texts: &[&'static str]) -> (String, String) {
    use std::sync::Mutex;
    type Known = Vec<(Vec<&'static str>, (String, String))>;
    static KNOWN: Mutex<Known> = Mutex::new(Vec::new());
    let mut known = KNOWN.lock().unwrap();
    if let Some((_, found)) = known.iter().find(|(other, _)| other == texts) {
        return found.clone();
    }
    let made = ours(texts);
    known.push((texts.to_vec(), made.clone()));
    made
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_real_shell_says_the_same(files in grub_files(), texts in our_settings()) {
        let (drop_in, arguments) = ours_of(&texts);
        let before = until_ours(files.clone());
        let mut with_ours = before.clone();
        with_ours.insert("90-evenkeel.cfg".to_owned(), drop_in);
        // The shell checks the evaluator on all files.
        // It also checks our drop-in with the files that are read before our drop-in.
        let sets = [&files, &before, &with_ours];
        let results = by_sh(sets);
        for (files, results) in sets.into_iter().zip(&results) {
            let ours = evaluate(files).unwrap();
            for (name, value) in results {
                prop_assert_eq!(ours.get(name).map(String::as_str).unwrap_or_default(), value, "{} of {:?}", name, files);
            }
        }
        check(&results[1], &results[2], &arguments)?;
    }
}
