#!/usr/bin/env -S python3 -B
"""lab/test/article.py [BINARY] [--full] [--keep FOLDER]: the charts of an article, with real servers. Reads and inserts of Redis,
PostgreSQL, memcached and MariaDB are swept over the depth of the pipeline and the size of the value, three runs each, and drawn together
by one command. The driver of the last two has no pipeline, so they are level lines. Without --full, two depths and two sizes.
--keep leaves the sweeps and the report in FOLDER. Starts servers of its own on ports from 21681 on, and ends with a line like that
of cargo test.
"""

import argparse
import contextlib
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "lib"))
from testing import OVERHEAD, Redis, check, finish, must, postgres, require_root, run, start, wait_for

parser = argparse.ArgumentParser()
parser.add_argument("binary", nargs="?")
parser.add_argument("--full", action="store_true")
parser.add_argument("--keep", type=pathlib.Path)
ARGUMENTS = parser.parse_args()
PORT = int(os.environ.get("OVERHEAD_ARTICLE_PORT", "21681"))
DEPTHS, SIZES, RUNS, OPERATIONS = ("1,4,16,64", "16,100,10000", 3, 1920) if ARGUMENTS.full else ("1,16", "16,10000", 2, 320)
# A driver without a pipeline is swept over sizes alone.
SYSTEMS = {"redis": True, "postgres": True, "memcached": False, "mariadb": False}
COMMANDS, STARTED = [], time.monotonic()


def command(*words):
    """Runs a command of the article."""
    COMMANDS.append(words)
    return run(words)


def mariadb(ends, folder, port):
    """Starts a MariaDB of the test's own, until `ends` is closed."""
    folder = folder / "mariadb"
    folder.mkdir()
    shutil.chown(folder, "nobody")
    own = {"user": "nobody", "group": "nogroup", "cwd": folder}
    must("mariadb-install-db", "--no-defaults", f"--datadir={folder}/data", "--auth-root-authentication-method=normal", "--skip-test-db", **own)
    options = [f"--datadir={folder}/data", f"--port={port}", "--bind-address=127.0.0.1", f"--socket={folder}/s", f"--pid-file={folder}/pid"]
    words = ["mariadbd", "--no-defaults", *options, "--innodb-flush-log-at-trx-commit=0"]
    process = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, **own)
    ends.callback(process.wait)
    # It ignores an interrupt.
    ends.callback(process.terminate)
    client = ["mariadb", "--no-defaults", "-h", "127.0.0.1", "-P", str(port), "-u", "root", "-e"]
    wait_for(lambda: run([*client, "select 1"]).returncode == 0, "MariaDB", 60)
    must(*client, "create database bench")


def servers(ends, folder):
    """Starts the servers; returns their ports."""
    ports = {name: PORT + at for at, name in enumerate(SYSTEMS)}
    Redis(ends, folder, ports["redis"])
    postgres(ends, folder, ports["postgres"])
    start(ends, ["memcached", "-u", "nobody", "-l", "127.0.0.1", "-p", str(ports["memcached"]), "-m", "256"])
    mariadb(ends, folder, ports["mariadb"])
    return ports


def sweep(name, port, has_pipeline, folder):
    """Sweeps a system, as the article's author does."""
    load = [OVERHEAD, "bench", name, "--server", f"127.0.0.1:{port}", "--rows", "200", "--operation", "read,insert", "--payload", "{size}"]
    load += ["--ops", str(OPERATIONS), "-q", "--format", "json", "-o", "bench.json"]
    vary = ["--vary", f"size={SIZES}"]
    if has_pipeline:
        load += ["--pipeline", "{depth}"]
        vary += ["--vary", f"depth={DEPTHS}"]
    made = command(OVERHEAD, "sweep", *vary, "--runs", str(RUNS), "--warmup-runs", "0", "-i", "lo", "--db", name, "--port", str(port), "-q", "--as-root",
                   "-o", folder / f"sweep-{name}", "--", *[word for word in load if word not in ("-o", "bench.json")])
    check(f"the sweep of {name} is complete", (made.returncode, made.stderr[-300:]), (0, ""))


def records(folder, name):
    return [json.loads(path.read_text()) for path in sorted((folder / f"sweep-{name}").glob("*/run-*/run.json"))]


def cost(folder, name, **values):
    """Returns the least whole cost of the runs with these values."""
    of = [run["whole"]["wire_bytes_per_operation"] for run in records(folder, name) if values.items() <= run["parameters"].items()]
    return min(of)


def drawn(folder):
    """Draws the article's charts, and checks what it prints and writes."""
    report = folder / "report"
    sweeps = [folder / f"sweep-{name}" for name in SYSTEMS]
    made = command(OVERHEAD, "report", *sweeps, "--x", "depth", "--series", "system", "--facet", "size", "--title", "Four servers", "-o", report)
    check("the report is complete", (made.returncode, made.stderr), (0, ""))
    sentences = " ".join(made.stdout.split())
    check("a sentence compares them under its conditions", all(word in sentences for word in ["At depth = ", "setup included", "round trips", "PostgreSQL"]))
    charts = ["bytes", "accounts", "operations", "round-trips", "frames", "calls", "cpu", "rate", "latency"]
    check("all charts are there", [name for name in charts if not (report / f"{name}.png").is_file()], [])
    check("each has the title", [name for name in charts if "Four servers" not in (report / f"{name}.svg").read_text()], [])
    page = (report / "index.html").read_text()
    check("the page has the method, with the date", "Method" in page and time.strftime("%Y-", time.gmtime()) in page)
    check("without a mark of an incomplete run", "Hollow:" in page, False)
    if shutil.which("rsvg-convert"):
        converted = [run(["rsvg-convert", report / f"{name}.svg", "-o", folder / f"{name}-rsvg.png"]).returncode for name in charts]
        check("librsvg draws each", converted, [0] * len(charts))


require_root("memcached", "mariadbd", "redis-server")
with contextlib.ExitStack() as ends, tempfile.TemporaryDirectory(prefix="overhead-article-") as place:
    os.chmod(place, 0o755)
    ports = servers(ends, pathlib.Path(place))
    folder = ARGUMENTS.keep or pathlib.Path(place)
    folder.mkdir(exist_ok=True)
    begun = time.monotonic()
    for name, has_pipeline in SYSTEMS.items():
        sweep(name, ports[name], has_pipeline, folder)
    refused = run([OVERHEAD, "bench", "mariadb", "--server", f"127.0.0.1:{ports['mariadb']}", "--pipeline", "4", "--ops", "4"])
    check("a pipeline of MariaDB is refused", (refused.returncode, "--multi-key on" in refused.stderr), (2, True))
    runs = len(SIZES.split(",")) * RUNS
    wanted = {name: runs * (len(DEPTHS.split(",")) if has_pipeline else 1) for name, has_pipeline in SYSTEMS.items()}
    check("each run has a record", {name: len(records(folder, name)) for name in SYSTEMS}, wanted)
    for name in ["redis", "postgres"]:
        check(f"a pipeline saves bytes of {name}", cost(folder, name, depth="16", size="16") < cost(folder, name, depth="1", size="16") - 40)
    check("a row of PostgreSQL needs more than a value of Redis", cost(folder, "postgres", depth="16", size="16") > cost(folder, "redis", depth="16", size="16"))
    drawn(folder)
    print(f"# {len(COMMANDS)} commands, {time.monotonic() - begun:.0f} s")
finish()
