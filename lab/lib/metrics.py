#!/usr/bin/python3
"""lab/lib/metrics.py FIRST LAST RECORD: holds two scrapes of a capture against the format, one another and the run's record.

Both are read by the parser of prometheus_client, which refuses what is not OpenMetrics. Prints a line for each thing that
does not hold, and ends with 1 then.
"""

import json
import sys
from collections import Counter

from prometheus_client.openmetrics.parser import text_string_to_metric_families

# Labels are from these lists, so that no user data can be in them.
LABELS = {"protocol", "class", "operation", "side", "account", "role", "syscall", "mode", "le", "version", "server", "system"}


def scrape(path):
    """Returns the samples of a scrape by name and labels, and those that may not fall."""
    samples, counters = {}, set()
    with open(path, encoding="utf-8") as file:
        for family in text_string_to_metric_families(file.read()):
            for sample in family.samples:
                key = (sample.name, tuple(sorted(sample.labels.items())))
                if key in samples:
                    raise ValueError(f"{key} is there twice")
                samples[key] = sample.value
                if family.type in ("counter", "histogram"):
                    counters.add(key)
    return samples, counters


def total(samples, name, **labels):
    wanted = labels.items()
    return sum(value for (of, found), value in samples.items() if of == name and wanted <= dict(found).items())


def main(first_path, last_path, record_path):
    faults = []
    (first, counters), (last, _) = scrape(first_path), scrape(last_path)
    with open(record_path, encoding="utf-8") as file:
        record = json.load(file)
    for key in counters:
        if last.get(key, -1) < first[key]:
            faults.append(f"{key} fell from {first[key]} to {last.get(key)}")
    for _, labels in last:
        faults += [f"label {name} is not expected" for name, _ in labels if name not in LABELS]

    def same(what, wanted, found):
        if wanted != found:
            faults.append(f"{what}: {wanted} in the record, {found} in the scrape")

    workload = [row for row in record["operations"] if row["class"] == "workload"]
    sums = {}
    for row in workload:
        sums.setdefault(row["name"], Counter()).update(
            count=row["count"],
            errors=row["errors"],
            request=row["request"]["wire_bytes"]["total"],
            response=row["response"]["wire_bytes"]["total"],
            latencies=row["latency_ns"]["count"],
        )
    for name, row in sums.items():
        of = {"class": "workload", "operation": name}
        same(f"{name}, operations", row["count"], total(last, "overhead_operations_total", **of))
        same(f"{name}, errors", row["errors"], total(last, "overhead_operation_errors_total", **of))
        for side in ("request", "response"):
            found = total(last, "overhead_operation_wire_bytes_total", side=side, **of)
            same(f"{name}, bytes of {side}", row[side], found)
        bucket = total(last, "overhead_operation_latency_seconds_bucket", le="+Inf", **of)
        same(f"{name}, latencies", row["latencies"], bucket)
        if total(first, "overhead_operations_total", **of) >= row["count"]:
            faults.append(f"{name} did not grow between the scrapes")
    same("frames", record["source"]["frames"], total(last, "overhead_frames_total"))
    same("bytes on the wire", record["source"]["wire_bytes"], total(last, "overhead_wire_bytes_total"))
    same("drops", record["source"]["kernel_drops"], total(last, "overhead_dropped_frames_total"))
    # Payload of operations is in the ledger when they have ended; headers of connections that live on are not yet.
    for side in ("request", "response"):
        for account in ("data", "query", "framing", "status"):
            found = total(last, "overhead_ledger_bytes_total", side=side, account=account)
            same(f"{side}.{account}", record["ledger"][side][account], found)
    if "server" in record["counters"]:
        server = record["counters"]["server"]
        if "syscalls" in server and not total(last, "overhead_syscalls_total", role="server") > 0:
            faults.append("the record has system calls, and the scrape none")
    print("\n".join(faults))
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
