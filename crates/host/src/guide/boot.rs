//! Edits of the kernel's command line: by `sed`, by writing text to a boot loader's file, and by the tools of boot loaders.

use super::line::{Ask, Content, Skip, Target};
use super::{mentions, names, settings};

/// The maximum number of edits of one script of `sed`.
const EDITS_MAX: usize = 50;

/// Whether a file has kernel arguments for the next boot.
pub(super) fn is_file(path: &str) -> bool {
    let ends =
        ["/kernel/cmdline", "cmdline.txt", "menu.lst", "extlinux.conf", "syslinux.cfg", "grub.conf", "/default/grub"];
    ends.iter().any(|end| path.ends_with(end)) || path.contains("/default/grub.d/") || path.contains("/loader/entries/")
}

/// Whether a file has only kernel arguments.
fn is_bare(path: &str) -> bool {
    path.ends_with("cmdline") || path.ends_with("cmdline.txt")
}

/// The content of a text that is written to a file with kernel arguments.
pub(super) fn written(path: &str, text: &str) -> Content {
    let (mut asks, mut unclear) = (Vec::new(), Vec::new());
    for line in text.split(['\n']).flat_map(|line| line.split("\\n")).map(str::trim) {
        let is_line = line.starts_with("GRUB_CMDLINE") || is_bare(path) && !line.is_empty();
        let arguments = match line.split_once('=').filter(|_| line.starts_with("GRUB_CMDLINE")) {
            Some((_, arguments)) => arguments,
            None => line,
        };
        match changes("", arguments) {
            Ok(found) if is_line => asks.extend(found),
            Err(why) if is_line => unclear.push(why),
            _ => {}
        }
    }
    said(asks, unclear)
}

fn said(mut asks: Vec<Ask>, unclear: Vec<String>) -> Content {
    match (asks.is_empty(), unclear.is_empty()) {
        (true, true) => Content::NotASetting(Skip::Command),
        (true, false) => Content::not(unclear.join("; ")),
        (false, _) => {
            asks.extend(unclear.into_iter().map(Ask::not_understood));
            Content::settings(asks)
        }
    }
}

/// The setting that removes a kernel argument.
pub(super) fn without(argument: &str) -> Ask {
    Ask::new(Target::Tool(format!("without the kernel argument {argument}")), "")
}

/// The kernel arguments of a text, without arguments for the boot itself, such as the root device, and without variables.
pub(super) fn arguments(text: &str) -> Vec<Ask> {
    names::tuning_arguments(text)
}

/// The effect of replacing one text with another: the added and the removed arguments.
fn changes(old: &str, new: &str) -> Result<Vec<Ask>, String> {
    let new = plain(new);
    let added: Vec<&str> = new.split_whitespace().collect();
    let is_argument =
        |word: &str| word.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_.,:=/%@+-".contains(&byte));
    // The edit keeps the variable's present value.
    let is_kept = |word: &str| word.starts_with('$') && word.contains("CMDLINE");
    if let Some(odd) = added.iter().find(|word| !is_argument(word) && !is_kept(word)) {
        return Err(format!("{odd:?} is not a kernel argument that evenkeel can read"));
    }
    let old = plain(old);
    let removed: Vec<&str> = old.split_whitespace().filter(|word| is_argument(word)).collect();
    let coming: Vec<&str> = added.iter().filter(|word| !removed.contains(*word)).copied().collect();
    let mut asks = arguments(&coming.join(" "));
    let names: Vec<&str> = coming.iter().map(|word| word.split('=').next().unwrap_or(word)).collect();
    let going = removed.iter().filter(|word| {
        let name = word.split('=').next().unwrap_or(word);
        !added.contains(*word) && !names.contains(&name) && !names::is_of_boot(name) && !name.is_empty()
    });
    asks.extend(going.map(|word| without(word)));
    Ok(asks)
}

/// A pattern or a replacement of `sed` without references, escapes and quotes, and without the name of the variable.
fn plain(text: &str) -> String {
    let (mut plain, mut letters) = (String::new(), text.chars());
    while let Some(letter) = letters.next() {
        match letter {
            '\\' => match letters.next() {
                Some(digit) if digit.is_ascii_digit() => plain.push(' '),
                // `\g<1>` is a reference in Python.
                Some('g') if letters.as_str().starts_with('<') => {
                    letters.by_ref().take_while(|letter| *letter != '>').for_each(drop);
                    plain.push(' ');
                }
                Some('(' | ')' | 's' | 'b' | '+' | '<' | '>' | 'n' | 't') => plain.push(' '),
                Some(other) => plain.push(other),
                None => {}
            },
            '&' | '"' | '\'' => plain.push(' '),
            other => plain.push(other),
        }
    }
    let trimmed = plain.trim().trim_start_matches(['^', '#']).trim_start();
    let trimmed = match trimmed.split_once('=') {
        Some((name, rest)) if name.contains("CMDLINE") && !name.contains(' ') => rest,
        _ => trimmed,
    };
    let options = ["options ", "append ", "APPEND "].iter().find_map(|begin| trimmed.strip_prefix(begin));
    options.unwrap_or(trimmed).trim_end_matches('$').trim().to_owned()
}

/// One command of `sed`.
#[derive(Debug, PartialEq, Eq)]
enum Edit {
    /// `s/old/new/`. `of` is the pattern that selects the lines.
    Replace { of: String, old: String, new: String },
    /// A line with this text, which is added or replaces other lines.
    Line(String),
    /// Deletes the lines that match this pattern.
    Delete(String),
}

/// `sed -i`, whose script may edit kernel arguments or sysctls.
pub(super) fn sed(arguments: &[&str]) -> Content {
    let (mut scripts, mut files, mut is_in_place) = (Vec::new(), Vec::new(), false);
    let mut words = arguments.iter();
    while let Some(word) = words.next() {
        match *word {
            "-e" | "--expression" => scripts.extend(words.next().copied()),
            word if word.starts_with("--in-place") => is_in_place = true,
            word if word.starts_with("--expression=") => scripts.extend(word.split_once('=').map(|(_, script)| script)),
            word if word.starts_with('-') && word.len() > 1 => {
                // The option may be `-i.bak` with a suffix, or `-ri` with other options before the letter.
                is_in_place |= word.split('.').next().is_some_and(|options| options.contains('i'));
            }
            "" => {}
            word if scripts.is_empty() => scripts.push(word),
            word => files.push(word),
        }
    }
    let boot = files.iter().find(|file| is_file(file));
    if !is_in_place || boot.is_none() && !files.iter().any(|file| file.contains("sysctl")) {
        return Content::NotASetting(Skip::Command);
    }
    let (mut asks, mut unclear) = (Vec::new(), Vec::new());
    for script in scripts {
        let Some(edits) = edits(script) else {
            unclear.push("evenkeel can't read this script of `sed`".to_owned());
            continue;
        };
        for edit in &edits {
            match boot.map_or_else(|| of_sysctls(edit), |file| of_arguments(file, edit)) {
                Ok(found) => asks.extend(found),
                Err(why) => unclear.push(why),
            }
        }
    }
    said(asks, unclear)
}

/// The result of replacing a text in a file, as the modules of Ansible do.
pub(super) fn replaced(path: &str, old: &str, new: &str) -> Content {
    let edit = Edit::Replace { of: String::new(), old: old.to_owned(), new: new.to_owned() };
    let found = match path {
        path if is_file(path) => of_arguments(path, &edit),
        path if path.contains("sysctl") => of_sysctls(&edit),
        _ => Ok(Vec::new()),
    };
    match found {
        Ok(asks) => said(asks, Vec::new()),
        Err(why) => Content::NotUnderstood(why),
    }
}

/// The effect of an edit on a file of kernel arguments.
fn of_arguments(file: &str, edit: &Edit) -> Result<Vec<Ask>, String> {
    let has = |text: &str| text.contains("CMDLINE");
    let other_variable = |text: &str| {
        let name = text.trim_start_matches(['^', '#', '\\', 's', '*']).split('=').next().unwrap_or_default();
        text.contains('=') && name.contains(|letter: char| letter.is_ascii_uppercase())
    };
    match edit {
        Edit::Line(text) if is_bare(file) || has(text) => changes("", text),
        Edit::Delete(pattern) if has(pattern) => Err("it removes a line of kernel arguments".to_owned()),
        Edit::Replace { of, old, new } => {
            let is_own = is_bare(file) || [of, old, new].into_iter().any(|text| has(text));
            if is_own || !other_variable(old) && !other_variable(new) { changes(old, new) } else { Ok(Vec::new()) }
        }
        Edit::Line(_) | Edit::Delete(_) => Ok(Vec::new()),
    }
}

/// The effect of an edit on a file of sysctls.
fn of_sysctls(edit: &Edit) -> Result<Vec<Ask>, String> {
    let (old, new) = match edit {
        Edit::Replace { old, new, .. } => (old.as_str(), new.as_str()),
        Edit::Line(text) => ("", text.as_str()),
        Edit::Delete(_) => return Ok(Vec::new()),
    };
    let plain = new.replace("\\.", ".").replace("\\/", "/");
    if !plain.contains(['&', '\\'])
        && let Some(ask) = settings::assignment(&plain)
    {
        return Ok(vec![ask]);
    }
    let named = mentions::first(&plain).or_else(|| mentions::first(&old.replace('\\', "")));
    named.map_or(Ok(Vec::new()), |name| Err(format!("it edits {name}, and evenkeel can't tell the result")))
}

/// The commands of a script of `sed`. `None` if one of them is unknown.
fn edits(script: &str) -> Option<Vec<Edit>> {
    let (mut found, mut rest) = (Vec::new(), script.trim_start_matches([' ', ';', '\n', '\t']));
    while !rest.is_empty() && found.len() < EDITS_MAX {
        let mut of = String::new();
        let mut letters = rest.chars();
        match letters.next()? {
            '/' => {
                let (pattern, after) = until(letters.as_str(), '/')?;
                of = pattern;
                rest = after.trim_start();
            }
            '$' => rest = letters.as_str(),
            digit if digit.is_ascii_digit() => rest = rest.trim_start_matches(|letter: char| letter.is_ascii_digit()),
            _ => {}
        }
        let mut letters = rest.chars();
        let command = letters.next()?;
        let after = letters.as_str();
        match command {
            's' => {
                let mut letters = after.chars();
                let mark = letters.next()?;
                let (old, after) = until(letters.as_str(), mark)?;
                let (new, after) = until(after, mark)?;
                found.push(Edit::Replace { of, old, new });
                rest = after.trim_start_matches(|letter: char| letter.is_ascii_alphanumeric());
            }
            'd' => {
                found.push(Edit::Delete(of));
                rest = after;
            }
            'a' | 'i' | 'c' => {
                let text = after.trim_start().trim_start_matches('\\').trim_start();
                let (line, after) = text.split_once('\n').unwrap_or((text, ""));
                found.push(Edit::Line(line.to_owned()));
                rest = after;
            }
            _ => return None,
        }
        rest = rest.trim_start();
        if !rest.is_empty() && !rest.starts_with([';', '\n']) {
            return None;
        }
        rest = rest.trim_start_matches([' ', ';', '\n', '\t']);
    }
    rest.is_empty().then_some(found)
}

/// The text up to a mark that is not escaped, and the rest. Escaped marks in the text are unescaped.
fn until(text: &str, mark: char) -> Option<(String, &str)> {
    let (mut found, mut letters) = (String::new(), text.char_indices());
    while let Some((at, letter)) = letters.next() {
        match letter {
            '\\' => {
                let (_, next) = letters.next()?;
                if next != mark {
                    found.push('\\');
                }
                found.push(next);
            }
            letter if letter == mark => return Some((found, &text[at + letter.len_utf8()..])),
            letter => found.push(letter),
        }
    }
    None
}

/// Options of tools that add kernel arguments, and options that remove them.
const ADDS: [&str; 6] = ["--args", "--append", "--append-if-missing", "--add-options", "--options", "--replace"];
const REMOVES: [&str; 4] = ["--remove-args", "--delete", "--delete-if-present", "--delete-options"];

/// `grubby --update-kernel=ALL --args="…"`, and the equivalent commands of other boot loaders.
pub(super) fn tool(name: &str, words: &[&str]) -> Vec<Ask> {
    let long = |word: &'_ str| match (name, word) {
        ("kernelstub", "-a") => Some("--add-options"),
        ("kernelstub", "-o") => Some("--options"),
        ("kernelstub", "-d") => Some("--delete-options"),
        _ => None,
    };
    let (mut found, mut rest) = (Vec::new(), words);
    while let Some((word, after)) = rest.split_first() {
        rest = after;
        let (option, joint) = match word.split_once('=') {
            Some((option, value)) if option.starts_with("--") => (option, Some(value)),
            _ => (long(word).unwrap_or(word), None),
        };
        let (adds, removes) = (ADDS.contains(&option), REMOVES.contains(&option));
        if !adds && !removes {
            continue;
        }
        let Some(value) = joint.or_else(|| after.first().copied()) else { continue };
        if joint.is_none() {
            rest = &after[1..];
        }
        if adds {
            found.extend(names::by_arguments(value));
        } else {
            found.extend(value.split_whitespace().map(without));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};

    use super::*;

    #[track_caller]
    fn check(scripts: &[(&str, &str)], expected: Expect) {
        let one = |(script, file): &(&str, &str)| sed(&["-i", script, file]).in_words();
        expected.assert_eq(&scripts.iter().map(|script| one(script) + "\n").collect::<String>());
    }

    #[test]
    fn edits_of_kernel_arguments() {
        let grub = "/etc/default/grub";
        check(
            &[
                (
                    r#"s/^GRUB_CMDLINE_LINUX_DEFAULT=.*/GRUB_CMDLINE_LINUX_DEFAULT="quiet splash mitigations=off"/"#,
                    grub,
                ),
                (r#"/^GRUB_CMDLINE_LINUX=/ s/"$/ transparent_hugepage=never"/"#, grub),
                (r#"s/GRUB_CMDLINE_LINUX="\(.*\)"/GRUB_CMDLINE_LINUX="\1 isolcpus=2-3 nohz_full=2-3"/"#, grub),
                (r"s|quiet splash|quiet splash preempt=full|", grub),
                (r"s/ mitigations=off//g; s/GRUB_TIMEOUT=5/GRUB_TIMEOUT=0/", grub),
                (r"s/mitigations=auto/mitigations=off/", grub),
                (r#"/^GRUB_CMDLINE_LINUX=/c\GRUB_CMDLINE_LINUX="skew_tick=1""#, grub),
                (r"/^GRUB_CMDLINE_LINUX=/d", grub),
                (r#"s/^\(GRUB_CMDLINE_LINUX=".*\)"/\1 $EXTRA"/"#, grub),
                (r"s/$/ isolcpus=3/", "/boot/firmware/cmdline.txt"),
                (r"s/^options .*/& nohz=off/", "/boot/loader/entries/arch.conf"),
                (r"/x/{s/a/b/}", grub),
                (r"s/^GRUB_CMDLINE_LINUX=.*/GRUB_CMDLINE_LINUX=[x]/", grub),
            ],
            expect![[r#"
                cmdline.mitigations=off
                kernel argument transparent_hugepage=never
                cmdline.isolcpus=2-3 + cmdline.nohz_full=2-3
                kernel.preempt=full
                without the kernel argument mitigations=off
                cmdline.mitigations=off
                kernel argument skew_tick=1
                ? it removes a line of kernel arguments
                ? "$EXTRA" is not a kernel argument that evenkeel can read
                cmdline.isolcpus=3
                kernel argument nohz=off
                ? evenkeel can't read this script of `sed`
                ? "[x]" is not a kernel argument that evenkeel can read
            "#]],
        );
    }

    #[test]
    fn edits_of_sysctls() {
        let file = "/etc/sysctl.conf";
        check(
            &[
                (r"s/^#\?vm\.swappiness.*/vm.swappiness = 10/", file),
                (r"/net.core.rmem_max/d", file),
                (r"$a net.core.busy_read=50", file),
                (r"s/\(vm.dirty_ratio\).*/\1=5/", file),
                (r"s/foo/bar/", file),
                (r"s/vm.swappiness=60/vm.swappiness=1/", "/etc/other"),
            ],
            expect![[r#"
                vm.swappiness=10
                (Command)
                net.core.busy_read=50
                ? it edits vm.dirty_ratio, and evenkeel can't tell the result
                (Command)
                (Command)
            "#]],
        );
    }
}
