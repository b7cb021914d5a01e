#!/usr/bin/env -S python3 -B
"""lab/test/restart.py [BINARY]: the agent's totals over kills, stops and starts, against tcpdump on the server's interface.

Connections are opened, used and closed all the time, also while no agent runs. Takes root's rights; three minutes. Ends with a line like that of
cargo test.
"""

import collections
import contextlib
import json
import os
import pathlib
import re
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.request

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "lib"))
from testing import OVERHEAD, REDIS, ROOT, check, connect, finish, must, network, require_root, run, skip, start, wait_for

LISTEN = "127.0.0.1:29477"
SERVER = ("10.64.1.2", 6379)
PINS = pathlib.Path("/sys/fs/bpf/overhead-agent")
CONFIG = f"""
listen = "{LISTEN}"
interval = "1s"
period = "10s"
state = "state"

[windows]
length = "100ms"
every = "500ms"

[archive]
folder = "archive"
every = "10s"
"""
PYTHON = os.environ.get("OVERHEAD_EXPORT_PYTHON", ROOT / ".lab/export/venv/bin/python")
# Keeps the agent waiting for the export, once it is done, while the file `slow` exists.
SLOW_EXPORT = """#!/bin/sh
{program} "$@" || exit
[ ! -e {folder}/slow ] || {{ touch {folder}/exported; sleep 60; }}
"""


class Traffic:
    """A connection that stays open, and short ones, until the end."""

    def __init__(self):
        self.is_over = threading.Event()
        self.thread = threading.Thread(target=self.exchange)
        self.thread.start()

    def exchange(self):
        long = socket.create_connection(SERVER)
        while not self.is_over.is_set():
            with socket.create_connection(SERVER) as short:
                for connection, size in ((long, 1), (short, 20), (long, 1300)):
                    connection.sendall(b"*2\r\n$4\r\nECHO\r\n$%d\r\n%s\r\n" % (size, b"x" * size))
                    wanted = len(b"$%d\r\n" % size) + size + 2
                    while wanted:
                        wanted -= len(connection.recv(wanted))
            time.sleep(0.005)
        long.close()

    def end(self):
        self.is_over.set()
        self.thread.join()


class Agent:
    def __init__(self, folder, *before, program=OVERHEAD):
        self.log = open(folder / "log", "w+")
        words = [*before, program, "agent", "--config", folder / "agent.toml"]
        self.process = subprocess.Popen([str(word) for word in words], stdout=self.log, stderr=self.log)
        wait_for(self.text, "the agent's metrics")

    def text(self):
        with contextlib.suppress(urllib.error.URLError, ConnectionError):
            return urllib.request.urlopen(f"http://{LISTEN}/metrics", timeout=10).read().decode()

    def sum(self, name):
        """The sum of the series of the server, or of the agent."""
        found = 0.0
        for line in self.text().splitlines():
            series = re.fullmatch(rf"overhead_agent_{name}_total(?:{{(.*)}})? (\S+)", line)
            is_wanted = series and (not series[1] or f'server="{SERVER[0]}:{SERVER[1]}"' in series[1])
            found += float(series[2]) if is_wanted else 0
        return found

    def stop(self, how):
        """Ends it, and returns what it printed."""
        self.process.send_signal(how)
        self.process.wait(30)
        self.log.seek(0)
        return self.log.read()

    def settle(self):
        before = self.sum("uptime_seconds")
        wait_for(lambda: self.sum("uptime_seconds") > before + 3, "three readings")


class Capture:
    """tcpdump on the server's interface."""

    def __init__(self, path):
        self.path = path
        self.process = subprocess.Popen(["ip", "netns", "exec", "server", "tcpdump", "-i", "eth0", "-s", "120", "-B", "65536", "-U", "-w",
                                         str(path), "tcp port 6379"], stderr=subprocess.PIPE, text=True)
        wait_for(lambda: path.exists() and path.stat().st_size >= 24, "tcpdump")

    def end(self):
        """Ends it, and returns the payload, the bytes on the wire and the connections opened."""
        self.process.send_signal(signal.SIGINT)
        dropped = re.search(r"(\d+) packets? dropped by kernel", self.process.communicate()[1])
        check("tcpdump has all frames", dropped and dropped[1], "0")
        return frames(self.path)


def frames(path):
    seen = collections.Counter()
    with open(path, "rb") as file:
        file.read(24)
        while head := file.read(16):
            _, _, captured, length = struct.unpack("<IIII", head)
            frame = file.read(captured)
            header = 14 + (frame[14] & 15) * 4
            data = header + (frame[header + 12] >> 4) * 4
            seen["payload"] += 14 + int.from_bytes(frame[16:18], "big") - data
            seen["wire"] += length
            seen["opened"] += frame[header + 13] & 0x12 == 0x02
    return seen


def archived(folder):
    """Sums of the archive's rows for the server, of flows and of statements; None without DuckDB."""
    script = "import duckdb, sys; [print(*duckdb.sql(query).fetchall()[0]) for query in sys.argv[1:]]"
    server = f"WHERE server = '{SERVER[0]}:{SERVER[1]}'"
    query = (f"SELECT sum({{}})::BIGINT FROM read_parquet('{folder}/archive/{{}}/**/*.parquet', hive_partitioning = true, "
             f"union_by_name = true) {server}")
    wire = "request_wire_bytes + response_wire_bytes"
    found = run([PYTHON, "-c", script, query.format("request_payload_bytes + response_payload_bytes", "agent_flows"),
                 query.format(wire, "agent_flows"), query.format(wire, "agent_statements")])
    return [int(line) for line in found.stdout.split()] if found.returncode == 0 else None


def exact(folder):
    """Kills, stops and starts at any time: the totals are those of tcpdump."""
    capture = Capture(folder / "exact.pcap")
    agent = Agent(folder)
    agent.settle()
    traffic = Traffic()
    # Before the first save, before and after others, and while an archive file is due.
    for seconds in (0.3, 12.4, 3.1, 10.9):
        time.sleep(seconds)
        agent.stop(signal.SIGKILL)
        time.sleep(1.5)
        agent = Agent(folder)
    time.sleep(4)
    said = agent.stop(signal.SIGTERM)
    check("a stop prints the summary", f"{SERVER[0]}:{SERVER[1]} redis" in said)
    time.sleep(1.5)
    # Another time since the start of the host, as after a step of the clock.
    agent = Agent(folder, "unshare", "--time", "--boottime", "86400")
    time.sleep(12)
    agent.stop(signal.SIGKILL)
    agent = Agent(folder)
    traffic.end()
    # The last acknowledgment is in neither.
    agent.settle()
    seen = capture.end()
    check(f"payload of {seen['payload']:,} B, as tcpdump says", agent.sum("payload_bytes"), float(seen["payload"]))
    found = agent.sum("wire_bytes")
    check(f"wire bytes ({found:,.0f} of {seen['wire']:,})", abs(found - seen["wire"]) < 0.001 * seen["wire"])
    counts = [agent.sum(f"connections_{what}") for what in ("opened", "closed", "met_open")]
    check("connections, as tcpdump says", counts, [float(seen["opened"]), float(seen["opened"]), 0.0])
    check("there is no gap", agent.sum("uncounted_seconds"), 0.0)
    agent.stop(signal.SIGTERM)
    rows = archived(folder)
    if rows is None:
        skip("the archive", "lab/install readers brings DuckDB")
    else:
        check("the archive has tcpdump's payload", rows[0], seen["payload"])
        check("the archive has the metrics' bytes, of flows and of statements", rows[1:], [int(found)] * 2)


def full(folder):
    """While the state cannot be saved, the kernel keeps what is in no file."""
    state = folder / "state"
    must("mount", "-t", "tmpfs", "-o", "size=1m,mode=700", "overhead-test", state)
    agent = Agent(folder)
    agent.settle()
    capture, before = Capture(folder / "full.pcap"), agent.sum("payload_bytes")
    traffic = Traffic()
    time.sleep(1)
    filler = state / "filler"
    with contextlib.suppress(OSError), open(filler, "wb", buffering=0) as file:
        while True:
            file.write(bytes(4096))
    time.sleep(25)
    said = agent.stop(signal.SIGKILL)
    check("a full disk: the reason", "the state was not saved" in said and "No space left on device" in said)
    filler.unlink()
    agent = Agent(folder)
    time.sleep(12)
    traffic.end()
    agent.settle()
    payload = agent.sum("payload_bytes") - before
    check("a full disk: the payload is tcpdump's", payload, float(capture.end()["payload"]))
    agent.stop(signal.SIGTERM)
    must("umount", state)


def archive(folder):
    """A kill after a file of the archive is written, but before the agent is told."""
    programs = folder / "programs"
    programs.mkdir()
    must("cp", OVERHEAD, programs / "overhead")
    export = pathlib.Path(OVERHEAD).with_name("overhead-export")
    (programs / "overhead-export").write_text(SLOW_EXPORT.format(program=export, folder=folder))
    (programs / "overhead-export").chmod(0o755)
    (folder / "slow").touch()
    traffic = Traffic()
    agent = Agent(folder, program=programs / "overhead")
    wait_for((folder / "exported").exists, "a file of the archive", 40)
    agent.stop(signal.SIGKILL)
    (folder / "slow").unlink()
    traffic.end()
    agent = Agent(folder)
    agent.settle()
    wire = agent.sum("wire_bytes")
    agent.stop(signal.SIGTERM)
    rows = archived(folder)
    if rows is None:
        return skip("a kill during the export", "lab/install readers brings DuckDB")
    check("a kill during the export: each byte is archived once", rows[1:], [int(wire)] * 2)


def replaced(folder):
    """States that cannot go on: the reason is printed, and the agent works on."""
    def exchange(agent):
        traffic = Traffic()
        time.sleep(2)
        traffic.end()
        agent.settle()

    def starts(name, words, goes_on):
        agent = Agent(folder)
        before = agent.sum("payload_bytes")
        exchange(agent)
        gap, payload = agent.sum("uncounted_seconds"), agent.sum("payload_bytes")
        said = agent.stop(signal.SIGTERM)
        check(f"{name}: a reason", [word for word in words if word not in said], [])
        check(f"{name}: it works on", payload > before and (before > 0, gap > 0) == goes_on)

    (pinned,) = PINS.iterdir()
    pinned.rename(PINS / "tables-0")
    starts("other tables", ["connections were not counted for", "another layout"], (True, True))
    must("umount", "/sys/fs/bpf")
    must("mount", "-t", "tmpfs", "overhead-test", "/sys/fs/bpf")
    starts("no BPF file system", ["connections were not counted for", "is not a BPF file system: run mount -t bpf"], (True, True))
    must("umount", "/sys/fs/bpf")
    must("mount", "-t", "bpf", "overhead-test", "/sys/fs/bpf")
    file = folder / "state/agent-state.json"
    check("the state is private", oct(file.stat().st_mode & 0o777), "0o600")
    saved = json.loads(file.read_text())
    file.write_text(json.dumps({**saved, "version": 99}))
    starts("a state of another version", ["counters start at 0", "another version of overhead"], (False, False))


def refused(folder):
    """What another user could have changed, or nobody can read: one message with the fix. A dry run leaves nothing behind."""
    def ends(name, *words, options=()):
        done = run([OVERHEAD, "agent", "--config", folder / "agent.toml", "--listen", "127.0.0.1:29478", *options])
        said = [line for line in done.stderr.splitlines() if line.startswith("overhead: ")]
        check(name, (done.returncode, len(said), [word for word in words if word not in done.stderr]), (1, 1, []))

    file = folder / "state/agent-state.json"
    good = file.read_text()
    file.write_text(good[:-100])
    ends("a damaged state", "agent-state.json is damaged", "run rm ")
    ends("a damaged state in a dry run", "agent-state.json is damaged", options=["--dry-run"])
    file.write_text(good)
    os.chown(file, 60001, -1)
    ends("a state of another user", "cannot be read", "run rm ")
    os.chown(file, 0, -1)
    (folder / "state").chmod(0o777)
    ends("a folder for everyone", "run chmod go-w")
    (folder / "state").chmod(0o700)
    agent = Agent(folder)
    ends("a second agent", "another agent uses")
    agent.stop(signal.SIGTERM)
    must("rm", "-r", PINS, folder / "state")
    done = run([OVERHEAD, "agent", "--config", folder / "agent.toml", "--dry-run"])
    check("a dry run leaves nothing behind", (done.returncode, (folder / "state").exists(), PINS.exists()), (0, False, False))
    (folder / "agent.toml").write_text(CONFIG.replace('state = "state"', ""))
    Agent(folder).stop(signal.SIGTERM)
    check("without the setting, nothing is left behind", ((folder / "state").exists(), PINS.exists()), (False, False))
    agent = Agent(folder, "env", f"STATE_DIRECTORY={folder}/unit")
    agent.settle()
    agent.stop(signal.SIGTERM)
    check("systemd's folder is used", ((folder / "unit/agent-state.json").exists(), PINS.exists()), (True, True))


require_root("redis-server", "ip", "tcpdump", namespaces=("--net", "--mount"))
must("ip", "link", "set", "lo", "up")
must("mount", "-t", "tmpfs", "overhead-test", "/run")
must("mount", "-t", "bpf", "overhead-test", "/sys/fs/bpf")
with tempfile.TemporaryDirectory() as name, contextlib.ExitStack() as ends:
    folder = pathlib.Path(name)
    network("server", "veth-server", "10.64.1")
    start(ends, ["ip", "netns", "exec", "server", *REDIS, "--bind", SERVER[0], "--dir", folder])
    connect(SERVER).close()
    (folder / "agent.toml").write_text(CONFIG)
    exact(folder)
    archive(folder)
    full(folder)
    replaced(folder)
    refused(folder)
finish()
