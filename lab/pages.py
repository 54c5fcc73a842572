#!/usr/bin/env python3
"""Opens HTML pages in Chromium without a window, at two widths, light and dark, and checks what no test of text can see:

- each text has a contrast of at least 4.5 to what is behind it (3 if it is large), as WCAG AA asks for;
- nothing is wider than the window, unless it scrolls by itself.

usage: pages.py PAGE.html...

The exit code is 1 if something is wrong, and 4 without Chromium, with a line that says that nothing was checked.
"""
import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

WIDTHS = [400, 1280]
THEMES = ["light", "dark"]
SHOWN_MAX = 8

# Runs in the page, and returns what is wrong with it.
CHECK = r"""
(() => {
  const wrong = [], seen = new Set();
  const parse = (text) => {
    const numbers = (text.match(/[\d.]+/g) || []).map(Number);
    if (!/^rgba?\(/.test(text) || numbers.length < 3) return null;
    return { c: numbers.slice(0, 3), a: numbers.length > 3 ? numbers[3] : 1 };
  };
  const over = (top, below) => top.c.map((value, at) => value * top.a + below[at] * (1 - top.a));
  const luminance = (c) => {
    const [r, g, b] = c.map((value) => { value /= 255; return value <= .03928 ? value / 12.92 : ((value + .055) / 1.055) ** 2.4; });
    return .2126 * r + .7152 * g + .0722 * b;
  };
  const ratio = (one, other) => {
    const [low, high] = [luminance(one), luminance(other)].sort((a, b) => a - b);
    return (high + .05) / (low + .05);
  };
  const canvas = matchMedia("(prefers-color-scheme: dark)").matches &&
    getComputedStyle(document.documentElement).colorScheme.includes("dark") ? [18, 18, 18] : [255, 255, 255];
  // The colour behind an element: shapes of a picture lie below its text, boxes of a page around it.
  const behind = (element) => {
    const layers = [];
    if (element instanceof SVGElement) {
      element.scrollIntoView({ block: "center", inline: "center" });
      const box = element.getBoundingClientRect();
      const stack = document.elementsFromPoint(box.left + box.width / 2, box.top + box.height / 2);
      for (const below of stack) {
        if (below === element || element.contains(below) || !(below instanceof SVGElement) || below.tagName === "text") continue;
        if (below.tagName === "svg" || below.tagName === "path" || below.tagName === "line") continue;
        const fill = parse(getComputedStyle(below).fill);
        if (fill) layers.push({ c: fill.c, a: fill.a * +getComputedStyle(below).opacity });
      }
    }
    for (let at = element; at; at = at.parentElement) {
      const style = getComputedStyle(at), colour = parse(style.backgroundColor);
      if (style.backgroundImage !== "none" && !(at instanceof SVGElement)) return null;
      if (colour && colour.a > 0) layers.push(colour);
    }
    return layers.reverse().reduce((below, layer) => over(layer, below), canvas);
  };
  const name = (element) => element.tagName.toLowerCase() + (element.id ? "#" + element.id : "") +
    (element.classList.length ? "." + [...element.classList].join(".") : "");
  const walker = document.createTreeWalker(document.body || document.documentElement, NodeFilter.SHOW_TEXT);
  let texts = 0;
  while (walker.nextNode()) {
    const text = walker.currentNode.textContent.trim(), element = walker.currentNode.parentElement;
    if (!text || !element || /^(SCRIPT|STYLE|NOSCRIPT|TITLE|title|style|script|desc)$/.test(element.tagName)) continue;
    const style = getComputedStyle(element), box = element.getBoundingClientRect();
    if (style.visibility !== "visible" || box.width < 2 || box.height < 2 || !element.checkVisibility()) continue;
    const key = [name(element), style.color, style.fill, name(element.parentElement || element)].join("|");
    if (seen.has(key) && !(element instanceof SVGElement)) continue;
    seen.add(key);
    const front = parse(element instanceof SVGElement ? style.fill : style.color), back = behind(element);
    if (!front || !back) continue;
    let opacity = 1;
    for (let at = element; at; at = at.parentElement) opacity *= +getComputedStyle(at).opacity;
    texts += 1;
    const size = parseFloat(style.fontSize), isLarge = size >= 24 || (size >= 18.66 && +style.fontWeight >= 700);
    const found = ratio(over({ c: front.c, a: front.a * opacity }, back), back);
    if (found + .005 < (isLarge ? 3 : 4.5)) {
      wrong.push(`contrast ${found.toFixed(2)}: ${name(element)} "${text.slice(0, 40)}"`);
    }
  }
  const width = document.documentElement.clientWidth;
  if (document.documentElement.scrollWidth > width) {
    const scrolls = (element) => {
      for (let at = element.parentElement; at; at = at.parentElement) {
        if (/auto|scroll|hidden|clip/.test(getComputedStyle(at).overflowX) && at !== document.body && at !== document.documentElement) return true;
      }
      return false;
    };
    for (const element of document.querySelectorAll("body *")) {
      const right = element.getBoundingClientRect().right + scrollX;
      if (right > width + 1 && !scrolls(element)) wrong.push(`${Math.round(right - width)} px too wide: ${name(element)}`);
    }
    if (!wrong.some((line) => line.includes("too wide"))) wrong.push(`the page is ${document.documentElement.scrollWidth} px wide`);
  }
  return JSON.stringify({ texts, wrong: [...new Set(wrong)] });
})()
"""


class Browser:
    """Chromium, by the DevTools protocol over two pipes."""

    def __init__(self, program, profile):
        to_read, self.to = os.pipe()
        self.from_, to_write = os.pipe()

        def pipes():
            # Descriptors 3 and 4 are those that the program expects; both pipes may have these numbers themselves.
            read, write = os.dup(to_read), os.dup(to_write)
            os.dup2(read, 3)
            os.dup2(write, 4)

        command = [program, "--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--remote-debugging-pipe", f"--user-data-dir={profile}"]
        self.process = subprocess.Popen(command, preexec_fn=pipes, close_fds=False, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        os.close(to_read)
        os.close(to_write)
        self.number, self.rest, self.session = 0, b"", None
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        self.call("Page.enable")

    def call(self, method, **parameters):
        self.number += 1
        message = {"id": self.number, "method": method, "params": parameters}
        if self.session:
            message["sessionId"] = self.session
        os.write(self.to, json.dumps(message).encode() + b"\0")
        while True:
            answer = self.receive()
            if answer.get("id") == self.number:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']}")
                return answer["result"]

    def receive(self):
        while b"\0" not in self.rest:
            part = os.read(self.from_, 1 << 16)
            if not part:
                raise RuntimeError("Chromium ended")
            self.rest += part
        message, self.rest = self.rest.split(b"\0", 1)
        return json.loads(message)

    def check(self, page, width, theme):
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=900, deviceScaleFactor=1, mobile=False)
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": theme}])
        self.call("Page.navigate", url=page.resolve().as_uri())
        while self.receive().get("method") != "Page.loadEventFired":
            pass
        result = self.call("Runtime.evaluate", expression=CHECK, returnByValue=True)
        if "exceptionDetails" in result:
            raise RuntimeError(f"{page}: {result['exceptionDetails']['exception'].get('description')}")
        return json.loads(result["result"]["value"])

    def close(self):
        self.session = None
        os.write(self.to, json.dumps({"id": 0, "method": "Browser.close"}).encode() + b"\0")
        self.process.wait(timeout=30)


def main(pages):
    program = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if not program:
        print("skipped: Chromium is not installed, so no page was checked (deploy/setup.sh lab installs it)")
        return 4
    gone = [page for page in pages if not Path(page).is_file()]
    if gone or not pages:
        sys.exit(f"no such page: {' '.join(gone) or 'none was named'}")
    failed, texts = 0, 0
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        browser = Browser(program, profile)
        for page in map(Path, pages):
            for width in WIDTHS:
                for theme in THEMES:
                    result = browser.check(page, width, theme)
                    texts += result["texts"]
                    if not result["texts"]:
                        result["wrong"].append("no text was found")
                    failed += bool(result["wrong"])
                    for line in result["wrong"][:SHOWN_MAX]:
                        print(f"{page} at {width}, {theme}: {line}")
                    if len(result["wrong"]) > SHOWN_MAX:
                        print(f"{page} at {width}, {theme}: and {len(result['wrong']) - SHOWN_MAX} more")
        browser.close()
    print(f"{len(pages)} pages at {len(WIDTHS)} widths in {len(THEMES)} themes, {texts} texts: {failed} with faults")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
