"""Servers as witnesses: what their own counters say was asked of them, over a connection of the witness's own that the
capture leaves out. Each class has `port`, the local port of that connection (0 where it has none), and gives rows
(what, overhead's number, the server's) for a record once the program is done."""

import json
import os
import socket
import struct
import subprocess
import time
from collections import Counter

from testing import memcached_counters, payload, redis_counters

HOST = "127.0.0.1"


def total(record, keep):
    """How many operations of a record `keep` holds for."""
    return sum(row["count"] for row in record["operations"] if keep(row))


def read(connection, count):
    whole = b""
    while len(whole) < count:
        more = connection.recv(count - len(whole))
        if not more:
            raise ValueError("the server has closed the connection of the witness")
        whole += more
    return whole


class Server:
    """What all witnesses share: a connection, and the counters before and after."""

    def __init__(self, port):
        self.connection = socket.create_connection((HOST, port), timeout=30)
        self.connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.port = self.connection.getsockname()[1]
        self.asked = self.answered = 0  # bytes of the last question and of its answer
        self.greet()
        self.before = self.counters()

    def greet(self):
        """The first bytes of a connection."""

    def held(self):
        """Reads what the server counted of connections that are still open."""

    def finish(self):
        first_answer = self.answered
        self.after = self.counters()
        self.apart = self.asked, first_answer
        self.connection.close()

    def payload(self, source, record, *moved):
        """Rows of the bytes both ways. The last question counts before its answer says so, and that answer has not been sent."""
        for side, count, apart in zip(("request", "response"), moved, self.apart):
            yield f"{source}: payload, {side}", payload(record, side), count - apart

    def grown(self):
        """What the counters grew by between the two readings."""
        grown = Counter(self.after)
        grown.subtract(self.before)
        return {name: count for name, count in grown.items() if count}


class Redis(Server):
    """INFO's counters: calls by command, and bytes both ways."""

    def counters(self):
        found = redis_counters(self.connection)
        self.asked, self.answered = len("INFO everything\r\n"), found["length"]
        return {**found["calls"], **{name: found[name] for name in ("total_net_input_bytes", "total_net_output_bytes")}}

    def rows(self, record, streams, said):
        grown = self.grown()
        taken, given = grown.pop("total_net_input_bytes"), grown.pop("total_net_output_bytes")
        grown["info"] = grown.get("info", 0) - 1
        yield from self.payload("INFO", record, taken, given)
        mine = Counter()
        for row in record["operations"]:
            if row["class"] != "unmatched" and row["name"] not in ("CONNECT", "TLS"):
                mine[row["name"].lower().replace(" ", "|")] += row["count"]
        for name in sorted(set(mine) | {name for name, count in grown.items() if count}):
            yield f"INFO commandstats: {name}", mine[name] + said.get("server", {}).get(name, 0), grown.get(name, 0)


class Memcached(Server):
    """`stats`: bytes both ways, and commands that are counted one by one."""

    def counters(self):
        found = memcached_counters(self.connection)
        self.asked, self.answered = len("stats\r\n"), found["length"]
        return found

    def rows(self, record, streams, said):
        grown = self.grown()
        yield from self.payload("stats", record, grown["bytes_read"], grown["bytes_written"])
        flushes = total(record, lambda row: row["name"].removeprefix("bin ") in ("flush_all", "flush_allq"))
        yield "stats: cmd_flush", flushes, grown.get("cmd_flush", 0)
        if not said:  # a load without commands that count otherwise
            for name in ("get", "set"):
                yield f"stats: cmd_{name}", total(record, lambda row: row["name"] == name), grown.get(f"cmd_{name}", 0)
        for name, count in said.get("server", {}).items():
            yield f"stats: {name}", count, grown.get(name, 0)


class Mysql(Server):
    """SHOW GLOBAL STATUS: bytes both ways, and commands by their kind. Logs in as root without a password."""

    QUESTION = "SHOW GLOBAL STATUS WHERE Variable_name LIKE 'Com\\_%' OR Variable_name IN ('Bytes_sent', 'Bytes_received', 'Connections')"
    # CLIENT_LONG_PASSWORD, CLIENT_PROTOCOL_41, CLIENT_SECURE_CONNECTION, CLIENT_PLUGIN_AUTH.
    CAPABILITIES = 1 | 1 << 9 | 1 << 15 | 1 << 19

    def packet(self):
        head = read(self.connection, 4)
        self.answered += 4 + int.from_bytes(head[:3], "little")
        return read(self.connection, int.from_bytes(head[:3], "little"))

    def greet(self):
        self.answered = 0
        # The greeting ends with the name of the way to sign in that the server would like; without a password it is all the same.
        plugin = self.packet().rstrip(b"\0").rpartition(b"\0")[2]
        login = struct.pack("<IIB23x", self.CAPABILITIES, 1 << 24, 45) + b"root\0\0" + plugin + b"\0"
        self.connection.sendall(len(login).to_bytes(3, "little") + b"\1" + login)
        if self.packet()[0] != 0:
            raise ValueError("the server does not let root in without a password")

    def counters(self):
        question = b"\3" + self.QUESTION.encode()
        self.asked, self.answered = 4 + len(question), 0
        self.connection.sendall(len(question).to_bytes(3, "little") + b"\0" + question)
        for _ in range(self.packet()[0]):
            self.packet()
        self.packet()  # EOF behind the columns
        found = {}
        while (row := self.packet())[0] != 0xfe:
            name, value = row[1:1 + row[0]], row[2 + row[0]:]
            found[name.decode()] = int(value)
        return found

    def rows(self, record, streams, said):
        grown = self.grown()
        yield from self.payload("status", record, grown["Bytes_received"], grown["Bytes_sent"])
        for counter, keep in MYSQL_COUNTERS.items():
            mine = total(record, lambda row: keep(row["name"].split()[0], row["via"])) + said.get("server", {}).get(counter, 0)
            yield f"status: {counter}", mine, grown.get(counter, 0)


# What each of MySQL's counters counts, by a row's first word and how it was sent.
MYSQL_COUNTERS = {
    **{f"Com_{verb.lower()}": lambda word, via, verb=verb: word == verb and via in ("text", "prepared", "bulk")
       for verb in ("SELECT", "INSERT", "UPDATE", "DELETE", "COMMIT", "ROLLBACK")},
    "Com_begin": lambda word, via: word in ("BEGIN", "START"),
    "Com_stmt_prepare": lambda word, via: word == "PREPARE" and via == "prepared",
    "Com_stmt_execute": lambda word, via: via == "bulk" or via == "prepared" and word not in ("PREPARE", "CLOSE", "STMT", "FETCH", "LONG"),
    "Com_stmt_close": lambda word, via: word == "CLOSE" and via == "prepared",
}


class Httpkv(Server):
    """The lab's store over HTTP: `/stats`, with the bytes of its sockets and requests by what they ask for."""

    def counters(self):
        question = b"GET /stats HTTP/1.1\r\nHost: witness\r\n\r\n"
        self.connection.sendall(question)
        head = b""
        while not head.endswith(b"\r\n\r\n"):
            head += read(self.connection, 1)
        body = read(self.connection, int(head.lower().partition(b"content-length:")[2].split()[0]))
        self.asked, self.answered = len(question), len(head) + len(body)
        return json.loads(body)

    def rows(self, record, streams, said):
        grown = self.grown()
        yield from self.payload("stats", record, grown["bytes_read"], grown["bytes_written"])
        yield "stats: requests", total(record, lambda row: row["name"] != "CONNECT"), grown["requests"] - 1
        for counter, path in (("gets", "/get"), ("multi_gets", "/mget")):
            yield f"stats: {counter}", total(record, lambda row: row["name"].endswith(" " + path)), grown.get(counter, 0)
        if not said:  # a load without /mset, whose sets count by key
            yield "stats: sets", total(record, lambda row: row["name"] == "PUT /set"), grown.get("sets", 0)


class Cassandra(Server):
    """The virtual tables of Cassandra: statements executed, and requests per connection while it is open."""

    def message(self, opcode, body):
        self.connection.sendall(struct.pack(">BBhBi", 4, 0, 0, opcode, len(body)) + body)
        _, _, _, opcode, size = struct.unpack(">BBhBi", read(self.connection, 9))
        body = read(self.connection, size)
        if opcode == 0:
            raise ValueError(f"Cassandra says: {body[6:].decode(errors='replace')}")
        return body

    def greet(self):
        self.message(1, b"\0\1\0\x0bCQL_VERSION\0\x053.0.0")

    def query(self, text):
        """The rows of a statement, each a list of values in bytes."""
        body = self.message(7, struct.pack(">i", len(text)) + text.encode() + struct.pack(">hB", 1, 0))
        _, flags, columns = struct.unpack(">iii", body[:12])
        at = 12

        def take(form):
            nonlocal at
            size = struct.unpack_from(form, body, at)[0]
            at += struct.calcsize(form)
            value = body[at:at + max(size, 0)]
            at += max(size, 0)
            return value

        if flags & 1:
            take(">h"), take(">h")
        for _ in range(columns):
            take(">h")
            at += 2  # a plain type
        count, at = struct.unpack_from(">i", body, at)[0], at + 4
        return [[take(">i") for _ in range(columns)] for _ in range(count)]

    def counters(self):
        rows = self.query("SELECT name, value FROM system_views.cql_metrics")
        return {name.decode(): struct.unpack(">d", value)[0] for name, value in rows}

    def clients(self):
        """Requests by the port of their connection, of those that are open."""
        self.asked += 1
        rows = self.query("SELECT port, request_count FROM system_views.clients")
        requests = {struct.unpack(">i", port)[0]: struct.unpack(">q", count)[0] for port, count in rows}
        return {port: count for port, count in requests.items() if port != self.port}

    def held(self):
        # Drivers refresh what they know of the schema on their own, a moment after it changed.
        self.asked, before = 0, None
        self.open = self.clients()
        while self.open != before:
            time.sleep(2)
            before, self.open = self.open, self.clients()

    def rows(self, record, streams, said):
        grown = self.grown()
        # Each of the witness's statements is counted before it is answered: all but the first are in what was counted.
        grown["regular_statements_executed"] = grown.get("regular_statements_executed", 0) - self.asked - 1
        for via, counter in (("query", "regular_statements_executed"), ("prepared", "prepared_statements_executed")):
            # What fails does so before it is executed.
            rows = [row for row in record["operations"] if row["via"] == via]
            mine = sum(row["count"] - row["errors"] for row in rows)
            yield f"cql_metrics: {counter}", mine, int(grown.get(counter, 0))
        mine = Counter({int(row["client"].rpartition(":")[2]): row["operations"] for row in record["connections"]})
        for (_, port), side in streams:
            # OPTIONS before STARTUP does not count as a request of a client.
            if side == "request" and streams[(_, port), side][4] == 5:
                mine[port] -= 1
        for port, requests in sorted(self.open.items()):
            yield f"clients: requests of port {port}", mine[port], requests


class FerretDB(Server):
    """serverStatus: requests by command."""

    def counters(self):
        body = b"\x10serverStatus\0\1\0\0\0\2$db\0\6\0\0\0admin\0\0"
        message = struct.pack("<iiiiiB", 20 + 1 + 4 + len(body), 1, 0, 2013, 0, 0) + struct.pack("<i", 4 + len(body)) + body
        self.connection.sendall(message)
        size = struct.unpack("<i", read(self.connection, 4))[0]
        answer = document(read(self.connection, size - 4), 4 + 4 + 4 + 4 + 1)
        commands = answer["metrics"]["commands"]
        return {name: fields["total"] for name, fields in commands.items()}

    def rows(self, record, streams, said):
        grown, mine = self.grown(), Counter()
        for row in record["operations"]:
            # What came as OP_QUERY has no name there.
            if row["name"] != "CONNECT" and row["class"] != "unmatched":
                mine["unknown" if row["via"] == "OP_QUERY" else row["name"]] += row["count"]
        grown.pop("serverStatus", None)
        for name in sorted(set(mine) | set(grown)):
            yield f"serverStatus: {name}", mine[name], grown.get(name, 0)


class Postgres:
    """pg_stat_statements: statements that succeeded, by their verb. Asked by psql before the capture begins and after its end."""

    port = 0

    def __init__(self, port):
        self.at = port
        self.ask("select pg_stat_statements_reset()")

    def ask(self, text):
        command = ["psql", "-X", "-q", "-A", "-t", "-F", "\t", "-h", HOST, "-p", str(self.at), "-U", "postgres", "-d", "bench", "-c", text]
        environment = {**os.environ, "PGSSLMODE": "disable"}
        return subprocess.run(command, check=True, capture_output=True, text=True, env=environment).stdout.splitlines()

    def held(self):
        """Nothing: the counters stay after the connections."""

    def finish(self):
        own = "where query !~ 'pg_stat_statements'"
        lines = self.ask(f"select upper(substring(query from '[A-Za-z]+')), sum(calls) from pg_stat_statements {own} group by 1")
        self.calls = {name: int(count) for name, count in (line.split("\t") for line in lines)}

    def rows(self, record, streams, said):
        mine = Counter()
        for row in record["operations"]:
            mine[row["name"].split()[0]] += row["count"] - row["errors"]
        mine["SELECT"] -= said.get("server", {}).get("WITH", 0)  # overhead's name for both
        for name, calls in sorted(self.calls.items()):
            yield f"pg_stat_statements: {name}", mine[name] + said.get("server", {}).get(name, 0), calls


def document(bytes_, at):
    """A BSON document as a dict: numbers, texts and what is nested; other values as None."""
    end = at + struct.unpack_from("<i", bytes_, at)[0] - 1
    at, found = at + 4, {}
    while at < end:
        kind, stop = bytes_[at], bytes_.index(b"\0", at + 1)
        name, at = bytes_[at + 1:stop].decode(), stop + 1
        size = struct.unpack_from("<i", bytes_, at)[0] if kind in (2, 3, 4, 5) else 0
        if kind in (3, 4):
            found[name] = document(bytes_, at)
        elif kind in (1, 0x10, 0x12):
            found[name] = struct.unpack_from({1: "<d", 0x10: "<i", 0x12: "<q"}[kind], bytes_, at)[0]
        elif kind == 2:
            found[name] = bytes_[at + 4:at + 3 + size].decode()
        at += {1: 8, 2: 4 + size, 3: size, 4: size, 5: 5 + size, 7: 12, 8: 1, 9: 8, 0x10: 4, 0x11: 8, 0x12: 8, 0x13: 16, 10: 0}[kind]
    return found
