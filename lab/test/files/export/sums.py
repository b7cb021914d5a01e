#!/usr/bin/env python3
"""sums.py DATA RECORD READER: has DuckDB, pandas, Polars or Spark add up a data set of any size, of one run, and holds counts and all amounts
against the run record of `overhead analyze`, percentiles as DuckDB has them, too. check.py does more with small ones."""

import json
import pathlib
import sys
import time

sys.dont_write_bytecode = True
from check import AMOUNTS, NOT_COUNTED, PRECISION, QUANTILES, ROW, expected, spark_session  # noqa: E402

KEY = ROW[1:]


def by_duckdb(data):
    import duckdb

    sums = ", ".join(f"sum({name})" for name in AMOUNTS)
    shares = list(QUANTILES.values())
    rows = duckdb.sql(
        f"""SELECT {', '.join(KEY)}, quantile_disc(latency_ns, {shares}), count(*) FILTER (WHERE outcome NOT IN {NOT_COUNTED}), {sums}
            FROM read_parquet('{data}/operations/**/*.parquet') GROUP BY ALL"""
    ).fetchall()
    return {row[:4]: (row[5], row[6:], dict(zip(QUANTILES, row[4] or []))) for row in rows}


def by_pandas(data):
    """A few columns at a time: all of them together want more memory than many a machine has."""
    import pandas

    found, step = {}, 4
    for at in range(0, len(AMOUNTS), step):
        names = AMOUNTS[at : at + step]
        frame = pandas.read_parquet(f"{data}/operations", columns=[*KEY, "outcome", *names], read_dictionary=[*KEY, "outcome"])
        frame["counts"] = ~frame["outcome"].isin(NOT_COUNTED)
        for key, group in frame.groupby(KEY, observed=True)[["counts", *names]].sum().iterrows():
            count, amounts, _ = found.get(key, (0, (), {}))
            found[key] = (int(group["counts"]), (*amounts, *(int(group[name]) for name in names)), {})
    return found


def by_polars(data):
    import polars

    outcome = polars.col("outcome")
    lazy = polars.scan_parquet(f"{data}/operations/**/*.parquet", hive_partitioning=False)
    grouped = lazy.group_by(KEY).agg(
        (~outcome.is_in(NOT_COUNTED)).sum().alias("count"),
        *(polars.col(name).sum() for name in AMOUNTS),
    )
    rows = grouped.collect(engine="streaming").iter_rows(named=True)
    return {tuple(row[name] for name in KEY): (row["count"], tuple(row[name] for name in AMOUNTS), {}) for row in rows}


def by_spark(data):
    from pyspark.sql import functions as f

    table = spark_session().read.parquet(f"{data}/operations")
    grouped = table.groupBy(*KEY).agg(
        f.sum((~f.col("outcome").isin(*NOT_COUNTED)).cast("long")).alias("count"), *(f.sum(name).alias(name) for name in AMOUNTS)
    )
    return {tuple(row[name] for name in KEY): (row["count"], tuple(row[name] for name in AMOUNTS), {}) for row in grouped.collect()}


def faults_of(found, wanted):
    """Returns what differs, and how far percentiles are off at most."""
    faults = [f"{key}: {'missing' if key in wanted else 'in no record'}" for key in wanted.keys() ^ found.keys()]
    worst = 0.0
    for key in wanted.keys() & found.keys():
        (count, amounts, quantiles), want = found[key], wanted[key]
        pairs = zip(("count", *AMOUNTS), (count, *amounts), (want["count"], *want["amounts"]), strict=True)
        faults += [f"{key}: {name} is {have}, and {due} in the record" for name, have, due in pairs if have != due]
        for name, exact in quantiles.items():
            if exact is None:
                continue
            error = abs(exact - want["latency"][name]) / max(exact, 1)
            worst = max(worst, error)
            if error > PRECISION and abs(exact - want["latency"][name]) > 1:
                faults.append(f"{key}: {name} is {exact}, and {want['latency'][name]} in the record")
    return faults, worst


def main():
    data, record, reader = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2]), sys.argv[3]
    wanted = {key[1:]: row for key, row in expected(record.parent).items()}
    began = time.monotonic()
    found = {"DuckDB": by_duckdb, "pandas": by_pandas, "Polars": by_polars, "Spark": by_spark}[reader](data)
    seconds = time.monotonic() - began
    if reader == "Spark":
        spark_session().stop()
    faults, worst = faults_of(found, wanted)
    sides = len(AMOUNTS) // 2
    total = sum(amounts[1] + amounts[sides + 1] for _, amounts, _ in found.values())
    has_quantiles = any(quantiles for _, _, quantiles in found.values())
    off = f", percentiles off by {100 * worst:.3f}% at most" if has_quantiles else ""
    print(f"{reader}: {sum(count for count, _, _ in found.values())} operations, {total} bytes on the wire, {len(AMOUNTS)} sums of {len(found)} rows{off}; {len(faults)} faults; {seconds:.1f} s")
    for fault in faults[:20]:
        print(fault, file=sys.stderr)
    sys.exit(1 if faults else 0)


if __name__ == "__main__":
    main()
