#!/usr/bin/env python3
"""lab/release/book.py [--check]: docs/ as a static book in target/book, by mdBook, which cargo installs where it is not there yet.

Every page below docs/ must stand in docs/SUMMARY.md. Links to other files of the repository lead to its web address in
Cargo.toml, or without one to the checkout. Every other link must lead to a file of the book, and to a heading that is
there. Addresses on the web are not fetched.

  --check   looks at links of all Markdown files of the repository, without mdBook and without building anything
"""

import html.parser
import os
import re
import shutil
import subprocess
import sys
import urllib.parse
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
REPOSITORY = re.search(r'^repository = "(.*)"', (ROOT / "Cargo.toml").read_text(), re.M)
VERSION = "0.5.4"
OUT = ROOT / "target/book"
ELSEWHERE = ("http:", "https:", "mailto:", "data:", "javascript:")


class Page(html.parser.HTMLParser):
    def __init__(self, path):
        super().__init__()
        self.links, self.anchors = [], set()
        self.feed(path.read_text())

    def handle_starttag(self, tag, attributes):
        for name, value in attributes:
            if value and name in ("href", "src"):
                self.links.append(value)
            if value and (name == "id" or (tag == "a" and name == "name")):
                self.anchors.add(value)


def markdown_links(text):
    """The targets of links and images in Markdown, without what stands in code."""
    text = re.sub(r"^```.*?^```", "", text, flags=re.M | re.S)
    text = re.sub(r"`[^`\n]*`", "", text)
    return re.findall(r"\]\(<?([^)<>\s]+)>?(?:\s+\"[^\"]*\")?\)", text)


def headings(text):
    """The anchors that GitHub and mdBook give to the headings of a text in Markdown."""
    text = re.sub(r"^```.*?^```", "", text, flags=re.M | re.S)
    found, seen = set(), {}
    for title in re.findall(r"^#+ +(.*)$", text, flags=re.M):
        title = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", title).replace("`", "")
        anchor = re.sub(r"[^\w\- ]", "", title.strip().lower()).replace(" ", "-")
        count = seen.get(anchor, 0)
        seen[anchor] = count + 1
        found.add(anchor if not count else f"{anchor}-{count}")
    return found


def tracked(pattern):
    """The files of the repository by that pattern, those that are not committed yet included."""
    listed = subprocess.run(["git", "ls-files", "-co", "--exclude-standard", pattern], cwd=ROOT, check=True, capture_output=True, text=True)
    return [ROOT / line for line in listed.stdout.splitlines() if (ROOT / line).exists()]


def check_sources():
    """Dead links between the Markdown files of the repository, and pages that the book leaves out."""
    dead, count = [], 0
    for path in tracked("*.md"):
        for link in markdown_links(path.read_text()):
            if link.startswith(ELSEWHERE):
                continue
            count += 1
            name, _, anchor = urllib.parse.unquote(link).partition("#")
            target = (path.parent / name).resolve() if name else path
            if not target.exists():
                dead.append(f"{path.relative_to(ROOT)}: {link}: no such file")
            elif anchor and target.suffix == ".md" and anchor not in headings(target.read_text()):
                dead.append(f"{path.relative_to(ROOT)}: {link}: no such heading")
    listed = {(ROOT / "docs" / link).resolve() for link in markdown_links((ROOT / "docs/SUMMARY.md").read_text())}
    left_out = {path.resolve() for path in tracked("docs/*.md")} - listed - {(ROOT / "docs/SUMMARY.md").resolve()}
    dead += [f"{path.relative_to(ROOT)}: not in docs/SUMMARY.md" for path in sorted(left_out)]
    return count, dead


def mdbook():
    own = ROOT / ".lab/mdbook"
    for program in (shutil.which("mdbook"), str(own / "bin/mdbook")):
        if program and Path(program).exists():
            said = subprocess.run([program, "--version"], capture_output=True, text=True, check=False).stdout
            if VERSION in said:
                return program
    print(f"installing mdBook {VERSION}: some minutes, once", file=sys.stderr)
    subprocess.run(["cargo", "install", "--locked", "--quiet", "mdbook", "--version", VERSION, "--no-default-features", "--features",
                    "search", "--root", own], check=True, cwd=ROOT)
    return str(own / "bin/mdbook")


def mend(path):
    """Gives links of a page their targets outside of the book; returns the dead ones."""
    text, dead = path.read_text(), []
    below = path.relative_to(OUT)
    for link in dict.fromkeys(Page(path).links):
        if link.startswith(ELSEWHERE) or link.startswith("#"):
            continue
        name, _, anchor = link.partition("#")
        plain = urllib.parse.unquote(name)
        target = (path.parent / plain).resolve()
        if target.is_dir() and (target / "index.html").exists():
            continue
        if target.exists():
            continue
        new = None
        if target.name == "README.html" and (target.parent / "index.html").exists():
            new = name.removesuffix("README.html") + "index.html"
        else:
            # A page of the book lies where its source does below docs/.
            source = Path(os.path.normpath(ROOT / "docs" / below.parent / plain))
            for one in (source, source.with_suffix(".md")):
                if one.exists() and one.is_relative_to(ROOT):
                    new = f"{REPOSITORY[1]}/blob/main/{one.relative_to(ROOT)}" if REPOSITORY else os.path.relpath(one, path.parent)
        if new is None:
            dead.append(f"{below}: {link}: no such page")
            continue
        new += f"#{anchor}" if anchor else ""
        text = text.replace(f'="{link}"', f'="{new}"')
    path.write_text(text)
    return dead


def check_anchors(pages):
    dead = []
    for path, page in pages.items():
        for link in page.links:
            if link.startswith(ELSEWHERE) or "#" not in link:
                continue
            name, anchor = (urllib.parse.unquote(part) for part in link.split("#", 1))
            target = (path.parent / name).resolve() if name else path
            if anchor and target in pages and anchor not in pages[target].anchors:
                dead.append(f"{path.relative_to(OUT)}: {link}: no such heading")
    return dead


def build():
    subprocess.run([mdbook(), "build", ROOT], check=True)
    files = [path for path in OUT.rglob("*.html") if path.name != "toc.html"]
    dead = [line for path in files for line in mend(path)]
    pages = {path.resolve(): Page(path) for path in files}
    dead += check_anchors(pages)
    return len(files), sum(len(page.links) for page in pages.values()), dead


def main():
    if sys.argv[1:] not in ([], ["--check"]):
        sys.exit("usage: lab/release/book.py [--check]")
    count, dead = check_sources()
    print(f"{count} links between the Markdown files of the repository")
    if not dead and not sys.argv[1:]:
        pages, links, dead = build()
        print(f"{pages} pages with {links} links: {OUT.relative_to(ROOT)}/index.html")
    for line in dead:
        print(f"dead: {line}", file=sys.stderr)
    sys.exit(f"lab/release/book.py: {len(dead)} dead links or pages left out" if dead else 0)


main()
