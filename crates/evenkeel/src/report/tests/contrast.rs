//! Checks that the colours of the pages have the contrast that WCAG AA requires, in the light and in the dark theme.
//! The minimum is 4.5 for text and 3 for marks of charts.

use std::collections::BTreeMap;

const CSS: &str = concat!(include_str!("../report.css"), include_str!("../trial.css"));
const TEXT_MIN: f64 = 4.5;
const MARK_MIN: f64 = 3.0;
/// Selectors without a required contrast:
/// grid lines and table borders carry no information, and a band also has an outline.
const DECORATIVE: [&str; 3] = [".grid", ".low", "th, td"];

type Colours = BTreeMap<String, [f64; 3]>;

/// One CSS rule: its media query, its selector, and its declarations.
struct Rule {
    media: String,
    selector: String,
    declarations: BTreeMap<String, String>,
}

fn rules() -> Vec<Rule> {
    let mut rules = Vec::new();
    let (mut media, mut rest) = (String::new(), CSS);
    while let Some(at) = rest.find(['{', '}']) {
        let head = rest[..at].rsplit("*/").next().unwrap().trim().to_owned();
        let is_open = rest[at..].starts_with('{');
        rest = &rest[at + 1..];
        match (is_open, head.starts_with("@media")) {
            (false, _) => media.clear(),
            (true, true) => media = head,
            (true, false) => {
                let (body, after) = rest.split_once('}').unwrap();
                rest = after;
                let declarations = body.split(';').filter_map(|one| one.split_once(':'));
                let declarations = declarations.map(|(name, value)| (name.trim().to_owned(), value.trim().to_owned()));
                rules.push(Rule { media: media.clone(), selector: head, declarations: declarations.collect() });
            }
        }
    }
    rules
}

fn rgb(hex: &str) -> Option<[f64; 3]> {
    let digits = hex.strip_prefix('#')?;
    let digits: String = match digits.len() {
        3 => digits.chars().flat_map(|digit| [digit, digit]).collect(),
        _ => digits.to_owned(),
    };
    let part = |at: usize| u8::from_str_radix(digits.get(at..at + 2)?, 16).ok().map(|part| f64::from(part) / 255.0);
    Some([part(0)?, part(2)?, part(4)?])
}

/// The variables of a theme: the variables of every `:root`, overridden by the theme's media query.
fn colours(rules: &[Rule], media: &str) -> Colours {
    let mut colours = Colours::new();
    for wanted in ["", media] {
        for rule in rules.iter().filter(|rule| rule.selector == ":root" && is_of(rule, wanted)) {
            colours.extend(rule.declarations.iter().filter_map(|(name, value)| Some((name.clone(), rgb(value)?))));
        }
    }
    colours
}

fn is_of(rule: &Rule, media: &str) -> bool {
    if media.is_empty() { rule.media.is_empty() } else { rule.media.contains(media) }
}

fn luminance(colour: [f64; 3]) -> f64 {
    let linear = |part: f64| if part <= 0.04045 { part / 12.92 } else { ((part + 0.055) / 1.055).powf(2.4) };
    let [red, green, blue] = colour.map(linear);
    0.2126 * red + 0.7152 * green + 0.0722 * blue
}

fn contrast(one: [f64; 3], other: [f64; 3]) -> f64 {
    let [one, other] = [one, other].map(luminance);
    (one.max(other) + 0.05) / (one.min(other) + 0.05)
}

/// The colour of a declaration on a background, mixed according to its opacity.
/// `None` if the declaration names no variable.
fn painted(value: &str, opacity: f64, backdrop: [f64; 3], colours: &Colours) -> Option<[f64; 3]> {
    let name = value.strip_prefix("var(")?.strip_suffix(')')?;
    let colour = colours.get(name).unwrap_or_else(|| panic!("{name} has no colour"));
    Some([0, 1, 2].map(|at| colour[at] * opacity + backdrop[at] * (1.0 - opacity)))
}

/// All texts and marks with too low a contrast, and the number of checked texts and marks.
fn faults(rules: &[Rule], media: &str) -> (Vec<String>, usize) {
    let colours = colours(rules, media);
    let (mut faults, mut looked) = (Vec::new(), 0);
    let shown = |rule: &&Rule| is_of(rule, "") && !DECORATIVE.contains(&rule.selector.as_str());
    for rule in rules.iter().filter(shown) {
        let opacity = rule.declarations.get("opacity").map_or(1.0, |text| text.parse().unwrap());
        let is_outlined = rule.declarations.contains_key("stroke");
        for (property, value) in &rule.declarations {
            let least = match property.as_str() {
                "color" => TEXT_MIN,
                "fill" if rule.selector == "svg text" => TEXT_MIN,
                // If a mark has an outline, the outline shows its shape.
                "fill" if is_outlined && rule.declarations["stroke"] != "none" => continue,
                "fill" | "stroke" => MARK_MIN,
                _ => continue,
            };
            let backdrops: &[&str] = if property == "color" { &["--paper", "--soft"] } else { &["--paper"] };
            for backdrop in backdrops {
                let Some(colour) = painted(value, opacity, colours[*backdrop], &colours) else { continue };
                looked += 1;
                let ratio = contrast(colour, colours[*backdrop]);
                if ratio < least {
                    faults.push(format!("{} {property} {value} on {backdrop}: {ratio:.2}, not {least}", rule.selector));
                }
            }
        }
    }
    (faults, looked)
}

#[test]
fn text_and_marks_have_the_contrast_of_aa_in_light_and_dark_and_on_paper() {
    let rules = rules();
    for media in ["", "prefers-color-scheme: dark", "print"] {
        let (faults, looked) = faults(&rules, media);
        assert!(looked > 30, "{media}: {looked} colours");
        assert_eq!(faults, Vec::<String>::new(), "{media}");
    }
}

#[test]
fn the_ratio_is_that_of_wcag() {
    let [black, white, grey] = ["#000", "#ffffff", "#767676"].map(|hex| rgb(hex).unwrap());
    assert_eq!(contrast(black, white), 21.0);
    assert!((contrast(grey, white) - 4.54).abs() < 0.01);
    // Blue with an opacity of 18 % has too low a contrast.
    let colours = Colours::from([("--b".to_owned(), rgb("#1d4ed8").unwrap())]);
    assert!(contrast(painted("var(--b)", 0.18, white, &colours).unwrap(), white) < MARK_MIN);
}
