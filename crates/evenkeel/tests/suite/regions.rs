//! Tests `regions`: the page, the answer, the map, and invalid tables.

use expect_test::{Expect, expect, expect_file};

use crate::support::Scene;

/// Cities with their players, in a file as spreadsheets write it:
/// with a byte order mark, quotes, carriage returns and an empty line.
const CITIES: &str = "\u{feff}name,Lat,Lng,players,country\r\n\"New York\",40.71,-74.01,800,US\r\nDublin,53.35,-6.26,310,IE\r\n\
                      Tokyo,35.69,139.69,280,JP\r\n\r\nSuva,-18.14,178.44,20,FJ\r\n\"São Paulo\",-23.55,-46.63,200,BR\r\n";

const PINGS: &str = "us-east-1,eu-west-1,ap-northeast-1,mine,players\n12,84,170,80,5200\n95,9,,30,3100\n160,240,8,200,2800\n400,410,390,380,100\n";

fn scene() -> Scene {
    let scene = Scene::new();
    scene.write("cities.csv", CITIES);
    scene.write("pings.csv", PINGS);
    scene
}

fn check(line: &str, expected: Expect) {
    expected.assert_eq(&scene().run(line).to_string());
}

#[test]
fn the_pages_of_a_table_of_latencies_and_of_positions() {
    let page = |line: &str| scene().run(line).to_string();
    expect_file!["snapshots/regions-pings.txt"].assert_eq(&page("regions pings.csv --count 2"));
    expect_file!["snapshots/regions-cities.txt"]
        .assert_eq(&page("regions cities.csv --provider aws --count 3 --keep us-east-1 --within 150 --percentile 90"));
}

#[test]
fn the_answer_has_the_proof_and_who_is_left_behind() {
    let scene = scene();
    let refused = scene.run("regions pings.csv --within 40 --percentile 99.5");
    assert_eq!(refused.code, 1, "a player in a hundred has no region within 380 ms: {refused}");
    let (code, answer) = scene.json("regions pings.csv --within 100 --percentile 95");
    let chosen = answer["chosen"].as_array().unwrap();
    let names: Vec<&str> = chosen.iter().map(|one| one["region"].as_str().unwrap()).collect();
    assert_eq!((code, names), (0, vec!["mine", "ap-northeast-1"]));
    assert_eq!(answer["latency"]["percentile_ms"], 80.0);
    assert_eq!((&answer["proof"]["is_best"], &answer["proof"]["bound_ms"]), (&true.into(), &80.0.into()));
    assert_eq!(answer["left_behind"]["players"], 100.0);
    assert_eq!(answer["left_behind"]["groups"][0]["nearest"], "mine");
    assert_eq!(answer["players"]["unmeasured"], 1);
}

#[test]
fn a_map_is_one_whole_document_and_replaces_nothing() {
    let scene = scene();
    let line = "regions cities.csv --provider google --count 2 --map map.svg";
    assert_eq!(scene.run(line).code, 0);
    let map = scene.read("map.svg");
    assert!(map.starts_with("<svg ") && map.ends_with("</svg>\n"), "{map}");
    // The map has a circle for each region, and one for each city.
    assert_eq!(map.matches("<circle ").count(), 42 + 5);
    assert_eq!(map.matches("class=\"c\"").count(), 2);
    let refused = scene.run(line);
    assert!(refused.code == 2 && refused.stderr.contains("it exists already"), "{refused}");
    assert_eq!(scene.run(&format!("{line} --force")).code, 0);
    scene.write("unknown.csv", "<b>,\u{1b}[2J\n1,2\n");
    let refused = scene.run("regions unknown.csv --count 1 --map other.svg");
    assert!(refused.code == 2 && refused.stderr.contains("no position is known"), "{refused}");
}

#[test]
fn regions_of_the_user_do_too() {
    let scene = scene();
    let mine = "region,latitude,longitude,named\nnorth,52.5,13.4,Berlin\nsouth,-33.9,18.4,Cape Town\neast,1.3,103.8,\n";
    scene.write("mine.csv", mine);
    let (_, answer) = scene.json("regions cities.csv --candidates mine.csv --count 1");
    assert_eq!((&answer["chosen"][0]["region"], &answer["chosen"][0]["named"]), (&"north".into(), &"Berlin".into()));
    let refused = scene.run("regions cities.csv --candidates mine.csv --provider aws --count 1");
    assert_eq!(refused.code, 2, "{refused}");
    let (_, answer) = scene.json("regions pings.csv --among mine,eu-west-1 --count 1");
    assert_eq!((&answer["candidates"], &answer["chosen"][0]["region"]), (&2.into(), &"mine".into()));
}

#[test]
fn a_proof_and_a_refusal_are_about_what_was_asked() {
    let scene = scene();
    let page = scene.run("regions pings.csv --within 100").stdout;
    assert!(page.contains("fewer of these regions do not keep p95 within 100.0"), "{page}");
    let (_, answer) = scene.json("regions pings.csv --within 100");
    assert_eq!(answer["proof"]["is_fewest"], true);
    let (_, answer) = scene.json("regions pings.csv --count 2");
    assert!(answer["proof"]["is_fewest"].is_null());
    scene.write("halves.csv", "a,b,players\n10,,50\n,10,50\n");
    let refused = scene.run("regions halves.csv --count 1");
    assert!(
        refused.code == 1 && refused.stderr.contains("found no 1 of 2 regions with a latency to 95 % of the players"),
        "{refused}"
    );
    scene.write("one.csv", "a\n10\n20\n");
    let page = scene.run("regions one.csv --count 2").stdout;
    assert!(page.contains("--count is 2, and only 1 can be chosen from"), "{page}");
    scene.write("both.csv", "lat,lon,us-east-1\n40,-74,12\n");
    let (code, answer) = scene.json("regions both.csv --count 1");
    assert_eq!(
        (code, &answer["latency"]["percentile_ms"], &answer["model"]),
        (0, &12.0.into(), &serde_json::Value::Null)
    );
    assert_eq!(scene.run("regions both.csv --count 1 --provider aws").code, 2);
    // 99.99 must not be rounded to 100.
    let refused = scene.run("regions pings.csv --count 1 --percentile 99.99");
    assert!(refused.code == 2 && refused.stderr.contains("at most one decimal"), "{refused}");
}

#[test]
fn what_is_missing_is_named() {
    check(
        "regions pings.csv",
        expect![[r#"
        exit code 2
        -- stderr
        error: evenkeel regions needs --count N or --within MS
        hint: --count 3 chooses three regions; --within 80 chooses the fewest that keep p95 within 80 ms
    "#]],
    );
    check(
        "regions cities.csv --count 2",
        expect![[r#"
        exit code 2
        -- stderr
        error: failed to choose regions for the players in cities.csv: the table has positions, and no regions are named
        hint: name a cloud with --provider aws, azure or google, or your own regions with --candidates FILE
    "#]],
    );
    check(
        "regions cities.csv --count 2 --provider aws --provider azure",
        expect![[r#"
        exit code 2
        -- stderr
        error: failed to choose regions for the players in cities.csv: 81 regions to choose from, and the most is 60
        hint: choose from at most 60: name one --provider, or the regions with --among
    "#]],
    );
    check(
        "regions pings.csv --count 2 --keep us-west-9",
        expect![[r#"
        exit code 2
        -- stderr
        error: failed to choose regions for the players in pings.csv: there is no region "us-west-9" to choose from
        hint: --among and --keep take names of columns, or of regions of --provider or --candidates
    "#]],
    );
    check(
        "regions pings.csv --within 3",
        expect![[r#"
        exit code 1
        -- stderr
        error: failed to choose regions for the players in pings.csv: even with all 4 regions, p95 is 12.0 ms, and the limit is 3 ms
        hint: raise --within, lower --percentile, or choose --count regions and read who is left behind
    "#]],
    );
    check(
        "regions nowhere.csv --count 1",
        expect![[r#"
            exit code 2
            -- stderr
            error: failed to read nowhere.csv: no such file or directory (ENOENT)
            hint: name a readable file; a relative path starts in the current folder
        "#]],
    );
}

#[test]
fn a_wrong_table_is_an_error_that_names_the_line() {
    let scene = scene();
    let long = format!("lat,lon\n1,{}\n", "1".repeat(3 << 20));
    for (table, options, expected) in [
        ("", "", "it has no lines"),
        ("a,b\n", "", "it has no players"),
        (
            "a,b\n1,2\n3,NaN\n",
            "",
            "line 3: column \"b\": \"NaN\" is not milliseconds from 0 to 60000, or empty; is the column a region?",
        ),
        ("a,b\n1,2\n3,4,5\n", "", "line 3: 3 columns, and the first line has 2"),
        ("a,b\n1,\u{1b}[31m\n", "", "line 2: column \"b\""),
        ("lat,lon\n90.5,2\n", "--provider aws", "line 2: column \"lat\": \"90.5\" is not degrees from -90 to 90"),
        (long.as_str(), "--provider aws", "line 2: longer than 65536 bytes"),
    ] {
        scene.write("wrong.csv", table);
        let seen = scene.run(&format!("regions wrong.csv --count 1 {options}"));
        assert!(seen.code == 2 && seen.stderr.contains(expected), "{table:.40}: {seen}");
        assert!(!seen.stderr.contains('\u{1b}'), "{seen}");
    }
    scene.write("wrong.csv", b"a,b\n1,\xff\n");
    assert!(scene.run("regions wrong.csv --count 1").stderr.contains("line 2: it is not text"));
    // Players at the poles, and on both sides of the date line.
    scene.write("poles.csv", "lat,lon\n90,0\n-90,180\n0,180\n0,-180\n");
    let (code, answer) = scene.json("regions poles.csv --count 60 --provider aws");
    assert_eq!((code, &answer["players"]["count"]), (0, &4.0.into()), "{answer}");
}
