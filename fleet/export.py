#!/usr/bin/env python3
"""Export the captures of many hosts into one Parquet data set, with Spark.

    spark-submit fleet/export.py --table captures.csv --output /shared/data

The table has a line for each capture file: path, host, interface, time (Unix seconds or ISO 8601, when the file was begun). The
files of one host and interface are a rotated set: one task reads them in order of time, so that connections that span files stay
whole; where its files were captured in other windows than those before (`--sample`, an agent that was started again), another set
begins. Executors need `overhead-export`, and see captures and output by the same paths.

A task writes on its own disk first, and gives whole files their names. Their names and bytes depend on the captures alone, so
it makes no difference how often a task is run, or where: a job that is run again leaves the same bytes.
"""

import argparse
import datetime
import itertools
import json
import os
import re
import resource
import shutil
import subprocess
import sys
import tempfile
import time
import zlib

from pyspark.sql import SparkSession, functions as f

# How overhead ends: complete, partial. Anything else is a failure.
COMPLETE, PARTIAL = 0, 3


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--table", required=True, help="captures: CSV with a header, or a folder of Parquet files")
    parser.add_argument("--output", required=True, help="folder of the data set, which all executors see")
    parser.add_argument("--program", default="overhead-export", help="the exporting program, as executors find it")
    parser.add_argument("--scratch", default=None, help="folder on the executors' own disks [default: the system's]")
    parser.add_argument("--retries", type=int, default=2, help="how often a program is started again that was killed or failed")
    parser.add_argument("--master", default=None, help="Spark's master, where spark-submit does not say it")
    parser.add_argument("options", nargs="*", help="behind --: further options of overhead export, such as --db redis --port 6380")
    return parser.parse_args()


def epoch(text):
    """Returns a time of the table in Unix seconds: such seconds, or ISO 8601, in UTC where it names no zone."""
    if re.fullmatch(r"\d+(\.\d*)?", text) and not re.fullmatch(r"\d{8}", text):
        return float(text)
    moment = datetime.datetime.fromisoformat(text.replace("Z", "+00:00"))
    return (moment if moment.tzinfo else moment.replace(tzinfo=datetime.timezone.utc)).timestamp()


def processor_seconds():
    """Returns the processor time of all programs that this process has started, and that have ended."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


class Exporter:
    """What a task does with the captures of one host and interface. It goes to the executors, and holds plain values alone."""

    def __init__(self, output, program, scratch, retries, options):
        self.output, self.program, self.scratch, self.retries, self.options = output, program, scratch, retries, list(options)

    def __call__(self, group):
        """Exports one group; returns what came of each of its sets."""
        captures = sorted((epoch(capture["time"]), capture["path"]) for capture in group["captures"])
        return [self.export_set(group["host"], group["interface"], files) for files in self.sets(captures)]

    def sets(self, captures):
        """Divides captures, in order of time, where they were captured in other windows than those before."""
        said = subprocess.run([self.program, "--windows", *(path for _, path in captures)], stdin=subprocess.DEVNULL, capture_output=True, text=True)
        if said.returncode != COMPLETE or len(said.stdout.splitlines()) != len(captures):
            raise ValueError(f"{self.program} does not tell windows: {said.stderr.strip()}")
        # A file that cannot be read goes with those before it.
        windows = list(itertools.accumulate(said.stdout.splitlines(), lambda before, here: before if here == "unreadable" else here))
        numbered = zip(windows, captures)
        return [[capture for _, capture in found] for _, found in itertools.groupby(numbered, key=lambda pair: pair[0])]

    def export_set(self, host, interface, captures):
        began, used = time.time(), processor_seconds()
        first = datetime.datetime.fromtimestamp(captures[0][0], datetime.timezone.utc)
        run = f"{interface}-{first.strftime('%Y%m%dT%H%M%SZ')}"
        report = {"host": host, "interface": interface, "run": run, "captures": len(captures), "quarantined": [], "files": [], "warnings": []}
        paths = [path for _, path in captures]
        work = tempfile.mkdtemp(prefix="overhead-fleet-", dir=self.scratch)
        try:
            superseded = self.superseded(host, run, paths)
            status, said = self.export(paths, host, run, work)
            if status not in (COMPLETE, PARTIAL):
                report["quarantined"] = self.find_bad(paths, work)
                bad = {found["path"] for found in report["quarantined"]}
                paths = [path for path in paths if path not in bad]
                if paths:
                    status, said = self.export(paths, host, run, work)
                if paths and status not in (COMPLETE, PARTIAL):
                    # Each can be read, and all together cannot.
                    report["quarantined"] += [{"path": path, "reason": said} for path in paths]
                    paths = []
            report["files"] = self.publish(work if paths else None, host, run)
            for earlier in superseded:
                self.remove_stale(earlier, [])
            if paths:
                self.claim(host, run, paths)
                report["warnings"] = [line.removeprefix("warning: ") for line in said.splitlines() if line.startswith("warning: ")]
            report["status"] = status if paths else 1
        except Overlap as overlap:
            report["quarantined"], report["status"], paths = [{"path": path, "reason": str(overlap)} for path in paths], 1, []
        finally:
            shutil.rmtree(work, ignore_errors=True)
        report["seconds"] = round(time.time() - began, 3)
        report["input_bytes"] = sum(os.path.getsize(path) for path in paths)
        report["processor_seconds"] = round(processor_seconds() - used, 3)
        report["most_rss_kib"] = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
        report["executor_pid"] = os.getppid()
        return report

    def claims(self, host):
        return os.path.join(self.output, "_fleet", "runs", hive("host", host))

    def superseded(self, host, run, paths):
        """Returns the folders of earlier runs whose captures are all in this one: it takes their place.

        Raises Overlap where another run has one of these captures and others beside: bytes would count twice, or be lost.
        """
        found = []
        for name in sorted(os.listdir(self.claims(host))) if os.path.isdir(self.claims(host)) else []:
            with open(os.path.join(self.claims(host), name), encoding="utf-8") as claim:
                earlier = json.load(claim)
            shared = set(earlier["paths"]) & set(paths)
            if not shared or earlier["run"] == run:
                continue
            if not set(earlier["paths"]) <= set(paths):
                raise Overlap(f"{sorted(shared)[0]} is in the run {earlier['run']} already, with captures that this table has not: name all of them in one table")
            found.append(earlier["run"])
        return [(host, earlier) for earlier in found]

    def claim(self, host, run, paths):
        """Notes which captures the run has."""
        os.makedirs(self.claims(host), exist_ok=True)
        place = os.path.join(self.claims(host), f"{hive('run', run)}.json")
        temporary = f"{place}.{os.uname().nodename}.{os.getpid()}.part"
        with open(temporary, "w", encoding="utf-8") as claim:
            json.dump({"run": run, "paths": sorted(paths)}, claim, sort_keys=True)
        os.replace(temporary, place)

    def export(self, paths, host, run, work):
        """Has the program export captures into `work`; returns its status and what it said."""
        words = [self.program, *paths, "-o", work, "--host", host, "--run", run, "--by-day", "--threads", "1", "--force", *self.options]
        if "--sample" in self.options and "--sample-seed" not in self.options:
            # Windows at places of their own: runs are independent of one another.
            words += ["--sample-seed", str(zlib.crc32(f"{host}/{run}".encode()))]
        for attempt in range(self.retries + 1):
            done = subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace")
            said = done.stderr.strip()
            # That a file is no capture is so the next time, too.
            if done.returncode >= 0 and done.returncode not in (1,):
                break
            if done.returncode == 1 and attempt:
                break
        if done.returncode == 2:
            raise ValueError(f"{self.program} was not understood: {said}")
        if done.returncode == 1 and "cannot be written" in said:
            # No fault of the captures: elsewhere there may be room.
            raise OSError(said)
        return done.returncode, said or f"ended by signal {-done.returncode}"

    def find_bad(self, paths, work):
        """Returns the captures that cannot be read by themselves, each with its reason."""
        bad = []
        for path in paths:
            alone = os.path.join(work, "alone")
            status, said = self.export([path], "alone", "alone", alone)
            shutil.rmtree(alone, ignore_errors=True)
            if status not in (COMPLETE, PARTIAL):
                bad.append({"path": path, "reason": said.splitlines()[-1] if said else f"status {status}"})
        return bad

    def publish(self, work, host, run):
        """Gives all files their places in the data set, the table `runs` last, and removes what else is there of the run; returns
        their paths and lengths."""
        found = []
        for folder, _, names in os.walk(work) if work else []:
            found += [os.path.relpath(os.path.join(folder, name), work) for name in names]
        order = {"operations": 0, "statements": 1, "connections": 2, "runs": 3}
        found.sort(key=lambda path: (order.get(path.split(os.sep)[0], 9), path))
        published = []
        for path in found:
            place = os.path.join(self.output, path)
            os.makedirs(os.path.dirname(place), exist_ok=True)
            # Another attempt may be at it at the same time, with the same bytes.
            temporary = os.path.join(os.path.dirname(place), f".{os.path.basename(place)}.{os.uname().nodename}.{os.getpid()}.part")
            try:
                shutil.copyfile(os.path.join(work, path), temporary)
                os.replace(temporary, place)
            finally:
                if os.path.exists(temporary):
                    os.remove(temporary)
            published.append([path, os.path.getsize(place)])
        self.remove_stale((host, run), found)
        return published

    def remove_stale(self, of, found):
        """Removes what an earlier run of this host and name has left and this one has not, be it of an attempt that was killed."""
        host, run = hive("host", of[0]), hive("run", of[1])
        keep = {os.path.join(self.output, path) for path in found}
        tables = [os.path.join(self.output, table) for table in ("runs", "connections", "statements", "operations")]
        days = [os.path.join(tables[-1], name) for name in (os.listdir(tables[-1]) if os.path.isdir(tables[-1]) else []) if name.startswith("day=")]
        for folder in (os.path.join(place, host, run) for place in [*tables, *sorted(days)]):
            for name in os.listdir(folder) if os.path.isdir(folder) else []:
                path = os.path.join(folder, name)
                is_old_part = name.startswith(".") and time.time() - os.path.getmtime(path) > 3600
                if path not in keep and (not name.startswith(".") or is_old_part):
                    os.remove(path)
            if os.path.isdir(folder) and not os.listdir(folder):
                os.rmdir(folder)
        if not found and os.path.exists(os.path.join(self.claims(of[0]), f"{run}.json")):
            os.remove(os.path.join(self.claims(of[0]), f"{run}.json"))


class Overlap(Exception):
    """Another run has some of the captures."""


def hive(column, value):
    """Returns the name of the folder of a partition, as `overhead export` has it."""
    return f"{column}=" + "".join(letter if letter.isascii() and letter.isalnum() or letter in "-_." or not letter.isascii() else f"%{ord(letter):02X}" for letter in value)


def read_table(spark, path):
    """Returns the captures by host and interface."""
    table = spark.read.parquet(path) if os.path.isdir(path) else spark.read.csv(path, header=True)
    missing = {"path", "host", "interface", "time"} - set(table.columns)
    if missing:
        sys.exit(f"{path}: there is no column {', '.join(sorted(missing))}: a line has path, host, interface and time")
    captures = f.collect_list(f.struct(f.col("path"), f.col("time").cast("string").alias("time")))
    groups = table.groupBy("host", "interface").agg(captures.alias("captures")).collect()
    return [row.asDict(recursive=True) for row in groups]


def check_table(table, groups):
    """Ends the job where lines of the table mean nothing, or one capture is to be several hosts' or interfaces'."""
    seen = {}
    for group in groups:
        for capture in group["captures"]:
            line = f"{table}: the line of {capture['path']}, {group['host']}, {group['interface']}, {capture['time']}"
            if not all([capture["path"], group["host"], group["interface"], capture["time"]]):
                sys.exit(f"{line}: it needs a path, a host, an interface and a time")
            try:
                epoch(capture["time"])
            except ValueError as error:
                sys.exit(f"{line}: its time is neither Unix seconds nor ISO 8601: {error}")
            before = seen.setdefault(capture["path"], (group["host"], group["interface"]))
            if before != (group["host"], group["interface"]):
                sys.exit(f"{line}: the same capture is one of {before[0]}, {before[1]}: its bytes would count twice")
        # Named twice, it is read once.
        group["captures"] = list({capture["path"]: capture for capture in group["captures"]}.values())


def main():
    arguments = parse_arguments()
    builder = SparkSession.builder.appName("overhead fleet export")
    if arguments.master:
        builder = builder.master(arguments.master)
    # An executor that dies takes its tasks along, which are done by another. Times are told in UTC, wherever the job is submitted.
    builder = builder.config("spark.sql.session.timeZone", "UTC")
    spark = builder.config("spark.task.maxFailures", "4").config("spark.ui.showConsoleProgress", "false").getOrCreate()
    began = time.time()
    groups = read_table(spark, arguments.table)
    check_table(arguments.table, groups)
    # The longest first, and a task for each, so that no executor is left with several long ones.
    groups.sort(key=lambda group: (-len(group["captures"]), group["host"], group["interface"]))
    exporter = Exporter(os.path.abspath(arguments.output), arguments.program, arguments.scratch, arguments.retries, arguments.options)
    reports = spark.sparkContext.parallelize(groups, max(len(groups), 1)).flatMap(exporter).collect()
    reports.sort(key=lambda report: (report["host"], report["interface"], report["run"]))
    write_reports(arguments.output, reports)
    quarantined = [found for report in reports for found in report["quarantined"]]
    bytes_in, bytes_out = sum(report["input_bytes"] for report in reports), sum(size for report in reports for _, size in report["files"])
    seconds = time.time() - began
    print(
        f"{len(groups)} groups of {sum(len(group['captures']) for group in groups)} captures: {bytes_in} bytes in, {bytes_out} bytes out, "
        f"{len(quarantined)} quarantined, {seconds:.1f} s, {sum(report['seconds'] for report in reports):.1f} s of tasks, {sum(report['processor_seconds'] for report in reports):.1f} s of processors"
    )
    for found in quarantined:
        print(f"quarantined: {found['path']}: {found['reason']}")
    spark.stop()
    if not any(report["files"] for report in reports):
        sys.exit("nothing was exported: no capture of the table can be read")
    partial = any(report["status"] != COMPLETE for report in reports) or quarantined
    sys.exit(PARTIAL if partial else COMPLETE)


def write_reports(output, reports):
    """Writes what the jobs did: the log, which has times in it, and what is quarantined, which has none. Of runs that are not of this
    job, what earlier ones wrote stays."""
    folder = os.path.join(output, "_fleet")
    os.makedirs(folder, exist_ok=True)
    quarantined = [{"host": report["host"], "interface": report["interface"], "run": report["run"], **found} for report in reports for found in report["quarantined"]]
    key = lambda line: (line["host"], line["run"])
    done = {key(report) for report in reports}
    for name, lines in (("log.ndjson", reports), ("quarantine.ndjson", quarantined)):
        path, earlier = os.path.join(folder, name), []
        if os.path.exists(path):
            with open(path, encoding="utf-8") as file:
                earlier = [line for line in map(json.loads, file) if key(line) not in done]
        with open(f"{path}.part", "w", encoding="utf-8") as file:
            file.writelines(json.dumps(line, sort_keys=True) + "\n" for line in sorted([*earlier, *lines], key=key))
        os.replace(f"{path}.part", path)


if __name__ == "__main__":
    main()
