//! Converts linker names to readable names: Rust's without the hash, C++'s without parameters, Go's without escapes.

use std::fmt;

use cpp_demangle::{BorrowedSymbol, DemangleOptions};

/// The maximum length of a name to demangle. The readable name can be far longer, because of templates.
const MANGLED_MAX: usize = 16 * 1024;
/// The maximum length of a readable name. The rest is cut off.
const NAME_MAX: usize = 4 * 1024;

/// The readable form of a linker name, at most about 4,000 characters. A name in no known language's form stays unchanged.
pub fn demangle(raw: &str) -> String {
    let name = if raw.len() > MANGLED_MAX { None } else { rust(raw).or_else(|| cpp(raw)).or_else(|| go(raw)) };
    let mut name = name.unwrap_or_else(|| raw.to_owned());
    if name.len() > NAME_MAX {
        let end = (0..=NAME_MAX).rev().find(|at| name.is_char_boundary(*at)).unwrap_or(0);
        name.truncate(end);
        name.push('…');
    }
    name
}

/// Demangles Rust names, old and new. The old form is a C++ name with a hash at its end.
fn rust(raw: &str) -> Option<String> {
    let name = rustc_demangle::try_demangle(raw).ok()?;
    let mut text = Bounded::default();
    // The only possible error is that the text reached its limit. The name then ends at the limit.
    let _ = fmt::Write::write_fmt(&mut text, format_args!("{name:#}"));
    Some(text.0)
}

fn cpp(raw: &str) -> Option<String> {
    if !raw.starts_with("_Z") && !raw.starts_with("_GLOBAL__") {
        return None;
    }
    // The compiler marks its copies of a function with a suffix: `.cold`, `.isra.0`, `.part.1`.
    let (core, copy) = raw.split_at(raw.find('.').unwrap_or(raw.len()));
    let (name, _) = BorrowedSymbol::with_tail(core.as_bytes()).ok()?;
    let options = DemangleOptions::new().no_params().no_return_type();
    let mut text = Bounded::default();
    let _ = name.structured_demangle(&mut text, &options);
    if text.0.is_empty() {
        return None;
    }
    if text.0.len() < NAME_MAX {
        text.0.push_str(copy);
    }
    Some(text.0)
}

/// Go escapes characters that its linker would misread: `%2e` in a path is a dot.
fn go(raw: &str) -> Option<String> {
    raw.find('%')?;
    let mut name = String::with_capacity(raw.len());
    let mut rest = raw;
    while let Some((before, after)) = rest.split_once('%') {
        name.push_str(before);
        let byte = after.get(..2).and_then(|digits| u8::from_str_radix(digits, 16).ok());
        match byte.filter(|byte| byte.is_ascii_graphic()) {
            Some(byte) => {
                name.push(char::from(byte));
                rest = &after[2..];
            }
            None => {
                name.push('%');
                rest = after;
            }
        }
    }
    name.push_str(rest);
    Some(name)
}

/// Text that is cut off at the maximum length of a name.
#[derive(Default)]
struct Bounded(String);

impl fmt::Write for Bounded {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        if self.0.len() > NAME_MAX {
            return Err(fmt::Error);
        }
        self.0.push_str(text);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn each_language_reads_as_it_is_written() {
        let rows = [
            ("main", "main"),
            ("_ZN5arena4tick3run17h0123456789abcdefE", "arena::tick::run"),
            ("_RNvNtCs1234_7mycrate3foo3bar", "mycrate::foo::bar"),
            ("_ZN4game5World4stepEf", "game::World::step"),
            ("_ZN4game5World4stepEf.cold", "game::World::step.cold"),
            ("_ZNSt6vectorIiSaIiEE9push_backERKi", "std::vector<int, std::allocator<int> >::push_back"),
            ("_Z3addIiET_S0_S0_", "add<int>"),
            ("main.(*Server).tick", "main.(*Server).tick"),
            ("gopkg.in/yaml%2ev3.Unmarshal", "gopkg.in/yaml.v3.Unmarshal"),
            ("100%zz", "100%zz"),
            ("_Znonsense", "_Znonsense"),
            ("", ""),
        ];
        for (raw, name) in rows {
            assert_eq!(demangle(raw), name, "{raw}");
        }
    }

    #[test]
    fn a_name_that_grows_is_cut_off() {
        // Each repeated part of the linker name doubles the length of the demangled name.
        let mut raw = "_Z1fI".to_owned();
        raw.push_str(&"St4pairIS_S_E".repeat(400));
        raw.push_str("EvT_");
        assert!(demangle(&raw).len() <= MANGLED_MAX);
        assert!(demangle(&"x".repeat(100_000)).len() <= NAME_MAX + 3);
    }

    proptest! {
        #[test]
        fn no_name_makes_it_panic(raw in "(_ZN?|_R|__R|)[0-9A-Za-z_%$.]{0,60}") {
            prop_assert!(demangle(&raw).len() <= NAME_MAX * 2);
        }
    }
}
