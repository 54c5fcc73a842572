//! `Give`: packets that a server sends when a session requests them, for an agreed time at an agreed rate.
//! The server ends early when the session stops asking, because the proved address may belong to another host by then.

use super::wire::StreamRequest;

/// A client that has not repeated its request for this long gets no more packets.
pub(super) const UNASKED_NS: u64 = 1_000_000_000;
/// The interval at which a client should repeat its request.
pub(crate) const ASK_AGAIN_NS: u64 = 200_000_000;
/// The lost time that a server makes up for after it lost its CPU. Packets from earlier times are skipped.
const CATCH_UP_NS: u64 = 20_000_000;

/// One running request.
#[derive(Clone, Copy, Debug)]
pub(super) struct Give {
    request: StreamRequest,
    packets_per_s: u32,
    start_ns: u64,
    asked_ns: u64,
    /// The number of packets of the agreed rate that are done (sent or skipped), and the number that were sent.
    done: u64,
    sent: u64,
}

/// Packets to send now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Due {
    /// The number of the first packet.
    pub(super) at: u32,
    /// The number of packets.
    pub(super) packets: u32,
    /// The length of each packet, in bytes.
    pub(super) bytes: u16,
}

impl Give {
    pub(super) fn new(request: StreamRequest, packets_per_s: u32, now_ns: u64) -> Give {
        Give { request, packets_per_s, start_ns: now_ns, asked_ns: now_ns, done: 0, sent: 0 }
    }

    /// Handles a repeated request. Returns the agreed rate. None if the time of the request is over, or if the request differs.
    pub(super) fn again(&mut self, request: StreamRequest, now_ns: u64) -> Option<u32> {
        if request != self.request || !self.is_running(now_ns) {
            return None;
        }
        self.asked_ns = now_ns;
        Some(self.packets_per_s)
    }

    pub(super) fn is_running(&self, now_ns: u64) -> bool {
        let past_ns = now_ns.saturating_sub(self.start_ns);
        past_ns < u64::from(self.request.ms) * 1_000_000 && now_ns.saturating_sub(self.asked_ns) < UNASKED_NS
    }

    /// The payload rate in bits per second.
    pub(super) fn bits_per_s(&self) -> u64 {
        u64::from(self.packets_per_s) * u64::from(self.request.bytes) * 8
    }

    /// The packets that are due by now, at most this many.
    pub(super) fn due(&mut self, now_ns: u64, most: u32) -> Option<Due> {
        if !self.is_running(now_ns) {
            return None;
        }
        let of_ns = |ns: u64| (u128::from(ns) * u128::from(self.packets_per_s) / 1_000_000_000) as u64;
        let by_now = of_ns(now_ns - self.start_ns) + 1;
        let waiting = by_now.saturating_sub(self.done).min(of_ns(CATCH_UP_NS) + 1);
        let packets = waiting.min(most.into()) as u32;
        let at = u32::try_from(self.sent).ok().filter(|_| packets > 0)?;
        self.done = by_now - waiting + u64::from(packets);
        self.sent += u64::from(packets);
        Some(Due { at, packets, bytes: self.request.bytes })
    }
}

/// The packets per second that a request gets.
/// All requests together may send `bits_per_s_max`, and the running requests already send `running_bits_per_s`. None if nothing is left.
pub(super) fn grant(request: &StreamRequest, bits_per_s_max: u64, running_bits_per_s: u64) -> Option<u32> {
    let share = bits_per_s_max / u64::from(request.streams.max(1));
    let left = share.min(bits_per_s_max.saturating_sub(running_bits_per_s));
    let most = left / (u64::from(request.bytes.max(1)) * 8);
    Some(u64::from(request.packets_per_s).min(most) as u32).filter(|per_s| *per_s > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn request() -> StreamRequest {
        StreamRequest { session: 1, ask: 2, ms: 3000, packets_per_s: 1000, bytes: 1000, streams: 1 }
    }

    #[test]
    fn packets_come_at_the_rate_and_end_with_the_time() {
        let mut give = Give::new(request(), 1000, 5);
        assert_eq!(give.due(5, 64), Some(Due { at: 0, packets: 1, bytes: 1000 }));
        assert_eq!(give.due(5, 64), None, "once");
        assert_eq!(
            give.due(5 + 3 * MS, 2),
            Some(Due { at: 1, packets: 2, bytes: 1000 }),
            "no more than there is room for"
        );
        assert_eq!(give.due(5 + 3 * MS, 64), Some(Due { at: 3, packets: 1, bytes: 1000 }));
        let mut sent = 4;
        for ms in 4..4000_u64 {
            give.again(request(), 5 + ms * MS);
            sent += give.due(5 + ms * MS, 64).map_or(0, |due| due.packets);
        }
        assert_eq!(sent, 3000);
    }

    #[test]
    fn a_stall_is_not_made_up_for_and_numbers_have_no_hole() {
        let mut give = Give::new(request(), 1000, 0);
        assert_eq!(give.due(0, 64).map(|due| due.packets), Some(1));
        assert_eq!(give.due(500 * MS, 64), Some(Due { at: 1, packets: 21, bytes: 1000 }));
        assert_eq!(give.due(500 * MS, 64), None);
        assert_eq!(give.due(501 * MS, 64), Some(Due { at: 22, packets: 1, bytes: 1000 }));
    }

    #[test]
    fn a_silent_client_gets_no_more() {
        let mut give = Give::new(request(), 1000, 0);
        assert_eq!(
            give.again(StreamRequest { ask: 3, ..request() }, 900 * MS),
            None,
            "another request does not prolong it"
        );
        assert!(give.is_running(999 * MS) && !give.is_running(1000 * MS));
        assert_eq!(give.due(1000 * MS, 64), None);
        assert_eq!(give.again(request(), 1000 * MS), None, "too late");
        assert_eq!(give.again(request(), 999 * MS), Some(1000));
        assert!(give.is_running(1998 * MS));
    }

    #[test]
    fn a_rate_is_cut_to_what_is_left() {
        for (packets_per_s, streams, most, running, granted) in [
            (1000, 1, 1_000_000_000, 0, Some(1000)),
            (u32::MAX, 1, 8_000_000, 0, Some(1000)),
            (u32::MAX, 4, 8_000_000, 0, Some(250)),
            (u32::MAX, 2, 8_000_000, 6_000_000, Some(250)),
            (u32::MAX, 1, 8_000_000, 8_000_000, None),
            (u32::MAX, 1, 8_000_000, u64::MAX, None),
            (1, 1, 0, 0, None),
            (1, 1, 7999, 0, None),
        ] {
            let request = StreamRequest { packets_per_s, streams, ..request() };
            assert_eq!(grant(&request, most, running), granted, "{packets_per_s} {streams} {most} {running}");
        }
    }
}
