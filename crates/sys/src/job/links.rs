//! `Links`: dependencies between jobs. A link stands for work that other work may wait for, and that may wait for other work.
//! Each link has a chain of edges to the links that wait for it, and a count of links that it still waits for.
//! The memory is bounded, and no operation takes a lock.

use super::primitive::{AtomicU32, Ordering, fence};

/// No edge.
const NONE: u32 = u32::MAX;
/// The state of a link whose work is done: no more edges may be added.
const DONE: u32 = u32::MAX - 1;
/// The state of a link whose work failed: no more edges may be added.
const FAILED: u32 = u32::MAX - 2;
/// This bit in a count means that a dependency failed.
const SPOILT: u32 = 1 << 31;

/// A link. It is valid until the links are [`clear`](Links::clear)ed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Link(u32);

impl Link {
    /// The index of this link among all links.
    pub fn index(self) -> usize {
        self.0 as usize
    }

    /// The link with this index.
    pub fn at(index: u32) -> Link {
        Link(index)
    }
}

#[derive(Debug)]
struct Node {
    /// The number of links that this link waits for. Until the link is started, it also counts itself. The bit [`SPOILT`] is in this number too.
    waits_for: AtomicU32,
    /// The first edge to the links that wait for this link, or [`NONE`], [`DONE`] or [`FAILED`].
    first: AtomicU32,
}

#[derive(Debug)]
struct Edge {
    to: AtomicU32,
    next: AtomicU32,
}

/// A fixed number of links and edges.
#[derive(Debug)]
pub struct Links {
    nodes: Box<[Node]>,
    edges: Box<[Edge]>,
    nodes_used: AtomicU32,
    edges_used: AtomicU32,
}

impl Links {
    /// Allocates memory for this many links, and for this many pairs in which one link waits for another.
    pub fn new(links: u32, pairs: u32) -> Links {
        let zero = || AtomicU32::new(0);
        Links {
            nodes: (0..links.min(FAILED)).map(|_| Node { waits_for: zero(), first: AtomicU32::new(DONE) }).collect(),
            edges: (0..pairs.min(FAILED)).map(|_| Edge { to: zero(), next: zero() }).collect(),
            nodes_used: zero(),
            edges_used: zero(),
        }
    }

    /// How many links the memory can hold.
    pub fn room(&self) -> usize {
        self.nodes.len()
    }

    /// Frees all links. Call it when no link is in use. Otherwise jobs may start in the wrong order, but nothing worse happens.
    pub fn clear(&self) {
        self.nodes_used.store(0, Ordering::Relaxed);
        self.edges_used.store(0, Ordering::Relaxed);
    }

    /// Creates a link that waits for all of `others`. A `None` among them means completed work. Returns `None` if there is no room.
    /// The link stays blocked until it is [`start`](Links::start)ed.
    pub fn link(&self, others: impl ExactSizeIterator<Item = Option<Link>>) -> Option<Link> {
        let pairs = u32::try_from(others.len()).ok()?;
        let first = take(&self.edges_used, pairs, self.edges.len())?;
        let own = take(&self.nodes_used, 1, self.nodes.len())?;
        let node = self.nodes.get(own as usize)?;
        node.first.store(NONE, Ordering::Relaxed);
        node.waits_for.store(1 + pairs, Ordering::Relaxed);
        for (edge, other) in (first..first + pairs).zip(others) {
            match other.map(|other| self.hang(edge, other, own)) {
                Some(NONE) => {}
                Some(FAILED) => {
                    node.waits_for.fetch_or(SPOILT, Ordering::Relaxed);
                    node.waits_for.fetch_sub(1, Ordering::Relaxed);
                }
                _ => _ = node.waits_for.fetch_sub(1, Ordering::Relaxed),
            }
        }
        Some(Link(own))
    }

    /// Adds an edge from `other` to the link `own`. Returns [`NONE`]. If `other` is already done or failed, returns [`DONE`] or [`FAILED`] instead.
    /// A link can wait only for older links, so there are no cycles.
    fn hang(&self, at: u32, other: Link, own: u32) -> u32 {
        if other.0 >= own {
            return DONE;
        }
        let (Some(edge), Some(other)) = (self.edges.get(at as usize), self.nodes.get(other.index())) else {
            return DONE;
        };
        edge.to.store(own, Ordering::Relaxed);
        let mut first = other.first.load(Ordering::Relaxed);
        while first != DONE && first != FAILED {
            edge.next.store(first, Ordering::Relaxed);
            // Release: the thread that completes `other` sees the edge and its count.
            match other.first.compare_exchange_weak(first, at, Ordering::Release, Ordering::Relaxed) {
                Ok(_) => return NONE,
                Err(now) => first = now,
            }
        }
        // Acquire: makes earlier work visible to a link that no longer waits.
        fence(Ordering::Acquire);
        first
    }

    /// From now on, the link is released as soon as all its dependencies are done. If they are already done, returns whether all succeeded.
    #[must_use]
    pub fn start(&self, link: Link) -> Option<bool> {
        self.nodes.get(link.index()).and_then(|node| count_down(node, 0))
    }

    /// Whether the link's work is done.
    pub fn is_done(&self, link: Link) -> bool {
        self.nodes.get(link.index()).is_none_or(|node| matches!(node.first.load(Ordering::Acquire), DONE | FAILED))
    }

    /// Marks the link's work as done. `well` says whether it succeeded.
    /// Calls `free` for each link that no longer waits, and passes whether all dependencies of that link succeeded.
    pub fn done(&self, link: Link, well: bool, mut free: impl FnMut(Link, bool)) {
        let Some(node) = self.nodes.get(link.index()) else { return };
        // Release is for threads that check this link later. Acquire is for the edges.
        let mut at = node.first.swap(if well { DONE } else { FAILED }, Ordering::AcqRel);
        for _ in 0..self.edges.len() {
            let Some(edge) = self.edges.get(at as usize) else { return };
            at = edge.next.load(Ordering::Relaxed);
            let to = edge.to.load(Ordering::Relaxed);
            let Some(waiting) = self.nodes.get(to as usize) else { return };
            if let Some(all_well) = count_down(waiting, if well { 0 } else { SPOILT }) {
                free(Link(to), all_well);
            }
        }
    }
}

/// Counts one dependency as done. If it was the last one, returns whether all dependencies succeeded.
fn count_down(node: &Node, spoilt: u32) -> Option<bool> {
    if spoilt != 0 {
        node.waits_for.fetch_or(spoilt, Ordering::Relaxed);
    }
    // Release and Acquire: the thread that counts last sees everything that the other threads did.
    let before = node.waits_for.fetch_sub(1, Ordering::AcqRel);
    (before & !SPOILT == 1).then_some(before & SPOILT == 0)
}

/// Reserves this many of the next entries. `None` if not enough entries are left.
fn take(used: &AtomicU32, count: u32, room: usize) -> Option<u32> {
    let mut at = used.load(Ordering::Relaxed);
    loop {
        let end = at.checked_add(count).filter(|end| *end as usize <= room)?;
        match used.compare_exchange_weak(at, end, Ordering::Relaxed, Ordering::Relaxed) {
            Ok(_) => return Some(at),
            Err(now) => at = now,
        }
    }
}

#[cfg(all(test, not(loom)))]
#[expect(clippy::unwrap_used, reason = "helpers of tests: a panic is how a test says that it can't go on")]
mod tests {
    use super::*;

    fn link(links: &Links, others: &[Link]) -> Link {
        links.link(others.iter().copied().map(Some)).unwrap()
    }

    /// The links that are released, each with whether its dependencies succeeded.
    fn freed(links: &Links, done: Link, well: bool) -> Vec<(usize, bool)> {
        let mut freed = Vec::new();
        links.done(done, well, |link, well| freed.push((link.index(), well)));
        freed.sort_unstable();
        freed
    }

    #[test]
    fn the_last_dependency_releases() {
        let links = Links::new(8, 8);
        let first = link(&links, &[]);
        assert_eq!(links.start(first), Some(true));
        let (left, right) = (link(&links, &[first]), link(&links, &[first]));
        let last = link(&links, &[left, right, left]);
        for waiting in [left, right, last] {
            assert_eq!(links.start(waiting), None);
        }
        assert_eq!(freed(&links, first, true), [(1, true), (2, true)]);
        assert_eq!(freed(&links, right, true), []);
        assert!(links.is_done(right) && !links.is_done(left));
        assert_eq!(freed(&links, left, true), [(3, true)]);
        let late = link(&links, &[first, left]);
        assert_eq!(links.start(late), Some(true), "what it waits for is done");
    }

    #[test]
    fn failures_reach_dependents() {
        let links = Links::new(4, 4);
        let (bad, good) = (link(&links, &[]), link(&links, &[]));
        let both = link(&links, &[bad, good]);
        assert_eq!([bad, good, both].map(|link| links.start(link)), [Some(true), Some(true), None]);
        assert_eq!(freed(&links, bad, false), []);
        assert_eq!(freed(&links, good, true), [(2, false)]);
        let late = link(&links, &[bad]);
        assert_eq!(links.start(late), Some(false), "a failure before the start counts too");
    }

    #[test]
    fn full_links_are_refused_and_none_waits_for_itself() {
        let links = Links::new(3, 2);
        let first = link(&links, &[]);
        let second = link(&links, &[first, first]);
        assert_eq!(links.link([Some(first)].into_iter()), None, "no pair is left");
        let circle = links.link(std::iter::empty()).unwrap();
        assert_eq!(links.link(std::iter::empty()), None, "no link is left");
        assert_eq!((circle.index(), links.room()), (2, 3));
        links.clear();
        let odd = links.link([Some(Link::at(0)), Some(Link::at(77))].into_iter()).unwrap();
        assert_eq!(links.start(odd), Some(true), "a link waits neither for itself nor for a link that does not exist");
        assert!(links.is_done(Link::at(77)) && links.start(Link::at(77)).is_none());
        links.done(Link::at(77), true, |_, _| unreachable!());
        let _ = second;
    }
}

#[cfg(all(test, loom))]
mod model {
    use loom::sync::Arc;
    use loom::sync::atomic::{AtomicUsize, Ordering};
    use loom::thread;

    use super::*;

    #[test]
    fn a_dependent_is_released_once_and_sees_its_dependencies() {
        loom::model(|| {
            let shared = Arc::new((Links::new(3, 2), AtomicUsize::new(0), AtomicUsize::new(0)));
            let others = [(); 2].map(|()| shared.0.link(std::iter::empty()).unwrap());
            others.iter().for_each(|other| assert_eq!(shared.0.start(*other), Some(true)));
            let threads = others.map(|other| {
                let shared = Arc::clone(&shared);
                thread::spawn(move || {
                    // One thread that reads must see the earlier writes of two threads.
                    shared.1.fetch_add(1, Ordering::Relaxed);
                    shared.0.done(other, true, |_, _| {
                        assert_eq!(shared.1.load(Ordering::Relaxed), 2);
                        shared.2.fetch_add(1, Ordering::Relaxed);
                    });
                })
            });
            let own = shared.0.link(others.into_iter().map(Some)).unwrap();
            if shared.0.start(own).is_some() {
                assert_eq!(shared.1.load(Ordering::Relaxed), 2);
                shared.2.fetch_add(1, Ordering::Relaxed);
            }
            for thread in threads {
                thread.join().unwrap();
            }
            assert_eq!(shared.2.load(Ordering::Relaxed), 1);
        });
    }
}
