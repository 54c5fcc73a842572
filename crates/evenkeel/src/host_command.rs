//! A command that an option names: a program of a host, and its arguments. No shell parses this command.

use std::path::PathBuf;

/// A program of a host, and its arguments.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct HostCommand {
    /// The absolute path of the program.
    pub(crate) program: PathBuf,
    /// The arguments of the program.
    pub(crate) arguments: Vec<String>,
}

impl std::str::FromStr for HostCommand {
    type Err = String;

    fn from_str(text: &str) -> Result<HostCommand, String> {
        let mut words = text.split_whitespace().map(str::to_owned);
        let program = words.next().map(PathBuf::from).filter(|program| program.is_absolute());
        let program = program
            .ok_or_else(|| "expected the absolute path of a program of the host, and its arguments".to_owned())?;
        Ok(HostCommand { program, arguments: words.collect() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_is_an_absolute_path_and_words() {
        let command: HostCommand = " /usr/bin/systemctl  reboot;x ".parse().unwrap();
        assert_eq!(command.program, PathBuf::from("/usr/bin/systemctl"));
        assert_eq!(command.arguments, ["reboot;x"], "a shell's words are words");
        for text in ["", "  ", "systemctl reboot", "./reboot"] {
            assert!(text.parse::<HostCommand>().is_err(), "{text:?}");
        }
    }
}
