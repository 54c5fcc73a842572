//! Tests `pack agones`: the manifests of all options against Agones' own definitions, their text, and invalid input.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use evenkeel_testkit::skipped;
use expect_test::{Expect, expect, expect_file};
use jsonschema::Validator;
use serde_json::{Value, json};

use crate::support::Scene;

const TABLE: &str = "session,count,cpus,tick_hz,work_us_p99,memory_mib\narena,24,0.12,60,5000,300\nlobby,2,0.40,20,,\n";
const CAPACITY: &str = r#"{"format": 1, "machine": {"cpus": 4, "memory_mib": 8000}, "found": {"sessions": 13, "at_least": 12, "at_most": 13},
    "need": {"name": "session", "count": 1, "cpus": 0.2, "memory_mib": 250.5, "tick_hz": 60}, "caveats": []}"#;
const DEMAND: &str = "--starts-per-minute 2 --node-start 90s --nodes-max 20";

fn scene() -> Scene {
    let scene = Scene::new();
    scene.write("sessions.csv", TABLE);
    scene.write("one.csv", TABLE.lines().take(2).collect::<Vec<_>>().join("\n"));
    scene.write("capacity.json", CAPACITY);
    scene
}

/// The definitions by kind. Like an API server with strict validation, they refuse fields that they do not name.
fn definitions() -> BTreeMap<String, Validator> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/agones/definitions.json");
    let list: Value = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    let of = |definition: &Value| {
        let spec = &definition["spec"];
        let mut schema = spec["versions"][0]["schema"]["openAPIV3Schema"].clone();
        schema["properties"]["apiVersion"] = json!({"const": format!("{}/v1", spec["group"].as_str().unwrap())});
        schema["properties"]["kind"] = json!({"const": spec["names"]["kind"]});
        schema["properties"]["metadata"] = json!({"type": "object", "required": ["name"], "properties": {"name": {"type": "string"}, "namespace": {"type": "string"}}});
        schema["required"] = json!(["apiVersion", "kind", "metadata", "spec"]);
        make_strict(&mut schema);
        (spec["names"]["kind"].as_str().unwrap().to_owned(), jsonschema::validator_for(&schema).unwrap())
    };
    list["items"].as_array().unwrap().iter().map(of).collect()
}

fn make_strict(schema: &mut Value) {
    if let Value::Object(fields) = schema {
        let keeps_unknown = fields.contains_key("x-kubernetes-preserve-unknown-fields");
        if fields.contains_key("properties") && !keeps_unknown {
            fields.insert("additionalProperties".to_owned(), false.into());
        }
        fields.values_mut().for_each(make_strict);
    }
    if let Value::Array(items) = schema {
        items.iter_mut().for_each(make_strict);
    }
}

fn faults(definition: &Validator, object: &Value) -> Vec<String> {
    definition.iter_errors(object).map(|error| format!("{}: {error}", error.instance_path())).collect()
}

/// Command lines that produce every form of the objects.
fn lines() -> Vec<String> {
    let base = "pack agones sessions.csv --session arena --image registry.example/arena:1.4";
    let mut lines: Vec<String> = vec![
        base.to_owned(),
        format!("{base} --port 7777 --port 7778/tcp --port 7779/tcpudp --namespace games --name arena-eu"),
        format!("{base} --cpus pinned --scheduling distributed --phases"),
        format!(
            "{base} --node-label pool=games --node-label pool=voice --node-label evenkeel.dev/quantum=none --node-sessions-min 10"
        ),
        format!("{base} --sessions-per-server 4 --node-cpus 3.92 {DEMAND} --phases --port 7777"),
        format!("{base} --node-cpus 3.92 {DEMAND}"),
        format!("{base} --capacity capacity.json {DEMAND}"),
        "pack agones --capacity capacity.json --image arena:1.4".to_owned(),
        "pack agones one.csv --image arena:1.4".to_owned(),
    ];
    lines
        .extend(["shared", "pinned"].map(|cpus| {
            format!("{base} --cpus {cpus} --sessions-per-server 3 --node-cpus 16 {DEMAND} --load-max 0.5")
        }));
    lines
}

#[test]
fn manifests_follow_the_definitions_of_agones() {
    let (scene, definitions) = (scene(), definitions());
    let mut autoscalers = 0;
    for line in lines() {
        let (code, answer) = scene.json(&line);
        assert_eq!(code, 0, "{line}: {answer}");
        let (fleet, autoscaler) = (&answer["fleet"], &answer["autoscaler"]);
        assert_eq!(faults(&definitions["Fleet"], fleet), [""; 0], "{line}: {fleet:#}");
        if !autoscaler.is_null() {
            autoscalers += 1;
            assert_eq!(faults(&definitions["FleetAutoscaler"], autoscaler), [""; 0], "{line}: {autoscaler:#}");
            assert_eq!(autoscaler["spec"]["fleetName"], fleet["metadata"]["name"], "{line}");
        }
        // The game server that Agones creates from the template must also be valid by its own definition.
        let game_server = json!({"apiVersion": "agones.dev/v1", "kind": "GameServer", "metadata": {"name": "x"}, "spec": fleet["spec"]["template"]["spec"]});
        assert_eq!(faults(&definitions["GameServer"], &game_server), [""; 0], "{line}");
    }
    assert_eq!(autoscalers, 5);
}

/// At every place of an object, the definitions refuse a wrong field or value.
#[test]
fn a_wrong_field_anywhere_is_noticed() {
    let (scene, definitions) = (scene(), definitions());
    let (_, answer) = scene.json(&lines()[4]);
    let mut planted = 0;
    for (kind, object) in [("Fleet", &answer["fleet"]), ("FleetAutoscaler", &answer["autoscaler"])] {
        assert_eq!(faults(&definitions[kind], object), [""; 0]);
        for place in objects(object, "") {
            // A test of the fleet crate checks the pod against the types of Kubernetes.
            if place.starts_with("/spec/template/spec/template") || place.ends_with("/counters") {
                continue;
            }
            planted += 1;
            let mut wrong = object.clone();
            wrong.pointer_mut(&place).unwrap()["planted"] = 1.into();
            assert!(!faults(&definitions[kind], &wrong).is_empty(), "{kind}{place}");
        }
    }
    assert!(planted >= 12, "{planted} places");
    for (place, value) in [
        ("/spec/scheduling", json!("packed")),
        ("/spec/template/spec/ports/0/protocol", json!("udp")),
        ("/spec/template/spec/ports/0/containerPort", json!(0)),
        ("/spec/template/spec/counters/sessions/capacity", json!("4")),
    ] {
        let mut wrong = answer["fleet"].clone();
        *wrong.pointer_mut(place).unwrap() = value;
        assert!(!faults(&definitions["Fleet"], &wrong).is_empty(), "{place}");
    }
    let mut wrong = answer["autoscaler"].clone();
    wrong["spec"]["policy"]["counter"].as_object_mut().unwrap().remove("maxCapacity");
    assert!(!faults(&definitions["FleetAutoscaler"], &wrong).is_empty());
}

/// The JSON pointers to all objects within a value.
fn objects(value: &Value, at: &str) -> Vec<String> {
    match value {
        Value::Object(fields) => {
            let inner = fields.iter().flat_map(|(name, value)| objects(value, &format!("{at}/{name}")));
            std::iter::once(at.to_owned()).chain(inner).collect()
        }
        Value::Array(items) => {
            items.iter().enumerate().flat_map(|(nth, value)| objects(value, &format!("{at}/{nth}"))).collect()
        }
        _ => Vec::new(),
    }
}

/// Another YAML parser reads exactly the same manifests from the text.
#[test]
fn the_text_is_yaml_of_the_same_manifests() {
    let scene = scene();
    for (nth, line) in lines().iter().enumerate() {
        scene.write(&format!("{nth}.yaml"), scene.run(line).stdout);
    }
    const READER: &str =
        "import json, sys, yaml\nfor path in sys.argv[1:]: print(json.dumps(list(yaml.safe_load_all(open(path)))))";
    let paths: Vec<_> = (0..lines().len()).map(|nth| scene.path(&format!("{nth}.yaml"))).collect();
    let output = Command::new("/usr/bin/python3").args(["-c", READER]).args(paths).output();
    let output = match output {
        Ok(output) if output.status.success() => output,
        other => {
            let has_yaml = Command::new("/usr/bin/python3").args(["-c", "import yaml"]).status();
            assert!(!has_yaml.is_ok_and(|status| status.success()), "{other:?}");
            skipped("what YAML makes of manifests for Agones; apt-get install python3-yaml");
            return;
        }
    };
    let text = String::from_utf8(output.stdout).unwrap();
    assert_eq!(text.lines().count(), lines().len());
    for (read, line) in text.lines().zip(lines()) {
        let (_, answer) = scene.json(&line);
        let objects: Vec<&Value> =
            [&answer["fleet"], &answer["autoscaler"]].into_iter().filter(|one| !one.is_null()).collect();
        assert_eq!(serde_json::from_str::<Value>(read).unwrap(), json!(objects), "{line}");
    }
}

#[test]
fn the_pages() {
    let scene = scene();
    let page = |line: &str| scene.run(line).to_string();
    expect_file!["snapshots/pack-agones.txt"].assert_eq(&page(&lines()[0]));
    expect_file!["snapshots/pack-agones-pinned.txt"].assert_eq(&page(&lines()[2]));
    expect_file!["snapshots/pack-agones-density.txt"].assert_eq(&page(&lines()[4]));
    expect_file!["snapshots/pack-agones-capacity.txt"].assert_eq(&page(&lines()[6]));
}

#[test]
fn what_is_not_known_is_said() {
    let scene = scene();
    let missing = |options: &str| scene.json(&format!("pack agones one.csv --image a {options}")).1["buffer"].clone();
    assert_eq!(
        missing(""),
        json!({"unknown": {"missing": ["starts-per-minute", "node-start", "nodes-max", "sessions-per-node"]}})
    );
    assert_eq!(missing(DEMAND), json!({"unknown": {"missing": ["sessions-per-node"]}}));
    assert_eq!(
        missing("--capacity capacity.json --nodes-max 3 --node-start 90s"),
        json!({"unknown": {"missing": ["starts-per-minute"]}})
    );
    let known = missing(&format!("--capacity capacity.json {DEMAND}"));
    assert_eq!(known["known"]["sessions"], 9, "4 in 120 s on average: {known}");
    // No number of sessions is proven, so the requests are computed from the need.
    scene.write("unproven.json", CAPACITY.replace("\"at_least\": 12", "\"at_least\": 0"));
    let (_, answer) = scene.json("pack agones --capacity unproven.json --image a");
    assert_eq!((&answer["size"]["cpus_by"], &answer["size"]["cpu_millis"]), (&"need".into(), &286.into()));
}

fn check(line: &str, expected: Expect) {
    expected.assert_eq(&scene().run(line).to_string());
}

#[test]
fn wrong_input_is_refused_with_a_hint() {
    check(
        "pack agones sessions.csv --image a",
        expect![[r#"
        exit code 2
        -- stderr
        error: failed to render sessions.csv for Agones: it has 2 rows, but a Fleet needs exactly one
        hint: name one with --session: arena, lobby
    "#]],
    );
    check(
        "pack agones sessions.csv --session nobody --image a",
        expect![[r#"
        exit code 2
        -- stderr
        error: failed to render sessions.csv for Agones: no row has the session "nobody"
        hint: name one with --session: arena, lobby
    "#]],
    );
    check(
        "pack agones one.csv --image Arena",
        expect![[r#"
        exit code 2
        -- stderr
        error: --image does not take "Arena": an image is [HOST[:PORT]/]NAME[:TAG][@DIGEST], such as registry.example/arena:1.4
        hint: `evenkeel pack agones --help` lists what it takes
    "#]],
    );
    check(
        "pack agones one.csv --image a --name Arena_1",
        expect![[r#"
        exit code 2
        -- stderr
        error: --name does not take "Arena_1": a name has at most 63 of a-z, 0-9 and -, and begins and ends with a letter or digit
        hint: `evenkeel pack agones --help` lists what it takes
    "#]],
    );
    check(
        "pack agones one.csv --image a --node-label pool",
        expect![[r#"
        exit code 2
        -- stderr
        error: --node-label does not take "pool": a label is KEY=VALUE, such as pool=games or evenkeel.dev/quantum=none
        hint: `evenkeel pack agones --help` lists what it takes
    "#]],
    );
    check(
        "pack agones one.csv --image a --port 0",
        expect![[r#"
        exit code 2
        -- stderr
        error: --port does not take "0": a port is a number from 1 to 65535, for UDP; for other protocols 7777/tcp or 7777/tcpudp
        hint: `evenkeel pack agones --help` lists what it takes
    "#]],
    );
    check(
        "pack agones sessions.csv --session lobby --image a --cpus pinned",
        expect![[r#"
        exit code 2
        -- stderr
        error: failed to render sessions.csv for Agones: the memory of a session is not known, and the kubelet pins only pods with a limit of memory
        hint: add the column memory_mib, or use --cpus shared
    "#]],
    );
    check(
        &format!("pack agones one.csv --image a --node-cpus 2 {DEMAND}0").replace("--nodes-max 200", "--nodes-max 0"),
        expect![[r#"
            exit code 2
            -- stderr
            error: --nodes-max does not take "0": 0 is not in 1 to 100000
            hint: `evenkeel pack agones --help` lists what it takes
        "#]],
    );
    check(
        "pack agones one.csv --image a --node-cpus 1 --starts-per-minute 60 --node-start 90s --nodes-max 2",
        expect![[r#"
            exit code 2
            -- stderr
            error: failed to render one.csv for Agones: the buffer is 146 sessions, and 2 nodes have places for 8
            hint: raise --nodes-max, or name nodes that start sooner
        "#]],
    );
    check(
        "pack agones --capacity sessions.csv --image a",
        expect![[r#"
        exit code 2
        -- stderr
        error: failed to read sessions.csv: it is not an answer of `evenkeel capacity --json`: it is not JSON (line 1, column 1)
        hint: `evenkeel capacity --json > FILE` writes such a file
    "#]],
    );
}

#[test]
fn a_name_that_is_no_label_needs_another() {
    let scene = scene();
    scene.write("named.csv", "session,cpus\nMatch 1,0.1\n");
    let seen = scene.run("pack agones named.csv --image a");
    assert!(seen.code == 2 && seen.stderr.contains("--name"), "{seen}");
    assert_eq!(scene.run("pack agones named.csv --image a --name match-1").code, 0);
    // The name of a session is data, even if it looks like YAML.
    scene.write("odd.csv", "session,cpus\n\"a: {b}\",0.1\n");
    let (code, answer) = scene.json("pack agones odd.csv --image a --name a");
    assert_eq!((code, &answer["session"]), (0, &"a: {b}".into()));
}

/// The commands in docs/packing.md work with the page's table and an answer of `capacity`.
/// The first command prints the manifest on the page.
#[test]
fn the_documents_commands_run() {
    let page = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/packing.md")).unwrap();
    let (before, section) = page.split_once("\n## Agones\n").unwrap();
    let block = |text: &str, kind: &str| {
        let start = text.find(&format!("```{kind}\n")).unwrap() + kind.len() + 4;
        text[start..].split("```").next().unwrap().to_owned()
    };
    let scene = scene();
    scene.write("sessions.csv", block(before, "text"));
    let commands = block(section, "sh");
    let mut printed = Vec::new();
    for line in commands.lines().map(|line| line.strip_prefix("evenkeel ").unwrap()) {
        if line.starts_with("pack agones") {
            let seen = scene.run(line);
            assert_eq!(seen.code, 0, "{line}: {seen}");
            printed.push(seen.stdout);
        }
    }
    assert_eq!((printed.len(), &printed[0]), (3, &block(section, "yaml")));
    assert!(printed[1].contains("bufferSize: 21\n"), "the number that the page explains: {}", printed[1]);
}
