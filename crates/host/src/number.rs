//! Numbers as the kernel reads them in a sysctl.

/// The number in a text: `0x0f` and `017` are 15. `+15` is not a number.
pub(crate) fn kernel_number(text: &str) -> Option<i64> {
    let (sign, digits) = text.strip_prefix('-').map_or(("", text), |digits| ("-", digits));
    let (base, digits) = match digits.strip_prefix('0') {
        Some(rest) if rest.starts_with(['x', 'X']) => (16, rest.get(1..)?),
        Some(rest) if !rest.is_empty() => (8, rest),
        _ => (10, digits),
    };
    let is_plain = digits.starts_with(|first: char| first.is_digit(base));
    is_plain.then(|| i64::from_str_radix(&format!("{sign}{digits}"), base).ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefixes_name_the_base() {
        let table = [
            ("15", Some(15)),
            ("-1", Some(-1)),
            ("0", Some(0)),
            ("0x0f", Some(15)),
            ("0X10", Some(16)),
            ("017", Some(15)),
            ("-010", Some(-8)),
            ("+15", None),
            ("0x", None),
            ("0x+1", None),
            ("09", None),
            ("--1", None),
            ("", None),
            ("-", None),
            ("15 ", None),
            ("99999999999999999999", None),
        ];
        for (text, expected) in table {
            assert_eq!(kernel_number(text), expected, "{text:?}");
        }
    }
}
