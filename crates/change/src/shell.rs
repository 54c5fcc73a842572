//! Quotes words for `sh`, so that people can paste the commands in the journal and in `verify`.

/// `text` as one word in single quotes. `text` may contain any characters.
pub(crate) fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', r"'\''"))
}

/// `text` as one word, quoted only if the shell needs it.
pub(crate) fn word(text: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"_-./=@,:+%".contains(&byte);
    if !text.is_empty() && text.bytes().all(plain) { text.to_owned() } else { quoted(text) }
}

/// The command that writes `text` and a newline to the file at `path`.
pub(crate) fn write_line(path: &str, text: &str) -> String {
    format!(r"printf '%s\n' {} > {}", quoted(text), quoted(path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_shell_reads_back_what_was_quoted() {
        for text in ["60", "", "it's", "a b", "$(reboot)", "`x`", "\\", "-n", "%s", "ü\t*", "a;b&c>d", "''"] {
            for word in [quoted(text), word(text)] {
                let output = std::process::Command::new("sh")
                    .args(["-c", &format!("printf '%s' {word}")])
                    .output()
                    .expect("sh is there wherever cargo is");
                assert_eq!(String::from_utf8_lossy(&output.stdout), text, "{word}");
            }
        }
    }

    #[test]
    fn commands_write_one_line() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("it's a file");
        let command = write_line(path.to_str().unwrap(), "1\t2 %d");
        assert!(std::process::Command::new("sh").args(["-c", &command]).status().unwrap().success());
        assert_eq!(std::fs::read_to_string(path).unwrap(), "1\t2 %d\n");
        assert_eq!(
            write_line("/proc/sys/vm/swappiness", "60"),
            r"printf '%s\n' '60' > '/proc/sys/vm/swappiness'",
            "as docs/formats.md shows it"
        );
    }
}
