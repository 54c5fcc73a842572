//! Arithmetic of a shell, `$((…))`. evenkeel computes only whole numbers and known variables.

/// The longest expression, in bytes.
const BYTES_MAX: usize = 200;
/// An expression that evenkeel does not compute.
const OTHER: &str = "$[?]";

/// Writes each `$((a + 1))` of a line as `$[a+1]`, which is one word and contains no operators of the shell.
pub(super) fn as_words(line: &str) -> String {
    let (mut found, mut rest) = (String::with_capacity(line.len()), line);
    while let Some((before, after)) = rest.split_once("$((") {
        let Some(end) = end_of(after) else { break };
        found.push_str(before);
        found += &as_word(&after[..end]).unwrap_or_else(|| OTHER.to_owned());
        rest = &after[end + 2..];
    }
    found + rest
}

/// The index of the `))` that ends an expression.
fn end_of(text: &str) -> Option<usize> {
    let mut depth = 2_usize;
    for (at, letter) in text.char_indices() {
        match letter {
            '(' => depth += 1,
            ')' => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return at.checked_sub(1).filter(|end| text.get(*end..).is_some_and(|rest| rest.starts_with("))")));
        }
    }
    None
}

fn as_word(expression: &str) -> Option<String> {
    if expression.len() > BYTES_MAX || expression.contains("$(") {
        return None;
    }
    let plain = expression.replace("<<", "«").replace(">>", "»").replace('(', "⟨").replace(')', "⟩");
    let plain: String = plain.chars().filter(|letter| !letter.is_whitespace() && !"${}".contains(*letter)).collect();
    let is_known = |letter: char| letter.is_ascii_alphanumeric() || "_+-*/%«»⟨⟩".contains(letter);
    plain.chars().all(is_known).then(|| format!("$[{plain}]"))
}

/// The value of an expression that [`as_words`] wrote, without `$[` and `]`.
pub(super) fn value(expression: &str, variable: impl Fn(&str) -> Option<String>) -> Option<i64> {
    if expression.len() > 2 * BYTES_MAX {
        return None;
    }
    let mut reader = Reader { rest: expression, variable: &variable };
    let value = reader.shifts()?;
    reader.rest.is_empty().then_some(value)
}

struct Reader<'a> {
    rest: &'a str,
    variable: &'a dyn Fn(&str) -> Option<String>,
}

impl Reader<'_> {
    /// The next letter, if it is one of `letters`.
    fn next(&mut self, letters: &str) -> Option<char> {
        let letter = self.rest.chars().next().filter(|letter| letters.contains(*letter))?;
        self.rest = &self.rest[letter.len_utf8()..];
        Some(letter)
    }

    fn shifts(&mut self) -> Option<i64> {
        let mut value = self.sums()?;
        while let Some(sign) = self.next("«»") {
            let by = u32::try_from(self.sums()?).ok().filter(|by| *by < 63)?;
            value = if sign == '«' { value.checked_mul(1_i64 << by)? } else { value >> by };
        }
        Some(value)
    }

    fn sums(&mut self) -> Option<i64> {
        let mut value = self.products()?;
        while let Some(sign) = self.next("+-") {
            let other = self.products()?;
            value = if sign == '+' { value.checked_add(other)? } else { value.checked_sub(other)? };
        }
        Some(value)
    }

    fn products(&mut self) -> Option<i64> {
        let mut value = self.one()?;
        while let Some(sign) = self.next("*/%") {
            let other = self.one()?;
            value = match sign {
                '*' => value.checked_mul(other)?,
                '/' => value.checked_div(other)?,
                _ => value.checked_rem(other)?,
            };
        }
        Some(value)
    }

    /// A number, a variable, or an expression in parentheses.
    fn one(&mut self) -> Option<i64> {
        if self.next("-").is_some() {
            return self.one()?.checked_neg();
        }
        if self.next("⟨").is_some() {
            let value = self.shifts()?;
            return self.next("⟩").map(|_| value);
        }
        let is_name = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
        let end = self.rest.find(|letter| !is_name(letter)).unwrap_or(self.rest.len());
        let (word, rest) = self.rest.split_at(end);
        self.rest = rest;
        number(word).or_else(|| number((self.variable)(word)?.trim()))
    }
}

/// A number as a shell reads it: `0x` begins a hexadecimal number, and `0` begins an octal number.
fn number(word: &str) -> Option<i64> {
    let is_negative = word.starts_with('-');
    let digits = word.strip_prefix('-').unwrap_or(word);
    if !digits.starts_with(|first: char| first.is_ascii_digit()) {
        return None;
    }
    let value = match (digits.strip_prefix("0x"), digits.strip_prefix('0').filter(|rest| !rest.is_empty())) {
        (Some(digits), _) => i64::from_str_radix(digits, 16),
        (None, Some(digits)) => i64::from_str_radix(digits, 8),
        (None, None) => digits.parse(),
    };
    value.ok().map(|value| if is_negative { -value } else { value })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expressions_and_their_values() {
        for (line, expected) in [
            ("$((0))", Some(0)),
            ("$(( 1 + 2 * 3 ))", Some(7)),
            ("$((1 << 3))", Some(8)),
            ("$(( (1 + 2) * 1024 ))", Some(3072)),
            ("$(( $five * ${five} - five ))", Some(20)),
            ("$((-0x10 / 3 % 4))", Some(-1)),
            ("$((010))", Some(8)),
            ("$((1 / 0))", None),
            ("$((9223372036854775807 + 1))", None),
            ("$((unknown))", None),
            ("$((a ? 1 : 2))", None),
            ("$(( $(nproc) * 2 ))", None),
            ("$((1 +))", None),
            ("$((1 << 64))", None),
        ] {
            let word = as_words(line);
            let inner = word.strip_prefix("$[").and_then(|rest| rest.strip_suffix(']')).unwrap();
            assert_eq!(value(inner, |name| (name == "five").then(|| "5".to_owned())), expected, "{line}");
        }
        assert_eq!(as_words("a $((1)) b$((2)).c"), "a $[1] b$[2].c");
        for other in ["$((1", "$(a (b))", "((x = 1))", "$((a) b)"] {
            assert_eq!(as_words(other), other);
        }
    }
}
