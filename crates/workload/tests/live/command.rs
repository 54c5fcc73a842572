//! Live checks of a user's command: how busy its load is, and the tick of a server that does not report its ticks.

use evenkeel_testkit::fitness::one_of_by;
use evenkeel_testkit::{HostLock, live};
use evenkeel_workload::Workload;
use evenkeel_workload::command::{Command, Observer, Runs, Settings};

use crate::common::scripts::{settings, start, window, with_load};
use crate::unfit;

/// Two shares in the median window: the busiest thread's share of a CPU, and the share of all CPUs that all threads use.
fn shares(command: &mut Command) -> [f64; 2] {
    let windows: Vec<[f64; 2]> = (0..3)
        .map(|_| {
            let sample = window(command, 200).unwrap();
            [sample["load_busiest_share"], sample["load_cpus_used_share"]]
        })
        .collect();
    [0, 1].map(|at| {
        let mut shares: Vec<f64> = windows.iter().map(|window| window[at]).collect();
        shares.sort_by(f64::total_cmp);
        shares[1]
    })
}

#[test]
fn a_load_at_its_limit_gets_a_caveat() {
    let _host = HostLock::take();
    let busy = |load: &str| start("calm", "exec sleep 60", with_load(load, Runs::Throughout)).unwrap();
    let check = || {
        let mut one = busy("sh -c 'while :; do :; done'");
        let [busiest, _] = shares(&mut one);
        let caveats = one.caveats();
        drop(one);
        // On two CPUs, two busy loops leave no CPU time. One busy loop leaves some.
        let mut two = busy("sh -c 'while :; do :; done & while :; do :; done'");
        let cpus = evenkeel_sys::thread::affinity().unwrap().len() as f64;
        let [busiest_of_two, used] = shares(&mut two);
        let is_of_both = used * cpus > busiest_of_two * 1.1 || cpus < 2.0;
        let is_so = busiest >= 0.95 && caveats.len() == 1 && is_of_both && used < 1.2;
        if is_so { Ok(()) } else { Err(format!("{busiest} {caveats:?}; {busiest_of_two} {used} of {cpus}")) }
    };
    one_of_by(3, check, unfit);
}

/// The server does not report its ticks. evenkeel finds the tick again after a restart.
#[test]
fn the_tick_of_a_silent_server_is_seen_from_outside() {
    let _host = HostLock::take();
    let script = "exec perl -e 'while (1) { select(undef, undef, undef, 0.02); $x += $_ for 1..30000 }'";
    let seen = || Settings { observe: vec![Observer::Ticks], ..settings() };
    let look = |command: &mut Command| -> Result<(), String> {
        let sample = window(command, 1000).map_err(|error| error.to_string())?;
        // A window without a tick has neither of these two values.
        let value = |name: &str| sample.get(name).copied().unwrap_or(0.0);
        let (interval_us, work_us) = (value("tick_interval_us_p50"), value("tick_work_us_p50"));
        let is_so = (20_000.0..40_000.0).contains(&interval_us) && work_us > 100.0;
        if is_so { Ok(()) } else { Err(format!("{sample:?}")) }
    };
    let mut denied = None;
    let check = || {
        let mut command = match start("seen", script, seen()) {
            Ok(command) => command,
            Err(error) if ["denied", "not permitted"].iter().any(|word| error.to_string().contains(word)) => {
                denied = Some(error);
                return Ok(());
            }
            Err(error) => return Err(error.to_string()),
        };
        let pids = command.pids();
        look(&mut command)?;
        command.restart().map_err(|error| error.to_string())?;
        assert_ne!(command.pids(), pids, "it was another process");
        let first = command.metrics().first().unwrap().name.to_string();
        assert_eq!(first, "due_to_done_us_p50", "the default metric without reports");
        look(&mut command)
    };
    one_of_by(3, check, unfit);
    if let Some(error) = denied {
        live::not_judged(format_args!("this user may not see when threads run ({error})"));
    }
}
