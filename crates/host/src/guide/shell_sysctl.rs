//! The arguments of the command `sysctl`.

use super::line::{Ask, Skip};
use super::settings;
use super::shell_found::{Found, unclear};
use super::words::Word;

/// `sysctl -w KEY=VALUE …`.
pub(super) fn sysctl(arguments: &[Word]) -> Found {
    let named: Vec<&Word> = arguments.iter().filter(|word| !word.text.starts_with('-')).collect();
    let is_write = arguments.iter().any(|word| word.text == "-w" || word.text == "--write");
    if is_write && named.iter().any(|word| word.is_expanded) {
        return unclear();
    }
    if !named.iter().any(|word| word.text.contains('=')) {
        return match is_write && !named.is_empty() {
            true => Found::Unclear("`sysctl -w` needs KEY=VALUE: without the =, it sets nothing".to_owned()),
            false => Found::Skip(Skip::Command),
        };
    }
    if named.iter().any(|word| word.is_expanded) {
        return unclear();
    }
    let each: Vec<Option<Ask>> = named.iter().map(|word| settings::assignment(&word.text)).collect();
    if each.iter().all(Option::is_some) {
        return Found::Asks(each.into_iter().flatten().collect());
    }
    // The arguments may have spaces around the `=`, or between the numbers of one value.
    let whole = named.iter().map(|word| word.text.as_str()).collect::<Vec<_>>().join(" ");
    match settings::assignment(&whole).filter(|_| whole.matches('=').count() == 1) {
        Some(ask) => Found::Asks(vec![ask]),
        None => Found::Unclear("`sysctl` has an argument that is not a key=value of a sysctl".to_owned()),
    }
}
