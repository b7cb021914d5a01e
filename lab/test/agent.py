#!/usr/bin/env -S python3 -B
"""lab/test/agent.py [BINARY]: the agent against the servers' own counters, the interfaces', and its configuration's prices.

Three servers in network namespaces of their own (Redis, memcached, PostgreSQL) serve clients in two zones. Takes root's rights; two
minutes. Ends with a line like that of cargo test.
"""

import contextlib
import csv
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.parse
import urllib.request

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "lib"))
from testing import (OVERHEAD, REDIS, ROOT, AgentPage, ask, check, connect, finish, memcached_counters, must, network, postgres, redis_counters,
                     require_root, run, skip, start, wait_for)

LISTEN = "127.0.0.1:29475"
PRICES = {("a", "b"): 0.01e-9, ("b", "a"): 0.02e-9}
CONFIG = """
listen = "127.0.0.1:29475"
interval = "1s"
period = "10s"
statements-file = "statements"

[budget]
cpu = 1
throughput = 0.5

[otlp]
endpoint = "http://127.0.0.1:29428/v1/metrics"
interval = "1s"

[archive]
folder = "archive"
every = "10s"

[windows]
length = "100ms"
every = "500ms"

[zones]
"10.61.0.0/16" = "a"
"10.62.0.0/16" = "b"

[[price]]
from = "a"
to = "b"
price = "0.01/GB"

[[price]]
from = "b"
to = "a"
price = "0.02/GB"
"""
# Of the interfaces' bytes: address resolution, and what the kernel sends without a socket.
ALLOWED = 0.001


# The container of the client in zone a: its control group is all that is known of it.
CONTAINER = "a" * 12 + "0" * 52


def inside(name, *words):
    return ["ip", "netns", "exec", name, *map(str, words)]


def control_group(ends):
    """Makes the container's control group; None where there is no hierarchy of version 2."""
    if run(["mount", "-t", "cgroup2", "overhead-test", "/sys/fs/cgroup"]).returncode:
        return None
    folder = pathlib.Path("/sys/fs/cgroup") / f"overhead-test-{os.getpid()}" / f"docker-{CONTAINER}.scope"
    for made in (folder.parent, folder):
        made.mkdir()
        ends.callback(made.rmdir)
    return folder


class Agent(AgentPage):
    listen = LISTEN

    def __init__(self, folder, *options):
        (folder / "agent.toml").write_text(CONFIG)
        (folder / "statements").write_text("P_0\tSELECT abalance FROM pgbench_accounts WHERE aid = $1\n")
        self.log = open(folder / "log", "w+")
        words = [OVERHEAD, "agent", "--config", folder / "agent.toml", *options]
        self.process = subprocess.Popen([str(word) for word in words], stdout=self.log, stderr=self.log)
        wait_for(lambda: self.text(), "the agent's metrics")

    def end(self):
        """Ends it, and returns its summary."""
        self.process.send_signal(signal.SIGINT)
        self.process.wait(20)
        self.log.seek(0)
        return self.log.read()


def interface(name):
    """Bytes received and sent by eth0 of a namespace."""
    counted = [must(*inside(name, "cat", f"/sys/class/net/eth0/statistics/{way}_bytes")) for way in ("rx", "tx")]
    return [int(text) for text in counted]


def close(name, found, wanted, allowed):
    share = abs(found - wanted) / max(wanted, 1e-30)
    check(f"{name} ({found:.9g} of {wanted:.9g}, {share:.4%} off)", share <= allowed)


def settled(agent):
    """Waits until a reading has seen everything."""
    before = agent.sum("uptime_seconds")
    wait_for(lambda: agent.sum("uptime_seconds") > before + 2.5, "two readings")


def redis(ends, folder):
    """The totals of a Redis against its own counters and its interface's; what they consist of; the bill."""
    server = ("10.62.1.2", 6379)
    start(ends, inside("redis", *REDIS, "--bind", server[0], "--dir", folder))
    asking = connect(server)
    asking.sendall(b"PING\r\n")
    asking.recv(100)
    agent = Agent(folder)
    ends.callback(agent.process.kill)
    counted, passed = redis_counters(asking), interface("redis")
    settled(agent)
    labels = {"server": "10.62.1.2:6379", "system": "redis"}
    before = {name: agent.sum(name, **labels) for name in ("payload_bytes", "wire_bytes")}
    # All four at the same time, so that each window shows them.
    loads = [inside(where, "redis-benchmark", "-h", server[0], "-q", "-t", name, "-n", count, "-d", 100, "-r", 1000, "-c", clients)
             for where, total in (("client-a", 144_000), ("client-b", 288_000))
             for name, count, clients in (("set", total // 3, 10), ("get", total, 30))]
    group = control_group(ends)
    if group:
        loads[:2] = [["sh", "-c", f'echo $$ >{group}/cgroup.procs; exec "$@"', "sh", *map(str, words)] for words in loads[:2]]
    running = [subprocess.Popen([str(word) for word in words], stdout=subprocess.DEVNULL) for words in loads]
    check("redis: the load ended well", [load.wait(120) for load in running], [0] * 4)
    settled(agent)
    # The last answer is in neither.
    passed_since = [now - then for now, then in zip(interface("redis"), passed)]
    now = redis_counters(asking)
    request = now["total_net_input_bytes"] - counted["total_net_input_bytes"] - len("INFO everything\r\n")
    response = now["total_net_output_bytes"] - counted["total_net_output_bytes"]
    payload = agent.sum("payload_bytes", **labels) - before["payload_bytes"]
    check("redis: payload, as the server says", payload, request + response - counted["length"])
    wire = agent.sum("wire_bytes", **labels) - before["wire_bytes"]
    close("redis: wire bytes, as the interface says", wire, sum(passed_since), ALLOWED)
    if group:
        of_container = agent.sum("wire_bytes", client_container=CONTAINER[:12], **labels)
        check("redis: the client's container", of_container, agent.sum("wire_bytes", client_zone="a", **labels))
    else:
        skip("redis: the client's container", "no control group of version 2 can be made here")
    check("redis: connections", agent.sum("connections_opened", **labels) >= 80)
    calls = {name: now["calls"][name] - counted["calls"].get(name, 0) for name in ("get", "set")}
    time.sleep(11)
    for name, count in calls.items():
        found = agent.sum("statement_operations", operation=name.upper(), **labels)
        # Few windows, whose places are random: this is no test of the intervals, which the unit tests are.
        check(f"redis: {name}, estimated ({found:,.0f} of {count:,})", count / 5 < found < count * 5)
    statements = agent.sum("statement_wire_bytes", **labels)
    close("redis: statements add up to the total", statements, agent.sum("wire_bytes", **labels), 1e-9)
    for client, other in (("a", "b"), ("b", "b")):
        zones = {"client_zone": client, "server_zone": other, **labels}
        sides = [agent.sum("wire_bytes", side=side, **zones) for side in ("request", "response")]
        bill = sides[0] * PRICES.get((client, other), 0) + sides[1] * PRICES.get((other, client), 0)
        check(f"redis: there is traffic from zone {client}", min(sides) > 1e6)
        close(f"redis: cost from zone {client}", agent.sum("cost", **zones), bill, 1e-9)
        # Requests and responses of statements each add up to the total.
        close(f"redis: cost by statement from zone {client}", agent.sum("statement_cost", **zones), bill, 1e-6)
    return agent


def memcached(ends, agent):
    if not shutil.which("memcached"):
        return skip("memcached", "it is not installed")
    server = ("10.62.2.2", 11211)
    start(ends, inside("memcached", "memcached", "-u", "nobody", "-l", server[0]))
    asking = connect(server)
    memcached_counters(asking)
    settled(agent)
    before = memcached_counters(asking)
    for number in range(3000):
        ask(asking, f"set key:{number % 100} 0 0 100\r\n{'x' * 100}\r\n".encode())
        ask(asking, f"get key:{number % 100}\r\n".encode(), until=b"END\r\n")
    after = memcached_counters(asking)
    settled(agent)
    labels = {"server": "10.62.2.2:11211"}
    moved = sum(after[way] - before[way] for way in ("bytes_read", "bytes_written"))
    # The agent has also seen the questions from the start of the connection.
    close("memcached: payload, as the server says", agent.sum("payload_bytes", **labels), moved + after["length"] + before["length"], 0.01)


def pgbench(ends, folder, agent):
    """A server on loopback, whose connections are counted once though both ends are here."""
    place = postgres(ends, folder, 25432)
    if place is None:
        return skip("postgres", "it is not installed")
    at = ["-h", "127.0.0.1", "-p", "25432", "-U", "postgres"]
    must("pgbench", *at, "-i", "-q", "postgres")
    # It listens on a port that the agent finds at its next search.
    wait_for(lambda: agent.sum("wire_bytes", server="127.0.0.1:25432") > 0 or run(["pgbench", *at, "-T", "1", "postgres"]).returncode, "its port")
    settled(agent)
    before = [agent.sum(name, server="127.0.0.1:25432") for name in ("connections_opened", "payload_bytes")]
    must("pgbench", *at, "-n", "-S", "-t", "4000", "-c", "2", "postgres")
    settled(agent)
    opened, payload = (agent.sum(name, server="127.0.0.1:25432") - was for name, was in zip(("connections_opened", "payload_bytes"), before))
    check("postgres: each connection counts once", opened in (3, 4))
    # One SELECT has 60 to 70 bytes of text and 85 of answer.
    check(f"postgres: the payload is that of 8,000 transactions ({payload:,.0f} B)", 8000 * 100 < payload < 8000 * 250)
    prepared(agent)


def prepared(agent):
    """Statements prepared before any window have the texts of the file."""
    load = subprocess.Popen(["pgbench", "-h", "127.0.0.1", "-p", "25432", "-U", "postgres", "-n", "-S", "-M", "prepared", "-T", "90", "postgres"],
                            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    of_file = {"server": "127.0.0.1:25432", "statement": "SELECT abalance FROM pgbench_accounts WHERE aid = $1"}
    wait_for(lambda: agent.sum("statement_operations", **of_file) > 0, "the prepared statement", 40)
    check("postgres: a prepared statement has the text of the file", agent.sum("statement_operations", **of_file) > 0)

    def work():
        return [agent.sum(f"work_{name}", server="127.0.0.1:25432") for name in ("operations", "syscalls")]

    # Every sixth window counts the work of the server with the most bytes.
    wait_for(lambda: work()[0] > 0, "a window with kernel counters", 40)
    operations, calls = work()
    load.terminate()
    load.wait()
    # For a request on its only connection, PostgreSQL waits, receives, tries to receive more, and sends.
    check(f"kernel work per operation ({calls:,.0f} calls for {operations:,.0f} operations)", 2 * operations < calls < 6 * operations)


def loopback(ends, folder, agent):
    """Two servers with the same address in two network namespaces: all bytes, and no series twice."""
    for name in ("client-a", "client-b"):
        start(ends, inside(name, *REDIS, "--bind", "127.0.0.1", "--dir", folder, "--pidfile", folder / f"{name}.pid"))
    labels = {"server": "127.0.0.1:6379", "side": "request", "seen_at": "server"}
    for name in ("client-a", "client-b"):
        wait_for(lambda: run(inside(name, "redis-cli", "PING")).returncode == 0, "a server on loopback")
    settled(agent)
    before = agent.sum("payload_bytes", **labels)
    for name in ("client-a", "client-b"):
        must(*inside(name, "redis-cli", "-r", "1000", "PING"))
    settled(agent)
    # redis-cli sends COMMAND DOCS first: 27 bytes.
    check("loopback: both servers count", agent.sum("payload_bytes", **labels) - before in (2 * 14_000.0, 2 * 14_027.0))
    series = [line.rsplit(" ", 1)[0] for line in agent.text().splitlines() if not line.startswith("#")]
    check("loopback: each series is there once", len(series) - len(set(series)), 0)


def newcomers(ends, folder, agent):
    """Servers that start while the agent runs, on ports that no database usually has, count from their first byte on."""
    place = ("10.62.1.2", 17777)
    start(ends, inside("redis", *REDIS, "--bind", place[0], "--port", place[1], "--dir", folder, "--pidfile", folder / "late.pid"))
    value = 250_000
    sent = f"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n${value}\r\n".encode() + bytes(value) + b"\r\n"
    with connect(place) as client:
        ask(client, sent)
    labels = {"server": "10.62.1.2:17777", "system": "redis"}
    settled(agent)
    check("newcomers: a new server counts from its first byte on", agent.sum("payload_bytes", **labels), float(len(sent + b"+OK\r\n")))
    for port in range(17801, 17811):
        words = inside("redis", *REDIS, "--bind", place[0], "--port", port, "--dir", folder, "--pidfile", folder / "short.pid")
        server = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        with connect((place[0], port)) as client:
            for _ in range(100):
                ask(client, b"PING\r\n")
        server.kill()
        server.wait()

    def found():
        return [agent.sum("payload_bytes", server=f"10.62.1.2:{port}", system="redis") for port in range(17801, 17811)]

    settled(agent)
    check("newcomers: ten servers that ended at once count", found(), [100.0 * (6 + 7)] * 10)
    # Two searches later, nothing but the totals has their names.
    time.sleep(13)
    check("newcomers: they keep their names", found(), [100.0 * (6 + 7)] * 10)
    check("newcomers: all were noted", [agent.sum(name) for name in ("lost_listeners", "unidentified_wire_bytes")], [0.0, 0.0])


# A server and a client of no known protocol, on a usual port, in a namespace without a container: 1,000 exchanges after a line.
APART = """
import socket, sys
listener = socket.create_server(("10.63.1.2", 27017))
client = socket.create_connection(("10.63.1.2", 27017))
server = listener.accept()[0]
print("ready", flush=True)
sys.stdin.readline()
for _ in range(1000):
    client.sendall(b"question")
    server.recv(100)
    server.sendall(b"answer")
    client.recv(100)
print("done", flush=True)
sys.stdin.readline()
"""


def restart(folder, agent):
    """After a restart, connections that stayed open count from then on."""
    asking = connect(("10.62.1.2", 6379))
    ask(asking, b"PING\r\n")
    network("apart", "veth-apart", "10.63.1")
    apart = subprocess.Popen(inside("apart", sys.executable, "-c", APART), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    apart.stdout.readline()
    agent.process.kill()
    agent.process.wait()
    agent = Agent(folder)
    time.sleep(2)
    apart.stdin.write("\n")
    apart.stdin.flush()
    apart.stdout.readline()
    settled(agent)
    check("restart: an open connection in a namespace of its own", agent.sum("payload_bytes", server="10.63.1.2:27017"), 1000.0 * (8 + 6))
    apart.communicate("\n")
    before = agent.sum("payload_bytes", server="10.62.1.2:6379")
    for _ in range(1000):
        ask(asking, b"PING\r\n")
    settled(agent)
    counts = [agent.sum(f"connections_{name}", server="10.62.1.2:6379") for name in ("opened", "met_open")]
    check("restart: it was met open, and not opened", (counts[0], counts[1] >= 1), (0, True))
    check("restart: an open connection counts from then on", agent.sum("payload_bytes", server="10.62.1.2:6379") - before, 1000.0 * (6 + 7))
    said = agent.end()
    check("restart: the summary has the server", "10.62.1.2:6379 redis" in said)
    return said


def result(url, query):
    """What a query of PromQL gives first."""
    with contextlib.suppress(urllib.error.URLError, ConnectionError):
        found = urllib.request.urlopen(f"{url}/api/v1/query?" + urllib.parse.urlencode({"query": query}), timeout=10).read()
        found = json.loads(found)["data"]["result"]
        return float(found[0]["value"][1]) if found else None


COLLECTOR = """
receivers: {otlp: {protocols: {http: {endpoint: "127.0.0.1:29428"}}}}
exporters: {prometheus: {endpoint: "127.0.0.1:29429"}}
service:
  telemetry: {metrics: {level: none}}
  pipelines: {metrics: {receivers: [otlp], exporters: [prometheus]}}
"""


def otlp(ends, folder, agent):
    """A real collector takes the metrics, also if it comes late: nothing was lost until then."""
    check("otlp: exports fail without a collector, and are counted", agent.sum("failed_exports") > 0)
    if not shutil.which("otelcol"):
        return skip("otlp", "no collector of OpenTelemetry is installed (otelcol)")
    (folder / "otelcol.yaml").write_text(COLLECTOR)
    start(ends, ["otelcol", f"--config=file:{folder}/otelcol.yaml"], stderr=open(folder / "otelcol.log", "w"))

    def received():
        with contextlib.suppress(urllib.error.URLError, ConnectionError):
            text = urllib.request.urlopen("http://127.0.0.1:29429/metrics", timeout=10).read().decode()
            return [line for line in text.splitlines() if line.startswith("overhead_")]

    def total(name, *labels):
        lines = [line for line in received() or [] if line.startswith(name) and all(label in line for label in labels)]
        return sum(float(line.rsplit(" ", 1)[1]) for line in lines)

    redis = 'server_address="10.62.1.2"', 'db_system_name="redis"'
    wanted = agent.sum("wire_bytes", server="10.62.1.2:6379")
    wait_for(lambda: total("overhead_wire_io_bytes_total", *redis) == wanted, "the same bytes in the collector", 30)
    check("otlp: the collector has the same bytes", total("overhead_wire_io_bytes_total", *redis), wanted)
    statements = total("overhead_statement_wire_io_bytes_total", *redis)
    close("otlp: and those of statements", statements, agent.sum("statement_wire_bytes", server="10.62.1.2:6379"), 1e-9)
    check("otlp: postgres has its name of the conventions", total("overhead_wire_io_bytes_total", 'db_system_name="postgresql"') > 0)


def prometheus(ends, folder, agent):
    """A real Prometheus takes the metrics and the rules, and adds up what the agent does."""
    if not shutil.which("prometheus"):
        return skip("prometheus", "it is not installed")
    found = subprocess.run(["promtool", "check", "metrics"], input=agent.text(), capture_output=True, text=True)
    check("prometheus: its tool accepts the metrics", (found.returncode, found.stderr), (0, ""))
    rules = ROOT / "docs/recipes/agent-rules.yml"
    found = run(["promtool", "check", "rules", rules])
    check("prometheus: its tool accepts the rules", (found.returncode, found.stderr), (0, ""))
    config = folder / "prometheus.yml"
    config.write_text(f"global: {{scrape_interval: 1s}}\nrule_files: [{rules}]\n"
                      f"scrape_configs: [{{job_name: overhead, static_configs: [{{targets: ['{LISTEN}']}}]}}]\n")
    start(ends, ["prometheus", f"--config.file={config}", f"--storage.tsdb.path={folder}/tsdb", "--web.listen-address=127.0.0.1:29090"])

    url = "http://127.0.0.1:29090"
    query = 'sum(overhead_agent_wire_bytes_total{server="10.62.1.2:6379"})'
    wait_for(lambda: result(url, query), "Prometheus")
    wanted = agent.sum("wire_bytes", server="10.62.1.2:6379")
    wait_for(lambda: result(url, query) == wanted, "the same sum in Prometheus")
    check("prometheus: the same bytes", result(url, query), wanted)
    largest = result(url, 'topk(1, sum by (statement) (overhead_agent_statement_wire_bytes_total{server="10.62.1.2:6379"}))')
    check("prometheus: the largest statement has most of them", largest > wanted / 2)
    panels = json.loads((ROOT / "docs/recipes/agent-dashboard.json").read_text())["panels"]
    for panel in panels:
        query = panel["targets"][0]["expr"].replace("$server", ".*")
        query = query.replace("$__rate_interval", "1m").replace("$__range", "1m")
        wait_for(lambda: result(url, query) is not None, f"the panel {panel['title']}")
    check("prometheus: every panel of the dashboard has figures", len(panels) > 5)


PYTHON = os.environ.get("OVERHEAD_EXPORT_PYTHON", ROOT / ".lab/export/venv/bin/python")
# The archive is on a file system of its own, so that it can be full.
ARCHIVE_BYTES = 1 << 20


def rows(folder, table, columns):
    """What DuckDB finds in the archive: sums of columns over the rows of the Redis."""
    script = "import duckdb, json, sys; print(json.dumps(duckdb.sql(sys.argv[1]).fetchall()[0]))"
    query = f"SELECT {columns} FROM read_parquet('{folder}/archive/{table}/**/*.parquet', hive_partitioning = true) WHERE server = '10.62.1.2:6379'"
    found = run([PYTHON, "-c", script, query])
    return json.loads(found.stdout) if found.returncode == 0 else None


def archive(folder, agent):
    """Without traffic, the archive has what the metrics have, also after it was full for a while."""
    def is_same():
        wire = agent.sum("wire_bytes", server="10.62.1.2:6379")
        return rows(folder, "agent_flows", "sum(request_wire_bytes + response_wire_bytes)::BIGINT") == [wire]

    if run([PYTHON, "-c", "import duckdb"]).returncode:
        return skip("archive", "lab/install readers brings DuckDB, and make test-export Spark")
    wait_for(is_same, "the same bytes in DuckDB", 30)
    wire = "sum(request_wire_bytes + response_wire_bytes)::BIGINT, sum(cost_nano)::BIGINT"
    flows, statements = rows(folder, "agent_flows", wire), rows(folder, "agent_statements", wire)
    check("archive: DuckDB has the bytes of the metrics", flows[0], int(agent.sum("wire_bytes", server="10.62.1.2:6379")))
    check("archive: statements add up to the flows", statements[0], flows[0])
    close("archive: and their cost is the metrics'", flows[1] / 1e9, agent.sum("cost", server="10.62.1.2:6379"), 1e-3)
    filler = folder / "archive/filler"
    with contextlib.suppress(OSError), open(filler, "wb", buffering=0) as file:
        while True:
            file.write(bytes(4096))
    must(*inside("client-b", "redis-benchmark", "-h", "10.62.1.2", "-q", "-t", "get", "-n", "5000"))
    wait_for(lambda: agent.sum("failed_archives") > 0, "a full disk", 30)
    check("archive: a full disk is counted", agent.sum("failed_archives") > 0)
    filler.unlink()
    wait_for(is_same, "the bytes that did not fit", 30)
    check("archive: when there is room again, no byte is missing", is_same())
    fleet(folder, flows)


def fleet(folder, flows):
    """The fleet's job finds the same."""
    if run([PYTHON, "-c", "import pyspark"]).returncode:
        return skip("archive: the fleet's job", "lab/install export brings Spark")
    done = run([PYTHON, ROOT / "fleet/answers.py", "--data", folder / "archive", "--output", folder / "answers", "--master", "local[1]"])
    check("archive: the fleet's job answers", done.returncode, 0)
    with open(folder / "answers/agent-zones.csv", newline="") as file:
        found = [row for row in csv.DictReader(file) if (row["system"], row["server_zone"]) == ("redis", "b")]
    total = sum(int(row[f"{way}_wire_bytes"]) for row in found for way in ("request", "response"))
    check(f"archive: the fleet's job has the same bytes, and more since ({total:,} of {flows[0]:,})", total >= flows[0] > 0.9 * total)
    with open(folder / "answers/agent-statements.csv", newline="") as file:
        top = next(row for row in csv.DictReader(file) if row["system"] == "redis")
    # Ten seconds have at most 20 windows, and an interval takes 30.
    check("archive: the largest statement, without an interval", (top["name"] in ("GET", "SET"), top["wire_bytes_interval"]), (True, ""))


def replaced(ends, folder, agent):
    """A server whose container is replaced by another, with the same address: its totals go on."""
    before = agent.sum("payload_bytes", server="10.62.1.2:6379")
    must("ip", "netns", "delete", "redis")
    run(["ip", "link", "delete", "veth-redis"])
    network("redis", "veth-redis", "10.62.1")
    start(ends, inside("redis", *REDIS, "--bind", "10.62.1.2", "--dir", folder, "--pidfile", folder / "replaced.pid"))
    wait_for(lambda: run(inside("client-b", "redis-cli", "-h", "10.62.1.2", "PING")).returncode == 0, "the new server")
    must(*inside("client-b", "redis-benchmark", "-h", "10.62.1.2", "-q", "-t", "get", "-n", "20000", "-c", "5"))
    settled(agent)
    # GET and its answer: 36 and 5 bytes.
    payload = agent.sum("payload_bytes", server="10.62.1.2:6379") - before
    check(f"replaced: the new container's bytes are added ({payload:,.0f} B)", 20_000 * 30 < payload < 20_000 * 60)
    shown = must(OVERHEAD, "top", "--agent", LISTEN, "--once", "--by", "server")
    check("replaced: overhead top shows the server", "10.62.1.2:6379" in shown)


def usage(folder):
    done = run([OVERHEAD, "agent", "--listen", "0.0.0.0:29475"])
    check("a public address needs a token", (done.returncode, "token-file" in done.stderr), (2, True))
    # The agent that runs has the address of its settings. There may be no collector.
    (folder / "dry.toml").write_text(re.sub(r"\[otlp\]\n(.+\n)+", "", CONFIG))
    done = run([OVERHEAD, "agent", "--config", folder / "dry.toml", "--listen", "127.0.0.1:29476", "--dry-run"])
    check("a dry run lists the servers", (done.returncode, "redis: redis-server" in done.stdout), (0, True))
    check("a dry run lists zones and prices", "zone b: 10.62.0.0/16\nprice from a to b: 0.01/GB\n" in done.stdout)
    done = run([OVERHEAD, "agent", "--config", folder / "agent.toml", "--dry-run"])
    check("a dry run tests the address", (done.returncode, "cannot be listened on" in done.stderr), (1, True))


require_root("redis-server", "ip", namespaces=("--net", "--mount"))
must("ip", "link", "set", "lo", "up")
must("mount", "-t", "tmpfs", "overhead-test", "/run")
must("sysctl", "-q", "-w", "net.ipv4.ip_forward=1")
with tempfile.TemporaryDirectory() as name, contextlib.ExitStack() as ends:
    folder = pathlib.Path(name)
    folder.chmod(0o755)
    for namespace, net in (("client-a", "10.61.1"), ("client-b", "10.62.9"), ("redis", "10.62.1"), ("memcached", "10.62.2")):
        network(namespace, f"veth-{namespace}"[:15], net)
    (folder / "archive").mkdir()
    must("mount", "-t", "tmpfs", "-o", f"size={ARCHIVE_BYTES}", "overhead-test", folder / "archive")
    ends.callback(must, "umount", folder / "archive")
    agent = redis(ends, folder)
    memcached(ends, agent)
    pgbench(ends, folder, agent)
    otlp(ends, folder, agent)
    prometheus(ends, folder, agent)
    archive(folder, agent)
    loopback(ends, folder, agent)
    replaced(ends, folder, agent)
    newcomers(ends, folder, agent)
    usage(folder)
    restart(folder, agent)
finish()
