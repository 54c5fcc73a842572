//! Runs other tools together with evenkeel on three hosts that consist of namespaces:
//! Ansible over sshd, Prometheus with Alertmanager, and Kubernetes.
//! The scripts in `lab/` contain the steps. They need root and programs of Debian.
//! Without these, the tests print that they are skipped.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use evenkeel_testkit::skipped;

/// The exit code of a script that can't run on this machine.
const SKIPPED: i32 = 4;

fn top() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn run(script: &str) {
    let folder = tempfile::tempdir().unwrap();
    let output = Command::new("timeout")
        .args(["--kill-after=10", "900"])
        .arg(top().join("lab").join(script))
        .arg(env!("CARGO_BIN_EXE_evenkeel"))
        .env("TMPDIR", folder.path())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    let left: Vec<_> = fs::read_dir(folder.path()).unwrap().flatten().map(|entry| entry.path()).collect();
    assert!(left.is_empty(), "{left:?}");
    assert_eq!(processes_that_name(folder.path()), Vec::<String>::new());
    if output.status.code() == Some(SKIPPED) {
        return skipped(said.lines().last().unwrap_or("the script did not say why"));
    }
    assert!(output.status.success(), "{}\n{said}", String::from_utf8_lossy(&output.stdout));
}

/// The command lines of the processes that name the folder.
/// Every process of the hosts names the folder, or is a child of such a process.
fn processes_that_name(folder: &Path) -> Vec<String> {
    let folder = folder.to_str().unwrap();
    let lines =
        fs::read_dir("/proc").unwrap().flatten().filter_map(|entry| fs::read(entry.path().join("cmdline")).ok());
    let lines = lines.map(|line| String::from_utf8_lossy(&line).replace('\0', " "));
    lines.filter(|line| line.contains(folder)).collect()
}

/// Check mode shows what `apply` would change. A second run changes nothing. A failure affects only its own host.
/// `revert` restores everything.
#[test]
fn ansible_tunes_three_hosts() {
    run("ansible.sh");
}

/// Tests goals on a real control plane. Goals are applied, drift, are healed and are deleted. A rollout halts.
/// The test kills agents and controllers.
#[test]
#[ignore = "takes five minutes and a control plane: make lab-kube"]
fn a_cluster_keeps_its_hosts() {
    run("kube.sh");
}

/// An alert fires for a host that drifts. When the drift is healed, the alert is resolved.
#[test]
fn alertmanager_hears_of_drift() {
    run("fleet-alerts.sh");
}

/// The Ansible collection has the version of the program, and knows its exit codes.
#[test]
fn the_collection_fits_the_program() {
    let collection = top().join("deploy/ansible/evenkeel/host");
    let read = |name: &str| fs::read_to_string(collection.join(name)).unwrap();
    let version = format!("\nversion: {}\n", env!("CARGO_PKG_VERSION"));
    assert!(read("galaxy.yml").contains(&version), "galaxy.yml has another version than {version:?}");
    let help = Command::new(env!("CARGO_BIN_EXE_evenkeel")).arg("--help").output().unwrap();
    let help = String::from_utf8(help.stdout).unwrap();
    let codes = help.split("Exit codes:\n").nth(1).unwrap();
    let codes = codes.lines().filter(|line| line.trim_start().starts_with(|c: char| c.is_ascii_digit())).count();
    let known = read("plugins/module_utils/program.py");
    assert!(known.contains(&format!("= range({codes})")), "the program has {codes} exit codes");
    for module in "facts audit apply verify revert".split(' ') {
        let text = read(&format!("plugins/modules/{module}.py"));
        for part in ["DOCUMENTATION = ", "EXAMPLES = ", "RETURN = "] {
            assert!(text.contains(part), "{module} has no {part}");
        }
        assert!(read("README.md").contains(&format!("`evenkeel.host.{module}`")), "README.md lacks {module}");
    }
}

/// systemd itself checks the units of the role, because the hosts made of namespaces have no systemd.
#[test]
fn the_units_of_the_role_are_valid() {
    let templates = top().join("deploy/ansible/evenkeel/host/roles/tune/templates");
    let folder = tempfile::tempdir().unwrap();
    for unit in ["evenkeel-check.service", "evenkeel-check.timer"] {
        let text = fs::read_to_string(templates.join(format!("{unit}.j2"))).unwrap();
        let text = text.replace("{{ evenkeel_program }}", env!("CARGO_BIN_EXE_evenkeel"));
        // Cut off the template's options, because they name the folder of the journal.
        let lines = text.lines().map(|line| line.split("{{ (").next().unwrap_or(line));
        fs::write(folder.path().join(unit), lines.map(|line| format!("{line}\n")).collect::<String>()).unwrap();
    }
    let verified = Command::new("systemd-analyze")
        .args(["verify", "./evenkeel-check.service", "./evenkeel-check.timer"])
        .current_dir(folder.path())
        .output();
    let Ok(output) = verified else { return skipped("systemd-analyze is not installed (Debian: systemd)") };
    let said = String::from_utf8_lossy(&output.stderr);
    // systemd also reports on other units of the machine, so look only for evenkeel's units.
    assert!(!said.contains("evenkeel-check"), "{said}");
}
