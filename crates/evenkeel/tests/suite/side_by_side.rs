//! Tests `prove compare`: a table of several reports, as text and as JSON, and files that are not reports.

use expect_test::expect;

use crate::support::Scene;

/// A report that the version of 2026-11-21 wrote.
const OLD: &str = include_str!("../../../trial/src/saved/tests/format-1.json");

fn scene() -> Scene {
    let scene = Scene::new();
    scene.write("frankfurt.json", OLD);
    // Add a report of the same machine with another effect.
    scene.write("ohio.json", OLD.replace("\"value\":1", "\"value\":9"));
    scene
}

#[test]
fn reports_of_two_machines() {
    let scene = scene();
    expect![[r#"
        exit code 0
        -- stdout
        control of process.timer_slack_ns=1, by tick_lateness_us_p50
          A against A makes no difference that matters on all 2 machines. The machines
            agree: one effect between 2.6 % lower and 0.9 % higher fits all of them (95
            % confidence).
          machine         verdict  change       interval          pairs
          frankfurt.json  same     0.4 % lower  -2.2 % to +0.7 %  12
          ohio.json       same     0.4 % lower  -2.2 % to +0.7 %  12

        process.timer_slack_ns=1, by tick_lateness_us_p50
          It helps on all 2 machines. The machines differ: the ratio is lower on
            frankfurt.json than on ohio.json. Equal machines would look different in at
            most 5 % of such comparisons.
          machine         verdict  change      interval        pairs
          frankfurt.json  better   80 % lower  -82 % to -77 %  12
          ohio.json       better   80 % lower  -82 % to -77 %  12

        Machines
          frankfurt.json: kvm, kernel 6.18.44-fc-v595, Intel(R) Xeon(R) Processor,
            CPUs 0-1, 2026-11-21 22:17 UTC, evenkeel 0.1.0
          ohio.json: kvm, kernel 6.18.44-fc-v595, Intel(R) Xeon(R) Processor, CPUs
            0-1, 2026-11-21 22:17 UTC, evenkeel 0.1.0
          A result of one machine does not hold for another: nothing here is averaged.
    "#]]
    .assert_eq(&scene.run("prove compare frankfurt.json ohio.json").to_string());
    scene.write("oregon.json", OLD.replace("\"value\":1", "\"value\":8"));
    let (code, answer) = scene.json("prove compare frankfurt.json ohio.json oregon.json");
    assert_eq!(code, 0);
    assert_eq!(answer["machines"].as_array().unwrap().len(), 3);
    for asked in answer["asked"].as_array().unwrap() {
        assert_eq!(asked["cells"].as_array().unwrap().len(), 3);
        assert!(asked["agreement"].is_object(), "{asked}");
    }
    let seen = scene.run("prove compare frankfurt.json ohio.json --report out");
    assert!(seen.stdout.ends_with("report: out/compare.html\n"), "{seen}");
    assert!(scene.read("out/compare.html").contains("</html>"));
}

#[test]
fn files_that_are_no_reports() {
    let scene = scene();
    scene.write("binary.json", [0xff, 0xfe, 0]);
    scene.write("empty.json", "");
    scene.write("host.json", "{\"format\": 1, \"facts\": {}}");
    scene.write("later.json", "{\"format\": 3, \"trials\": []}");
    scene.write("deep.json", "[".repeat(100_000));
    scene.write("none.json", "{\"format\": 1, \"trials\": []}");
    let table = [
        ("no-such.json", "read the report no-such.json: no such file or directory"),
        ("binary.json", "read the report binary.json: it is not text"),
        ("empty.json", "read the report empty.json: it is empty"),
        ("host.json", "it has no trials and no verdict"),
        ("later.json", "it has format 3, but this version reads 1 to 2: a newer evenkeel wrote it"),
        ("deep.json", "read the report deep.json: expected a whole number"),
        (".", "read the report .: "),
    ];
    for (file, expected) in table {
        let seen = scene.run(&format!("prove compare frankfurt.json {file}"));
        assert!(seen.code == 2 && seen.stderr.contains(expected), "{file}: {seen}");
    }
    let one = scene.run("prove compare frankfurt.json");
    assert!(one.code == 2 && one.stderr.contains("1 given, but 2 to 64 are allowed"), "{one}");
    // A copy of a report is not a second machine, even under another name.
    scene.write("copy.json", scene.read("frankfurt.json") + "\n");
    for again in ["frankfurt.json", "copy.json"] {
        let twice = scene.run(&format!("prove compare frankfurt.json ohio.json {again}"));
        let expected = format!("frankfurt.json and {again} contain the same run");
        assert!(twice.code == 2 && twice.stderr.contains(&expected), "{twice}");
    }
    // evenkeel refuses an option that would have no effect.
    for ignored in [
        "--pairs 9",
        "--workload tick",
        "--json-metric x",
        "--seed 3",
        "--keep k",
        "--boots 4",
        "--smallest-effect 2",
        "-- server",
    ] {
        let seen = scene.run(&format!("prove compare frankfurt.json ohio.json {ignored}"));
        assert!(
            seen.code == 2
                && ["takes no option \"", "type: evenkeel prove", "read the report server"]
                    .iter()
                    .any(|why| seen.stderr.contains(why)),
            "{ignored}: {seen}"
        );
    }
    let nothing = scene.run("prove compare none.json none.json");
    assert!(nothing.code == 0 && nothing.stdout.contains("None of these reports has a trial."), "{nothing}");
}
