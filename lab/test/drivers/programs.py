#!/usr/bin/env python3
"""Driver programs: what makes them runnable, and how they are run. `programs.py PROTOCOL/DRIVER` prints the folder of one.

A program is a file PROTOCOL/DRIVER.EXTENSION. Its first line names the packages that it needs (`needs: …`), each with its version.
They are installed once, into a folder of the lab's cache whose name ends with a digest of the program: a changed one is installed
again.
"""

import hashlib
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

FOLDER = Path(__file__).resolve().parent
ROOT = FOLDER.parents[2]
INSTALL_SECONDS = 900


class Missing(Exception):
    """The reason why a driver is unavailable here."""


def cache():
    """The lab's cache."""
    command = ["bash", "-c", '. "$1/lab/lib/common.sh" && echo "$CACHE"', "bash", ROOT]
    return Path(subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip())


def tool(name):
    found = shutil.which(name) or (name == "go" and shutil.which("/usr/local/go/bin/go"))
    if not found:
        raise Missing(f"no {name} here")
    return found


def install(*command, **options):
    """Runs one step of an installation; its last words are the reason where it fails."""
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, timeout=INSTALL_SECONDS, **options)
    if done.returncode != 0:
        words = [line for line in (done.stdout + done.stderr).splitlines() if line.strip()]
        raise Missing(f"{Path(command[0]).name}: {' / '.join(words[-2:])[:200] or 'failed without a word'}")


def python(folder, needs):
    install(sys.executable, "-m", "venv", folder / "venv")
    install(folder / "venv/bin/pip", "install", "-q", "--disable-pip-version-check", *needs)


def node(folder, needs):
    (folder / "package.json").write_text('{"private": true}')
    options = ["--no-audit", "--no-fund", "--no-package-lock", "--engine-strict", "--ignore-scripts"]
    install(tool("npm"), "install", *options, *needs, cwd=folder)


def go(folder, needs):
    """The version of the driver determines those of all other modules: Go takes the least that is required."""
    required = "".join(f"require {need.replace('@', ' ')}\n" for need in needs)
    (folder / "go.mod").write_text(f"module driver\n\ngo 1.23\n\n{required}")
    environment = {**os.environ, "GOTOOLCHAIN": "auto", "GOFLAGS": "-mod=mod -buildvcs=false", "CGO_ENABLED": "0"}
    install(tool("go"), "build", "-trimpath", "-o", "program", ".", cwd=folder, env=environment)


def java(folder, needs):
    parts = (dict(zip(("groupId", "artifactId", "version"), need.split(":"))) for need in needs)
    dependencies = ["".join(f"<{tag}>{text}</{tag}>" for tag, text in part.items()) for part in parts]
    (folder / "pom.xml").write_text(
        '<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion><groupId>overhead</groupId>'
        "<artifactId>driver</artifactId><version>1</version><dependencies>"
        + "".join(f"<dependency>{dependency}</dependency>" for dependency in dependencies) + "</dependencies></project>")
    install(tool("mvn"), "-q", "-B", "-Dstyle.color=never", "dependency:copy-dependencies", "-DincludeScope=runtime",
            "-DoutputDirectory=lib", cwd=folder)
    install(tool("javac"), "-cp", "lib/*", "-d", "classes", "Main.java", cwd=folder)


# By extension: how a program is installed, the name that its file gets, and the command that runs it.
KINDS = {
    ".py": (python, "main.py", ["venv/bin/python", "main.py"]),
    ".js": (node, "main.js", ["node", "main.js"]),
    ".go": (go, "main.go", ["./program"]),
    ".java": (java, "Main.java", ["java", "-cp", "classes:lib/*", "Main"]),
}


class Program:
    def __init__(self, source, arguments=()):
        self.source, self.protocol, self.driver = source, source.parent.name, source.stem
        self.arguments = list(arguments)
        self.name = " ".join([f"{self.protocol}/{self.driver}", *self.arguments])
        self.install, self.file, self.command = KINDS[source.suffix]

    def installed(self):
        """The folder that the program runs in, made where it is missing. Half of one is not kept."""
        text, shared = self.source.read_bytes(), FOLDER / f"driver{self.source.suffix}"
        digest = hashlib.sha256(text + (shared.read_bytes() if shared.exists() else b"")).hexdigest()[:12]
        folder = cache() / "drivers" / f"{self.protocol}-{self.driver}-{digest}"
        if folder.is_dir():
            return folder
        print(f"installing {self.name}", file=sys.stderr)
        # A virtual environment contains its own path, so it is made where it stays.
        folder.mkdir(parents=True)
        try:
            shutil.copy(self.source, folder / self.file)
            if shared.exists():
                shutil.copy(shared, folder)
            needs = re.match(rb"(?:#|//) needs: (.*)\n", text)
            self.install(folder, needs[1].decode().split() if needs else [])
        except BaseException as error:
            shutil.rmtree(folder)
            if isinstance(error, subprocess.TimeoutExpired):
                raise Missing(f"not installed within {INSTALL_SECONDS} s") from error
            raise
        return folder

    def words(self, folder):
        """The command, to run in its folder."""
        program = self.command[0]
        return [str(folder / program) if "/" in program else tool(program), *self.command[1:]]

    def start(self, port, scratch):
        """The running program. It prints one line when it has asked for everything, and ends with its input. Its errors go
        to a file in `scratch`; keys of TLS to keys.log beside it."""
        folder = self.installed()
        environment = {**os.environ, "SSLKEYLOGFILE": str(scratch / "keys.log")}
        with open(scratch / "errors", "wb") as errors:
            return subprocess.Popen([*self.words(folder), str(port), *self.arguments], cwd=folder, text=True,
                                    env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors)


def programs(matrix):
    """Every program there is, with the further arguments that `matrix` names for some."""
    for source in sorted(FOLDER.glob("*/*.*")):
        if source.suffix in KINDS:
            for arguments in matrix.get((source.parent.name, source.stem), [()]):
                yield Program(source, arguments)


if __name__ == "__main__":
    for each in programs({}):
        if each.name == sys.argv[1]:
            print(each.installed())
