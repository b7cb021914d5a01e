#!/usr/bin/env python3
"""Export the captures of many hosts into one Parquet data set, with Spark.

    spark-submit fleet/export.py --table captures.csv --output /shared/data

The table has a line for each capture file: path, host, interface, time (Unix seconds or ISO 8601, when the file was begun). The
files of one host and interface are a rotated set: one task reads them in order of time, so that connections that span files stay
whole. Executors need `overhead-export`, and see captures and output by the same paths.

A task writes on its own disk first, and gives whole files their names. Their names and bytes depend on the captures alone, so
it makes no difference how often a task is run, or where: a job that is run again leaves the same bytes.
"""

import argparse
import datetime
import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time

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
    """Returns a time of the table in Unix seconds."""
    try:
        return float(text)
    except ValueError:
        moment = datetime.datetime.fromisoformat(str(text).replace("Z", "+00:00"))
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
        """Exports one group; returns what came of it."""
        began, used = time.time(), processor_seconds()
        captures = sorted((epoch(capture["time"]), capture["path"]) for capture in group["captures"])
        host, interface = group["host"], group["interface"]
        day = datetime.datetime.fromtimestamp(captures[0][0], datetime.timezone.utc).strftime("%Y%m%d")
        run = f"{interface}-{day}"
        report = {"host": host, "interface": interface, "run": run, "captures": len(captures), "quarantined": [], "files": [], "warnings": []}
        paths = [path for _, path in captures]
        work = tempfile.mkdtemp(prefix="overhead-fleet-", dir=self.scratch)
        try:
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
            if paths:
                report["files"] = self.publish(work, host, run)
                report["warnings"] = [line.removeprefix("warning: ") for line in said.splitlines() if line.startswith("warning: ")]
            report["status"] = status if paths else 1
        finally:
            shutil.rmtree(work, ignore_errors=True)
        report["seconds"] = round(time.time() - began, 3)
        report["input_bytes"] = sum(os.path.getsize(path) for path in paths)
        report["processor_seconds"] = round(processor_seconds() - used, 3)
        report["most_rss_kib"] = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
        report["executor_pid"] = os.getppid()
        return report

    def export(self, paths, host, run, work):
        """Has the program export captures into `work`; returns its status and what it said."""
        words = [self.program, *paths, "-o", work, "--host", host, "--run", run, "--by-day", "--threads", "1", "--force", *self.options]
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
        """Gives all files their places in the data set, the table `runs` last; returns their paths and lengths."""
        found = []
        for folder, _, names in os.walk(work):
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
        self.remove_stale(found)
        return published

    def remove_stale(self, found):
        """Removes what an earlier run of the same name has left and this one has not, be it of an attempt that was killed."""
        partitions = {os.path.dirname(path) for path in found}
        keep = {os.path.join(self.output, path) for path in found}
        for partition in partitions:
            folder = os.path.join(self.output, partition)
            for name in os.listdir(folder):
                path = os.path.join(folder, name)
                is_old_part = name.startswith(".") and time.time() - os.path.getmtime(path) > 3600
                if path not in keep and (not name.startswith(".") or is_old_part):
                    os.remove(path)


def read_table(spark, path):
    """Returns the captures by host and interface."""
    table = spark.read.parquet(path) if os.path.isdir(path) else spark.read.csv(path, header=True)
    missing = {"path", "host", "interface", "time"} - set(table.columns)
    if missing:
        sys.exit(f"{path}: there is no column {', '.join(sorted(missing))}: a line has path, host, interface and time")
    captures = f.collect_list(f.struct(f.col("path"), f.col("time").cast("string").alias("time")))
    return table.groupBy("host", "interface").agg(captures.alias("captures"))


def main():
    arguments = parse_arguments()
    builder = SparkSession.builder.appName("overhead fleet export")
    if arguments.master:
        builder = builder.master(arguments.master)
    # An executor that dies takes its tasks along, which are done by another.
    spark = builder.config("spark.task.maxFailures", "4").config("spark.ui.showConsoleProgress", "false").getOrCreate()
    began = time.time()
    groups = [row.asDict(recursive=True) for row in read_table(spark, arguments.table).collect()]
    # The longest first, and a task for each, so that no executor is left with several long ones.
    groups.sort(key=lambda group: (-len(group["captures"]), group["host"], group["interface"]))
    exporter = Exporter(os.path.abspath(arguments.output), arguments.program, arguments.scratch, arguments.retries, arguments.options)
    reports = spark.sparkContext.parallelize(groups, max(len(groups), 1)).map(exporter).collect()
    reports.sort(key=lambda report: (report["host"], report["interface"]))
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
    partial = any(report["status"] != COMPLETE for report in reports) or quarantined
    sys.exit(PARTIAL if partial else COMPLETE)


def write_reports(output, reports):
    """Writes what the job did: the log, which has times in it, and what is quarantined, which has none."""
    folder = os.path.join(output, "_fleet")
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(folder, "log.ndjson"), "w", encoding="utf-8") as log:
        log.writelines(json.dumps(report, sort_keys=True) + "\n" for report in reports)
    with open(os.path.join(folder, "quarantine.ndjson"), "w", encoding="utf-8") as quarantine:
        for report in reports:
            for found in report["quarantined"]:
                about = {"host": report["host"], "interface": report["interface"], **found}
                quarantine.write(json.dumps(about, sort_keys=True) + "\n")


if __name__ == "__main__":
    main()
