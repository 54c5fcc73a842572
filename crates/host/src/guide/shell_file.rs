//! What shell commands write: settings into files of the kernel, and lines of configuration into other files.

use super::line::{Ask, Content, Skip};
use super::shell_found::{Found, found, unclear};
use super::words::Word;
use super::{boot, config, names, settings};

/// The file that limits the exit latency of idle states, as long as a program keeps it open.
pub(super) const LATENCY: &str = "/dev/cpu_dma_latency";

/// The result of writing a text to a file.
pub(super) fn written(file: &Word, text: &str) -> Found {
    let path = file.text.as_str();
    if boot::is_file(path) {
        return found(boot::written(path, text));
    }
    if path == LATENCY {
        return Found::Unclear("the kernel drops the value as soon as the command ends and closes the file".to_owned());
    }
    // A variable in the name of a device matches every device.
    if text.contains(['$', '`']) || file.is_expanded && !path.starts_with("/sys/") && !path.starts_with("/proc/irq/") {
        return unclear();
    }
    if path.starts_with("/proc/") || path.starts_with("/sys/") {
        return match names::by_file(path, text.trim()) {
            Some(ask) => Found::Asks(vec![ask]),
            None => Found::Unclear(format!("evenkeel does not know {path}")),
        };
    }
    if ["sysctl", "tmpfiles", "irqbalance"].iter().any(|of| path.contains(of)) {
        let lines = text.split('\n').flat_map(|line| line.split("\\n")).map(|line| (line, settings::line(line)));
        let asks = lines.map(|(line, content)| match content {
            Content::Settings(asks) => asks,
            Content::NotUnderstood(_) if !path.contains("sysctl") => Vec::new(),
            Content::NotUnderstood(_) => vec![Ask::not_understood(format!("{line:?} in a file of sysctls"))],
            Content::NotASetting(_) => Vec::new(),
        });
        let asks: Vec<Ask> = asks.flatten().collect();
        return if asks.is_empty() && !path.contains("sysctl") {
            Found::Skip(Skip::Command)
        } else if asks.is_empty() {
            Found::Unclear(format!("no setting is written to {path}"))
        } else {
            Found::Asks(asks)
        };
    }
    if ["/limits", "/modprobe", "/fstab"].iter().any(|of| path.contains(of)) {
        let lines = text.split('\n').flat_map(|line| line.split("\\n"));
        let asks = lines.filter_map(|line| match config::line(line.trim()) {
            Some(Content::Settings(asks)) => Some(asks),
            _ => None,
        });
        let asks: Vec<Ask> = asks.flatten().collect();
        return if asks.is_empty() { Found::Skip(Skip::Command) } else { Found::Asks(asks) };
    }
    Found::Skip(Skip::Command)
}

/// The number that `echo` or `printf` writes to the open latency file: 4 bytes, or hexadecimal digits.
pub(super) fn latency(words: &[Word]) -> Found {
    let text = words.last().map_or("", |word| word.text.as_str());
    let number = match bytes(text).and_then(|bytes| <[u8; 4]>::try_from(bytes).ok()).filter(|_| text.contains('\\')) {
        Some(bytes) => Some(u32::from_le_bytes(bytes)),
        None => u32::from_str_radix(text.trim_end_matches("\\n").trim_start_matches("0x"), 16).ok(),
    };
    match number.and_then(|us| names::by_called(LATENCY, None, &us.to_string())) {
        Some(ask) => Found::Asks(vec![ask]),
        None => Found::Unclear(format!("evenkeel can't tell the number that it writes to {LATENCY}")),
    }
}

/// The bytes of a text with escapes such as `\0` and `\x05`. `None` if an escape is unknown.
fn bytes(text: &str) -> Option<Vec<u8>> {
    let (mut found, mut letters) = (Vec::new(), text.chars().peekable());
    while let Some(letter) = letters.next() {
        if letter != '\\' {
            found.push(u8::try_from(letter).ok()?);
            continue;
        }
        let (radix, most) = match letters.next()? {
            'x' => (16, 2),
            '0' => (8, 3),
            _ => return None,
        };
        let mut value = 0_u32;
        for _ in 0..most {
            let Some(digit) = letters.peek().and_then(|letter| letter.to_digit(radix)) else { break };
            value = value * radix + digit;
            letters.next();
        }
        found.push(u8::try_from(value).ok()?);
    }
    Some(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_of_escapes() {
        for (text, expected) in [
            (r"\0\0\0\0", Some(vec![0, 0, 0, 0])),
            (r"\x05\x00\x00\x00", Some(vec![5, 0, 0, 0])),
            (r"\012a", Some(vec![10, b'a'])),
            (r"\q", None),
            ("é…", None),
            (r"\0777", None),
        ] {
            assert_eq!(bytes(text), expected, "{text}");
        }
    }
}
