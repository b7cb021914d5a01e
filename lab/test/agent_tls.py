#!/usr/bin/env -S python3 -B
"""lab/test/agent_tls.py [BINARY] [--minutes N]: the agent's windows over pools of TLS connections that are older than the windows, and over statements
that are prepared in an earlier window.

A Redis with a pool of Python's, and a PostgreSQL with pgbench, both over TLS 1.3, with tls-keys and without. With --minutes, the pools with
tls-keys are observed for that much longer, and the agent's memory must not grow. Takes root's rights; two minutes. Ends with a line like that of
cargo test.
"""

import contextlib
import os
import pathlib
import signal
import socket
import ssl
import subprocess
import sys
import tempfile
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "lib"))
from testing import OVERHEAD, REDIS, AgentPage, ask, certificate, check, connect, finish, must, postgres, redis_tls, require_root, run, start, \
    wait_for

LISTEN = "127.0.0.1:29476"
REDIS_PORT, POSTGRES_PORT = 29477, 29478
POOL = 6
MINUTES = float(sys.argv[sys.argv.index("--minutes") + 1]) if "--minutes" in sys.argv else 0
STATEMENTS = {"redis": "GET user:#", "postgres": "SELECT abalance FROM pgbench_accounts WHERE aid = ?"}
CONFIG = """
listen = "127.0.0.1:29476"
interval = "1s"
period = "10s"
tls-keys = KEYS

[budget]
cpu = 1
throughput = 0.5

[windows]
length = "100ms"
every = "700ms"

[names]
"pgbench" = "bench"
"""


class Agent(AgentPage):
    listen = LISTEN

    def __init__(self, ends, folder, keys):
        (folder / "agent.toml").write_text(CONFIG.replace("KEYS", keys))
        self.log = open(folder / f"log-{keys}", "w+")
        self.process = subprocess.Popen([OVERHEAD, "agent", "--config", folder / "agent.toml"], stdout=self.log, stderr=self.log)
        ends.callback(self.process.kill)
        try:
            wait_for(self.text, "the agent's metrics", 60)
        except TimeoutError as error:
            sys.exit(f"{error}: {self.end()}")
        if keys == "true":
            wait_for(lambda: "from now on" in (folder / f"log-{keys}").read_text(), "the probes", 120)

    def resident(self):
        """Returns the memory of the agent between windows, in kB."""
        found = []
        for _ in range(40):
            found.append(int(pathlib.Path(f"/proc/{self.process.pid}/status").read_text().split("VmRSS:")[1].split()[0]))
            time.sleep(0.1)
        return min(found)

    def end(self):
        self.process.send_signal(signal.SIGINT)
        self.process.wait(30)
        self.log.seek(0)
        return self.log.read()


class Pool:
    """Connections of one process that ask Redis for keys, a few hundred times a second together."""

    def __init__(self, key_log):
        context = ssl.create_default_context()
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        context.minimum_version = ssl.TLSVersion.TLSv1_3
        context.keylog_filename = str(key_log)
        self.is_over = False
        self.threads = [threading.Thread(target=self.ask, args=(context, number)) for number in range(POOL)]
        [thread.start() for thread in self.threads]

    def ask(self, context, number):
        connection = context.wrap_socket(socket.create_connection(("127.0.0.1", REDIS_PORT)))
        with connection:
            while not self.is_over:
                ask(connection, b"GET user:%d\r\n" % number)
                time.sleep(0.01)

    def end(self):
        self.is_over = True
        [thread.join() for thread in self.threads]


def observe(kept, folder, name, keys, key_log):
    """Returns the bytes of each server's statements in two periods over the pools, of them those of the statement with text; what else is
    counted; and all that the agent shows."""
    agent, servers = Agent(kept, folder, keys), {"redis": REDIS_PORT, "postgres": POSTGRES_PORT}
    # Other servers of this host may be busy.
    ours = {system: {"system": system, "server": f"127.0.0.1:{port}"} for system, port in servers.items()}

    def statements(system):
        text = agent.sum("statement_wire_bytes", statement=STATEMENTS[system], **ours[system])
        encrypted = agent.sum("statement_wire_bytes", operation="(encrypted)", **ours[system])
        return agent.sum("statement_wire_bytes", **ours[system]), text, encrypted

    def opened():
        return [agent.sum("connections_opened", **of) for of in ours.values()]

    with contextlib.ExitStack() as ends:
        pool = Pool(key_log)
        ends.callback(pool.end)
        environment = {**os.environ, "PGSSLMODE": "require", "PGHOST": "127.0.0.1", "PGPORT": str(POSTGRES_PORT), "PGUSER": "postgres"}
        start(ends, ["pgbench", "-n", "-S", "-c", "3", "-R", "300", "-T", f"{600 + 60 * MINUTES:.0f}", "postgres"], env=environment)
        wait_for(lambda: opened()[0] >= POOL and opened()[1] >= 3, "the pools' connections")
        wait_for(lambda: all(any(statements(system)[1:]) for system in ours), "a period with windows", 60)
        # pgbench has another connection at its start.
        connections, windows = opened(), agent.sum("windows")
        before = {system: statements(system) for system in ours}
        wait_for(lambda: agent.sum("windows") > windows + 30, "30 windows", 60)
        if keys == "true" and MINUTES:
            resident = agent.resident()
            time.sleep(60 * MINUTES)
            grown = agent.resident() - resident
            check(f"{name}: the agent of {resident} kB grew by {grown} kB in {MINUTES:g} minutes", grown < 2_000)
        wait_for(lambda: all(statements(system)[0] > before[system][0] for system in ours), "a period", 60)
        check(f"{name}: no connection was opened meanwhile", opened(), connections)
        own = pathlib.Path("/proc/self/comm").read_text().strip()
        for system, client in (("redis", own), ("postgres", "bench")):
            check(f"{name}: the client of {system} is named {client}", agent.sum("wire_bytes", client_name=client, **ours[system]) > 0)
        found = {system: [now - then for now, then in zip(statements(system), before[system])] for system in ours}
        counted = {metric: agent.sum(metric) for metric in ("encrypted_wire_bytes", "tls_connections", "tls_missed_connections")}
        shown = [agent.text(), agent.text("rows")]
    if keys == "true":
        wait_for(lambda: agent.sum("tls_connections") < counted["tls_connections"], "the end of the connections")
        check(f"{name}: secrets of closed connections are erased", agent.sum("tls_connections") <= counted["tls_connections"] - POOL - 3)
    return found, counted, [*shown, agent.end()]


def prepared(kept, folder):
    """A window that sees statements being prepared remembers them for later windows."""
    agent, place = Agent(kept, folder, "true"), {"system": "postgres", "server": f"127.0.0.1:{POSTGRES_PORT}"}
    environment = {**os.environ, "PGSSLMODE": "disable", "PGHOST": "127.0.0.1", "PGPORT": str(POSTGRES_PORT), "PGUSER": "postgres"}
    for _ in range(40):
        with contextlib.ExitStack() as ends:
            start(ends, ["pgbench", "-n", "-S", "-M", "prepared", "-c", "5", "-R", "20", "-T", "600", "postgres"], env=environment)
            windows = agent.sum("windows")
            wait_for(lambda: agent.sum("windows") > windows + 3, "windows", 60)
            if not agent.sum("prepared_statements"):
                continue
            text = {**place, "statement": "SELECT abalance FROM pgbench_accounts WHERE aid = $1"}
            # Only later windows can add to it for longer than a period.
            for _ in range(2):
                before = agent.sum("statement_wire_bytes", **text)
                wait_for(lambda: agent.sum("statement_wire_bytes", **text) > before, "text in later windows", 60)
            check("prepared: statements of an earlier window have text", agent.sum("statement_wire_bytes", **text) > before)
        wait_for(lambda: agent.sum("windows") > windows + 40 or not agent.sum("prepared_statements"), "the end of the connections", 60)
        break
    else:
        check("prepared: a window sees a statement being prepared", False)
    shown = agent.sum("prepared_unseen_wire_bytes") > 0, "of statements that no window saw being prepared" in agent.end()
    check("prepared: bytes without text for lack of it are shown alike in the metric and the summary", shown[0], shown[1])


def main():
    require_root("redis-server", "pgbench", "openssl", namespaces=("--net", "--mount"))
    must("ip", "link", "set", "lo", "up")
    with tempfile.TemporaryDirectory() as place, contextlib.ExitStack() as ends:
        folder = pathlib.Path(place)
        folder.chmod(0o755)
        files = certificate(folder)
        start(ends, [*REDIS, "--bind", "127.0.0.1", "--port", "0", *redis_tls(REDIS_PORT, *files), "--dir", folder])
        connect(("127.0.0.1", REDIS_PORT)).close()
        database = postgres(ends, folder, POSTGRES_PORT, tls=files)
        must("pgbench", "-i", "-q", "-h", database, "-p", str(POSTGRES_PORT), "-U", "postgres", "postgres")
        key_log = folder / "keys"
        found, counted, shown = observe(ends, folder, "with tls-keys", "true", key_log)
        for system, (total, text, _) in found.items():
            check(f"with tls-keys: statements of {system} have text ({text:.0f} of {total:.0f} B)", text > 0.95 * total > 0)
        check("with tls-keys: secrets are kept", counted["tls_connections"] >= POOL + 3)
        check("with tls-keys: all windows were decrypted", counted["tls_missed_connections"], 0.0)
        secrets = [line.split()[2] for line in key_log.read_text().splitlines() if not line.startswith("#")]
        check("with tls-keys: the client logged secrets", len(secrets) >= 4 * POOL)
        leaks = [secret for secret in secrets for text in shown if secret in text.lower()]
        check("with tls-keys: no secret is shown", len(leaks), 0)
        check("with tls-keys: the summary has a line about TLS", "TLS: secrets of" in shown[2])
        dry = run([OVERHEAD, "agent", "--config", folder / "agent.toml", "--dry-run"])
        check("a dry run names the libraries with probes", "probes at TLS handshakes: " in dry.stdout and "libssl" in dry.stdout)
        found, counted, shown = observe(ends, folder, "without", "false", key_log)
        for system, (total, text, encrypted) in found.items():
            check(f"without: no statement of {system} has text", text, 0.0)
            if not check(f"without: the bytes of {system} are encrypted ({encrypted:.0f} of {total:.0f} B)", encrypted > 0.95 * total > 0):
                print("".join(line + "\n" for line in shown[0].splitlines() if f'system="{system}"' in line and "statement_wire_bytes_total{" in line))
        check("without: the metric has them", counted["encrypted_wire_bytes"] > sum(encrypted for _, _, encrypted in found.values()) - 1)
        check("without: no secret is kept", counted["tls_connections"], 0.0)
        prepared(ends, folder)
    finish()


main()
