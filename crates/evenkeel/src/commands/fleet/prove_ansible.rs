//! Switches hosts of an Ansible inventory between the arms of a trial, with a playbook.
//! On each host, a separate journal for trials contains the goal, so reverting the goal undoes nothing else.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs::File;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use evenkeel_hostfs::user_file;
use evenkeel_sys::foreign_process::{Signal, signal_group};
use serde_json::json;

use super::prove_args::Args;
use super::prove_log::Identity;
use crate::exit;
use crate::failure::Failure;
use crate::output_file;
use crate::selection::read_plan;
use crate::shell;

/// The maximum size of a list of hosts, in bytes.
const LIST_BYTES_MAX: u64 = 4 << 20;
/// The time limit for Ansible to list the hosts. Ansible may have to ask a cloud.
const LIST_PATIENCE: Duration = Duration::from_secs(120);
/// The time limit for Ansible to end after SIGTERM.
const END_PATIENCE: Duration = Duration::from_secs(10);

/// The hosts of a trial by arm.
pub(super) struct Arms {
    pub(super) with: BTreeSet<String>,
    pub(super) without: BTreeSet<String>,
}

/// A playbook that switches hosts.
pub(super) struct Playbook {
    inventory: PathBuf,
    pattern: String,
    name: String,
    /// An absolute path, because Ansible searches for relative paths near the playbook.
    goal: PathBuf,
    generation: i64,
    /// What Ansible printed last.
    output: PathBuf,
}

impl Playbook {
    /// Uses the playbook that the arguments name. Its goal must be a file that this program can read.
    pub(super) fn new(args: &Args, inventory: &Path) -> Result<Playbook, Failure> {
        let path = Path::new(&args.goal);
        let tried = || format!("read the goal {}", path.display());
        let plan = read_plan(path)?.text().map_err(|error| Failure::text(exit::WRONG_USE, tried(), error))?;
        let goal = std::path::absolute(path).map_err(|error| Failure::io(exit::WRONG_USE, tried(), &error))?;
        // A different goal or different hosts mean a different trial.
        let content = format!("{}\n{}\n{plan}", args.hosts, args.playbook);
        Ok(Playbook {
            inventory: inventory.to_owned(),
            pattern: args.hosts.clone(),
            name: args.playbook.clone(),
            goal,
            generation: i64::from(crc32fast::hash(content.as_bytes())),
            output: args.log_path().with_extension("ansible.log"),
        })
    }

    /// Returns the goal and the hosts. A continued trial names the goal that it compared before.
    pub(super) async fn take(&self, known: Option<&Identity>) -> Result<(Identity, Vec<String>), Failure> {
        let identity = Identity { generation: self.generation, uid: String::new() };
        if known.is_some_and(|known| *known != identity) {
            let why = "the goal, the pattern of its hosts or the playbook was changed since the trial began";
            return Err(Failure::text(exit::WRONG_USE, "go on with the trial", why));
        }
        Ok((identity, self.hosts().await?))
    }

    /// The hosts of the pattern.
    async fn hosts(&self) -> Result<Vec<String>, Failure> {
        let arguments =
            [self.pattern.clone().into(), "-i".into(), self.inventory.clone().into(), "--list-hosts".into()];
        let tried = "list the hosts of the inventory";
        let failed = |error| Failure::io(exit::NOT_POSSIBLE, tried, &error);
        let list = tempfile::NamedTempFile::new().map_err(failed)?;
        self.run("ansible", &arguments, Some(list.reopen().map_err(failed)?), LIST_PATIENCE).await?;
        let list =
            user_file::read_text(list.path(), LIST_BYTES_MAX).map_err(|error| Failure::user_file(tried, &error))?;
        let hosts = listed(&list).map_err(|why| Failure::text(exit::WRONG_USE, tried, why))?;
        if hosts.is_empty() {
            let why = format!("no host of {} matches {:?}", self.inventory.display(), self.pattern);
            return Err(Failure::text(exit::WRONG_USE, tried, why).hint("--hosts takes a pattern of Ansible"));
        }
        Ok(hosts)
    }

    /// Runs the playbook on all hosts of the arms.
    pub(super) async fn switch(&self, arms: &Arms, patience: Duration) -> Result<(), Failure> {
        let tried = "pass the arms to Ansible";
        let failed = |error| Failure::io(exit::NOT_POSSIBLE, tried, &error);
        let folder = tempfile::tempdir().map_err(failed)?;
        let (hosts, variables) = (folder.path().join("hosts"), folder.path().join("variables.json"));
        let all: Vec<&str> = arms.with.union(&arms.without).map(String::as_str).collect();
        std::fs::write(&hosts, all.join("\n") + "\n").map_err(failed)?;
        let values = json!({ "evenkeel_hosts": self.pattern, "evenkeel_goal": self.goal, "evenkeel_with": arms.with });
        std::fs::write(&variables, values.to_string()).map_err(failed)?;
        let file = |path: &Path| {
            let mut word = OsString::from("@");
            word.push(path);
            word
        };
        let arguments = [
            "-i".into(),
            self.inventory.clone().into(),
            "--limit".into(),
            file(&hosts),
            "-e".into(),
            file(&variables),
            self.name.clone().into(),
        ];
        self.run("ansible-playbook", &arguments, None, patience).await
    }

    /// Reverts the goal on all hosts.
    pub(super) async fn put_back(&self, arms: &Arms, patience: Duration) -> Result<(), Failure> {
        self.switch(arms, patience).await.map_err(|failure| {
            let inventory = self.inventory.display().to_string();
            let hosts = json!({ "evenkeel_hosts": self.pattern, "evenkeel_with": [] }).to_string();
            let words = [&inventory, &hosts, &self.name].map(|word| shell::word(word));
            let [inventory, hosts, name] = words;
            let again = format!("ansible-playbook -i {inventory} -e {hosts} {name}");
            Failure { exit: exit::NOT_UNDONE, ..failure }.hint(format!("put the goal back on all hosts: {again}"))
        })
    }

    /// Runs a program of Ansible. Its standard output goes to the file; without a file, it joins the other output.
    /// The program is not in our process group, because Ctrl-C must not end it while it switches hosts.
    async fn run(
        &self,
        program: &str,
        arguments: &[OsString],
        answer: Option<File>,
        patience: Duration,
    ) -> Result<(), Failure> {
        let tried = || format!("run {program}");
        let output = File::create(&self.output).map_err(|error| output_file::failure(&self.output, &error))?;
        let errors = output.try_clone().map_err(|error| output_file::failure(&self.output, &error))?;
        let answer = answer.unwrap_or(output);
        let mut command = std::process::Command::new(program);
        command.args(arguments).stdin(Stdio::null()).stdout(answer).stderr(errors).process_group(0);
        // Colours would be in the file.
        command.env("ANSIBLE_NOCOLOR", "1").env_remove("ANSIBLE_FORCE_COLOR");
        let spawned = tokio::process::Command::from(command).spawn();
        let mut child = spawned.map_err(|error| {
            Failure::io(exit::NOT_POSSIBLE, tried(), &error)
                .hint("install ansible-core 2.14 or later, and the collection evenkeel.host: docs/ansible.md")
        })?;
        let group = child.id();
        let status = match tokio::time::timeout(patience, child.wait()).await {
            Ok(status) => status.map_err(|error| Failure::io(exit::NOT_POSSIBLE, tried(), &error))?,
            Err(_) => {
                for signal in [Signal::TERM, Signal::KILL] {
                    let _ = group.map(|group| signal_group(group, signal));
                    if tokio::time::timeout(END_PATIENCE, child.wait()).await.is_ok() {
                        break;
                    }
                }
                let why = format!("it took longer than --patience, which is {} s", patience.as_secs());
                return Err(Failure::text(exit::NOT_POSSIBLE, tried(), why).hint(self.where_to_look()));
            }
        };
        match status.success() {
            true => Ok(()),
            false => Err(Failure::text(exit::NOT_POSSIBLE, tried(), status).hint(self.where_to_look())),
        }
    }

    fn where_to_look(&self) -> String {
        format!("{} has what it printed", self.output.display())
    }
}

/// Parses the answer of `ansible --list-hosts`: one line with the number of hosts, and one line per host.
fn listed(text: &str) -> Result<Vec<String>, String> {
    let hosts: BTreeSet<&str> = text.lines().skip(1).map(str::trim).filter(|line| !line.is_empty()).collect();
    let is_plain = |name: &&&str| name.chars().all(|one| one.is_ascii_alphanumeric() || "._-".contains(one));
    match hosts.iter().find(|name| !is_plain(name)) {
        // In a host list, Ansible would read other characters as a pattern.
        Some(odd) => Err(format!("the name {odd:?} has other characters than letters, digits, `.`, `_` and `-`")),
        None => Ok(hosts.into_iter().map(str::to_owned).collect()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_of_hosts_is_read() {
        let text = "  hosts (3):\n    vm-1\n    vm-2.example.org\n    vm_3\n";
        assert_eq!(listed(text).unwrap(), ["vm-1", "vm-2.example.org", "vm_3"]);
        assert!(listed("  hosts (0):\n").unwrap().is_empty());
        assert!(listed("").unwrap().is_empty());
        assert!(listed("  hosts (1):\n    a,b\n").unwrap_err().contains("\"a,b\""));
    }
}
