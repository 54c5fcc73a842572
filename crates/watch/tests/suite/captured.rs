//! Tests on captured hosts, and on hosts with many processes.

use std::collections::BTreeMap;
use std::path::Path;

use evenkeel_hostfs::{Capture, Root};
use evenkeel_watch::{Collector, CollectorOptions, Model, Sample, ServerOptions};

use crate::made_up;

#[test]
fn every_captured_host_gives_a_model_whose_rates_are_unknown() {
    let hosts = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../hosts");
    let mut count = 0;
    for entry in std::fs::read_dir(hosts).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|extension| extension != "txt") {
            continue;
        }
        let root = Root::captured(Capture::parse(&std::fs::read_to_string(&path).unwrap()).unwrap());
        let mut collector = Collector::new(root, CollectorOptions::default());
        let (before, after) = (collector.sample(), collector.sample());
        let model = Model::from_samples(&before, &after);
        assert!(model.host.all.why().is_some(), "{}", path.display());
        assert!(model.servers.is_empty());
        let findings = &model.settings.known().unwrap().findings;
        assert!(findings.values().sum::<usize>() > 0, "{}", path.display());
        let json = serde_json::to_string(&before).unwrap();
        assert_eq!(serde_json::from_str::<Sample>(&json).unwrap(), before, "{}", path.display());
        count += 1;
    }
    assert!(count > 20, "{count} hosts");
}

#[test]
fn ten_thousand_processes_and_five_hundred_groups_are_bounded() {
    let mut files = made_up::files(100);
    for pid in 1000..11_000 {
        files.insert(format!("/proc/{pid}/stat"), format!("{pid} (x) S 1 1 1 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 1 1 1\n"));
    }
    for group in 0..500 {
        files.insert(format!("/sys/fs/cgroup/many/{group}/cpu.max"), "1000 100000\n".to_owned());
        files.insert(format!("/sys/fs/cgroup/many/{group}/cpu.stat"), "nr_periods 1\nnr_throttled 0\n".to_owned());
    }
    let servers = ServerOptions { pids: (1000..11_000).collect(), ..ServerOptions::default() };
    let options = CollectorOptions { servers, ..CollectorOptions::default() };
    let sample = Collector::new(Root::from(files), options).sample();
    assert_eq!((sample.servers.len(), sample.servers_beyond), (64, 9936));
    let groups = sample.host.groups.as_ref().unwrap();
    assert_eq!((groups.limited.len(), groups.is_cut), (256, true));
    let bytes = serde_json::to_vec(&sample).unwrap().len();
    assert!(bytes < 200_000, "{bytes} bytes");
}

#[test]
fn a_process_that_ends_is_unknown_and_nothing_else_changes() {
    let mut files = made_up::files(100);
    files.retain(|path, _| !path.starts_with("/proc/7/"));
    let servers = ServerOptions { pids: vec![7], ..ServerOptions::default() };
    let options = CollectorOptions { servers, ..CollectorOptions::default() };
    let sample = Collector::new(Root::from(files), options).sample();
    assert!(sample.servers[0].process.is_err());
    assert!(sample.host.stat.is_ok());
    let empty = Collector::new(Root::from(BTreeMap::new()), CollectorOptions::default()).sample();
    assert!(empty.host.stat.is_err() && empty.host.groups.is_err());
}
