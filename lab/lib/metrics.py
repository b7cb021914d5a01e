#!/usr/bin/python3
"""lab/lib/metrics.py FIRST LAST RECORD: holds two scrapes of a capture against the format, one another and the run's record.

Both are read by the parser of prometheus_client, which refuses what is not OpenMetrics. Prints a line for each thing that
does not hold, and ends with 1 then.
"""

import json
import sys
from collections import Counter
from pathlib import Path

from prometheus_client.openmetrics.parser import text_string_to_metric_families

# Labels are from these lists, so that no user data can be in them.
LABELS = {"protocol", "class", "operation", "side", "account", "role", "syscall", "mode", "le", "version", "server", "system"}


def scrape(path):
    """Returns the samples of a scrape by name and labels, and those that may not fall."""
    samples, counters = {}, set()
    for family in text_string_to_metric_families(Path(path).read_text(encoding="utf-8")):
        for sample in family.samples:
            key = (sample.name, frozenset(sample.labels.items()))
            if key in samples:
                raise ValueError(f"{key} is there twice")
            samples[key] = sample.value
            if family.type in ("counter", "histogram"):
                counters.add(key)
    return samples, counters


def total(samples, name, labels):
    return sum(value for (of, found), value in samples.items() if of == name and labels <= found)


def expected(record):
    """Returns what the samples of these names and labels come to."""
    sums, source = Counter(), record["source"]
    for row in (row for row in record["operations"] if row["class"] == "workload"):
        def add(name, value, **more):
            sums[f"overhead_operation{name}", frozenset({"class": "workload", "operation": row["name"], **more}.items())] += value
        add("s_total", row["count"])
        add("_errors_total", row["errors"])
        add("_latency_seconds_bucket", row["latency_ns"]["count"], le="+Inf")
        for side in ("request", "response"):
            add("_wire_bytes_total", row[side]["wire_bytes"]["total"], side=side)
    for name, field in (("frames", "frames"), ("wire_bytes", "wire_bytes"), ("dropped_frames", "kernel_drops")):
        sums[f"overhead_{name}_total", frozenset()] = source[field]
    # Payload of operations is in the ledger when they have ended; headers of connections that live on are not yet.
    for side, account in ((side, account) for side in ("request", "response") for account in ("data", "query", "framing", "status")):
        sums["overhead_ledger_bytes_total", frozenset({"side": side, "account": account}.items())] = record["ledger"][side][account]
    return sums


def main(first_path, last_path, record_path):
    (first, counters), (last, _) = scrape(first_path), scrape(last_path)
    record = json.loads(Path(record_path).read_text(encoding="utf-8"))
    faults = [f"{key} fell from {first[key]} to {last.get(key)}" for key in counters if last.get(key, -1) < first[key]]
    faults += [f"label {name} is not expected" for _, labels in last for name, _ in labels if name not in LABELS]
    for (name, labels), wanted in expected(record).items():
        if wanted != (found := total(last, name, labels)):
            faults.append(f"{name} {dict(labels)}: {wanted} in the record, {found} in the scrape")
        if name == "overhead_operations_total" and total(first, name, labels) >= wanted:
            faults.append(f"{name} {dict(labels)} did not grow between the scrapes")
    if "syscalls" in record["counters"].get("server", {}) and not total(last, "overhead_syscalls_total", {("role", "server")}) > 0:
        faults.append("the record has system calls, and the scrape none")
    print("\n".join(faults))
    return 1 if faults else 0


sys.exit(main(*sys.argv[1:]))
