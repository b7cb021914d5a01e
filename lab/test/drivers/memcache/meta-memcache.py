# needs: meta-memcache==4.3.0
"""meta-memcache: meta commands, quiet ones with the command that ends them, keys in base64, counters, leases."""

from driver import PORT, say
from meta_memcache import CacheClient, Key, ServerAddress, connection_pool_factory_builder

db = CacheClient.cache_client_from_servers(
    servers=[ServerAddress("127.0.0.1", PORT)], connection_pool_factory_fn=connection_pool_factory_builder())
for id in range(20):
    assert db.set(Key(f"key:{id}"), "v" * (id + 1), ttl=60)
    assert db.get(Key(f"key:{id}")) == "v" * (id + 1)
assert db.get(Key("nothing")) is None
assert len(db.multi_get([Key(f"key:{id}") for id in range(30)])) == 30
for id in range(10):  # each is followed by mn
    db.set(Key(f"quiet:{id}"), "x" * 50, ttl=60, no_reply=True)
assert db.get(Key("quiet:9")) == "x" * 50
db.set(Key("key with blanks"), "value", ttl=60)  # in base64
assert db.get(Key("key with blanks")) == "value"
assert db.delta_initialize(Key("n"), 1, initial_value=10, initial_ttl=60)
assert db.delta_and_get(Key("n"), 5) == 15
assert db.touch(Key("n"), ttl=30)
assert db.delete(Key("n")) and not db.delete(Key("n"))
assert db.set(Key("large"), "x" * 500_000, ttl=60)
assert len(db.get(Key("large"))) == 500_000

asked = {"ms": 32, "mg": 55, "mn": 10, "ma": 2, "md": 2}
say("meta-memcache", asked, {})
