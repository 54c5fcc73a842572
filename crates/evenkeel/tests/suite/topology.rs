//! Tests the drawings of `inspect --topology`:
//! golden texts of every captured machine, and complete pictures for 1 to 128 CPUs.

use std::fmt::Write;

use crate::audit::{captured, golden};
use crate::support::Scene;

/// Two sockets, each with four groups of eight cores that share a cache. Core N has CPU N and CPU N + 64.
/// There are 32 queues.
fn large_machine() -> String {
    let mut text = "evenkeel-capture 1\n/sys/devices/system/cpu/online = 0-126\n".to_owned();
    text.push_str("/sys/devices/system/cpu/present = 0-127\n/sys/devices/system/node/online = 0-1\n");
    text.push_str("/sys/devices/system/node/node0/cpulist = 0-31,64-95\n");
    text.push_str("/sys/devices/system/node/node1/cpulist = 32-63,96-127\n");
    for cpu in 0..128 {
        let core = cpu % 64;
        let (first, siblings) = (core / 8 * 8, format!("{core},{}", core + 64));
        let at = format!("/sys/devices/system/cpu/cpu{cpu}");
        let _ = writeln!(text, "{at}/topology/physical_package_id = {}", core / 32);
        let _ = writeln!(text, "{at}/topology/thread_siblings_list = {siblings}");
        let shared = format!("{first}-{},{}-{}", first + 7, first + 64, first + 71);
        for (index, level, size, shared) in [(0, 2, 1024, &siblings), (1, 3, 32768, &shared)] {
            let at = format!("{at}/cache/index{index}");
            let _ = writeln!(text, "{at}/level = {level}\n{at}/type = Unified\n{at}/size = {size}K");
            let _ = writeln!(text, "{at}/shared_cpu_list = {shared}");
        }
    }
    text.push_str("/sys/class/net/e<&>0 -> ../../devices/pci0/0000:00:05.0/net/e0\n");
    text.push_str("/sys/class/net/e<&>0/device -> ../../../0000:00:05.0\n/proc/interrupts =\n|   CPU0\n");
    for queue in 0..32 {
        let _ = writeln!(text, "| {}: 1  PCI-MSI {queue}-edge      e<&>0-Tx-Rx-{queue}", 100 + queue);
    }
    for queue in 0..32 {
        let _ = writeln!(text, "/proc/irq/{}/smp_affinity_list = {queue}", 100 + queue);
    }
    text + "end\n"
}

#[test]
fn drawings_of_every_captured_machine() {
    let scene = Scene::new();
    for (name, text) in captured() {
        scene.write("host.txt", &text);
        let seen = scene.run("inspect --topology --host host.txt");
        assert_eq!((seen.code, seen.stderr.as_str()), (0, ""), "{name}");
        assert!(seen.stdout.lines().all(|line| line.chars().count() <= 80), "{name}: {seen}");
        golden(&format!("{name}.topology.txt")).assert_eq(&seen.stdout);
    }
}

#[test]
fn a_large_machine_is_drawn_whole() {
    let scene = Scene::new();
    scene.write("large.txt", large_machine());
    let text = scene.run("inspect --topology --host large.txt").stdout;
    assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
    let threads = |letter: char| -> Vec<usize> {
        let lines = text.lines().filter_map(|line| line.trim_start().strip_prefix(letter)?.strip_prefix(' '));
        let number = |word: &str| word.trim_matches(['*', '(', ')']).parse().ok();
        lines.flat_map(str::split_whitespace).filter_map(number).collect()
    };
    assert_eq!(threads('A'), (0..64).collect::<Vec<_>>(), "{text}");
    assert_eq!(threads('B'), (64..128).collect::<Vec<_>>(), "{text}");
    assert!(text.contains(" 31*") && text.contains("(127)") && text.contains("(n) is off"), "{text}");
}

#[test]
fn pictures_are_whole_and_hold_nothing_from_outside() {
    let scene = Scene::new();
    let large = ("large".to_owned(), large_machine());
    for (name, text) in captured().chain([large]) {
        scene.write("host.txt", &text);
        let svg = scene.run("inspect --topology=svg --host host.txt").stdout;
        assert_balanced(&svg, &name);
        // Later elements are drawn over earlier elements. So no line covers a caption.
        let (lines_end, captions_begin) = (svg.rfind("<path").unwrap_or(0), svg.find("<text").unwrap());
        assert!(lines_end < captions_begin, "{name}: a line is drawn over captions");
        let outside = svg.replace("http://www.w3.org/2000/svg", "");
        for word in ["http", "href", "url(", "<script", "<image"] {
            assert!(!outside.contains(word), "{name}: {word}");
        }
        let (_, facts) = scene.json("inspect --host host.txt");
        let cpus = facts["facts"]["cpus"]["cpus"].as_array().unwrap().len();
        assert_eq!(svg.matches("<title>CPU ").count(), cpus, "{name}");
        let width: usize = svg.split("width=\"").nth(1).unwrap().split('"').next().unwrap().parse().unwrap();
        assert!(width <= 1100, "{name} is {width} pixels wide");
    }
}

/// No line runs under a CPU's cell or a cache's caption. Each line runs in the gaps, and ends at the side of a cell.
#[test]
fn no_line_of_a_picture_runs_under_a_cell() {
    let scene = Scene::new();
    let mut lines = 0;
    for (name, text) in captured() {
        scene.write("host.txt", &text);
        let svg = scene.run("inspect --topology=svg --host host.txt").stdout;
        let number = |tag: &str, key: &str| -> f64 {
            tag.split(&format!(" {key}=\"")).nth(1).unwrap().split('"').next().unwrap().parse().unwrap()
        };
        let cells: Vec<[f64; 4]> = svg
            .split("<rect")
            .filter(|tag| ["\"cpu\"", "\"serves\"", "\"off\""].iter().any(|class| tag.contains(class)))
            .map(|tag| [number(tag, "x"), number(tag, "y"), number(tag, "width"), number(tag, "height")])
            .collect();
        for path in svg.split("<path d=\"").skip(1).map(|rest| rest.split('"').next().unwrap()) {
            lines += 1;
            for (x, y) in points(path) {
                let inside = |[left, top, width, height]: &[f64; 4]| {
                    (left + 1.0..left + width - 1.0).contains(&x) && (top + 1.0..top + height - 1.0).contains(&y)
                };
                assert!(!cells.iter().any(inside), "{name}: {path} runs under a cell at {x}, {y}");
            }
        }
    }
    assert!(lines > 20, "only {lines} lines");
}

/// Points along a path of moves, cubic curves and straight lines.
fn points(path: &str) -> Vec<(f64, f64)> {
    let mut points: Vec<(f64, f64)> = Vec::new();
    let starts: Vec<usize> = path.match_indices(|letter: char| letter.is_alphabetic()).map(|(at, _)| at).collect();
    for (at, start) in starts.iter().enumerate() {
        let end = starts.get(at + 1).copied().unwrap_or(path.len());
        let numbers: Vec<f64> = path[start + 1..end].split_whitespace().map(|number| number.parse().unwrap()).collect();
        let (x, y) = points.last().copied().unwrap_or_default();
        let ends = match (&path[*start..=*start], numbers.as_slice()) {
            ("M", [x, y]) => vec![(*x, *y)],
            ("V", [to]) => (1..=50).map(|part| (x, y + (to - y) * f64::from(part) / 50.0)).collect(),
            ("H", [to]) => (1..=50).map(|part| (x + (to - x) * f64::from(part) / 50.0, y)).collect(),
            ("C", [x1, y1, x2, y2, x3, y3]) => (1..=50)
                .map(|part| {
                    let (t, left) = (f64::from(part) / 50.0, 1.0 - f64::from(part) / 50.0);
                    let mix = |a: f64, b: f64, c: f64, d: f64| {
                        left.powi(3) * a + 3.0 * left.powi(2) * t * b + 3.0 * left * t.powi(2) * c + t.powi(3) * d
                    };
                    (mix(x, *x1, *x2, *x3), mix(y, *y1, *y2, *y3))
                })
                .collect(),
            other => panic!("{other:?} in {path}"),
        };
        points.extend(ends);
    }
    points
}

/// Fails unless all tags are closed in order, and no text has a bare `<` or `&`.
fn assert_balanced(svg: &str, name: &str) {
    let mut open = Vec::new();
    for part in svg.split('<').skip(1) {
        let (tag, text) = part.split_once('>').unwrap_or_else(|| panic!("{name}: {part}"));
        let word = tag.split_whitespace().next().unwrap();
        match word.strip_prefix('/') {
            Some(closed) => assert_eq!(open.pop(), Some(closed), "{name}"),
            None if tag.ends_with('/') => {}
            None => open.push(word),
        }
        for entity in text.split('&').skip(1) {
            assert!(["amp;", "lt;", "gt;", "quot;"].iter().any(|known| entity.starts_with(known)), "{name}: {text}");
        }
    }
    assert!(open.is_empty(), "{name}: {open:?}");
}

/// The picture in the README equals a picture that the program draws.
#[test]
fn the_readmes_picture_is_drawn_by_the_program() {
    let scene = Scene::new();
    let (_, text) = captured().find(|(name, _)| name == "aws-c5n.xlarge-nitro-6.1").unwrap();
    scene.write("host.txt", text);
    let picture = expect_test::expect_file![format!("{}/../../docs/topology.svg", env!("CARGO_MANIFEST_DIR"))];
    picture.assert_eq(&scene.run("inspect --topology=svg --host host.txt").stdout);
}
