//! A set of CPUs in the kernel's two spellings: the list (`0-3,8`) and the hexadecimal mask (`00000000,0000010f`).

use std::fmt;
use std::ops::RangeInclusive;

/// The maximum number of CPUs that a Linux kernel can be built for (`CONFIG_NR_CPUS` on x86).
/// A text with a higher number is invalid, and we refuse it before it uses memory.
pub const MAX_CPUS: usize = 8192;

/// A set of CPUs, by number. Iterates in ascending order.
///
/// ```
/// use evenkeel_sys::CpuSet;
///
/// let mut cpus = CpuSet::parse_list("0-3,8").expect("a list of CPUs");
/// cpus.insert(9);
/// assert_eq!((cpus.to_string(), cpus.len(), cpus.first()), ("0-3,8-9".to_owned(), 6, Some(0)));
/// assert!(cpus.contains(8) && !cpus.is_empty());
/// assert_eq!(CpuSet::parse_mask("30f"), Some(cpus.clone()));
/// assert_eq!(cpus.to_mask(12), "30f");
///
/// let few: CpuSet = [2, 3].into_iter().collect();
/// assert!(few.is_subset(&cpus));
/// assert_eq!((cpus.and(&few), few.or(&cpus)), (few.clone(), cpus.clone()));
/// assert_eq!(cpus.without(&few).iter().collect::<Vec<_>>(), [0, 1, 8, 9]);
/// ```
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(from = "String", into = "String"))]
pub struct CpuSet {
    /// Each word has 64 CPUs. The vector has no trailing zero words, so that equal sets compare equal.
    words: Vec<u64>,
}

impl CpuSet {
    /// Parses a list as in `/sys/devices/system/cpu/online`. An empty text is the empty set, as in the kernel.
    pub fn parse_list(list: &str) -> Option<CpuSet> {
        let mut set = CpuSet::default();
        if list.trim().is_empty() {
            return Some(set);
        }
        for part in list.trim().split(',') {
            set.insert_all(parse_range(part)?);
        }
        Some(set)
    }

    /// Parses a mask as in `/proc/irq/N/smp_affinity`: groups of up to eight hexadecimal digits. The highest CPUs come first.
    pub fn parse_mask(mask: &str) -> Option<CpuSet> {
        let groups: Vec<&str> = mask.trim().split(',').collect();
        let mut digits = String::new();
        for (at, group) in groups.iter().enumerate() {
            let full = at == 0 || group.len() == 8;
            if group.is_empty() || !full || digits.len() + group.len() > MAX_CPUS / 4 {
                return None;
            }
            digits.push_str(group);
        }
        let mut set = CpuSet::default();
        for (place, digit) in digits.chars().rev().enumerate() {
            let bits = digit.to_digit(16)? as usize;
            for bit in 0..4 {
                if bits >> bit & 1 == 1 {
                    set.insert(place * 4 + bit);
                }
            }
        }
        Some(set)
    }

    /// The mask in groups of eight digits. It has a digit for every four of `cpus` CPUs, because the kernel prints all CPUs that it may ever have.
    /// If `cpus` is 1, the mask has no leading zeros.
    pub fn to_mask(&self, cpus: usize) -> String {
        let highest = self.iter().last().unwrap_or(0);
        let digits = cpus.clamp(1, MAX_CPUS).div_ceil(4).max(highest / 4 + 1);
        let mut mask = String::new();
        for place in (0..digits).rev() {
            let bits: u32 = (0..4).map(|bit| u32::from(self.contains(place * 4 + bit)) << bit).sum();
            mask.push(char::from_digit(bits, 16).unwrap_or('0'));
            if place % 8 == 0 && place > 0 {
                mask.push(',');
            }
        }
        mask
    }

    /// Adds a CPU. Ignores a number of [`MAX_CPUS`] or more, because such a CPU cannot exist.
    pub fn insert(&mut self, cpu: usize) {
        if cpu < MAX_CPUS {
            if self.words.len() <= cpu / 64 {
                self.words.resize(cpu / 64 + 1, 0);
            }
            self.words[cpu / 64] |= 1 << (cpu % 64);
        }
    }

    /// Whether `cpu` is in the set.
    pub fn contains(&self, cpu: usize) -> bool {
        self.words.get(cpu / 64).is_some_and(|word| word >> (cpu % 64) & 1 == 1)
    }

    /// The CPUs, ascending.
    pub fn iter(&self) -> impl Iterator<Item = usize> + '_ {
        (0..self.words.len() * 64).filter(|cpu| self.contains(*cpu))
    }

    /// The lowest CPU.
    pub fn first(&self) -> Option<usize> {
        self.iter().next()
    }

    /// The number of CPUs in the set.
    pub fn len(&self) -> usize {
        self.words.iter().map(|word| word.count_ones() as usize).sum()
    }

    /// Whether the set is empty.
    pub fn is_empty(&self) -> bool {
        self.words.is_empty()
    }

    /// Whether every CPU of this set is in `other`.
    pub fn is_subset(&self, other: &CpuSet) -> bool {
        self.iter().all(|cpu| other.contains(cpu))
    }

    /// The CPUs that are in both.
    pub fn and(&self, other: &CpuSet) -> CpuSet {
        self.iter().filter(|cpu| other.contains(*cpu)).collect()
    }

    /// The CPUs of this set that are not in `other`.
    pub fn without(&self, other: &CpuSet) -> CpuSet {
        self.iter().filter(|cpu| !other.contains(*cpu)).collect()
    }

    /// The CPUs that are in either.
    pub fn or(&self, other: &CpuSet) -> CpuSet {
        self.iter().chain(other.iter()).collect()
    }

    fn insert_all(&mut self, cpus: RangeInclusive<usize>) {
        for cpu in cpus {
            self.insert(cpu);
        }
    }
}

fn parse_range(part: &str) -> Option<RangeInclusive<usize>> {
    let (first, last) = part.split_once('-').unwrap_or((part, part));
    let number = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok())?;
    let (first, last): (usize, usize) = (number(first)?, number(last)?);
    (first <= last && last < MAX_CPUS).then_some(first..=last)
}

impl FromIterator<usize> for CpuSet {
    fn from_iter<I: IntoIterator<Item = usize>>(cpus: I) -> CpuSet {
        let mut set = CpuSet::default();
        for cpu in cpus {
            set.insert(cpu);
        }
        set
    }
}

impl fmt::Display for CpuSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut runs: Vec<(usize, usize)> = Vec::new();
        for cpu in self.iter() {
            match runs.last_mut() {
                Some((_, last)) if *last + 1 == cpu => *last = cpu,
                _ => runs.push((cpu, cpu)),
            }
        }
        for (at, (first, last)) in runs.iter().enumerate() {
            let comma = if at == 0 { "" } else { "," };
            match first == last {
                true => write!(f, "{comma}{first}")?,
                false => write!(f, "{comma}{first}-{last}")?,
            }
        }
        Ok(())
    }
}

/// Serializes the set as the kernel's list, `"0-3,8"`, which `lscpu` and `taskset` use too.
#[cfg(feature = "serde")]
impl serde::Serialize for CpuSet {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl fmt::Debug for CpuSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CpuSet({self})")
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn masks_name_the_cpus_that_they_should() {
        let table = [
            ("00000000,00000000,00000000,00800000", "23"),
            ("00000000,00000000,00000002,00000000", "33"),
            ("ffe7", "0-2,5-15"),
            ("f,ffffffff", "0-35"),
            ("3", "0-1"),
            ("0", ""),
        ];
        for (mask, list) in table {
            let set = CpuSet::parse_mask(mask).unwrap();
            assert_eq!(set.to_string(), list, "{mask}");
            assert_eq!(CpuSet::parse_list(list), Some(set), "{list}");
        }
        assert_eq!(CpuSet::parse_list("23").unwrap().to_mask(128), "00000000,00000000,00000000,00800000");
        assert_eq!(CpuSet::parse_list("0-2,5-15").unwrap().to_mask(16), "ffe7");
    }

    #[test]
    fn invalid_sets_are_refused_without_using_memory() {
        for list in ["0-4294967295", "8192", "3-1", "a", "1,,2", "-1", "1-", "0-18446744073709551616", "+1", "1 2", ","]
        {
            assert_eq!(CpuSet::parse_list(list), None, "{list}");
        }
        for mask in ["", "g", ",", "1,1", "00000001,", "0x1", &"f".repeat(4096)] {
            assert_eq!(CpuSet::parse_mask(mask), None, "{mask}");
        }
    }

    #[test]
    fn sets_combine() {
        let set = |list| CpuSet::parse_list(list).unwrap();
        assert_eq!(set("0-3").without(&set("1,64")), set("0,2-3"));
        assert_eq!(set("0-3").and(&set("2-9")), set("2-3"));
        assert_eq!(set("0-3").or(&set("100")), set("0-3,100"));
        assert!(set("2").is_subset(&set("1-3")) && !set("2,70").is_subset(&set("1-3")));
        assert_eq!((set("5,7").first(), set("5,7").len(), set("").is_empty()), (Some(5), 2, true));
        assert_eq!(set("0,64").without(&set("64")), set("0"), "equal sets compare equal, however they were made");
    }

    proptest! {
        #[test]
        fn both_spellings_survive_a_round_trip(cpus in proptest::collection::vec(0..MAX_CPUS, 0..20), width in 1..MAX_CPUS) {
            let set: CpuSet = cpus.into_iter().collect();
            prop_assert_eq!(CpuSet::parse_list(&set.to_string()), Some(set.clone()));
            prop_assert_eq!(CpuSet::parse_mask(&set.to_mask(width)), Some(set));
        }

        #[test]
        fn no_text_makes_the_parsers_panic(text in "[0-9a-fx,\\- ]{0,24}|.{0,8}") {
            let _ = CpuSet::parse_list(&text);
            let _ = CpuSet::parse_mask(&text);
        }
    }
}
