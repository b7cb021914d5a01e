#!/usr/bin/env -S python3 -B
"""lab/measure/bench-peers.py BINARY [--rounds N] [--write FILE]: overhead beside the tools used instead.
lab/measure/bench-peers.py --instructions BINARY… [--keep FOLDER] [--only WORD]… [--option OPTION]…: instructions per frame alone.

Makes the traffic (loads on the lab's own servers, and recordings copied to many connections), then lets each tool in turn
read the same files and watch the same load, in rounds that go through all tools, so that a slow moment of the machine falls
on all alike.
Prints medians and ratios, and with --write puts them, with machine, versions and spread, between the marks in that file.

--instructions counts by callgrind what each binary, and tcpdump -w /dev/null, execute for a frame of the same files; what else the machine
does has no influence. Starting up and printing are not counted: a run over one frame is subtracted. --keep leaves the captures in that
folder, or takes them from there; --only counts those whose names have one of these words; --option adds a column for each binary with
that option of analyze (--option=--no-statements, --option=--no-memo).

Other files are made in a temporary directory and deleted at the end. Needs root, unless the captures are there already, `overhead-bench`
beside BINARY, and group `peers` of lab/install.
"""

import argparse
import dataclasses
import json
import os
import platform
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "lib"))
import adversary
import callgrind
import captures
from captures import LAB, REDIS, redis_benchmark

TSHARK_FRAMES = 60_000  # tshark takes seconds for so many; rates are compared
LIVE_REQUESTS = 100_000
LIVE_ROUNDS = 2  # times --rounds: what else the machine does shows more than in memory
FILE_ROUNDS = 2
# What tshark calls the protocol, and the field of it that is printed.
TSHARK = {"redis": ("resp", "resp.bulk_string"), "memcached": ("memcache", "memcache.command"),
          "postgres": ("pgsql", "pgsql.type"), "cassandra": ("cql", "cql.opcode"),
          "mariadb": ("mysql", "mysql.command"), "mongodb": ("mongo", "mongo.opcode"), "ferretdb": ("mongo", "mongo.opcode")}
BEGIN, END = "<!-- measured: begin -->\n", "<!-- measured: end -->\n"
# What `make bench-peers` builds beside the binary.
EMPTY = LAB.parent / "target/release/examples/empty_programs"
LISTEN = "tracepoint:raw_syscalls:sys_enter /pid == %d/ { @[args->id] = count(); }"


def run(command, times=1):
    """Runs it, so many at once; the seconds until all have ended."""
    start = time.monotonic()
    started = [subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) for _ in range(times)]
    for process in started:
        process.wait()
    return time.monotonic() - start


def peak(command, work):
    """Runs it; the peak of its memory in MiB. By time(1): what `wait` tells a large parent includes the parent's."""
    out = work / "peak"
    subprocess.run(["/usr/bin/time", "-q", "-f", "%M", "-o", out, *command], stdout=subprocess.DEVNULL,
                   stderr=subprocess.DEVNULL, check=False)
    return int(out.read_text()) / 1024


def rounds(count, commands):
    """Each command once per round, `both` twice at once; by name, the seconds of each."""
    results = {name: [] for name in commands}
    for _ in range(count):
        for name, command in commands.items():
            results[name].append(run(command, times=2 if name == "both" else 1))
    return results


def ratio(results, slow, quick):
    """How many times as long `slow` took as `quick`: the median of what it was in each round, for a moment is slow for both."""
    return statistics.median(one / other for one, other in zip(results[slow], results[quick]))


def spread(values):
    middle = statistics.median(values)
    return f"{min(values) / middle:.2f}-{max(values) / middle:.2f}"


class Table:
    def __init__(self, *head):
        self.lines = []
        self.add(*head)
        self.add(*["---"] * len(head))

    def add(self, *cells):
        self.lines.append("| " + " | ".join(str(cell) for cell in cells) + " |")
        print(self.lines[-1], flush=True)

    def __str__(self):
        return "\n".join(self.lines) + "\n"


def record_of(command):
    return json.loads(subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=False).stdout)


def offline(binary, files, count, work):
    table = Table("file", "frames", "operations", "overhead, frames/s", "tshark, frames/s", "x tshark",
                  "tcpdump -w, frames/s", "x tcpdump", "2 processes, x 1", "peak, MiB",
                  "instructions a frame", "of tcpdump -w")
    spreads = []
    for capture in files:
        record = record_of(capture.analyze(binary))
        frames = record["source"]["frames"]
        operations = sum(row["count"] for row in record["operations"] if row["class"] == "workload")
        short = work / "short.pcap"
        subprocess.run(["tcpdump", "-r", capture.path, "-c", str(TSHARK_FRAMES), "-w", short], stderr=subprocess.DEVNULL, check=True)
        some = min(frames, TSHARK_FRAMES)
        layer, field = TSHARK[capture.db]
        tshark = ["tshark", "-r", short, "-n", "-d", f"tcp.port=={capture.port},{layer}", "-T", "fields",
                  "-e", "frame.time_epoch", "-e", "tcp.stream", "-e", field]
        results = rounds(FILE_ROUNDS * count, {
            "one": capture.analyze(binary), "both": capture.analyze(binary),
            "tshark": tshark, "tcpdump": ["tcpdump", "-r", capture.path, "-w", "/dev/null"],
        })
        median = {tool: statistics.median(seconds) for tool, seconds in results.items()}
        rate = {tool: (some if tool == "tshark" else frames) / seconds for tool, seconds in median.items()}
        table.add(capture.name, f"{frames:,}", f"{operations:,}", f"{rate['one']:,.0f}", f"{rate['tshark']:,.0f}",
                  f"{ratio(results, 'tshark', 'one') * frames / some:.0f}", f"{rate['tcpdump']:,.0f}",
                  f"{ratio(results, 'tcpdump', 'one'):.2f}",
                  f"{2 * ratio(results, 'one', 'both'):.2f}", f"{peak(capture.analyze(binary), work):.0f}",
                  f"{callgrind.per_frame(binary, capture):,.0f}", f"{callgrind.per_frame(None, capture):,.0f}")
        spreads += [spread(seconds) for seconds in results.values()]
    return table, spreads


def statements(binary, files, count):
    table = Table("file", "statements", "instructions a frame", "without statements", "x without", "time, x without")
    without = "--no-statements"
    for capture in files:
        rows = record_of(capture.analyze(binary))["operations"]
        results = rounds(count, {"with": capture.analyze(binary), "without": capture.analyze(binary, without)})
        one, other = callgrind.per_frame(binary, capture), callgrind.per_frame(binary, capture, without)
        table.add(capture.name, sum(len(row["statements"]) for row in rows), f"{one:,.0f}", f"{other:,.0f}",
                  f"{one / other:.2f}", f"{ratio(results, 'with', 'without'):.2f}")
    return table


def memory(binary, files, work):
    table = Table("capture", "size, MiB", "connections at once", "peak, MiB")
    redis = files[0]
    source = redis.path
    for size in (1 << 20, 64 << 20, 4 << 30):
        path = work / "long.pcap"
        if size <= source.stat().st_size:
            with open(source, "rb") as whole, open(path, "wb") as part:
                part.write(whole.read(size))
        else:
            # The same packets over and over: for the reader a long file, for the ledger repeats.
            with open(path, "wb") as out:
                out.write(source.read_bytes()[:24])
                body = source.read_bytes()[24:]
                while out.tell() < size:
                    out.write(body)
        most = peak(dataclasses.replace(redis, path=path).analyze(binary), work)
        table.add("Redis", f"{path.stat().st_size / 2**20:,.0f}", 50, f"{most:.0f}")
        path.unlink()
    path = work / "many.pcap"
    path.write_bytes(b"".join(adversary.open_at_once(100_000)))
    most = peak(dataclasses.replace(redis, path=path, port=6379).analyze(binary), work)
    table.add("Redis, a GET each", f"{path.stat().st_size / 2**20:,.0f}", "100,000", f"{most:.0f}")
    path.unlink()
    return table


class Watched:
    def __init__(self, command, ready):
        self.process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        time.sleep(ready)

    def cpu_ns(self):
        """What its threads have run so far, in nanoseconds, in user space and in the kernel."""
        threads = Path(f"/proc/{self.process.pid}/task").glob("*/schedstat")
        return sum(int(thread.read_text().split()[0]) for thread in threads)

    def stop(self):
        self.process.send_signal(2)
        try:
            self.process.wait(20)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


def throughput(output):
    return float(output.strip().splitlines()[-1].split(",")[1].strip('"'))


OURS = {"overhead, packets": ["--no-bpf"], "overhead, packets not kept": ["--no-bpf", "--no-packets"],
        "overhead, packets and counters": [], "overhead, counters alone": ["--bpf-only"]}
COPY = "tcpdump -w /dev/null"


def watching(binary, name, work):
    return [binary, "capture", "-i", "lo", "--db", "redis", "--port", str(REDIS), "-o", work / "run", "--force", "-q",
            *OURS[name]]


def peers(server, work):
    """Other tools: how they are started, and after how many seconds they watch."""
    dump = ["tcpdump", "-i", "lo", "-n"]
    return {
        "tcpdump -w": ([*dump, "-w", work / "live.pcap", f"tcp port {REDIS}"], 1),
        COPY: ([*dump, "-w", "/dev/null", f"tcp port {REDIS}"], 1),
        "tcpdump that takes no packet": ([*dump, "-w", "/dev/null", "tcp port 1"], 1),
        "tcpdump -s 96 -w": ([*dump, "-s", "96", "-w", work / "live.pcap", f"tcp port {REDIS}"], 1),
        "bpftrace, calls of the server": (["bpftrace", "-e", LISTEN % server], 3),
        "BPF programs that do nothing, at both ends of each call": ([EMPTY], 1),
        "a BPF program that does nothing, at the return from each call": ([EMPTY, "--return"], 1),
        "perf trace -s": (["perf", "trace", "-s", "-p", str(server), "-o", work / "trace"], 2),
        "strace -c": (["strace", "-c", "-f", "-p", str(server), "-o", work / "trace"], 1),
    }


def live_case(binary, name, server, work):
    load = redis_benchmark(LIVE_REQUESTS, "-t", "get")
    if name in OURS:
        out = work / "load"
        with open(out, "w") as target:
            subprocess.run([*watching(binary, name, work), "--", *load], stdout=subprocess.DEVNULL, stderr=target, check=False)
        text = "\n".join(line for line in out.read_text().splitlines() if line.startswith('"GET'))
        return throughput(text), json.loads((work / "run/run.json").read_text())
    watched = Watched(*peers(server, work)[name]) if name else None
    output = subprocess.run(load, stdout=subprocess.PIPE, text=True, check=True).stdout
    if watched:
        watched.stop()
    return throughput(output), None


def live_cpu(binary, name, server, work):
    """Nanoseconds of CPU that the tool takes for a request while it watches, without its start and its end."""
    watched = Watched(*(peers(server, work)[name] if name not in OURS else (watching(binary, name, work), 2)))
    try:
        before = watched.cpu_ns()
        subprocess.run(redis_benchmark(LIVE_REQUESTS, "-t", "get"), stdout=subprocess.DEVNULL, check=True)
        # What is done in the background is done by then.
        time.sleep(1)
        return (watched.cpu_ns() - before) / LIVE_REQUESTS
    finally:
        watched.stop()


def live(binary, count, server, work):
    """Each tool between two runs without any: what else the machine does is seldom the same for long."""
    names = [*OURS, *peers(server, work)]
    shares, cpu, rates, lost, bpf = {name: [] for name in names}, {name: [] for name in names}, [], [], []
    for _ in range(LIVE_ROUNDS * count):
        before, _ = live_case(binary, None, server, work)
        for name in names:
            rate, record = live_case(binary, name, server, work)
            after, _ = live_case(binary, None, server, work)
            shares[name].append(2 * rate / (before + after))
            rates.append(after)
            before = after
            if record and name != "overhead, counters alone":
                lost.append(record["source"]["kernel_drops"] + record["tcp"]["gap_bytes"])
            if record and name == "overhead, packets and counters":
                bpf.append(bpf_cost(record))
        for name in names:
            cpu[name].append(live_cpu(binary, name, server, work))
    table = Table("watched by", "throughput, x unwatched", "middle half", "CPU of the tool, ns a request", f"x {COPY}")
    for name, each in shares.items():
        low, middle, high = statistics.quantiles(each, n=4)
        times = statistics.median(own / copy for own, copy in zip(cpu[name], cpu[COPY]))
        table.add(name, f"{middle:.2f}", f"{low:.2f}-{high:.2f}", f"{statistics.median(cpu[name]):,.0f}", f"{times:.1f}")
    notes = [f"Unwatched: {statistics.median(rates):,.0f} requests/s ({spread(rates)} of that). Shares are of the mean of the "
             f"runs before and after; {len(rates) // len(names)} of each, the middle half is given.",
             f"CPU is what the threads of the tool ran during a run of {LIVE_REQUESTS:,} requests of its own, its start and its "
             "end left out; what the kernel does for it within server and client shows in their throughput alone.",
             f"Frames dropped and bytes missing in {len(lost)} captures: {sum(lost)}.",
             "Time in all BPF programs of the tool, by `bpf_stats` net of its own clock, per system call of server and client: "
             f"{statistics.median(bpf):.0f} ns."]
    return table, notes


def bpf_cost(record):
    """Nanoseconds in BPF programs per system call that they counted."""
    calls = sum(call["count"] for role in ("server", "client")
                for call in record["counters"][role]["syscalls"].values())
    return record["observer"]["bpf_ns"] / calls


def empty_program():
    """What `bpf_stats` says of a program that does nothing, at every system call of the load, in nanoseconds a run."""
    switch = Path("/proc/sys/kernel/bpf_stats_enabled")
    before = switch.read_text()
    watched = Watched([EMPTY], 1)
    switch.write_text("1")
    try:
        subprocess.run(redis_benchmark(LIVE_REQUESTS, "-t", "get"), stdout=subprocess.DEVNULL, check=True)
        spent = runs = 0
        for about in Path(f"/proc/{watched.process.pid}/fdinfo").iterdir():
            lines = dict(line.split(":", 1) for line in about.read_text().splitlines() if ":" in line)
            spent, runs = spent + int(lines.get("run_time_ns", 0)), runs + int(lines.get("run_cnt", 0))
    finally:
        switch.write_text(before)
        watched.stop()
    return [f"A BPF program that does nothing takes {spent / runs:.0f} ns a run by `bpf_stats`, which is the clock; "
            "the tool runs one for each system call."] if runs else []


def start_up(binary, count, work):
    """From the start of `capture -c 1` under a load: to the time of the packet that it counted, and to its end."""
    load = subprocess.Popen(redis_benchmark(100_000_000, "-t", "ping_inline"), stdout=subprocess.DEVNULL)
    notes = []
    try:
        for name, options in (("packets", ["--no-bpf"]), ("packets and counters", [])):
            command = [binary, "capture", "-i", "lo", "--port", str(REDIS), "--db", "redis", "-c", "1",
                       "-o", work / "run", "--force", "-q", *options]
            first, ends = [], []
            for _ in range(count):
                start = time.time()
                ends.append(run(command))
                shown = subprocess.check_output(["tcpdump", "-ttnr", work / "run/packets.pcapng"], text=True,
                                                stderr=subprocess.DEVNULL)
                first.append(float(shown.split()[0]) - start)
            notes.append(f"From the start of `capture -c 1`, {name}: its one packet is on the wire after "
                         f"{statistics.median(first) * 1000:.0f} ms, the record is written after "
                         f"{statistics.median(ends) * 1000:.0f} ms.")
    finally:
        load.kill()
        load.wait()
    return notes


def machine(binary):
    cpu = next((line.split(":")[1].strip() for line in Path("/proc/cpuinfo").read_text().splitlines()
                if line.startswith("model name")), platform.machine())
    def version(*command):
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
        return next((line.strip() for line in done.stdout.splitlines() if line and "running" not in line.lower()), "absent")
    load = os.getloadavg()[0]
    return [f"{cpu}, {os.cpu_count()} processors, Linux {platform.release()}; load average {load:.1f} at the start.",
            ", ".join([version(binary, "--version"), version("tshark", "--version"), version("tcpdump", "--version"),
                       version("bpftrace", "--version"), version("perf", "--version"), version("strace", "-V"),
                       version("redis-server", "--version").split(" sha=")[0], version("pgbench", "--version")]) + ".",
            f"Binary: {Path(binary).stat().st_size / 1e6:.0f} MB, of which "
            f"{int(subprocess.check_output(['size', '-d', binary], text=True).splitlines()[1].split()[0]) / 1e6:.0f} MB code."]


def captures_in(folder, binary):
    """The captures of a folder, made now where it has none."""
    index = Path(folder) / "captures.json"
    if not index.exists():
        Path(folder).mkdir(parents=True, exist_ok=True)
        os.chmod(folder, 0o777)  # tcpdump gives up root's rights before it writes
        with captures.servers(*captures.SERVERS):
            made = captures.make(folder, binary, scale=0.2)
        index.write_text(json.dumps([[one.name, one.path.name, one.db, one.port, one.counted] for one in made]))
    return [captures.Capture(name, Path(folder) / path, *more) for name, path, *more in json.loads(index.read_text())]


def instructions(args):
    programs = [(binary, *option) for option in [[], *([option] for option in args.option)] for binary in args.binary]
    with tempfile.TemporaryDirectory(prefix="instructions.") as work, ThreadPoolExecutor(os.cpu_count()) as pool:
        found = captures_in(args.keep or work, args.binary[0])
        counts = [(one.name, [pool.submit(callgrind.per_frame, program, one, *options) for program, *options in [*programs, (None,)]])
                  for one in found if not args.only or any(word in one.name for word in args.only)]
        table = Table("file", *(" ".join([Path(binary).name, *options]) for binary, *options in programs), "tcpdump -w")
        for name, row in counts:
            table.add(name, *(f"{count.result():,.0f}" for count in row))


def write(path, text):
    """Puts it between the marks."""
    before, rest = path.read_text().split(BEGIN)
    path.write_text(before + BEGIN + text + END + rest.split(END)[1])


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("binary", nargs="+", type=os.path.abspath)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--write", type=Path, metavar="FILE")
    parser.add_argument("--instructions", action="store_true")
    parser.add_argument("--keep", metavar="FOLDER")
    parser.add_argument("--only", action="append", default=[], metavar="WORD")
    parser.add_argument("--option", action="append", default=[], metavar="OPTION")
    args = parser.parse_args()
    if args.instructions:
        return instructions(args)
    binary = args.binary[0]
    if os.geteuid() != 0:
        sys.exit("bench-peers: needs root, to capture and to trace: run it with sudo")
    about = machine(binary)
    work = Path(tempfile.mkdtemp(prefix="bench-peers."))
    os.chmod(work, 0o777)  # tcpdump gives up root's rights before it writes
    try:
        with captures.servers(*captures.SERVERS):
            text = "\n".join(f"- {line}" for line in [time.strftime("%Y-%m-%d."), *about]) + "\n"
            files = captures.make(work, binary)
            table, spreads = offline(binary, files, args.rounds, work)
            text += f"\n### Files\n\n{table}\nMedians of {FILE_ROUNDS * args.rounds} rounds, of ratios those within a round; single times lie at " \
                    f"{min(s.split('-')[0] for s in spreads)} to {max(s.split('-')[1] for s in spreads)} of them.\n"
            text += f"\n### Statements\n\n{statements(binary, files, args.rounds)}"
            text += f"\n### Memory\n\n{memory(binary, files, work)}"
            server = int(subprocess.check_output([LAB / "servers/redis", "pid"]))
            table, notes = live(binary, args.rounds, server, work)
            notes += empty_program() + start_up(binary, args.rounds, work)
            text += f"\n### Live\n\n{table}\n" + "\n".join(f"- {note}" for note in notes) + "\n"
        print("\n" + text)
        if args.write:
            write(args.write, text)
    except KeyboardInterrupt:
        sys.exit("\nbench-peers: interrupted: the rows above are what was measured, and no file was written")
    finally:
        shutil.rmtree(work, ignore_errors=True)


main()
