//! Effects that are planted in the server's ticks must show in its own windows. A silent player is removed after three seconds.

use std::thread::sleep;
use std::time::{Duration, Instant};

use evenkeel_arena::control::{Answer, Quantiles};
use evenkeel_arena::net::client::join;
use evenkeel_arena::net::gate::SILENCE_NS;
use evenkeel_arena::time::{SECOND_NS, now_ns};
use evenkeel_testkit::HostLock;
use evenkeel_testkit::fitness::{self, Needs};

use crate::program::Program;
use crate::{server, window};

const TRIES: usize = 3;

fn set(server: &mut Program, what: &str, us: u32) {
    let answer: Answer = server.ask(&format!(r#"{{"cmd":"{what}_us","value":{us}}}"#));
    assert!(!matches!(answer, Answer::Error { .. }), "{answer:?}");
}

/// The work of ticks in a window that contains the tick with the tail, the 26th of each fifty.
fn work(server: &mut Program) -> Quantiles {
    window(server);
    sleep(Duration::from_millis(1_100));
    window(server).work_us
}

#[test]
fn planted_work_shows_in_the_windows() {
    let _host = HostLock::take();
    // The kernel chooses the server's CPU, so this check uses the fitness of the last CPU for all CPUs.
    fitness::one_of(TRIES, &Needs::on_last_cpu(), || {
        let (mut server, _) = server(&["--work-us", "0"]);
        let without = work(&mut server);
        set(&mut server, "delay", 5_000);
        let delayed = work(&mut server);
        set(&mut server, "delay", 0);
        set(&mut server, "work", 9_000);
        let worked = work(&mut server);
        set(&mut server, "work", 0);
        set(&mut server, "tail", 9_000);
        let tail = work(&mut server);
        let seen = format!("{without:?}, delayed {delayed:?}, worked {worked:?}, tail {tail:?}");
        println!("{seen}");
        let [without, delayed, worked, at_median] = [without, delayed, worked, tail].map(|work| work.p50.unwrap());
        let is_right = delayed > without + 4_000.0
            && worked > without + 7_000.0
            && at_median < without + 1_000.0
            && tail.p99.unwrap() > without + 7_000.0;
        if is_right { Ok(()) } else { Err(seen) }
    });
}

/// Other tests check the bookkeeping without a clock. Here the server must check in time.
#[test]
fn a_silent_player_goes() {
    let _host = HostLock::take();
    let (mut server, addr) = server(&[]);
    let joined = join(addr, now_ns() + 60 * SECOND_NS).unwrap();
    let joined_at = Instant::now();
    while window(&mut server).players == 1 {
        assert!(joined_at.elapsed() < Duration::from_secs(60), "still there after a minute");
        sleep(Duration::from_millis(50));
    }
    let took = joined_at.elapsed();
    drop(joined);
    // The server heard the player a moment before we began to count.
    assert!(took > Duration::from_nanos(SILENCE_NS) - Duration::from_millis(500), "{took:?}");
}
