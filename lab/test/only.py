#!/usr/bin/env -S python3 -B
"""lab/test/only.py [BINARY]: `capture --only-command` beside other clients of real servers, against the servers' own counts.

Starts servers of its own in a folder and a network namespace of its own, and ends with a line like that of cargo test.
Needs root's rights; a server that is not installed is skipped.
"""

import contextlib
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "lib"))
import testing
from testing import OVERHEAD, captured, check, finish, must, network, read_again, require_root, run, skip, start, wait_for, workload

REDIS, POSTGRES, TRANSLATED = 21521, 21522, 21523

# Asks GET and ECHO on one connection (long) or on a new one each time (short), and prints how many GETs were answered.
CLIENT = """
import signal, socket, sys
how, count, ended = sys.argv[1], 0, []
host, port = sys.argv[3:] or ("127.0.0.1", 21521)
signal.signal(signal.SIGTERM, lambda *_: ended.append(1))
connection = None
while not ended and count < int(sys.argv[2]):
    connection = connection or socket.create_connection((host, int(port)))
    for request in (b"GET other\\r\\n", b"ECHO other\\r\\n"):
        connection.sendall(request)
        connection.recv(100)
    count += 1
    if how == "short":
        connection.close()
        connection = None
print(count)
"""


class Lab:
    """A folder, a Redis, and what is to be ended."""

    def __init__(self, folder, ends):
        self.folder, self.ends = folder, ends
        self.redis = testing.Redis(ends, folder, REDIS)

    def client(self, how, *server):
        return start(self.ends, client(how, 10**9, *server), stdout=subprocess.PIPE, text=True)

    def capture(self, name, db, port, options, command, interface="lo"):
        options = ["-i", interface, "--only-command", "--db", db, "--port", port, *options]
        return captured(self.folder / name, *options, command=command)


def client(how, count, *server):
    return [sys.executable, "-c", CLIENT, how, count, *server]


def ended(others):
    """Ends other clients, and returns how many GETs they made. They go on to the end of their last round."""
    for process in others:
        process.terminate()
    return sum(int(process.communicate()[0]) for process in others)


def beside(lab, name, others, options, command):
    """Captures a command beside other clients. Also returns how many GETs the server executed for the command."""
    before = lab.redis.gets()
    rest = [lab.client(how) for how in others]
    wait_for(lambda: lab.redis.gets() > before + 100 * len(rest), "the other clients")
    status, record, said = lab.capture(name, "redis", REDIS, options, command)
    theirs = ended(rest)
    return status, record, said, lab.redis.gets() - before - theirs


def whole(name, status, record):
    testing.whole(name, status, record)
    only = record["source"]["only_command"]
    check(f"{name}: every owner known", only["undetermined"], 0)
    check(f"{name}: nothing of the others", workload(record, "ECHO"), 0)
    left_out = [warning for warning in record["warnings"] if "of other processes" in warning]
    check(f"{name}: the others are counted", only["left_out"] > 0 and left_out[0].startswith(f"{only['left_out']:,} connection"))


def packets(lab, name, record):
    """The packet file has the same connections, by Wireshark's count too."""
    again = read_again(name, lab.folder / name, record)
    check(f"{name}: read again, what was left out", again["source"]["only_command"], record["source"]["only_command"])
    if not shutil.which("tshark"):
        return
    file = lab.folder / name / record["source"]["inputs"][0]["path"]
    fields = run(["tshark", "-r", file, "-T", "fields", "-e", "tcp.flags.syn", "-e", "tcp.flags.ack"]).stdout.split("\n")[:-1]
    opened = sum(field.lower() in ("1\t0", "true\tfalse") for field in fields)
    check(f"{name}: tshark's frames and connections", (len(fields), opened), (record["source"]["frames"], record["tcp"]["connections"]))


def redis(lab):
    load = ["redis-benchmark", "-q", "-p", REDIS, "-t", "get"]
    command = [*load, "-n", 20000, "-c", 5]
    status, record, _, executed = beside(lab, "long", ["long", "short"], [], command)
    whole("long", status, record)
    check("long: as the server counts", (workload(record, "GET"), executed), (20000, 20000))
    # The benchmark reads the server's configuration on a connection of its own.
    check("long: connections", record["tcp"]["connections"], 6)
    packets(lab, "long", record)
    counters = record["counters"]
    check("long: the command is the client", (counters["client"]["comms"], counters["client"]["coverage"]), (["redis-benchmark"], 1.0))
    check("long: the server's work for all is not divided", "withheld" in counters["server"] and counters["server"]["coverage"] < 0.9)

    command = [*load, "-n", 20000, "-c", 20, "-k", 0]
    status, record, _, executed = beside(lab, "short", ["short", "long"], ["-B", "256M"], command)
    whole("short", status, record)
    check("short: as the server counts", (workload(record, "GET"), executed), (20000, 20000))
    # The benchmark ends while the last of its clients connect anew.
    check("short: connections", 20001 <= record["tcp"]["connections"] <= 20020)
    packets(lab, "short", record)

    status, record, _ = lab.capture("any", "redis", REDIS, ["-B", "256M"], command, "any")
    whole_of_any = record["exit"], workload(record), record["source"]["kernel_drops"], record["source"]["only_command"]["undetermined"]
    check("any: as the command asked", (status, *whole_of_any), (0, 0, 20000, 0, 0))

    # The client's parent and its parent end before it connects.
    script = "import os, sys; os.fork() and os._exit(0); os.setsid(); os.fork() and os._exit(0)\n" + CLIENT + "open('ended', 'w')\n"
    waits = 'rm -f ended; "$@"; while [ ! -e ended ]; do sleep 0.05; done'
    command = ["sh", "-c", waits, "sh", sys.executable, "-c", script, "short", 500]
    status, record, _, executed = beside(lab, "forked", ["short"], [], command)
    check("double fork: complete", (status, record["source"]["only_command"]["undetermined"]), (0, 0))
    check("double fork: as the server counts", (workload(record, "GET"), executed, record["tcp"]["connections"]), (500, 500, 500))
    parts(lab, load)
    benchmark(lab, "redis", REDIS, "GET")
    rows = testing.ask(testing.connect(("127.0.0.1", REDIS)), b"DBSIZE\r\n")
    check("bench redis: its rows are gone", rows, b":0\r\n")


def parts(lab, load):
    """With options that keep a part: windows, rotated files, a warm-up, a limit."""
    options = ["--sample", "300ms/600ms"]
    status, record, _, _ = beside(lab, "windows", ["long", "short"], options, [*load, "-n", 100000, "-c", 3])
    check("windows: complete", (status, record["source"]["only_command"]["undetermined"]), (0, 0))
    check("windows: a part of the command's", 0 < workload(record, "GET") < 100000 and workload(record, "ECHO") == 0)

    files = ["-C", "300k"]
    status, record, _, _ = beside(lab, "rotated", ["long"], files, [*load, "-n", 20000, "-c", 3])
    check("rotated: complete", (status, workload(record, "GET"), workload(record, "ECHO")), (0, 20000, 0))
    again = read_again("rotated", lab.folder / "rotated", record)
    check("rotated: several files", len(again["source"]["inputs"]) > 1)

    status, record, _, _ = beside(lab, "warm", ["short"], ["--warmup", "200ms"], [*load, "-n", 50000, "-c", 3])
    check("warm-up: the rest of the command's", (status, 0 < workload(record, "GET") < 50000, workload(record, "ECHO")), (0, True, 0))

    _, record, _, _ = beside(lab, "limit", ["short"], ["-c", 1000], [*load, "-n", 100000, "-c", 3])
    check("1,000 frames: of the command", (record["source"]["frames"], workload(record, "ECHO")), (1000, 0))

    status, record, _, _ = beside(lab, "idle", ["short"], [], ["sleep", 0.5])
    check("a command without connections: nothing", (status, record["exit"], record["source"]["frames"]), (1, 1, 0))


def translated(lab):
    """Behind an address translation of this host, which changes the server's address and port, and the client's address, then its port."""
    if not shutil.which("nft"):
        return skip("translated", "no nft")
    pathlib.Path("/run/netns").mkdir(exist_ok=True)
    must("mount", "-t", "tmpfs", "tmpfs", "/run/netns")
    network("overhead-only", "only0", "10.91.0")
    must("ip", "address", "add", "10.91.0.5/24", "dev", "only0")
    must("ip", "route", "add", "10.91.9.1/32", "dev", "only0")
    testing.Redis(lab.ends, lab.folder, REDIS, "--protected-mode", "no", inside=["ip", "netns", "exec", "overhead-only"], bind="10.91.0.2")
    rules = """table ip only {{
        chain out {{ type nat hook output priority -100
            ip daddr 10.91.9.1 tcp dport {0} dnat to 10.91.0.2:{1}
        }}
        chain post {{ type nat hook postrouting priority 100
            ip daddr 10.91.0.2 tcp dport {1} ct status dnat snat to 10.91.0.5{2}
        }}
    }}"""
    other, server = ["--port", TRANSLATED], ("10.91.9.1", TRANSLATED)
    for name, ports, interface, more, wanted in (
        ("translated", other, "only0", "", (0, 300, 0)),
        ("translated, any", other, "any", "", (0, 300, 0)),
        ("translated, the server's port only", [], "only0", "", (1, 0, 0)),
        ("translated to other client ports", other, "only0", ":40000-60000 fully-random", (3, 0, 300)),
    ):
        run(["nft", "delete", "table", "ip", "only"])
        must("nft", "-f", "-", input=rules.format(TRANSLATED, REDIS, more))
        rest = lab.client("long", *server)
        _, record, _ = lab.capture("translated", "redis", REDIS, ports, client("short", 300, *server), interface)
        ended([rest])
        found = record["exit"], workload(record), record["source"]["only_command"]["undetermined"]
        check(f"{name}: exact, or said", found, wanted)
        hint = any("an address translation changed their port" in warning for warning in record["warnings"])
        check(f"{name}: another port is named", hint, not ports)


def benchmark(lab, db, port, name):
    """A benchmark makes its rows before the capture, and removes them after it."""
    command = [OVERHEAD, "bench", db, "--server", f"127.0.0.1:{port}", "--ops", 500, "--rows", 100]
    status, record, _ = lab.capture(f"bench-{db}", db, port, [], command)
    rows = [(row["name"], row["count"]) for row in record["operations"] if row["class"] == "workload"]
    check(f"bench {db}: what it measures, and nothing else", (status, rows), (0, [(name, 500)]))


def postgres(lab):
    if not testing.postgres(lab.ends, lab.folder, POSTGRES):
        return skip("postgres", "no PostgreSQL")
    here = ["-h", "127.0.0.1", "-p", POSTGRES, "-U", "postgres"]
    run(["pgbench", "-q", "-i", *here, "postgres"], check=True)
    other = start(lab.ends, ["sh", "-c", 'while psql -X -q "$@" -c "select 4711"; do :; done', "sh", *here])
    for name, load in (("pgbench", ["-c", 2]), ("pgbench anew", ["-c", 2, "-C"])):
        command = ["env", "PGSSLMODE=disable", "PGGSSENCMODE=disable", "pgbench", "-n", "-S", "-t", 200, *load, *here, "postgres"]
        status, record, _ = lab.capture("postgres", "postgres", POSTGRES, [], command)
        check(f"{name}: complete", (status, record["exit"], record["source"]["only_command"]["undetermined"]), (0, 0, 0))
        rows = [row for row in record["operations"] if row["class"] == "workload" and row["name"] == "SELECT"]
        transactions = sum(of["count"] for row in rows for of in row["statements"] if "pgbench_accounts" in of["text"])
        strange = [of["text"] for row in rows for of in row["statements"] if "pgbench" not in of["text"] and "pg_" not in of["text"]]
        check(f"{name}: its transactions, and no other", (transactions, strange), (400, []))
        check(f"{name}: psql is left out", record["source"]["only_command"]["left_out"] > 0)
    other.terminate()
    benchmark(lab, "postgres", POSTGRES, "SELECT")


def main():
    require_root("redis-server", "redis-benchmark", namespaces=("--net", "--mount"))
    run(["ip", "link", "set", "lo", "up"], check=True)
    with tempfile.TemporaryDirectory(prefix="overhead-only-", ignore_cleanup_errors=True) as folder, contextlib.ExitStack() as ends:
        os.chmod(folder, 0o755)
        lab = Lab(pathlib.Path(folder), ends)
        for part in (redis, postgres, translated):
            part(lab)
    finish()


main()
