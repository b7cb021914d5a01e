"""`load.py PROTOCOL HOST PORT setup` makes 10,000 keys with values of 108 bytes; `load.py PROTOCOL HOST PORT KEYS TIMES` asks
for so many of them at once, so many times, by the driver that Python programs use, and prints what it saw as JSON.
"""

import http.client
import json
import random
import sys
import time

STORED = 10_000
VALUE = bytes(range(64, 118)) * 2
NAMES = [f"key:{number:06}" for number in range(STORED)]


def redis(host, port):
    import redis

    client = redis.Redis(host=host, port=port)

    def store():
        client.mset({name: VALUE for name in NAMES})

    return store, client.mget


def memcached(host, port):
    from pymemcache.client.base import Client

    client = Client((host, port), no_delay=True)

    def store():
        client.set_many({name: VALUE for name in NAMES}, noreply=False)

    return store, lambda names: client.get_many(names).values()


def over_http(host, port):
    connection = http.client.HTTPConnection(host, port)

    def ask(path, body):
        connection.request("POST", path, body)
        response = connection.getresponse()
        content = response.read()
        if response.status not in (200, 204):
            raise SystemExit(f"{path}: status {response.status}")
        return content

    def store():
        for name in NAMES:
            ask(f"/set?key={name}", VALUE)

    return store, lambda names: ask("/mget", "\n".join(names)).split(VALUE)[:-1]


def postgres(host, port):
    import psycopg

    connection = psycopg.connect(host=host, port=port, user="postgres", dbname="bench", autocommit=True)
    cursor = connection.cursor(binary=True)

    def store():
        cursor.execute("CREATE TABLE multiget (id text PRIMARY KEY, value bytea)")
        cursor.executemany("INSERT INTO multiget VALUES (%s, %s)", [(name, VALUE) for name in NAMES])
        cursor.execute("ANALYZE multiget")

    def fetch(names):
        return cursor.execute("SELECT id, value FROM multiget WHERE id = ANY(%s)", (names,), prepare=True).fetchall()

    return store, fetch


def cassandra(host, port):
    from cassandra.cluster import Cluster

    session = Cluster([host], port=port, protocol_version=4).connect()
    session.default_timeout = 60

    def store():
        session.execute("CREATE KEYSPACE multiget WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}")
        session.execute("CREATE TABLE multiget.pairs (id text PRIMARY KEY, value blob)")
        insert = session.prepare("INSERT INTO multiget.pairs (id, value) VALUES (?, ?)")
        for name in NAMES:
            session.execute(insert, (name, VALUE))

    def fetch(names):
        fetch.statement = fetch.statement or session.prepare("SELECT id, value FROM multiget.pairs WHERE id IN ?")
        return list(session.execute(fetch.statement, (names,)))

    fetch.statement = None
    return store, fetch


def mongodb(host, port):
    import pymongo

    pairs = pymongo.MongoClient(host, port)["multiget"]["pairs"]

    def store():
        pairs.insert_many({"_id": name, "value": VALUE} for name in NAMES)

    return store, lambda names: list(pairs.find({"_id": {"$in": names}}))


PROTOCOLS = {"redis": redis, "memcached": memcached, "http": over_http, "postgres": postgres, "cassandra": cassandra, "mongodb": mongodb}


def measure(fetch, keys, times):
    """The seconds that each of `times` reads of `keys` keys took; ends the program where a value is missing."""
    choice = random.Random(keys)
    seconds = []
    for _ in range(times):
        names = choice.sample(NAMES, keys)
        start = time.perf_counter()
        found = len(fetch(names))
        seconds.append(time.perf_counter() - start)
        if found != keys:
            raise SystemExit(f"{found} values for {keys} keys")
    return seconds


def main():
    protocol, host, port, *rest = sys.argv[1:]
    store, fetch = PROTOCOLS[protocol](host, int(port))
    if rest == ["setup"]:
        store()
        return
    keys, times = map(int, rest)
    seconds = sorted(measure(fetch, keys, times))
    record = {"requests": times, "keys": keys, "median_ms": seconds[times // 2] * 1e3, "max_ms": seconds[-1] * 1e3}
    print(json.dumps(record), flush=True)


main()
