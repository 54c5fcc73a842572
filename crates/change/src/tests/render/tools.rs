//! Runs the tools that read a rendered plan: shellcheck, cloud-init and Ansible.
//! If a tool is not installed, the test records a skip.

use std::path::Path;
use std::process::{Command, Output};

use evenkeel_hostfs::Root;
use evenkeel_testkit::skipped;

use super::same::RUN;
use super::{Place, every_content, every_setting, hosts, planned, well};
use crate::plan_file::PlanFile;
use crate::render::{cloud_init, role, script, undo_script};

/// The tool's output. `None` if the tool is not installed.
fn tool(program: &str, package: &str, arguments: &[&str], folder: &Path) -> Option<Output> {
    let mut command = Command::new(program);
    // Ansible refuses to run in a locale without UTF-8.
    command.args(arguments).current_dir(folder).env("HOME", folder).env("LC_ALL", "C.UTF-8");
    // With pipelining, each task of Ansible is one process instead of five.
    command.env("ANSIBLE_PIPELINING", "true");
    match command.output() {
        Ok(output) => Some(output),
        Err(error) => {
            skipped(format_args!("{program}: {error}; apt-get install {package}"));
            None
        }
    }
}

#[test]
fn shellcheck_has_nothing_to_say() {
    let dir = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| std::fs::write(dir.path().join(name), text).unwrap();
    let (mut names, mut of_few) = (Vec::new(), Vec::new());
    for host in hosts() {
        for (end, text) in [("", script(&host.plan).unwrap()), ("-undo", undo_script(&host.plan).unwrap())] {
            let name = format!("{}{end}.sh", host.name);
            write(&name, &text);
            if RUN.contains(&host.name.as_str()) {
                of_few.push(name.clone());
            }
            names.push(name);
        }
    }
    let place = Place::new();
    for (path, text) in super::THEIRS {
        place.write(path, text);
    }
    well(&place.run(&script(&every_content()).unwrap()));
    write("left-undo.sh", &std::fs::read_to_string(place.undo_script().unwrap()).unwrap());
    write("content.sh", &script(&every_content()).unwrap());
    write("content-undo.sh", &undo_script(&every_content()).unwrap());
    for all in [&mut names, &mut of_few] {
        all.extend(["left-undo.sh", "content.sh", "content-undo.sh"].map(str::to_owned));
    }
    let [names, of_few] = [&names, &of_few].map(|all| all.iter().map(String::as_str).collect::<Vec<_>>());
    for shell in ["dash", "bash", "busybox"] {
        let sh = if shell == "busybox" { vec!["sh", "-n"] } else { vec!["-n"] };
        for name in &names {
            let Some(output) = tool(shell, shell, &[sh.clone(), vec![*name]].concat(), dir.path()) else { break };
            well(&output);
        }
    }
    // shellcheck takes 0.2 s per script, and the scripts of most hosts differ only by values.
    // So check only a few scripts that contain every construct.
    if let Some(output) = tool("shellcheck", "shellcheck", &of_few, dir.path()) {
        assert_eq!(well(&output), "");
    }
}

#[test]
fn cloud_init_takes_the_user_data_and_the_script_in_it_is_the_script() {
    let place = Place::new();
    let plans: Vec<PlanFile> = hosts().iter().map(|host| host.plan.clone()).chain([every_content()]).collect();
    assert_yaml_reads(&place, &plans);
    std::fs::write(place.path("user-data"), cloud_init(&every_content()).unwrap()).unwrap();
    if let Some(output) = tool("cloud-init", "cloud-init", &["schema", "--config-file", "user-data"], &place.path("")) {
        assert!(String::from_utf8_lossy(&output.stdout).contains("Valid"), "{output:?}");
        assert!(output.status.success());
    }
}

/// Reads the user data with Python's YAML, as cloud-init does.
/// One process reads the user data of all plans, because starting Python takes longer than reading.
fn assert_yaml_reads(place: &Place, plans: &[PlanFile]) {
    const READER: &str =
        "import json, sys, yaml\nfor path in sys.argv[1:]: print(json.dumps(yaml.safe_load(open(path))))";
    let has_yaml = tool("/usr/bin/python3", "python3-yaml", &["-c", "import yaml"], &place.path(""));
    if !has_yaml.is_some_and(|output| output.status.success()) {
        skipped("what YAML makes of user data; apt-get install python3-yaml");
        return;
    }
    let names: Vec<String> = (0..plans.len()).map(|number| format!("user-data-{number}")).collect();
    for (name, plan) in names.iter().zip(plans) {
        std::fs::write(place.path(name), cloud_init(plan).unwrap()).unwrap();
    }
    let arguments = [vec!["-c", READER], names.iter().map(String::as_str).collect()].concat();
    let text = well(&tool("/usr/bin/python3", "python3", &arguments, &place.path("")).unwrap());
    assert_eq!(text.lines().count(), plans.len());
    for (line, plan) in text.lines().zip(plans) {
        let data: serde_json::Value = serde_json::from_str(line).unwrap();
        let file = &data["write_files"][0];
        assert_eq!(file["content"].as_str(), Some(script(plan).unwrap().as_str()));
        assert_eq!((&file["permissions"], &file["owner"]), (&"0700".into(), &"root:root".into()));
        assert_eq!(data["runcmd"], serde_json::json!([["sh", file["path"]]]));
    }
}

#[test]
fn ansible_runs_the_role_as_sh_runs_the_script() {
    let capture = &hosts().iter().find(|host| host.name == "qemu-4-queues-6.1").unwrap().capture;
    let mut plan = planned(&Root::captured(capture.clone()), &every_setting(capture)[..20]);
    let persist = plan.persist.as_mut().unwrap();
    persist.persist.files.extend(every_content().persist.unwrap().persist.files.into_iter().skip(1).take(3));
    let (by_hand, by_ansible) = (Place::from_capture(capture), Place::from_capture(capture));
    well(&by_hand.run(&script(&plan).unwrap()));
    let before = by_ansible.tree();
    for file in role(&plan).unwrap() {
        let path = by_ansible.path("roles/evenkeel").join(file.path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, file.text).unwrap();
    }
    // The second play of each file runs the script a second time.
    let plays = |name: &str, tasks: &str| {
        let play = |title: &str| {
            format!(
                "- name: {title}\n  hosts: localhost\n  connection: local\n  gather_facts: false\n  tasks:\n    - ansible.builtin.include_role:\n        name: evenkeel\n        tasks_from: {tasks}\n      vars:\n        evenkeel_root: {}\n        evenkeel_folder: {}\n",
                by_ansible.at("").display(),
                by_ansible.path("undo").display(),
            )
        };
        std::fs::write(by_ansible.path(name), play("first") + &play("again")).unwrap();
    };
    plays("site.yml", "main");
    plays("undo.yml", "undo");
    let run = |arguments: &[&str]| {
        let arguments = [&["-i", "localhost,"], arguments].concat();
        let output = tool("ansible-playbook", "ansible-core", &arguments, &by_ansible.path(""))?;
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(output.status.success(), "{said}\n{}", String::from_utf8_lossy(&output.stderr));
        Some(said)
    };
    if run(&["--check", "site.yml"]).is_none() {
        return;
    }
    assert_eq!(by_ansible.tree(), before, "a check changes nothing");
    let changes_at_first_alone = |said: &str| {
        let (first, again) = said.split_once("PLAY [again]").unwrap();
        let (again, recap) = again.split_once("PLAY RECAP").unwrap();
        assert!(first.contains("\nchanged: [localhost]"), "{said}");
        assert!(again.contains("\nok: [localhost]") && !again.contains("\nchanged: ["), "{said}");
        assert!(recap.contains(" failed=0 "), "{said}");
    };
    changes_at_first_alone(&run(&["site.yml"]).unwrap());
    assert_eq!(by_ansible.tree(), by_hand.tree());
    changes_at_first_alone(&run(&["undo.yml"]).unwrap());
    well(&by_hand.sh(&by_hand.undo_script().unwrap()));
    assert_eq!(by_ansible.tree(), by_hand.tree());
}
