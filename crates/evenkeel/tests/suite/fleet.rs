//! `fleet table`: cards by generation, and files that are not cards.

use expect_test::expect_file;

use crate::support::Scene;

const CARD: &str = include_str!("../fixtures/releases/0.1/card.json");

#[test]
fn cards_of_two_generations_are_two_sections() {
    let scene = Scene::new();
    std::fs::create_dir(scene.path("cards")).unwrap();
    scene.write("cards/a.json", CARD);
    // Add the same machine on a better day, and a machine of another generation.
    scene.write("cards/b.json", CARD.replace("19906559", "15908863"));
    scene.write("cards/c.json", CARD.replace("AMD EPYC", "Xeon").replace("\"full\"", "\"quick\""));
    scene.write("cards/broken.json", "{\"kind\": 1}");
    scene.write("cards/notes.txt", "no card");
    expect_file!["snapshots/fleet-table.txt"]
        .assert_eq(&scene.run("fleet table cards --limit wake_udp_100us_ns_p99=18000000").to_string());
    let (code, answer) = scene.json("fleet table cards --by CPU --limit disk_sync_write_ns_p50=1");
    assert_eq!((code, answer["generations"].as_array().unwrap().len()), (0, 2));
    let first = &answer["generations"][0];
    assert_eq!((&first["traits"][0]["value"], &first["holds"]["broken"]), (&"AMD EPYC".into(), &2.into()));
    assert_eq!(answer["unread"].as_array().unwrap().len(), 1);
}

#[test]
fn definitions_are_printed_with_and_without_json() {
    let scene = Scene::new();
    let text = scene.run("fleet rollout --definitions");
    assert!(text.code == 0 && text.stdout.contains("CustomResourceDefinition"), "{text}");
    assert_eq!(scene.run("fleet rollout --definitions --json").stdout, text.stdout);
    assert_eq!(scene.run("fleet rollout steady-games --definitions").code, 2);
}

#[test]
fn without_a_card_the_reason_is_named() {
    let scene = Scene::new();
    scene.write("other.json", "{\"kind\": \"report\"}");
    for (line, expected) in [
        ("fleet table other.json", "read the card other.json: it is not a card"),
        ("fleet table nowhere.json", "nowhere.json"),
        ("fleet table .", "read the card ./other.json: it is not a card"),
        ("fleet table other.json --limit x", "write NAME=N"),
        ("fleet table", "CARD.json"),
    ] {
        let seen = scene.run(line);
        assert!(seen.code == 2 && seen.stderr.contains(expected), "{line}: {seen}");
    }
}
