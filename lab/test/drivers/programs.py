"""Driver programs: where they lie, what makes them runnable, how they are run.

A program is a folder lab/test/drivers/PROTOCOL/DRIVER with one source file and the manifest of its package manager, by which
its kind is known. What the manifest names is installed once, into a folder of the lab's cache that carries the sum of
the program's files in its name, so that a change to one installs anew.
"""

import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

FOLDER = Path(__file__).resolve().parent
ROOT = FOLDER.parents[2]
INSTALL_SECONDS = 900


class Missing(Exception):
    """A driver cannot be had here; says why."""


def cache():
    """The lab's cache, as lab/lib/common.sh has it."""
    if "OVERHEAD_CACHE" in os.environ:
        return Path(os.environ["OVERHEAD_CACHE"])
    if os.geteuid() == 0:
        return Path("/var/cache/overhead")
    return Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "overhead"


def tool(name):
    """The path of a program that installs or runs drivers."""
    found = shutil.which(name) or (name == "go" and shutil.which("/usr/local/go/bin/go"))
    if not found:
        raise Missing(f"no {name} here")
    return found


def install(command, **options):
    """Runs one step of an installation; its last words are the reason where it fails."""
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, timeout=INSTALL_SECONDS, **options)
    if done.returncode != 0:
        words = [line for line in (done.stdout + done.stderr).splitlines() if line.strip()]
        raise Missing(f"{Path(command[0]).name}: {' / '.join(words[-2:])[:200] or 'failed without a word'}")


def python(source, target):
    install([sys.executable, "-m", "venv", target / "venv"])
    install([target / "venv/bin/pip", "install", "-q", "--disable-pip-version-check", "-r", source / "requirements.txt"])


def node(source, target):
    options = ["--no-audit", "--no-fund", "--no-package-lock", "--engine-strict", "--ignore-scripts"]
    install([tool("npm"), "install", *options], cwd=target)


def go(source, target):
    environment = {**os.environ, "GOTOOLCHAIN": "auto", "GOFLAGS": "-mod=mod -buildvcs=false", "CGO_ENABLED": "0"}
    install([tool("go"), "build", "-trimpath", "-o", "program", "."], cwd=target, env=environment)


def java(source, target):
    install([tool("mvn"), "-q", "-B", "-Dstyle.color=never", "dependency:copy-dependencies", "-DincludeScope=runtime",
             "-DoutputDirectory=lib"], cwd=target)
    install([tool("javac"), "-cp", "lib/*", "-d", "classes", "Main.java"], cwd=target)


# The manifest of each kind, how it is installed, and the command that runs it.
KINDS = {
    "requirements.txt": (python, ["venv/bin/python", "main.py"]),
    "package.json": (node, ["node", "main.js"]),
    "go.mod": (go, ["./program"]),
    "pom.xml": (java, ["java", "-cp", "classes:lib/*", "Main"]),
}


class Program:
    """A driver's program, under one set of arguments."""

    def __init__(self, protocol, name, arguments=()):
        self.protocol = protocol
        self.source = FOLDER / protocol / name
        self.arguments = list(arguments)
        self.name = " ".join([f"{protocol}/{name}", *self.arguments])
        manifests = [manifest for manifest in KINDS if (self.source / manifest).is_file()]
        if len(manifests) != 1:
            raise SystemExit(f"lab/test/drivers/{protocol}/{name}: needs one of {', '.join(KINDS)}")
        self.install, self.command = KINDS[manifests[0]]

    def installed(self):
        """The folder that the program runs in, made where it is missing. Half of one is not kept."""
        files = [path for path in sorted(self.source.iterdir()) if path.is_file() and path.name != "README.md"]
        digest = hashlib.sha256(b"".join(path.name.encode() + path.read_bytes() for path in files)).hexdigest()[:12]
        folder = cache() / "drivers" / f"{self.protocol}-{self.source.name}-{digest}"
        if folder.is_dir():
            return folder
        folder.parent.mkdir(parents=True, exist_ok=True)
        print(f"installing {self.name}", file=sys.stderr)
        # A virtual environment knows its own path, so it is made where it stays.
        folder.mkdir()
        try:
            for path in files:
                shutil.copy(path, folder)
            self.install(self.source, folder)
        except BaseException as error:
            shutil.rmtree(folder)
            if isinstance(error, subprocess.TimeoutExpired):
                raise Missing(f"not installed within {INSTALL_SECONDS} s") from error
            raise
        return folder

    def start(self, port, scratch):
        """The running program. It prints one line when it has asked for everything, and ends with its input. Its errors go
        to a file in `scratch`; keys of TLS to keys.log beside it."""
        folder = self.installed()
        program = self.command[0]
        program = str(folder / program) if "/" in program else tool(program)
        environment = {**os.environ, "SSLKEYLOGFILE": str(scratch / "keys.log")}
        with open(scratch / "errors", "wb") as errors:
            return subprocess.Popen([program, *self.command[1:], str(port), *self.arguments], cwd=folder, text=True,
                                    env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors)


def programs(matrix):
    """Every program there is: PROTOCOL/DRIVER folders, with the further arguments that `matrix` names for them."""
    for manifest in sorted(path for kind in KINDS for path in FOLDER.glob(f"*/*/{kind}")):
        protocol, name = manifest.parent.parts[-2:]
        for arguments in matrix.get((protocol, name), [()]):
            yield Program(protocol, name, arguments)
