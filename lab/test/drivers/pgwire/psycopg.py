# needs: psycopg[binary]==3.3.9
"""psycopg 3 with the libpq 18 that it brings: statements that are prepared when they come again, pipelines, COPY both ways,
binary results, errors, notifications. With `direct`, inside of TLS from the first byte (sslnegotiation=direct)."""

import contextlib
import os

import psycopg
from driver import MORE, PORT, say

tls = f"sslmode=require sslnegotiation=direct sslkeylogfile={os.environ['SSLKEYLOGFILE']}" if MORE == ["direct"] else "sslmode=disable"
db = psycopg.connect(f"host=127.0.0.1 port={PORT} user=postgres dbname=bench {tls}", autocommit=True)
db.execute("DROP TABLE IF EXISTS driver_psycopg")
db.execute("CREATE TABLE driver_psycopg (id int PRIMARY KEY, name text, list int[], at timestamptz, doc jsonb)")
insert = "INSERT INTO driver_psycopg (id, name, list, at) VALUES (%s, %s, %s, now())"
for id in range(20):  # prepared from the sixth on
    db.execute(insert, (id, f"name {id}", [id, None]))
with db.transaction():
    with db.cursor() as cursor:
        cursor.executemany(insert, [(100 + id, "it's " + "é" * id, []) for id in range(50)])  # a pipeline
with db.pipeline():
    results = [db.execute("SELECT name FROM driver_psycopg WHERE id = %s", (id,)) for id in range(30)]
    assert results[5].fetchone() == ("name 5",)
with contextlib.suppress(psycopg.errors.UniqueViolation), db.pipeline():
    db.execute("INSERT INTO driver_psycopg (id) VALUES (1)")  # there is one
    db.execute("SELECT 1")  # skipped by the server, and never answered
for format in ("TEXT", "BINARY", "CSV"):
    with db.cursor().copy(f"COPY driver_psycopg (id, name, list) FROM STDIN WITH (FORMAT {format})") as copy:
        if format == "BINARY":
            copy.set_types(["int4", "text", "int4[]"])
        for id in range(500):
            base = {"TEXT": 1000, "BINARY": 2000, "CSV": 3000}[format]
            if format == "CSV":
                copy.write(f'{base + id},"quoted, ""{id}""","{{1,2}}"\n')
            else:
                copy.write_row((base + id, f"tab\tand \\ {id}", [id, 2]))
    with db.cursor().copy(f"COPY driver_psycopg (id, name, list) TO STDOUT WITH (FORMAT {format})") as copy:
        assert sum(len(chunk) for chunk in copy) > 10_000
with contextlib.suppress(psycopg.errors.InvalidTextRepresentation), db.cursor().copy("COPY driver_psycopg (id) FROM STDIN") as copy:
    copy.write("not a number\n")
assert len(db.execute("SELECT repeat('x', 1000000)").fetchone()[0]) == 1_000_000
assert db.cursor(binary=True).execute("SELECT list, at FROM driver_psycopg WHERE id = 3").fetchone()[0] == [3, None]
with db.transaction():
    with db.cursor(name="page") as cursor:  # DECLARE, FETCH, CLOSE
        cursor.itersize = 500
        assert len(list(cursor.execute("SELECT id FROM driver_psycopg"))) == 1570
db.execute("LISTEN here")
db.execute("NOTIFY here, 'payload'")
assert len(list(db.notifies(timeout=5, stop_after=1))) == 1
db.execute("SELECT 1; SELECT 2")

# The cursor is described, then fetched 4 times 500 rows until fewer come.
asked = {"DROP": 1, "CREATE": 1, "INSERT": 20 + 50 + 1, "SELECT": 30 + 1 + 1 + 1 + 1, "BEGIN": 2, "COMMIT": 2, "COPY": 7,
         "DECLARE": 1, "FETCH": 4, "CLOSE": 1, "LISTEN": 1, "NOTIFY": 1}
say("psycopg", asked, {"INSERT": 1, "COPY": 1})
db.close()
