//! Label selectors, as the API server matches them. A client gets all nodes, and must match their labels itself.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;

/// Whether `selector` selects an object with these labels.
/// An empty selector selects everything; an operator that does not exist selects nothing.
pub fn matches(selector: &LabelSelector, labels: &BTreeMap<String, String>) -> bool {
    let equal = selector.match_labels.iter().flatten().all(|(key, value)| labels.get(key) == Some(value));
    equal
        && selector.match_expressions.iter().flatten().all(|wanted| {
            let found = labels.get(&wanted.key);
            let listed = || found.is_some_and(|found| wanted.values.iter().flatten().any(|value| value == found));
            match wanted.operator.as_str() {
                "In" => listed(),
                "NotIn" => !listed(),
                "Exists" => found.is_some(),
                "DoesNotExist" => found.is_none(),
                _ => false,
            }
        })
}

#[cfg(test)]
mod tests {
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelectorRequirement;

    use super::*;

    fn labels(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
        pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
    }

    fn expression(operator: &str, values: &[&str]) -> LabelSelector {
        let values = values.iter().map(|value| (*value).to_owned()).collect();
        let key = "pool".to_owned();
        let operator = operator.to_owned();
        let wanted = LabelSelectorRequirement { key, operator, values: Some(values) };
        LabelSelector { match_expressions: Some(vec![wanted]), match_labels: None }
    }

    #[test]
    fn selects_as_the_api_server_does() {
        let games = labels(&[("pool", "games"), ("zone", "a")]);
        let none = labels(&[]);
        let all = LabelSelector::default();
        assert!(matches(&all, &games) && matches(&all, &none));
        let equal = LabelSelector { match_labels: Some(labels(&[("pool", "games")])), match_expressions: None };
        assert!(matches(&equal, &games) && !matches(&equal, &none));
        assert!(matches(&expression("In", &["games", "voice"]), &games));
        assert!(!matches(&expression("In", &["voice"]), &games));
        // A node without the label is not in the list, so `NotIn` selects it.
        assert!(matches(&expression("NotIn", &["games"]), &none));
        assert!(!matches(&expression("NotIn", &["games"]), &games));
        assert!(matches(&expression("Exists", &[]), &games) && !matches(&expression("Exists", &[]), &none));
        assert!(matches(&expression("DoesNotExist", &[]), &none) && !matches(&expression("DoesNotExist", &[]), &games));
        assert!(!matches(&expression("Gt", &["1"]), &games));
    }
}
