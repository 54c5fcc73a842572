#!/usr/bin/env python3
"""Checks that every link of the built site leads to a file and an anchor that exist.

usage: site_links.py FOLDER
"""
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit


class Page(HTMLParser):
    def __init__(self, text):
        super().__init__()
        self.links, self.anchors = [], set()
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        attributes = dict(attributes)
        if "id" in attributes:
            self.anchors.add(attributes["id"])
        for name in ("href", "src"):
            if attributes.get(name):
                self.links.append(attributes[name])


def main(folder):
    folder = Path(folder).resolve()
    pages = {path: Page(path.read_text()) for path in sorted(folder.rglob("*.html"))}
    seen, broken = 0, []
    for path, page in pages.items():
        # It is served for any address, so its links start from the site's root.
        start = folder if path.name == "404.html" else path.parent
        for link in page.links:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            seen += 1
            target = path if not parts.path else (start / unquote(parts.path).lstrip("/")).resolve()
            if target.is_dir():
                target /= "index.html"
            if not target.exists():
                broken.append(f"{path.relative_to(folder)}: {link}: no such file")
            elif parts.fragment and target in pages and unquote(parts.fragment) not in pages[target].anchors:
                broken.append(f"{path.relative_to(folder)}: {link}: no such heading")
    for line in broken:
        print(line)
    print(f"{len(pages)} pages, {seen} links, {len(broken)} broken")
    return 1 if broken or not pages else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
