//! Passes a recording to puffin's global profiler. Its sinks (a window, a socket, a file) get the recording with the next frame.

use std::collections::HashMap;

use evenkeel_sys::clock;
use puffin::{GlobalProfiler, ScopeDetails, ScopeId, Stream, StreamInfo, ThreadInfo};

use super::{Recorded, Recording, Span};

impl Recording {
    /// Passes the recording to puffin's global profiler, which adds it to the next frame (`GlobalProfiler::new_frame`).
    /// If recordings overlap, puffin shows their scopes twice. So take a recording only at the end of the time that you want to show.
    ///
    /// ```
    /// use evenkeel_rt::scope::{self, Scope};
    ///
    /// static MOVE: Scope = Scope::new("move players");
    ///
    /// scope::start_thread("tick", 64)?;
    /// drop(MOVE.enter());
    /// scope::recording()?.to_puffin();
    /// puffin::GlobalProfiler::lock().new_frame();
    /// # Ok::<(), evenkeel_rt::scope::ScopeError>(())
    /// ```
    pub fn to_puffin(&self) {
        let apart_ns = puffin::now_ns() - clock::monotonic_ns().cast_signed();
        let mut profiler = GlobalProfiler::lock();
        for (number, thread) in self.threads.iter().enumerate() {
            let mut names: Vec<&'static str> = thread.spans.iter().map(|span| span.name).collect();
            names.sort_unstable();
            names.dedup();
            let details: Vec<_> = names.iter().map(|name| ScopeDetails::from_scope_name(*name)).collect();
            let ids: HashMap<_, _> = names.iter().copied().zip(profiler.register_user_scopes(&details)).collect();
            // This stream is always valid. If puffin could not parse it, only this thread's scopes would be missing.
            if let Ok(stream) = StreamInfo::parse(stream(thread, &ids, apart_ns))
                && stream.num_scopes > 0
            {
                let info = ThreadInfo { start_time_ns: Some(number as i64), name: thread.name.clone() };
                profiler.report_user_scopes(info, &stream.as_stream_into_ref());
            }
        }
    }
}

/// The thread's scopes in puffin's order: each outer scope comes before its inner scopes.
fn stream(thread: &Recorded, ids: &HashMap<&str, ScopeId>, apart_ns: i64) -> Stream {
    let mut spans: Vec<&Span> = thread.spans.iter().collect();
    spans.sort_by_key(|span| (span.start_ns, std::cmp::Reverse(span.length_ns)));
    let at = |ns: u64| ns.cast_signed().saturating_add(apart_ns);
    let mut stream = Stream::default();
    // The position in the stream and the end of each open scope.
    let mut open: Vec<(usize, u64)> = Vec::new();
    for span in spans {
        let Some(id) = ids.get(span.name) else { continue };
        while let Some((offset, end_ns)) = open.pop_if(|(_, end_ns)| *end_ns <= span.start_ns) {
            stream.end_scope(offset, at(end_ns));
        }
        // Readings of the counter may be some nanoseconds out of order. So cut a scope at the end of the scope that contains it.
        let within_ns = open.last().map_or(u64::MAX, |(_, end_ns)| *end_ns);
        let (offset, _) = stream.begin_scope(|| at(span.start_ns), *id, "");
        open.push((offset, span.start_ns.saturating_add(span.length_ns).min(within_ns)));
    }
    while let Some((offset, end_ns)) = open.pop() {
        stream.end_scope(offset, at(end_ns));
    }
    stream
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use puffin::Reader;

    use super::*;

    #[test]
    fn a_frame_has_the_scopes_nested() {
        let span = |name, start_ns, length_ns| Span { name, start_ns, length_ns, switched_out: None };
        // The ring records scopes as the thread leaves them, so inner scopes come first. Here the last inner scope ends a moment after the outer one.
        let spans =
            vec![span("move", 1000, 300), span("shoot", 1400, 601), span("tick", 1000, 1000), span("tick", 3000, 10)];
        let thread = Recorded { name: "ticks".into(), thread: 1, spans, overwritten: 0, unnamed: 0 };
        let frames = Arc::new(Mutex::new(Vec::new()));
        let kept = Arc::clone(&frames);
        let sink = GlobalProfiler::lock().add_sink(Box::new(move |frame| kept.lock().unwrap().push(frame)));
        Recording { threads: vec![thread], compared_ns: None, threads_refused: 0 }.to_puffin();
        let mut profiler = GlobalProfiler::lock();
        profiler.new_frame();
        profiler.remove_sink(sink);
        let frames = frames.lock().unwrap();
        let Ok(unpacked) = frames[0].unpacked();
        let (info, stream) = unpacked.thread_streams.first_key_value().unwrap();
        assert_eq!((info.name.as_str(), stream.num_scopes, stream.depth), ("ticks", 4, 2));
        // A scope that is registered already keeps its number.
        let known = ["move", "shoot", "tick"];
        let ids = profiler.register_user_scopes(&known.map(ScopeDetails::from_scope_name));
        let names: HashMap<ScopeId, &str> = ids.into_iter().zip(known).collect();
        let tops = Reader::from_start(&stream.stream).read_top_scopes().unwrap();
        let shown: Vec<_> = tops.iter().map(|top| (names[&top.id], top.record.duration_ns)).collect();
        assert_eq!(shown, [("tick", 1000), ("tick", 10)]);
        let inner =
            Reader::with_offset(&stream.stream, tops[0].child_begin_position).unwrap().read_top_scopes().unwrap();
        let shown: Vec<_> = inner.iter().map(|scope| (names[&scope.id], scope.record.duration_ns)).collect();
        assert_eq!(shown, [("move", 300), ("shoot", 600)]);
    }
}
