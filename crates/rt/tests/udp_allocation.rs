//! Sending and receiving allocate nothing after the start. A program of its own, since the counter counts every thread.

use std::alloc::System;
use std::net::UdpSocket;

use evenkeel_rt::udp::{Choice, Stamps, Udp, UdpSettings, Undelivered, Way};
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};

#[global_allocator]
static COUNTING: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

#[test]
fn sending_and_receiving_allocates_nothing() {
    for way in Way::ALL {
        let settings = UdpSettings {
            address: "127.0.0.1:0".parse().unwrap(),
            receive: Choice::Is(way),
            send: Choice::Is(way),
            stamps: Stamps::EachPacket,
            undelivered: Undelivered::Told,
            ..UdpSettings::default()
        };
        let (mut server, mut client) = (Udp::open(settings).unwrap(), Udp::open(settings).unwrap());
        let (to, nobody) = (server.local_address(), UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap());
        let mut received = 0;
        let mut tick = || {
            for number in 0..64_u8 {
                client.send(to, &[number; 100]).unwrap();
                // One in sixteen goes nowhere, and one is longer than those before it.
                if number % 16 == 3 {
                    client.send(nobody, &[number; 200]).unwrap();
                }
            }
            client.flush();
            let (incoming, outgoing) = server.halves();
            received += incoming.receive(|packet| outgoing.send(packet.from, packet.bytes).unwrap()).packets;
            outgoing.flush();
            client.receive(|_| {});
            std::hint::black_box((server.received(), client.sent(), client.failures().count()));
        };
        // The first tick makes the ring ready.
        tick();
        let region = Region::new(COUNTING);
        (0..2000).for_each(|_| tick());
        let change = region.change();
        assert_eq!((change.allocations, change.reallocations), (0, 0), "{way}: {change:?}");
        assert!(received > 60 * 2000, "{way}: {received}");
    }
}
