# needs: redis==8.1.0
"""redis-py HOST PORT PROGRAM: `get` five values, `pipeline`, or `watch` a key before a transaction."""

import sys

import redis

host, port, program = sys.argv[1:]
if program == "get":
    client = redis.Redis(host, int(port))
    for key in range(5):
        client.get(key)
elif program == "pipeline":
    pipeline = redis.Redis(host, int(port), protocol=3).pipeline()
    for key in range(50):
        pipeline.get(key)
    pipeline.execute()
else:
    # Without a name for CLIENT SETINFO, a connection starts with its first command.
    with redis.Redis(host, int(port), protocol=2, driver_info=None, lib_name=None, lib_version=None).pipeline() as pipeline:
        pipeline.watch("counter")
        count = int(pipeline.get("counter") or 0)
        pipeline.multi()
        pipeline.set("counter", count + 1).expire("counter", 100)
        pipeline.execute()
