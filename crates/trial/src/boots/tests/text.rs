//! Tests the state file: valid, damaged, and malicious.

use std::os::unix::fs::{PermissionsExt, symlink};

use proptest::prelude::*;
use serde_json::Value;

use super::*;

fn some() -> BootsState {
    let mut state = BootsState::begin(design(0), 1_700_000_000, "boot-0");
    let arm = state.order()[0];
    let outcome =
        BootOutcome::Measured { values: vec![0.1, 1e-9, 3.0], dropped: 1, guards: Default::default(), counted: None };
    state.seen.push(SeenBoot {
        boot_id: "b1".into(),
        slot: 0,
        arm,
        tries: 1,
        machine: BootWords { command_line: Some("quiet \u{e9}".into()), ..BootWords::default() },
        outcome,
    });
    state.armed = Some(Armed { slot: 1, boot_id: "b1".into() });
    state.workload = "--workload tick --set 'a b'=\"$HOME\n%i\"".into();
    state
}

fn sealed(json: &str) -> Vec<u8> {
    format!("{:08x} {json}\n", crc32fast::hash(json.as_bytes())).into_bytes()
}

/// All later versions must read the first version of the format.
#[test]
fn format_1_stays() {
    let state = some();
    let text = state.text().unwrap();
    expect_test::expect![[r#"
        {"format":1,"evenkeel":"VERSION","id":"ID","begun_s":1700000000,"begun_boot":"boot-0","design":{"settings":["cmdline.processor.max_cstate=1"],"metric":{"name":"x_us","title":"x","unit":"us","better":"lower"},"smallest_effect_ratio":0.05,"boots":4,"windows":5,"window_ms":1000,"settle_ms":0,"seed":0,"reboots":true,"limit_s":1000},"workload":"--workload tick --set 'a b'=\"$HOME\n%i\"","workload_words":"","folder":"/","armed":{"slot":1,"boot_id":"b1"},"asked":0,"seen":[{"boot_id":"b1","slot":0,"arm":"ARM","tries":1,"machine":{"command_line":"quiet é"},"outcome":"measured","values":[0.1,1e-9,3.0],"dropped":1}]}
    "#]]
    .assert_eq(
        &text[9..]
            .replace(&state.id, "ID")
            .replace(env!("CARGO_PKG_VERSION"), "VERSION")
            .replace(&format!("\"arm\":\"{:?}\"", state.seen[0].arm), "\"arm\":\"ARM\""),
    );
    assert_eq!(parse(text.as_bytes()), Ok(state));
}

/// A state from an older version has no reboot count, no guards and no counters. The boot that the older version prepared is still measured.
#[test]
fn a_trial_of_an_older_program_goes_on() {
    let mut state = parse(&sealed(include_str!("format-1.json").trim_end())).unwrap();
    let arm = state.order()[1];
    let status = BootStatus {
        boot_id: "b2".into(),
        now_s: state.begun_s + 60,
        is_licensed: true,
        machine: BootWords::default(),
    };
    assert_eq!(next(&mut state, &status), Action::Measure { arm });
    assert_eq!((state.seen.len(), &state.seen[1].outcome), (2, &BootOutcome::Begun));
    assert_eq!(parse(state.text().unwrap().as_bytes()), Ok(state));
}

/// Makes a state with a guard.
fn guarded() -> BootsState {
    let mut state = some();
    state.design.guards = vec![Guard { metric: Metric::us("tail_us", "the tail"), harm_ratio: 0.25 }];
    if let BootOutcome::Measured { guards, .. } = &mut state.seen[0].outcome {
        guards.insert("tail_us".into(), 12.5);
    }
    state
}

/// Guards are stored with each boot. Without guards, the file looks as it did in older versions.
#[test]
fn guards_are_stored_with_each_boot() {
    let text = guarded().text().unwrap();
    for part in [
        r#""guards":[{"metric":{"name":"tail_us","title":"the tail","unit":"us","better":"lower"},"harm_ratio":0.25}]"#,
        r#""dropped":1,"guards":{"tail_us":12.5}}"#,
    ] {
        assert!(text.contains(part), "{text}");
    }
    assert_eq!(parse(text.as_bytes()), Ok(guarded()));
    assert!(!some().text().unwrap().contains("guards"));
}

#[test]
fn guards_that_can_not_be_meant_are_refused() {
    let good: Value = serde_json::from_str(&guarded().text().unwrap()[9..]).unwrap();
    let guard = good["design"]["guards"][0].clone();
    let named = |nth: usize| {
        let mut guard = guard.clone();
        guard["metric"]["name"] = format!("g{nth}").into();
        guard
    };
    let so_many = |count: usize| Value::from((0..count).map(named).collect::<Vec<_>>());
    let table: &[(&str, Value)] = &[
        ("/design/guards/0/metric/name", "".into()),
        ("/design/guards/0/metric/name", "a\nb".into()),
        ("/design/guards/0/metric/name", "x".repeat(1001).into()),
        ("/design/guards/0/metric/name", "x_us".into()),
        ("/design/guards/0/metric/title", "\u{1b}[2J".into()),
        ("/design/guards/0/metric/unit", "\r".into()),
        ("/design/guards/0/metric/better", "sideways".into()),
        ("/design/guards/0/harm_ratio", 0.into()),
        ("/design/guards/0/harm_ratio", (-1).into()),
        ("/design/guards/0/harm_ratio", Value::Null),
        ("/design/guards", Value::from(vec![guard.clone(), guard.clone()])),
        ("/design/guards", so_many(BOOT_GUARDS_MAX + 1)),
        // This is invalid: the boot has a value of a guard that the design does not have.
        ("/design/guards", Value::Array(vec![])),
        ("/seen/0/guards/tail_us", Value::Null),
        ("/seen/0/guards/tail_us", "1".into()),
        ("/seen/0/guards", serde_json::json!({ "other": 1.0 })),
        ("/seen/0/guards", Value::Array(vec![])),
    ];
    for (at, value) in table {
        let mut bad = good.clone();
        *bad.pointer_mut(at).unwrap() = value.clone();
        assert!(parse(&sealed(&bad.to_string())).is_err(), "{at} {value}");
    }
    let infinite = good.to_string().replace("12.5", "1e999");
    assert!(parse(&sealed(&infinite)).is_err());
    // This is valid: a boot without a value of a guard, and the maximum number of guards.
    let mut few = good.clone();
    few["seen"][0]["guards"] = serde_json::json!({});
    assert!(parse(&sealed(&few.to_string())).is_ok());
    few["design"]["guards"] = so_many(BOOT_GUARDS_MAX);
    assert!(parse(&sealed(&few.to_string())).is_ok());
}

#[test]
fn invalid_states_are_refused() {
    let good: Value = serde_json::from_str(&some().text().unwrap()[9..]).unwrap();
    let table: &[(&str, Value)] = &[
        ("/format", 2.into()),
        ("/id", "../../x".into()),
        ("/design/settings", Value::Array(vec![])),
        ("/design/settings/0", "a\nb".into()),
        ("/design/boots", 0.into()),
        ("/design/boots", 6.into()),
        ("/design/boots", 4_000_000_000_u64.into()),
        ("/design/windows", 0.into()),
        ("/design/windows", 100_000.into()),
        ("/design/window_ms", 1.into()),
        ("/design/settle_ms", 1_000_000_000_u64.into()),
        ("/design/smallest_effect_ratio", 0.into()),
        ("/folder", "tmp".into()),
        ("/seen/0/slot", 3.into()),
        ("/seen/0/values", Value::Array(vec![])),
        ("/seen/0/values", Value::Array(vec![1.into(); 6])),
    ];
    for (at, value) in table {
        let mut bad = good.clone();
        *bad.pointer_mut(at).unwrap() = value.clone();
        assert!(parse(&sealed(&bad.to_string())).is_err(), "{at} {value}");
    }
    let mut twice = good.clone();
    let first = twice["seen"][0].clone();
    twice["seen"].as_array_mut().unwrap().push(first);
    assert!(parse(&sealed(&twice.to_string())).is_err(), "a boot twice");
    assert!(parse(&sealed(&good.to_string())).is_ok());
    for bytes in
        [&b""[..], b"\n", b"00000000 {}\n", b"\xff\n", &sealed("{}"), &sealed("[1]"), &sealed(&"[".repeat(100_000))]
    {
        assert!(parse(bytes).is_err());
    }
}

#[test]
fn a_file_that_others_could_have_written_is_not_read() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("boots");
    assert!(read(&file).unwrap().is_none());
    write(&file, &some()).unwrap();
    assert_eq!(read(&file).unwrap().unwrap(), some());
    assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    std::fs::set_permissions(&file, PermissionsExt::from_mode(0o620)).unwrap();
    assert!(read(&file).unwrap_err().to_string().contains("others may write to it"));
    // A file left by a killed process, or a link at this path, is replaced.
    symlink("/dev/null", dir.path().join("boots.new")).unwrap();
    write(&file, &some()).unwrap();
    assert_eq!(read(&file).unwrap().unwrap(), some());
    std::fs::remove_file(&file).unwrap();
    symlink("/etc/passwd", &file).unwrap();
    assert!(read(&file).unwrap_err().to_string().contains("not a plain file"));
}

proptest! {
    #[test]
    fn no_bytes_make_it_panic(bytes in prop::collection::vec(any::<u8>(), 0..200), json in "\\PC{0,200}") {
        let _ = parse(&bytes);
        let _ = parse(&sealed(&json));
    }

    #[test]
    fn no_flipped_bit_goes_unseen(at in 0_usize..4096, bit in 0_u32..8) {
        let mut bytes = some().text().unwrap().into_bytes();
        let at = at % bytes.len();
        bytes[at] ^= 1 << bit;
        prop_assert!(parse(&bytes).is_err());
    }

    /// For every state that passes validation, `next` can choose the next action and `report` can make a report.
    #[test]
    fn valid_states_can_continue(
        at in 0_usize..60,
        value in prop_oneof![any::<i64>().prop_map(Value::from), "\\PC{0,8}".prop_map(Value::from), Just(Value::Null)],
        boot in "[a-c]1?",
    ) {
        let mut json: Value = serde_json::from_str(&guarded().text().unwrap()[9..]).unwrap();
        let mut leaves = Vec::new();
        collect(&json, String::new(), &mut leaves);
        *json.pointer_mut(&leaves[at % leaves.len()]).unwrap() = value;
        if let Ok(mut state) = parse(&sealed(&json.to_string())) {
            let _ = state.report();
            let status = BootStatus { boot_id: boot, now_s: 1_700_000_001, is_licensed: true, machine: BootWords::default() };
            let _ = next(&mut state, &status);
        }
    }
}

fn collect(value: &Value, at: String, leaves: &mut Vec<String>) {
    match value {
        Value::Object(fields) => fields.iter().for_each(|(name, value)| collect(value, format!("{at}/{name}"), leaves)),
        Value::Array(items) => {
            items.iter().enumerate().for_each(|(index, item)| collect(item, format!("{at}/{index}"), leaves));
        }
        _ => leaves.push(at),
    }
}
