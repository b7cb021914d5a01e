"""asyncpg: COPY in and out in binary, text and CSV, by a client that sends data before it is asked for them.

Usage: asyncpg_session.py HOST PORT DATABASE [ROWS]. Prints what was done as JSON.
"""

import asyncio
import json
import sys

import asyncpg


async def main(host, port, database, rows=1000):
    db = await asyncpg.connect(host=host, port=int(port), user="postgres", database=database, timeout=30)
    await db.execute("drop table if exists apg; create table apg (id int, name text, tags int[])")
    records = [(i, f"name {i:05}", [i, i + 1]) for i in range(int(rows))]
    # Binary, three times on one connection: the first copy and later ones.
    for _ in range(3):
        await db.copy_records_to_table("apg", records=records, columns=["id", "name", "tags"])
    text = "".join(f"{i}\tname {i:05}\t{{{i},{i + 1}}}\n" for i in range(int(rows))).encode()
    csv = "".join(f'{i};"name ""{i:05}""";NULL\n' for i in range(int(rows))).encode()

    async def pieces(data, size=1000):
        for at in range(0, len(data), size):
            yield data[at : at + size]

    await db.copy_to_table("apg", source=pieces(text))
    await db.copy_to_table("apg", source=pieces(csv), format="csv", delimiter=";", null="NULL")
    try:
        await db.copy_to_table("apg", source=pieces(b"1\tone\t{1}\nno number\ttwo\t{2}\n" * 2 * int(rows)))
    except asyncpg.PostgresError as error:
        print(error, file=sys.stderr)
    out = []

    async def sink(data):
        out.append(len(data))

    await db.copy_from_query("select id, name from apg limit 100", output=sink, format="csv")
    await db.copy_from_table("apg", output=sink, format="binary")
    total = await db.fetchval("select count(*) from apg")
    for i in range(10):
        await db.fetch("select name, tags from apg where id = $1 limit 1", i)
    await db.close()
    print(json.dumps({"rows": total, "copied_out": sum(out)}))


asyncio.run(main(*sys.argv[1:]))
