//! The measurement of the backends, on a machine with enough time for it.

use evenkeel_rt::udp::{BackendChoice, IoBackend, Udp, UdpSettings};
use evenkeel_testkit::HostLock;
use evenkeel_testkit::fitness::{self, Needs};

const TRIES: usize = 3;

#[test]
fn ways_are_tried_within_their_time() {
    let _host = HostLock::take();
    let settings = UdpSettings {
        address: "127.0.0.1:0".parse().unwrap(),
        receive: BackendChoice::Measured,
        send: BackendChoice::Measured,
        ..UdpSettings::default()
    };
    fitness::one_of(TRIES, &Needs::on_last_cpu(), || {
        let udp = Udp::open(settings).unwrap();
        let report = udp.report();
        println!("{report}");
        let trial = report.trial.clone().unwrap();
        if trial.rounds < 3 {
            return Err(format!("too few rounds: {report}"));
        }
        assert_eq!(Some(report.receive_backend), trial.receive_backend());
        assert_eq!(Some(report.send_backend), trial.send_backend());
        let plain = trial.rows.iter().find(|row| row.backend == IoBackend::One).unwrap();
        assert!(plain.receive_ns.is_some_and(|ns| ns > 1.0) && plain.send_ns.is_some_and(|ns| ns > 1.0));
        let at_most = settings.trial.at_most.as_nanos() as u64;
        // When the time is over, the measurement still finishes the current round.
        if trial.took_ns <= 2 * at_most { Ok(()) } else { Err(format!("{report}, at most {at_most} ns")) }
    });
}
