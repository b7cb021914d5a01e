"""What the Python tests of lab/test share: checks and their counts, servers' answers, the last line."""

import collections
import contextlib
import os
import pathlib
import shutil
import socket
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
TEST = pathlib.Path(sys.argv[0]).name
# The binary that is tested is the argument with a slash in it.
OVERHEAD = os.path.realpath(next((word for word in sys.argv[1:] if "/" in word), ROOT / "target/debug/overhead"))
# Payload accounts of the ledger.
PAYLOAD = ("tls", "framing", "metadata", "schema", "query", "data", "status", "unknown")
counts = collections.Counter()


def check(name, found, wanted=True):
    word = "ok" if found == wanted else f"FAILED: wanted {wanted}, found {found}"
    print(f"{TEST} {name} ... {word}", flush=True)
    counts["passed" if found == wanted else "failed"] += 1
    return found == wanted


def skip(name, why):
    print(f"{TEST} {name} ... skipped: {why}", flush=True)
    counts["skipped"] += 1


def require_root(*programs, namespaces=()):
    """Goes on as root, in new namespaces of these kinds; or else skips everything, if programs are missing, too."""
    missing = [name for name in programs if not shutil.which(name)]
    if os.geteuid() != 0 or missing:
        skip("all", f"{', '.join(missing)} is missing" if missing else "it takes root's rights")
    elif not namespaces or "OVERHEAD_TEST_INSIDE" in os.environ:
        return
    elif run(["unshare", *namespaces, "true"]).returncode:
        skip("all", "this machine gives root no namespaces")
    else:
        os.environ["OVERHEAD_TEST_INSIDE"] = "yes"
        os.execvp("unshare", ["unshare", *namespaces, "--propagation", "private", sys.executable, *sys.argv])
    finish()


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


def connect(place):
    """Returns a connection to (address, port), or to the path of a socket, once somebody listens there."""
    def attempt():
        with contextlib.suppress(OSError):
            if isinstance(place, tuple):
                return socket.create_connection(place, timeout=10)
            connection = socket.socket(socket.AF_UNIX)
            connection.connect(str(place))
            return connection
    return wait_for(attempt, f"somebody who listens on {place}")


def ask(connection, request, until=b"\r\n"):
    """Returns the answer, which ends with these bytes."""
    connection.sendall(request)
    answer = b""
    while not answer.endswith(until):
        part = connection.recv(65536)
        if not part:
            raise ConnectionError("the server closed the connection")
        answer += part
    return answer


def payload(record, side):
    return sum(record["ledger"][side][account] for account in PAYLOAD)


def workload(record, name="GET"):
    """Returns how many operations of this name a record has."""
    return sum(row["count"] for row in record["operations"] if row["class"] == "workload" and row["name"] == name)


def finish():
    """Prints the last line, like that of cargo test, and ends with its status."""
    word = "FAILED" if counts["failed"] else "ok"
    print(f"test result: {word}. {counts['passed']} passed; {counts['failed']} failed; {counts['skipped']} ignored")
    sys.exit(1 if counts["failed"] else 0)
