//! What every page has around what it shows: it loads nothing, runs no script but its own, and no name in it ends one.

use serde::Serialize;

use super::flame::escaped;
use crate::tree::clean;

/// What stands on a page.
pub(super) struct Shell<'a> {
    pub(super) title: &'a str,
    pub(super) subtitle: &'a str,
    /// Its styles, one after the other.
    pub(super) css: &'a [&'a str],
    /// What is shown, as HTML.
    pub(super) main: &'a str,
    pub(super) js: &'a str,
}

impl Shell<'_> {
    /// The page, with data of which its script makes the rest.
    pub(super) fn html(&self, data: &impl Serialize) -> String {
        // It is made of numbers and texts, which always have a JSON form.
        let json = serde_json::to_string(data).unwrap_or_default();
        // What would end a script, or begin a remark in one, has another form in JSON.
        let json = json.replace('<', "\\u003c").replace('>', "\\u003e").replace('&', "\\u0026");
        let (title, subtitle, css) = (titled(self.title), escaped(self.subtitle), self.css.concat());
        let Shell { main, js, .. } = self;
        format!(
            r#"<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; base-uri 'none'; form-action 'none'">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>{title}</title>
<style>
{css}</style>
</head>
<body>
<header><h1>{title}</h1><p class="sub">{subtitle}</p></header>
<main>
{main}
</main>
<script type="application/json" id="data">{json}</script>
<script>
{js}</script>
</body>
</html>
"#
        )
    }
}

/// A title as HTML.
pub(super) fn titled(title: &str) -> String {
    escaped(&clean(title))
}
