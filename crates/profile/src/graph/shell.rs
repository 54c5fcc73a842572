//! What every page has around what it shows: it loads nothing, runs no script but its own, and no name in it ends one.

use maud::{DOCTYPE, Markup, PreEscaped, html};
use serde::Serialize;

use crate::tree::clean;

/// What stands on a page.
pub(super) struct Shell<'a> {
    pub(super) title: &'a str,
    pub(super) subtitle: &'a str,
    /// Its styles, one after the other.
    pub(super) css: &'a [&'a str],
    /// What is shown.
    pub(super) main: Markup,
    pub(super) js: &'a str,
}

impl Shell<'_> {
    /// The page, with data of which its script makes the rest.
    pub(super) fn html(&self, data: &impl Serialize) -> String {
        // It is made of numbers and texts, which always have a JSON form.
        let json = serde_json::to_string(data).unwrap_or_default();
        // What would end a script, or begin a remark in one, has another form in JSON.
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
