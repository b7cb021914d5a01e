#!/usr/bin/env -S python3 -B
"""lab/test/unix.py [BINARY]: UNIX sockets against real servers, their own counters, and the same load over TCP.

Starts servers of its own in a folder of its own, on ports 21511 to 21514, and ends with a line like that of cargo test.
Needs root's rights and Linux 6.3; a server that is not installed is skipped.
"""

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
import testing
from testing import OVERHEAD, PAYLOAD, ROOT, captured, check, connect, finish, memcached_counters, read_again, redis_counters, require_root, run, skip, start, wait_for, workload


class Lab:
    """A folder, and what is to be ended."""

    def __init__(self, folder, ends):
        self.folder, self.ends = folder, ends

    def serve(self, words, path):
        """Starts a server, whose words are in a log beside its socket."""
        with open(f"{path}.log", "wb") as log:
            server = start(self.ends, words, stdout=log, stderr=log)
        wait_for(lambda: path.exists() or server.poll() is not None, path)
        return server

    def capture(self, run, options, command):
        return captured(self.folder / run, *options, command=command)


def side(record, name):
    return sum(record["ledger"][name].values())


def by_operation(record):
    """Counts and payload accounts by operation; a connection's own frames are of TCP alone."""
    rows = {}
    for row in record["operations"]:
        if row["name"] != "CONNECT":
            accounts = [[row[end]["accounts"][account] for account in PAYLOAD] for end in ("request", "response")]
            rows[f"{row['class']} {row['name']} {row['via']}"] = [row["count"], row["errors"], *accounts]
    return rows


def whole(name, status, record):
    testing.whole(name, status, record)
    check(f"{name}: no link", record["transport"], "unix")


def dissected(lab, name, field):
    """The frames of a run in which Wireshark's own dissector finds a field."""
    packets = lab.folder / name / "packets.pcapng"
    return len(run(["tshark", "-r", packets, "-Y", field, "-T", "fields", "-e", "frame.number"]).stdout.splitlines())


def redis_totals(path):
    """What the server has read and written, and what asking costs."""
    with connect(path) as connection:
        counted = redis_counters(connection)
    return counted["total_net_input_bytes"], counted["total_net_output_bytes"], counted["length"]


def redis(lab):
    if not shutil.which("redis-server"):
        return skip("redis", "no redis-server")
    path = lab.folder / "redis.sock"
    server = testing.Redis(lab.ends, lab.folder, 21511, "--unixsocket", str(path)).process
    asking = len("INFO everything\r\n")
    for name, options in (("one by one", []), ("16 at once", ["-P", "16"])):
        before = redis_totals(path)
        command = ["redis-benchmark", "-s", path, "-q", "-n", "20000", "-t", "set,get,mset", "-d", "100", *options]
        status, record, _ = lab.capture("redis", ["--unix", path, "--db", "redis"], map(str, command))
        after = redis_totals(path)
        whole(f"redis {name}", status, record)
        # The request of the second look counts, and the response of the first.
        moved = after[0] - before[0] - asking, after[1] - before[1] - before[2]
        check(f"redis {name}: the server's own bytes", (side(record, "request"), side(record, "response")), moved)
        check(f"redis {name}: operations", (workload(record, "SET"), workload(record, "GET")), (20000, 20000))
        shares = [record["counters"][end].get("coverage") for end in ("server", "client")]
        check(f"redis {name}: the sockets' own bytes", shares, [1.0, 1.0])
        over_tcp = ["redis-benchmark", "-p", "21511", *map(str, command[3:])]
        _, over_tcp, _ = lab.capture("redis-tcp", ["--db", "redis", "--port", "21511"], over_tcp)
        check(f"redis {name}: as over TCP", by_operation(record) == by_operation(over_tcp))
    read_again("redis", lab.folder / "redis", record)
    if shutil.which("tshark"):
        frames = record["source"]["frames"] - record["tcp"]["control_frames"]
        check("redis: tshark reads it as RESP", dissected(lab, "redis", "resp") >= frames)
    status, record, _ = lab.capture("astray", ["-i", "lo", "-p", server.pid, "--db", "redis", "--port", "21511"],
                                       ["redis-benchmark", "-s", str(path), "-q", "-n", "100", "-t", "get"])
    check("packets where a UNIX socket is used: status", status, 1)
    check("packets where a UNIX socket is used: what to type", f"--unix {path}" in " ".join(record["warnings"]))
    beside(lab, path)
    many(lab, path)
    short(lab, path)
    killed(lab, path)
    before_us(lab, path)
    limits(lab, path)


def beside(lab, path):
    """`--db` finds the sockets of its servers, and captures them and the loopback in one run."""
    load = "redis-benchmark {} -q -n 3000 -c 4 -t set,get -d 50"
    ways = {"unix": load.format(f"-s {path}"), "tcp": load.format("-p 21511")}
    ways["mixed"] = " && ".join(ways.values())
    records = {}
    for way, script in ways.items():
        status, record, said = lab.capture(f"beside-{way}", ["--db", "redis", "--port", "21511"], ["sh", "-c", script])
        records[way] = record
        check(f"found by --db, {way}: complete", (status, record["exit"], record["transport"]), (0, 0, way))
        lost = record["source"]["kernel_drops"], record["tcp"]["gap_bytes"], record["ledger"]["balanced"]
        check(f"found by --db, {way}: nothing lost, and balanced", lost, (0, 0, True))
        shares = [record["counters"][end].get("coverage") for end in ("server", "client")]
        check(f"found by --db, {way}: the sockets' own bytes", all(abs(share - 1) < 0.001 for share in shares), True)
        read_again(f"found by --db, {way}", lab.folder / f"beside-{way}", record)
    rows = {way: by_operation(record) for way, record in records.items()}
    check("found by --db: as over TCP", rows["unix"] == rows["tcp"])
    both = {name: [2 * row[0], 2 * row[1], *[[2 * n for n in side] for side in row[2:]]] for name, row in rows["tcp"].items()}
    check("found by --db: both together", rows["mixed"] == both)
    _, record, _ = lab.capture("beside-lo", ["-i", "lo", "--db", "redis", "--port", "21511"], ["sh", "-c", ways["mixed"]])
    check("an interface that is named is all", (record["transport"], by_operation(record) == rows["tcp"]), ("tcp", True))
    _, record, _ = lab.capture("beside-named", ["-i", "lo", "--unix", path, "--db", "redis", "--port", "21511"],
                               ["sh", "-c", ways["mixed"]])
    check("an interface and a socket, named", (record["transport"], by_operation(record) == both), ("mixed", True))
    bench(lab, "redis", path)


def bench(lab, db, path):
    if not pathlib.Path(OVERHEAD).with_name("overhead-bench").exists():
        return
    command = [OVERHEAD, "bench", db, "--server", f"unix:{path}", "--operation", "read,insert", "--ops", "200", "--clients", "2"]
    if "has no driver" in run(command).stderr:
        return print(f"unix {db}: bench over its socket ... skipped: the one beside this binary was built without its driver")
    status, record, said = lab.capture(f"bench-{db}", ["--unix", path, "--db", db], command)
    check(f"{db}: bench over its socket", (status, record["exit"]), (0, 0))
    names = {"redis": ("GET", "SET"), "memcached": ("get", "set")}[db]
    check(f"{db}: what bench did", all(workload(record, name) >= 200 for name in names))


def many(lab, path):
    script = ("import socket,sys\nall=[]\n"
              "for _ in range(1000):\n s=socket.socket(socket.AF_UNIX);s.connect(sys.argv[1]);s.sendall(b'PING\\r\\n');all.append(s)\n"
              "for s in all: assert s.recv(7)==b'+PONG\\r\\n'\n")
    status, record, _ = lab.capture("many", ["--unix", path, "--db", "redis"], [sys.executable, "-c", script, str(path)])
    whole("1,000 connections", status, record)
    check("1,000 connections: each", (record["tcp"]["connections"], workload(record, "PING")), (1000, 1000))


def short(lab, path):
    """Each connection is seen for the first time by both ends at once: what one of them writes then must not be missed."""
    status, record, _ = lab.capture("short", ["--unix", path, "--db", "redis", "-B", "256M"],
                                    ["redis-benchmark", "-q", "-s", path, "-t", "get", "-n", "20000", "-c", "50", "-k", "0"])
    whole("20,000 short connections", status, record)
    check("20,000 short connections: each, and the benchmark's own", (record["tcp"]["connections"], workload(record, "GET")),
          (20001, 20000))


def killed(lab, path):
    script = ("import os,signal,socket,sys\ns=socket.socket(socket.AF_UNIX);s.connect(sys.argv[1])\n"
              "s.sendall(b'PING\\r\\n');s.recv(7);s.sendall(b'*3\\r\\n$3\\r\\nSET\\r\\n$1\\r\\nk\\r\\n$1000\\r\\nhalf a value')\n"
              "os.kill(os.getpid(),signal.SIGKILL)\n")
    _, record, _ = lab.capture("killed", ["--unix", path, "--db", "redis"],
                               ["sh", "-c", f"{sys.executable} -c \"$1\" {path} || true", "sh", script])
    whole("a client killed in the middle", 0, record)
    unmatched = sum(row["count"] for row in record["operations"] if row["class"] == "unmatched")
    check("a client killed in the middle: what it left", (workload(record, "PING"), unmatched), (1, 1))


def before_us(lab, path):
    with connect(path) as old:
        process = subprocess.Popen([OVERHEAD, "capture", "--unix", path, "--db", "redis", "-o", lab.folder / "old", "--force", "-q",
                                    "--ops", "10"], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        for _ in range(2000):
            old.sendall(b"PING\r\n")
            old.recv(7)
            if process.poll() is not None:
                break
            time.sleep(0.005)
        status = process.wait()
    record = json.loads((lab.folder / "old/run.json").read_text())
    check("a connection from before: status, by --ops", status, 0)
    check("a connection from before: operations", workload(record, "PING") >= 10)


def limits(lab, path):
    status, record, _ = lab.capture("limit", ["--unix", path, "--db", "redis", "-s", "64"],
                                    ["redis-benchmark", "-s", str(path), "-q", "-n", "100", "-c", "1", "-t", "set", "-d", "1000"])
    check("64 bytes of each call: partial", (status, record["exit"]), (3, 3))
    row = next(row for row in record["operations"] if row["name"] == "SET")
    check("64 bytes of each call: lengths are exact", row["request"]["payload_bytes"]["p50"], 1045)
    status, _, said = testing.capture(lab.folder / "none", "--unix", "auto", "--db", "ssdb", command=["true"])
    check("no known server: said", (status, "no known server listens" in said), (1, True))


def memcached(lab):
    if not shutil.which("memcached"):
        return skip("memcached", "no memcached")
    path = lab.folder / "memcached.sock"
    lab.serve(["memcached", "-u", "root", "-s", path, "-a", "777", "-m", "64", "-t", "2"], path)

    def totals():
        with connect(path) as connection:
            counted = memcached_counters(connection)
        return counted["bytes_read"], counted["bytes_written"], counted["length"]

    over_tcp = ["memcached", "-u", "root", "-l", "127.0.0.1", "-p", "21514", "-m", "64", "-t", "2"]
    start(lab.ends, over_tcp)
    connect(("127.0.0.1", 21514)).close()
    for name, at_once in (("one by one", 1), ("16 at once", 16)):
        command = [sys.executable, "-c", MEMCACHED_LOAD, str(at_once)]
        before = totals()
        status, record, _ = lab.capture("memcached", ["--unix", "auto", "--db", "memcached"], [*command, path])
        after = totals()
        whole(f"memcached {name}", status, record)
        moved = after[0] - before[0] - len("stats\r\n"), after[1] - before[1] - before[2]
        check(f"memcached {name}: the server's own bytes", (side(record, "request"), side(record, "response")), moved)
        check(f"memcached {name}: operations", (workload(record, "set"), workload(record, "get")), (2000, 2000))
        options = ["-i", "lo", "--db", "memcached", "--port", "21514"]
        _, over_tcp, _ = lab.capture("memcached-tcp", options, [*command, "21514"])
        check(f"memcached {name}: as over TCP", by_operation(record) == by_operation(over_tcp))
    read_again("memcached", lab.folder / "memcached", record)
    if shutil.which("tshark"):
        check("memcached: tshark reads it", dissected(lab, "memcached", "memcache"), record["source"]["frames"] - record["tcp"]["control_frames"])
    bench(lab, "memcached", path)


# `set` and `get` of two keys, so many pairs in one write; to a path, or to a port.
MEMCACHED_LOAD = """
import socket, sys
at_once, place = int(sys.argv[1]), sys.argv[2]
s = socket.create_connection(("127.0.0.1", int(place))) if place.isdigit() else socket.socket(socket.AF_UNIX)
if not place.isdigit():
    s.connect(place)
f = s.makefile("rb")
for first in range(0, 2000, at_once):
    numbers = range(first, min(first + at_once, 2000))
    pair = lambda i: b"set key:%d 0 0 %d\\r\\n%s\\r\\nget key:%d key:%d\\r\\n" % (i, i % 300, b"v" * (i % 300), i, i // 2)
    s.sendall(b"".join(map(pair, numbers)))
    for _ in numbers:
        f.readline()
        while f.readline() != b"END\\r\\n":
            pass
"""


def postgres(lab):
    folder = testing.postgres(lab.ends, lab.folder, 21512)
    if not folder:
        return skip("postgres", "no PostgreSQL")
    path = folder / ".s.PGSQL.21512"
    psql = ["psql", "-X", "-q", "-p", "21512", "-U", "postgres", "-v", "ON_ERROR_STOP=1"]
    script = lab.folder / "session.sql"
    script.write_text("create table t (id int, v text);\ninsert into t select n, repeat('x', n % 90) from generate_series(1, 3000) n;\n"
                      + "".join(f"select * from t where id = {n};\n" for n in range(200))
                      + "select * from t;\ncopy t to stdout;\ndrop table t;\n")
    records = []
    for name, options, place in (("pg-unix", ["--unix", path], folder), ("pg-tcp", ["--port", "21512"], "127.0.0.1")):
        plain = ["env", "PGSSLMODE=disable", "PGGSSENCMODE=disable"]
        status, record, _ = lab.capture(name, [*options, "--db", "postgres"], [*plain, *psql, "-h", str(place), "-f", str(script)])
        records.append(record)
        check(f"{name}: complete", status, 0)
    whole("postgres", 0, records[0])
    check("postgres: as over TCP", by_operation(records[0]) == by_operation(records[1]))
    read_again("postgres", lab.folder / "pg-unix", records[0])
    if shutil.which("tshark"):
        check("postgres: tshark reads its statements", dissected(lab, "pg-unix", 'pgsql.query contains "where id = "'), 200)


def every_call(lab):
    """Servers of our own that read and write by other calls."""
    script = ("import socket,sys\ns=socket.socket(socket.AF_UNIX);s.connect(sys.argv[1]);f=s.makefile('rb')\n"
              "for n in (0,1,100,4000,70000,1000000)[:int(sys.argv[2])]:\n s.sendall(b'GET %d\\r\\n'%n)\n"
              " assert f.readline()==b'$%d\\r\\n'%n;f.read(n+2)\n")
    # How each server writes, how many of the sizes it is asked for, and the call whose bytes are in no buffer of the process.
    ways = (("vectors", 6, None), ("messages", 6, None), ("many", 4, None), ("ring", 6, None), ("ring-write", 6, None),
            ("ring-writev", 6, None), ("ring-sendmsg", 6, None), ("file", 4, "sendfile"), ("splice", 4, "splice"),
            ("ring-splice", 4, "io_uring_enter"))
    for how, sizes, call in ways:
        path = lab.folder / f"{how}.sock"
        server = lab.serve([sys.executable, ROOT / "lab/test/files/unix-server.py", how, path], path)
        name = f"a server with {call or how}"
        time.sleep(0.1)
        if server.poll() is not None:
            skip(name, pathlib.Path(f"{path}.log").read_text().strip())
            continue
        options = ["--unix", path, "--db", "redis", *([] if call else ["-p", server.pid])]
        status, record, _ = lab.capture(how, options, [sys.executable, "-c", script, str(path), str(sizes)])
        wanted = sum(len(f"${n}\r\n\r\n") + n for n in (0, 1, 100, 4000, 70000, 1000000)[:sizes])
        if call:
            named = any(call in warning for warning in record["warnings"])
            check(f"{name}: partial, and named", (status, record["exit"], named), (3, 3, True))
            check(f"{name}: lengths are exact", side(record, "response"), wanted)
        else:
            whole(name, status, record)
            check(f"{name}: bytes", (workload(record, "GET"), side(record, "response")), (sizes, wanted))


def main():
    require_root()
    with tempfile.TemporaryDirectory(prefix="overhead-unix-", ignore_cleanup_errors=True) as folder, contextlib.ExitStack() as ends:
        os.chmod(folder, 0o755)
        lab = Lab(pathlib.Path(folder), ends)
        for part in (redis, memcached, postgres, every_call):
            part(lab)
    finish()


main()
