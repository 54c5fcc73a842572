//! Tests the machine's card as a file: comparisons and refusals.

use crate::support::Scene;

const CARD: &str = include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../measure/src/card/golden-1.json"));

#[test]
fn two_cards_are_put_side_by_side() {
    let scene = Scene::new();
    scene.write("a.json", CARD);
    let slower = CARD.replace("20001.0", "40001.0").replace("20000.0", "40000.0").replace("20002.0", "40002.0");
    scene.write("b.json", slower.replace("\"id\": \"share\"", "\"id\": \"other\""));
    let (code, answer) = scene.json("measure compare a.json b.json");
    assert_eq!((code, &answer["a_better"], &answer["b_better"]), (0, &1.into(), &0.into()), "{answer:#}");
    assert_eq!(answer["lines"][0]["outcome"], "a-better");
    assert_eq!((&answer["only_a"][0], &answer["only_b"][0]), (&"share".into(), &"other".into()));
    let page = scene.run("measure compare a.json b.json").stdout;
    for words in ["A is better", "only A has", "share", "6.18.5", "by chance"] {
        assert!(page.contains(words), "{words} is not in {page}");
    }
    let itself = scene.run("measure compare a.json a.json");
    assert!(itself.code == 0 && itself.stdout.contains("A is better in 0, B in 0"), "{itself}");
}

#[test]
fn other_files_than_cards_are_wrong_use() {
    let scene = Scene::new();
    scene.write("a.json", CARD);
    let table = [
        ("newer.json", CARD.replacen("\"format\": 1", "\"format\": 9", 1), "it has format 9"),
        ("deep.json", "[".repeat(1_000_000), "it is not JSON"),
        ("cut.json", CARD[..CARD.len() / 2].to_owned(), "it is not JSON, or it is cut short"),
        ("other.json", "{\"format\": 1, \"facts\": {}}".to_owned(), "does not say \"kind\""),
        ("empty.json", String::new(), "it is empty"),
    ];
    for (file, text, why) in table {
        scene.write(file, text);
        for line in [format!("measure compare a.json {file}"), format!("measure compare {file} a.json")] {
            let seen = scene.run(&line);
            assert!(seen.code == 2 && seen.stderr.contains(why) && seen.stderr.contains(file), "{line}: {seen}");
        }
    }
    let bytes: &[u8] = b"\xff\xfe";
    scene.write("bytes.json", bytes);
    assert!(scene.run("measure compare a.json bytes.json").stderr.contains("it is not text"));
    assert_eq!(scene.run("measure compare a.json none.json").code, 2);
    assert_eq!(scene.run("measure compare a.json").code, 2);
}

#[test]
fn an_unwritable_card_is_refused_before_anything_is_measured() {
    let scene = Scene::new();
    let seen = scene.run("measure all --output none/card.json");
    assert!(seen.code == 2 && seen.stderr.contains("write none/card.json: its folder does not exist"), "{seen}");
    let captured = scene.run("measure all --host host.txt");
    assert!(captured.code == 4 && captured.stderr.contains("time does not pass"), "{captured}");
}

#[test]
fn rates_are_those_of_the_given_process() {
    let scene = Scene::new();
    let line = format!("measure rates --seconds 1 --every 100 --pid {}", std::process::id());
    let (code, answer) = scene.json(&line);
    assert_eq!((code, &answer["process"]["pid"]), (0, &std::process::id().into()), "{answer:#}");
    assert!(answer["system"]["context_switches_per_s"].as_f64().is_some_and(|rate| rate > 0.0), "{answer:#}");
    let none = scene.run("measure rates --pid 4194305 --seconds 1");
    assert!(none.code == 2 && none.stderr.contains("look at process 4194305: no process has this number"), "{none}");
    assert_eq!(scene.run("measure rates --seconds 0").code, 2);
}
