//! Sending and receiving allocate nothing after the start.

use std::net::UdpSocket;

use evenkeel_rt::udp::{BackendChoice, IoBackend, Stamps, Udp, UdpSettings, Undelivered};

use crate::counted;

#[test]
fn sending_and_receiving_allocates_nothing() {
    let _alone = counted::alone();
    for backend in IoBackend::ALL {
        let settings = UdpSettings {
            address: "127.0.0.1:0".parse().unwrap(),
            receive: BackendChoice::Is(backend),
            send: BackendChoice::Is(backend),
            stamps: Stamps::EachPacket,
            undelivered: Undelivered::Reported,
            ..UdpSettings::default()
        };
        let (mut server, mut client) = (Udp::open(settings).unwrap(), Udp::open(settings).unwrap());
        // This socket is connected to itself. It receives from nobody else, and keeps its port. Senders get the error for a closed port.
        let deaf = UdpSocket::bind("127.0.0.1:0").unwrap();
        let (to, nobody) = (server.local_address(), deaf.local_addr().unwrap());
        deaf.connect(nobody).unwrap();
        let (mut received, mut ticks) = (0, 0);
        let mut tick = || {
            ticks += 1;
            for number in 0..64_u8 {
                client.send(to, &[number; 100]).unwrap();
                // One packet in sixteen goes to a closed port, and one is longer than all packets before it.
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
        // The first tick prepares the ring.
        tick();
        let change = counted::count(|| (0..500).for_each(|_| tick()));
        assert_eq!((change.allocations, change.reallocations), (0, 0), "{backend}: {change:?}");
        assert!(received > 60 * ticks, "{backend}: {received}");
    }
}
