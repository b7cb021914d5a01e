#!/usr/bin/env -S python3 -B
"""lab/test/hostile.py [BINARY]: what a local user without rights can do to a capture, `doctor` and the agent of root: files that block, have
no end or lead elsewhere, processes with forged names, addresses without end, and scrapes. Limits of the shell, too. Each may cost names,
and nothing else.

In network and mount namespaces of its own. Ends with a line like that of cargo test. Needs root's rights, redis-server, redis-benchmark.
"""

import contextlib
import itertools
import json
import os
import pathlib
import resource
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "lib"))
from testing import OVERHEAD, Redis, ask, check, finish, must, require_root, run, skip, wait_for  # noqa: E402

PORT = 25500
USER = 60_001
# Hangs before this. All that is tested here ends within a second or two, optimized or not.
PATIENCE = 20
FORGED = "mallorys-cache"
FIXTURE = pathlib.Path(__file__).resolve().parents[2] / "fixtures/redis-get-set"
# A process with the name of a server, which maps a library and puts something else at the library's path.
SERVER = """
import ctypes, os, socket, sys, time
path, kind = sys.argv[1:3]
ctypes.CDLL(path)
ctypes.CDLL(None).prctl(15, b"redis-server")
os.unlink(path)
os.mkfifo(path + " (deleted)") if kind == "fifo" else os.symlink("/dev/zero", path + " (deleted)")
listener = socket.create_server(("127.0.0.1", int(sys.argv[3])))
print("ready", flush=True)
time.sleep(600)
"""


def as_user(*words):
    return ["setpriv", "--reuid", str(USER), "--regid", str(USER), "--clear-groups", *map(str, words)]


def ended(*words, **options):
    """Returns the status, None for a program that hangs, what it printed and said, and how long it took."""
    started = time.monotonic()
    process = subprocess.Popen([str(word) for word in (OVERHEAD, *words)], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE, text=True, **options)
    try:
        printed, said = process.communicate(timeout=PATIENCE)
        status = process.returncode
    except subprocess.TimeoutExpired:
        process.kill()
        printed, said = process.communicate()
        status = None
    return status, printed, said, time.monotonic() - started


def unharmed(name, lab, folder):
    """`doctor` and `capture` end in time, and name no process by a user's file."""
    status, printed, _, took = ended("doctor")
    check(f"{name}: doctor ends in time, after {took:.1f} s", status is not None)
    check(f"{name}: doctor names no process of root by a user's file", FORGED in printed, False)
    status, printed, _, took = ended("capture", "-i", "lo", "--db", "redis", "--port", PORT, "--duration", "200ms", "--format", "json", "-o",
                                     folder / name.replace(" ", "-"))
    check(f"{name}: capture ends in time, after {took:.1f} s", status is not None)
    check(f"{name}: capture names no process of root by a user's file", FORGED in printed, False)


def storage(home):
    """Makes an empty storage of podman at a home; returns it."""
    folder = home / ".local/share/containers/storage"
    folder.mkdir(parents=True)
    return folder


def give(folder):
    must("chown", "-R", "-h", f"{USER}:{USER}", folder)


def engine_files(lab, folder, server):
    """A FIFO, links to one long file, and forged records in a user's storage."""
    must("mount", "-t", "tmpfs", "home", "/home")
    lab.callback(run, ["umount", "/home"])
    home = pathlib.Path("/home/mallory")
    for number, name in enumerate(("a FIFO", "a link to dev-zero", "links to a long file", "a forged list")):
        shutil.rmtree(home, ignore_errors=True)
        place = storage(home)
        first = place / "overlay-containers"
        first.mkdir()
        target = first / "containers.json"
        if number == 0:
            os.mkfifo(target)
        elif number == 1:
            target.symlink_to("/dev/zero")
        elif number == 2:
            target.write_text(json.dumps([{"id": f"{entry:x}"} for entry in range(240_000)]))
            for copy in range(300):
                (place / f"{copy}-containers").mkdir()
                (place / f"{copy}-containers/containers.json").symlink_to(target)
        else:
            target.write_text(json.dumps([{"id": FORGED, "names": [FORGED]}]))
            running = pathlib.Path("/run/containers/storage/overlay-containers") / FORGED / "userdata"
            # As if a container of root had this id.
            running.mkdir(parents=True)
            lab.callback(shutil.rmtree, running.parent)
            (running / "pidfile").write_text(str(server.process.pid))
        give(home)
        unharmed(name, lab, folder)
    shutil.rmtree(home)


def daemon(lab, folder, server):
    """A user's process with the name of Docker's daemon leads to a record of root's process."""
    place = folder / "docker"
    container = place / "containers" / ("7" * 64)
    container.mkdir(parents=True)
    state = {"Running": True, "Pid": server.process.pid}
    (container / "config.v2.json").write_text(json.dumps({"ID": container.name, "Name": f"/{FORGED}", "State": state, "Config": {"Labels": {}}}))
    give(place)
    words = ["bash", "-c", f"exec -a dockerd python3 -c 'import time; time.sleep(600)' --data-root {place}"]
    process = subprocess.Popen(as_user(*words))
    lab.callback(process.kill)
    wait_for(lambda: pathlib.Path(f"/proc/{process.pid}/cmdline").read_bytes().startswith(b"dockerd"), "the daemon")
    unharmed("a daemon of a user", lab, folder)
    process.kill()
    process.wait()


def libraries(lab, folder):
    """A FIFO or a device has the name of a library that was deleted."""
    found = sorted(pathlib.Path("/usr/lib").glob("*-linux-gnu/libssl.so.*"))
    if not found:
        return skip("libraries", "there is no libssl")
    for number, kind in enumerate(("fifo", "zero")):
        place = folder / kind
        place.mkdir()
        shutil.copy(found[-1], place / "libssl.so.3")
        give(place)
        words = as_user("python3", "-c", SERVER, place / "libssl.so.3", kind, PORT + 1 + number)
        process = subprocess.Popen(words, stdout=subprocess.PIPE, text=True)
        lab.callback(process.kill)
        process.stdout.readline()
        limit = (2 << 30, 2 << 30)
        status, printed, said, took = ended("doctor", preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, limit))
        check(f"a {kind} at the path of a library: doctor ends in time, after {took:.1f} s", status in (0, 1, 3))
        check(f"a {kind} at the path of a library: the process is listed", f"127.0.0.1:{PORT + 1 + number}" in printed)
        process.kill()
        process.wait()


def endless(folder):
    """Files without an end, as key logs and statements."""
    capture = next(FIXTURE.glob("capture.pcap*"))
    settings = folder / "agent.toml"
    settings.write_text('statements-file = "/dev/zero"\n')
    live = ["capture", "-i", "lo", "--db", "redis", "--port", PORT, "--duration", "1s", "-o", folder / "endless"]
    for name, wanted, words in (("key log", "--keylog /dev/zero: it is longer than 512 MiB", ["analyze", "--keylog", "/dev/zero", capture]),
                                ("key log, live", "--keylog /dev/zero: it is longer than 512 MiB", [*live, "--keylog", "/dev/zero"]),
                                ("statements", "--statements /dev/zero: it is longer than 32 MiB", ["analyze", "--statements", "/dev/zero", capture]),
                                ("the agent's statements", "/dev/zero: it is longer than 32 MiB", ["agent", "--config", settings, "--dry-run"])):
        status, _, said, _ = ended(*words)
        check(f"{name} without an end: status", status in (1, 2))
        check(f"{name} without an end: one line", (wanted in said, said.count("\n")), (True, 1))


def limits(folder):
    """Limits of the shell on memory and on files: one line, and nothing is left."""
    for name, kind, most in (("ulimit -v", resource.RLIMIT_AS, 280_000 << 10), ("ulimit -v, less", resource.RLIMIT_AS, 340_000 << 10),
                             ("ulimit -f", resource.RLIMIT_FSIZE, 200 << 10)):
        place = folder / "limited"
        words = ["capture", "-i", "lo", "--db", "redis", "--port", PORT, "--duration", "100ms", "-o", place]
        status, _, said, _ = ended(*words, preexec_fn=lambda: resource.setrlimit(kind, (most, most)))
        check(f"{name}: status", status, 1)
        check(f"{name}: one line, without a bug", (said.count("\n"), "bug" in said, "panicked" in said), (1, False, False))
        check(f"{name}: nothing is left", place.exists(), False)
        shutil.rmtree(place, ignore_errors=True)


def slow_reader(folder, server):
    """A reader of `-w -` that stops until the ring overflows: the status has a reason."""
    words = [OVERHEAD, "capture", "-i", "lo", "--db", "redis", "--port", str(PORT), "-B", "1M", "-w", "-"]
    with open(folder / "slow.err", "w+") as errors:
        process = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=errors)
        process.stdout.read(4)
        must("redis-benchmark", "-q", "-p", PORT, "-t", "get", "-n", 50_000, "-c", 4)
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=PATIENCE)
    said = (folder / "slow.err").read_text()
    check("a slow reader: status", process.returncode, 3)
    check("a slow reader: the reason", "overhead: warning: the kernel dropped" in said)


def archive(lab, folder):
    """A user's folder as the agent's archive, with links that lead to a file of root."""
    victim, place, settings = folder / "victim", folder / "archive", folder / "archive.toml"
    victim.write_text("precious")
    place.mkdir()
    last = int(pathlib.Path("/proc/loadavg").read_text().split()[-1])
    for pid in range(last, last + 300):
        (place / f".overhead-agent-{pid}").symlink_to(victim)
    give(place)
    settings.write_text(f'[archive]\nfolder = "{place}"\n')
    status, _, said, _ = ended("agent", "--config", settings, "--duration", "1s")
    if "needs overhead-export" in said:
        return skip("archive", "overhead-export is missing")
    check("links in the archive: status", status, 0)
    check("links in the archive: the file of root is as it was", victim.read_text(), "precious")


LISTEN = ("127.0.0.1", 29480)
SETTINGS = """
interval = "1s"
period = "10s"
ports = [%d]
[windows]
every = "200ms"
length = "10ms"
[budget]
throughput = 0.5
"""


class Agent:
    """An agent with some more settings, until `lab` is closed."""

    def __init__(self, lab, folder, more="", plain=SETTINGS % PORT, **options):
        self.settings = folder / "settings.toml"
        self.settings.write_text(plain + more)
        self.log = folder / "agent.log"
        with open(self.log, "w") as log:
            words = [OVERHEAD, "agent", "--config", self.settings, "--listen", "%s:%d" % LISTEN]
            self.process = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=log, stderr=log, **options)
        lab.callback(self.end)
        wait_for(self.text, "the agent's metrics")

    def text(self):
        with contextlib.suppress(OSError), socket.create_connection(LISTEN, 10) as connection:
            connection.sendall(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n")
            return connection.makefile("rb").read().decode()

    def sum(self, name, *labels):
        """The sum of the series with these labels."""
        lines = [line for line in self.text().splitlines() if line.startswith(f"overhead_agent_{name}_total")]
        return sum(float(line.rsplit(" ", 1)[1]) for line in lines if all(label in line for label in labels))

    def settled(self):
        """Waits for two readings."""
        before = self.sum("uptime_seconds")
        wait_for(lambda: self.sum("uptime_seconds") > before + 2.5, "two readings")

    def said(self):
        return self.log.read_text()

    def end(self):
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(PATIENCE)
        return self.process.returncode


def ping(source, times=1):
    with socket.create_connection(("127.0.0.1", PORT), 10, source_address=(source, 0)) as connection:
        for _ in range(times):
            ask(connection, b"PING\r\n")


def addresses(agent):
    """700 addresses of one user, and then a client of another."""
    server = f'server="127.0.0.1:{PORT}"'
    agent.settled()
    before = agent.sum("payload_bytes", server)
    for number in range(700):
        ping(f"127.7.{number // 250}.{1 + number % 250}")
    wait_for(lambda: agent.sum("payload_bytes", server) == before + 700 * 13, "the addresses")
    check("many addresses: what had no series is counted", agent.sum("evicted_series") >= 200)
    must("ip", "address", "add", "10.77.0.1/32", "dev", "lo")
    ping("10.77.0.1", 3)
    wait_for(lambda: agent.sum("payload_bytes", server) == before + 703 * 13, "the later client")
    check("many addresses: a later client has its series", agent.sum("payload_bytes", server, 'client="10.77.0.1"'), 3.0 * 13)


# A server of a user that answers itself, on one connection after another, with what a generator of captures makes.
BOMB = """
import ctypes, itertools, socket, struct, sys
sys.path.insert(0, sys.argv[1])
from adversary import GENERATORS
ctypes.CDLL(None).prctl(15, sys.argv[2].encode())
listener = socket.create_server(("127.0.0.1", int(sys.argv[3])))

def payloads(name):
    capture = b"".join(GENERATORS[name](1_000_000))[24:]
    while capture:
        length, = struct.unpack_from("<I", capture, 8)
        frame, capture = capture[16:16 + length], capture[16 + length:]
        if frame[54:]:
            yield frame[26:30] == b"\\x0a\\0\\0\\1", frame[54:]

talks = [list(payloads(name)) for name in sys.argv[4:]]
print("ready", flush=True)
for talk in itertools.cycle(talks):
    ends = socket.create_connection(listener.getsockname()), listener.accept()[0]
    for is_server, payload in talk:
        ends[is_server].sendall(payload)
        left = len(payload)
        while left:
            left -= len(ends[not is_server].recv(left))
    for end in ends:
        end.close()
"""
BOMBS = {
    "mysqld": (3306, ("", "-answers", "-pings-answered", "-closes"), "mysql-compressed"),
    "mongod": (27017, ("", "-documents", "-snappy"), "mongo-compressed"),
    "scylla": (9042, ("", "-batches", "-rows"), "cql-compressed"),
}
# An optimized agent without windows has 16 MB and may take 64. One that is not optimized grew by 41 MB, on a loaded machine by 49, and before
# it had a bound by 77.
MOST_GROWTH = 60


def inflation(lab, folder):
    """Small packets that hold millions of messages: the agent stays small, and goes on."""
    agent = Agent(lab, folder, plain='interval = "1s"\nperiod = "10s"\n[windows]\nevery = "1s"\n[budget]\ncpu = 1\nthroughput = 0.5\n')

    def megabytes(name):
        lines = pathlib.Path(f"/proc/{agent.process.pid}/status").read_text().splitlines()
        return next(int(line.split()[1]) for line in lines if line.startswith(name)) // 1000

    agent.settled()
    idle = megabytes("VmRSS")
    shutil.copy(pathlib.Path(__file__).resolve().parents[1] / "lib/adversary.py", folder)
    for name, (port, kinds, start) in BOMBS.items():
        words = as_user(sys.executable, "-B", "-c", BOMB, folder, name, port, *(start + kind for kind in kinds))
        process = subprocess.Popen(words, stdout=subprocess.PIPE)
        lab.callback(process.kill)
        process.stdout.readline()
        before = agent.sum("windows")
        wait_for(lambda: agent.sum("windows") >= before + 10, "windows", 120)
        process.kill()
        process.wait()
        most = megabytes("VmHWM") - idle
        check(f"packets that inflate, to {name}: the agent grows by {most} MB from {idle}", most <= MOST_GROWTH)
    check("packets that inflate: the agent ends well", agent.end(), 0)


def scrapes(agent):
    """Three clients that scrape in a loop put no window off."""
    load = subprocess.Popen(["redis-benchmark", "-q", "-p", str(PORT), "-t", "get", "-l", "-c", "1"], stdout=subprocess.DEVNULL)
    code = f"import socket\nwhile True:\n c = socket.create_connection({LISTEN})\n c.sendall(b'GET /metrics HTTP/1.1\\r\\nHost: x\\r\\n\\r\\n')\n while c.recv(65536): pass"
    clients = [subprocess.Popen([sys.executable, "-c", code]) for _ in range(3)]
    time.sleep(20)
    before, cpu = agent.sum("windows"), agent.sum("cpu_seconds")
    time.sleep(10)
    windows, spent = agent.sum("windows") - before, agent.sum("cpu_seconds") - cpu
    for process in (*clients, load):
        process.kill()
        process.wait()
    # A reading shows whether there is traffic for another window, so there is one per second.
    check(f"scrapes in a loop: windows go on ({windows:.0f} in 10 s, with {spent:.1f} s of CPU time)", windows >= 3)


def descriptors(agent):
    """Without descriptors, readings fail, and are made up for."""
    server = f'server="127.0.0.1:{PORT}"'
    before, payload = agent.sum("failed_readings"), agent.sum("payload_bytes", server)
    limit = resource.prlimit(agent.process.pid, resource.RLIMIT_NOFILE)
    resource.prlimit(agent.process.pid, resource.RLIMIT_NOFILE, (3, limit[1]))
    wait_for(lambda: "the totals were not read" in agent.said(), "a failed reading")
    ping("127.0.0.1", 10)
    time.sleep(2.5)
    resource.prlimit(agent.process.pid, resource.RLIMIT_NOFILE, limit)
    wait_for(lambda: agent.sum("payload_bytes", server) == payload + 130, "what was not read")
    check("no descriptors: failed readings are counted", agent.sum("failed_readings") - before >= 2)
    check("no descriptors: one line", agent.said().count("the totals were not read"), 1)


def settings(agent):
    """SIGHUP reads the settings again; a mistake in them changes nothing."""
    old = agent.settings.read_text()
    for more, wanted, counted in (('[zones]\n"127.0.0.0/8" = "local"\n[archive]\nfolder = "x"\n', "read again, but [archive] stay until the next start", 1),
                                  ("[zones]\nx = 1\n", "the settings stay as they were:", 2), ("", "read again\n", 2)):
        agent.settings.write_text(old + more)
        agent.process.send_signal(signal.SIGHUP)
        wait_for(lambda: wanted in agent.said(), "the settings")
        ping("127.0.0.1")
        agent.settled()
        # The agent also counts what other tests do in their namespaces.
        zones = f'server="127.0.0.1:{PORT}"', 'client_zone="local"'
        check(f"settings, {wanted.strip()}: zones", agent.sum("payload_bytes", *zones), 13.0 * counted)
    check("settings: the agent goes on", agent.process.poll(), None)


def collector(lab, statuses):
    """Serves these statuses, then 200; returns its port and the list of what was requested."""
    listener, requests = socket.create_server(("127.0.0.1", 0)), []

    def serve():
        for number in itertools.count():
            with contextlib.suppress(OSError):
                connection, _ = listener.accept()
                with connection, connection.makefile("rb") as lines:
                    head = list(iter(lines.readline, b"\r\n"))
                    length = next((int(line.split(b":")[1]) for line in head if line.lower().startswith(b"content-length")), 0)
                    requests.append((head[0].split()[0].decode(), len(lines.read(length))))
                    status = statuses[number] if number < len(statuses) else 200
                    connection.sendall(b"HTTP/1.1 %d x\r\nLocation: http://127.0.0.1:%d/taken\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
                                       % (status, listener.getsockname()[1]))
    threading.Thread(target=serve, daemon=True).start()
    lab.callback(listener.close)
    return listener.getsockname()[1], requests


def deliveries(lab, folder):
    """Redirects are failures, and a proxy of the environment gets nothing that is for this host."""
    (port, taken), (trap, trapped) = collector(lab, [301, 302, 303]), collector(lab, [])
    proxy = {name: f"http://127.0.0.1:{trap}" for name in ("http_proxy", "HTTP_PROXY", "https_proxy", "HTTPS_PROXY", "ALL_PROXY")}
    agent = Agent(lab, folder, f'[otlp]\nendpoint = "http://127.0.0.1:{port}/v1/metrics"\ninterval = "1s"\n', env={**os.environ, **proxy})
    ping("127.0.0.1")
    wait_for(lambda: agent.sum("failed_exports") == 3 and len(taken) > 4, "exports", 60)
    check("redirects are failed exports, and not followed", {word for word, _ in taken}, {"POST"})
    check("a proxy gets nothing that is for this host", trapped, [])
    agent.end()
    (folder / "elsewhere.toml").write_text('[otlp]\nendpoint = "http://192.0.2.1:4318/v1/metrics"\n')
    status, _, said, _ = ended("agent", "--config", folder / "elsewhere.toml", "--dry-run")
    check("a collector elsewhere takes https", (status, said.count("\n"), "allow-plain-http" in said), (2, 1, True))


# A server with a name that would colour the terminal and start a line.
NAMED = r"""
import ctypes, socket, sys, time
ctypes.CDLL(None).prctl(15, b"redis\x1b[31m\n::x")
listener = socket.create_server(("127.0.0.1", int(sys.argv[1])))
print("ready", flush=True)
time.sleep(600)
"""


def dry_run(lab, folder):
    """A dry run tests what a start needs."""
    plain = ["agent", "--listen", "127.0.0.1:29481", "--dry-run"]
    place = folder / "dry.toml"

    def tried(name, text, wanted, status):
        place.write_text(text)
        found, printed, said, _ = ended(*plain, "--config", place)
        check(f"dry run, {name}: status", found, status)
        check(f"dry run, {name}: {wanted}", wanted in printed + said)

    process = subprocess.Popen(as_user(sys.executable, "-c", NAMED, PORT + 5), stdout=subprocess.PIPE)
    lab.callback(process.kill)
    process.stdout.readline()
    tried("names", "", "redis: redis\\u{1b}[31m\\n::x (process", 0)
    tried("zones", '[zones]\n"10.0.0.0/8" = "a"\n[[price]]\nfrom = "a"\nto = "*"\nprice = "1/GB"\n', "zone a: 10.0.0.0/8\nprice from a to *: 1/GB\n", 0)
    tried("no collector", '[otlp]\nendpoint = "http://127.0.0.1:9/v1/metrics"\n', "cannot be reached", 3)
    port, taken = collector(lab, [404])
    tried("no path of a collector", f'[otlp]\nendpoint = "http://127.0.0.1:{port}/x"\n', "answers with status 404", 3)
    tried("a collector", f'[otlp]\nendpoint = "http://127.0.0.1:{port}/v1/metrics"\n', "totals cost", 0)
    check("dry run: a collector gets no metrics", taken, [("POST", 0), ("POST", 0)])
    if run([OVERHEAD, "export", "--help"]).returncode == 0:
        tried("no archive", '[archive]\nfolder = "/proc/archive"\n', "is not writable", 1)
    with socket.create_server(("127.0.0.1", 29481)):
        tried("a port in use", "", "cannot be listened on", 1)
    place.write_text("")
    words = ["setpriv", "--bounding-set=-sys_ptrace,-dac_read_search", OVERHEAD, *plain, "--config", place]
    done = run(words)
    check("dry run without rights: status", done.returncode, 3)
    check("dry run without rights: what cannot be seen", "servers of other users may not be found" in done.stderr)


def agents(lab, folder):
    agent = Agent(lab, folder)
    scrapes(agent)
    addresses(agent)
    descriptors(agent)
    settings(agent)
    check("the agent ends well", agent.end(), 0)
    inflation(lab, folder)
    deliveries(lab, folder)
    dry_run(lab, folder)


require_root("redis-server", "redis-benchmark", "setpriv", namespaces=["--mount", "--net"])
must("ip", "link", "set", "lo", "up")
with contextlib.ExitStack() as lab, tempfile.TemporaryDirectory() as folder:
    folder = pathlib.Path(folder)
    folder.chmod(0o755)
    server = Redis(lab, folder, PORT)
    engine_files(lab, folder, server)
    daemon(lab, folder, server)
    libraries(lab, folder)
    endless(folder)
    limits(folder)
    slow_reader(folder, server)
    archive(lab, folder)
    agents(lab, folder)
finish()
