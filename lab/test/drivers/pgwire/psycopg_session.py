"""psycopg 3 and its libpq: pipelines, COPY, binary parameters, server-side cursors; TLS without SSLRequest.

Usage: psycopg_session.py CONNINFO [ROWS], as CONNINFO "host=127.0.0.1 port=5432 sslmode=require sslnegotiation=direct".
Prints what was done as JSON.
"""

import json
import sys

import psycopg


def main(conninfo, rows="1000"):
    rows = int(rows)
    with psycopg.connect(conninfo, user="postgres", dbname="postgres", autocommit=True) as db:
        db.execute("drop table if exists psy; create table psy (id int primary key, name text, tags int[])")
        with db.pipeline():
            for i in range(20):
                db.execute("insert into psy values (%s, %s, %s)", (i, f"name {i}", [i, i + 1]))
        try:
            with db.pipeline() as pipeline:
                db.execute("select 1")
                db.execute("insert into psy values (1, 'twice', null)")
                db.execute("select 2")
                pipeline.sync()
                db.execute("select 3")
        except psycopg.Error as error:
            failed = error.sqlstate
        cursor = db.cursor()
        with cursor.copy("copy psy from stdin") as copy:
            for i in range(rows):
                copy.write_row((i + 100, "tab\tand \\ backslash", None))
        with cursor.copy("copy psy (id, name) from stdin (format binary)") as copy:
            copy.set_types(["int4", "text"])
            for i in range(rows):
                copy.write_row((i + 100_000, "binary"))
        with cursor.copy("copy psy from stdin csv") as copy:
            for i in range(rows):
                copy.write(f'{i + 200_000},"a ""quoted"", name",\n'[:9])
                copy.write(f'{i + 200_000},"a ""quoted"", name",\n'[9:])
        try:
            with cursor.copy("copy psy (id) from stdin") as copy:
                copy.write("1000000\n")
                raise ValueError("the client gives up")
        except ValueError:
            pass
        out = 0
        with cursor.copy("copy psy to stdout (format binary)") as copy:
            out = sum(len(data) for data in copy)
        with db.transaction(), db.cursor("named") as named:
            named.execute("select id, tags from psy limit 25")
            read = len(named.fetchmany(10)) + len(named.fetchmany(20))
        cursor.execute("select tags, name from psy where id = any(%b)", ([1, 2, 3],), binary=True)
        cursor.fetchall()
        total = db.execute("select count(*) from psy").fetchone()[0]
    print(json.dumps({"libpq": psycopg.pq.version(), "rows": total, "failed": failed, "out": out, "read": read}))


main(*sys.argv[1:])
