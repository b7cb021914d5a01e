#!/usr/bin/env -S python3 -B
"""lab/test/waits.py [BINARY] [--drivers] [--delay MS]: round trips of real clients, against a witness: the same capture, read by tshark, over a link that
takes 20 ms each way, or as --delay says: on a busy machine, a longer one is disturbed less. The time from a connection's SYN to its last
answer, divided by both delays, is how often the client waited. `--project rtt=` of a capture without the delay is held against that time,
too. --drivers adds drivers from PyPI.

Takes root's rights. Ends with a line like that of cargo test.
"""

import collections
import contextlib
import fcntl
import json
import os
import pathlib
import select
import struct
import sys
import tempfile
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "lib"))
from testing import OVERHEAD, REDIS, check, finish, must, postgres, require_root, run, skip, start, wait_for

SERVER = "10.77.0.2"
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
REDIS_CLI = f"redis-cli -h {SERVER}"
# Name, system, port, program, and how often it waits, if that is known from its documentation.
CLIENTS = [
    # TCP, STARTUP, 5 reads.
    ("psycopg, 5 reads", "postgres", 5432, [PYTHON, "-c", PSYCOPG.replace("SSL", "sslmode=disable") + READS], 7),
    # TCP, STARTUP, and 8 queries that wait once.
    ("psycopg, pipeline", "postgres", 5432, [PYTHON, "-c", PSYCOPG.replace("SSL", "sslmode=disable") + PIPELINED], 3),
    ("psql, COPY", "postgres", 5432, ["sh", "-c", "PGSSLMODE=disable " + COPY], 3),
    ("redis-cli, GET", "redis", 6379, ["sh", "-c", f"{REDIS_CLI} GET key"], 2),
    ("redis-cli, HELLO and 5 GET", "redis", 6379, ["sh", "-c", f"{REDIS_CLI} -3 -r 5 GET key"], 7),
    ("curl, 3 requests", "http", 8080, ["curl", "-s", *[f"http://{SERVER}:8080/"] * 3], 4),
    ("curl, 100 Continue", "http", 8080,
     ["curl", "-s", "-H", "Expect: 100-continue", "--data-binary", "x" * 2000, f"http://{SERVER}:8080/"], 3),
]
DRIVERS = [
    ("pg8000, 5 reads", "postgres", 5432, "pg8000",
     f"import pg8000.native as p\nc = p.Connection('postgres', host='{SERVER}')\nfor key in range(5): c.run('SELECT :a::int', a=key)\nc.close()"),
    ("redis-py, 5 GET", "redis", 6379, "redis",
     f"import redis\nc = redis.Redis('{SERVER}')\nfor key in range(5): c.get(key)"),
    ("redis-py, RESP3 and a pipeline", "redis", 6379, "redis",
     f"import redis\nc = redis.Redis('{SERVER}', protocol=3)\np = c.pipeline()\nfor key in range(50): p.get(key)\np.execute()"),
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


def captured(folder, name, port, words):
    """Runs a program, and returns the capture of its connections."""
    place = folder / f"{name}.pcap"
    place.unlink(missing_ok=True)
    ends = contextlib.ExitStack()
    with ends:
        start(ends, ["tcpdump", "-i", "waits0", "-Z", "root", "--immediate-mode", "-U", "-s", "0", "-w", place, f"tcp port {port}"])
        wait_for(lambda: place.exists() and place.stat().st_size >= 24, "tcpdump")
        time.sleep(0.3)
        must(*words)
        time.sleep(0.5)
    return place


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


def record(place, system, port, *options):
    done = run([OVERHEAD, "analyze", place, "--db", system, "--port", port, "--format", "json", *options])
    return json.loads(done.stdout)


def ask(folder, link, name, system, port, words, known):
    # A busy machine only adds to the time.
    for _ in range(ATTEMPTS):
        place = captured(folder, name.replace(" ", "-").replace(",", ""), port, words)
        seconds, counted = witnessed(place, port), record(place, system, port)["whole"]["round_trips"]
        waited = seconds / ROUND_TRIP
        if waited <= counted * (1 + TOLERATED):
            break
    check(f"{name}: {counted} round trips, {waited:.2f} by the clock", counted <= waited <= counted * (1 + TOLERATED))
    if known is not None:
        check(f"{name}: as documented", counted, known)
    # The model of the capture without the delay against the time with it.
    link.delay = 0
    near = record(captured(folder, "near", port, words), system, port, "--project", f"rtt={ROUND_TRIP * 1000:.0f}ms")
    link.delay = DELAY
    each, operations = near["distances"][0]["elapsed_ns_per_operation"], near["whole"]["operations"]
    if not isinstance(each, int):
        return skip(f"{name}: elapsed time", each["unavailable"])
    modelled = each * operations / 1e9
    check(f"{name}: {modelled:.3f} s modelled, {seconds:.3f} s with the delay", abs(modelled - seconds) <= TOLERATED * seconds)


def main():
    require_root("tcpdump", "tshark", "curl", "redis-cli")
    if not os.path.exists("/dev/net/tun"):
        skip("all", "this machine has no /dev/net/tun")
        finish()
    with contextlib.ExitStack() as ends:
        folder = pathlib.Path(ends.enter_context(tempfile.TemporaryDirectory()))
        folder.chmod(0o755)
        link = SlowLink(ends)
        inside = ["ip", "netns", "exec", "waits"]
        start(ends, [*inside, *REDIS, "--bind", SERVER, "--dir", folder, "--protected-mode", "no"])
        start(ends, [*inside, PYTHON, "-c", HTTP])
        has_postgres = postgres(ends, folder, 5432, inside, "10.77.0.0/24") is not None
        wait_for(lambda: run(["curl", "-s", f"http://{SERVER}:8080/"]).returncode == 0, "the HTTP server")
        clients = list(CLIENTS)
        if "--drivers" in sys.argv:
            must(PYTHON, "-m", "venv", folder / "venv")
            must(folder / "venv/bin/pip", "install", "-q", *{package for _, _, _, package, _ in DRIVERS})
            python = folder / "venv/bin/python"
            clients += [(name, system, port, [python, "-c", program], None) for name, system, port, _, program in DRIVERS]
        else:
            skip("drivers of PyPI", "--drivers tests them")
        for name, system, port, words, known in clients:
            if system == "postgres" and (not has_postgres or words[0] == PYTHON and run([PYTHON, "-c", "import psycopg"]).returncode):
                skip(name, "PostgreSQL or its client is not installed")
            else:
                ask(folder, link, name, system, port, words, known)
    finish()


main()
