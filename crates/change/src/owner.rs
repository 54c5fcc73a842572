//! `Owner`: the trial or the cluster's goal that a transaction belongs to.
//! By the owner, the program of the trial or goal finds the transaction again. Titles are only for people.

use serde::{Deserialize, Serialize};

/// The trial or goal that a transaction belongs to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "of", rename_all = "kebab-case")]
pub enum Owner {
    /// A trial over boots.
    Boots {
        /// The trial's id: eight hexadecimal digits.
        trial: String,
        /// What the transaction changes.
        part: BootsPart,
    },
    /// A goal of a cluster, which the agent of this node applied.
    Goal {
        /// Its name.
        name: String,
        /// The uid of the goal, because a later goal may have the same name.
        uid: String,
        /// Its generation.
        generation: i64,
    },
}

/// The part of a trial over boots that a transaction changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum BootsPart {
    /// The unit that continues the trial after each boot.
    Unit,
    /// The settings of arm B.
    Settings,
}

impl Owner {
    /// The owner of a transaction whose record has no owner field.
    /// Evenkeel 0.1 did not have this field, and put the trial's id into the title.
    pub(crate) fn from_title(title: &str) -> Option<Owner> {
        let (id, rest) = title.strip_prefix("prove over boots [")?.split_once("]: ")?;
        let is_id = id.len() == 8 && id.bytes().all(|byte| byte.is_ascii_hexdigit());
        let part = if rest == "goes on after a boot" { BootsPart::Unit } else { BootsPart::Settings };
        is_id.then(|| Owner::Boots { trial: id.to_owned(), part })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn transactions_of_older_programs_have_their_owner_in_the_title() {
        let boots = |part| Some(Owner::Boots { trial: "0123abcd".to_owned(), part });
        assert_eq!(Owner::from_title("prove over boots [0123abcd]: goes on after a boot"), boots(BootsPart::Unit));
        assert_eq!(Owner::from_title("prove over boots [0123abcd]: cmdline.x=1"), boots(BootsPart::Settings));
        for title in [
            "",
            "x",
            "prove over boots",
            "prove over boots []: x",
            "prove over boots [0123abc]: x",
            "prove over boots [0123abcg]: x",
        ] {
            assert_eq!(Owner::from_title(title), None, "{title}");
        }
    }

    #[test]
    fn an_owner_is_read_as_it_is_written() {
        let owner = Owner::Boots { trial: "0123abcd".to_owned(), part: BootsPart::Unit };
        let text = r#"{"of":"boots","trial":"0123abcd","part":"unit"}"#;
        assert_eq!(serde_json::to_string(&owner).unwrap(), text);
        assert_eq!(serde_json::from_str::<Owner>(text).unwrap(), owner);
    }
}
