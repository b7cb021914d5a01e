#!/usr/bin/env -S python3 -B
"""lab/test/waits.py [BINARY] [--drivers [NAME]] [--delay MS]: round trips of real clients, against a witness: the same capture, read by tshark,
over a link that takes 20 ms each way, or as --delay says: on a busy machine, a longer one is disturbed less. The time from a connection's SYN
to its last answer, divided by both delays, is how often the client waited. `--project rtt=` of a capture without the delay is held against
that time, too. --drivers adds drivers of PyPI, npm and Maven Central, authentication, more servers of the lab, and TLS, which is counted with
and without its keys; NAME is a part of the names of those to run.

Takes root's rights. Prints a table, and ends with a line like that of cargo test.
"""

import collections
import contextlib
import fcntl
import json
import os
import pathlib
import re
import select
import struct
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import dataclass, replace

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / "lib"), str(HERE / "drivers")]
import programs
from testing import OVERHEAD, REDIS, ROOT, certificate, check, finish, must, nginx_settings, postgres, redis_tls, require_root, run, skip, start, wait_for

SERVER = "10.77.0.2"
INSIDE = ["ip", "netns", "exec", "waits"]
DELAY = float(sys.argv[sys.argv.index("--delay") + 1]) / 1000 if "--delay" in sys.argv else 0.020
ROUND_TRIP = 2 * DELAY
# The server's own time, and this script's, per round trip.
TOLERATED = 0.2
ATTEMPTS = 4
# Debian's own Python has psycopg as a package.
PYTHON = "/usr/bin/python3"
PSYCOPG = f"import psycopg\nc = psycopg.connect('host={SERVER} port=5432 user=postgres dbname=postgres SSL', autocommit=True)\n"
READS = "for key in range(5): c.execute('SELECT %s::int', (key,)).fetchall()\n"
# A window of 10 segments is sent without a wait, the first time: the model leaves that out.
PIPELINED = "with c.pipeline():\n    for key in range(8): c.execute('SELECT %s::int', (key,))\n"
COPY = f"psql -X -q -h {SERVER} -U postgres postgres -c \"copy (select generate_series(1, 1000)) to stdout\""
CASSANDRA, FERRETDB, MYSQL, REDIS_TLS, HTTPS = 7042, 7017, 7356, 6380, 8443
# A session of TLS, and one that resumes it. `start_others` names the files.
S_CLIENT = f"< $OVERHEAD_REQUEST openssl s_client -quiet -connect {SERVER}:{HTTPS}"
FIRST, SECOND = f"{S_CLIENT} -sess_out $OVERHEAD_SESSION", f"{S_CLIENT} -sess_in $OVERHEAD_SESSION -keylogfile $SSLKEYLOGFILE"
REDIS_CLI = f"redis-cli -h {SERVER}"


@dataclass
class Client:
    name: str
    system: str
    port: int
    # The command; its first word is a file of wait-clients, if there is one of that name.
    words: list
    # How often it waits, if that is known from its documentation.
    known: int = None
    # One of the lab's servers that it needs beside those of this test.
    server: str = None
    # A command of the shell that comes before each run, at the server.
    before: str = None
    is_tls: bool = False
    # That it runs in; None where it does not matter.
    folder: pathlib.Path = None


CLIENTS = [
    # TCP, STARTUP, 5 reads.
    Client("psycopg, 5 reads", "postgres", 5432, [PYTHON, "-c", PSYCOPG.replace("SSL", "sslmode=disable") + READS], 7),
    # TCP, STARTUP, and 8 queries that wait once.
    Client("psycopg, pipeline", "postgres", 5432, [PYTHON, "-c", PSYCOPG.replace("SSL", "sslmode=disable") + PIPELINED], 3),
    Client("psql, COPY", "postgres", 5432, ["sh", "-c", "PGSSLMODE=disable " + COPY], 3),
    Client("redis-cli, GET", "redis", 6379, ["sh", "-c", f"{REDIS_CLI} GET key"], 2),
    Client("redis-cli, HELLO and 5 GET", "redis", 6379, ["sh", "-c", f"{REDIS_CLI} -3 -r 5 GET key"], 7),
    Client("curl, 3 requests", "http", 8080, ["curl", "-s", *[f"http://{SERVER}:8080/"] * 3], 4),
    Client("curl, 100 Continue", "http", 8080,
           ["curl", "-s", "-H", "Expect: 100-continue", "--data-binary", "x" * 2000, f"http://{SERVER}:8080/"], 3),
]
# Ports of the lab's servers, and of TLS.
MYSQL_CLIENT = f"$({ROOT}/lab/servers/mysql tool mysql) --no-defaults -h HOST -P {MYSQL} -u USER --get-server-public-key -N -e 'do 1'"
SIGN_IN = MYSQL_CLIENT.replace("HOST", SERVER).replace("USER", "ada -psecret --ssl-mode=MODE")
MYSQL_USER = MYSQL_CLIENT.replace("HOST", "127.0.0.1").replace("USER", "root").replace(
    "do 1", "create user if not exists ada identified with caching_sha2_password by \"secret\"; flush privileges")
MYSQL_CACHED = f"{MYSQL_USER} && {MYSQL_CLIENT.replace('HOST', '127.0.0.1').replace('USER', 'ada -psecret')}"
CURL = ["curl", "-s", "-k", "--no-sessionid"]
DRIVERS = [
    Client("pg8000, 5 reads", "postgres", 5432, ["pg8000.py", SERVER, 5432]),
    Client("psql, SCRAM and a query", "postgres", 5432,
           ["sh", "-c", f"PGPASSWORD=secret PGSSLMODE=disable psql -X -q -h {SERVER} -U ada postgres -c 'select 1'"], 5),
    Client("postgres.js, 5 reads", "postgres", 5432, ["postgres.js", SERVER, 5432, "{}"]),
    Client("postgres.js, fetch_types: false", "postgres", 5432, ["postgres.js", SERVER, 5432, '{"fetch_types": false}']),
    Client("postgres.js, fetch_types, prepare: false", "postgres", 5432,
           ["postgres.js", SERVER, 5432, '{"fetch_types": false, "prepare": false}']),
    Client("postgres.js, unsafe", "postgres", 5432, ["postgres.js", SERVER, 5432, '{"fetch_types": false, "unsafe": true}']),
    # TCP, STARTUP, and a round trip for each.
    Client("node-postgres, 5 reads", "postgres", 5432, ["pg.js", SERVER, 5432], 7),
    Client("node-postgres, named statement", "postgres", 5432, ["pg.js", SERVER, 5432, "by-key"], 7),
    Client("JDBC, prepareThreshold=0, 8 reads", "postgres", 5432, ["jdbc.java", SERVER, 5432, 0], 10),
    Client("JDBC, prepareThreshold=1, 8 reads", "postgres", 5432, ["jdbc.java", SERVER, 5432, 1], 10),
    Client("JDBC, prepareThreshold=5, 8 reads", "postgres", 5432, ["jdbc.java", SERVER, 5432, 5], 10),
    Client("redis-py, 5 GET", "redis", 6379, ["redis.py", SERVER, 6379, "get"]),
    Client("redis-py, RESP3 and a pipeline", "redis", 6379, ["redis.py", SERVER, 6379, "pipeline"]),
    # TCP, WATCH, GET, and MULTI to EXEC at once.
    Client("redis-py, WATCH and MULTI", "redis", 6379, ["redis.py", SERVER, 6379, "watch"], 4),
    Client("Cassandra, PREPARE", "cassandra", CASSANDRA, ["cassandra.py", SERVER, CASSANDRA, 0], server="cassandra"),
    Client("Cassandra, PREPARE and 5 EXECUTE", "cassandra", CASSANDRA, ["cassandra.py", SERVER, CASSANDRA, 5], server="cassandra"),
    Client("pymongo, hello and 5 reads", "mongodb", FERRETDB, ["mongo.py", SERVER, FERRETDB], server="ferretdb"),
    Client("pymongo, PLAIN and 5 reads", "mongodb", FERRETDB, ["mongo.py", SERVER, FERRETDB, "PLAIN"], server="ferretdb"),
    # TCP, the greeting, the scrambled password, and a statement.
    Client("mysql, caching_sha2 fast", "mysql", MYSQL, ["sh", "-c", SIGN_IN.replace("MODE", "DISABLED")], server="mysql", before=MYSQL_CACHED),
    # The public key and the password in two more.
    Client("mysql, caching_sha2 full", "mysql", MYSQL, ["sh", "-c", SIGN_IN.replace("MODE", "DISABLED")], server="mysql", before=MYSQL_USER),
    Client("mysql, caching_sha2 full, TLS 1.3", "mysql", MYSQL, ["sh", "-c", SIGN_IN.replace("MODE", "REQUIRED")], server="mysql",
           before=MYSQL_USER, is_tls=True),
    # TCP, flights of the handshake, a request.
    Client("curl, TLS 1.3", "http", HTTPS, [*CURL, "--tlsv1.3", f"https://{SERVER}:{HTTPS}/"], 3, is_tls=True),
    Client("curl, TLS 1.2", "http", HTTPS, [*CURL, "--tls-max", "1.2", f"https://{SERVER}:{HTTPS}/"], 4, is_tls=True),
    # Resumed: TLS 1.2 then ends with a flight of the client, which the request follows at once. Early data comes with the first flight.
    Client("openssl, TLS 1.3 resumed", "http", HTTPS, ["sh", "-c", f"{SECOND} -tls1_3"], 3, before=f"{FIRST} -tls1_3", is_tls=True),
    Client("openssl, TLS 1.2 resumed", "http", HTTPS, ["sh", "-c", f"{SECOND} -tls1_2"], 3, before=f"{FIRST} -tls1_2", is_tls=True),
    Client("openssl, early data", "http", HTTPS, ["sh", "-c", f"{SECOND} -tls1_3 -early_data $OVERHEAD_REQUEST < /dev/null"], 2, before=f"{FIRST} -tls1_3",
           is_tls=True),
    Client("redis-cli, TLS 1.3", "redis", REDIS_TLS, ["sh", "-c", f"{REDIS_CLI} -p {REDIS_TLS} --tls --insecure GET key"], 3, is_tls=True),
    # And the question whether the server speaks TLS.
    Client("psql, TLS 1.3 and a query", "postgres", 5432,
           ["sh", "-c", f"psql -X -q 'host={SERVER} user=postgres dbname=postgres sslmode=require gssencmode=disable' -c 'select 1'"], is_tls=True),
    Client("psql, TLS 1.2 and a query", "postgres", 5432,
           ["sh", "-c", f"psql -X -q 'host={SERVER} user=postgres dbname=postgres sslmode=require gssencmode=disable ssl_max_protocol_version=TLSv1.2'"
            " -c 'select 1'"], 6, is_tls=True),
]
HTTP = """
import http.server
class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    # One write for a response: what Nagle's algorithm holds back is no wait of the client's.
    wbufsize = -1
    def do_GET(self):
        self.rfile.read(int(self.headers.get("Content-Length") or 0))
        self.send_response(200)
        self.send_header("Content-Length", "5")
        self.end_headers()
        self.wfile.write(b"hello")
    do_POST = do_GET
    def handle_expect_100(self):
        super().handle_expect_100()
        self.wfile.flush()
        return True
    def log_message(self, *_): pass
http.server.ThreadingHTTPServer(("0.0.0.0", 8080), Handler).serve_forever()
"""


def tunnel(name):
    """Makes a TUN interface of the current network namespace."""
    made = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
    # TUNSETIFF, with IFF_TUN and IFF_NO_PI.
    fcntl.ioctl(made, 0x400454CA, struct.pack("16sH22x", name.encode(), 0x1001))
    return made


class SlowLink:
    """Two TUN interfaces, whose packets arrive at the other one after `DELAY`."""

    def __init__(self, ends):
        must("ip", "netns", "add", "waits")
        ends.callback(run, ["ip", "netns", "delete", "waits"])
        self.delay, self.is_over = DELAY, False
        self.ends = [tunnel("waits0"), tunnel("waits1")]
        must("ip", "link", "set", "waits1", "netns", "waits")
        for inside, name, address in (((), "waits0", "10.77.0.1/24"), (("-n", "waits"), "waits1", f"{SERVER}/24")):
            must("ip", *inside, "address", "add", address, "dev", name)
            must("ip", *inside, "link", "set", name, "up")
        must("ip", "-n", "waits", "link", "set", "lo", "up")
        threads = [threading.Thread(target=self.carry, args=way, daemon=True) for way in (self.ends, self.ends[::-1])]
        for thread in threads:
            thread.start()
        ends.callback(lambda: [setattr(self, "is_over", True), *(thread.join() for thread in threads)])

    def carry(self, source, target):
        held = collections.deque()
        while not self.is_over:
            left = held[0][0] - time.monotonic() if held else 0.1
            if select.select([source], [], [], max(left, 0))[0]:
                held.append((time.monotonic() + self.delay, os.read(source, 65536)))
            while held and held[0][0] <= time.monotonic():
                with contextlib.suppress(OSError):
                    os.write(target, held.popleft()[1])


class Lab:
    """The servers beyond the slow link, and the captures of their clients."""

    def __init__(self, ends, folder):
        self.ends, self.folder, self.link, self.rows, self.servers = ends, folder, SlowLink(ends), [], {}
        self.keys = folder / "keys.log"
        start(ends, [*INSIDE, *REDIS, "--bind", SERVER, "--dir", folder])
        start(ends, [*INSIDE, PYTHON, "-c", HTTP])
        wait_for(lambda: run(["curl", "-s", f"http://{SERVER}:8080/"]).returncode == 0, "the HTTP server")

    def start_postgres(self, tls=None):
        """Returns the folder of its socket, or None."""
        return postgres(self.ends, self.folder, 5432, INSIDE, "10.77.0.0/24", tls)

    def start_others(self, socket, tls):
        """Starts and sets what only drivers need: TLS, users with passwords, and the way to the lab's servers, which listen on 127.0.0.1."""
        files = {name: self.folder / name.lower() for name in ("OVERHEAD_SESSION", "OVERHEAD_REQUEST")}
        files["OVERHEAD_REQUEST"].write_text(f"GET / HTTP/1.0\r\nHost: {SERVER}\r\n\r\n")
        os.environ.update({name: str(file) for name, file in files.items()})
        must("gcc", "-shared", "-fPIC", "-O1", "-o", self.folder / "keylog.so", HERE / "files/keylog.c", "-ldl")
        must(*INSIDE, "sysctl", "-qw", "net.ipv4.conf.all.route_localnet=1")
        ports = f"{{ {CASSANDRA}, {FERRETDB}, {MYSQL} }}"
        must(*INSIDE, "nft", f"table ip lab {{ chain before {{ type nat hook prerouting priority -100; ip daddr {SERVER} tcp dport {ports} dnat to 127.0.0.1; }}; }}")
        start(self.ends, [*INSIDE, *REDIS, "--bind", SERVER, "--dir", self.folder, "--port", 0, *redis_tls(REDIS_TLS, *tls)])
        settings = nginx_settings(self.folder, f"{SERVER}:{HTTPS}", *tls, server="ssl_protocols TLSv1.2 TLSv1.3;")
        start(self.ends, [*INSIDE, "nginx", "-c", settings])
        wait_for(lambda: not run([*INSIDE, *CURL, f"https://{SERVER}:{HTTPS}/"]).returncode, "nginx")
        if socket:
            allowed = socket / "data/pg_hba.conf"
            allowed.write_text("host all ada 10.77.0.0/24 scram-sha-256\n" + allowed.read_text())
            must("psql", "-X", "-q", "-h", socket, "-U", "postgres", "-c", "create role ada login password 'secret'", "-c", "select pg_reload_conf()")

    def missing(self, client):
        """Why a client cannot be run; None if it can."""
        if client.server and client.server not in self.servers:
            self.servers[client.server] = self.start_server(client.server)
        return self.servers.get(client.server)

    def start_server(self, name):
        installed = run([ROOT / "lab/install", name])
        started = installed.returncode or run([*INSIDE, ROOT / "lab/up", name])
        if installed.returncode or started.returncode:
            return f"{name}: {(started or installed).stderr.strip().splitlines()[-1]}"
        every = [*must(ROOT / "lab/servers" / name, "requires").split(), name]
        for each in every:
            self.ends.callback(run, [*INSIDE, ROOT / "lab/down", each])

    def captured(self, client, name):
        """Runs a program, and returns the capture of its connections."""
        place = self.folder / f"{name}.pcap"
        place.unlink(missing_ok=True)
        self.keys.unlink(missing_ok=True)
        if client.before:
            must(*INSIDE, "sh", "-c", client.before)
        logging = {"LD_PRELOAD": str(self.folder / "keylog.so"), "SSLKEYLOGFILE": str(self.keys)} if client.is_tls else {}
        with contextlib.ExitStack() as ends:
            # Frames of the link are short. In immediate mode, a ring of 2 MB has room for few of the longest, and loses some on a busy machine.
            start(ends, ["tcpdump", "-i", "waits0", "-Z", "root", "--immediate-mode", "-U", "-s", "2048", "-B", "16384", "-w", place,
                         f"tcp port {client.port}"])
            wait_for(lambda: place.exists() and place.stat().st_size >= 24, "tcpdump")
            time.sleep(0.3)
            must(*client.words, cwd=client.folder, env={**os.environ, **logging}, stdin=subprocess.DEVNULL)
            # On a busy machine, tcpdump lags behind.
            wait_for(lambda: has_ended(place), "the end of the connections in the capture", 60)
        return place

    def record(self, place, client, *options, with_keys=True):
        keys = ["--keylog", self.keys] if client.is_tls and with_keys else []
        done = run([OVERHEAD, "analyze", place, "--db", client.system, "--port", client.port, "--format", "json", *keys, *options])
        return json.loads(done.stdout)

    def ask(self, client):
        name = client.name
        # A busy machine only adds to the time.
        for _ in range(ATTEMPTS):
            place = self.captured(client, re.sub("[^a-zA-Z0-9]+", "-", name))
            seconds, counted = witnessed(place, client.port), self.record(place, client)["whole"]["round_trips"]
            # MySQL's server speaks first. A wait that the client did not ask for is no round trip.
            waited = seconds / ROUND_TRIP - (client.system == "mysql")
            if waited <= counted * (1 + TOLERATED):
                break
        self.rows.append((name, "-" if client.known is None else client.known, counted, f"{seconds:.3f}", f"{waited:.2f}"))
        check(f"{name}: {counted} round trips, {waited:.2f} by the clock", counted <= waited <= counted * (1 + TOLERATED))
        if client.known is not None:
            check(f"{name}: as documented", counted, client.known)
        if client.is_tls:
            check(f"{name}: without its keys", self.record(place, client, with_keys=False)["whole"]["round_trips"], counted)
        self.model(client, seconds)

    def model(self, client, seconds):
        """Holds the model of a capture without the delay against the time with it."""
        self.link.delay = 0
        near = self.record(self.captured(client, "near"), client, "--project", f"rtt={ROUND_TRIP * 1000:.0f}ms")
        self.link.delay = DELAY
        each, operations = near["distances"][0]["elapsed_ns_per_operation"], near["whole"]["operations"]
        if not isinstance(each, int):
            return skip(f"{client.name}: elapsed time", each["unavailable"])
        modelled = each * operations / 1e9
        check(f"{client.name}: {modelled:.3f} s modelled, {seconds:.3f} s with the delay", abs(modelled - seconds) <= TOLERATED * seconds)


def has_ended(place):
    """Whether the capture, of IP packets, has the end of each connection, and at least one."""
    opened, closed = set(), set()
    with open(place, "rb") as file:
        file.read(24)
        while len(head := file.read(16)) == 16:
            length = int.from_bytes(head[8:12], "little")
            packet = file.read(length)
            if len(packet) < length:
                break
            tcp = packet[(packet[0] & 15) * 4:]
            if tcp[13] & 0x12 == 0x02:
                opened.add(tcp[:2])
            if tcp[13] & 0x05:
                closed |= {tcp[:2], tcp[2:4]}
    return bool(opened) and opened <= closed


def witnessed(place, port):
    """The seconds from each connection's SYN to its last answer, as tshark reads them, in all."""
    lines = must("tshark", "-r", place, "-T", "fields", "-e", "tcp.stream", "-e", "frame.time_epoch", "-e", "tcp.srcport", "-e", "tcp.len")
    first, last = {}, {}
    for line in lines.splitlines():
        stream, at, source, length = line.split("\t")
        first.setdefault(stream, float(at))
        if int(source) == port and int(length) > 0:
            last[stream] = float(at)
    return sum(last[stream] - first[stream] for stream in last)


def installed(client):
    """The client with its program installed; raises `Missing`."""
    source = HERE / "wait-clients" / client.words[0]
    if "/" in client.words[0] or not source.is_file():
        return client
    program = programs.Program(source)
    folder = program.installed()
    return replace(client, words=[*program.words(folder), *client.words[1:]], folder=folder)


def chosen():
    """The clients that the arguments name."""
    if "--drivers" not in sys.argv:
        skip("drivers", "--drivers tests them")
        return CLIENTS
    at = sys.argv.index("--drivers") + 1
    name = sys.argv[at] if at < len(sys.argv) and not sys.argv[at].startswith("-") and "/" not in sys.argv[at] else ""
    return [client for client in CLIENTS + DRIVERS if name in client.name]


def main():
    with_drivers = "--drivers" in sys.argv
    require_root("tcpdump", "tshark", "curl", "redis-cli", *(("gcc", "openssl", "nginx", "nft") if with_drivers else ()))
    if not os.path.exists("/dev/net/tun"):
        skip("all", "this machine has no /dev/net/tun")
        finish()
    with contextlib.ExitStack() as ends:
        folder = pathlib.Path(ends.enter_context(tempfile.TemporaryDirectory()))
        folder.chmod(0o755)
        lab = Lab(ends, folder)
        tls = certificate(folder) if with_drivers else None
        socket = lab.start_postgres(tls)
        if with_drivers:
            lab.start_others(socket, tls)
        for client in chosen():
            if client.system == "postgres" and (not socket or client.words[0] == PYTHON and run([PYTHON, "-c", "import psycopg"]).returncode):
                skip(client.name, "PostgreSQL or its client is not installed")
                continue
            try:
                reason, client = lab.missing(client), installed(client)
            except programs.Missing as missing:
                reason = missing
            if reason:
                skip(client.name, reason)
            else:
                lab.ask(client)
        table(lab.rows)
    finish()


def table(rows):
    rows = [("client", "documented", "counted", "seconds", f"/ {ROUND_TRIP * 1000:.0f} ms"), *rows]
    widths = [max(len(str(row[column])) for row in rows) for column in range(len(rows[0]))]
    for name, *numbers in rows:
        print(name.ljust(widths[0]), *(str(number).rjust(width) for number, width in zip(numbers, widths[1:])), sep="  ")


main()
