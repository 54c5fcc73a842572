//! Whole manifests: for all options, and against the types of Kubernetes.

use super::*;
use crate::sessions::Session;

fn asked() -> Asked {
    Asked {
        name: "arena".parse().unwrap(),
        namespace: None,
        image: "registry.example/arena:1.4".parse().unwrap(),
        session: Session { count: 24, ..Session::new("arena", 0.12, Some(300.0)) },
        sessions_per_server: 1,
        cpus: CpuMode::Shared,
        load_max: 0.7,
        ports: vec!["7777".parse().unwrap()],
        scheduling: Scheduling::Packed,
        node_labels: Vec::new(),
        node_sessions_min: None,
        shares_phases: false,
        node: NodeRoom::default(),
        is_node_whole: false,
        demand: Demand::default(),
    }
}

/// Every combination of what changes the form of the objects.
fn all() -> Vec<Asked> {
    let mut all = Vec::new();
    for bits in 0..256_u32 {
        let has = |bit: u32| bits & (1 << bit) != 0;
        let mut one = asked();
        one.namespace = has(0).then(|| "games".parse().unwrap());
        one.sessions_per_server = if has(1) { 4 } else { 1 };
        one.cpus = if has(2) { CpuMode::Pinned } else { CpuMode::Shared };
        one.session.memory_mib = (has(3) || has(2)).then_some(300.0);
        one.node_labels =
            if has(4) { vec!["pool=games".parse().unwrap(), "pool=voice".parse().unwrap()] } else { Vec::new() };
        one.node_sessions_min = has(5).then_some(9);
        one.shares_phases = has(6);
        one.ports = if has(7) { vec!["7777".parse().unwrap(), "7778/tcpudp".parse().unwrap()] } else { Vec::new() };
        if has(4) == has(5) {
            one.node = NodeRoom { cpus: Some(4.0), sessions: has(0).then_some(12) };
            one.demand = Demand { starts_per_minute: Some(2.0), node_start_s: Some(90.0), nodes_max: Some(20) };
            one.scheduling = Scheduling::Distributed;
        }
        all.push(one);
    }
    all
}

#[test]
fn an_autoscaler_replaces_the_replicas() {
    let fleet = render(&asked()).unwrap();
    assert_eq!((fleet.fleet.spec.replicas, &fleet.autoscaler), (Some(24), &None));
    let mut scaled = asked();
    scaled.node = NodeRoom { cpus: Some(4.0), sessions: Some(12) };
    scaled.demand = Demand { starts_per_minute: Some(6.0), node_start_s: Some(90.0), nodes_max: Some(10) };
    let rendered = render(&scaled).unwrap();
    assert!(rendered.fleet.spec.replicas.is_none() && rendered.autoscaler.is_some());
    let several = Asked { sessions_per_server: 5, ..asked() };
    assert_eq!(render(&several).unwrap().fleet.spec.replicas, Some(5), "24 sessions, 5 a server");
}

#[test]
fn every_caveat_and_every_comment_is_in_the_text() {
    for one in all() {
        let rendered = render(&one).unwrap();
        let text = rendered.yaml("sessions.csv").unwrap();
        let flat = text.lines().map(|line| line.trim_start().trim_start_matches("# ")).collect::<Vec<_>>().join(" ");
        assert!(rendered.caveats.iter().all(|caveat| flat.contains(caveat)), "{text}");
        assert_eq!(flat.contains("No FleetAutoscaler"), rendered.autoscaler.is_none(), "{text}");
        assert_eq!(text.contains("kind: FleetAutoscaler"), rendered.autoscaler.is_some(), "{text}");
        assert!(flat.contains("No CPU limit") != (one.cpus == CpuMode::Pinned), "{text}");
        assert_eq!(flat.contains("count: 0"), one.sessions_per_server > 1, "{text}");
    }
}

/// A pinned server's requests are its limits, in whole CPUs; a shared one has no limit of CPU time.
#[test]
fn only_pinned_servers_have_a_cpu_limit() {
    for one in all() {
        let fleet = serde_json::to_value(render(&one).unwrap().fleet).unwrap();
        let resources = &fleet["spec"]["template"]["spec"]["template"]["spec"]["containers"][0]["resources"];
        match one.cpus {
            CpuMode::Pinned => {
                assert_eq!(resources["limits"], resources["requests"], "{fleet}");
                assert!(resources["limits"]["cpu"].as_str().unwrap().parse::<u32>().is_ok(), "{fleet}");
            }
            CpuMode::Shared => assert!(resources["limits"].get("cpu").is_none(), "{fleet}"),
        }
    }
}

/// Kubernetes knows every field of a game server's pod: nothing is lost when its types parse the pod and write it again.
#[cfg(feature = "kubernetes")]
#[test]
fn the_pod_is_one_of_kubernetes() {
    use k8s_openapi::api::core::v1::PodTemplateSpec;
    use serde_json::Value;

    let read_again = |pod: &Value| {
        let read: PodTemplateSpec = serde_json::from_value(pod.clone()).unwrap();
        serde_json::to_value(read).unwrap()
    };
    let mut seen = 0;
    for one in all() {
        let fleet = serde_json::to_value(render(&one).unwrap().fleet).unwrap();
        let pod = &fleet["spec"]["template"]["spec"]["template"];
        assert_eq!(&read_again(pod), pod);
        let mut wrong = pod.clone();
        wrong["spec"]["containers"][0]["resource"] = wrong["spec"]["containers"][0]["resources"].take();
        assert_ne!(read_again(&wrong), wrong, "a field that Kubernetes does not have is noticed");
        seen += 1;
    }
    assert_eq!(seen, 256);
}
