#!/usr/bin/env python3
"""Ask a fleet's data set, with Spark: what takes the bytes, what a release changed, what crosses zones, which hosts differ.

    spark-submit fleet/answers.py --data /shared/data --output answers --release 2026-11-22T12:00:00Z --zones zones.csv

Each answer is a CSV file in the output folder. `zones.csv` has the columns prefix and zone: an address is of the zone of the
longest prefix that it begins with; of none, where there is none.

Of hosts that captured a part of the time (`--sample`), sums are what windows say of all of the time, with half the width of the 95%
interval beside them: docs/fleet.md says how.
"""

import argparse
import csv
import datetime
import math
import os
import sys

from pyspark.sql import SparkSession, Window, functions as f

# Of Student's distribution, both sides 95%, by degrees of freedom from 1.
STUDENT = [
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131,
    2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042,
]  # fmt: skip
# Hosts that a host is told from, at least, and operations of a statement on each.
HOSTS, OPERATIONS = 5, 30
# A host differs that lies so many times the median deviation from the median (Iglewicz and Hoaglin 1993), and so much of it.
SCORE, SHARE = 3.5, 0.01


def student(freedom):
    """Returns how many standard errors are 95% for a mean of so many degrees of freedom; within 0.1% beyond 30."""
    return STUDENT[freedom - 1] if freedom <= len(STUDENT) else 1.95996 + 2.3723 / freedom + 2.82 / freedom**2


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", required=True, help="data set that fleet/export.py made")
    parser.add_argument("--output", required=True, help="folder of the answers")
    parser.add_argument("--release", help="when the release came, Unix seconds or ISO 8601 [default: there is no such answer]")
    parser.add_argument("--zones", help="CSV with prefix and zone [default: there is no such answer]")
    parser.add_argument("--price", type=float, default=0.01, help="dollars per GB that crosses zones [default: 0.01]")
    parser.add_argument("--top", type=int, default=50, help="rows of an answer, at most")
    parser.add_argument("--master", default=None, help="Spark's master, where spark-submit does not say it")
    return parser.parse_args()


def nanoseconds(text):
    """Returns a time, Unix seconds or ISO 8601, in Unix nanoseconds; of the latter, whole microseconds."""
    try:
        return round(float(text) * 1e9)
    except ValueError:
        moment = datetime.datetime.fromisoformat(text.replace("Z", "+00:00"))
        moment = moment if moment.tzinfo else moment.replace(tzinfo=datetime.timezone.utc)
        return round(moment.timestamp() * 1e6) * 1000


def runs(spark, data):
    """Runs, with where their windows lay and what a row of them stands for: all of the time over what windows cover of it."""
    table = spark.read.option("basePath", f"{data}/runs").parquet(f"{data}/runs")
    share = f.least(f.col("sample_covered_ns") / f.col("sample_span_ns"), f.lit(1.0))
    sampled = f.col("sample_windows").isNotNull()
    kept = ("host", "run", "sample_windows", "sample_window_ns", "sample_covered_ns", "sample_span_ns")
    return table.select(*kept, f.when(sampled, 1 / share).otherwise(f.lit(1.0)).alias("weight"), sampled.alias("is_sampled"))


def operations(spark, data):
    table = spark.read.option("basePath", f"{data}/operations").parquet(f"{data}/operations")
    table = table.withColumn("wire_bytes", f.col("request_wire_bytes") + f.col("response_wire_bytes")).withColumn(
        "counts", (~f.col("outcome").isin("late", "unsolicited")).cast("long")
    )
    return table.join(f.broadcast(runs(spark, data)), ["host", "run"])


def statements(spark, data):
    table = spark.read.parquet(f"{data}/statements")
    return table.select("statement_id", "protocol", "class", "name", "via", "text").dropDuplicates(["statement_id"])


def estimates(table, keys, sums):
    """Sums by key: what was seen, what to expect of all of the time, and the variance that this has by windows.

    Windows are clusters (Cochran, Sampling Techniques, 6.4 and 9.2), those of one run of one host; runs are independent of one
    another. A run of which all was captured has no variance, and one of a single window none that is known.
    """
    by_window = table.groupBy(*keys, "host", "run", "window").agg(*(f.sum(column).alias(name) for name, column in sums.items()))
    where = ("weight", "is_sampled", "sample_windows", "sample_window_ns", "sample_covered_ns", "sample_span_ns")
    is_last = f.col("window") == f.col("sample_windows") - 1
    by_window = by_window.join(f.broadcast(table.select("host", "run", *where).distinct()), ["host", "run"])
    by_run = by_window.groupBy(*keys, "host", "run", *where).agg(
        *(f.sum(name).alias(name) for name in sums),
        *(f.sum(f.col(name).cast("double") ** 2).alias(f"{name}_squares") for name in sums),
        *(f.coalesce(f.sum(f.when(is_last, f.col(name))), f.lit(0)).alias(f"{name}_last") for name in sums),
    )
    k, window, covered = (f.col(name).cast("double") for name in ("sample_windows", "sample_window_ns", "sample_covered_ns"))
    last = covered - (k - 1) * window

    def variance(name):
        x, rate = f.col(name), f.col(name) / covered
        squares = f.col(f"{name}_squares") - 2 * rate * (window * (x - f.col(f"{name}_last")) + last * f.col(f"{name}_last"))
        squares = f.greatest(squares + rate**2 * ((k - 1) * window**2 + last**2), f.lit(0.0))
        of_sampled = f.col("sample_span_ns") ** 2 * (1 - 1 / f.col("weight")) * k / (k - 1) * squares / covered**2
        return f.when(~f.col("is_sampled"), f.lit(0.0)).when(k > 1, of_sampled)

    for name in sums:
        by_run = by_run.withColumn(f"{name}_variance", variance(name))
    of_sums = [
        column
        for name in sums
        for column in (
            f.sum(name).alias(f"{name}_seen"),
            f.sum(f.col(name) * f.col("weight")).alias(name),
            f.sum(f"{name}_variance").alias(f"{name}_variance"),
            f.sum(f.col(f"{name}_variance") ** 2 / (f.col("sample_windows") - 1)).alias(f"{name}_fourths"),
        )
    ]
    unknown = f.sum((f.col("is_sampled") & (f.col("sample_windows") < 2)).cast("long")).alias("without_error")
    return by_run.groupBy(*keys).agg(f.countDistinct("host").alias("hosts"), f.max("is_sampled").alias("is_sampled"), unknown, *of_sums)


def with_intervals(row, sums):
    """Returns a row of `estimates` as people read it: of what was captured all of the time, the exact sums, which have no interval."""
    row, found = row.asDict(), {}
    is_sampled, is_unknown = row.pop("is_sampled"), row.pop("without_error") > 0
    for name in sums:
        seen, value = row.pop(f"{name}_seen"), row.pop(name)
        variance, fourths = row.pop(f"{name}_variance"), row.pop(f"{name}_fourths")
        found[name] = round(value) if is_sampled else seen
        if is_sampled and not is_unknown:
            # Degrees of freedom by Welch and Satterthwaite.
            freedom = max(int(variance**2 / fourths), 1) if fourths else 1
            found[f"{name}_interval"] = round(student(freedom) * math.sqrt(variance))
        else:
            found[f"{name}_interval"] = None if is_sampled else 0
    return {**row, **found}


# What a whole operation of the workload is.
WHOLE = "counts = 1 AND class = 'workload' AND outcome <> 'cut'"


def top_statements(table, texts, top):
    """Statements by bytes over the fleet, with how many hosts have them."""
    sums = {"operations": f.col("counts"), "bytes": f.col("wire_bytes")}
    sums |= {name: f.col(name) for name in ("request_data_bytes", "response_data_bytes")}
    found = estimates(table, ["statement_id"], sums).withColumn("percent", f.round(100 * f.col("bytes") / f.sum("bytes").over(Window.partitionBy()), 3))
    rows = found.join(texts, "statement_id").orderBy(f.desc("bytes"), "statement_id").limit(top).collect()
    return [with_intervals(row, sums) for row in rows]


def release(table, texts, release_ns, top):
    """Bytes and latency of an operation before and after, by statement: the mean over hosts of each host's own difference.

    Operations of a host are not independent of one another, and hosts are; so the interval is that of a mean over hosts.
    """
    is_after = f.col("start_ns") >= f.lit(release_ns)
    sides = (("before", ~is_after), ("after", is_after))

    def mean(figure, side):
        # A row of a capture in windows stands for more than one of a capture of all of the time.
        counted = side & f.col(figure).isNotNull()
        return f.sum(f.when(counted, f.col("weight") * f.col(figure))) / f.sum(f.when(counted, f.col("weight")))

    by_host = (
        table.where(WHOLE)
        .groupBy("statement_id", "host")
        .agg(
            *(f.sum(f.when(side, f.col("weight")).otherwise(0.0)).alias(f"operations_{name}") for name, side in sides),
            *(mean("wire_bytes", side).alias(f"bytes_{name}") for name, side in sides),
            *(mean("latency_ns", side).alias(f"latency_{name}") for name, side in sides),
        )
        .where("operations_before > 0 AND operations_after > 0")
        .withColumn("more_bytes", f.col("bytes_after") - f.col("bytes_before"))
        .withColumn("more_ns", f.col("latency_after") - f.col("latency_before"))
    )
    sums = by_host.groupBy("statement_id").agg(
        f.count("*").alias("hosts"),
        f.count("more_ns").alias("hosts_with_latency"),
        f.sum("operations_before").alias("operations_before"),
        f.sum("operations_after").alias("operations_after"),
        *(f.avg(name).alias(name) for name in ("bytes_before", "bytes_after", "more_bytes", "latency_before", "latency_after", "more_ns")),
        f.stddev_samp("more_bytes").alias("bytes_deviation"),
        f.stddev_samp("more_ns").alias("ns_deviation"),
    )
    rows = []
    for row in sums.join(texts, "statement_id").collect():
        row = row.asDict()
        row["bytes_interval"] = interval(row.pop("bytes_deviation"), row["hosts"])
        row["operations_before"], row["operations_after"] = round(row["operations_before"]), round(row["operations_after"])
        row["ns_interval"] = interval(row.pop("ns_deviation"), row.pop("hosts_with_latency"))
        rows.append(row)
    rows.sort(key=lambda row: (-abs(row["more_bytes"]) * row["operations_after"], row["statement_id"]))
    return rows[:top]


def interval(deviation, count):
    """Returns half the width of the 95% interval of a mean; nothing where one host is all there is."""
    if deviation is None or count < 2 or math.isnan(deviation):
        return None
    return student(count - 1) * deviation / math.sqrt(count)


def zones_of(spark, table, column, zones):
    """Returns the zone of each address in a column; addresses are few, and operations many."""
    known = spark.read.csv(zones, header=True).select("prefix", "zone")
    addresses = table.select(f.col(column)).distinct()
    by_length = Window.partitionBy(column).orderBy(f.desc(f.length("prefix")))
    pairs = addresses.join(f.broadcast(known), f.col(column).startswith(f.coalesce(f.col("prefix"), f.lit(""))), "left")
    best = pairs.withColumn("rank", f.row_number().over(by_length)).where("rank = 1")
    return best.select(column, f.coalesce("zone", f.lit("(none)")).alias(f"{column}_zone"))


def across_zones(spark, table, zones, price, top):
    """Bytes between zones, by client and server address, and what they cost; nothing is said of addresses of no zone."""
    # Of a client, the address: its ports are many.
    table = table.withColumn("client", f.regexp_replace("client", ":[0-9]+$", ""))
    sums = {"operations": f.col("counts"), "bytes": f.col("wire_bytes")}
    found = estimates(table, ["client", "server"], sums).cache()
    zoned = found.join(zones_of(spark, found, "client", zones), "client").join(zones_of(spark, found, "server", zones), "server")
    is_known = "client_zone <> '(none)' AND server_zone <> '(none)'"
    rows = zoned.where(f"client_zone <> server_zone AND {is_known}").orderBy(f.desc("bytes"), "client", "server").limit(top).collect()
    rows = [with_intervals(row, sums) for row in rows]
    return [{**row, "dollars": row["bytes"] / 1e9 * price} for row in rows]


def hosts_that_differ(table, texts, top):
    """Hosts whose operations of a statement take other bytes, or times, than those of most hosts."""
    by_host = (
        table.where(WHOLE)
        .groupBy("statement_id", "host")
        .agg(f.count("*").alias("operations"), f.avg("wire_bytes").alias("bytes"), f.percentile_approx("latency_ns", 0.5, 1000).alias("median_ns"))
        .where(f.col("operations") >= OPERATIONS)
    )
    everywhere = Window.partitionBy("statement_id")
    answers = None
    for figure in ("bytes", "median_ns"):
        found = (
            by_host.where(f.col(figure).isNotNull())
            .withColumn("hosts", f.count("*").over(everywhere))
            .withColumn("usual", f.percentile(figure, f.lit(0.5)).over(everywhere))
            .withColumn("away", f.abs(f.col(figure) - f.col("usual")))
            .withColumn("deviation", f.percentile("away", f.lit(0.5)).over(everywhere))
            .where((f.col("hosts") >= HOSTS) & (f.col("away") > SHARE * f.col("usual")))
            .where(0.6745 * f.col("away") > SCORE * f.col("deviation"))
            .select("statement_id", "host", f.lit(figure).alias("figure"), f.col(figure).cast("double").alias("value"), "usual", "operations", "hosts")
        )
        answers = found if answers is None else answers.union(found)
    return answers.join(texts, "statement_id").orderBy(f.desc(f.abs(f.log(f.col("value") / f.col("usual")))), "host", "statement_id").limit(top)


def agent_rows(spark, data, table):
    """Rows of `overhead agent`; those of clients only for servers without an agent: the bytes would count twice."""
    def read(name):
        return spark.read.option("basePath", f"{data}/{name}").parquet(f"{data}/{name}")

    served = read("agent_flows").where("seen_at = 'server'").select("server").distinct()
    rows = read(table).withColumn("cost", f.col("cost_nano") / 1e9)
    return rows.where("seen_at = 'server'").unionByName(rows.where("seen_at = 'client'").join(served, "server", "left_anti"))


def agent_statements(rows, top):
    """Statements by bytes, between each pair of zones. The rows' errors are independent, so their squares add up."""
    keys = ("client_zone", "server_zone", "system", "class", "name", "text")
    sums = lambda column: f.round(f.sqrt(f.sum(f.col(column).cast("double") ** 2))).cast("long")
    # Without an interval of one row, the sum has none.
    interval = lambda column: f.when(f.count(column) == f.count(f.lit(1)), sums(column)).alias(column)
    found = rows.withColumn("bytes", f.col("request_wire_bytes") + f.col("response_wire_bytes")).groupBy(*keys).agg(
        f.countDistinct("host").alias("hosts"), f.sum("operations").alias("operations"), interval("operations_interval"),
        f.sum("bytes").alias("bytes"), interval("wire_bytes_interval"), f.sum("cost").alias("cost"),
    )
    found = found.withColumn("percent", f.round(100 * f.col("bytes") / f.sum("bytes").over(Window.partitionBy()), 3))
    return found.orderBy(f.desc("bytes"), *keys).limit(top)


def agent_zones(rows):
    """The exact bytes of each pair of zones, and what they cost."""
    sums = [f.sum(name).alias(name) for name in ("request_wire_bytes", "response_wire_bytes", "retransmitted_segments", "connections_opened", "cost")]
    return rows.groupBy("client_zone", "server_zone", "system").agg(f.countDistinct("host").alias("hosts"), *sums).orderBy(
        f.desc(f.col("request_wire_bytes") + f.col("response_wire_bytes")), "client_zone", "server_zone", "system")


def write(folder, name, rows):
    """Writes rows as CSV; without any, the file says so by being empty but for a line."""
    rows = [row if isinstance(row, dict) else row.asDict() for row in (rows if isinstance(rows, list) else rows.collect())]
    path = os.path.join(folder, f"{name}.csv")
    with open(path, "w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, fieldnames=list(rows[0]) if rows else ["none"])
        writer.writeheader()
        writer.writerows(rows)
    print(f"{name}: {len(rows)} rows in {path}")


def main():
    arguments = parse_arguments()
    builder = SparkSession.builder.appName("overhead fleet answers").config("spark.ui.showConsoleProgress", "false")
    if arguments.master:
        builder = builder.master(arguments.master)
    # Partitions are names, whatever they look like.
    spark = builder.config("spark.sql.sources.partitionColumnTypeInference.enabled", "false").getOrCreate()
    os.makedirs(arguments.output, exist_ok=True)
    if os.path.isdir(os.path.join(arguments.data, "agent_flows")):
        write(arguments.output, "agent-zones", agent_zones(agent_rows(spark, arguments.data, "agent_flows")))
        write(arguments.output, "agent-statements", agent_statements(agent_rows(spark, arguments.data, "agent_statements"), arguments.top))
    if os.path.isdir(os.path.join(arguments.data, "operations")):
        of_captures(spark, arguments)
    spark.stop()


def of_captures(spark, arguments):
    """Answers from exported captures."""
    table, texts = operations(spark, arguments.data), statements(spark, arguments.data).cache()
    write(arguments.output, "top-statements", top_statements(table, texts, arguments.top))
    if arguments.release:
        write(arguments.output, "release", release(table, texts, nanoseconds(arguments.release), arguments.top))
    if arguments.zones:
        write(arguments.output, "across-zones", across_zones(spark, table, arguments.zones, arguments.price, arguments.top))
    write(arguments.output, "hosts-that-differ", hosts_that_differ(table, texts, arguments.top))


if __name__ == "__main__":
    sys.exit(main())
