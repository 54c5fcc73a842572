//! `Placement`: the CPUs of a server and its load.

use std::fmt::{self, Display};

use evenkeel_sys::{CpuSet, thread};

/// How CPUs are assigned to a server and its load.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Placement {
    /// The server gets the first half of this process's CPUs, and the load the rest. With only one CPU, neither is pinned.
    #[default]
    Apart,
    /// Server and load both run on the first of this process's CPUs.
    Together,
    /// Neither server nor load is pinned.
    Free,
}

/// Prints the name that options use.
impl Display for Placement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Placement::Apart => "apart",
            Placement::Together => "together",
            Placement::Free => "free",
        })
    }
}

impl Placement {
    /// The placement with this name.
    pub fn parse(text: &str) -> Option<Placement> {
        [Placement::Apart, Placement::Together, Placement::Free].into_iter().find(|known| known.to_string() == text)
    }

    /// The CPUs of the server, and the CPUs of its load. An empty set means that a process is not pinned.
    pub fn cpus(self) -> (CpuSet, CpuSet) {
        let ours = thread::affinity().unwrap_or_default();
        let first: CpuSet = ours.iter().take(1).collect();
        match self {
            Placement::Free => (CpuSet::default(), CpuSet::default()),
            Placement::Together => (first.clone(), first),
            Placement::Apart if ours.len() < 2 => (CpuSet::default(), CpuSet::default()),
            Placement::Apart => {
                let half: CpuSet = ours.iter().take(ours.len() / 2).collect();
                let rest = ours.without(&half);
                (half, rest)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn halves_do_not_overlap() {
        let (server, load) = Placement::Apart.cpus();
        assert!(server.and(&load).is_empty());
        assert_eq!(server.is_empty(), load.is_empty());
        let (server, load) = Placement::Together.cpus();
        assert_eq!((server.len(), &server), (1, &load));
    }
}
