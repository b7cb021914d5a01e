#!/usr/bin/env python3
"""check.py DATA RECORDS QUESTIONS READER…: reads a data set of `overhead export` with DuckDB, pandas, Polars and Spark, and holds what each
finds against the run records in RECORDS (NAME.json for run NAME). Then has DuckDB answer the questions."""

import json
import math
import os
import pathlib
import sys

os.environ.setdefault("TZ", "UTC")
ACCOUNTS = "link ip tcp control retransmission tls framing metadata schema query data status unknown".split()
AMOUNTS = [f"{side}_{what}" for side in ("request", "response") for what in ("frames", "wire_bytes", "payload_bytes", *(f"{a}_bytes" for a in ACCOUNTS))]
ROW = ["run", "protocol", "class", "name", "via"]
NOT_COUNTED = ("late", "unsolicited")
QUANTILES = {"p50": 0.5, "p90": 0.9, "p99": 0.99, "p999": 0.999, "p9999": 0.9999}
# Of the record's histograms, by its contract.
PRECISION = 0.001


def expected(records):
    """Returns, by row, what the records say: counts, and all amounts."""
    rows = {}
    for record in records.glob("*.json"):
        run = json.loads(record.read_text())
        for row in run["operations"]:
            amounts = []
            for side in ("request", "response"):
                found = row[side]
                amounts += [found["frames"], found["wire_bytes"]["total"], found["payload_bytes"]["total"]]
                amounts += [found["accounts"][account] for account in ACCOUNTS]
            key = (record.stem, row["protocol"], row["class"], row["name"], row["via"])
            rows[key] = {"count": row["count"], "errors": row["errors"], "unsolicited": row["unsolicited"], "amounts": amounts, "latency": row["latency_ns"]}
    return rows


def by_duckdb(data):
    import duckdb

    connection = duckdb.connect()
    sums = ", ".join(f"sum({name})" for name in AMOUNTS)
    found = connection.execute(
        f"""SELECT run, protocol, class, name, via, count(*) FILTER (WHERE outcome NOT IN {NOT_COUNTED}),
                   count(*) FILTER (WHERE outcome = 'error'), count(*) FILTER (WHERE outcome = 'unsolicited'), {sums}, list_sort(list(latency_ns) FILTER (WHERE latency_ns IS NOT NULL))
            FROM read_parquet('{data}/operations/**/*.parquet', hive_partitioning = true, hive_types = {{'run': VARCHAR}})
            GROUP BY ALL"""
    ).fetchall()
    width = len(ROW)
    return {
        tuple(row[:width]): {"count": row[5], "errors": row[6], "unsolicited": row[7], "amounts": [int(x) for x in row[8:-1]], "latencies": row[-1] or []}
        for row in found
    }


def by_pandas(data):
    import pandas

    frame = pandas.read_parquet(f"{data}/operations")
    frame["run"] = frame["run"].astype(str)
    found = {}
    for key, group in frame.groupby(ROW, observed=True, sort=False):
        found[key] = {
            "count": int((~group["outcome"].isin(NOT_COUNTED)).sum()),
            "errors": int((group["outcome"] == "error").sum()),
            "unsolicited": int((group["outcome"] == "unsolicited").sum()),
            "amounts": [int(group[name].sum()) for name in AMOUNTS],
            "latencies": sorted(int(x) for x in group["latency_ns"].dropna()),
        }
    return found


def by_polars(data):
    import polars

    outcome = polars.col("outcome")
    lazy = polars.scan_parquet(f"{data}/operations", hive_partitioning=True, hive_schema={"host": polars.String, "run": polars.String})
    grouped = lazy.group_by(ROW).agg(
        (~outcome.is_in(NOT_COUNTED)).sum().alias("count"),
        (outcome == "error").sum().alias("errors"),
        (outcome == "unsolicited").sum().alias("unsolicited"),
        *(polars.col(name).sum() for name in AMOUNTS),
        polars.col("latency_ns").drop_nulls().sort().alias("latencies"),
    )
    found = {}
    for row in grouped.collect().iter_rows(named=True):
        key = tuple(row[name] for name in ROW)
        found[key] = {**{name: row[name] for name in ("count", "errors", "unsolicited", "latencies")}, "amounts": [row[name] for name in AMOUNTS]}
    return found


def spark_session():
    from pyspark.sql import SparkSession

    spark = (
        SparkSession.builder.master("local[2]")
        .config("spark.ui.enabled", "false")
        .config("spark.sql.shuffle.partitions", "4")
        .config("spark.driver.memory", "1g")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.sql.sources.partitionColumnTypeInference.enabled", "false")
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("ERROR")
    return spark


def by_spark(data):
    from pyspark.sql import functions as f

    outcome = f.col("outcome")
    table = spark_session().read.parquet(f"{data}/operations")
    grouped = table.groupBy(*ROW).agg(
        f.sum((~outcome.isin(*NOT_COUNTED)).cast("long")).alias("count"),
        f.sum((outcome == "error").cast("long")).alias("errors"),
        f.sum((outcome == "unsolicited").cast("long")).alias("unsolicited"),
        *(f.sum(name).alias(name) for name in AMOUNTS),
        f.sort_array(f.collect_list("latency_ns")).alias("latencies"),
    )
    found = {}
    for row in grouped.collect():
        key = tuple(row[name] for name in ROW)
        found[key] = {**{name: row[name] for name in ("errors", "unsolicited", "latencies")}, "count": row["count"], "amounts": [row[name] for name in AMOUNTS]}
    return found


def compare(reader, found, wanted):
    faults = [f"{reader}: {key} is missing" for key in wanted.keys() - found.keys()]
    faults += [f"{reader}: {key} is in no record" for key in found.keys() - wanted.keys()]
    worst = 0.0
    for key in wanted.keys() & found.keys():
        have, want = found[key], wanted[key]
        for what in ("count", "errors", "unsolicited"):
            if have[what] != want[what]:
                faults.append(f"{reader}: {key}: {what} is {have[what]}, and {want[what]} in the record")
        for name, a, b in zip(AMOUNTS, have["amounts"], want["amounts"]):
            if a != b:
                faults.append(f"{reader}: {key}: {name} is {a}, and {b} in the record")
        latencies, latency = have["latencies"], want["latency"]
        if len(latencies) != latency["count"]:
            faults.append(f"{reader}: {key}: {len(latencies)} latencies, and {latency['count']} in the record")
        elif latencies:
            pairs = [(latencies[0], latency["min"]), (latencies[-1], latency["max"])]
            pairs += [(latencies[max(math.ceil(share * len(latencies)) - 1, 0)], latency[name]) for name, share in QUANTILES.items()]
            for exact, rounded in pairs:
                error = abs(exact - rounded) / max(exact, 1)
                worst = max(worst, error)
                if error > PRECISION and abs(exact - rounded) > 1:
                    faults.append(f"{reader}: {key}: a latency is {exact}, and {rounded} in the record")
    rows = sum(row["count"] for row in found.values())
    print(f"{reader}: {len(found)} rows of the records, {rows} operations; percentiles off by {100 * worst:.3f}% at most; {len(faults)} faults")
    return faults


TABLES = ("operations", "statements", "connections", "runs")
# Numbers that count nothing.
WITHOUT_UNIT = {"connection_id", "window", "statement_id", "exit_status"}


def schema_faults(data, with_spark):
    """Returns where the columns, and what is said of them for people, for Arrow and for Spark, do not agree."""
    import pyarrow.parquet

    faults, described = [], 0
    for table in TABLES:
        file = pyarrow.parquet.ParquetFile(next(pathlib.Path(data, table).rglob("*.parquet")))
        about = json.loads(file.metadata.metadata[b"overhead.columns"])
        of_spark = {}
        if with_spark:
            of_spark = {field.name: field.metadata for field in spark_session().read.parquet(f"{data}/{table}").schema}
        for field in file.schema_arrow:
            name = f"{table}.{field.name}"
            said = about.pop(field.name, None)
            if said is None:
                faults.append(f"{name}: not described")
                continue
            described += 1
            kind = {"string": "string", "int64": "int64", "bool": "boolean"}[str(field.type)]
            if said["type"] != kind or said["nullable"] != field.nullable or not said["description"]:
                faults.append(f"{name}: {field} is said to be {said}")
            if field.name.endswith(("_ns", "_bytes")) and said["unit"] != field.name.rsplit("_", 1)[1]:
                faults.append(f"{name}: its unit is said to be {said['unit']!r}")
            if kind == "int64" and not said["unit"] and field.name not in WITHOUT_UNIT:
                faults.append(f"{name}: a number without a unit")
            wanted = {key: said[key] for key in ("unit", "description")}
            of_arrow = {key: (field.metadata or {}).get(key.encode(), b"(none)").decode() for key in wanted}
            found_by = {"Arrow": of_arrow}
            if with_spark:
                found_by["Spark"] = {key: of_spark[field.name].get(key) for key in wanted}
            for reader, found in found_by.items():
                if found != wanted:
                    faults.append(f"{name}: {reader} finds {found}")
        faults += [f"{table}.{name}: described, and not there" for name in about]
    print(f"schema: {described} columns with unit and description, in the footer and in the column metadata of Arrow{' and Spark' if with_spark else ''}; {len(faults)} faults")
    return faults


def ask(data, questions):
    """Has DuckDB answer all questions; returns those without an answer."""
    import duckdb

    connection = duckdb.connect()
    text = pathlib.Path(questions).read_text()
    head, *asked = text.split("-- question ")
    os.chdir(data)
    connection.execute(head)
    # A server in another zone than its clients, so that bytes cross.
    connection.execute("INSERT INTO zones VALUES ('127.0.0.1:7379', 'b')")
    faults = []
    for question in asked:
        title, query = question.split("\n", 1)
        answer = connection.execute(query)
        names = [column[0] for column in answer.description]
        rows = answer.fetchall()
        print(f"\nquestion {title}\n  {' | '.join(names)}")
        for row in rows[:5]:
            print("  " + " | ".join(str(value) for value in row))
        if len(rows) > 5:
            print(f"  … {len(rows) - 5} more")
        if not rows and not title.startswith("8"):
            faults.append(f"question {title} has no answer")
    total = connection.execute("SELECT (SELECT sum(wire_bytes) FROM operations) + (SELECT sum(other_bytes) FROM runs), (SELECT sum(wire_bytes) FROM runs)").fetchone()
    if total[0] != total[1]:
        faults.append(f"operations and other bytes come to {total[0]}, and the frames to {total[1]}")
    return faults


def main():
    data, records, questions = (pathlib.Path(path).resolve() for path in sys.argv[1:4])
    readers = sys.argv[4:]
    with_spark = "Spark" in readers
    wanted = expected(records)
    faults = schema_faults(data, with_spark)
    of_name = {"DuckDB": by_duckdb, "pandas": by_pandas, "Polars": by_polars, "Spark": by_spark}
    for reader in readers:
        faults += compare(reader, of_name[reader](data), wanted)
    if with_spark:
        spark_session().stop()
    faults += ask(data, questions)
    for fault in faults[:40]:
        print(fault, file=sys.stderr)
    sys.exit(1 if faults else 0)


if __name__ == "__main__":
    main()
