#!/usr/bin/env -S python3 -B
"""lab/test/faults.py [BINARY] [FAULT...]: what goes wrong in the field, made to happen to a capture of real traffic. Each fault may lose
what it must, and nothing else; the capture counts that and says it, and `overhead analyze RUNDIR` completes the run.

Without names, all faults that disturb nobody else on this machine; `--list` names them. `cpu-unplugged`, which takes a processor offline
for a moment, runs where it is named alone.
Ends with a line like that of cargo test. Needs root's rights, redis-server and redis-benchmark.
"""

import contextlib
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "lib"))
import testing
from testing import OVERHEAD, ask, check, connect, finish, must, network, require_root, run, skip, wait_for, workload

PORT = int(os.environ.get("OVERHEAD_FAULTS_PORT", "25400"))
NAMESPACE = f"ovh-faults-{os.getpid()}"
COMPLETE, FAILED, PARTIAL = 0, 1, 3
# What disturbs others on this machine: named alone.
UNASKED = ["cpu-unplugged"]


class Redis(testing.Redis):
    """A server here, or in a namespace."""

    def __init__(self, lab, inside=()):
        super().__init__(lab.ends, lab.folder, PORT, inside=inside, **({"bind": "0.0.0.0", "host": lab.there} if inside else {}))


def get(connection, times=1):
    for _ in range(times):
        ask(connection, b"*2\r\n$3\r\nGET\r\n$3\r\nkey\r\n")


class Capture:
    def __init__(self, lab, name, *options, interface="lo", command=(), inside=()):
        self.lab, self.folder = lab, lab.folder / name
        name = name.replace("/", "-")
        words = [*inside, OVERHEAD, "capture", "-i", interface, "--db", "redis", "--port", PORT, "-o", self.folder, "--format", "json"]
        words += [*options, *(["--", *command] if command else [])]
        self.errors = open(lab.folder / f"{name}.err", "w+")
        self.output = open(lab.folder / f"{name}.out", "w+")
        self.process = subprocess.Popen([str(word) for word in words], stdin=subprocess.DEVNULL, stdout=self.output, stderr=self.errors)
        lab.ends.callback(self.end, signal.SIGKILL)
        wait_for(lambda: "overhead: capturing" in self.said() or self.process.poll() is not None, f"{name} to begin")

    def said(self):
        return pathlib.Path(self.errors.name).read_text()

    def end(self, kind=signal.SIGINT):
        if self.process.poll() is None:
            self.process.send_signal(kind)
        return self.wait()

    def wait(self):
        return self.process.wait(120)

    def ended(self, status, operations=None):
        """Ends it, and returns its record: it has this status and so many operations."""
        time.sleep(0.2)
        expect("its status", self.end(), status)
        record = self.record()
        if operations is not None:
            expect("all operations are there", workload(record), operations)
        return record

    def record(self):
        path = self.folder / "run.json"
        return json.loads(path.read_text()) if path.exists() else None

    def printed(self):
        return json.loads(pathlib.Path(self.output.name).read_text() or "null")

    def warnings(self):
        return (self.printed() or {}).get("warnings", [])


class Lab:
    """A folder, what is started in it, and what is to be ended."""

    there = "10.215.10.2"

    def __init__(self, folder, ends):
        self.folder, self.ends = pathlib.Path(folder), ends

    def load(self, *options, address=("127.0.0.1", PORT), requests=1_000_000_000):
        words = ["redis-benchmark", "-q", "-h", address[0], "-p", str(address[1]), "-t", "get", "-n", str(requests), *options]
        process = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

        def end():
            process.kill()
            process.wait()

        self.ends.callback(end)
        process.end = end
        return process

    def small_disk(self):
        """Mounts a file system of 6 MB, for this process and its children alone."""
        place = self.folder / "small"
        place.mkdir()
        must("mount", "-t", "tmpfs", "-o", "size=6m", "overhead-small", place)
        self.ends.callback(run, ["umount", place])
        return place

    def namespace(self):
        """Makes a network namespace behind a pair of interfaces; returns ours, and the words that run a command there."""
        ours, unreachable = "ovh-faults0", ["unreachable", "10.215.10.0/24", "metric", "4000"]
        self.ends.callback(run, ["ip", "netns", "delete", NAMESPACE])
        self.ends.callback(run, ["ip", "link", "delete", ours])
        network(NAMESPACE, ours, "10.215.10")
        # While ours is down, nothing goes to the default route, where somebody may reset the connection.
        must("ip", "route", "add", *unreachable)
        self.ends.callback(run, ["ip", "route", "delete", *unreachable])
        return ours, ["ip", "netns", "exec", NAMESPACE]


def answered(record, name="GET"):
    rows = [row for row in record["operations"] if row["class"] == "workload" and row["name"] == name]
    return sum(row["count"] - row["unanswered"] - row["no_reply"] for row in rows)


def analyze(path, *options):
    done = run([OVERHEAD, "analyze", path, "--format", "json", *options])
    return done.returncode, json.loads(done.stdout or "null"), done.stderr


def expect(what, found, wanted=True):
    return check(f"{NAME}: {what}", found, wanted)


def completes(folder, status):
    """`analyze RUNDIR` gives what the packets that were kept give, and there is a record afterwards."""
    found, record, said = analyze(folder)
    if not expect("analyze of the folder has a record, and its status", (record is not None, found), (True, status)):
        print(said)
    _, packets, _ = analyze(folder / "packets.pcapng", "--db", "redis", "--port", str(PORT))
    expect("it is what the packets give, and balances", (record["operations"] == packets["operations"], record["ledger"]["balanced"]), (True, True))
    expect("the folder has a record", (folder / "run.json").exists())
    return record


def says(sentences, *words):
    text = " ".join(sentences) if isinstance(sentences, list) else sentences
    for word in words:
        if not expect(f"it says '{word}'", word in text):
            print(text)


FAULTS = {}
NAME = ""


def fault(function):
    FAULTS[function.__name__.replace("_", "-")] = function
    return function


@fault
def killed(lab):
    """SIGKILL of overhead."""
    server = Redis(lab)
    capture = Capture(lab, "killed")
    load = lab.load("-c", "4")
    packets, copy = capture.folder / "packets.pcapng", lab.folder / "written.pcapng"
    wait_for(lambda: packets.stat().st_size > 4_000_000, "packets to be written")
    shutil.copy(packets, copy)
    asking = connect(server.address)
    capture.process.send_signal(signal.SIGKILL)
    # On a loaded machine, it ends a moment later, and captures until then.
    capture.process.wait()
    done = server.gets(asking)
    load.end()
    expect("no record is there", (capture.folder / "run.json").exists(), False)
    kept = completes(capture.folder, PARTIAL)
    says(kept["warnings"], "the capture was aborted")
    expect("counters are absent with the reason", kept["counters"]["unavailable"], "the capture was aborted")
    # How much is lost with the kernel's ring depends on the machine's load; what was written is not.
    written, kept = answered(analyze(copy, "--db", "redis", "--port", str(PORT))[1]), answered(kept)
    expect(f"what was written before is kept: {written} of {done} operations, then {kept}", 0 < written <= kept <= done)


@fault
def killed_with_command(lab):
    """SIGKILL of overhead that runs a command."""
    server = Redis(lab)
    requests = 100_000
    command = ["redis-benchmark", "-q", "-p", PORT, "-t", "get", "-n", requests]
    capture = Capture(lab, "left", command=command)
    wait_for(lambda: server.gets() > 1000, "the command to begin")
    capture.end(signal.SIGKILL)
    wait_for(lambda: server.gets() >= requests, "the command to come to its end")
    expect("the command is left alone", server.gets(), requests)
    completes(capture.folder, PARTIAL)


@fault
def disk_full(lab):
    """The disk of the run folder is full."""
    Redis(lab)
    place, wanted = lab.small_disk(), 20_000
    capture = Capture(lab, f"{place.name}/run", command=["redis-benchmark", "-q", "-p", PORT, "-t", "get", "-n", wanted])
    expect("its status", capture.wait(), PARTIAL)
    record = capture.record()
    expect("the record is there, of all operations", (record["ledger"]["balanced"], workload(record)), (True, wanted))
    expect("the record is the one that was printed", record["operations"], capture.printed()["operations"])
    says(record["warnings"], "No space left on device")
    kept = completes(capture.folder, PARTIAL)
    says(kept["warnings"], "writing packets failed before the run ended", f"of {record['source']['frames']:,} frames are kept")
    expect("the better record stays", capture.record()["operations"], record["operations"])


def deleted(lab, name, delete, said):
    """What is deleted while the capture runs costs the packets, and nothing of the record. Returns the capture."""
    server = Redis(lab)
    capture = Capture(lab, name)
    get(connect(server.address), 100)
    delete(capture.folder)
    get(connect(server.address), 100)
    record = capture.ended(PARTIAL, operations=200)
    expect("no packets are in it", record["source"]["inputs"], [])
    says(record["warnings"], f"{said} was deleted while the capture ran")
    return capture


@fault
def folder_deleted(lab):
    """The run folder is deleted while the capture runs."""
    status, _, said = analyze(deleted(lab, "deleted", shutil.rmtree, "the run folder").folder)
    expect("analyze says that there are no packets", (status, "no packets to read again" in said), (2, True))


@fault
def packets_deleted(lab):
    """The packets are deleted while the capture runs."""
    def delete(folder):
        (folder / "packets.pcapng").unlink()
        (folder / ".run.json.part").unlink()
    deleted(lab, "emptied", delete, "packets.pcapng")


def goes_down(capture, link, load):
    """Sets an interface down and up again between two loads; returns the record, which has both."""
    load()
    must(*link, "down")
    time.sleep(0.5)
    expect("the capture goes on", capture.process.poll(), None)
    must(*link, "up")
    load()
    record = capture.ended(COMPLETE, operations=200)
    completes(capture.folder, COMPLETE)
    return record


@fault
def interface_down(lab):
    """The interface goes down and comes up again."""
    ours, inside = lab.namespace()
    server = Redis(lab, inside=inside)
    capture = Capture(lab, "down", interface=ours)
    client = connect(server.address)
    record = goes_down(capture, ["ip", "link", "set", ours], lambda: get(client, 100))
    expect("nothing was lost", (record["source"]["kernel_drops"], record["tcp"]["gap_bytes"]), (0, 0))
    says(record["warnings"], "the interface went down 1 time")


@fault
def loopback_down(lab):
    """Loopback goes down and comes up again."""
    _, inside = lab.namespace()
    Redis(lab, inside=inside)
    load = [*inside, "redis-benchmark", "-q", "-p", PORT, "-t", "get", "-c", 1, "-n", 100]
    goes_down(Capture(lab, "lodown", inside=inside), [*inside, "ip", "link", "set", "lo"], lambda: run(load))


@fault
def interface_removed(lab):
    """The interface is removed."""
    ours, inside = lab.namespace()
    server = Redis(lab, inside=inside)
    capture = Capture(lab, "removed", interface=ours)
    client = connect(server.address)
    get(client, 100)
    must("ip", "link", "delete", ours)
    expect("the capture ends by itself", capture.wait(), PARTIAL)
    record = capture.record()
    expect("all operations until then are there", workload(record), 100)
    expect("drops are known", record["source"]["kernel_drops"], 0)
    says(record["warnings"], f"the capture ended early: interface {ours} was removed")
    completes(capture.folder, COMPLETE)


@fault
def server_restarted(lab):
    """The server is killed and started again."""
    server = Redis(lab)
    first = server.process.pid
    capture = Capture(lab, "restarted")
    get(connect(server.address), 1000)
    waiting = connect(server.address)
    get(waiting)
    server.process.send_signal(signal.SIGSTOP)
    waiting.sendall(b"GET key\r\n")
    time.sleep(0.1)
    server.kill()
    server.start()
    get(connect(server.address), 500)
    record = capture.ended(COMPLETE)
    expect("operations, and those without an answer", (workload(record), workload(record) - answered(record)), (1502, 1))
    counted = record["counters"]["server"]
    expect("both processes are counted", counted["pids"], [first, server.process.pid])
    # The request that was never read is on the wire, and in no system call.
    expect("what they sent is what was captured", abs(counted["coverage"] - 1) < 0.001)
    completes(capture.folder, COMPLETE)


@fault
def server_later(lab):
    """The server is started after the capture."""
    capture = Capture(lab, "later")
    server = Redis(lab)
    get(connect(server.address), 500)
    record = capture.ended(COMPLETE, operations=500)
    counted = record["counters"]["server"]
    expect("its process is counted", (counted["pids"], counted["coverage"]), ([server.process.pid], 1.0))
    said = capture.said().splitlines()[0]
    says(said, f"no process on this host listens on port {PORT} yet")
    completes(capture.folder, COMPLETE)


CRASHES = """
import os, signal, socket
client = socket.create_connection(("127.0.0.1", PORT))
for _ in range(100):
    client.sendall(b"GET key\\r\\n")
    client.recv(99)
os.kill(os.getpid(), signal.SIGSEGV)
"""


@fault
def command_crashes(lab):
    """The command ends by a signal."""
    Redis(lab)
    capture = Capture(lab, "crashed", command=["python3", "-c", CRASHES.replace("PORT", str(PORT))])
    expect("its status is passed on", capture.wait(), 128 + signal.SIGSEGV)
    record = capture.record()
    expect("all operations are there", workload(record), 100)
    expect("the record has its status", record["environment"]["workload"]["exit_code"], 139)
    says(record["warnings"], "the command ended with status 139 (signal 11, SIGSEGV)")
    completes(capture.folder, COMPLETE)


@fault
def consumer_stopped(lab):
    """overhead is stopped until the ring overflows."""
    server = Redis(lab)
    capture = Capture(lab, "stopped", "-B", "1M")
    load = lab.load("-c", "4", requests=100_000)
    wait_for(lambda: server.gets() > 5_000, "the load")
    capture.process.send_signal(signal.SIGSTOP)
    wait_for(lambda: server.gets() > 50_000, "the load to go on")
    capture.process.send_signal(signal.SIGCONT)
    load.wait()
    record = capture.ended(PARTIAL)
    done, seen, drops = server.gets(), answered(record), record["source"]["kernel_drops"]
    expect(f"{drops} frames were dropped, and counted", drops > 10_000)
    expect(f"{seen} of {done} operations are there, the others in what was dropped", done - drops <= seen < done)
    expect("the gaps are counted", record["tcp"]["gap_bytes"] > 0)
    expect("figures are marked as lower bounds", record["lower_bounds"] != [])
    expect("system calls were counted all the same", record["counters"]["server"]["socket"]["recv_calls"] >= 100_000)
    expect("and are withheld per operation", "the capture saw" in record["counters"]["server"]["withheld"])
    says(record["warnings"], f"the kernel dropped {drops:,} frames", "bytes are in no captured frame")
    kept = completes(capture.folder, PARTIAL)
    says(kept["warnings"], f"the kernel dropped {drops:,} frames while they were captured")


@fault
def short_connections(lab):
    """20,000 connections of one operation each."""
    Redis(lab)
    wanted = 20_000
    capture = Capture(lab, "short", command=["redis-benchmark", "-q", "-p", PORT, "-k", "0", "-t", "get", "-n", wanted, "-c", "20"])
    expect("its status", capture.wait(), COMPLETE)
    record = capture.record()
    expect("all operations are there", (workload(record), record["tcp"]["connections"] >= wanted), (wanted, True))
    expect("those beyond the largest thousand are counted", record["connections_omitted"], record["tcp"]["connections"] - 1000)
    for role in ("server", "client"):
        counted = record["counters"][role]
        expect(f"the {role}'s bytes are those captured", (counted["coverage"], counted["captured_share"]), (1.0, 1.0))
    expect("nothing was dropped", record["source"]["kernel_drops"], 0)
    says(record["warnings"], f"none of {wanted:,} answers to GET has a value", "keep connections open")
    completes(capture.folder, COMPLETE)


@fault
def clock_set(lab):
    """The clock is set back: the later half of a capture is stamped an hour before."""
    if not shutil.which("mergecap"):
        return skip(NAME, "mergecap is missing")
    Redis(lab)
    capture = Capture(lab, "clock", command=["redis-benchmark", "-q", "-p", PORT, "-t", "get", "-n", 2000, "-c", 5])
    capture.wait()
    packets, half = capture.folder / "packets.pcapng", capture.record()["source"]["frames"] // 2
    first, later, whole = (lab.folder / f"{name}.pcapng" for name in ("first", "later", "whole"))
    must("editcap", "-r", packets, first, f"1-{half}")
    must("editcap", "-t", "-3600", packets, later, f"1-{half}")
    must("mergecap", "-a", "-w", whole, first, later)
    status, record, _ = analyze(whole, "--db", "redis", "--port", str(PORT))
    expect("its status, and operations", (status, workload(record)), (PARTIAL, 2000))
    says(record["warnings"], "times go back within the capture, 1 time, by 3,6")


@fault
def cpu_unplugged(lab):
    """A processor is taken offline, and comes back."""
    switch = pathlib.Path("/sys/devices/system/cpu/cpu1/online")
    if not switch.exists() or os.cpu_count() < 2:
        return skip(NAME, f"{switch} is not there")
    server = Redis(lab)
    capture = Capture(lab, "unplugged")
    load = lab.load("-c", "4", requests=100_000)
    wait_for(lambda: server.gets() > 10_000, "the load")
    lab.ends.callback(switch.write_text, "1")
    try:
        switch.write_text("0")
    except OSError as error:
        load.end()
        return skip(NAME, f"this machine keeps its processors: {error}")
    wait_for(lambda: server.gets() > 40_000, "the load to go on")
    switch.write_text("1")
    load.wait()
    time.sleep(0.2)
    status = capture.end()
    record = capture.record()
    counted = record["counters"]["server"]
    expect("its status", status, COMPLETE)
    expect("all operations are there", answered(record), 100_000)
    expect("nothing was dropped", record["source"]["kernel_drops"], 0)
    expect("what was counted is what was captured", (counted["coverage"], counted["captured_share"]), (1.0, 1.0))
    completes(capture.folder, COMPLETE)


def main():
    global NAME
    words = sys.argv[1:]
    if "--list" in words:
        return print("\n".join(f"{name:20} {function.__doc__}" for name, function in FAULTS.items()))
    unknown = [word for word in words if word not in FAULTS and not os.path.exists(word)]
    if unknown:
        sys.exit(f"lab/test/faults.py: no fault {unknown[0]}: `lab/test/faults.py --list` has them")
    # What is mounted here is nobody else's.
    require_root("redis-server", "redis-benchmark", "ip", "unshare", namespaces=["--mount"])
    for name in [word for word in words if word in FAULTS] or [name for name in FAULTS if name not in UNASKED]:
        NAME = name.replace("-", " ")
        with tempfile.TemporaryDirectory(prefix="overhead-faults-") as folder, contextlib.ExitStack() as ends:
            begun = time.monotonic()
            try:
                FAULTS[name](Lab(folder, ends))
            except Exception as error:  # One fault that cannot be made is no reason not to try the others.
                check(f"{name}: {type(error).__name__}: {error}", False)
            print(f"   {name}: {time.monotonic() - begun:.1f} s", flush=True)
    finish()


main()
