//! Tests every output format of `audit` on every captured machine, and waivers from their file to the exit code.

use std::path::Path;

use expect_test::{Expect, expect, expect_file};
use serde_json::Value;

use crate::pages::hosts;
use crate::support::Scene;

const WAIVERS: &str = "\
[[waiver]]
id = \"thp.enabled\"
reason = \"the database next to it asks for huge pages\"
expires = 9999-12-31

[[waiver]]
knob = \"net.core.busy_poll\"
reason = \"no CPU to spare\"
expires = \"2001-01-31\"

[[waiver]]
id = \"irq.affinity@ens5-Tx-Rx-9\"
reason = \"x\"
expires = 9999-12-31
";

/// The captured machines: the name and the text of each file.
pub(crate) fn captured() -> impl Iterator<Item = (String, String)> {
    hosts().into_iter().filter_map(|(path, text)| {
        let name = Path::new(&path).file_stem()?.to_str()?.to_owned();
        path.contains("/hosts/").then_some((name, text))
    })
}

pub(crate) fn golden(name: &str) -> expect_test::ExpectFile {
    expect_file![format!("{}/../../hosts/golden/{name}", env!("CARGO_MANIFEST_DIR"))]
}

#[test]
fn markdown_of_every_captured_machine() {
    let scene = Scene::new();
    for (name, text) in captured() {
        scene.write("host.txt", &text);
        let seen = scene.run("audit --host host.txt --md");
        assert_eq!((seen.code, seen.stderr.as_str()), (0, ""), "{name}");
        let mut columns = 0;
        for line in seen.stdout.lines().filter(|line| line.starts_with('|')) {
            // If a cell ended early, all following cells would be shifted.
            let bars = line.replace("\\|", "").matches('|').count();
            columns = if line.starts_with("| finding") { bars } else { columns };
            assert_eq!(bars, columns, "{name}: {line}");
        }
        golden(&format!("{name}.audit.md")).assert_eq(&seen.stdout);
    }
}

#[test]
fn sarif_of_every_captured_machine_has_what_the_standard_requires() {
    let scene = Scene::new();
    for (name, text) in captured() {
        scene.write("host.txt", &text);
        let seen = scene.run("audit --host host.txt --sarif");
        assert_eq!((seen.code, seen.stderr.as_str()), (0, ""), "{name}");
        let log: Value = serde_json::from_str(&seen.stdout).unwrap();
        assert_sarif(&log, &name);
        let (_, audit) = scene.json("audit --host host.txt");
        let asks = |advice: &&Value| !["keep", "not-here", "removed"].contains(&advice["state"].as_str().unwrap());
        let ids: Vec<&Value> =
            audit["advice"].as_array().unwrap().iter().filter(asks).map(|advice| &advice["id"]).collect();
        let results = log["runs"][0]["results"].as_array().unwrap();
        let fingerprints: Vec<&Value> =
            results.iter().map(|result| &result["partialFingerprints"]["evenkeelFindingId/v1"]).collect();
        assert_eq!(fingerprints, ids, "{name}");
    }
}

/// Checks the sections of SARIF 2.1.0 that contain SHALL:
/// log 3.13, run 3.14, tool 3.18, rules 3.49, results 3.27, locations 3.28, suppressions 3.35.
fn assert_sarif(log: &Value, name: &str) {
    let text = |value: &Value| value.as_str().is_some_and(|text| !text.is_empty());
    assert_eq!(log["version"], "2.1.0", "{name}");
    let runs = log["runs"].as_array().unwrap();
    assert_eq!(runs.len(), 1, "{name}");
    let driver = &runs[0]["tool"]["driver"];
    assert!(text(&driver["name"]) && text(&driver["semanticVersion"]), "{name}");
    let rules = driver["rules"].as_array().unwrap();
    for rule in rules {
        assert!(text(&rule["id"]) && text(&rule["shortDescription"]["text"]) && text(&rule["help"]["text"]), "{rule}");
    }
    for invocation in runs[0]["invocations"].as_array().unwrap() {
        assert!(invocation["executionSuccessful"].is_boolean());
        for notification in invocation["toolExecutionNotifications"].as_array().unwrap() {
            assert!(text(&notification["message"]["text"]), "{notification}");
        }
    }
    let results = runs[0]["results"].as_array().unwrap();
    for result in results {
        assert!(text(&result["message"]["text"]), "{name}: {result}");
        let index = usize::try_from(result["ruleIndex"].as_u64().unwrap()).unwrap();
        assert_eq!(rules[index]["id"], result["ruleId"], "{name}");
        assert!(["error", "warning", "note", "none"].contains(&result["level"].as_str().unwrap()), "{name}: {result}");
        assert_eq!(result["kind"] == "fail", result["level"] != "none", "{name}: {result}");
        let location = &result["locations"][0];
        assert!(text(&location["logicalLocations"][0]["fullyQualifiedName"]), "{name}: {result}");
        if let Some(uri) = location["physicalLocation"]["artifactLocation"]["uri"].as_str() {
            assert!(uri.starts_with("file:///") && !uri.contains(' '), "{name}: {uri}");
        }
        for suppression in result["suppressions"].as_array().into_iter().flatten() {
            assert_eq!(suppression["kind"], "external", "{name}");
        }
    }
    let with = results.iter().filter(|result| result["suppressions"].is_array()).count();
    assert!(with == 0 || with == results.len(), "{name}: all results have suppressions, or none has");
}

#[test]
fn sarif_results_of_two_machines() {
    let scene = Scene::new();
    let two = ["aws-c4.8xlarge-xen-3.14", "firecracker-2vcpu-6.18"];
    for (name, text) in captured().filter(|(name, _)| two.contains(&name.as_str())) {
        scene.write("host.txt", &text);
        let log: Value = serde_json::from_str(&scene.run("audit --host host.txt --sarif").stdout).unwrap();
        let results = serde_json::to_string_pretty(&log["runs"][0]["results"]).unwrap() + "\n";
        golden(&format!("{name}.sarif-results.json")).assert_eq(&results);
    }
}

#[test]
fn waived_findings_are_shown_and_do_not_count() {
    let scene = Scene::new();
    scene.write("waivers.toml", WAIVERS);
    let page = scene.run("audit --all --host host.txt --waivers waivers.toml").stdout;
    let from = page.find("Waived").unwrap();
    let waived = page[from..].split("\n\n").next().unwrap();
    expect![[r#"
        Waived
        set       thp.enabled: always -> madvise
                  waived until 9999-12-31: the database next to it asks for huge pages
                  any page fault may have to clear 2 MiB, and khugepaged moves memory
                  together in the background; TuneD recommends never, rpk always: run
                  `evenkeel prove thp.enabled=madvise` to measure"#]]
    .assert_eq(waived);
    expect![[r#"
        Waivers in waivers.toml
          waivers.toml line 6: the waiver of net.core.busy_poll expired on 2001-01-31
            and hides nothing any more (no CPU to spare)
          waivers.toml line 11: this machine has no finding
            "irq.affinity@ens5-Tx-Rx-9": `evenkeel audit --json` lists the ids
    "#]]
    .assert_eq(&page[page.find("Waivers in").unwrap()..]);
    assert!(!page.contains("apply thp.enabled"), "{page}");
    assert!(page.contains("apply net.core.busy_poll=50"), "the waiver has expired: {page}");

    let md = scene.run("audit --host host.txt --waivers waivers.toml --md").stdout;
    assert!(md.contains("waived until 9999-12-31: the database"), "{md}");
    assert!(md.contains("expired on 2001-01-31"), "{md}");

    let (_, json) = scene.json("audit --host host.txt --waivers waivers.toml");
    let thp = json["advice"].as_array().unwrap().iter().find(|advice| advice["id"] == "thp.enabled").unwrap();
    assert_eq!(thp["waived"]["expires"], "9999-12-31");
    assert_eq!(json["waivers"]["warnings"].as_array().unwrap().len(), 2);

    let log: Value =
        serde_json::from_str(&scene.run("audit --host host.txt --waivers waivers.toml --sarif").stdout).unwrap();
    assert_sarif(&log, "host.txt");
    let suppressed = log["runs"][0]["results"].as_array().unwrap().iter().filter(|result| {
        result["suppressions"][0]["justification"] == "the database next to it asks for huge pages (until 9999-12-31)"
    });
    assert_eq!(suppressed.count(), 1);
}

#[test]
fn only_what_is_not_waived_fails() {
    let scene = Scene::new();
    let knobs: Vec<String> = {
        let (_, json) = scene.json("audit --host host.txt");
        let of_state = |advice: &&Value| advice["state"] == "set";
        let set = json["advice"].as_array().unwrap().iter().filter(of_state).map(|advice| advice["knob"].clone());
        set.map(|knob| knob.as_str().unwrap().to_owned()).collect()
    };
    let waivers = |knobs: &[String]| -> String {
        knobs.iter().map(|knob| format!("[[waiver]]\nknob = '{knob}'\nreason = 'x'\nexpires = 9999-12-31\n")).collect()
    };
    scene.write("all.toml", waivers(&knobs));
    scene.write("most.toml", waivers(&knobs[1..]));
    for (file, code) in [("all.toml", 0), ("most.toml", 1)] {
        let seen = scene.run(&format!("audit --host host.txt --fail-on set --waivers {file}"));
        assert_eq!(seen.code, code, "{file}: {seen}");
    }
}

fn refused(text: impl AsRef<[u8]>, expected: Expect) {
    let scene = Scene::new();
    scene.write("waivers.toml", text);
    expected.assert_eq(&scene.run("audit --host host.txt --waivers waivers.toml").to_string());
}

#[test]
fn files_of_waivers_that_make_no_sense_are_refused() {
    refused(
        "[[waiver]]\nid = 'thp.enabled'\nexpires = 2027-01-01\n",
        expect![[r#"
            exit code 2
            -- stderr
            error: failed to read the waivers waivers.toml: line 1: it has no field "reason"
            hint: a waiver is a [[waiver]] with id = "…" as `evenkeel audit --json` prints it (or knob = "…" for all of a knob), reason = "…", and expires = YYYY-MM-DD
        "#]],
    );
    refused(
        b"\xff\xfe",
        expect![[r#"
            exit code 2
            -- stderr
            error: failed to read the waivers waivers.toml: invalid utf-8 sequence of 1 bytes from index 0
            hint: a waiver is a [[waiver]] with id = "…" as `evenkeel audit --json` prints it (or knob = "…" for all of a knob), reason = "…", and expires = YYYY-MM-DD
        "#]],
    );
    refused(
        vec![b'#'; (1 << 20) + 1],
        expect![[r#"
            exit code 2
            -- stderr
            error: failed to read the waivers waivers.toml: longer than 1048576 bytes
            hint: a waiver is a [[waiver]] with id = "…" as `evenkeel audit --json` prints it (or knob = "…" for all of a knob), reason = "…", and expires = YYYY-MM-DD
        "#]],
    );
    let missing = Scene::new().run("audit --host host.txt --waivers none.toml");
    assert_eq!(missing.code, 2);
    assert!(missing.stderr.contains("read the waivers none.toml: no such file or directory (ENOENT)"), "{missing}");
}
