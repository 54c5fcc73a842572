//! Runs the tutorials' commands, which must print the output on the pages.
//! The commands use captured machines and simulated servers, take milliseconds, and do not change this machine.

use crate::rules::{OF_THE_JOURNAL, files, project, read};
use crate::tutorials_run::{ReaderFolder, Step, agrees, shown_anew, steps};

#[test]
fn the_tutorials_show_real_output() {
    let updates = std::env::var_os("UPDATE_EXPECT").is_some();
    let pages = files(&project().join("docs/tutorials"), "md");
    assert_eq!(pages.len(), 5);
    let (mut ran, mut wrong) = (0, Vec::new());
    for path in pages {
        let page = read(&path);
        let mut lines: Vec<String> = page.lines().map(str::to_owned).collect();
        let reader = ReaderFolder::new();
        // The number of lines by which the page has become longer so far.
        let mut moved = 0_isize;
        for step in steps(&page).into_iter().filter(|step| !step.is_live) {
            let place = format!("{}:{}", path.display(), step.shown_at);
            let output = reader.run(&step);
            let said = String::from_utf8_lossy(&output.stderr);
            assert!(output.status.success(), "{place}: {}\n{said}", step.command);
            ran += 1;
            let printed: Vec<String> = String::from_utf8_lossy(&output.stdout).lines().map(str::to_owned).collect();
            if agrees(&step.shown, &printed) {
                continue;
            }
            if updates {
                let anew = shown_anew(&step.shown, &printed);
                let at = step.shown_at.checked_add_signed(moved).unwrap();
                moved += anew.len() as isize - step.shown.len() as isize;
                lines.splice(at..at + step.shown.len(), anew).for_each(drop);
            } else {
                wrong.push(format!("{place}: {}\n{}", step.command, printed.join("\n")));
            }
        }
        if updates {
            std::fs::write(&path, lines.join("\n") + "\n").unwrap();
        }
    }
    assert!(wrong.is_empty(), "UPDATE_EXPECT=1 writes the pages anew:\n{}", wrong.join("\n\n"));
    assert!(ran >= 30, "only {ran} commands");
}

/// Commands that run in the suite must not use root's own journal.
#[test]
fn tutorials_name_a_journal_of_their_own() {
    for path in files(&project().join("docs/tutorials"), "md") {
        for Step { command, .. } in steps(&read(&path)).into_iter().filter(|step| !step.is_live) {
            let opens = command.split("evenkeel ").skip(1).any(|line| {
                OF_THE_JOURNAL.contains(&line.split_whitespace().next().unwrap_or_default())
                    && !line.contains("workloads")
            });
            assert!(!opens || command.contains("--state "), "{}: {command}", path.display());
        }
    }
}

#[test]
fn a_page_is_compared_line_by_line() {
    let lines = |text: &str| text.lines().map(str::to_owned).collect::<Vec<String>>();
    let table = [
        ("a\nb", "a\nb", true),
        ("a\nb", "a\nc", false),
        ("a\n…", "a\nb\nc", true),
        ("…\nc", "a\nb\nc", true),
        ("…\nb", "a\nb\nc", false),
        ("a\n…\nd", "a\nd", true),
        ("1  …  in force", "1  2026-11-25  in force", true),
        ("1  …  in force", "1  2026-11-25  undone", false),
        ("", "a", false),
    ];
    for (shown, printed, expected) in table {
        assert_eq!(agrees(&lines(shown), &lines(printed)), expected, "{shown:?} {printed:?}");
    }
    let table = [
        ("a\nb", "x\ny\nz", "x\ny\nz"),
        ("a\n…", "x\ny\nz", "x\n…"),
        ("a\n…\nb", "x\ny\nz", "x\n…\nz"),
        ("a\n…\ny\nq\n…\nb", "x\ny\nw\nz", "x\n…\ny\n…\nz"),
        ("…\nsame: a\n…", "x\nsame: b\ny", "…\nsame: b\n…"),
        ("1 … b\n2", "1 a b\n3", "1 … b\n3"),
    ];
    for (shown, printed, expected) in table {
        assert_eq!(shown_anew(&lines(shown), &lines(printed)), lines(expected), "{shown:?} {printed:?}");
    }
}

#[test]
fn commands_are_read_from_their_blocks() {
    let page =
        "```console\n$ cat > a <<'EOF'\n> x\n> EOF\n$ cat a\nx\n```\n```sh\n$ no\n```\n```console,live\n$ yes\n```\n";
    let read: Vec<(String, Vec<String>, usize, bool)> =
        steps(page).into_iter().map(|step| (step.command, step.shown, step.shown_at, step.is_live)).collect();
    let expected = [
        ("cat > a <<'EOF'\nx\nEOF".to_owned(), vec![], 4, false),
        ("cat a".to_owned(), vec!["x".to_owned()], 5, false),
        ("yes".to_owned(), vec![], 12, true),
    ];
    assert_eq!(read, expected);
}
