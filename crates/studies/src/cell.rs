//! One measured combination, and the values that templates can use.

use overhead_model::load::{Load, LoadRun};
use overhead_model::record::{Counters, FieldRow, OperationRow, Role, SideRow};
use overhead_model::{Account, Amounts, Class, Measured, Run, Side, Spread};
use serde_json::{Map, Value, json};
use std::cmp::Reverse;
use std::collections::BTreeMap;

/// One measurement: one server, one operation, one way to ask.
#[derive(Debug)]
pub(crate) struct Cell {
    /// Its labels (`server`, `operation`, `pipeline`, …) as the study's script wrote them into `cell.json`.
    pub labels: Map<String, Value>,
    /// The run as seen by the kernel and, if it was captured, the wire.
    pub run: Run,
    /// Results of our own load; absent if another tool made it.
    pub bench: Option<Load>,
    /// Output of another tool.
    pub tool: Option<Value>,
}

impl Cell {
    /// Returns the labels, and beside them what was measured: `row` is the largest workload row, `rows` are all of them. Absent
    /// values are absent, so that using one is an error.
    pub(crate) fn value(&self) -> Value {
        let rows: Vec<Value> = workload(&self.run).into_iter().map(|of| row(of, self.link_header())).collect();
        let operations = self.operations();
        let environment = self
            .run
            .environment
            .as_ref()
            .map(|machine| json!({"kernel": machine.kernel, "cpu": machine.cpu, "cpus": machine.cpus}));
        let measured = [
            ("row", rows.first().cloned()),
            ("rows", Some(json!(rows))),
            ("operations", Some(json!(operations))),
            ("sum", Some(self.sum())),
            ("server_work", Some(self.work(operations, |counters| &counters.server))),
            ("client_work", Some(self.work(operations, |counters| &counters.client))),
            ("load", self.load()),
            ("tool", self.tool.clone()),
            ("environment", Some(json!(environment))),
            ("frames", Some(json!(self.run.source.frames))),
        ];
        with(Value::Object(self.labels.clone()), measured)
    }

    /// Length of the link layer's header if all frames are Ethernet.
    fn link_header(&self) -> Option<u64> {
        (self.run.source.link_types == ["EN10MB"]).then_some(14)
    }

    /// Operations in the window: as captured; without a capture, as the client counted them.
    fn operations(&self) -> u64 {
        let captured: u64 = workload(&self.run).iter().map(|row| row.count).sum();
        let runs = self.bench.iter().flat_map(|load| &load.results).flat_map(|result| &result.runs);
        let benched: u64 = runs.map(|run| run.operations + run.errors).sum();
        let told = self.tool.as_ref().and_then(|tool| tool["requests"].as_u64()).unwrap_or(0);
        [captured, benched, told].into_iter().find(|count| *count > 0).unwrap_or(0)
    }

    /// Returns the totals of all workload rows together, for what takes several operations.
    fn sum(&self) -> Value {
        let mut all = Amounts::default();
        for row in workload(&self.run) {
            all += row.totals().amounts();
        }
        let sum = json!({
            "wire": all.total(),
            "headers": all.total() - all.payload(),
            "payload": all.payload(),
            "data": all[Account::Data],
            "control": all[Account::Control],
        });
        let frames = self.link_header().map(|header| json!(all[Account::Link] as f64 / header as f64));
        with(sum, [("frames", frames)])
    }

    /// Returns the work of a role's processes per workload operation, with calls by name, the most frequent first.
    fn work(&self, operations: u64, role: fn(&Counters) -> &Measured<Role>) -> Value {
        let counted = self.run.counters.value().and_then(|counters| role(counters).value());
        let Some(role) = counted.filter(|role| role.withheld.is_none() && operations > 0) else {
            return json!({"calls": []});
        };
        let per = |total: u64| total as f64 / operations as f64;
        let mut calls: Vec<(&String, f64)> = role.syscalls.iter().map(|(name, call)| (name, per(call.count))).collect();
        calls.sort_by(|a, b| b.1.total_cmp(&a.1).then_with(|| a.0.cmp(b.0)));
        let cpu_ns = role.on_cpu_ns.value().map(|time| json!(per(time.user + time.kernel)));
        let syscalls = calls.iter().map(|call| call.1).sum::<f64>();
        with(json!({"syscalls": syscalls, "calls": calls}), [("cpu_ns", cpu_ns)])
    }

    /// Returns the client's view: the rate, the latencies of the run with the median rate, and how far both go over all runs.
    fn load(&self) -> Option<Value> {
        let bench = self.bench.as_ref()?;
        let result = bench.results.first()?;
        let summary = result.summary?;
        let run = result.runs.get(summary.median_run)?;
        let spread = |of: fn(&LoadRun) -> f64| Spread::from_values(&result.runs.iter().map(of).collect::<Vec<_>>());
        Some(json!({
            "driver": format!("{} {}", bench.driver.name, bench.driver.version),
            "per_second": summary.per_second,
            "per_second_min": summary.per_second_min,
            "per_second_max": summary.per_second_max,
            "runs": result.runs.len(),
            "errors": result.runs.iter().map(|run| run.errors).sum::<u64>(),
            "latency_ns": run.latency_ns,
            "rates": spread(|run| run.per_second),
            "p50_ns": spread(|run| run.latency_ns.p50 as f64),
            "p99_ns": spread(|run| run.latency_ns.p99 as f64),
            "p999_ns": spread(|run| run.latency_ns.p999 as f64),
            "client_cpu_ns": client_cpu_ns(run),
            "client_cpu": spread(client_cpu_ns),
        }))
    }
}

/// Returns the rows of a run's workload, those with the most bytes first.
pub(crate) fn workload(run: &Run) -> Vec<&OperationRow> {
    let mut rows: Vec<&OperationRow> =
        run.operations.iter().filter(|row| row.class == Class::Workload && row.count > 0).collect();
    rows.sort_by_key(|row| Reverse(row.totals().amounts().total()));
    rows
}

/// Time of the client on a CPU for each operation.
fn client_cpu_ns(run: &LoadRun) -> f64 {
    (run.cpu_ns.user + run.cpu_ns.kernel) as f64 / run.operations.max(1) as f64
}

/// Returns what most sentences and tables are about: means per operation of one row.
fn row(row: &OperationRow, link_header: Option<u64>) -> Value {
    let samples = row.samples().max(1);
    let direction = |side: &SideRow, name: Side| {
        let fields = row.fields.iter().flatten().filter(|field| field.side == name);
        let payload_p50 = json!(side.payload_bytes.p50);
        with(
            means(&side.accounts, samples, link_header),
            [("payload_p50", Some(payload_p50)), ("fields", Some(by_size(fields, samples)))],
        )
    };
    let facts = [
        ("name", json!(row.name)),
        ("via", json!(row.via)),
        ("protocol", json!(row.protocol)),
        ("count", json!(row.count)),
        ("errors", json!(row.errors)),
        ("request", direction(&row.request, Side::Request)),
        ("response", direction(&row.response, Side::Response)),
        ("latency_ns", json!(row.latency_ns.or_empty())),
    ];
    with(means(&row.totals().amounts(), samples, link_header), facts.map(|(name, fact)| (name, Some(fact))))
}

/// Returns means of bytes on the wire, with headers and frames without new payload among `headers`, of payload by account, and of
/// frames with payload: a frame that several operations share is divided among them, as its headers are.
fn means(amounts: &Amounts, samples: u64, link_header: Option<u64>) -> Value {
    let per = |total: u64| total as f64 / samples as f64;
    let accounts = amounts.iter().filter(|(account, _)| account.is_payload());
    let accounts: BTreeMap<&str, f64> = accounts.map(|(account, bytes)| (account.name(), per(bytes))).collect();
    let means = json!({
        "wire": per(amounts.total()),
        "headers": per(amounts.total() - amounts.payload()),
        "payload": per(amounts.payload()),
        "accounts": accounts,
    });
    with(means, [("frames", link_header.map(|header| json!(per(amounts[Account::Link]) / header as f64)))])
}

/// Returns payload by field, the largest first.
fn by_size<'row>(fields: impl Iterator<Item = &'row FieldRow>, samples: u64) -> Value {
    let mut fields: Vec<&FieldRow> = fields.collect();
    fields.sort_by_key(|field| (Reverse(field.bytes), &field.field));
    let field = |FieldRow { account, field, bytes, .. }: &FieldRow| json!({"account": account.name(), "name": field, "bytes": *bytes as f64 / samples as f64});
    fields.into_iter().map(field).collect()
}

/// Adds the members that are present.
fn with<const N: usize>(mut object: Value, members: [(&str, Option<Value>); N]) -> Value {
    for (name, value) in members {
        if let Some(value) = value {
            object[name] = value;
        }
    }
    object
}
