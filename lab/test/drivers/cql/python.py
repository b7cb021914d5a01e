# needs: cassandra-driver==3.30.1 lz4==4.4.5
"""Apache Cassandra's Python driver: its defaults, statements of every kind, concurrent requests, paging,
errors. With `v4`, an older version of the protocol without compression, which tshark can read."""

import contextlib
import uuid

from cassandra import ConsistencyLevel, InvalidRequest
from cassandra.cluster import Cluster
from cassandra.concurrent import execute_concurrent_with_args
from cassandra.query import BatchStatement, BatchType, SimpleStatement
from driver import MORE, PORT, say

options = {"protocol_version": 4, "compression": False} if MORE == ["v4"] else {}
cluster = Cluster(["127.0.0.1"], port=PORT, **options)
session = cluster.connect()
session.execute("DROP KEYSPACE IF EXISTS driver_python")
session.execute("CREATE KEYSPACE driver_python WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}")
session.set_keyspace("driver_python")  # and once more on each connection of the pool
session.execute("CREATE TYPE place (street text, numbers list<int>)")
session.execute("CREATE TABLE things (part int, id int, name text, tags map<text, int>, at frozen<place>, uid uuid, "
                "blob blob, PRIMARY KEY (part, id))")
session.execute("CREATE TABLE hits (id int PRIMARY KEY, n counter)")

# Literals, and literals with parameters that the driver writes into the text itself.
for id in range(5):
    session.execute("INSERT INTO things (part, id, name) VALUES (0, %s, %s)", (id, "it's " + "x" * id))
insert = session.prepare("INSERT INTO things (part, id, name, tags, uid, blob) VALUES (?, ?, ?, ?, ?, ?)")
rows = [(1, id, f"name {id}", {"a": id}, uuid.UUID(int=id), bytes(id)) for id in range(120)]
execute_concurrent_with_args(session, insert, rows, concurrency=32)
session.execute(insert, (2, 0, None, {}, uuid.UUID(int=0), bytes(200_000)))
session.execute(insert, (2, 1))  # the others are unset
assert len(list(session.execute(SimpleStatement("SELECT * FROM things WHERE part = 1", fetch_size=25)))) == 120  # 5 pages
select = session.prepare("SELECT name, blob FROM things WHERE part = ? AND id = ?")
select.consistency_level = ConsistencyLevel.LOCAL_QUORUM
for id in range(20):
    session.execute(select, (1, id))
assert len(session.execute(select, (2, 0)).one().blob) == 200_000
batch = BatchStatement(BatchType.UNLOGGED)
for id in range(10):
    batch.add(insert, (3, id, "batch", {}, None, b""))
    batch.add("DELETE FROM things WHERE part = 4 AND id = %s", (id,))
session.execute(batch)
session.execute("BEGIN BATCH INSERT INTO things (part, id) VALUES (5, 1) INSERT INTO things (part, id) VALUES (5, 2) APPLY BATCH")
for _ in range(3):
    session.execute("UPDATE hits SET n = n + 1 WHERE id = 1")
assert not session.execute("INSERT INTO things (part, id) VALUES (5, 1) IF NOT EXISTS").was_applied
for _ in range(2):
    with contextlib.suppress(InvalidRequest):
        session.execute("SELECT * FROM nothing_here")
assert session.execute("SELECT id FROM hits", trace=True).get_query_trace().coordinator

asked = {"DROP": 1, "CREATE": 4, "INSERT": 5 + 120 + 2 + 1, "SELECT": 5 + 20 + 1 + 2 + 1, "BATCH": 2, "UPDATE": 3,
         "USE": 2}
say("cassandra-driver", asked, {"SELECT": 2})
cluster.shutdown()
