#!/usr/bin/env python3
"""check.py DATA RECORDS QUESTIONS READER…: reads a data set of `overhead export` with each READER (DuckDB, pandas, Polars, Spark), and compares
it with the run records in RECORDS (NAME.json for run NAME). Then DuckDB answers the questions."""

import json
import math
import operator
import os
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[3] / "lib"))
import testing
from testing import check, finish, skip

testing.TEST = "export"
os.environ.setdefault("TZ", "UTC")
ACCOUNTS = "link ip tcp control retransmission tls framing metadata schema query data status unknown".split()
AMOUNTS = [f"{side}_{what}" for side in ("request", "response") for what in ("frames", "wire_bytes", "payload_bytes", *(f"{a}_bytes" for a in ACCOUNTS))]
ROW = ["run", "protocol", "class", "name", "via"]
COLUMNS = [*ROW, "outcome", "latency_ns", *AMOUNTS]
NOT_COUNTED = ("late", "unsolicited")
QUANTILES = {"p50": 0.5, "p90": 0.9, "p99": 0.99, "p999": 0.999, "p9999": 0.9999}
# Of the record's histograms, by its contract.
PRECISION = 0.001


def expected(records):
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

    files = f"read_parquet('{data}/operations/**/*.parquet', hive_partitioning = true, hive_types = {{'run': VARCHAR}})"
    return duckdb.sql(f"SELECT {', '.join(COLUMNS)} FROM {files}").fetchall()


def by_pandas(data):
    import pandas

    return pandas.read_parquet(f"{data}/operations").astype({"run": str})[COLUMNS].itertuples(index=False, name=None)


def by_polars(data):
    import polars

    schema = {"host": polars.String, "run": polars.String}
    return polars.scan_parquet(f"{data}/operations", hive_partitioning=True, hive_schema=schema).select(COLUMNS).collect().iter_rows()


def by_spark(data):
    return spark_session().read.parquet(f"{data}/operations").select(*COLUMNS).toLocalIterator()


def spark_session():
    from pyspark.sql import SparkSession

    options = {"ui.enabled": "false", "ui.showConsoleProgress": "false", "driver.memory": "1g", "sql.shuffle.partitions": "4",
               "sql.sources.partitionColumnTypeInference.enabled": "false"}
    spark = SparkSession.builder.master("local[2]").config(map={f"spark.{name}": value for name, value in options.items()}).getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    return spark


def summed(rows):
    """Returns by row of a record what the rows of a data set, each of COLUMNS, come to."""
    found = {}
    for *key, outcome, latency, in_amounts in ((*row[:7], row[7:]) for row in rows):
        of = found.setdefault(tuple(key), {"count": 0, "errors": 0, "unsolicited": 0, "amounts": [0] * len(AMOUNTS), "latencies": []})
        of["count"] += outcome not in NOT_COUNTED
        of["errors"] += outcome == "error"
        of["unsolicited"] += outcome == "unsolicited"
        of["amounts"] = list(map(operator.add, of["amounts"], in_amounts))
        if latency is not None and latency == latency:  # pandas has NaN for none
            of["latencies"].append(int(latency))
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
        latencies, latency = sorted(have["latencies"]), want["latency"]
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
            found_by = {"Arrow": {key: (field.metadata or {}).get(key.encode(), b"(none)").decode() for key in wanted}}
            if with_spark:
                found_by["Spark"] = {key: of_spark[field.name].get(key) for key in wanted}
            faults += [f"{name}: {reader} finds {found}" for reader, found in found_by.items() if found != wanted]
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
    check("columns have a unit and a description", schema_faults(data, with_spark), [])
    of_name = {"DuckDB": by_duckdb, "pandas": by_pandas, "Polars": by_polars, "Spark": by_spark}
    for reader in readers:
        check(f"{reader} has the sums of analyze", compare(reader, summed(of_name[reader](data)), wanted), [])
    for reader in of_name.keys() - set(readers):
        skip(reader, "lab/install export fetches it")
    if with_spark:
        spark_session().stop()
    check("the questions have answers", ask(data, questions), [])
    finish()


if __name__ == "__main__":
    main()
