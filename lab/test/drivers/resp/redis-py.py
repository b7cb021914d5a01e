# needs: redis[hiredis]==8.1.0
"""redis-py: pipelines with and without a transaction, scripts by their hash, pub/sub, large values, streams, errors."""

import contextlib

import redis
from driver import PORT, say

db = redis.Redis(port=PORT)
db.flushdb()
db.script_flush()
for id in range(20):
    assert db.set(f"key:{id}", "v" * id)
    assert db.get(f"key:{id}") == b"v" * id
assert db.get("nothing") is None
with db.pipeline() as pipe:  # MULTI and EXEC around it
    for id in range(10):
        pipe.incr("n").expire("n", 100)
    assert pipe.execute()[-2] == 10
with db.pipeline(transaction=False) as pipe:
    for id in range(200):
        pipe.hset(f"hash:{id % 5}", mapping={"field": id, "other": b"\0\r\n"})
    pipe.execute()
with db.pipeline() as pipe:
    pipe.watch("n")
    pipe.multi()
    pipe.set("n", 1)
    db.set("n", 2)  # spoils it
    with contextlib.suppress(redis.WatchError):
        pipe.execute()
script = db.register_script("return {KEYS[1], ARGV[1], {1, 2, false}}")  # EVALSHA, NOSCRIPT, SCRIPT LOAD, EVALSHA
assert script(keys=["a"], args=["b"]) == [b"a", b"b", [1, 2, None]] == script(keys=["a"], args=["b"])
db.set("large", b"x" * 3_000_000)
assert len(db.get("large")) == 3_000_000
for id in range(30):
    db.xadd("stream", {"field": id})
assert len(db.xrange("stream", count=10)) == 10
assert db.blpop("list", timeout=0.01) is None
with contextlib.suppress(redis.ResponseError):
    db.lpush("n", 1)
assert len(list(db.scan_iter(match="hash:*", count=1000))) == 5
messages = db.pubsub()
messages.subscribe("one", "two")
messages.psubscribe("t*")
db.publish("two", "text")
assert [messages.get_message(timeout=5)["type"] for _ in range(5)] == ["subscribe"] * 2 + ["psubscribe", "message", "pmessage"]
messages.unsubscribe()
messages.punsubscribe()
assert [messages.get_message(timeout=5)["type"] for _ in range(3)] == ["unsubscribe"] * 2 + ["punsubscribe"]
messages.ping()
messages.get_message(timeout=5)

asked = {"FLUSHDB": 1, "SCRIPT FLUSH": 1, "SET": 23, "GET": 22, "MULTI": 2, "EXEC": 2, "INCRBY": 10, "EXPIRE": 10, "HSET": 200, "WATCH": 1,
         "EVALSHA": 3, "SCRIPT LOAD": 1, "XADD": 30, "XRANGE": 1, "BLPOP": 1, "LPUSH": 1, "SCAN": 1, "SUBSCRIBE": 1,
         "PSUBSCRIBE": 1, "PUBLISH": 1, "UNSUBSCRIBE": 1, "PUNSUBSCRIBE": 1, "PING": 1}
# What was queued in the transaction that was not executed does not count there, nor what this server does not know.
say("redis", asked, {"EVALSHA": 1, "LPUSH": 1}, server={"set": -1, "client|maint_notifications": -2})
messages.close()
db.close()
