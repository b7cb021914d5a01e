"""Counts by statement, held against those that PostgreSQL keeps itself (pg_stat_statements)."""

import os
import re
import subprocess

from captures import Recording

PORT = int(os.environ.get("OVERHEAD_POSTGRES18_TLS_PORT", "7435"))
# Transactions of a run, and how often each of them asks for a row by its key; for ranges it asks once each.
EVENTS, POINT_SELECTS = 200, 10


def sysbench(mode, *action):
    options = {"db-driver": "pgsql", "pgsql-host": "127.0.0.1", "pgsql-port": PORT, "pgsql-user": "postgres",
               "pgsql-db": "bench", "db-ps-mode": mode, "tables": 1, "table-size": 1000, "threads": 2, "time": 0,
               "events": EVENTS, "point-selects": POINT_SELECTS, "rand-seed": 1}
    words = [f"--{name}={value}" for name, value in options.items()]
    environment = {**os.environ, "PGSSLMODE": "disable"}
    subprocess.run(["sysbench", "oltp_read_only", *words, *action], check=True, capture_output=True, env=environment)


def ask(sql):
    command = ["psql", "-X", "-q", "-A", "-t", "-F", "\t", "-h", "127.0.0.1", "-p", str(PORT), "-U", "postgres",
               "-d", "bench", "-c", sql]
    environment = {**os.environ, "PGSSLMODE": "disable"}
    return subprocess.run(command, check=True, capture_output=True, text=True, env=environment).stdout.splitlines()


def plain(text):
    """A statement without white space, with one kind of placeholder."""
    return re.sub(r"\s", "", re.sub(r"\$\d+", "?", text)).lower()


def calls():
    """How often the server ran each of sysbench's selects."""
    lines = ask("select calls, query from pg_stat_statements where query ilike 'select%from sbtest%'")
    return {plain(query): int(count) for count, query in (line.split("\t", 1) for line in lines)}


def rows(mode, record, compare, note):
    """A row of the table for each statement, and one for their sum."""
    name = f"sysbench, {'prepared' if mode == 'auto' else 'text'}"
    told = [row for row in record["operations"] if row["name"] == "SELECT" and row["class"] == "workload"]
    mine = {plain(it["text"]): it["count"] for row in told for it in row["statements"] if "sbtest" in it["text"]}
    theirs = calls()
    found = [compare(name, key, mine.get(key, 0), theirs.get(key, 0), note) for key in sorted(mine | theirs)]
    counts = sorted(theirs.values())
    found.append(compare(name, "statements", len(mine), 5, note))
    found.append(compare(name, "point selects per range", max(mine.values(), default=0), POINT_SELECTS * counts[0], note))
    for row in told:
        for side in ("request", "response"):
            parts = sum(it[side]["wire_bytes"] for it in row["statements"])
            found.append(compare(name, f"bytes of {row['name']} {row['via']}, {side}", parts, row[side]["wire_bytes"]["total"]))
    return found


def statement_counters(analyzed, compare, note_of, scratch):
    """Calls by statement of sysbench's read-only transactions, prepared and as text, against pg_stat_statements."""
    found = []
    sysbench("auto", "prepare")
    for mode in ("auto", "disable"):
        with Recording(f"{scratch}/run.pcap", PORT) as recording:
            ask("select pg_stat_statements_reset()")
            sysbench(mode, "run")
        found += rows(mode, analyzed("postgres", PORT, recording.path), compare, note_of(recording))
    return found
