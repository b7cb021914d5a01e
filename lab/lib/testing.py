"""What the Python tests of lab/test share: checks and their counts, servers' answers, the last line."""

import collections
import pathlib
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
TEST = pathlib.Path(sys.argv[0]).name
counts = collections.Counter()


def check(name, found, wanted=True):
    word = "ok" if found == wanted else f"FAILED: wanted {wanted}, found {found}"
    print(f"{TEST} {name} ... {word}", flush=True)
    counts["passed" if found == wanted else "failed"] += 1
    return found == wanted


def skip(name, why):
    print(f"{TEST} {name} ... skipped: {why}", flush=True)
    counts["skipped"] += 1


def run(words, **options):
    return subprocess.run([str(word) for word in words], capture_output=True, text=True, **options)


def wait_for(condition, what, seconds=20):
    """Returns what the condition gives once it gives something."""
    deadline = time.monotonic() + seconds
    while not (found := condition()):
        if time.monotonic() > deadline:
            raise TimeoutError(f"waited {seconds} s for {what}")
        time.sleep(0.02)
    return found


def workload(record, name="GET"):
    """Returns how many operations of this name a record has."""
    return sum(row["count"] for row in record["operations"] if row["class"] == "workload" and row["name"] == name)


def finish():
    """Prints the last line, like that of cargo test, and ends with its status."""
    word = "FAILED" if counts["failed"] else "ok"
    print(f"test result: {word}. {counts['passed']} passed; {counts['failed']} failed; {counts['skipped']} ignored")
    sys.exit(1 if counts["failed"] else 0)
