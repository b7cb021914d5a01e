#!/usr/bin/env -S python3 -B
"""lab/test/fleet.py [PROGRAMS]: the fleet's jobs on a cluster of this machine: 64 capture files, two of them bad, and a killed executor.

Holds the data set against runs of `overhead export` for each host and interface by itself (byte for byte) and against the ledger of
`overhead analyze` (sums), then has the job done again, then has `fleet/answers.py` answer. PROGRAMS is the folder of `overhead` and
`overhead-export` [target/release]. Needs `lab/install export`. OVERHEAD_FLEET_MB: megabytes of each capture [2].
"""

import hashlib
import json
import os
import pathlib
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "lib"))
from testing import ROOT, check, finish, must, run
import traffic

PROGRAMS = pathlib.Path(sys.argv[1] if sys.argv[1:] else ROOT / "target/release").resolve()
PYTHON = pathlib.Path(os.environ.get("OVERHEAD_EXPORT_PYTHON", ROOT / ".lab/export/venv/bin/python"))
SIZE = int(os.environ.get("OVERHEAD_FLEET_MB", "2")) << 20
SOURCES = {"redis-get-set": 7379, "postgres-rust": 7432, "cassandra-rust": 7042, "redis-rust-pipeline": 7379}
PORTS = [word for port in sorted(set(SOURCES.values())) for word in ("--port", str(port))]
ACCOUNTS = "link ip tcp control retransmission tls framing metadata schema query data status unknown".split()


def rotate(capture, folder, parts):
    """Cuts a capture into files of about as many bytes, as tcpdump -C does; returns them with the times of their first frames."""
    data = memoryview(capture.read_bytes())
    head, at = traffic.HEADER.size, traffic.HEADER.size
    limit = -(-(len(data) - head) // parts)
    begins, files = [at], []
    while at < len(data):
        if at - begins[-1] >= limit:
            begins.append(at)
        at += traffic.RECORD.size + traffic.RECORD.unpack_from(data, at)[2]
    for number, (begin, end) in enumerate(zip(begins, [*begins[1:], len(data)])):
        path = folder / f"trace.pcap{number}"
        with open(path, "wb") as file:
            file.write(data[:head])
            file.write(data[begin:end])
        files.append((traffic.RECORD.unpack_from(data, begin)[0], path))
    return files


def make_captures(work):
    """64 files of 8 hosts with 2 interfaces each; the table of them, and those that are bad."""
    lines, bad, groups = ["path,host,interface,time"], [], {}
    for number in range(16):
        host, interface = f"db-{number // 2:02}", f"eth{number % 2}"
        source, port = list(SOURCES.items())[number % len(SOURCES)]
        folder = work / "captures" / host / interface
        folder.mkdir(parents=True)
        whole = folder / "whole.pcap"
        traffic.copies(ROOT / "fixtures" / source / "capture.pcap", whole, port, SIZE * (1 + number % 3))
        files = rotate(whole, folder, 4)
        if number in (3, 10):
            path = files[2][1]
            path.write_bytes(b"" if number == 3 else b"this is no capture\n" * 100)
            bad.append(str(path))
            whole.unlink()
        # In no order: the job finds it.
        lines += [f"{path},{host},{interface},{seconds}" for seconds, path in reversed(files)]
        groups[host, interface] = [path for _, path in files if str(path) not in bad]
    table = work / "captures.csv"
    table.write_text("\n".join(lines) + "\n")
    return table, groups, bad


def killer(work):
    """A program in place of overhead-export that kills the executor that it runs under, once, in the middle of an export."""
    path = work / "overhead-export-once-killed"
    path.write_text(
        f"""#!/bin/bash
if [[ " $* " == *" db-04 "* ]] && mkdir {work}/killed 2>/dev/null; then
    {PROGRAMS}/overhead-export "$@" >/dev/null 2>&1 &
    pid=$PPID
    until [[ $(cat /proc/$pid/comm) == java ]]; do pid=$(awk '/^PPid:/ {{print $2}}' /proc/$pid/status); done
    tr '\\0' ' ' </proc/$pid/cmdline | grep -q CoarseGrainedExecutorBackend || exit 9
    echo "executor $pid killed" >{work}/killed/log
    kill -9 $pid
    wait
    exit 1
fi
exec {PROGRAMS}/overhead-export "$@"
"""
    )
    path.chmod(0o755)
    return path


def spark(work, script, words):
    """Submits a job to a cluster of two executors, which are processes of this machine."""
    import_path = run([PYTHON, "-c", "import pyspark; print(pyspark.__path__[0])"]).stdout.strip()
    environment = {
        **os.environ,
        "SPARK_HOME": import_path,
        "PYSPARK_PYTHON": str(PYTHON),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_WORKER_DIR": str(work / "spark"),
        "SPARK_LOCAL_DIRS": str(work / "spark"),
    }
    submit = [f"{import_path}/bin/spark-submit", "--master", "local-cluster[2,1,1024]", "--conf", "spark.executor.memory=768m"]
    # A file system of the same paths everywhere, and no way to this machine but its own.
    submit += ["--conf", "spark.ui.enabled=false", "--conf", "spark.driver.memory=768m", "--conf", "spark.sql.shuffle.partitions=8"]
    return run([*submit, ROOT / "fleet" / script, *words], env=environment, cwd=work)


def digests(folder, besides=()):
    """All files of a data set but the log, which has times in it, and those below the folders `besides`."""
    files = (path for path in pathlib.Path(folder).rglob("*") if path.is_file() and path.name != "log.ndjson")
    names = ((str(path.relative_to(folder)), path) for path in files)
    return {name: hashlib.sha256(path.read_bytes()).hexdigest() for name, path in names if not name.startswith(tuple(besides))}


def asked(query, *arguments):
    """The rows that DuckDB has for a query, in which {0}, … are the arguments."""
    script = "import duckdb, json, sys; print(json.dumps(duckdb.sql(sys.argv[1]).fetchall()))"
    return json.loads(must(PYTHON, "-c", script, query.format(*arguments)))


def single_runs(work, groups):
    """What the program comes to for each host and interface by itself, and the ledgers."""
    data, ledgers = work / "single", {}
    for (host, interface), paths in groups.items():
        first = min(next(iter(traffic.packets(path)))[0] for path in paths)
        name = f"{interface}-{time.strftime('%Y%m%dT%H%M%SZ', time.gmtime(first))}"
        done = run([PROGRAMS / "overhead-export", *paths, "-o", data, "--host", host, "--run", name, "--by-day", *PORTS])
        if done.returncode not in (0, 3):
            sys.exit(f"{host} {interface}: {done.stderr}")
        record = run([PROGRAMS / "overhead", "analyze", *paths, "--format", "json", *PORTS])
        ledgers[host, name] = json.loads(record.stdout)
    return data, ledgers


# The operations of a data set.
OPERATIONS = "read_parquet('{0}/operations/**/*.parquet', hive_partitioning = true)"


def test(work):
    table, groups, bad = make_captures(work)
    single, ledgers = single_runs(work, groups)
    data = work / "data"
    words = ["--table", table, "--output", data, "--scratch", work]
    program = killer(work)
    done = spark(work, "export.py", [*words, "--program", program, "--", *PORTS])
    print("\n".join(line for line in done.stdout.splitlines()[-6:]))
    (work / "job.log").write_text(done.stdout + done.stderr)
    check("the job ends partial, for the bad files", done.returncode, 3)
    check("an executor was killed", (work / "killed" / "log").exists())
    lost = [line for line in done.stderr.splitlines() if "Lost executor" in line or "ExecutorLostFailure" in line]
    print("\n".join(lost[:3]))
    check("Spark has seen it", bool(lost))
    quarantined = [json.loads(line) for line in (data / "_fleet/quarantine.ndjson").read_text().splitlines()]
    check("the bad files are quarantined", sorted(found["path"] for found in quarantined), sorted(bad))
    check("each with its reason", all(found["path"] in found["reason"] for found in quarantined))
    check("the data set is that of the single runs, byte for byte", digests(data, ["_fleet"]), digests(single))
    check("nothing else is left", [str(path) for path in data.rglob(".*")], [])
    sums_are_those_of_the_ledgers(data, ledgers)
    whole_is_the_set(work, groups, single)
    before = digests(data)
    done = spark(work, "export.py", [*words, "--program", PROGRAMS / "overhead-export", "--", *PORTS])
    check("done again, the job ends likewise", done.returncode, 3)
    check("and leaves the same bytes", digests(data), before)
    answer(work, data)
    tables_may_follow_one_another(work, groups)


def sums_are_those_of_the_ledgers(data, ledgers):
    names = [f"{side}_{account}_bytes" for side in ("request", "response") for account in ACCOUNTS]
    rows = asked(f"SELECT host, run, {', '.join(f'sum({name})::BIGINT' for name in names)} FROM {OPERATIONS} GROUP BY ALL", data)
    found = {(host, name): sums for host, name, *sums in rows}
    wanted = {key: [run["ledger"][side][account] for side in ("request", "response") for account in ACCOUNTS] for key, run in ledgers.items()}
    check("sums are those of the ledgers, to the byte", found, wanted)
    total = sum(map(sum, found.values()))
    print(f"fleet: {total} bytes posted over {len(found)} hosts and interfaces")


def whole_is_the_set(work, groups, single):
    """A rotated set comes to the rows of the capture that it was cut from: no connection is cut with it."""
    (host, interface), paths = next(iter(groups.items()))
    runs = work / "whole"
    [folder] = (single / "connections" / f"host={host}").glob(f"run={interface}-*")
    name = folder.name.removeprefix("run=")
    run([PROGRAMS / "overhead-export", paths[0].parent / "whole.pcap", "-o", runs, "--host", host, "--run", name, "--by-day", *PORTS])
    of_set = {path: digest for path, digest in digests(single, ["runs"]).items() if f"host={host}/run={name}/" in path}
    check("a rotated set comes to what the whole capture does", of_set, digests(runs, ["runs"]))


TABLES = """
import importlib.util, json, sys
spec = importlib.util.spec_from_file_location("export", sys.argv[1])
export = importlib.util.module_from_spec(spec)
spec.loader.exec_module(export)
output, program, scratch, options, host, captures = json.loads(sys.argv[2])
export.check_table("table", groups := [{"host": host, "interface": "eth9", "captures": captures}])
print(json.dumps(export.Exporter(output, program, scratch, 0, options)(groups[0])))
"""


def tables_may_follow_one_another(work, groups):
    """Tables of a host that come in turns: of the same day, of more files than before, of files that have gone bad."""
    data, alone = work / "tables", work / "tables-alone"
    paths = next(iter(groups.values()))
    captures = [{"path": str(path), "time": f"{next(iter(traffic.packets(path)))[0]}"} for path in paths]

    def job(*chosen):
        about = [str(data), str(PROGRAMS / "overhead-export"), str(work), PORTS, "m\u00fcnchen", [captures[at] for at in chosen]]
        return json.loads(must(PYTHON, "-c", TABLES, ROOT / "fleet/export.py", json.dumps(about)))

    def rows():
        return asked(f"SELECT count(*) FROM {OPERATIONS}", data)[0][0]

    def runs_of():
        return sorted(path.name for path in (data / "runs" / "host=m\u00fcnchen").iterdir())

    job(0, 1)
    morning = rows()
    job(2, 3)
    check("a later table of the same day is another run", (len(runs_of()), rows() > morning), (2, True))
    before = digests(data, ["_fleet"])
    [overlapping] = job(1, 2)
    check("one that has a part of earlier runs is refused, each file with its reason", (overlapping["status"], len(overlapping["quarantined"])), (1, 2))
    check("and changes nothing", digests(data, ["_fleet"]), before)
    [whole] = job(0, 1, 2, 3)
    run([PROGRAMS / "overhead-export", *paths, "-o", alone, "--host", "m\u00fcnchen", "--run", whole["run"], "--by-day", *PORTS])
    check("one that has all of them takes their place", digests(data, ["_fleet"]), digests(alone))
    kept = [pathlib.Path(capture["path"]).read_bytes() for capture in captures]
    for capture in captures:
        pathlib.Path(capture["path"]).write_bytes(b"gone bad")
    [bad] = job(0, 1, 2, 3)
    for capture, content in zip(captures, kept):
        pathlib.Path(capture["path"]).write_bytes(content)
    check("of files that have gone bad nothing stays", (bad["status"], digests(data, ["_fleet"])), (1, {}))


def answer(work, data):
    """Submits the questions: a server is in another zone than its clients."""
    zones = work / "zones.csv"
    zones.write_text("prefix,zone\n127.,a\n127.0.0.1:7379,b\n")
    release = asked(f"SELECT median(start_ns) / 1e9 FROM {OPERATIONS}", data)[0][0]
    done = spark(work, "answers.py", ["--data", data, "--output", work / "answers", "--zones", zones, "--release", release])
    print(done.stdout.strip() or done.stderr[-2000:])
    check("the questions are answered", done.returncode, 0)
    first = {}
    for name in ("top-statements", "release", "across-zones", "hosts-that-differ"):
        path = work / "answers" / f"{name}.csv"
        first[name] = path.read_text().splitlines() if path.exists() else []
        print("\n".join(f"  {line[:160]}" for line in first[name][:3]))
    check("the release has statements on several hosts", len(first["release"]) > 1)
    check("bytes cross zones", len(first["across-zones"]) > 1)
    check("statements have bytes", len(first["top-statements"]) > 1)


def sampled_captures_say_how_far_they_may_be_off(work):
    """A capture of bursts, and 40 hosts that each saw windows of it at places of their own."""
    capture, exports = work / "bursts.pcap", [PROGRAMS / "overhead-export", work / "bursts.pcap", "--port", "7379", "-q"]
    traffic.bursts(ROOT / "fixtures/redis-get-set/capture.pcap", capture, 7379, 400)
    run([*exports, "-o", work / "true", "--host", "all"], check=True)
    for cycle in ("1s/5s", "500ms/10s"):
        sampled = work / f"sampled-{cycle.replace('/', '-')}"
        for seed in range(40):
            run([*exports, "-o", sampled, "--host", f"host-{seed}", "--sample", cycle, "--sample-seed", seed], check=True)
        done = run([PYTHON, "-B", ROOT / "lab/test/files/export/answers.py", ROOT / "fleet", sampled, work / "true"], env={**os.environ, "SPARK_LOCAL_IP": "127.0.0.1"})
        print(f"windows of {cycle}:")
        print("\n".join(line for line in done.stdout.splitlines() if line.startswith("answers")) or done.stderr[-2000:])
        check(f"answers are those that are known, and intervals of {cycle} hold what is true", done.returncode, 0)


def main():
    if not PYTHON.exists():
        sys.exit(f"lab/test/fleet.py: {PYTHON} is missing: lab/install export")
    with tempfile.TemporaryDirectory(prefix="overhead-fleet-test-", ignore_cleanup_errors=True) as folder:
        work = pathlib.Path(folder)
        test(work)
        sampled_captures_say_how_far_they_may_be_off(work)
    finish()


main()
