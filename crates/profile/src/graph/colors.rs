//! The colours of flame graphs.
//! All bars have a medium luminance, so one palette has enough contrast on a white and on a dark background.
//! Black text on a bar has a contrast of at least 4.5:1. A bar has a contrast of at least 3:1 to the background.

use crate::tree::Kind;

/// The relative luminance of bars. Black text needs at least 0.175 for a contrast of 4.5:1. A white background needs at most 0.3 for 3:1.
const LUMINANCE: (f64, f64) = (0.19, 0.285);
/// The hues of functions of one kind differ from the kind's hue by at most this many degrees.
const HUE_SPREAD: f64 = 12.0;
/// The number of steps of hue, and of luminance, between functions of one kind.
const SHADES: u32 = 25;

/// A colour as sRGB.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Rgb(pub(super) u8, pub(super) u8, pub(super) u8);

impl Rgb {
    /// The colour in the syntax of CSS.
    pub(super) fn css(self) -> String {
        format!("#{:02x}{:02x}{:02x}", self.0, self.1, self.2)
    }

    /// Mixes this colour, with the share `share`, and the other colour, as a browser does.
    fn mix(self, share: f64, other: Rgb) -> Rgb {
        let one = |of: u8, with: u8| (f64::from(of) * share + f64::from(with) * (1.0 - share)).round() as u8;
        Rgb(one(self.0, other.0), one(self.1, other.1), one(self.2, other.2))
    }
}

/// The colour of a function. The function's kind gives the hue, and its name gives the shade. The colour is the same in every graph.
pub(super) fn of_function(kind: Kind, name: &str) -> Rgb {
    // FNV-1a has the same result on every machine and in every version.
    let hash = name.bytes().fold(0x811c_9dc5_u32, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193));
    let step = |bits: u32| f64::from(bits % SHADES) / f64::from(SHADES - 1);
    let (hue, spread, saturation) = match kind {
        Kind::User => (125.0, 1.0, 0.45),
        Kind::Inlined => (52.0, 0.5, 0.85),
        Kind::Kernel => (22.0, 0.6, 0.80),
        Kind::Jit => (210.0, 1.0, 0.60),
        Kind::Unnamed => (0.0, 0.0, 0.0),
    };
    let hue = hue + (step(hash >> 8) * 2.0 - 1.0) * HUE_SPREAD * spread;
    with_luminance(hue, saturation, LUMINANCE.0 + step(hash >> 20) * (LUMINANCE.1 - LUMINANCE.0))
}

/// The colour of a bar that is not a function, or that did not change.
pub(super) fn plain() -> Rgb {
    with_luminance(0.0, 0.0, LUMINANCE.1)
}

/// The colour of the largest growth.
pub(super) fn grew() -> Rgb {
    with_luminance(358.0, 0.85, LUMINANCE.1)
}

/// The colour of the largest decrease.
pub(super) fn shrank() -> Rgb {
    with_luminance(214.0, 0.90, LUMINANCE.1)
}

/// The colour of a change between -1 (the largest decrease) and 1 (the largest growth).
pub(super) fn changed(change: f64) -> Rgb {
    let most = if change < 0.0 { shrank() } else { grew() };
    most.mix(change.abs().min(1.0), plain())
}

/// CSS variables with the colours that the page's style sheet uses.
pub(super) fn css() -> String {
    let kinds = [Kind::User, Kind::Kernel, Kind::Inlined, Kind::Jit, Kind::Unnamed];
    let kinds: String =
        kinds.iter().enumerate().map(|(at, kind)| format!(" --kind{at}: {};", of_function(*kind, "").css())).collect();
    format!(":root {{ --plain: {}; --grew: {}; --shrank: {};{kinds} }}\n", plain().css(), grew().css(), shrank().css())
}

/// The colour with this hue, saturation and luminance.
fn with_luminance(hue: f64, saturation: f64, wanted: f64) -> Rgb {
    let (mut low, mut high) = (0.0, 1.0);
    for _ in 0..20 {
        let middle = f64::midpoint(low, high);
        if luminance(of_hsl(hue, saturation, middle)) < wanted { low = middle } else { high = middle }
    }
    of_hsl(hue, saturation, low)
}

fn of_hsl(hue: f64, saturation: f64, lightness: f64) -> Rgb {
    let reach = saturation * lightness.min(1.0 - lightness);
    let channel = |offset: f64| {
        let at = (offset + hue / 30.0).rem_euclid(12.0);
        let value = lightness - reach * (at - 3.0).min(9.0 - at).clamp(-1.0, 1.0);
        (value * 255.0).round() as u8
    };
    Rgb(channel(0.0), channel(8.0), channel(4.0))
}

/// The relative luminance of WCAG 2, from 0 (black) to 1 (white).
fn luminance(color: Rgb) -> f64 {
    let linear = |value: u8| {
        let value = f64::from(value) / 255.0;
        if value <= 0.040_45 { value / 12.92 } else { ((value + 0.055) / 1.055).powf(2.4) }
    };
    0.2126 * linear(color.0) + 0.7152 * linear(color.1) + 0.0722 * linear(color.2)
}

#[cfg(test)]
mod tests {
    use super::*;

    const BLACK: Rgb = Rgb(0, 0, 0);
    /// The minimum contrasts of text (WCAG 2, 1.4.3) and of parts of a graph (1.4.11).
    const TEXT: f64 = 4.5;
    const SHAPE: f64 = 3.0;

    /// The contrast ratio of WCAG 2.
    fn contrast(one: Rgb, other: Rgb) -> f64 {
        let (one, other) = (luminance(one), luminance(other));
        (one.max(other) + 0.05) / (one.min(other) + 0.05)
    }

    /// The colours that a style sheet assigns to its variables, for light mode, dark mode and print.
    fn variables(css: &str) -> [Vec<(String, Rgb)>; 3] {
        let dark = css.find("@media (prefers-color-scheme: dark)").unwrap();
        let print = css.find("@media print").unwrap_or(css.len());
        let light_end = dark.min(print);
        let dark_end = css[dark..].find("\n}").map_or(css.len(), |end| dark + end);
        [&css[..light_end], &css[dark..dark_end], &css[print..]].map(|part| {
            let declared = part.split("--").skip(1).filter_map(|one| one.split_once(": #"));
            declared
                .map(|(name, rest)| {
                    let digits: String = rest.chars().take_while(char::is_ascii_hexdigit).collect();
                    let digits = if digits.len() == 3 { digits.chars().flat_map(|c| [c, c]).collect() } else { digits };
                    let byte = |at: usize| u8::from_str_radix(&digits[at..at + 2], 16).unwrap();
                    (name.to_owned(), Rgb(byte(0), byte(2), byte(4)))
                })
                .collect()
        })
    }

    fn variable(all: &[(String, Rgb)], name: &str) -> Rgb {
        all.iter().find(|(known, _)| known == name).unwrap_or_else(|| panic!("no --{name} in {all:?}")).1
    }

    /// The background colours of graphs: of an SVG, then of the page.
    fn papers() -> Vec<Rgb> {
        let pages = variables(include_str!("page.css"));
        std::iter::once(Rgb(255, 255, 255)).chain(pages.iter().map(|all| variable(all, "paper"))).collect()
    }

    #[test]
    fn ratios_are_those_of_the_standard() {
        assert!((contrast(BLACK, Rgb(255, 255, 255)) - 21.0).abs() < 1e-9);
        assert!((contrast(Rgb(0x76, 0x76, 0x76), Rgb(255, 255, 255)) - 4.54).abs() < 0.01);
    }

    #[test]
    fn text_on_bars_and_bars_on_paper_have_contrast_in_light_and_dark() {
        let mut bars: Vec<(String, Rgb)> =
            (-100..=100).map(|percent| (format!("{percent} %"), changed(f64::from(percent) / 100.0))).collect();
        for kind in [Kind::User, Kind::Inlined, Kind::Kernel, Kind::Jit, Kind::Unnamed] {
            let names = (0..3000).map(|number| format!("function{number}"));
            bars.extend(names.map(|name| (format!("{kind:?} {name}"), of_function(kind, &name))));
        }
        for (what, bar) in bars {
            let on_bar = contrast(BLACK, bar);
            assert!(on_bar >= TEXT, "black text on {what} {}: {on_bar:.2}", bar.css());
            for paper in papers() {
                let on_paper = contrast(bar, paper);
                assert!(on_paper >= SHAPE, "{what} {} on {}: {on_paper:.2}", bar.css(), paper.css());
            }
        }
    }

    #[test]
    fn text_of_pages_has_contrast_in_light_dark_and_print() {
        for all in variables(include_str!("page.css")) {
            let soft = variable(&all, "soft");
            for name in ["ink", "dim", "link"] {
                for paper in [variable(&all, "paper"), soft] {
                    let ratio = contrast(variable(&all, name), paper);
                    assert!(ratio >= TEXT, "--{name} on {}: {ratio:.2}", paper.css());
                }
            }
        }
    }

    #[test]
    fn lanes_of_timelines_have_contrast_to_the_paper() {
        let papers = variables(include_str!("page.css"));
        let lanes = variables(include_str!("timeline.css"));
        for (papers, lanes) in papers.iter().zip(&lanes).take(2) {
            assert_eq!(lanes.iter().filter(|(name, _)| name.starts_with('r')).count(), 16, "{lanes:?}");
            for (name, color) in lanes {
                let ratio = contrast(*color, variable(papers, "paper"));
                assert!(ratio >= SHAPE, "--{name} {}: {ratio:.2}", color.css());
            }
        }
    }
}
