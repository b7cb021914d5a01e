#!/usr/bin/env -S python3 -B
"""answers.py FLEET [SAMPLED TRUE]: holds the questions of FLEET (the folder of answers.py) against data whose answers are known: hosts of
which one differs, and a release that adds bytes to one statement. With SAMPLED, a data set of many hosts that all saw windows of the
same capture, each at places of its own, and TRUE, that of the whole capture: how often the intervals hold what is true."""

import pathlib
import sys

sys.path[:0] = [sys.argv[1], str(pathlib.Path(__file__).resolve().parents[3] / "lib")]
import answers
from check import spark_session
from pyspark.sql import functions as f
from testing import check, finish


def known(spark):
    """Eight hosts, two statements, forty operations of each before and after a release. Host db-5 moves twice the bytes of statement 1;
    the release adds 10 bytes to statement 2 on each host, and a byte more or less on some."""
    rows = []
    for host in range(8):
        for number in range(80):
            is_after = number >= 40
            rows.append((f"db-{host}", 1, number, 200 if host == 5 else 100 + number % 2, 1_000 + host, "ok"))
            rows.append((f"db-{host}", 2, number, 300 + (10 + host % 3 - 1) * is_after, 5_000, "ok"))
        rows.append((f"db-{host}", 2, 79, 9_999, 9, "cut"))
    table = spark.createDataFrame(rows, "host string, statement_id long, start_ns long, wire_bytes long, latency_ns long, outcome string")
    table = table.withColumn("counts", f.lit(1)).withColumn("class", f.lit("workload")).withColumn("weight", f.lit(1.0))
    return table, spark.createDataFrame([(1, "one"), (2, "two")], "statement_id long, text string")


def test_known(spark):
    table, texts = known(spark)
    found = answers.hosts_that_differ(table, texts, 50).collect()
    check("the host that differs is found, and no other", [(row.host, row.figure, row.statement_id) for row in found], [("db-5", "bytes", 1)])
    found = {row["statement_id"]: row for row in answers.release(table, texts, 40, 50)}
    check("a release that changes nothing is said to", (found[1]["more_bytes"], found[1]["bytes_interval"]), (0.0, 0.0))
    # Differences of 9, 10, 11, 9, 10, 11, 9, 10: their mean, and 2.365 times their standard error.
    check("what a release adds is the mean over hosts", round(found[2]["more_bytes"], 6), 9.875)
    check("with the interval of Student's distribution", round(found[2]["bytes_interval"], 3), round(2.365 * 0.834523 / 8**0.5, 3))
    check("what windows have cut is in no mean", found[2]["bytes_before"], 300.0)


def test_sampled(spark, sampled, whole):
    """Sums of each host by windows against those of the whole: each host is a trial."""
    sums = {"operations": f.col("counts"), "bytes": f.col("wire_bytes")}
    keys = ["statement_id"]
    true = {row.statement_id: row for row in answers.estimates(answers.operations(spark, whole), keys, sums).collect()}
    table = answers.operations(spark, sampled).withColumn("trial", f.col("host"))
    trials = answers.estimates(table, ["trial", *keys], sums).collect()
    hosts = {row.trial for row in trials}
    for statement in sorted(true, key=lambda statement: -true[statement].bytes)[:2]:
        for name in sums:
            of = [answers.with_intervals(row, sums) for row in trials if row.statement_id == statement]
            truth = true[statement][f"{name}_seen"]
            held = sum(abs(row[name] - truth) <= row[f"{name}_interval"] for row in of)
            width = sorted(row[f"{name}_interval"] for row in of)[len(of) // 2]
            off = sum((row[name] - truth) / truth for row in of) / len(hosts)
            print(f"answers: {name} of statement {statement}: {held} of {len(of)} intervals hold {truth}; half as wide as {100 * width / truth:.1f}%, off by {100 * off:+.2f}% on average")
            check(f"intervals of {name} hold what is true as often as they say", len(of) == len(hosts) and held >= 0.83 * len(hosts))
    of_fleet = [answers.with_intervals(row, sums) for row in answers.estimates(answers.operations(spark, sampled), keys, sums).collect()]
    truth = len(hosts) * sum(row.bytes_seen for row in true.values())
    found = sum(row["bytes"] for row in of_fleet)
    check("the fleet's sum is scaled to all of the time", abs(found / truth - 1) < 0.05)
    print(f"answers: {len(hosts)} hosts together: {found} bytes, {100 * (found / truth - 1):+.2f}% off")


def main():
    spark = spark_session()
    test_known(spark)
    if len(sys.argv) > 2:
        test_sampled(spark, *map(str, map(pathlib.Path, sys.argv[2:4])))
    spark.stop()
    finish()


main()
