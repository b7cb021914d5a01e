# needs: python-binary-memcached==0.33.0
"""python-binary-memcached: the binary protocol with quiet sets and gets, counters, statistics, an object too large."""

import os

import bmemcached
from driver import PORT, say

db = bmemcached.Client((f"127.0.0.1:{PORT}",), compression=None)
for id in range(20):
    assert db.set(f"key:{id}", "v" * id)
    assert db.get(f"key:{id}") == "v" * id
assert db.get("nothing") is None
assert db.set_multi({f"many:{id}": "x" * id for id in range(1, 11)}) == []
assert len(db.get_multi([f"many:{id}" for id in range(1, 21)])) == 10
assert not db.add("key:1", "there already") and db.replace("key:1", "new")
assert db.incr("n", 1, default=41) == 41 and db.incr("n", 1) == 42 and db.decr("n", 2) == 40
assert db.delete("key:1") and db.delete("key:1")
try:
    db.set("large", os.urandom(2_000_000))  # which does not shrink: the driver compresses
    raise SystemExit("it was stored")
except bmemcached.exceptions.MemcachedException:
    pass
assert db.stats() and db.flush_all()

asked = {"bin set": 21, "bin get": 21, "bin setq": 10, "bin noop": 1, "bin getkq": 19, "bin getk": 1, "bin add": 1, "bin replace": 1,
         "bin incr": 2, "bin decr": 1, "bin delete": 2, "bin stats": 1, "bin flush_all": 1}
say("python-binary-memcached", asked, {"bin set": 1})
db.disconnect_all()
