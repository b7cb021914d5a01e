"""Shared by the tests of lab/test: checks and their counts, captures, servers and their answers, the last line.

Tests in Python import it. Those in shell source lab/lib/testing.sh, which runs it as a program and sends it their checks.
"""

import collections
import contextlib
import json
import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parents[2]
TEST = pathlib.Path(sys.argv[0]).stem
# The binary that is tested is the argument with a slash in it.
OVERHEAD = os.path.realpath(next((word for word in sys.argv[1:] if "/" in word), ROOT / "target/debug/overhead"))
# Payload accounts of the ledger.
PAYLOAD = ("tls", "framing", "metadata", "schema", "query", "data", "status", "unknown")
# A Redis that keeps nothing, for whoever reaches it.
REDIS = ["redis-server", "--save", "", "--appendonly", "no", "--protected-mode", "no"]
counts = collections.Counter()
# Where a test was started with signals ignored (in the background, by nohup), its programs would ignore them too.
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGHUP, signal.SIG_DFL)


def report(word, name, detail=""):
    """Prints and counts a check that passed, failed or was skipped."""
    shown = {"passed": f"ok ({detail})" if detail else "ok", "failed": f"FAILED: {detail}", "skipped": f"skipped: {detail}"}
    print(f"{TEST} {name} ... {shown[word]}", flush=True)
    counts[word] += 1


def check(name, found, wanted=True):
    passed = found == wanted
    report("passed" if passed else "failed", name, "" if passed else f"wanted {wanted}, found {found}")
    return passed


def skip(name, why):
    report("skipped", name, why)


def require_root(*programs, namespaces=()):
    """Continues as root, in new namespaces of these kinds. Skips all checks if that is impossible or a program is missing."""
    missing = [name for name in programs if not shutil.which(name)]
    if os.geteuid() != 0 or missing:
        skip("all", f"{', '.join(missing)} is missing" if missing else "it takes root's rights")
    elif not namespaces or "OVERHEAD_TEST_INSIDE" in os.environ:
        return
    elif run(["unshare", *namespaces, "true"]).returncode:
        skip("all", "this machine gives root no namespaces")
    else:
        os.environ["OVERHEAD_TEST_INSIDE"] = "yes"
        os.execvp("unshare", ["unshare", *namespaces, "--propagation", "private", sys.executable, "-B", *sys.argv])
    finish()


def run(words, **options):
    return subprocess.run([str(word) for word in words], capture_output=True, text=True, **options)


def must(*words, **options):
    """Returns what a command prints; ends the test if it fails."""
    done = run(words, **options)
    if done.returncode:
        sys.exit(f"{TEST}: {' '.join(map(str, words))}: {done.stderr}")
    return done.stdout


def network(name, ours, net):
    """Makes a network namespace with eth0 at NET.2; the other end of its cable, at NET.1, is ours."""
    must("ip", "netns", "add", name)
    must("ip", "link", "add", ours, "type", "veth", "peer", "name", "eth0", "netns", name)
    for inside, interface, address in (((), ours, f"{net}.1/24"), (("-n", name), "eth0", f"{net}.2/24")):
        must("ip", *inside, "address", "add", address, "dev", interface)
        must("ip", *inside, "link", "set", interface, "up")
    must("ip", "-n", name, "link", "set", "lo", "up")
    must("ip", "-n", name, "route", "add", "default", "via", f"{net}.1")


def capture(folder, *options, command=(), prefix=(), program=OVERHEAD):
    """Returns the status of a capture into the folder, its record or None, and its messages."""
    words = [*prefix, program, "capture", "-o", folder, "--force", "--format", "json", *options]
    done = run([*words, *(["--", *command] if command else [])], cwd=pathlib.Path(folder).parent)
    record = json.loads(pathlib.Path(folder, "run.json").read_text()) if done.stdout else None
    return done.returncode, record, done.stderr


def captured(folder, *options, command=()):
    """Like `capture`, but ends the test if there is no record."""
    status, record, said = capture(folder, "-q", *options, command=command)
    if record is None:
        sys.exit(f"{TEST}: {pathlib.Path(folder).name}: {said}")
    return status, record, said


def whole(name, status, record):
    """Checks that a capture is complete."""
    check(f"{name}: complete", (status, record["exit"]), (0, 0))
    lost = record["source"]["kernel_drops"], record["tcp"]["gap_bytes"], record["source"]["truncated_frames"], record["ledger"]["balanced"]
    check(f"{name}: nothing lost, and balanced", lost, (0, 0, 0, True))


def read_again(name, folder, record):
    """Checks that the packets of a run give its record again, which is returned."""
    again = json.loads(must(OVERHEAD, "analyze", folder, "--format", "json"))
    parts = ("operations", "connections", "ledger", "tcp", "transport")
    check(f"{name}: read again, the same record", [part for part in parts if again[part] != record[part]], [])
    return again


def wait_for(condition, what, seconds=20):
    """Returns the value of the condition once it is true."""
    deadline = time.monotonic() + seconds
    while not (found := condition()):
        if time.monotonic() > deadline:
            raise TimeoutError(f"waited {seconds} s for {what}")
        time.sleep(0.02)
    return found


def connect(place):
    """Returns a connection to (address, port), or to the path of a socket, once a server listens there."""
    def attempt():
        with contextlib.suppress(OSError):
            if isinstance(place, tuple):
                return socket.create_connection(place, timeout=10)
            connection = socket.socket(socket.AF_UNIX)
            connection.connect(str(place))
            return connection
    return wait_for(attempt, f"a server on {place}")


def ask(connection, request, until=b"\r\n"):
    """Returns the answer, which ends with these bytes."""
    connection.sendall(request)
    answer = b""
    while not answer.endswith(until):
        part = connection.recv(65536)
        if not part:
            raise ConnectionError("the server closed the connection")
        answer += part
    return answer


def start(ends, words, **options):
    """Starts a program, which is interrupted when `ends` is closed."""
    quiet = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.DEVNULL)
    process = subprocess.Popen([str(word) for word in words], **{**quiet, **options})

    def end():
        process.send_signal(signal.SIGINT)
        process.wait()

    ends.callback(end)
    return process


def certificate(folder):
    """Makes a certificate for localhost. Returns its file and that of its key, which every user can read."""
    made = [folder / "cert.pem", folder / "key.pem"]
    must("openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost", "-out", made[0], "-keyout", made[1])
    made[1].chmod(0o644)
    return made


def redis_tls(port, certificate, key):
    """The options of a Redis that also listens for TLS at the port, and asks for no client's certificate."""
    return ["--tls-port", str(port), "--tls-cert-file", certificate, "--tls-key-file", key, "--tls-ca-cert-file", certificate, "--tls-auth-clients", "no"]


def nginx_settings(folder, listen, certificate, key, main="", server=""):
    """Writes the settings of an nginx that answers over TLS, with early data; `main` and `server` have more of them. Returns their file."""
    paths = " ".join(f"{name}_temp_path {folder}/{name};" for name in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi"))
    file = folder / "nginx.conf"
    file.write_text(
        f"user root; {main} daemon off; pid {folder}/pid; error_log {folder}/errors; worker_processes 1; events {{}}\n"
        f"http {{ access_log off; {paths} server {{ listen {listen} ssl; ssl_certificate {certificate}; ssl_certificate_key {key};"
        f" ssl_early_data on; {server} location / {{ return 200 hello; }} }} }}\n")
    return file


def postgres(ends, folder, port, inside=(), clients=None, tls=None):
    """Starts a PostgreSQL of the test's own, until `ends` is closed. Returns its folder, with its socket; None where it is not installed.
    `inside`: the command that starts it in a namespace. It listens on loopback, and everywhere if there are clients of another network.
    `tls`: the files of a certificate and its key."""
    programs = max(pathlib.Path("/usr/lib/postgresql").glob("*/bin"), key=lambda place: int(place.parent.name), default=None)
    if not programs:
        return None
    folder = folder / "pg"
    folder.mkdir()
    shutil.chown(folder, "postgres")
    as_postgres = {"user": "postgres", "group": "postgres", "cwd": folder}
    must(programs / "initdb", "-D", folder / "data", "-A", "trust", "-U", "postgres", "--no-sync", **as_postgres)
    if clients:
        with open(folder / "data/pg_hba.conf", "a") as allowed:
            allowed.write(f"host all all {clients} trust\n")
    options = [f"listen_addresses={'*' if clients else '127.0.0.1'}", f"port={port}", f"unix_socket_directories={folder}", "fsync=off"]
    for name, source in zip(("crt", "key"), tls or ()):
        copy = shutil.copy(source, folder / f"data/server.{name}")
        shutil.chown(copy, "postgres")
        os.chmod(copy, 0o600)
    options += ["ssl=on"] if tls else []
    words = [programs / "postgres", "-D", folder / "data", *[word for option in options for word in ("-c", option)]]
    if inside:
        start(ends, [*inside, "setpriv", "--reuid", "postgres", "--regid", "postgres", "--init-groups", *words], cwd=folder)
    else:
        start(ends, words, **as_postgres)
    psql = ["psql", "-X", "-h", folder, "-p", port, "-U", "postgres", "-c", "select 1"]
    wait_for(lambda: run(psql).returncode == 0, "PostgreSQL")
    return folder


class Redis:
    """A server of the test's own, until `ends` is closed."""

    def __init__(self, ends, folder, port, *options, inside=(), bind="127.0.0.1", host=None):
        self.address = (host or bind, port)
        self.words = [*inside, *REDIS, "--bind", bind, "--port", str(port), "--dir", str(folder), *options]
        self.start()
        ends.callback(self.kill)

    def start(self):
        self.process = subprocess.Popen(self.words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        ask(connect(self.address), b"PING\r\n")

    def kill(self):
        self.process.kill()
        self.process.wait()

    def gets(self, connection=None):
        """Returns how many GETs it has answered since it was started."""
        return redis_counters(connection or connect(self.address))["calls"].get("get", 0)


class AgentPage:
    """The pages of the agent that listens at `listen` (HOST:PORT)."""

    listen = None

    def text(self, path="metrics"):
        """The page; None before the agent serves it."""
        with contextlib.suppress(urllib.error.URLError, ConnectionError):
            return urllib.request.urlopen(f"http://{self.listen}/{path}", timeout=10).read().decode()

    def sum(self, name, **labels):
        """The sum of the series with these labels."""
        found = 0.0
        for line in self.text().splitlines():
            series = re.fullmatch(rf"overhead_agent_{name}(?:_total)?(?:{{(.*)}})? (\S+)", line)
            has = series and all(f'{key}="{value}"' in (series[1] or "") for key, value in labels.items())
            found += float(series[2]) if has else 0
        return found


def redis_counters(connection):
    """Returns what a Redis has counted: `total_…` of INFO, `calls` by command; and the `length` of its answer."""
    connection.sendall(b"INFO everything\r\n")
    with connection.makefile("rb") as answer:
        head = answer.readline()
        text = answer.read(int(head[1:]) + 2)
    fields = dict(line.split(":", 1) for line in text.decode().splitlines() if ":" in line)
    counted = re.compile(r"(?:^|,)(?:rejected_)?calls=(\d+)")
    calls = {name[8:]: sum(map(int, counted.findall(value))) for name, value in fields.items() if name.startswith("cmdstat_")}
    totals = {name: int(value) for name, value in fields.items() if name.startswith("total_") and value.isdigit()}
    return {**totals, "calls": calls, "length": len(head) + len(text)}


def memcached_counters(connection):
    """Returns what a memcached has counted, by its own names; and the `length` of its answer."""
    answer = ask(connection, b"stats\r\n", until=b"END\r\n")
    fields = (line.split() for line in answer.decode().splitlines() if line.startswith("STAT "))
    return {"length": len(answer), **{name: int(value) for _, name, value, *more in fields if not more and value.isdigit()}}


def payload(record, side):
    return sum(record["ledger"][side][account] for account in PAYLOAD)


def workload(record, name="GET"):
    """Returns how many operations of this name a record has."""
    return sum(row["count"] for row in record["operations"] if row["class"] == "workload" and row["name"] == name)


def finish():
    """Prints the last line, like that of cargo test, and ends with its status."""
    word = "FAILED" if counts["failed"] else "ok"
    print(f"test result: {word}. {counts['passed']} passed; {counts['failed']} failed; {counts['skipped']} ignored")
    sys.exit(1 if counts["failed"] else 0)


def relay():
    """Reports the checks of the shell test `argv[1]` from standard input. Prints no last line if the test ends early."""
    global TEST
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    TEST, received = sys.argv[1], b""
    while part := os.read(0, 65536):
        *whole, received = (received + part).split(b"\0")
        for word, *rest in (fields.decode(errors="replace").split("\x1f", 2) for fields in whole):
            finish() if word == "finished" else report(word, *rest)


if __name__ == "__main__":
    relay()
