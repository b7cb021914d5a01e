"""Reads 200 rows by key, one by one: what that costs on the wire is up to the driver and its settings.

PREPARE=off in the environment switches prepared statements off.
"""

import os
import sys

import psycopg

DATABASE = os.environ.get("DATABASE", "host=127.0.0.1 port=5432 user=postgres dbname=postgres")
FILL = """
    drop table if exists reads;
    create table reads (id smallint primary key, payload text not null);
    insert into reads select id, repeat('x', 100) from generate_series(1000, 1199) id;
"""


def main() -> None:
    threshold = None if os.environ.get("PREPARE") == "off" else 0
    with psycopg.connect(DATABASE, autocommit=True, prepare_threshold=threshold) as connection:
        if "--fill" in sys.argv[1:]:
            connection.execute(FILL, prepare=False)
            return
        for key in range(1000, 1200):
            row = connection.execute("select payload from reads where id = %s", [key]).fetchone()
            assert row is not None and len(row[0]) == 100, key


main()
