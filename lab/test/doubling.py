#!/usr/bin/env -S python3 -B
"""lab/test/doubling.py BINARY [--size BYTES] [--only WORD]… [--verb VERB]… [--time] [--jobs N]: what hostile captures cost, and twice as much of them.

Makes each capture of lab/lib/adversary.py at a size [1000000], at twice that and at eight times that. Every verb reads them, and so does
overhead-export if it lies beside BINARY. Prints a table with three figures for each verb: the ratio of instructions (callgrind) for twice
the bytes, the instructions for the larger of the two in millions, and the peak memory at eight times the size in MiB. Fails if a ratio
exceeds 2.5, if memory exceeds 640 MiB, or if a verb crashes. Ends with a line like that of cargo test.
--time takes processor time in place of instructions, which is quicker and less exact. It compares the size with eight times the size, for
three doublings at once, and judges nothing that takes less than 0.2 s.
"""

import argparse
import os
import resource
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from math import log2
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "lib"))
import adversary
import callgrind
from testing import check, finish

MOST_MIB, MOST_SECONDS = 640, 600
# Quadratic work comes to 4. Caches and the allocator add to the time, not to the instructions.
MOST_RATIO = {"instructions": 2.5, "seconds": 3.2}
# Bytes for which memory is measured, in sizes.
LARGE = 8
# Most of a small cost is starting up, and its ratio means nothing.
LEAST = {"instructions": 30e6, "seconds": 0.2}
# A damaged capture is read all the same; explain has no such operation to show.
STATUSES = (0, 1, 3)


def verbs(binary, capture, out):
    record = ["--format", "json", "-q"]
    found = {
        "analyze": [binary, "analyze", capture, *record],
        "fields": [binary, "analyze", capture, "--fields", *record],
        "explain": [binary, "explain", capture, "--nth", "1000000"],
        "advise": [binary, "advise", capture],
        "anonymise": [binary, "analyze", capture, "--anonymise", f"{out}.pcapng", *record],
        "top": [binary, "top", capture, "--once", "--by", "statement"],
    }
    export = Path(binary).with_name("overhead-export")
    if export.exists():
        found["export"] = [export, capture, "-o", out, "-q"]
    return found


@dataclass(frozen=True)
class Cost:
    """What a command came to: seconds of processors, MiB at most, exit status."""

    seconds: float
    mib: float
    status: int


def measured(command):
    started = subprocess.Popen(["timeout", str(MOST_SECONDS), *command], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    _, status, used = os.wait4(started.pid, 0)
    started.returncode = os.waitstatus_to_exitcode(status)
    return Cost(used.ru_utime + used.ru_stime, used.ru_maxrss / 1024, started.returncode)


def instructions(command):
    """Returns how many instructions the command executes; infinity if it does not end."""
    try:
        return callgrind.instructions(command, STATUSES, MOST_SECONDS)
    except subprocess.TimeoutExpired:
        return float("inf")


def compared(binary, name, args, folder):
    """Returns the cells of a generator by verb, and what is wrong."""
    captures, cells, faults = [], {}, []
    for times in (1, LARGE) if args.time else (1, 2, LARGE):
        path = Path(folder) / f"{name}-{times}.pcap"
        with open(path, "wb") as file:
            for piece in adversary.GENERATORS[name](args.size * times):
                file.write(piece)
        captures.append(path)
    growth = captures[1].stat().st_size / captures[0].stat().st_size
    unit = "seconds" if args.time else "instructions"
    for verb in args.verb:
        with tempfile.TemporaryDirectory(dir=folder) as work:
            commands = [verbs(binary, path, Path(work) / path.stem)[verb] for path in captures]
            cost = measured(commands[-1])
            less, more = (measured(commands[0]).seconds, cost.seconds) if args.time else map(instructions, commands[:2])
        # A generator that makes whole messages may not double: what it made counts.
        ratio = (more / max(less, 1e-2)) ** (1 / log2(max(growth, 1.5)))
        if growth > 1.5 and more > LEAST[unit] and ratio > MOST_RATIO[unit]:
            faults.append(f"{name}, {verb}: {ratio:.2f} times for twice the bytes")
        if cost.mib > MOST_MIB:
            faults.append(f"{name}, {verb}: {cost.mib:.0f} MiB")
        if cost.status not in STATUSES:
            faults.append(f"{name}, {verb}: status {cost.status}")
        amount = f"{more:.2f} s" if args.time else f"{more / 1e6:,.0f}"
        cells[verb] = f"{ratio:.2f}, {amount}, {cost.mib:.0f}"
    for path in captures:
        path.unlink()
    return cells, faults


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("binary", type=os.path.abspath)
    parser.add_argument("--size", type=int, default=1_000_000)
    parser.add_argument("--only", action="append", default=[], metavar="WORD")
    parser.add_argument("--verb", action="append", default=[], metavar="VERB")
    parser.add_argument("--time", action="store_true")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    args = parser.parse_args()
    names = [name for name in adversary.GENERATORS if not args.only or any(word in name for word in args.only)]
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    args.verb = args.verb or list(verbs(args.binary, "", ""))
    found = {}
    print("| capture |", " | ".join(args.verb), "|")
    print("| --- |" + " --- |" * len(args.verb))
    with tempfile.TemporaryDirectory(prefix="doubling.") as folder, ThreadPoolExecutor(args.jobs) as pool:
        for name, future in [(name, pool.submit(compared, args.binary, name, args, folder)) for name in names]:
            cells, found[name] = future.result()
            print(f"| {name} |", " | ".join(cells[verb] for verb in args.verb), "|", flush=True)
    for name, faults in found.items():
        check(name, faults, [])
    finish()


main()
