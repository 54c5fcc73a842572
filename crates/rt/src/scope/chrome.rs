//! A recording in Chrome's trace event format, which Perfetto reads too.

use serde::Serialize;

use super::{Recorded, Recording};

/// One event: <https://docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU>, "Complete Events" and "Metadata Events".
#[derive(Serialize)]
#[serde(untagged)]
enum Event<'a> {
    Span { name: &'a str, ph: &'a str, ts: f64, dur: f64, pid: u32, tid: usize, args: Switched },
    Thread { name: &'a str, ph: &'a str, pid: u32, tid: usize, args: Named<'a> },
}

/// Whether the thread was switched out. The field is absent if that is not known.
#[derive(Serialize)]
struct Switched {
    #[serde(skip_serializing_if = "Option::is_none")]
    switched_out: Option<bool>,
}

/// Viewers show the thread's name. `evenkeel profile scopes` compares the other fields with what the kernel recorded about the thread.
#[derive(Serialize)]
struct Named<'a> {
    name: &'a str,
    kernel_thread: u32,
    overwritten: u64,
    unnamed: u64,
}

/// The clock of all times, and the interval in which times are accurate.
#[derive(Serialize)]
struct Clock<'a> {
    clock: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    compared_ns: Option<(u64, u64)>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Trace<'a> {
    display_time_unit: &'a str,
    other_data: Clock<'a>,
    trace_events: Vec<Event<'a>>,
}

impl Recording {
    /// The recording as JSON that opens in Perfetto and in chrome://tracing. Times are microseconds of the monotonic clock.
    ///
    /// ```
    /// use evenkeel_rt::scope;
    ///
    /// scope::start_thread("tick", 64)?;
    /// let json = scope::recording()?.chrome_json(); // write it to a file, and open that in Perfetto
    /// assert!(json.starts_with('{'));
    /// # Ok::<(), evenkeel_rt::scope::ScopeError>(())
    /// ```
    pub fn chrome_json(&self) -> String {
        let pid = std::process::id();
        let mut events = Vec::new();
        for (tid, thread) in self.threads.iter().enumerate() {
            let Recorded { thread: kernel_thread, overwritten, unnamed, .. } = *thread;
            let args = Named { name: &thread.name, kernel_thread, overwritten, unnamed };
            events.push(Event::Thread { name: "thread_name", ph: "M", pid, tid, args });
            events.extend(thread.spans.iter().map(|span| Event::Span {
                name: span.name,
                ph: "X",
                ts: span.start_ns as f64 / 1e3,
                dur: span.length_ns as f64 / 1e3,
                pid,
                tid,
                args: Switched { switched_out: span.switched_out },
            }));
        }
        // Converting names and numbers to JSON cannot fail.
        let other_data = Clock { clock: "CLOCK_MONOTONIC", compared_ns: self.compared_ns };
        serde_json::to_string(&Trace { display_time_unit: "ns", other_data, trace_events: events }).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::super::Span;
    use super::*;

    #[test]
    fn a_recording_opens_elsewhere() {
        let spans = vec![Span { name: "move \"x\"", start_ns: 1_500, length_ns: 250, switched_out: Some(true) }];
        let thread = Recorded { name: "tick".into(), thread: 77, spans, overwritten: 3, unnamed: 0 };
        let json =
            Recording { threads: vec![thread], compared_ns: Some((1_000, 2_000)), threads_refused: 0 }.chrome_json();
        let plain = json.replace(&format!("\"pid\":{}", std::process::id()), "\"pid\":1");
        expect_test::expect![[r#"{"displayTimeUnit":"ns","otherData":{"clock":"CLOCK_MONOTONIC","compared_ns":[1000,2000]},"traceEvents":[{"name":"thread_name","ph":"M","pid":1,"tid":0,"args":{"name":"tick","kernel_thread":77,"overwritten":3,"unnamed":0}},{"name":"move \"x\"","ph":"X","ts":1.5,"dur":0.25,"pid":1,"tid":0,"args":{"switched_out":true}}]}"#]]
            .assert_eq(&plain);
    }
}
