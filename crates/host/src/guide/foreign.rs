//! Recognises files of other systems and programs that have settings which evenkeel does not read, so that it can say so.

use super::line::{GuideError, GuideFormat};

/// The maximum number of lines to look at.
const LINES_MAX: usize = 2000;
/// How lines of files of the Windows registry begin.
const REGISTRY: [&str; 3] = ["Windows Registry Editor", "REGEDIT4", "[HKEY_"];
/// How lines of Puppet begin that set a sysctl.
const PUPPET: [&str; 2] = ["sysctl {", "sysctl::value {"];
/// How lines of scripts for Windows begin, in lower case.
const WINDOWS: [&str; 9] = [
    "bcdedit ",
    "disable-netadapter",
    "netsh ",
    "new-itemproperty ",
    "powercfg ",
    "reg add ",
    "set-itemproperty ",
    "set-netadapter",
    "set-nettcpsetting ",
];
/// How lines of scripts for Windows begin that are no commands, in lower case.
const NO_COMMANDS: [&str; 6] = ["#", "::", "@echo", "echo ", "pause", "rem "];

/// Why evenkeel does not read a text, if it belongs to another system or program. A page may have parts of one, and other text.
pub(super) fn check(text: &str, format: GuideFormat) -> Result<(), GuideError> {
    let may_be =
        matches!(format, GuideFormat::Sysctl | GuideFormat::Shell | GuideFormat::Markdown | GuideFormat::Ansible);
    let lines = || text.lines().take(LINES_MAX).map(str::trim).filter(|line| !line.is_empty());
    if !may_be || lines().any(|line| line.starts_with("```")) {
        return Ok(());
    }
    let is_registry = |line: &str| REGISTRY.iter().any(|begin| line.starts_with(begin));
    let begins = |line: &str, begin: &str| line.get(..begin.len()).is_some_and(|own| own.eq_ignore_ascii_case(begin));
    let commands = || lines().filter(|line| !NO_COMMANDS.iter().any(|begin| begins(line, begin)));
    let of_windows = commands().filter(|line| WINDOWS.iter().any(|begin| begins(line, begin))).count();
    if lines().any(is_registry) || of_windows > 0 && of_windows * 2 >= commands().count() {
        return Err(GuideError::Windows);
    }
    let is_puppet = |line: &str| PUPPET.iter().any(|begin| line.starts_with(begin)) && line.contains(['\'', '"']);
    let is_chef = |line: &str| {
        let mut words = line.split_whitespace();
        let is_resource = words.next().is_some_and(|first| ["sysctl", "sysctl_param"].contains(&first));
        is_resource && words.next_back() == Some("do") || line.starts_with("node.default['sysctl']")
    };
    let is_salt = |line: &str| line.trim_start_matches("- ").trim_end_matches(':') == "sysctl.present";
    let what = lines().find_map(|line| match line {
        line if is_puppet(line) => Some("a manifest of Puppet"),
        line if is_chef(line) => Some("a recipe of Chef"),
        line if is_salt(line) => Some("a state of Salt"),
        _ => None,
    });
    what.map_or(Ok(()), |what| Err(GuideError::OtherProgram(what)))
}

#[cfg(test)]
mod tests {
    use super::super::Guide;
    use super::*;

    #[test]
    fn files_of_others_are_named() {
        for (text, expected) in [
            (
                "Windows Registry Editor Version 5.00\n\n[HKEY_LOCAL_MACHINE\\X]\n\"a\"=dword:1\n",
                Some(GuideError::Windows),
            ),
            (
                "@echo off\nnetsh int tcp set global chimney=disabled\nREG ADD \"HKLM\\X\" /v Y /d 1\n",
                Some(GuideError::Windows),
            ),
            (
                "class tuning {\n  sysctl { 'vm.swappiness':\n    value => '1',\n  }\n}\n",
                Some(GuideError::OtherProgram("a manifest of Puppet")),
            ),
            (
                "sysctl 'net.core.rmem_max' do\n  value 16777216\nend\n",
                Some(GuideError::OtherProgram("a recipe of Chef")),
            ),
            ("vm.swappiness:\n  sysctl.present:\n    - value: 1\n", Some(GuideError::OtherProgram("a state of Salt"))),
            ("# Page\n```\nnetsh int tcp set global chimney=disabled\n```\n", None),
            ("vm.swappiness=1\nnetsh int tcp set global x=y\nvm.dirty_ratio=1\n", None),
            ("", None),
        ] {
            assert_eq!(Guide::parse("x", text, None, &|_| None).err(), expected, "{text}");
            assert!(Guide::parse("x", text, Some(GuideFormat::Sysctl), &|_| None).is_ok(), "{text}");
        }
    }
}
