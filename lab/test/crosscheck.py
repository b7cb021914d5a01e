#!/usr/bin/env -S python3 -B
"""lab/test/crosscheck.py [FOLDER…] | --counters SERVER… | --drivers [NAME…]: what overhead counts, held against those who count on their own.

With --counters: a load on each of these servers of the lab, and what they count on their own. With --drivers: the drivers that
people use, each against a real server, all of them or those named (`cql`, `resp/ioredis`); lab/test/drivers/README.md tells how.
Otherwise: messages by type in the fixtures of Redis, PostgreSQL, MySQL, memcached and HTTP against tshark, and a captured run of
each against what the server counts on its own: Redis' INFO stats (of Redis 8 by client, CLIENT LIST), MariaDB's and MySQL's SHOW GLOBAL STATUS,
memcached's stats, the lab's store over HTTP (/stats), and calls by statement PostgreSQL's pg_stat_statements. Not part of `make
test`, but for two servers' counters: tshark's versions differ in what they know.
Prints what it skipped. Builds what it needs, except for what the environment names: OVERHEAD (the binary) and COUNT_MESSAGES
(the example of that name in crates/overhead).
"""

import http.client
import json
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent / "drivers"))
sys.path.insert(1, str(Path(__file__).resolve().parents[1] / "lib"))
import captures
from captures import Recording
from counts import OVERHEAD, ROOT, our_messages, tshark_messages
from witness import Httpkv, Memcached, Mysql, Postgres, Redis

REDIS_PORT, REDIS8_PORT, HTTPKV_PORT, MARIADB_PORT, MYSQL_PORT, POSTGRES_PORT = map(
    captures.port, ("redis", "redis8", "httpkv", "mariadb", "mysql", "postgres18-tls"))
# What tshark is known to read otherwise.
FIRST = "tshark knows the first command of a segment alone"
KNOWN = {"http-by-hand": "tshark takes what follows an answer to HEAD for its body, and refused requests for good ones",
         "mariadb-pymysql": "tshark takes a file that a client sends for a command",
         "mysql-caching-sha2": "tshark takes an encrypted password for a command",
         "mysql-zstd": "tshark reads no zstd, and takes what is compressed for messages",
         "memcached-pymemcache": FIRST, "memcached-session": FIRST}
# Systems whose messages are counted, by the name that stands for all that speak their protocol.
COUNTED = {**{name: name for name in ("redis", "postgres", "http", "mysql", "memcached")}, "mariadb": "mysql"}


def table(rows):
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    for row in rows:
        cells = (cell.ljust(width) if index < 2 else cell.rjust(width)
                 for index, (cell, width) in enumerate(zip(row, widths)))
        print("  ".join(cells).rstrip())


def compare(case, name, mine, theirs, note=""):
    """A row of the table, and whether both agree."""
    ratio = f"{mine / theirs:.3f}" if theirs else "-"
    return (case, name, str(mine), str(theirs), ratio, "agree" if mine == theirs else note or "DIFFER")


def fixtures(folders):
    rows = []
    for folder in folders:
        words = (folder / "args").read_text().split()
        protocol, port = words[words.index("--db") + 1], words[words.index("--port") + 1]
        protocol = COUNTED.get(protocol)
        if not protocol or "--keylog" in words or "tls" in folder.name:
            continue
        mine = our_messages(protocol, port, folder / "capture.pcap")
        theirs = tshark_messages(protocol, port, folder / "capture.pcap")
        known = KNOWN.get(folder.name, "")
        if any(name.startswith("RESP3") for name in mine):
            known = "tshark knows RESP2 only"
        apart = [name for name in sorted(mine | theirs) if mine[name] != theirs[name]]
        rows += [compare(folder.name, name, mine[name], theirs[name]) for name in sorted(mine | theirs)
                 if name not in apart or not known]
        if apart and known:
            rows.append(compare(folder.name, f"{len(apart)} others", sum(mine[name] for name in apart),
                                sum(theirs[name] for name in apart), known))
    return rows


def analyzed(db, port, capture, *options):
    command = [OVERHEAD, "analyze", "--db", db, "--port", str(port), "--format", "json", *options, capture]
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def note_of(recording):
    return "tcpdump dropped packets" if recording.dropped else ""


def redis_counters():
    command = ["redis-benchmark", "-p", str(REDIS_PORT), "-t", "set,get,lrange_100", "-n", "2000", "-c", "4", "-q"]
    return witnessed("redis-benchmark", "redis", Redis, REDIS_PORT, lambda: subprocess.run(command, check=True, capture_output=True))


def client_load(number):
    """A connection to Redis 8 that has done what no other has, and has read every answer."""
    connection = socket.create_connection(("127.0.0.1", REDIS8_PORT))
    value = b"v" * (number * 997 % 5_000)
    commands = [b"SET k%d %d" % (number, number), b"GET k%d" % number, b"NOSUCHCOMMAND", b"MGET " + b"k1 " * (1 + number)]
    for turn in range(20 * (number + 1)):
        parts = [b"SET", b"blob:%d" % turn, value]
        stored = b"*3\r\n" + b"".join(b"$%d\r\n%s\r\n" % (len(part), part) for part in parts)
        # Alone, or several at once.
        batch = b"\r\n".join(commands[:1 + turn % 4]) + b"\r\n" + stored + b"ECHO turn:%d\r\n" % turn
        connection.sendall(batch)
        answer, last = b"", b"turn:%d\r\n" % turn
        while not answer.endswith(last):
            answer += connection.recv(65536)
    return connection


def client_list(connection):
    """The bytes that Redis has read from each client and written to it, by the client's end."""
    connection.sendall(b"CLIENT LIST\r\n")
    answer = connection.makefile("rb")
    text = answer.read(int(answer.readline()[1:]) + 2).decode()
    fields = (dict(field.split("=", 1) for field in line.split()) for line in text.splitlines() if line)
    return {client["addr"]: (int(client["tot-net-in"]), int(client["tot-net-out"])) for client in fields}


def client_counters():
    """Payload by connection against CLIENT LIST's tot-net-in and tot-net-out."""
    with tempfile.TemporaryDirectory() as scratch, Recording(f"{scratch}/run.pcap", REDIS8_PORT) as recording:
        clients = [client_load(number) for number in range(8)]
        ends = [":".join(map(str, client.getsockname())) for client in clients]
        with socket.create_connection(("127.0.0.1", REDIS8_PORT)) as asking:
            theirs = client_list(asking)
        recording.end()
        for client in clients:
            client.close()
        peers = analyzed("redis", REDIS8_PORT, recording.path, "--by", "connection")["peers"]["rows"]
    note = note_of(recording)
    mine = {}
    for row in peers:
        sums = mine.setdefault(row["client"], [0, 0])
        for at, side in enumerate(("request", "response")):
            sums[at] += row[side]["payload_bytes"]
    return [compare(f"client {number}", what, mine.get(end, [0, 0])[at], theirs[end][at], note)
            for number, end in enumerate(ends) for at, what in enumerate(("tot-net-in", "tot-net-out"))]


def http_load():
    connection = http.client.HTTPConnection("127.0.0.1", HTTPKV_PORT)
    for number in range(400):
        length = {"encode_chunked": True, "headers": {"Transfer-Encoding": "chunked"}} if number % 4 == 0 else {}
        body = iter([b"x" * number, b"y"]) if length else b"x" * (number * 97 % 70_000)
        connection.request("PUT", f"/set?key=k{number}", body=body, **length)
        connection.getresponse().read()
    for number in range(500):
        connection.request("GET", f"/get?key=k{number}")
        connection.getresponse().read()
    for number in (1, 10, 100, 1000):
        connection.request("GET", "/mget?" + "&".join(f"key=k{key}" for key in range(number)))
        connection.getresponse().read()
        connection.request("POST", "/mget", body="\n".join(f"k{key}" for key in range(number)))
        connection.getresponse().read()
    connection.close()


# Transactions of sysbench, and how often each reads a row by its key. It reads each range once.
EVENTS, POINT_SELECTS = 200, 10


def statement_counters():
    """Calls by statement of sysbench's read-only transactions, prepared and as text, against pg_stat_statements."""
    if not shutil.which("sysbench"):
        print("skipped: calls by statement, which need sysbench", file=sys.stderr)
        return []
    options = {"db-driver": "pgsql", "pgsql-host": "127.0.0.1", "pgsql-port": POSTGRES_PORT, "pgsql-user": "postgres", "pgsql-db": "bench",
               "tables": 1, "table-size": 1000, "threads": 2, "time": 0, "events": EVENTS, "point-selects": POINT_SELECTS, "rand-seed": 1}
    sysbench = ["sysbench", "oltp_read_only", *(f"--{name}={value}" for name, value in options.items())]
    quiet = {"check": True, "capture_output": True, "env": {**os.environ, "PGSSLMODE": "disable"}}
    subprocess.run([*sysbench, "prepare"], **quiet)
    found = []
    with tempfile.TemporaryDirectory() as scratch:
        for mode, name in (("auto", "sysbench, prepared"), ("disable", "sysbench, text")):
            with Recording(f"{scratch}/run.pcap", POSTGRES_PORT) as recording:
                server = Postgres(POSTGRES_PORT)
                subprocess.run([*sysbench, f"--db-ps-mode={mode}", "run"], **quiet)
            record = analyzed("postgres", POSTGRES_PORT, recording.path)
            lines = server.ask("select calls, query from pg_stat_statements where query ilike 'select%from sbtest%'")
            theirs = {plain(query): int(count) for count, query in (line.split("\t", 1) for line in lines)}
            found += statement_rows(name, record, theirs, note_of(recording))
    return found


def plain(text):
    """A statement without white space, with one kind of placeholder."""
    return re.sub(r"\s", "", re.sub(r"\$\d+", "?", text)).lower()


def statement_rows(name, record, theirs, note):
    told = [row for row in record["operations"] if row["name"] == "SELECT" and row["class"] == "workload"]
    mine = {plain(it["text"]): it["count"] for row in told for it in row["statements"] if "sbtest" in it["text"]}
    rows = [(key, mine.get(key, 0), theirs.get(key, 0)) for key in sorted(mine | theirs)]
    rows += [("statements", len(mine), 5), ("point selects per range", max(mine.values(), default=0), POINT_SELECTS * min(theirs.values()))]
    for row in told:
        rows += [(f"bytes of {row['name']} {row['via']}, {side}", sum(it[side]["wire_bytes"] for it in row["statements"]),
                  row[side]["wire_bytes"]["total"]) for side in ("request", "response")]
    return [compare(name, *row, note) for row in rows]


def witnessed(case, db, kind, port, load, errors=None):
    """A captured load, and its errors if their number is known, against what a witness of lab/test/drivers reads of the server."""
    witness = kind(port)
    with tempfile.TemporaryDirectory() as scratch, Recording(f"{scratch}/run.pcap", port, witness.port) as recording:
        load()
        time.sleep(0.2)  # what a client sends last is counted a moment later
        witness.finish()
        recording.end()
        record = analyzed(db, port, recording.path)
    note = note_of(recording)
    undecoded = sum(record["ledger"][side]["unknown"] for side in ("request", "response"))
    rows = [(what, mine, theirs) for what, mine, theirs in witness.rows(record, {}, {}) if mine or theirs]
    if errors is not None:
        rows.append(("errors", sum(row["errors"] for row in record["operations"]), errors))
    return [compare(case, what, mine, theirs, note) for what, mine, theirs in [("bytes not decoded", undecoded, 0), *rows]]


def mysql_counters(case, server, port):
    """Reads and inserts of the reference workload, prepared and as text, and sysbench's transactions where there is sysbench."""
    address = ["--server", f"127.0.0.1:{port}"]
    quiet = {"check": True, "capture_output": True}
    sysbench = ["sysbench", "oltp_read_write", "--db-driver=mysql", "--mysql-host=127.0.0.1", f"--mysql-port={port}",
                "--mysql-user=root", "--mysql-db=bench", "--tables=1", "--table-size=1000"]
    if shutil.which("sysbench"):
        subprocess.run([*sysbench, "prepare"], **quiet)

    def load():
        for mode in ("on", "off"):
            command = [OVERHEAD, "bench", "mysql", *address, "--rows", "100", "--operation", "empty,read,insert"]
            subprocess.run([*command, "--ops", "200", "--prepared", mode, "-q"], **quiet)
        for mode in ("auto", "disable") if shutil.which("sysbench") else ():
            subprocess.run([*sysbench, f"--db-ps-mode={mode}", "--threads=2", "--time=0", "--events=100", "run"], **quiet)

    return witnessed(case, server, Mysql, port, load)


def memcached_counters():
    return witnessed("memcached", "memcached", Memcached, captures.MEMCACHED, lambda: captures.memcached_load(4_000))


def build():
    """Makes the two programs, where the caller did not name others."""
    if "OVERHEAD" not in os.environ or ("COUNT_MESSAGES" not in os.environ and sys.argv[1:2] != ["--counters"]):
        command = "cargo build --quiet --locked -p overhead -p overhead-bench --no-default-features --features overhead-bench/mysql --bins --example count_messages"
        subprocess.run(command.split(), check=True, cwd=ROOT)


def with_server(server, counters):
    """What `counters` finds while a server of the lab runs; nothing where it is not installed."""
    try:
        with captures.servers(server):
            return counters()
    except subprocess.CalledProcessError as error:
        if error.cmd[0] != captures.LAB / "up":
            raise
        print(f"skipped: the counters of {server}, which cannot be started: lab/install {server}", file=sys.stderr)
        return []


COUNTERS = {"redis": redis_counters, "redis8": client_counters, "httpkv": lambda: witnessed("httpkv", "http", Httpkv, HTTPKV_PORT, http_load, errors=100),
            "mariadb": lambda: mysql_counters("MariaDB", "mariadb", MARIADB_PORT),
            "mysql": lambda: mysql_counters("MySQL", "mysql", MYSQL_PORT), "memcached": memcached_counters,
            "postgres18-tls": statement_counters}


def all_fixtures(folders):
    """The messages of these fixtures, of all of them without any."""
    if not shutil.which("tshark"):
        print("skipped: message counts, for there is no tshark here", file=sys.stderr)
        return []
    folders = [Path(name) for name in folders]
    return fixtures(folders or sorted(path.parent for path in ROOT.glob("fixtures/*/capture.pcap")))


def all_counters(servers):
    """What these servers count, and whether each of them could be asked."""
    missing = [tool for tool in ["tcpdump", *(["redis-benchmark"] if "redis" in servers else [])] if not shutil.which(tool)]
    if missing or os.geteuid() != 0:
        print(f"skipped: the servers' counters, which need {' and '.join(['the rights of root', *missing])}", file=sys.stderr)
        return [], False
    unknown = [server for server in servers if server not in COUNTERS]
    if unknown:
        sys.exit(f"crosscheck: no counters of {unknown[0]} here; there are: {' '.join(COUNTERS)}")
    found = [with_server(server, COUNTERS[server]) for server in servers]
    return [row for rows in found for row in rows], all(found)


def main():
    build()
    if sys.argv[1:2] == ["--drivers"]:
        import matrix
        return matrix.main(sys.argv[2:], table)
    alone = sys.argv[1:2] == ["--counters"]
    rows = [("case", "what", "overhead", "other", "ratio", "verdict")]
    if not alone:
        rows += all_fixtures(sys.argv[1:])
    counted, asked = all_counters(sys.argv[2:] if alone else COUNTERS)
    rows += counted
    table(rows)
    differ = [row for row in rows if row[-1] == "DIFFER"]
    print(f"{len(rows) - 1} compared, {len(differ)} differ")
    return 1 if differ or (alone and not asked) else 0


sys.exit(main())
