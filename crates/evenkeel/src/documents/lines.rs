//! Checks that the command line parser accepts every evenkeel command in the pages.
//! A command with a renamed or invented option fails the test. The test runs no command.

use clap::CommandFactory;
use clap::error::ErrorKind;

use crate::command_line::Args;

/// Placeholders for the reader's own values, each with a value that the parser accepts.
const PLACEHOLDERS: [(&str, &str); 10] = [
    ("NAME=PERCENT", "round_trip_us_p99=25"),
    ("METER", "gaps"),
    ("KIND", "spinner"),
    ("SECONDS", "60"),
    ("N", "5"),
    ("LIST", "0-1"),
    ("PERCENT", "10"),
    ("HZ", "30"),
    ("PID", "1234"),
    ("SHELL", "bash"),
];

/// The first lines of some files look like commands, such as `evenkeel ticks 1`, but are not.
const HEADS_OF_FILES: [&str; 2] = ["ticks 1", "ticks 2"];

/// A command line of evenkeel, and its position.
struct Line {
    place: String,
    text: String,
    /// Whether the command is part of a sentence. Such a command may lack its arguments.
    is_inline: bool,
}

#[test]
fn every_command_line_of_the_pages_is_one_of_today() {
    let (mut seen, mut wrong) = (0, Vec::new());
    for page in super::pages() {
        let text = std::fs::read_to_string(&page).unwrap_or_else(|error| panic!("{}: {error}", page.display()));
        let name = page.strip_prefix(super::project()).unwrap().display().to_string();
        for line in lines(&name, &text) {
            seen += 1;
            wrong.extend(refused(&line).map(|why| format!("{}: {}\n    {why}", line.place, line.text)));
        }
    }
    assert!(wrong.is_empty(), "{} of {seen} command lines:\n{}", wrong.len(), wrong.join("\n"));
    assert!(seen > 300, "only {seen} command lines were found");
}

#[test]
fn lines_are_found_where_they_stand() {
    let page = "Type `sudo evenkeel verify` or `evenkeel explain KNOB`, not `evenkeel-rt`.\n\n```sh\n$ evenkeel audit --host \\\n    a.txt | head\n\
                evenkeel disturb quantum -- evenkeel measure gaps > x  # a remark\n```\n\n| `evenkeel diff A\\|B` |\n";
    let found: Vec<(String, bool)> = lines("page", page).into_iter().map(|line| (line.text, line.is_inline)).collect();
    let expected = [
        ("verify", true),
        ("explain KNOB", true),
        ("audit --host a.txt", false),
        ("disturb quantum -- evenkeel measure gaps", false),
        ("measure gaps", false),
        ("diff A", true),
    ];
    assert_eq!(found, expected.map(|(text, is_inline)| (text.to_owned(), is_inline)));
}

#[test]
fn invalid_command_lines_are_found() {
    let line = |text: &str, is_inline| Line { place: String::new(), text: text.to_owned(), is_inline };
    let table = [
        ("audit --no-such-option", true, true),
        ("audits", true, true),
        ("explain KNOB", true, false),
        ("prove", true, false),
        ("measure", true, false),
        ("measure", false, true),
        ("apply 'unclosed", true, true),
        ("prove KNOB=VALUE … -- CMD", true, false),
    ];
    for (text, is_inline, is_wrong) in table {
        assert_eq!(refused(&line(text, is_inline)).is_some(), is_wrong, "{text}");
    }
}

/// Why the parser refuses the line; `None` if the parser accepts it.
fn refused(line: &Line) -> Option<String> {
    let Some(words) = shlex::split(&line.text.replace(['…', '[', ']'], " ")) else {
        return Some("a quote is not closed".to_owned());
    };
    let words = std::iter::once("evenkeel".to_owned()).chain(words.into_iter().map(value_for));
    let error = Args::command().try_get_matches_from(words).err()?;
    let names_a_command = matches!(
        error.kind(),
        ErrorKind::MissingRequiredArgument
            | ErrorKind::MissingSubcommand
            | ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand
    );
    let is_help = matches!(error.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion);
    let is_fine = is_help || (line.is_inline && names_a_command);
    (!is_fine).then(|| error.to_string().lines().next().unwrap_or_default().to_owned())
}

/// Replaces a placeholder by a valid value.
fn value_for(word: String) -> String {
    if let Some((_, value)) = PLACEHOLDERS.iter().find(|(placeholder, _)| *placeholder == word) {
        return (*value).to_owned();
    }
    // Some commands accept only the names of knobs.
    let knob = evenkeel_host::knobs::ALL.first().map_or("", |knob| knob.id);
    match word.as_str() {
        "KNOB" => knob.to_owned(),
        // This text stands for the output of another program. In the pages it is always a process number.
        text if text.starts_with("$(") => "1234".to_owned(),
        _ => word.replace("KNOB=", &format!("{knob}=")),
    }
}

/// The command lines of evenkeel in a page: in code blocks, and between backticks.
fn lines(page: &str, text: &str) -> Vec<Line> {
    let mut found = Vec::new();
    let (mut block, mut begun) = (None, String::new());
    for (at, line) in text.lines().enumerate() {
        let place = format!("{page}:{}", at + 1);
        if let Some(kind) = line.trim_start().strip_prefix("```") {
            block = block.is_none().then_some(kind);
        } else if block == Some("text") {
            // The line is output, or shows only the form of a command.
        } else if block.is_some() || line.starts_with("    ") {
            // A prompt and a comment are not part of the command. A backslash continues the command on the next line.
            let line = line.trim().trim_start_matches("$ ");
            match line.strip_suffix('\\') {
                Some(part) => begun.push_str(part),
                None => {
                    let whole = std::mem::take(&mut begun) + line;
                    add(&mut found, &place, &whole, false);
                }
            }
        } else {
            for code in line.split('`').skip(1).step_by(2) {
                add(&mut found, &place, code, true);
            }
        }
    }
    found
}

fn add(found: &mut Vec<Line>, place: &str, text: &str, is_inline: bool) {
    for part in commands(text) {
        let mut words = part.trim();
        // Skip variables that the line sets for this command only.
        while let Some((first, rest)) = words.split_once(' ')
            && (first == "sudo" || (first.contains('=') && first.starts_with(char::is_uppercase)))
        {
            words = rest.trim_start();
        }
        let Some(words) = words.strip_prefix("evenkeel ").filter(|words| !HEADS_OF_FILES.contains(words)) else {
            continue;
        };
        found.push(Line { place: place.to_owned(), text: words.trim().to_owned(), is_inline });
        if let Some((_, inner)) = words.split_once(" -- ") {
            add(found, place, inner, is_inline);
        }
    }
}

/// The commands in a shell line, without redirections.
fn commands(text: &str) -> Vec<String> {
    let (mut parts, mut part, mut quote, mut skips) = (Vec::new(), String::new(), None, false);
    let mut before = ' ';
    for letter in text.replace("<(", "| ").chars() {
        match (quote, letter) {
            (Some(open), _) if letter == open => quote = None,
            (None, '\'' | '"') => quote = Some(letter),
            (None, '#') if before == ' ' => break,
            (None, '|' | ';' | '&' | ')') => {
                parts.push(std::mem::take(&mut part));
                skips = false;
                before = ' ';
                continue;
            }
            (None, '>') => skips = true,
            _ => {}
        }
        if !skips {
            part.push(letter);
        }
        before = letter;
    }
    parts.push(part);
    parts
        .iter()
        .map(|part| {
            part.split("   ")
                .find(|part| !part.trim().is_empty())
                .unwrap_or_default()
                .trim_end_matches('\\')
                .trim()
                .to_owned()
        })
        .collect()
}
