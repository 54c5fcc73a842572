//! `ScopeLayer`: records spans of the crate tracing as scopes, for servers that already use tracing.

use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::{PoisonError, RwLock};

use tracing::callsite::Identifier;
use tracing::span::{Attributes, Id};
use tracing::subscriber::Interest;
use tracing::{Metadata, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::layer::Context;
use tracing_subscriber::registry::LookupSpan;

use super::{Entered, NAMES_MAX, Scope};

/// Maximum number of nested spans that one thread can record.
const DEPTH_MAX: usize = 256;

thread_local! {
    /// The spans that this thread has entered and not left, with their scopes.
    static INSIDE: RefCell<Vec<(Id, Entered)>> = RefCell::new(Vec::with_capacity(DEPTH_MAX));
}

/// Records spans as scopes, once [`start_thread`](super::start_thread) was called.
/// A span costs as much as tracing's registry and a scope together. If every nanosecond counts, use [`Scope`] itself.
///
/// ```
/// use evenkeel_rt::scope::{self, ScopeLayer};
/// use tracing_subscriber::layer::SubscriberExt;
///
/// let subscriber = tracing_subscriber::registry().with(ScopeLayer::default());
/// scope::start_thread("ticks", 1024)?;
/// tracing::subscriber::with_default(subscriber, || tracing::info_span!("move players").in_scope(|| { /* … */ }));
/// assert_eq!(scope::recording()?.threads[0].spans[0].name, "move players");
/// # Ok::<(), evenkeel_rt::scope::ScopeError>(())
/// ```
#[derive(Debug, Default)]
pub struct ScopeLayer {
    /// One scope for each place in the code. Scopes are never freed, because the places stay too.
    scopes: RwLock<HashMap<Identifier, &'static Scope>>,
}

impl ScopeLayer {
    fn scope_of(&self, metadata: &Metadata<'static>) -> Option<&'static Scope> {
        let callsite = metadata.callsite();
        if let Some(scope) = self.scopes.read().unwrap_or_else(PoisonError::into_inner).get(&callsite) {
            return Some(scope);
        }
        let mut scopes = self.scopes.write().unwrap_or_else(PoisonError::into_inner);
        if scopes.len() >= NAMES_MAX {
            return None;
        }
        Some(scopes.entry(callsite).or_insert_with(|| Box::leak(Box::new(Scope::new(metadata.name())))))
    }
}

impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for ScopeLayer {
    fn register_callsite(&self, metadata: &'static Metadata<'static>) -> Interest {
        // Create the scope here rather than at the first span, which may be in the middle of a tick.
        if metadata.is_span() {
            self.scope_of(metadata);
        }
        Interest::always()
    }

    fn on_new_span(&self, _: &Attributes<'_>, _: &Id, _: Context<'_, S>) {}

    fn on_enter(&self, id: &Id, context: Context<'_, S>) {
        let Some(scope) = context.span(id).and_then(|span| self.scope_of(span.metadata())) else { return };
        // In a thread that is just ending, there is no list.
        let _ = INSIDE.try_with(|inside| {
            let mut inside = inside.borrow_mut();
            if inside.len() < DEPTH_MAX {
                inside.push((id.clone(), scope.enter()));
            }
        });
    }

    fn on_exit(&self, id: &Id, _: Context<'_, S>) {
        let left = INSIDE.try_with(|inside| {
            let mut inside = inside.borrow_mut();
            // Programs need not leave spans in the order in which they entered them.
            inside.iter().rposition(|(entered, _)| entered == id).map(|at| inside.remove(at))
        });
        drop(left);
    }
}

#[cfg(test)]
mod tests {
    use tracing_subscriber::layer::SubscriberExt;

    use super::super::{recording, start_thread};
    use super::*;

    #[test]
    fn spans_are_recorded_with_their_names() {
        let body = || {
            start_thread("spans", 64).unwrap();
            let subscriber = tracing_subscriber::registry().with(ScopeLayer::default());
            tracing::subscriber::with_default(subscriber, || {
                let outer = tracing::info_span!("a tick").entered();
                for _ in 0..2 {
                    tracing::info_span!("a move").in_scope(|| {});
                }
                drop(outer);
                // The test leaves the spans in another order than it entered them.
                let (one, two) = (tracing::info_span!("one"), tracing::info_span!("two"));
                let (one, two) = (one.entered(), two.entered());
                drop(one);
                drop(two);
            });
        };
        std::thread::spawn(body).join().unwrap();
        let recorded = recording().unwrap().threads.into_iter().find(|thread| thread.name == "spans").unwrap();
        let names: Vec<_> = recorded.spans.iter().map(|span| span.name).collect();
        assert_eq!(names, ["a move", "a move", "a tick", "one", "two"]);
    }
}
