#!/usr/bin/env -S python3 -B
"""lab/test/whole.py [BINARY]: two questions about whole cost, asked of a real PostgreSQL: a driver that prepares each read anew, and an
N+1 that was removed. `compare` answers in its first lines, `--fail-on` ends with 4, and `advise` names the cause and a bound that holds.

Starts a server of its own on port 21631, and ends with a line like that of cargo test.
"""

import contextlib
import json
import os
import pathlib
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "lib"))
from testing import OVERHEAD, captured, check, finish, must, postgres, require_root, run, skip

PORT = int(os.environ.get("OVERHEAD_WHOLE_PORT", "21631"))
# Debian's own Python has psycopg as a package.
PYTHON = "/usr/bin/python3"
TABLES = """create table customer(id int primary key, name text, email text);
create table orders(id int primary key, customer int);
create table items(id int primary key, orders int, name text);
insert into customer select i, 'name '||i, 'mail'||i||'@example.com' from generate_series(1, 500) i;
insert into orders select i, 1 + (i * 7) % 500 from generate_series(1, 2000) i;
insert into items select i, 1 + i % 2000, 'item '||i from generate_series(1, 6000) i"""
CONNECT = f"""import psycopg
connection = psycopg.connect("host=127.0.0.1 port={PORT} user=postgres dbname=postgres sslmode=disable", autocommit=True)
pq = connection.pgconn
"""
READS = """
query = b"SELECT id, name, email FROM customer WHERE id = $1"
for key in range(1, 201):
    if anew or key == 1:
        pq.prepare(b"", query)
    if anew:
        pq.describe_prepared(b"")
    assert pq.exec_prepared(b"", [str(key).encode()]).ntuples == 1
"""
PAGES = """
for page in range(50):
    orders = connection.execute("SELECT id, customer FROM orders WHERE id > %s ORDER BY id LIMIT 20", (page * 20,)).fetchall()
    keys = [order[0] for order in orders], [order[1] for order in orders]
    if one_by_one:
        for order, customer in orders:
            connection.execute("SELECT id, name, email FROM customer WHERE id = %s", (customer,)).fetchall()
            connection.execute("SELECT id, orders, name FROM items WHERE orders = %s", (order,)).fetchall()
    else:
        connection.execute("SELECT id, name, email FROM customer WHERE id = ANY(%s)", (keys[1],)).fetchall()
        connection.execute("SELECT id, orders, name FROM items WHERE orders = ANY(%s)", (keys[0],)).fetchall()
"""
PIPELINE = """
with connection.pipeline():
    for key in range(1, 101):
        connection.execute("SELECT id FROM customer WHERE id = %s", (key,))
"""


def recorded(name, program):
    """Returns the record of a program's traffic, in the run folder of this name."""
    command = (PYTHON, "-c", CONNECT + program)
    status, record, said = captured(folder / name, "-i", "lo", "--db", "postgres", "--port", PORT, command=command)
    check(f"{name}: complete", (status, record["exit"], record["ledger"]["balanced"]), (0, 0, True))
    return record


def compare(first, second, *options):
    done = run([OVERHEAD, "compare", folder / first, folder / second, *options], env={**os.environ, "COLUMNS": "80"})
    return done.returncode, done.stdout


def findings(name, rule):
    advice = json.loads(must(OVERHEAD, "advise", folder / name, "--format", "json"))
    return [finding for finding in advice["findings"] if finding["rule"] == rule]


def prepared_anew():
    kept, anew = (recorded(name, f"anew = {name == 'anew'}{READS}") for name in ("kept", "anew"))
    check("anew: three round trips for each read, one if the statement is kept", [
        sum(row["round_trips"] for row in record["operations"] if row["name"] in ("SELECT", "PREPARE", "DESCRIBE"))
        for record in (kept, anew)], [201, 600])
    status, text = compare("kept", "anew", "--fail-on", "wire>+1%")
    answer = text.splitlines()[2]
    check("anew: the first lines answer", answer.startswith("Whole cost: anew") and "(+" in answer and "round trips 3.01" in answer)
    check("anew: 40 lines at most", len(text.splitlines()) <= 40)
    check("anew: --fail-on sees it", status, 4)
    check("kept: --fail-on sees nothing", compare("anew", "kept", "--fail-on", "wire>+1%")[0], 0)
    found = findings("anew", "prepare-per-execution")
    check("anew: advise names the cause", len(found), 1)
    saved = anew["whole"]["wire_bytes"] - kept["whole"]["wire_bytes"]
    bound = sum(finding["saving"]["bytes"] for finding in found)
    check(f"anew: the bound holds, and is close ({bound} B, {saved} B saved)", saved <= bound * 1.01 and bound <= saved * 1.05)
    [row] = [row for row in anew["operations"] if row["name"] == "SELECT"]
    check("anew: the statement shows its preparation", row["statements"][0]["prepare"]["count"], 400)


def one_by_one():
    before, after = (recorded(name, f"one_by_one = {name == 'before'}{PAGES}") for name in ("before", "after"))
    status, text = compare("before", "after", "--work", "50=page", "--fail-on", "wire>+1%")
    answer = text.splitlines()[2]
    check("N+1: the first lines answer", answer.startswith("Whole cost: after") and "B/page (−" in answer)
    check("N+1: no limit is exceeded", status, 0)
    check("N+1: undone, --fail-on sees it", compare("after", "before", "--fail-on", "wire>+1%", "--work", "50=page")[0], 4)
    found = findings("before", "n-plus-one")
    check("N+1: advise finds both alternating lookups", len(found), 2)
    saved = before["whole"]["wire_bytes"] - after["whole"]["wire_bytes"]
    bound = sum(finding["saving"]["bytes"] for finding in found)
    check(f"N+1: the bound holds ({bound} B, {saved} B saved)", saved <= bound)
    check("N+1: 41 round trips for a page, then 3", [
        round(record["whole"]["by_class"]["workload"]["round_trips"] / 50) for record in (before, after)], [41, 3])


def pipeline():
    record = recorded("pipeline", PIPELINE)
    trips = record["whole"]["by_class"]["workload"]["round_trips"]
    check(f"a pipeline of 100 waits less than ten times ({trips})", trips < 10)


require_root("psql")
with contextlib.ExitStack() as ends:
    folder = pathlib.Path(ends.enter_context(tempfile.TemporaryDirectory()))
    folder.chmod(0o755)
    if run([PYTHON, "-c", "import psycopg"]).returncode:
        skip("all", "psycopg is missing")
    elif not (server := postgres(ends, folder, PORT)):
        skip("all", "PostgreSQL is missing")
    else:
        must("psql", "-X", "-q", "-h", server, "-p", PORT, "-U", "postgres", "-c", TABLES)
        prepared_anew()
        one_by_one()
        pipeline()
finish()
