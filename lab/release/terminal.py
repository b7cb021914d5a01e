#!/usr/bin/env python3
"""lab/release/terminal.py [-o FILE] [BINARY]: draws docs/images/terminal.svg, a terminal that plays a real run of `overhead`.

Starts the lab's Redis, runs the commands of COMMANDS in a temporary folder as a reader would, and draws what they print on a terminal of 108
columns. BINARY is target/release/overhead unless you name another. Capturing needs root or sudo.
-o writes the drawing elsewhere.
"""

import argparse
import html
import os
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
COLUMNS, ROWS = 108, 32
WIDTH, HEIGHT, MARGIN = 8, 18, 16  # of a cell, and around them, in pixels
TYPING, READING = 1.5, 6.0  # seconds of each scene
COMMANDS = [
    "sudo overhead capture -i lo --db redis --port 7379 -o runs/a -- redis-benchmark -p 7379 -t set,get -n 20000 -q",
    "overhead explain runs/a '#1'",
]


def on_terminal(words, folder, environment):
    """The output of a command whose standard output is a terminal; ends the program if it fails."""
    command = f"stty cols {COLUMNS} rows {ROWS}; exec {shlex.join(words)} 2>/dev/null"
    done = subprocess.run(["script", "-qec", command, "/dev/null"], cwd=folder, env=environment, stdin=subprocess.DEVNULL, capture_output=True)
    if done.returncode not in (0, 3):
        sys.exit(f"terminal: {shlex.join(words)} ended with status {done.returncode}")
    return done.stdout.decode().replace("\r\n", "\n")


def transcript(binary):
    """What the commands print, with the commands."""
    environment = {**os.environ, "PATH": f"{binary.parent}:{os.environ['PATH']}", "NO_COLOR": "1", "TERM": "xterm"}
    subprocess.run([ROOT / "lab/up", "redis"], check=True, stdout=sys.stderr)
    try:
        with tempfile.TemporaryDirectory() as folder:
            text = ""
            for command in COMMANDS:
                words = shlex.split(command)
                if words[0] == "sudo":
                    # As root, sudo is not needed; otherwise its PATH does not have the binary.
                    words = words[1:] if os.geteuid() == 0 else ["sudo", str(binary), *words[2:]]
                text += f"$ {command}\n{on_terminal(words, folder, environment)}"
            return text
    finally:
        subprocess.run([ROOT / "lab/down", "redis"], check=True, stdout=sys.stderr)


def scenes(text):
    """Commands with the lines of their output; output that does not fit ends with how much is left out."""
    found = []
    for line in text.rstrip("\n").split("\n"):
        if line.startswith("$ "):
            found.append((line, []))
        elif found:
            found[-1][1].append(line)
    fitting = []
    for command, output in found:
        command = [command[at : at + COLUMNS] for at in range(0, len(command), COLUMNS)]
        room = ROWS - len(command) - 1
        if len(output) > room:
            output = [*output[: room - 1], f"  … {len(output) - room + 1} more lines"]
        fitting.append((command, output))
    return fitting


def lines(texts, first):
    """Lines of text from a row on, each as wide as its columns, whatever the font."""
    drawn = []
    for row, text in enumerate(texts, first):
        text = text.rstrip()[:COLUMNS]
        start = len(text) - len(text.lstrip())
        if text.strip():
            x, y = MARGIN + start * WIDTH, MARGIN + row * HEIGHT + 13
            drawn.append(f'<text xml:space="preserve" x="{x}" y="{y}" textLength="{(len(text) - start) * WIDTH}">{html.escape(text.lstrip())}</text>')
    return "\n".join(drawn)


def drawing(played):
    """The scenes one after the other, for ever; the last one at rest if the reader wants no motion, or the viewer knows none."""
    total = len(played) * (TYPING + READING)
    width, height = COLUMNS * WIDTH + 2 * MARGIN, ROWS * HEIGHT + 2 * MARGIN
    style, body = [], []
    for number, (command, output) in enumerate(played):
        begin, shown, end = (100 * (number * (TYPING + READING) + after) / total for after in (0, TYPING, TYPING + READING))
        for name, start in (("typed", begin), ("printed", shown)):
            style.append(
                f"@keyframes {name}{number} {{ 0%, {start - 0.01:.2f}% {{ opacity: 0 }} {start:.2f}%, {end - 0.01:.2f}% {{ opacity: 1 }}"
                f" {end:.2f}%, 100% {{ opacity: 0 }} }}"
                if start > 0
                else f"@keyframes {name}{number} {{ 0%, {end - 0.01:.2f}% {{ opacity: 1 }} {end:.2f}%, 100% {{ opacity: 0 }} }}"
            )
            style.append(f".{name}{number} {{ animation: {name}{number} {total}s step-end infinite }}")
        rest = "" if number + 1 == len(played) else ' opacity="0"'
        body.append(f'<g class="command typed{number}"{rest}>\n{lines(command, 0)}\n</g>')
        body.append(f'<g class="printed{number}"{rest}>\n{lines(output, len(command) + 1)}\n</g>')
    return f"""<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}" role="img">
<title>A terminal: overhead captures a benchmark, shows its table and explains one operation</title>
<style>
text {{ font: 13px ui-monospace, "DejaVu Sans Mono", Menlo, Consolas, monospace; fill: #d8dee9; white-space: pre }}
.command text {{ fill: #a3be8c }}
{chr(10).join(style)}
@media (prefers-reduced-motion: reduce) {{ g {{ animation: none !important }} }}
</style>
<rect width="100%" height="100%" rx="8" fill="#1f2430"/>
{chr(10).join(body)}
</svg>
"""


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("binary", nargs="?", type=Path, default=ROOT / "target/release/overhead")
    parser.add_argument("-o", type=Path, default=ROOT / "docs/images/terminal.svg")
    options = parser.parse_args()
    options.o.write_text(drawing(scenes(transcript(options.binary.resolve()))))
    print(options.o)


main()
