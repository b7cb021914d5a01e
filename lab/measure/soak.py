#!/usr/bin/python3 -B
"""lab/measure/soak.py [--seconds N] [--write] [BINARY]: a capture at full rate for ten minutes, and what it holds of memory, descriptors and maps.

Redis of its own is loaded by redis-benchmark without a pause, with and without pipelines, by new connections every few
seconds; the capture counts system calls, rotates its packets and is scraped. Memory is sampled every second: after a
warm-up the largest and the smallest value may lie 5% apart. Descriptors may not become more, and none of its BPF programs
and maps may be left. --write keeps samples that passed in docs/images/soak.csv and draws them. Needs root's rights.
"""

import argparse
import contextlib
import json
import os
import pathlib
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "lib"))
from testing import ROOT, Redis, check, finish, require_root

PORT = int(os.environ.get("OVERHEAD_SOAK_PORT", "7395"))
METRICS = f"127.0.0.1:{int(os.environ.get('OVERHEAD_SOAK_METRICS_PORT', '7396'))}"
# Of the time, and in seconds at most.
WARM_UP_SHARE, WARM_UP = 0.2, 60
ALLOWED = 0.05
# The samples, below a line about how they were taken.
RECORD = ROOT / "docs/images/soak.csv"
LOADS = [["-t", "get,set", "-r", "100000"], ["-t", "get,set", "-r", "100000", "-P", "16"]]


def load(stop):
    turn = 0
    while not stop.is_set():
        command = ["redis-benchmark", "-q", "-p", str(PORT), "-c", "50", "-n", "300000", "-d", "100", *LOADS[turn % len(LOADS)]]
        with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as running:
            while running.poll() is None:
                if stop.wait(0.2):
                    running.terminate()
        turn += 1


def memory(pid):
    """Resident and anonymous memory in kB."""
    fields = dict(line.split(":", 1) for line in pathlib.Path(f"/proc/{pid}/status").read_text().splitlines())
    return [int(fields[name].split()[0]) for name in ("VmRSS", "RssAnon")]


def descriptors(pid):
    return len(os.listdir(f"/proc/{pid}/fd"))


def objects_of(pid):
    """The BPF programs and maps that a process has open, by kind and id."""
    found = set()
    for entry in pathlib.Path(f"/proc/{pid}/fdinfo").iterdir():
        try:
            lines = entry.read_text().splitlines()
        except OSError:
            continue  # closed meanwhile
        fields = dict(line.split(":", 1) for line in lines if ":" in line)
        # A link names its program, too.
        found |= {(kind, int(fields[f"{kind}_id"])) for kind in ("prog", "map") if f"{kind}_id" in fields}
    return found


def objects():
    """Those that the kernel has at all."""
    found = set()
    for kind in ("prog", "map"):
        shown = subprocess.run(["bpftool", "-j", kind, "show"], capture_output=True, text=True, check=True)
        found |= {(kind, entry["id"]) for entry in json.loads(shown.stdout or "[]")}
    return found


def left_of(own):
    """Those that are left of a process that has ended: the kernel frees them a moment after it, later on a busy machine."""
    deadline = time.monotonic() + 30
    while (left := own & objects()) and time.monotonic() < deadline:
        time.sleep(0.5)
    return left


def soak(binary, seconds, work):
    """Returns a row for each second, descriptors at the end of the warm-up and at the end, and the objects left."""
    run = work / "run"
    command = [binary, "capture", "-i", "lo", "--db", "redis", "--port", str(PORT), "-C", "50", "-W", "4", "--metrics", METRICS]
    rows, stop = [], threading.Event()
    with open(work / "out", "w") as out, open(work / "err", "w") as err:
        capture = subprocess.Popen([*command, "-o", run, "-q"], stdout=out, stderr=err)
    loading = threading.Thread(target=load, args=[stop])
    loading.start()
    begun, warm_up = time.monotonic(), min(seconds * WARM_UP_SHARE, WARM_UP)
    at_warm_up, own, scrapes = None, set(), 0
    try:
        while (elapsed := time.monotonic() - begun) < seconds:
            if capture.poll() is not None:
                sys.exit(f"soak: the capture ended after {elapsed:.0f} s: {(work / 'err').read_text()}")
            rows.append([round(elapsed), *memory(capture.pid)])
            if at_warm_up is None and elapsed >= warm_up:
                at_warm_up, own = descriptors(capture.pid), objects_of(capture.pid)
            if len(rows) % 10 == 0:
                urllib.request.urlopen(f"http://{METRICS}/metrics", timeout=10).read()
                scrapes += 1
            time.sleep(max(0.0, len(rows) + begun - time.monotonic()))
        at_end = descriptors(capture.pid)
        own |= objects_of(capture.pid)
    finally:
        capture.send_signal(signal.SIGINT)
        stop.set()
        loading.join()
        capture.wait(60)
    return rows, warm_up, (at_warm_up, at_end), own, left_of(own), scrapes


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=int, default=600)
    parser.add_argument("--write", action="store_true", help="keep the samples in docs/images/soak.csv, and draw them")
    parser.add_argument("binary", nargs="?", default=ROOT / "target/release/overhead")
    arguments = parser.parse_args()
    os.environ["PATH"] += ":/usr/sbin"
    require_root("bpftool", "redis-server", "redis-benchmark")
    with tempfile.TemporaryDirectory(prefix="overhead-soak-") as folder, contextlib.ExitStack() as ends:
        Redis(ends, folder, PORT)
        rows, warm_up, (at_warm_up, at_end), own, left, scrapes = soak(arguments.binary, arguments.seconds, pathlib.Path(folder))
        record = json.loads(pathlib.Path(folder, "run/run.json").read_text())
        files = len(list(pathlib.Path(folder, "run").glob("packets-*.pcapng")))
    steady = [row[1] for row in rows if row[0] >= warm_up]
    spread = (max(steady) - min(steady)) / statistics.median(steady)
    operations = sum(row["count"] for row in record["operations"] if row["class"] == "workload")
    source, length = record["source"], rows[-1][0]
    said = (
        f"{operations / length:,.0f} operations and {source['frames'] / length:,.0f} frames per second for {length} s, "
        f"{source['kernel_drops']:,} frames dropped. After {warm_up:.0f} s, resident memory stays between {min(steady) * 1024 / 1e6:.1f} and "
        f"{max(steady) * 1024 / 1e6:.1f} MB, a range of {spread:.1%}. It counts the kernel's ring of frames twice, because that is mapped twice."
    )
    print(said, f"{source['rotation']['files']:,} packet files, {files} of them left; {scrapes} scrapes.")
    print(f"descriptors: {at_warm_up} after the warm-up, {at_end} at the end; BPF programs and maps: {len(own)}, {len(left)} left behind")
    if arguments.write and spread <= ALLOWED:
        lines = [f"# {said}", "seconds,rss_kb,anonymous_kb", *(",".join(map(str, row)) for row in rows)]
        RECORD.write_text("\n".join(lines) + "\n")
        command = ["cargo", "run", "--quiet", "--locked", "-p", "overhead-report", "--example", "memory_curve", "--", RECORD]
        subprocess.run(command, cwd=ROOT, check=True)
    check(f"memory is flat within {ALLOWED:.0%}", spread <= ALLOWED)
    check("descriptors did not become more", at_end <= at_warm_up)
    check("there were BPF programs and maps, and none is left", (bool(own), left), (True, set()))
    check("the ledger balances", record["ledger"]["balanced"])
    check("no more packet files are left than were asked for", files <= 4)
    finish()


main()
