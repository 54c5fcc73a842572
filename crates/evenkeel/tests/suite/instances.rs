//! Tests `instances`: the page, the answer, price files, and errors.

use expect_test::expect_file;

use crate::support::Scene;

const PRICES: &str = "instance_type,usd_per_hour,region\nc5.xlarge,0.17,us-east-1\nc5.4xlarge,0.68,us-east-1\nc6g.xlarge,0.136,us-east-1\nt3.xlarge,0.1664,us-east-1\nStandard_D4s_v5,0.192,eastus\n";

fn scene() -> Scene {
    let scene = Scene::new();
    scene.write("prices.csv", PRICES);
    scene.write("sessions.csv", "session,count,cpus,memory_mib,network_mbps\nmatch,8,0.12,300,2\nlobby,1,0.5,,\n");
    scene
}

#[test]
fn the_pages_with_prices_and_without() {
    let page = |line: &str| scene().run(line).to_string();
    let priced = "instances --session cpus=0.2,memory_mib=600,network_mbps=2 --prices prices.csv --rows 5";
    expect_file!["snapshots/instances-priced.txt"].assert_eq(&page(priced));
    expect_file!["snapshots/instances-mix.txt"]
        .assert_eq(&page("instances sessions.csv --cloud google --no-burst --rows 4"));
}

#[test]
fn the_answer_has_what_ends_each_type() {
    let line = "instances --session cpus=0.2,memory_mib=600,packets_per_s=500 --prices prices.csv --region us-east-1";
    let (code, answer) = scene().json(line);
    let names: Vec<&str> =
        answer["candidates"].as_array().unwrap().iter().map(|one| one["instance_type"].as_str().unwrap()).collect();
    assert_eq!((code, names), (0, vec!["c6g.xlarge", "c5.4xlarge", "t3.xlarge", "c5.xlarge"]));
    let best = &answer["candidates"][0];
    assert_eq!((&best["fit"]["sessions"], &best["fit"]["limit"]), (&9.into(), &"cpu".into()));
    assert_eq!(best["architecture"], "arm64");
    let unknown: Vec<&str> =
        best["fit"]["unknown"].as_array().unwrap().iter().map(|one| one.as_str().unwrap()).collect();
    assert_eq!(unknown, ["session-network", "packets"]);
    let (code, answer) = scene().json("instances --session cpus=5000");
    assert_eq!((code, answer["candidates"].as_array().unwrap().len()), (1, 0));
}

/// The title of the page claims only documented figures.
#[test]
fn an_unknown_figure_is_in_the_title() {
    let scene = scene();
    scene.write("one.csv", "instance_type,usd_per_hour\nStandard_D4s_v5,0.001\n");
    let seen = scene.run("instances --session cpus=0.1,network_mbps=900 --prices one.csv");
    assert!(seen.stdout.contains("only if its lasting network rate is enough: no document has it"), "{seen}");
    let seen = scene.run("instances --session cpus=0.1,network_mbps=900");
    assert!(!seen.stdout.contains("no document has it"), "{seen}");
}

#[test]
fn what_is_wrong_is_named() {
    let scene = scene();
    scene.write("list.json", "{\"Items\": [1]}");
    scene.write("other.json", "{\"a\": {}}");
    scene.write("ram.csv", "cpus,ram\n1,2\n");
    scene.write("semicolons.csv", "cpus;count\n0,1;2\n");
    scene.write("cut.json", "{\"Items\": [\n");
    let cases = [
        ("instances", 2, "SESSIONS.csv"),
        ("instances ram.csv", 2, "line 1: no column is called \"ram\""),
        ("instances --session 0.2", 2, "write KEY=N"),
        ("instances --session cpus=0", 2, "is not a number of CPUs above 0, at most 10000"),
        ("instances semicolons.csv", 2, "line 1: its columns are separated by semicolons"),
        ("instances --session cpus=1 --prices cut.json", 2, "it is not JSON, or it is cut short (after line 1)"),
        ("instances --session cpus=1 --prices list.json", 2, "found the number 1 (line 1, column 13)"),
        ("instances --session cpus=1 --prices other.json", 2, "it has no known list of prices"),
        (
            "instances --session cpus=1 --prices prices.csv --region mars-1",
            2,
            "is mars-1 the region's name in this file?",
        ),
        ("instances --session cpus=1 --measured-on t9.tiny", 2, "does not have \"t9.tiny\""),
        ("instances --session cpus=1 --load-max 0", 2, "a share of a CPU from 0.05 to 1"),
        ("instances --session cpus=1 --spot", 2, "--prices"),
    ];
    for (line, code, expected) in cases {
        let seen = scene.run(line);
        assert!(seen.code == code && seen.stderr.contains(expected), "{line}: {seen}");
    }
}
