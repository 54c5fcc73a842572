//! Scopes whose names are known only at run time: for engines in other languages, and for names from data.

use std::sync::{Mutex, PoisonError};

use super::{NAMES_MAX, Scope};

/// We refuse longer names, because names stay in memory as long as the process runs.
const NAME_BYTES_MAX: usize = 128;

static NAMED: Mutex<Vec<&'static Scope>> = Mutex::new(Vec::new());

impl Scope {
    /// Returns the scope with this name of 1 to 128 bytes. The same name always gives the same scope.
    /// `None` if the name is longer or empty, or 4,096 names exist.
    /// The call takes a lock, and allocates memory that is never freed. Call it at the start, not in a tick.
    ///
    /// ```
    /// use evenkeel_rt::scope::{self, Scope};
    ///
    /// let think = Scope::named("bots think").expect("there is room for thousands of names");
    /// scope::start_thread("named scopes", 64)?;
    /// drop(think.enter());
    /// assert_eq!(scope::recording()?.threads[0].spans[0].name, "bots think");
    /// # Ok::<(), evenkeel_rt::scope::ScopeError>(())
    /// ```
    pub fn named(name: &str) -> Option<&'static Scope> {
        if name.is_empty() || name.len() > NAME_BYTES_MAX {
            return None;
        }
        let mut known = NAMED.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(scope) = known.iter().find(|scope| scope.name == name) {
            return Some(scope);
        }
        if known.len() >= NAMES_MAX {
            return None;
        }
        // Recordings return references to names, which live as long as the process. The number of names is bounded.
        let scope: &'static Scope = Box::leak(Box::new(Scope::new(String::leak(name.to_owned()))));
        known.push(scope);
        Some(scope)
    }
}

#[cfg(test)]
mod tests {
    use super::super::{recording, start_thread};
    use super::*;

    #[test]
    fn a_name_from_data_is_a_scope() {
        let body = || {
            start_thread("by name", 64).unwrap();
            let think = Scope::named("think").unwrap();
            assert!(std::ptr::eq(Scope::named("think").unwrap(), think));
            assert!(!std::ptr::eq(Scope::named("act").unwrap(), think));
            drop(think.enter());
        };
        std::thread::spawn(body).join().unwrap();
        let recorded = recording().unwrap().threads.into_iter().find(|thread| thread.name == "by name").unwrap();
        assert_eq!(recorded.spans.iter().map(|span| span.name).collect::<Vec<_>>(), ["think"]);
    }

    #[test]
    fn names_are_bounded() {
        assert!(Scope::named("").is_none());
        assert!(Scope::named(&"x".repeat(129)).is_none());
        assert!(Scope::named(&"x".repeat(128)).is_some());
    }
}
