//! Runs `measure udp` and `measure bandwidth` between two simulated hosts,
//! which are two network namespaces with a veth pair.
//! The test limits the speed of the pair, and the meter must report that speed. The test needs root.
//! It removes the namespaces even if it fails.

use std::process::{Child, Command, Stdio};

use evenkeel_testkit::fitness::{self, Needs};
use evenkeel_testkit::{HostLock, live};
use serde_json::Value;

use crate::wait::until;

const SERVER: &str = "10.78.0.2:7007";
const TRIES: usize = 3;

/// Two namespaces, `evk-c-PID` and `evk-s-PID`.
struct Namespaces {
    client: String,
    server: String,
    _host: HostLock,
}

fn ip(arguments: &str) -> bool {
    let output = Command::new("ip").args(arguments.split(' ')).output();
    output.is_ok_and(|output| output.status.success())
}

impl Namespaces {
    /// Creates the namespaces. `None` if that is not possible; then the check is skipped.
    fn new() -> Option<Namespaces> {
        let host = HostLock::take();
        // Remove the namespaces of a killed test. Only these tests use names of this form.
        for entry in std::fs::read_dir("/run/netns").into_iter().flatten().flatten() {
            let name = entry.file_name().into_string().unwrap_or_default();
            let of =
                name.strip_prefix("evk-c-").or(name.strip_prefix("evk-s-")).and_then(|pid| pid.parse::<u32>().ok());
            if of.is_some_and(|pid| !std::path::Path::new(&format!("/proc/{pid}")).exists()) {
                ip(&format!("netns delete {name}"));
            }
        }
        let pid = std::process::id();
        let made = Namespaces { client: format!("evk-c-{pid}"), server: format!("evk-s-{pid}"), _host: host };
        let Namespaces { client, server, .. } = &made;
        let is_made = ip(&format!("netns add {client}"))
            && ip(&format!("netns add {server}"))
            && ip(&format!("link add evk0 netns {client} type veth peer name evk0 netns {server}"))
            && ip(&format!("-n {client} address add 10.78.0.1/24 dev evk0"))
            && ip(&format!("-n {server} address add 10.78.0.2/24 dev evk0"))
            && ip(&format!("-n {client} link set evk0 up"))
            && ip(&format!("-n {server} link set evk0 up"));
        if !is_made {
            live::not_judged("this user may not make network namespaces, or there is no `ip`");
        }
        is_made.then_some(made)
    }

    fn command(namespace: &str, program: &str, arguments: &str) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", namespace, program]).args(arguments.split(' '));
        command
    }

    /// Starts a server. Dropping the result ends the server.
    fn serve(&self, meter: &str) -> Served {
        let arguments = format!("measure {meter} --serve {SERVER} --seconds 120");
        let mut command = Namespaces::command(&self.server, env!("CARGO_BIN_EXE_evenkeel"), &arguments);
        Served(command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap())
    }

    fn measure(&self, arguments: &str) -> Value {
        let arguments = format!("measure {arguments} --json");
        let mut command = Namespaces::command(&self.client, env!("CARGO_BIN_EXE_evenkeel"), &arguments);
        // The server has just started, and may not listen yet. So try several times.
        for _ in 0..100 {
            let output = command.output().unwrap();
            let said = String::from_utf8_lossy(&output.stderr).into_owned();
            if output.status.success() {
                return serde_json::from_slice(&output.stdout).unwrap();
            }
            assert!(said.contains("ECONNREFUSED"), "{arguments}: {said}");
            std::thread::sleep(std::time::Duration::from_millis(100));
        }
        panic!("{arguments}: nobody listens after ten seconds");
    }
}

impl Drop for Namespaces {
    fn drop(&mut self) {
        ip(&format!("netns delete {}", self.client));
        ip(&format!("netns delete {}", self.server));
    }
}

struct Served(Child);

impl Drop for Served {
    fn drop(&mut self) {
        // `ip netns exec` replaces itself by the program, so `kill` ends the server itself.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn needs() -> Needs {
    Needs::on_last_cpu().without_timers()
}

#[test]
fn packets_between_two_hosts_are_accounted_for() {
    let Some(namespaces) = Namespaces::new() else { return };
    let _serving = namespaces.serve("udp");
    fitness::one_of(TRIES, &needs(), || {
        let report = namespaces.measure(&format!("udp {SERVER} --seconds 1"));
        assert_eq!(report["between"], "network");
        let (there, back) = (&report["echo"]["there"], &report["echo"]["back"]);
        // The veth pair itself loses no packet.
        // If the machine stalls, a socket may overflow, and the server counts that separately.
        assert_eq!(there["lost"], there["dropped_at_socket"], "{there}");
        assert_eq!(back["lost"], back["dropped_at_socket"], "{back}");
        assert_eq!((&there["reordered"], &back["reordered"]), (&0.into(), &0.into()));
        let fits = report["burst"]["fits"].as_array().unwrap();
        let is_full = |fit: &Value| fit["full"] == true && fit["fit"].as_u64() > Some(0);
        let all = [
            there["sent"] == 1000,
            report["split"]["network_ns"]["summary"]["count"].as_u64() > Some(500),
            report["ceiling"]["receive"]["packets"].as_u64() > Some(1000),
            fits.iter().all(is_full),
        ];
        if all == [true; 4] { Ok(()) } else { Err(format!("{all:?}: {there} {} {fits:?}", report["split"])) }
    });
}

/// Packets may go to an address of this host in this namespace.
/// They go to any other address only if a server at that address agrees.
#[test]
fn a_storm_goes_to_nobody_who_did_not_agree() {
    let Some(namespaces) = Namespaces::new() else { return };
    let run = |arguments: &str| {
        let arguments = format!("disturb storm --rate 2000 --seconds 0.5 --json {arguments}");
        let mut command = Namespaces::command(&namespaces.client, env!("CARGO_BIN_EXE_evenkeel"), &arguments);
        let output = command.output().unwrap();
        (output.status.code(), String::from_utf8(output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap())
    };
    assert!(ip(&format!("-n {} link set lo up", namespaces.client)));
    let (code, out, _) = run("--to 10.78.0.1:9");
    assert!(code == Some(0) && out.contains("\"to\": \"10.78.0.1:9\""), "{out}");
    for (to, why) in [
        ("--to 10.78.0.2:9", "this is not one of its addresses"),
        ("--to 192.0.2.1:9", "this is not one of its addresses"),
        ("--peer 192.0.2.1:9", "a private or link-local address"),
        ("--peer 10.78.0.2:7007", "nobody answers"),
    ] {
        let (code, out, error) = run(to);
        assert!(code != Some(0) && format!("{out}{error}").contains(why), "{to}: {out} {error}");
    }
    let _serving = namespaces.serve("udp");
    // The server has just started, and may not listen yet. So try until it agrees.
    until("the peer agrees", || run("--peer 10.78.0.2:7007").0 == Some(0));
    fitness::one_of(TRIES, &needs(), || {
        let (code, out, error) = run("--peer 10.78.0.2:7007");
        assert_eq!(code, Some(0), "{error}");
        let report: Value = serde_json::from_str(&out).unwrap();
        let (sent, arrived) = (&report["did"]["sent"], &report["did"]["cpus"][0]["arrived"]);
        let is_counted = sent.as_u64() > Some(500) && arrived == sent;
        if is_counted { Ok(()) } else { Err(format!("the peer agreed, and received {arrived} of {sent} packets")) }
    });
}

/// The veth pair carries 20 Mbit/s of whole frames in each direction.
#[test]
fn bandwidth_is_what_the_pair_carries() {
    let Some(namespaces) = Namespaces::new() else { return };
    // The bucket holds a burst of 13 ms.
    // If a CPU of this machine stalls for longer, the rate falls below the limit for that time.
    // With a larger bucket and queue, the sender's own buffer would stop the sender, and no packet would be dropped.
    let limit = "qdisc add dev evk0 root tbf rate 20mbit burst 32kb latency 30ms";
    let is_limited = [&namespaces.client, &namespaces.server].into_iter().all(|namespace| {
        let output = Namespaces::command(namespace, "tc", limit).output();
        output.is_ok_and(|output| output.status.success())
    });
    if !is_limited {
        return live::not_judged("this kernel has no token bucket to limit the pair with, or there is no `tc`");
    }
    for way in ["", " --reverse"] {
        limited(&namespaces, way);
    }
}

fn limited(namespaces: &Namespaces, way: &str) {
    let _serving = namespaces.serve("bandwidth");
    let is_near = |share: f64| (share - 1.0).abs() < 0.1;
    fitness::one_of(TRIES, &needs(), || {
        let tcp = namespaces.measure(&format!("bandwidth {SERVER} --seconds 2{way}"));
        let share = tcp["arrived_bits_per_s"].as_f64().unwrap() / (20e6 * 1448.0 / 1514.0);
        if is_near(share) { Ok(()) } else { Err(format!("TCP{way}: received {share} of the pair's rate")) }
    });
    fitness::one_of(TRIES, &needs(), || {
        let udp = namespaces.measure(&format!("bandwidth {SERVER} --by udp --rate 40 --seconds 2{way}"));
        let share = udp["arrived_bits_per_s"].as_f64().unwrap() / (20e6 * 1400.0 / 1442.0);
        let lost = udp["lost_share"].as_f64().unwrap();
        let is_held = is_near(share) && (0.4..0.6).contains(&lost);
        let seen = || format!("UDP{way}: received {share} of the pair's rate, lost {lost} of twice that rate");
        if is_held { Ok(()) } else { Err(seen()) }
    });
}
