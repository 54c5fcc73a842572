#!/usr/bin/env python3
"""Runs commands and draws what they print, colours included, as one SVG: a terminal session for the README.

usage: terminal_svg.py OUT.svg COMMAND...

What a command prints is drawn as it is. Its journal is in a folder of its own, which is removed; a line that names that folder is left out.
"""
import html
import os
import re
import subprocess
import sys
import tempfile
import textwrap

COLUMNS = 96
LINE = 18
CHAR = 7.83
MARGIN = 16
# The colours of SGR codes on a dark ground, each with a contrast of at least 4.5.
COLOURS = {30: "#9aa4b2", 31: "#ff8a80", 32: "#8bdc8b", 33: "#f0d070", 34: "#8ab4f8", 35: "#e0a0e8", 36: "#7fd8d8", 37: "#e6e6e6"}


def spans(line):
    """The line as pairs of text and style."""
    style = {}
    for part in re.split(r"(\x1b\[[0-9;]*m)", line):
        code = re.fullmatch(r"\x1b\[([0-9;]*)m", part)
        if not code:
            if part:
                yield part, dict(style)
            continue
        for number in [int(text or 0) for text in code.group(1).split(";")]:
            if number == 0:
                style = {}
            elif number == 1:
                style["font-weight"] = "bold"
            elif number == 2:
                style["fill"] = "#9aa4b2"
            elif number in COLOURS or number - 60 in COLOURS:
                style["fill"] = COLOURS.get(number) or COLOURS[number - 60]


def drawn(line, y):
    inside = ""
    for text, style in spans(line):
        attributes = "".join(f' {name}="{value}"' for name, value in style.items())
        inside += f"<tspan{attributes}>{html.escape(text)}</tspan>"
    return f'<text x="{MARGIN}" y="{y}" xml:space="preserve">{inside}</text>'


def wrapped(line):
    """A line that a terminal would break, broken between words. Lines with colours are short."""
    if "\x1b" in line or len(line) <= COLUMNS:
        return [line]
    indent = " " * (len(line) - len(line.lstrip()) + 2)
    return textwrap.wrap(line, COLUMNS, subsequent_indent=indent, break_on_hyphens=False)


def main(out, commands):
    lines = []
    with tempfile.TemporaryDirectory() as state:
        for command in commands:
            journal = f"{command} --state {state}" if " prove " in command else command
            environment = dict(os.environ, COLUMNS=str(COLUMNS), CLICOLOR_FORCE="1")
            run = subprocess.run(["sh", "-c", journal], capture_output=True, text=True, env=environment)
            if run.returncode != 0:
                sys.exit(f"{command}: exit code {run.returncode}\n{run.stdout}{run.stderr}")
            lines.append(f"\x1b[32m$\x1b[0m \x1b[1m{command}\x1b[0m")
            shown = [line for line in run.stdout.splitlines() if state not in line]
            lines += [part for line in shown for part in wrapped(line)] + [""]
    lines.pop()
    width, height = round(2 * MARGIN + COLUMNS * CHAR), 2 * MARGIN + LINE * len(lines)
    texts = "\n".join(drawn(line, MARGIN + LINE * at + 13) for at, line in enumerate(lines))
    with open(out, "w", encoding="utf-8") as file:
        file.write(
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" role="img">\n'
            f"<title>A terminal session with evenkeel</title>\n"
            f"<style>text {{ font: 13px ui-monospace, 'DejaVu Sans Mono', monospace; fill: #e6e6e6 }}</style>\n"
            f'<rect width="{width}" height="{height}" rx="8" fill="#16191f"/>\n{texts}\n</svg>\n'
        )


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
