//! Splits a kernel command line into words as the kernel does:
//! at white space outside of double quotes, up to the word `--`.
//! All words after `--` go to init.

/// The words of a line, each with its start in bytes.
pub(crate) fn words(line: &str) -> Vec<(usize, &str)> {
    let mut words = Vec::new();
    let (mut start, mut is_quoted) = (None, false);
    for (at, letter) in line.char_indices() {
        if letter.is_whitespace() && !is_quoted {
            words.extend(start.take().map(|start| (start, &line[start..at])));
            continue;
        }
        start.get_or_insert(at);
        is_quoted ^= letter == '"';
    }
    words.extend(start.map(|start| (start, &line[start..])));
    words
}

/// The words that the kernel itself interprets.
pub(crate) fn of_kernel(line: &str) -> impl Iterator<Item = &str> {
    words(line).into_iter().map(|(_, word)| word).take_while(|word| !is_end(word))
}

/// Whether the word ends the kernel's part of the line.
/// The kernel removes the quotes of a word before it compares the word with `--`.
pub(crate) fn is_end(word: &str) -> bool {
    word == "--" || word == "\"--\""
}

/// Where the word `--` begins, in bytes.
pub(crate) fn end(line: &str) -> Option<usize> {
    words(line).into_iter().find(|(_, word)| is_end(word)).map(|(at, _)| at)
}

/// Whether two arguments have the same name. The kernel treats `-` and `_` as equal.
pub(crate) fn is_same_name(one: &str, other: &str) -> bool {
    let name = |word: &str| {
        let name = word.trim_start_matches('"').split('=').next().unwrap_or_default();
        name.replace('_', "-")
    };
    name(one) == name(other)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_end_at_white_space_outside_of_quotes() {
        let all = |line| words(line).into_iter().map(|(_, word)| word).collect::<Vec<_>>();
        assert_eq!(all(" a  b=\"c d\"\t\"e f\" "), ["a", "b=\"c d\"", "\"e f\""]);
        assert_eq!(all("a \"b c"), ["a", "\"b c"]);
        assert_eq!(all(""), [""; 0]);
    }

    #[test]
    fn the_kernel_reads_up_to_the_word_of_two_dashes() {
        let table = [
            ("a -- b", Some(2)),
            ("--", Some(0)),
            ("a --b x=\"1 -- 2\"", None),
            ("a --", Some(2)),
            ("a \"--\" b", Some(2)),
            ("", None),
        ];
        for (line, at) in table {
            assert_eq!(end(line), at, "{line:?}");
        }
        assert_eq!(of_kernel("a b -- c").collect::<Vec<_>>(), ["a", "b"]);
    }

    #[test]
    fn names_are_compared_as_the_kernel_does() {
        assert!(is_same_name("processor.max-cstate=5", "processor.max_cstate=1"));
        assert!(is_same_name("\"isolcpus=1\"", "isolcpus"));
        assert!(!is_same_name("isolcpus=1", "isolcpus2=1"));
    }
}
