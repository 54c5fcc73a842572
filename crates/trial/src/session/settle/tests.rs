//! Tests the settle time on simulated switches and on recorded noise.

use super::*;

/// Three switches to each arm. The arguments are the values of the short windows relative to the level of 100. The noise is at most 2 %.
fn series(after_a: [f64; STEPS], after_b: [f64; STEPS]) -> Series {
    let noise = |at: usize, switch: usize| 0.98 + 0.005 * ((at * 7 + switch * 5) % 9) as f64;
    let of = |shape: [f64; STEPS], switch| {
        (0..STEPS).map(|at| Some(100.0 * shape[at] * noise(at, switch))).collect::<Vec<_>>()
    };
    (0..SWITCHES).flat_map(|switch| [(ArmName::B, of(after_b, switch)), (ArmName::A, of(after_a, switch))]).collect()
}

const FLAT: [f64; STEPS] = [1.0; STEPS];

#[test]
fn it_is_found_where_the_drift_ends() {
    let table = [
        ("nothing to settle", FLAT, FLAT, Some(0)),
        ("B comes down slowly", FLAT, [1.5, 1.3, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0], Some(2)),
        (
            "A comes up, B down: no cancelling",
            [0.7, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0],
            [1.4, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0],
            Some(1),
        ),
        ("it still moves", FLAT, [2.0, 1.8, 1.6, 1.4, 1.2, 1.1, 1.0, 1.0], None),
        ("too small to matter", [1.01; STEPS], FLAT, Some(0)),
    ];
    for (what, a, b, expected) in table {
        assert_eq!(settled_at(&series(a, b), 0.05).0, expected, "{what}");
    }
    assert_eq!(settled_at(&[], 0.05).0, Some(0), "nothing seen is nothing to wait for");
    let lost = vec![(ArmName::A, vec![None; STEPS])];
    assert_eq!(settled_at(&lost, 0.05).0, Some(0));
}

/// Consecutive windows of an undisturbed machine: a column of a recorded trace.
fn recorded(file: &str, column: usize) -> Vec<f64> {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../testkit/src/noise/traces").join(file);
    let text = std::fs::read_to_string(&path).unwrap();
    let lines = text.lines().filter(|line| !line.starts_with('#') && !line.is_empty());
    lines.map(|line| line.split_whitespace().nth(column).unwrap().parse().unwrap()).collect()
}

/// Runs trials that begin at different places of the recording.
/// Returns the percentage of trials that find each settle time.
/// The windows after each switch to B are multiplied by `after_b`.
/// The last entry counts trials that find no settle time.
fn found(windows: &[f64], after_b: [f64; STEPS]) -> [f64; TESTED + 1] {
    let of_look = 2 * SWITCHES * STEPS;
    let starts: Vec<usize> = (0..windows.len() - LOOKS * of_look).step_by(7).collect();
    let mut found = [0.0; TESTED + 1];
    for start in &starts {
        let mut series: Series = Vec::new();
        let mut position = None;
        for look in 0..LOOKS {
            let of_look = &windows[start + look * of_look..][..of_look];
            series.extend(of_look.chunks_exact(STEPS).enumerate().map(|(switch, values)| {
                let (arm, shape) = if switch % 2 == 0 { (ArmName::B, after_b) } else { (ArmName::A, FLAT) };
                (arm, values.iter().zip(shape).map(|(value, by)| Some(value * by)).collect())
            }));
            position = settled_at(&series, 0.05).0;
            if position == Some(0) {
                break;
            }
        }
        found[position.unwrap_or(TESTED)] += 100.0 / starts.len() as f64;
    }
    found
}

#[test]
fn noise_of_a_recorded_machine_is_no_drift_and_a_drift_in_it_is_found() {
    let first = [2.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0];
    for (file, column) in [
        ("cpu-busy.txt", 0),
        ("cpu-busy.txt", 1),
        ("udp-busy.txt", 0),
        ("udp-busy.txt", 1),
        ("udp-quiet.txt", 0),
        ("udp-quiet.txt", 1),
    ] {
        let windows = recorded(file, column);
        let none = found(&windows, FLAT);
        assert!(none[0] >= 94.0, "{file} {column}: at once in {none:?}");
        let moved = found(&windows, first);
        assert!(moved[1] >= 85.0, "{file} {column}: after one window in {moved:?}");
        assert!(moved[0] <= 5.0, "{file} {column}: a drift is missed in {moved:?}");
    }
}
