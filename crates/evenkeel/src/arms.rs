//! The arms of a session as the user requests them:
//! `KNOB=VALUE …` for one arm, `--arm 'KNOB=VALUE …'` for each of several arms.

use std::collections::BTreeSet;

use evenkeel_host::{Action, Facts, Plan, Setting};
use evenkeel_hostfs::Root;
use evenkeel_trial::session_log::Head;
use evenkeel_trial::{ARMS_MAX, Arm, ArmName, Away, Level};

use crate::exit;
use crate::failure::Failure;
use crate::selection;
use crate::workload_settings;

/// The arms of a trial, which compares them with the unchanged machine.
#[derive(Clone, Debug)]
pub(crate) struct Arms {
    /// The setting of each knob at each place, once. Its value is the value in the first arm that names the knob.
    pub(crate) settings: Vec<Setting>,
    /// The settings of each arm, B first.
    pub(crate) asked: Vec<Vec<Setting>>,
}

impl Arms {
    /// The ids of the knobs in all arms.
    pub(crate) fn knobs(&self) -> Vec<&'static str> {
        self.settings.iter().map(|setting| setting.knob.id).collect()
    }

    /// Arms with a single arm, which has these settings.
    pub(crate) fn one(settings: Vec<Setting>) -> Arms {
        Arms { asked: vec![settings.clone()], settings }
    }

    /// Arms with one arm without settings, to compare the machine with itself.
    pub(crate) fn nothing() -> Arms {
        Arms::one(Vec::new())
    }

    /// Parses the arms of a command line. All settings outside --arm form one arm, and each --arm is another arm.
    pub(crate) fn parse(settings: &[String], arms: &[String]) -> Result<Arms, Failure> {
        let apart = (!settings.is_empty()).then(|| settings.to_vec());
        let asked: Vec<Vec<String>> = apart.into_iter().chain(arms.iter().map(|text| words(text))).collect();
        let asked = asked.iter().map(|texts| parse(texts)).collect::<Result<Vec<_>, _>>()?;
        Arms::from_settings(asked).map_err(|cause| Failure::text(exit::WRONG_USE, "read the arms", cause))
    }

    /// The arms of a stored session.
    pub(crate) fn of_head(head: &Head) -> Result<Arms, Failure> {
        let texts = match head.settings_by_arm.is_empty() {
            true if head.settings.is_empty() => return Ok(Arms::nothing()),
            true => std::slice::from_ref(&head.settings),
            false => &head.settings_by_arm[..],
        };
        let asked = texts.iter().map(|texts| parse(texts)).collect::<Result<Vec<_>, _>>()?;
        Arms::from_settings(asked)
            .map_err(|cause| Failure::text(exit::WRONG_USE, "read the arms of the session", cause))
    }

    /// The arms of these settings.
    pub(crate) fn from_settings(mut asked: Vec<Vec<Setting>>) -> Result<Arms, String> {
        if asked.iter().all(Vec::is_empty) {
            return Err("no setting is named, so there is nothing to compare with the machine as it is".to_owned());
        }
        if asked.len() == 1 {
            return Ok(Arms::one(asked.swap_remove(0)));
        }
        if asked.len() >= ARMS_MAX {
            return Err(format!(
                "{} arms besides A, but at most {} are allowed: the windows of a block should be neighbours in time",
                asked.len(),
                ARMS_MAX - 1
            ));
        }
        let mut settings: Vec<Setting> = Vec::new();
        let mut seen = BTreeSet::new();
        for (arm, own) in asked.iter().enumerate() {
            let name = ArmName::ALL[arm + 1];
            if own.is_empty() {
                return Err(format!("arm {name} has no setting"));
            }
            let mut sorted: Vec<String> = own.iter().map(ToString::to_string).collect();
            sorted.sort_unstable();
            if !seen.insert(sorted) {
                return Err(format!("arm {name} ({}) already exists", text_of(own)));
            }
            for (at, setting) in own.iter().enumerate() {
                if own[..at].iter().any(|other| is_slot_of(other, setting)) {
                    return Err(format!("arm {name} sets {} twice", setting.knob.id));
                }
                let is_known = settings.iter().any(|other| is_slot_of(other, setting));
                let meets = |other: &&Setting| {
                    other.knob.id == setting.knob.id && (other.place.is_none() != setting.place.is_none())
                };
                if let Some(other) = settings.iter().find(meets) {
                    return Err(format!(
                        "{other} and {setting} are one knob at all its places and at one: name the places in each"
                    ));
                }
                if !is_known {
                    settings.push(setting.clone());
                }
            }
        }
        Ok(Arms { settings, asked })
    }

    /// The number of arms, including the unchanged machine.
    pub(crate) fn count(&self) -> usize {
        self.asked.len() + 1
    }

    /// The values that each arm sets, with the unchanged machine first. In a control, no arm changes anything.
    pub(crate) fn levels(&self, control: bool) -> Vec<Arm> {
        let slots = self.settings.len();
        let [as_it_was, planned] = [Arm::as_it_was(slots), Arm::planned(slots)];
        let level = |own: &[Setting], slot: &Setting| match own.iter().find(|setting| is_slot_of(setting, slot)) {
            None => Level::AsItWas,
            Some(setting) if setting.value == slot.value => Level::Planned,
            Some(setting) => Level::Value(setting.value.clone()),
        };
        let does = |own: &Vec<Setting>| match (control, self.asked.len()) {
            (true, _) => as_it_was.clone(),
            (false, 1) => planned.clone(),
            (false, _) => Arm(self.settings.iter().map(|slot| level(own, slot)).collect()),
        };
        [as_it_was.clone()].into_iter().chain(self.asked.iter().map(does)).collect()
    }

    /// The settings of each arm except A, as texts.
    /// Empty for a single arm, because the session itself then has its settings.
    pub(crate) fn texts(&self) -> Vec<Vec<String>> {
        let texts = |own: &Vec<Setting>| own.iter().map(ToString::to_string).collect();
        if self.asked.len() < 2 { Vec::new() } else { self.asked.iter().map(texts).collect() }
    }

    /// How far each arm is from the current machine, A first. Empty for a single arm.
    pub(crate) fn away(&self, root: &Root, facts: &Facts) -> Vec<Away> {
        if self.asked.len() < 2 {
            return Vec::new();
        }
        let away = |own: &Vec<Setting>| {
            let now: Vec<Option<String>> = own.iter().map(|setting| as_it_is(root, facts, setting)).collect();
            let both = || own.iter().zip(&now).map(|(setting, now)| (setting.value.as_str(), now.as_deref()));
            let step = |(value, now): (&str, Option<&str>)| {
                let number =
                    |text: &str| text.parse::<f64>().ok().filter(|number| number.is_finite() && *number >= 0.0);
                // Add 1 to both numbers, so that their ratio is finite even if one is 0.
                Some(((number(value)? + 1.0) / (number(now?)? + 1.0)).ln().abs())
            };
            Away {
                knobs: own.iter().map(|setting| setting.knob.id.to_owned()).collect(),
                settings: both().filter(|(value, now)| *now != Some(*value)).count(),
                way: both().map(step).sum(),
            }
        };
        [Away::default()].into_iter().chain(self.asked.iter().map(away)).collect()
    }
}

/// The settings as arguments of a command line.
pub(crate) fn text_of(settings: &[Setting]) -> String {
    settings.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ")
}

fn is_slot_of(one: &Setting, other: &Setting) -> bool {
    one.knob.id == other.knob.id && one.place == other.place
}

/// The current value; the default of the knob if no file shows it.
fn as_it_is(root: &Root, facts: &Facts, setting: &Setting) -> Option<String> {
    let plan = Plan::from_settings(facts, std::slice::from_ref(setting)).ok()?;
    let Action::Write { path, reading, .. } = &plan.steps.first()?.action else {
        return setting.knob.default.split([' ', ',']).next().map(str::to_owned);
    };
    reading.value(&root.text(path).ok()?)
}

/// Splits the text of an arm into settings. Each setting begins with a word that contains a `=`.
/// A word without `=` continues the value before it.
fn words(text: &str) -> Vec<String> {
    let mut settings: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        match settings.last_mut().filter(|_| !word.contains('=')) {
            Some(setting) => *setting += &format!(" {word}"),
            None => settings.push(word.to_owned()),
        }
    }
    settings
}

/// The settings of one arm.
pub(crate) fn parse(texts: &[String]) -> Result<Vec<Setting>, Failure> {
    let parsed = texts.iter().map(|text| workload_settings::parse(text)).collect::<Result<Vec<_>, _>>();
    let parsed = parsed.map_err(|error| selection::wrong_setting("read the settings", error))?;
    selection::refuse_clash(&parsed, "read the settings")?;
    Ok(parsed)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arms(settings: &[&str], arms: &[&str]) -> Result<Arms, String> {
        let owned = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>();
        Arms::parse(&owned(settings), &owned(arms)).map_err(|failure| failure.message())
    }

    #[test]
    fn settings_and_arms_are_arms() {
        let one = arms(&["vm.swappiness=10", "thp.enabled=never"], &[]).unwrap();
        let same = arms(&[], &["vm.swappiness=10  thp.enabled=never"]).unwrap();
        for arms in [one, same] {
            assert_eq!((arms.count(), arms.texts().len(), arms.settings.len()), (2, 0, 2), "one arm is as before");
            assert_eq!(arms.levels(false), [Arm::as_it_was(2), Arm::planned(2)]);
        }
        let three = arms(&["vm.swappiness=10"], &["vm.swappiness=1", "thp.enabled=never vm.swappiness=10"]).unwrap();
        assert_eq!(
            three.texts(),
            [vec!["vm.swappiness=10"], vec!["vm.swappiness=1"], vec!["thp.enabled=never", "vm.swappiness=10"]]
        );
        let [was, planned] = [Level::AsItWas, Level::Planned];
        let expected = [
            Arm(vec![was.clone(), was.clone()]),
            Arm(vec![planned.clone(), was.clone()]),
            Arm(vec![Level::Value("1".into()), was]),
            Arm(vec![planned.clone(), planned]),
        ];
        assert_eq!(three.levels(false), expected);
        assert!(three.levels(true).iter().all(Arm::is_as_it_was), "a control does nothing in any arm");
    }

    #[test]
    fn values_of_several_words_stay_whole() {
        assert_eq!(words(" a=1 2 3  b=4 "), ["a=1 2 3", "b=4"]);
        assert_eq!(words("stray a=1"), ["stray", "a=1"]);
        assert!(words("  ").is_empty());
    }

    #[test]
    fn equal_arms_are_refused() {
        let many: Vec<String> = (1..=8).map(|value| format!("vm.swappiness={value}")).collect();
        let many: Vec<&str> = many.iter().map(String::as_str).collect();
        for (given, expected) in [
            (&many[..], "8 arms besides A, but at most 7 are allowed"),
            (&["vm.swappiness=1", ""], "arm C has no setting"),
            (&[""], "no setting is named"),
            (&["vm.swappiness=1", "vm.swappiness=1"], "arm C (vm.swappiness=1) already exists"),
            (
                &["vm.swappiness=1", "vm.swappiness=1 vm.swappiness=2"],
                "vm.swappiness=1 and vm.swappiness=2 are two values for one knob",
            ),
            (&["net.rps_cpus=0", "net.rps_cpus@eth0/rx-0=1"], "are one knob at all its places and at one"),
            (&["vm.swappiness=1", "vm.colour=1"], "unknown knob"),
            (&["vm.swappiness=1", "stray"], "="),
        ] {
            let error = arms(&[], given).unwrap_err();
            assert!(error.contains(expected), "{given:?}: {error}");
        }
    }
}
