//! Tests `script`: the files that it writes, and refusals.

use expect_test::expect;

use crate::support::Scene;

#[test]
fn the_script_is_for_people_to_review() {
    let scene = Scene::new();
    let script = scene.run("script vm.swappiness=10 thp.enabled=never --persist --host host.txt").stdout;
    let (_, plan) = script.split_once("\nplan() {\n").unwrap();
    let (plan, _) = plan.split_once("\n}\n").unwrap();
    expect![[r#"

        # vm.swappiness=10
        set_value plain /proc/sys/vm/swappiness 10

        # thp.enabled=never
        set_value chosen-word /sys/kernel/mm/transparent_hugepage/enabled never '' /proc/sys/vm/min_free_kbytes
    "#]]
    .assert_eq(plan.split_once("\nplace ").unwrap().0);
    assert!(plan.contains("place 644 /etc/sysctl.d/90-evenkeel.conf <<'END'\n"), "{plan}");
    let undo = scene.run("script vm.swappiness=10 thp.enabled=never --undo --host host.txt").stdout;
    let lines: Vec<&str> = undo.lines().filter(|line| line.starts_with("old_value ")).collect();
    expect![[r#"
        [
            "old_value any chosen-word /sys/kernel/mm/transparent_hugepage/enabled always /proc/sys/vm/min_free_kbytes 67584",
            "old_value any plain /proc/sys/vm/swappiness 60",
        ]
    "#]]
    .assert_debug_eq(&lines);
}

#[test]
fn a_role_is_a_folder() {
    let scene = Scene::new();
    let refused = scene.run("script vm.swappiness=10 --host host.txt --format ansible");
    assert!(refused.code == 2 && refused.stderr.contains("--output"), "{refused}");
    assert_eq!(scene.run("script vm.swappiness=10 --host host.txt --format ansible --output role").code, 0);
    let (_, answer) = scene.json("script vm.swappiness=10 --host host.txt --format ansible");
    let files = answer["files"].as_array().unwrap();
    assert_eq!(files.len(), 6);
    for file in files {
        assert_eq!(scene.read(&format!("role/{}", file["path"].as_str().unwrap())), file["text"].as_str().unwrap());
    }
    let user_data = scene.run("script vm.swappiness=10 --host host.txt --format cloud-init");
    assert!(user_data.stdout.starts_with("#cloud-config\n"), "{user_data}");
}

#[test]
fn a_plan_is_not_taken_at_its_word() {
    let scene = Scene::new();
    let step = r#"{"knob":"vm.swappiness","place":"/proc/sys/vm/swappiness","wanted":"10","action":"write","path":"/proc/sys/vm/swappiness","reading":"plain","seen":"60","already_so":false,"takes_effect":"at-once"}"#;
    let plan =
        format!(r#"{{"format":1,"evenkeel":"0.1.0","title":"t","settings":["vm.swappiness=10"],"steps":[{step}]}}"#);
    scene.write("plan.json", &plan);
    let made = scene.run("script plan.json --host host.txt");
    assert!(made.code == 0 && made.stdout.contains("set_value plain /proc/sys/vm/swappiness 10\n"), "{made}");
    // The undo must restore the values in the plan, even if the machine has changed since.
    scene.write("plan.json", plan.replace(r#""seen":"60""#, r#""seen":"55""#));
    let undo = scene.run("script plan.json --undo --host host.txt");
    assert!(undo.stdout.contains("old_value any plain /proc/sys/vm/swappiness 55\n"), "{undo}");
    assert_eq!(scene.run("script plan.json --host host.txt").code, 4);
    for (from, to, code) in [
        (r#""path":"/proc/sys/vm/swappiness""#, r#""path":"/proc/sys/kernel/core_pattern""#, 4),
        (r#""wanted":"10""#, r#""wanted":"11""#, 4),
        (r#""settings":["vm.swappiness=10"]"#, r#""settings":["vm.swappiness=1000"]"#, 2),
        (r#""format":1"#, r#""format":2"#, 2),
        (r#""title""#, "", 2),
    ] {
        scene.write("plan.json", plan.replacen(from, to, 1));
        let seen = scene.run("script plan.json --host host.txt");
        assert!(seen.code == code && seen.stdout.is_empty(), "{to}: {seen}");
    }
    assert_eq!(scene.run("script nowhere.json --host host.txt").code, 2);
    assert_eq!(scene.run("script vm.swappiness=10 --undo --format cloud-init --host host.txt").code, 2);
    assert_eq!(scene.run("script vm.swappiness=10 vm.swappiness=20 --host host.txt").code, 2);
}
