"""The captures that speed is measured on: real loads on the lab's own servers, and recordings copied to many connections.

Loads run between a client and a server on loopback while tcpdump writes; nothing of it is kept in the repository.
"""

import contextlib
import random
import socket
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path

import traffic
from testing import ask

LAB = Path(__file__).resolve().parents[1]
# The lab's servers that `make` needs.
SERVERS = ("memcached", "redis", "postgres", "mariadb")


def port(server):
    return int(subprocess.check_output([LAB / "servers" / server, "port"]))


MEMCACHED, REDIS, POSTGRES, MARIADB, CASSANDRA, FERRETDB = map(port, (*SERVERS, "cassandra", "ferretdb"))
# Connections, and rows, of the loads by `overhead bench`.
CLIENTS, ROWS = 4, 1_000
# Recordings of fixtures/, with the servers' ports.
RECORDED = {"cassandra": 7042, "ferretdb": 7017}


@dataclass(frozen=True)
class Capture:
    name: str
    path: Path
    db: str
    port: int
    # Frames that are looked at where every instruction is counted: enough for a steady state.
    counted: int = 60_000

    def analyze(self, binary, *options):
        return [binary, "analyze", self.path, "--db", self.db, "--port", str(self.port),
                "--format", "json", *options]


class Recording:
    """tcpdump writing a file, from when it listens until no more comes; without the connection of the port `apart`."""

    def __init__(self, path, port, apart=0):
        self.path, self.dropped = Path(path), False
        expression = f"tcp port {port}" + (f" and not tcp port {apart}" if apart else "")
        command = ["tcpdump", "-i", "lo", "-n", "-U", "-B", "262144", "-w", path, expression]
        self.process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        while "listening" not in (line := self.process.stderr.readline()):
            if not line:
                raise OSError("tcpdump does not start")

    def __enter__(self):
        return self

    def __exit__(self, kind, *_):
        if kind:
            self.process.kill()
        self.end()

    def end(self):
        """Ends tcpdump, and sets `dropped` if it lost packets."""
        if self.process.returncode is not None:
            return
        size = -1
        # The kernel hands over what it holds after a second.
        while self.process.poll() is None and size != (size := self.path.stat().st_size):
            time.sleep(1.5)
        self.process.terminate()
        self.dropped = "\n0 packets dropped by kernel" not in "\n" + self.process.communicate()[1]


@contextlib.contextmanager
def servers(*names, install=False):
    """Starts those of the lab's servers that do not run, with what they require, and stops them again, the last one first."""
    def ask(name, what):
        return subprocess.run([LAB / "servers" / name, what], capture_output=True, text=True, check=False)

    if install:
        subprocess.run([LAB / "install", *names], check=True, stdout=subprocess.DEVNULL)
    every = dict.fromkeys(each for name in names for each in (name, *ask(name, "requires").stdout.split()))
    needed = [name for name in every if ask(name, "ready").returncode]
    try:
        if needed:
            subprocess.run([LAB / "up", *names], check=True, stdout=subprocess.DEVNULL)
        yield
    finally:
        for name in needed:
            subprocess.run([LAB / "down", name], check=False, stdout=subprocess.DEVNULL)


def redis_benchmark(requests, *options):
    return ["redis-benchmark", "-q", "--csv", "-p", str(REDIS), "-c", "50", "-d", "100", "-r", "1000", "-n", str(requests), *options]


def random_shapes(requests):
    """Sets and gets values of random length under keys of random length, over four connections: no request is as long as
    the one before it. The same requests each time."""
    numbers = random.Random(11)
    keys = [b"%0*d" % (numbers.randint(5, 60), number) for number in range(10_000)]
    text = bytes(numbers.randint(33, 126) for _ in range(4_096))
    clients = [socket.create_connection(("127.0.0.1", REDIS)) for _ in range(4)]
    files = [client.makefile("rb") for client in clients]
    for client in clients:
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    for number in range(requests):
        client, answers, key = clients[number % 4], files[number % 4], numbers.choice(keys)
        words = [b"GET", key] if number // 4 % 2 else [b"SET", key, text[:numbers.randint(1, 1_000)]]
        client.sendall(b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%s\r\n" % (len(word), word) for word in words))
        head = answers.readline()
        if head.startswith(b"$") and head != b"$-1\r\n":
            answers.read(int(head[1:]) + 2)
    for client, answers in zip(clients, files):
        answers.close()
        client.close()


def memcached_load(requests):
    """Sets and gets by turns of values of 100 bytes, over four connections."""
    numbers, value = random.Random(11), b"x" * 100
    clients = [socket.create_connection(("127.0.0.1", MEMCACHED)) for _ in range(4)]
    for client in clients:
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    for number in range(requests):
        client, key = clients[number % 4], b"key:%08d" % numbers.randrange(1_000)
        is_set = number // 4 % 2 == 0
        request, end = (b"set %s 0 0 100\r\n%s\r\n" % (key, value), b"STORED\r\n") if is_set else (b"get %s\r\n" % key, b"END\r\n")
        ask(client, request, until=end)
    for client in clients:
        client.close()


def sysbench(test, events, *options):
    """Point selects and other loads of sysbench on MariaDB; --db-ps-mode=auto prepares its statements, disable sends them as text."""
    return ["sysbench", test, "--db-driver=mysql", "--mysql-host=127.0.0.1", f"--mysql-port={MARIADB}", "--mysql-user=root",
            "--mysql-db=bench", "--tables=1", "--table-size=10000", "--threads=8", "--time=0", f"--events={events}", *options]


def bench(binary, db, port, requests):
    """Reads and inserts of the reference workload by the database's usual driver, over connections that last as long as the
    load. The rows are there before."""
    command = [Path(binary).with_name("overhead-bench"), db, "--server", f"127.0.0.1:{port}", "--rows", str(ROWS), "--quiet"]
    quiet([*command, "--setup-only"])
    return lambda: quiet([*command, "--no-setup", "--mix", "read=80,insert=20", "--clients", str(CLIENTS), "--ops", str(requests)])


def quiet(command):
    subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=True)


def make(work, binary, scale=1.0):
    """Makes the captures in the folder `work`, needs `servers`, and `overhead-bench` beside the binary; `scale` is how much
    of the load. Servers that take much of the machine run only while they are recorded."""
    made = []

    def record(name, db, port, load, **more):
        path = Path(work) / f"{len(made)}.pcap"
        with Recording(path, port):
            load()
        made.append(Capture(name, path, db, port, **more))

    def redis(requests, *options):
        return lambda: quiet(redis_benchmark(int(scale * requests), "-t", "get,set", *options))

    record("Redis GET, SET", "redis", REDIS, redis(500_000))
    record("Redis GET, SET, -P 16", "redis", REDIS, redis(1_000_000, "-P", "16"), counted=8_000)
    record("Redis GET, SET, random lengths", "redis", REDIS, lambda: random_shapes(int(scale * 250_000)))
    record("memcached get, set", "memcached", MEMCACHED, lambda: memcached_load(int(scale * 250_000)))
    as_postgres = ["-h", "127.0.0.1", "-p", str(POSTGRES), "-U", "postgres", "postgres"]
    quiet(["pgbench", "-i", "-q", *as_postgres])
    for mode in ("simple", "extended", "prepared"):
        load = ["pgbench", "-S", "-M", mode, "-c", "16", "-t", str(int(scale * 20_000)), *as_postgres]
        record(f"PostgreSQL, pgbench -S -M {mode}", "postgres", POSTGRES, lambda load=load: quiet(load))
    quiet(sysbench("oltp_point_select", 0, "cleanup"))
    quiet(sysbench("oltp_point_select", 0, "prepare"))
    for mode, sent in (("auto", "prepared"), ("disable", "as text")):
        load = sysbench("oltp_point_select", int(scale * 250_000), f"--db-ps-mode={mode}", "run")
        record(f"MySQL, sysbench point select {sent}", "mariadb", MARIADB, lambda load=load: quiet(load))
    for db, name, port, requests in (("cassandra", "Cassandra", CASSANDRA, 200_000), ("ferretdb", "FerretDB", FERRETDB, 50_000)):
        with servers(db):
            record(f"{name}, real run, {CLIENTS} connections", db, port, bench(binary, db, port, int(scale * requests)))
    for db, port in RECORDED.items():
        path = Path(work) / f"{len(made)}.pcap"
        traffic.copies(LAB.parent / f"fixtures/{db}-rust/capture.pcap", path, port, int(scale * (96 << 20)))
        made.append(Capture(f"{db}, short connections", path, db, port))
    return made
