//! The common frame of all pages. A page loads nothing and runs only its own script, and no name in the data can end that script.

use maud::{DOCTYPE, Markup, PreEscaped, html};
use serde::Serialize;

use crate::tree::clean;

/// The content of a page.
pub(super) struct Shell<'a> {
    pub(super) title: &'a str,
    pub(super) subtitle: &'a str,
    /// The style sheets of the page, in order.
    pub(super) css: &'a [&'a str],
    /// The visible part of the page.
    pub(super) main: Markup,
    pub(super) js: &'a str,
}

impl Shell<'_> {
    /// The page as HTML. Its script draws the rest from `data`.
    pub(super) fn html(&self, data: &impl Serialize) -> String {
        // The data consists of numbers and texts, so the conversion to JSON cannot fail.
        let json = serde_json::to_string(data).unwrap_or_default();
        // In the JSON, escape characters that could end a script, or begin a comment in a script.
        let json = json.replace('<', "\\u003c").replace('>', "\\u003e").replace('&', "\\u0026");
        let policy = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; base-uri 'none'; form-action 'none'";
        let title = clean(self.title);
        let page = html! {
            (DOCTYPE)
            html lang="en" {
                head {
                    meta charset="utf-8";
                    meta http-equiv="Content-Security-Policy" content=(policy);
                    meta name="viewport" content="width=device-width, initial-scale=1";
                    meta name="color-scheme" content="light dark";
                    title { (title) }
                    style { @for css in self.css { (PreEscaped(css)) } }
                }
                body {
                    header { h1 { (title) } p.sub { (self.subtitle) } }
                    main { (self.main) }
                    script type="application/json" id="data" { (PreEscaped(json)) }
                    script { (PreEscaped(self.js)) }
                }
            }
        };
        page.into_string()
    }
}
