//! Tests the guarantees of `Udp` for each backend on loopback.

use std::net::{SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

use evenkeel_rt::udp::{BackendChoice, BufferNeed, Half, IoBackend, Stamps, Udp, UdpSettings, Undelivered};
use evenkeel_testkit::skipped;

use crate::PATIENCE;

fn open(address: &str, backend: IoBackend, change: impl FnOnce(UdpSettings) -> UdpSettings) -> Option<Udp> {
    let settings = UdpSettings {
        address: address.parse().unwrap(),
        receive: BackendChoice::Is(backend),
        send: BackendChoice::Is(backend),
        bytes_max: 65_507,
        ..UdpSettings::default()
    };
    let udp = match Udp::open(change(settings)) {
        Ok(udp) => udp,
        Err(error) => {
            skipped(error);
            return None;
        }
    };
    if udp.report().receive_backend != backend {
        skipped(format_args!("receiving {backend} is not available here: {}", udp.report()));
        return None;
    }
    Some(udp)
}

fn each_way(mut check: impl FnMut(IoBackend, &str)) {
    let mut tried = 0;
    for backend in IoBackend::ALL {
        for address in ["127.0.0.1:0", "[::1]:0"] {
            if open(address, backend, |settings| settings).is_some() {
                println!("{backend}, {address}");
                check(backend, address);
                tried += 1;
            }
        }
    }
    assert!(tried >= 3, "the simple backends are always available");
}

/// Waits for this many packets, and returns each with its sender.
fn receive(udp: &mut Udp, packets: usize) -> Vec<(SocketAddr, Vec<u8>)> {
    let (mut got, end) = (Vec::new(), Instant::now() + PATIENCE);
    while got.len() < packets && Instant::now() < end {
        udp.receive(|packet| {
            assert!(!packet.is_truncated);
            got.push((packet.from, packet.bytes.to_vec()));
        });
    }
    got
}

fn numbered(number: usize, length: usize) -> Vec<u8> {
    (0..length).map(|at| (number * 31 + at) as u8).collect()
}

#[test]
fn sizes_from_nothing_to_the_most_arrive_in_order() {
    each_way(|backend, address| {
        let mut server = open(address, backend, |settings| settings).unwrap();
        let mut client = open(address, backend, |settings| settings).unwrap();
        let (to, from) = (server.local_address(), client.local_address());
        for length in [0, 1, 2, 100, 511, 512, 1199, 1200, 1472, 1473, 9000, 30_000, 65_506, 65_507] {
            for number in 0..3 {
                client.send(to, &numbered(number, length)).unwrap();
            }
            let flushed = client.flush();
            assert_eq!((flushed.sent, flushed.refused, flushed.waiting), (3, 0, 0), "{backend} {length}");
            let got = receive(&mut server, 3);
            let wanted: Vec<_> = (0..3).map(|number| (from, numbered(number, length))).collect();
            assert!(
                got == wanted,
                "{backend} {length}: {:?}",
                got.iter().map(|(_, bytes)| bytes.len()).collect::<Vec<_>>()
            );
        }
        assert_eq!(client.failures().count(), 0);
    });
}

#[test]
fn messages_of_1_to_64_packets_are_taken_apart_where_they_were_joined() {
    each_way(|backend, address| {
        let mut server = open(address, backend, |settings| settings).unwrap();
        let mut client = open(address, backend, |settings| settings).unwrap();
        for (packets, last) in [(1, 100), (2, 100), (2, 1), (3, 99), (63, 100), (64, 100), (64, 7), (65, 100), (130, 5)]
        {
            let length = |number: usize| if number + 1 == packets { last } else { 100 };
            for number in 0..packets {
                client.send(server.local_address(), &numbered(number, length(number))).unwrap();
            }
            assert_eq!(client.flush().sent, packets);
            let got = receive(&mut server, packets);
            let wanted: Vec<_> = (0..packets).map(|number| numbered(number, length(number))).collect();
            assert_eq!(
                got.into_iter().map(|(_, bytes)| bytes).collect::<Vec<_>>(),
                wanted,
                "{backend} {packets} {last}"
            );
        }
    });
}

#[test]
fn peers_in_turns_each_get_theirs_in_order() {
    each_way(|backend, address| {
        let mut server = open(address, backend, |settings| settings).unwrap();
        let mut peers: Vec<Udp> = (0..20).map(|_| open(address, backend, |settings| settings).unwrap()).collect();
        for number in 0..10 {
            for peer in &peers {
                // Every third packet has another length, so packets are sometimes joined and sometimes alone.
                let length = if number % 3 == 2 { 60 } else { 80 };
                server.send(peer.local_address(), &numbered(number, length)).unwrap();
            }
        }
        assert_eq!(server.flush().sent, 200);
        for peer in &mut peers {
            let got: Vec<_> = receive(peer, 10).into_iter().map(|(_, bytes)| bytes).collect();
            let wanted: Vec<_> =
                (0..10).map(|number| numbered(number, if number % 3 == 2 { 60 } else { 80 })).collect();
            assert_eq!(got, wanted, "{backend}");
            // Send the packets back, so that the server receives many at once.
            let to = server.local_address();
            (0..4).for_each(|number| peer.send(to, &numbered(number, 50)).unwrap());
            assert_eq!(peer.flush().sent, 4);
        }
        let got = receive(&mut server, 80);
        for peer in &peers {
            let of_peer = got.iter().filter(|(from, _)| *from == peer.local_address()).map(|(_, bytes)| bytes.clone());
            assert_eq!(of_peer.collect::<Vec<_>>(), (0..4).map(|number| numbered(number, 50)).collect::<Vec<_>>());
        }
    });
}

#[test]
fn a_bound_is_kept_and_what_is_over_comes_next() {
    each_way(|backend, address| {
        let mut server = open(address, backend, |settings| settings).unwrap();
        let mut client = open(address, backend, |settings| settings).unwrap();
        for number in 0..100 {
            client.send(server.local_address(), &numbered(number, 40)).unwrap();
        }
        assert_eq!(client.flush().sent, 100);
        let (mut got, end) = (Vec::new(), Instant::now() + PATIENCE);
        while got.len() < 100 && Instant::now() < end {
            let before = got.len();
            let counts = server.receive_at_most(7, |packet| got.push(packet.bytes.to_vec()));
            assert_eq!(counts.packets, got.len() - before);
            assert!(counts.packets <= 7);
            assert_eq!(counts.is_bound_reached, counts.packets == 7);
            assert_eq!(counts.bytes, 40 * counts.packets as u64);
        }
        assert_eq!(got, (0..100).map(|number| numbered(number, 40)).collect::<Vec<_>>(), "{backend}");
        assert_eq!(server.received().packets, 100);
        assert_eq!(server.receive_at_most(0, |_| {}).packets, 0);
    });
}

#[test]
fn long_packets_are_cut_off_and_reported() {
    each_way(|backend, address| {
        let mut server = open(address, backend, |settings| UdpSettings { bytes_max: 100, ..settings }).unwrap();
        let mut client = open(address, backend, |settings| settings).unwrap();
        // Two packets that the kernel may merge, a long packet alone, and a packet that fits.
        for length in [150, 150, 1000, 100] {
            client.send(server.local_address(), &numbered(1, length)).unwrap();
        }
        assert_eq!(client.flush().sent, 4);
        let (mut got, end) = (Vec::new(), Instant::now() + PATIENCE);
        while got.len() < 4 && Instant::now() < end {
            server.receive(|packet| got.push((packet.bytes.to_vec(), packet.is_truncated)));
        }
        let wanted = [true, true, true, false].map(|is_truncated| (numbered(1, 100), is_truncated));
        assert_eq!(got, wanted, "{backend}");
        assert_eq!(server.received().truncated, 3);
        assert!(server.send(client.local_address(), &[0; 101]).is_err());
        assert_eq!(server.sent().not_queued, 1);
    });
}

/// A socket that is connected to itself receives from nobody else, and keeps its port. Senders get the error for a closed port.
fn deaf(address: &str) -> UdpSocket {
    let socket = UdpSocket::bind(address).unwrap();
    socket.connect(socket.local_addr().unwrap()).unwrap();
    socket
}

#[test]
fn a_peer_that_is_not_there_takes_nothing_from_the_others() {
    each_way(|backend, address| {
        for undelivered in [Undelivered::Ignored, Undelivered::Reported] {
            let mut server = open(address, backend, |settings| UdpSettings { undelivered, ..settings }).unwrap();
            let mut client = open(address, backend, |settings| settings).unwrap();
            let deaf = [(); 3].map(|()| deaf(address));
            let nobody = deaf.each_ref().map(|socket| socket.local_addr().unwrap());
            let nowhere = SocketAddr::new(nobody[0].ip(), 0);
            for number in 0..20 {
                for to in &nobody {
                    server.send(*to, &numbered(number, 30)).unwrap();
                }
                server.send(nowhere, &numbered(number, 30)).unwrap();
                server.send(client.local_address(), &numbered(number, 30)).unwrap();
                server.flush();
            }
            let got: Vec<_> = receive(&mut client, 20).into_iter().map(|(_, bytes)| bytes).collect();
            assert_eq!(
                got,
                (0..20).map(|number| numbered(number, 30)).collect::<Vec<_>>(),
                "{backend} {undelivered:?}"
            );
            // After undelivered packets, the client can still send to the server.
            client.send(server.local_address(), b"here").unwrap();
            client.flush();
            assert_eq!(receive(&mut server, 1).len(), 1, "{backend} {undelivered:?}");
            let refused: Vec<_> = server.failures().copied().collect();
            let of = |to: &SocketAddr| {
                refused.iter().filter(|failure| failure.to == *to).map(|failure| failure.packets).sum::<u64>()
            };
            assert_eq!(of(&nowhere), 20, "{backend} {undelivered:?}: {refused:?}");
            for to in &nobody {
                // The network need not report every undelivered packet.
                assert_eq!(of(to) > 0, undelivered == Undelivered::Reported, "{backend} {undelivered:?}: {refused:?}");
                assert!(of(to) <= 20, "{refused:?}");
            }
            server.forget_failures();
            assert_eq!(server.failures().count(), 0);
        }
    });
}

#[test]
fn packets_beyond_the_buffer_are_counted() {
    each_way(|backend, address| {
        let mut server = open(address, backend, |settings| settings).unwrap();
        // Settings cannot request a smaller buffer, because nobody wants one.
        let clone = same_socket(&server);
        evenkeel_sys::udp::set_receive_buffer_bytes(&clone, 4096).unwrap();
        let mut client = open(address, IoBackend::Batched, |settings| settings).unwrap();
        let mut got = 0;
        for round in 0..4 {
            for number in 0..100 {
                client.send(server.local_address(), &numbered(number, 500)).unwrap();
            }
            assert_eq!(client.flush().sent, 100, "{round}");
            got += receive(&mut server, 1).len() as u64;
            got += server.receive(|_| {}).packets as u64;
        }
        // If the kernel was interrupted for long, it may have delayed the last packets.
        let end = Instant::now() + PATIENCE;
        let mut counters = server.received();
        while counters.packets + counters.dropped.unwrap_or(400) < 400 && Instant::now() < end {
            got += server.receive(|_| {}).packets as u64;
            counters = server.received();
        }
        assert_eq!(counters.packets, got);
        let Some(dropped) = counters.dropped else {
            skipped("the kernel does not report drops");
            return;
        };
        assert!(dropped > 0, "{backend}: {counters:?}");
        assert_eq!(counters.packets + dropped, 400, "{backend}: {counters:?}");
    });
}

/// A clone of a server's socket, for actions that the socket's settings do not offer.
fn same_socket(server: &Udp) -> UdpSocket {
    use std::os::fd::AsFd;
    UdpSocket::from(server.as_fd().try_clone_to_owned().unwrap())
}

#[test]
fn the_buffer_holds_what_the_formula_says() {
    each_way(|backend, address| {
        let need =
            BufferNeed { players: 600, packets_a_second: 50, bytes: 100, drain_interval: Duration::from_millis(40) };
        let mut server = open(address, backend, |settings| UdpSettings { buffer: Some(need), ..settings }).unwrap();
        let report = server.report().buffer.unwrap();
        assert_eq!(need.packets(), 1200);
        if report.missing_bytes() != Some(0) {
            skipped(server.report());
            return;
        }
        let mut client = open(address, IoBackend::Batched, |settings| settings).unwrap();
        for _ in 0..3 {
            for number in 0..1200 {
                client.send(server.local_address(), &numbered(number, 100)).unwrap();
            }
            client.flush();
            assert_eq!(receive(&mut server, 1200).len(), 1200);
        }
        assert_ne!(server.received().dropped, Some(1));
        assert!(server.received().dropped.is_none_or(|dropped| dropped == 0), "{backend}");
    });
}

#[test]
fn the_kernel_tells_how_long_packets_waited() {
    each_way(|backend, address| {
        let mut server =
            open(address, backend, |settings| UdpSettings { stamps: Stamps::EachPacket, ..settings }).unwrap();
        let mut client = open(address, backend, |settings| settings).unwrap();
        let pause = Duration::from_millis(5);
        // The kernel begins to stamp arrivals a moment after the request. Until then it stamps packets when they are read.
        let is_stamped = (0..1000).any(|number| {
            let begun = Instant::now();
            (0..3).for_each(|_| client.send(server.local_address(), &numbered(number, 50)).unwrap());
            client.flush();
            std::thread::sleep(pause);
            let mut waits = Vec::new();
            while waits.len() < 3 && begun.elapsed() < PATIENCE {
                server.receive(|packet| waits.push(packet.waited_ns));
            }
            let Some(waits) = waits.into_iter().collect::<Option<Vec<u64>>>() else { return false };
            assert_eq!(waits.len(), 3, "{backend}");
            // The stamps are from a clock that is gradually adjusted.
            let (least, most) = (pause.mul_f64(0.9).as_nanos(), begun.elapsed().mul_f64(1.1).as_nanos());
            assert!(waits.iter().all(|ns| u128::from(*ns) <= most), "{backend}: {waits:?}, at most {most}");
            waits.iter().all(|ns| u128::from(*ns) >= least)
        });
        assert!(is_stamped, "{backend}");
        let (incoming, _) = server.halves();
        assert!(incoming.waited_ns().unwrap().max >= 4_500_000);
    });
}

#[test]
fn an_echo_answers_while_it_receives() {
    each_way(|backend, address| {
        let mut server = open(address, backend, |settings| settings).unwrap();
        let mut client = open(address, backend, |settings| settings).unwrap();
        for number in 0..200 {
            client.send(server.local_address(), &numbered(number, 90)).unwrap();
        }
        client.flush();
        let (mut answered, end) = (0, Instant::now() + PATIENCE);
        while answered < 200 && Instant::now() < end {
            let (incoming, outgoing) = server.halves();
            answered += incoming.receive(|packet| outgoing.send(packet.from, packet.bytes).unwrap()).packets;
            outgoing.flush();
        }
        let got: Vec<_> = receive(&mut client, 200).into_iter().map(|(_, bytes)| bytes).collect();
        assert_eq!(got, (0..200).map(|number| numbered(number, 90)).collect::<Vec<_>>(), "{backend}");
    });
}

#[test]
fn a_socket_goes_on_in_another_thread() {
    each_way(|backend, address| {
        let mut server = open(address, backend, |settings| settings).unwrap();
        let mut client = open(address, backend, |settings| settings).unwrap();
        client.send(server.local_address(), b"one").unwrap();
        client.flush();
        assert_eq!(receive(&mut server, 1).len(), 1);
        let to = server.local_address();
        let moved = std::thread::spawn(move || {
            let got = receive(&mut server, 2).len();
            (got, server)
        });
        client.send(to, b"two").unwrap();
        client.send(to, b"three").unwrap();
        client.flush();
        let (got, server) = moved.join().unwrap();
        assert_eq!(got, 2, "{backend}: {}", server.report());
    });
}

#[test]
fn a_socket_of_version_6_serves_both() {
    for backend in IoBackend::ALL {
        let Some(mut server) = open("[::]:0", backend, |settings| settings) else { continue };
        let mut client = open("127.0.0.1:0", backend, |settings| settings).unwrap();
        let to = SocketAddr::from(([127, 0, 0, 1], server.local_address().port()));
        client.send(to, b"four").unwrap();
        client.flush();
        if receive(&mut server, 1).is_empty() {
            skipped("sockets of version 6 have version 6 alone here");
            continue;
        }
        server.send(client.local_address(), b"back").unwrap();
        assert_eq!(server.flush().sent, 1);
        assert_eq!(receive(&mut client, 1)[0].1, b"back");
    }
}

#[test]
fn ways_are_tried_and_told() {
    let settings = UdpSettings {
        address: "127.0.0.1:0".parse().unwrap(),
        receive: BackendChoice::Measured,
        send: BackendChoice::Measured,
        ..UdpSettings::default()
    };
    let udp = Udp::open(settings).unwrap();
    let trial = udp.report().trial.clone().unwrap();
    assert!(trial.rounds > 0);
    // With fewer rounds, the figures decide nothing.
    if trial.rounds >= 3 {
        assert_eq!(Some(udp.report().receive_backend), trial.receive_backend());
        assert_eq!(Some(udp.report().send_backend), trial.send_backend());
    }
    assert!(udp.report().to_string().contains("measured in "));
}

#[test]
fn refusals_are_reported() {
    let taken = UdpSocket::bind("127.0.0.1:0").unwrap();
    let settings = UdpSettings { address: taken.local_addr().unwrap(), ..UdpSettings::default() };
    let error = Udp::open(settings).unwrap_err().to_string();
    assert!(error.contains("address already in use") && error.contains("choose another port"), "{error}");
    assert!(Udp::open_sharded(settings, &[]).is_err());
    if !cfg!(feature = "io-uring") {
        let uring = UdpSettings {
            address: "127.0.0.1:0".parse().unwrap(),
            receive: BackendChoice::Is(IoBackend::Uring),
            ..settings
        };
        let udp = Udp::open(uring).unwrap();
        assert_eq!(udp.report().receive_backend, IoBackend::Offloaded);
        assert_eq!((udp.report().refused[0].half, udp.report().refused[0].backend), (Half::Receive, IoBackend::Uring));
    }
}

#[test]
fn packets_go_to_the_socket_of_the_cpu_that_handles_them() {
    let cpus: Vec<usize> = evenkeel_sys::thread::affinity().unwrap().iter().take(2).collect();
    let settings = UdpSettings { address: "127.0.0.1:0".parse().unwrap(), ..UdpSettings::default() };
    let mut shards = Udp::open_sharded(settings, &cpus).unwrap();
    println!("{}", shards[0].report());
    let to = shards[0].local_address();
    for (at, cpu) in cpus.iter().enumerate() {
        let cpu = *cpu;
        // On loopback the CPU of the sender handles the packet.
        let sender = std::thread::spawn(move || {
            evenkeel_sys::thread::set_affinity(&[cpu].into_iter().collect()).unwrap();
            let mut client = Udp::open(settings).unwrap();
            (0..50_u8).for_each(|number| client.send(to, &[number]).unwrap());
            client.flush().sent
        });
        assert_eq!(sender.join().unwrap(), 50);
        // Wait for the packets at the socket of their CPU. Then no packet can be on its way to another socket.
        assert_eq!(receive(&mut shards[at], 50).len(), 50, "CPU {cpu}");
        for (other, shard) in shards.iter_mut().enumerate() {
            assert_eq!(shard.receive(|_| {}).packets, 0, "socket {other}, CPU {cpu}");
        }
    }
}

/// This variable is set for the copy of this program that runs in a separate network namespace.
const INSIDE: &str = "EVENKEEL_TEST_INSIDE_NAMESPACE";

#[test]
fn packets_longer_than_the_path_takes_arrive_all_the_same() {
    if std::env::var_os(INSIDE).is_some() {
        each_way(long_on_a_short_path);
        return;
    }
    // Loopback takes 64 KiB at once. So a separate namespace reduces the MTU of loopback below the packets of a message.
    let this = std::env::current_exe().unwrap();
    let script = "ip link set lo mtu 1280 up && exec \"$0\" --exact udp::packets_longer_than_the_path_takes_arrive_all_the_same --nocapture";
    let run =
        std::process::Command::new("unshare").args(["-n", "sh", "-c", script]).arg(this).env(INSIDE, "1").output();
    let Ok(run) = run else {
        skipped("there is no unshare(1)");
        return;
    };
    let said = String::from_utf8_lossy(&run.stdout).into_owned() + &String::from_utf8_lossy(&run.stderr);
    if said.contains("running 1 test") {
        assert!(run.status.success(), "{said}");
        print!("{said}");
    } else {
        skipped(format_args!("no network namespace of its own: {said}"));
    }
}

fn long_on_a_short_path(backend: IoBackend, address: &str) {
    let mut server = open(address, backend, |settings| settings).unwrap();
    let mut client = open(address, backend, |settings| settings).unwrap();
    let to = server.local_address();
    for _ in 0..3 {
        // Packets of 1,400 bytes do not fit a path of 1,280 bytes, so a message of them cannot be split. Packets of 1,100 bytes fit.
        for (packets, length) in [(10, 1100), (10, 1400), (1, 3000), (40, 1200)] {
            for number in 0..packets {
                client.send(to, &numbered(number, length)).unwrap();
            }
            let flushed = client.flush();
            assert_eq!((flushed.sent, flushed.refused), (packets, 0), "{backend} {length}");
            let got: Vec<_> = receive(&mut server, packets).into_iter().map(|(_, bytes)| bytes).collect();
            let wanted: Vec<_> = (0..packets).map(|number| numbered(number, length)).collect();
            assert!(got == wanted, "{backend} {length}: {} packets", got.len());
        }
    }
    // The socket now knows which packets are too long for this path to be sent together, and still sends shorter packets in one call.
    let (_, outgoing) = client.halves();
    let before = outgoing.counters().calls;
    (0..20).for_each(|number| outgoing.send(to, &numbered(number, 1100)).unwrap());
    outgoing.flush();
    let calls = outgoing.counters().calls - before;
    let wanted = if backend == IoBackend::One { 20 } else { 1 };
    assert_eq!(calls, wanted, "{backend}");
    assert_eq!(outgoing.backend(), if backend == IoBackend::Uring { IoBackend::Offloaded } else { backend });
    assert_eq!(client.failures().count(), 0);
}
