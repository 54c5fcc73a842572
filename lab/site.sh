#!/bin/sh
# Builds the documentation site in target/site with mdBook. A warning of mdBook, or a link of the built pages that leads nowhere, is a failure.
#
# usage: lab/site.sh MDBOOK
set -eu
cd "$(dirname "$0")/.."

mdbook=$1
site=target/site
rm -rf "$site"
said=$("$mdbook" build 2>&1) || { echo "$said" >&2; exit 1; }
echo "$said"
if echo "$said" | grep -qE '\b(WARN|ERROR)\b|warning:|error:'; then
    echo "error: mdBook complains about the pages (above)" >&2
    exit 1
fi
# mdBook makes index.html of each README.md, but leaves links to one in another folder as they are.
find "$site" -name '*.html' -exec sed -i 's|\(href="[^":]*\)README\.html|\1index.html|g' {} +
if command -v python3 >/dev/null 2>&1; then
    python3 lab/site_links.py "$site"
else
    echo "skipped: python3 is not installed, so the links of the site were not checked"
fi
echo "open $site/index.html"
