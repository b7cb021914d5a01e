"""`lab/test/crosscheck.py --drivers [NAME…]`: each driver's program against a real server, captured, and what overhead makes of the
capture held against the program's own count, tshark, and the server's counters. NAME is a protocol (`cql`), or one
driver of it (`cql/java`)."""

import itertools
import json
import os
import select
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

import captures
import counts
import programs
import witness
from testing import payload

ROOT = counts.ROOT
DRIVER_SECONDS = 180
TRIES = 3
# Per protocol: the system's name on overhead's command line, the servers of the lab, and the witness.
SYSTEMS = {
    "resp": ("redis", ["redis8"], witness.Redis),
    "pgwire": ("postgres", ["postgres18-tls"], witness.Postgres),
    "cql": ("cassandra", ["cassandra"], witness.Cassandra),
    "mongo": ("mongodb", ["ferretdb"], witness.FerretDB),
    "memcache": ("memcached", ["memcached"], witness.Memcached),
    "mysql": ("mysql", ["mariadb", "mysql"], witness.Mysql),
    "http": ("http", ["httpkv"], witness.Httpkv),
}
# Programs that run more than once, under these arguments each.
ARGUMENTS = {
    ("cql", "gocql"): [(), ("lz4",)],
    ("cql", "java"): [(), ("lz4",)],
    ("cql", "python"): [(), ("v4",)],
    ("mysql", "connector-j"): [(), ("compress",)],
    ("mysql", "go-sql-driver"): [(), ("compress",)],
    ("mysql", "mariadb-node"): [(), ("compress",), ("pipelining",)],
    ("mysql", "mysql2"): [(), ("compress",)],
    ("pgwire", "psycopg"): [(), ("direct",)],
}
# What a driver asks of a server on its own, or a server counts on its own, beside what the program counts.
BESIDE = {
    # Whether the session reads only, which it asks MySQL from version 8 on before it writes.
    ("mysql/connector-j", "mysql"): ("asked", "SELECT", 7),
    # MySQL knows no bulk request, and is asked 500 times instead of once.
    ("mysql/mariadb-node", "mysql"): ("asked", "INSERT", 499),
    # A statement that the server prepares again (Com_stmt_reprepare).
    ("mysql/go-sql-driver", "mysql"): ("server", "Com_stmt_prepare", 1),
}


class Failed(Exception):
    """The reason why a driver's program or its capture failed."""


class Dropped(Failed):
    """tcpdump has lost packets: the run proves nothing."""


def run(program, port, server, scratch):
    with captures.Recording(scratch / "capture.pcap", port, server.port) as recording:
        process = program.start(port, scratch)
        try:
            if not select.select([process.stdout], [], [], DRIVER_SECONDS)[0]:
                raise Failed(f"no word from it in {DRIVER_SECONDS} s")
            line = process.stdout.readline()
            if line:
                server.held()
            process.stdin.close()
            if process.wait(timeout=60) != 0 or not line:
                raise Failed(last_words(scratch / "errors"))
        finally:
            process.kill()
            process.wait()
        recording.end()
        server.finish()
    if recording.dropped:
        raise Dropped("tcpdump dropped packets")
    return json.loads(line)


def last_words(file):
    words = [line for line in file.read_text(errors="replace").splitlines() if line.strip()]
    return " / ".join(words[-3:])[:300] or "it failed without a word"


def analyze(system, port, scratch):
    keys = scratch / "keys.log"
    options = ["--keylog", keys] if keys.exists() else []
    command = [counts.OVERHEAD, "analyze", "--db", system, "--port", str(port), *options, "--format", "json",
               scratch / "capture.pcap"]
    done = subprocess.run(command, capture_output=True, text=True)
    if not done.stdout:
        raise Failed(f"overhead analyze: {done.stderr.strip()[-300:]}")
    return done.returncode, json.loads(done.stdout)


def by_the_program(said, record):
    for what, field in (("asked", "count"), ("errors", "errors")):
        mine = Counter()
        for row in record["operations"]:
            if row["class"] == "workload":
                mine[row["name"]] += row[field]
        for name in sorted(name for name in set(mine) | set(said[what]) if mine[name] or said[what].get(name)):
            yield f"{what}: {name}", mine[name], said[what].get(name, 0)
    for name, sides in said.get("data", {}).items():
        for side, due in zip(("request", "response"), sides):
            rows = [row for row in record["operations"] if row["class"] == "workload" and row["name"] == name]
            if due >= 0:
                yield f"data of {name}: {side}", sum(row[side]["accounts"]["data"] for row in rows), due


def by_the_capture(system, port, scratch, record, streams, said):
    """The numbers of tshark, or of its TCP streams."""
    file = scratch / "capture.pcap"
    keys = scratch / "keys.log"
    for side in ("request", "response"):
        yield f"payload, {side}", payload(record, side), sum(len(bytes_) for (_, way), bytes_ in streams.items() if way == side)
    if keys.exists():
        return  # what is inside of TLS is compared by the program's count and the server's
    plain = system != "memcached"  # of several commands in a segment, tshark knows the first
    if system == "redis":
        mine, theirs = counts.our_messages(system, port, file), counts.resp_elements(streams)
        yield from (("elements by their type: " + name, mine[name], theirs[name]) for name in sorted(mine | theirs))
        plain = not any(name.startswith("RESP3") for name in theirs)
    if system == "cassandra":  # of version 5, tshark reads no segments
        plain = not any(side == "request" and bytes_[0] & 0x7F >= 5 for (_, side), bytes_ in streams.items())
    if system == "mysql" and ({"LOAD", "FETCH"} & set(said["asked"]) or said.get("pipelines")):
        # tshark takes a file that a client sends for commands, rows of a cursor for OK packets, and what the server sends for the answer
        # to the command before it in the capture, whichever was asked first.
        plain = False
    if plain:
        mine, theirs = counts.our_messages(system, port, file), counts.tshark_messages(system, port, file)
        for name in sorted(set(mine) | set(theirs)):
            yield f"tshark: {name}", mine[name], theirs[name]


def by_itself(said, status, record):
    """What must hold for any whole capture of a driver that keeps to its protocol."""
    yield "exit status", status, 0
    yield "bytes out of balance", record["ledger"]["difference"], 0
    yield "bytes missing", record["tcp"]["gap_bytes"], 0
    yield "bytes not decoded", sum(record["ledger"][side]["unknown"] for side in ("request", "response")), 0
    yield "unanswered", sum(row["unanswered"] for row in record["operations"]), 0
    yield "unmatched", sum(row["count"] for row in record["operations"] if row["class"] == "unmatched"), said.get("unmatched", 0)


def check(program, server):
    """All rows (what, overhead's number, the other's) of one program against one server, and what else there is to say."""
    system, _, kind = SYSTEMS[program.protocol]
    port = captures.port(server)
    with tempfile.TemporaryDirectory(prefix="overhead-drivers.") as folder:
        scratch = Path(folder)
        for attempt in range(TRIES):
            witnessed = kind(port)
            try:
                said = run(program, port, witnessed, scratch)
                break
            except Dropped:
                if attempt == TRIES - 1:
                    raise
        if beside := BESIDE.get((program.name.split()[0], server)):
            what, name, count = beside
            said.setdefault(what, {})[name] = said.get(what, {}).get(name, 0) + count
        status, record = analyze(system, port, scratch)
        rows = list(by_itself(said, status, record)) + list(by_the_program(said, record))
        streams = counts.streams(port, scratch / "capture.pcap")
        rows += list(by_the_capture(system, port, scratch, record, streams, said)) + list(witnessed.rows(record, streams, said))
    return said["driver"], rows, record["warnings"]


def chosen(names):
    """The programs that `names` choose, all of them without any."""
    everything = list(programs.programs(ARGUMENTS))
    called = {program: {program.protocol, program.name, program.name.split()[0]} for program in everything}
    if unknown := [name for name in names if not any(name in words for words in called.values())]:
        raise SystemExit(f"no driver {', '.join(unknown)} in lab/test/drivers")
    missing = [tool for tool in ("tshark", "tcpdump") if not shutil.which(tool)]
    if missing or os.geteuid() != 0:
        raise SystemExit(f"needs {' and '.join(['the rights of root', *missing])}: run lab/install drivers, then this as root")
    return [program for program in everything if not names or called[program] & set(names)]


def main(names, table):
    """Runs what `names` choose, prints one row per kind of comparison and one for each difference. The status."""
    rows, reasons, differ, compared = [("driver", "what", "overhead", "other", "ratio", "verdict")], [], 0, 0
    wanted = sorted(chosen(names), key=lambda program: program.name)
    for protocol, of_it in itertools.groupby(wanted, lambda program: program.protocol):
        of_it = list(of_it)
        for server in SYSTEMS[protocol][1]:
            with captures.servers(server, install=True):
                for program in of_it:
                    name = program.name if server == SYSTEMS[protocol][1][0] else f"{program.name} at {server}"
                    print(name, file=sys.stderr)
                    try:
                        driver, figures, warnings = check(program, server)
                    except programs.Missing as reason:
                        reasons.append(f"{name}: {reason}")
                        continue
                    except (Failed, counts.Incomplete, subprocess.SubprocessError, ValueError) as reason:
                        rows.append((name, str(reason), "-", "-", "-", "FAILED"))
                        differ += 1
                        continue
                    new, bad = summary(f"{name}: {driver}", figures)
                    rows += new + [(name, f"warning: {warning}", "", "", "", "") for warning in warnings]
                    differ += bad
                    compared += len(figures)
    table(rows)
    for reason in reasons:
        print(f"not to be had here: {reason}")
    print(f"{compared} figures compared, {differ} differ, {len(reasons)} drivers not to be had")
    return 1 if differ or (names and reasons) else 0


def summary(name, figures):
    """One row for all numbers of a kind that agree, and one for each that does not."""
    rows, bad, agreed = [], 0, {}
    for what, mine, theirs in figures:
        kind = what.split(":")[0].split(",")[0]
        if mine == theirs:
            number, amount = agreed.get(kind, (0, 0))
            agreed[kind] = (number + 1, amount + int(mine))
        else:
            bad += 1
            rows.append((name, what, str(mine), str(theirs), f"{mine / theirs:.3f}" if theirs else "-", "DIFFER"))
    for kind, (number, amount) in agreed.items():
        if amount:
            rows.append((name, f"{kind} ({number})" if number > 1 else kind, str(amount), str(amount), "1.000", "agree"))
    return sorted(rows, key=lambda row: row[-1] == "DIFFER"), bad
