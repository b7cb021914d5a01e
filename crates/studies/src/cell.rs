//! One combination that was measured, and what a template may ask of it.

use overhead_model::load::{Load, LoadRun};
use overhead_model::record::{FieldRow, Latency, OperationRow, Role, SideRow};
use overhead_model::{Account, Amounts, Class, Measured, Run, Spread};
use serde::Serialize;
use serde_json::{Map, Value, json};
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

/// Means per operation of one row: what most sentences and tables are about.
#[derive(Debug, Serialize)]
struct Row {
    name: String,
    via: String,
    protocol: String,
    count: u64,
    errors: u64,
    /// Bytes on the wire, both directions, headers included.
    wire: f64,
    /// Link, IP and TCP headers, and frames without new payload.
    headers: f64,
    payload: f64,
    /// Frames with payload: a frame that several operations share is divided among them, as its headers are.
    #[serde(skip_serializing_if = "Option::is_none")]
    frames: Option<f64>,
    /// Payload by account, both directions.
    accounts: BTreeMap<&'static str, f64>,
    request: Direction,
    response: Direction,
    latency_ns: Latency,
}

/// All workload rows of a cell together: totals, for what takes several operations.
#[derive(Debug, Serialize)]
struct Sum {
    wire: u64,
    headers: u64,
    payload: u64,
    data: u64,
    control: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    frames: Option<f64>,
}

/// Means per operation of one direction.
#[derive(Debug, Serialize)]
struct Direction {
    wire: f64,
    payload: f64,
    /// Payload of the median operation.
    payload_p50: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    frames: Option<f64>,
    accounts: BTreeMap<&'static str, f64>,
    /// Payload by field, the largest first; empty if fields were not recorded.
    fields: Vec<Field>,
}

#[derive(Debug, Serialize)]
struct Field {
    account: &'static str,
    name: String,
    bytes: f64,
}

/// Work of a role's processes per workload operation. Absent figures are absent, so that asking for one is an error.
#[derive(Debug, Default, Serialize)]
struct Work {
    #[serde(skip_serializing_if = "Option::is_none")]
    syscalls: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cpu_ns: Option<f64>,
    /// Calls by name, the most frequent first.
    calls: Vec<(String, f64)>,
}

impl Cell {
    /// Returns the labels, and beside them what was measured: `row` is the largest workload row, `rows` are all of them.
    pub(crate) fn value(&self) -> Value {
        let rows: Vec<Row> = workload(&self.run).into_iter().map(|row| Row::of(row, self.link_header())).collect();
        let operations = self.operations();
        let mut value = self.labels.clone();
        if let Some(first) = rows.first() {
            value.insert("row".to_owned(), json!(first));
        }
        value.insert("rows".to_owned(), json!(rows));
        value.insert("operations".to_owned(), json!(operations));
        value.insert("sum".to_owned(), json!(Sum::of(&workload(&self.run), self.link_header())));
        value.insert("server_work".to_owned(), json!(self.work(operations, |counters| &counters.server)));
        value.insert("client_work".to_owned(), json!(self.work(operations, |counters| &counters.client)));
        if let Some(load) = self.load() {
            value.insert("load".to_owned(), load);
        }
        if let Some(tool) = &self.tool {
            value.insert("tool".to_owned(), tool.clone());
        }
        value.insert(
            "environment".to_owned(),
            json!(self.run.environment.as_ref().map(|machine| json!({
                "kernel": machine.kernel, "cpu": machine.cpu, "cpus": machine.cpus,
            }))),
        );
        value.insert("frames".to_owned(), json!(self.run.source.frames));
        value.into()
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

    fn work(&self, operations: u64, role: fn(&overhead_model::record::Counters) -> &Measured<Role>) -> Work {
        let counted = self.run.counters.value().and_then(|counters| role(counters).value());
        let Some(role) = counted.filter(|role| role.withheld.is_none() && operations > 0) else {
            return Work::default();
        };
        let per = |total: u64| total as f64 / operations as f64;
        let mut calls: Vec<(String, f64)> =
            role.syscalls.iter().map(|(name, call)| (name.clone(), per(call.count))).collect();
        calls.sort_by(|a, b| b.1.total_cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
        Work {
            syscalls: Some(calls.iter().map(|call| call.1).sum()),
            cpu_ns: role.on_cpu_ns.value().map(|time| per(time.user + time.kernel)),
            calls,
        }
    }

    /// Returns the client's view: the rate, the latencies of the run with the median rate, and how far both go over all runs.
    fn load(&self) -> Option<Value> {
        let bench = self.bench.as_ref()?;
        let result = bench.results.first()?;
        let summary = result.summary?;
        let run = result.runs.get(summary.median_run)?;
        let spread = |of: fn(&LoadRun) -> f64| Spread::of(&result.runs.iter().map(of).collect::<Vec<_>>());
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
    let total = |row: &OperationRow| row.request.accounts.total() + row.response.accounts.total();
    let mut rows: Vec<&OperationRow> =
        run.operations.iter().filter(|row| row.class == Class::Workload && row.count > 0).collect();
    rows.sort_by_key(|row| std::cmp::Reverse(total(row)));
    rows
}

/// Time of the client on a CPU for each operation.
fn client_cpu_ns(run: &LoadRun) -> f64 {
    (run.cpu_ns.user + run.cpu_ns.kernel) as f64 / run.operations.max(1) as f64
}

impl Sum {
    fn of(rows: &[&OperationRow], link_header: Option<u64>) -> Self {
        let mut all = Amounts::default();
        for row in rows {
            all += row.request.accounts;
            all += row.response.accounts;
        }
        Self {
            wire: all.total(),
            headers: all.total() - all.payload(),
            payload: all.payload(),
            data: all[Account::Data],
            control: all[Account::Control],
            frames: link_header.map(|header| all[Account::Link] as f64 / header as f64),
        }
    }
}

impl Row {
    fn of(row: &OperationRow, link_header: Option<u64>) -> Self {
        let samples = row.samples().max(1);
        let fields = row.fields.as_deref().unwrap_or_default();
        let [request, response] =
            [(&row.request, overhead_model::Side::Request), (&row.response, overhead_model::Side::Response)].map(
                |(side, name)| {
                    Direction::of(side, samples, link_header, fields.iter().filter(move |field| field.side == name))
                },
            );
        let mut accounts = request.accounts.clone();
        for (name, bytes) in &response.accounts {
            *accounts.entry(name).or_default() += bytes;
        }
        Self {
            name: row.name.clone(),
            via: row.via.clone(),
            protocol: row.protocol.clone(),
            count: row.count,
            errors: row.errors,
            wire: request.wire + response.wire,
            headers: request.wire + response.wire - request.payload - response.payload,
            payload: request.payload + response.payload,
            frames: request.frames.zip(response.frames).map(|(request, response)| request + response),
            accounts,
            request,
            response,
            latency_ns: row.latency_ns.or_empty(),
        }
    }
}

impl Direction {
    fn of<'row>(
        side: &SideRow,
        samples: u64,
        link_header: Option<u64>,
        fields: impl Iterator<Item = &'row FieldRow>,
    ) -> Self {
        let per = |total: u64| total as f64 / samples as f64;
        let mut fields: Vec<Field> = fields
            .map(|field| Field { account: field.account.name(), name: field.field.clone(), bytes: per(field.bytes) })
            .collect();
        fields.sort_by(|a, b| b.bytes.total_cmp(&a.bytes).then_with(|| a.name.cmp(&b.name)));
        let payload = side.accounts.iter().filter(|(account, _)| account.is_payload());
        Self {
            wire: per(side.accounts.total()),
            payload: per(side.accounts.payload()),
            payload_p50: side.payload_bytes.p50,
            frames: link_header.map(|header| per(side.accounts[Account::Link]) / header as f64),
            accounts: payload.map(|(account, bytes)| (account.name(), per(bytes))).collect(),
            fields,
        }
    }
}
