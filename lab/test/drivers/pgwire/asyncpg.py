# needs: asyncpg==0.32.0
"""asyncpg: binary parameters and results, statements prepared behind the application's back, type introspection, cursors,
COPY that sends data before the server has said that it takes any, errors, notifications."""

import asyncio
import contextlib

import asyncpg
from driver import PORT, say


async def main():
    db = await asyncpg.connect(host="127.0.0.1", port=PORT, user="postgres", database="bench", ssl=False)
    await db.execute("DROP TABLE IF EXISTS driver_asyncpg")
    await db.execute("CREATE TABLE driver_asyncpg (id int PRIMARY KEY, name text, list int[], n numeric)")
    insert = "INSERT INTO driver_asyncpg VALUES ($1, $2, $3, $4)"
    for id in range(20):
        await db.execute(insert, id, f"name {id}", [id, None], 1.5 if id % 2 else None)
    await db.executemany(insert, [(100 + id, "x" * id, [], None) for id in range(200)])
    for id in range(20):
        assert await db.fetchval("SELECT name FROM driver_asyncpg WHERE id = $1", id) == f"name {id}"
    for first in (1000, 20_000, 40_000):
        records = [(first + id, "é" * 14) for id in range(10_000)]
        await db.copy_records_to_table("driver_asyncpg", records=records, columns=["id", "name"])
    size = []
    async def sink(data):
        size.append(len(data))
    await db.copy_from_query("SELECT * FROM driver_asyncpg", output=sink, format="csv")
    assert sum(size) > 900_000
    async with db.transaction():
        rows = 0
        async for _ in db.cursor("SELECT id FROM driver_asyncpg WHERE id < 150", prefetch=30):
            rows += 1
        assert rows == 70  # Execute with a limit: three times 30
    assert len(await db.fetchval("SELECT repeat('x', 500000)")) == 500_000
    for text, error in (("SELECT * FROM nothing_here", asyncpg.UndefinedTableError), ("SELECT 1 / $1::int", asyncpg.DivisionByZeroError)):
        with contextlib.suppress(error):
            await db.execute(text, *([0] if "$1" in text else []))
    heard = asyncio.get_running_loop().create_future()
    await db.add_listener("here", lambda *message: heard.done() or heard.set_result(message))
    await db.execute("NOTIFY here, 'payload'")
    await asyncio.wait_for(heard, 10)
    assert await db.fetch("SELECT ROW(1, 'two')::record, ARRAY[ROW(1)]")  # the driver knows these types without asking

    # Types that the driver does not know are asked for twice: by a query (WITH …), and a SELECT before and behind it. The
    # cursor is one call to the server, and three Executes. nothing_here fails as a simple query; the division when it is executed.
    asked = {"DROP": 1, "CREATE": 1, "INSERT": 220, "SELECT": 20 + 3 + 1 + 1 + 1 + 1 + 2 * 3, "COPY": 4, "BEGIN": 1, "COMMIT": 1, "LISTEN": 1,
             "NOTIFY": 1}
    more = {"server": {"WITH": 2, "SELECT": -2}, "data": {"COPY": [30_000 * (4 + 28), -1]}}
    await asyncio.to_thread(say, "asyncpg", asked, {"SELECT": 2}, **more)
    await db.close()


asyncio.run(main())
