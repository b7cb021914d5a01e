//! The run record, `schema_version` 3: what `analyze --format json` prints and `capture` writes as `run.json`.
//!
//! Sizes are bytes, times nanoseconds, counts integers. A quantity that was not measured is [`Measured::Unavailable`]
//! with the reason, never zero and never missing. Readers ignore unknown fields.
//!
//! `docs/run.schema.json` and `docs/run.md` are made of these types and their documentation: each derives `JsonSchema`, and
//! `make bless` writes both anew when one has changed.

mod container;
mod counters;
mod distance;
mod kernel;
mod peers;
mod projection;
mod reported;
mod rotation;
mod row;
mod sample;
mod view;
mod watching;
mod whole;

pub use container::Container;
pub use counters::{
    ContextSwitches, Counters, CycleSource, Cycles, OnCpu, ProtocolCounters, Role, Socket, Softirq, Split, Syscall,
};
pub use distance::{Distance, DistantRow};
pub use kernel::{OperationKernel, OperationTime, OperationWork, SampledRole, SampledSums, WorkSample};
pub use peers::{PeerRow, PeerRows};
pub use projection::{ProjectedRow, Projection};
pub use reported::ReportedTest;
pub use rotation::Rotation;
pub use row::{Distribution, FieldRow, Latency, OperationRow, Preparation, RowTotals, SideRow, StatementRow, Within};
pub use sample::{AccountEstimate, Estimate, RowEstimates, Sample};
pub use view::{BillingPeriod, By, Cost, Price, SideSums, SortKey, View, ViewRow};
pub use watching::WatchingCost;
pub use whole::{ClassCost, Whole, WorkUnits};

use crate::account::Amounts;
use crate::operation::DecidedBy;
use crate::stream::Transport;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Returns the JSON schema of the record, as `docs/run.schema.json` has it. Every type of the record derives its part from
/// its own documentation.
pub fn schema() -> schemars::Schema {
    schemars::schema_for!(Run)
}

/// The version of the record that this code writes and reads.
pub const SCHEMA_VERSION: u32 = 3;

/// The oldest version that this code reads.
pub const OLDEST_VERSION: u32 = 2;

/// A quantity, or the reason why there is none.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Measured_for_{T}")]
#[serde(untagged)]
pub enum Measured<T> {
    /// Why it could not be measured, as a phrase without a full stop.
    Unavailable {
        /// The reason.
        unavailable: String,
    },
    /// The measured traffic.
    Value(T),
}

impl<T> Measured<T> {
    pub fn unavailable(reason: impl Into<String>) -> Self {
        Self::Unavailable { unavailable: reason.into() }
    }

    /// Returns the value in records from before the quantity was measured.
    fn not_recorded() -> Self {
        Self::unavailable("not recorded")
    }

    /// Returns the value; `None` if it is unavailable.
    pub fn value(&self) -> Option<&T> {
        self.as_result().ok()
    }

    /// Returns why there is no value; `None` if there is one.
    pub fn reason(&self) -> Option<&str> {
        self.as_result().err()
    }

    /// Returns the value, or else the reason.
    pub fn as_result(&self) -> Result<&T, &str> {
        match self {
            Self::Value(value) => Ok(value),
            Self::Unavailable { unavailable } => Err(unavailable),
        }
    }

    /// Changes the value and keeps a reason.
    pub fn map<U>(self, change: impl FnOnce(T) -> U) -> Measured<U> {
        match self {
            Self::Value(value) => Measured::Value(change(value)),
            Self::Unavailable { unavailable } => Measured::Unavailable { unavailable },
        }
    }
}

impl<T, E: ToString> From<Result<T, E>> for Measured<T> {
    fn from(result: Result<T, E>) -> Self {
        result.map_or_else(|reason| Self::unavailable(reason.to_string()), Self::Value)
    }
}

impl<T: Default> Default for Measured<T> {
    fn default() -> Self {
        Self::Value(T::default())
    }
}

impl Measured<u64> {
    /// Adds another quantity; without it, the sum is unavailable, too.
    pub fn add(&mut self, other: &Self) {
        match (&mut *self, other) {
            (Self::Value(sum), Self::Value(value)) => *sum += value,
            (Self::Value(_), Self::Unavailable { .. }) => *self = other.clone(),
            (Self::Unavailable { .. }, _) => {}
        }
    }
}

impl Measured<Latency> {
    /// Returns the distribution; an empty one if it is unavailable.
    pub fn or_empty(&self) -> Latency {
        self.value().copied().unwrap_or_default()
    }
}

/// A run: one capture, its ledger and the counters of the same window.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Run {
    /// [`SCHEMA_VERSION`].
    pub schema_version: u32,
    /// The program that wrote the record.
    pub tool: Tool,
    /// Everything you need to repeat the run and to trust it; absent from offline records.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub environment: Option<Environment>,
    /// Where the frames came from.
    pub source: Source,
    /// The carrier of the bytes: `tcp`, `unix`, `tls-plaintext`, or `mixed` if connections differ; each connection then
    /// names its own. Without frames there was no link: wire bytes are the payload.
    #[serde(default)]
    pub transport: Transport,
    /// The windows of a run that captured only part of the time; absent otherwise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sample: Option<Sample>,
    /// Transport totals over the selected connections.
    pub tcp: TcpTotals,
    /// The ledger.
    pub ledger: Ledger,
    /// The whole cost of the work: all classes, per operation of class workload.
    #[serde(default)]
    pub whole: Whole,
    /// Values of the parameters that distinguish this run from others of a sweep; absent without any.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub parameters: BTreeMap<String, String>,
    /// Results that the captured command printed about its own tests, of several runs of a load generator whose format is
    /// known; absent otherwise.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub reported: Vec<ReportedTest>,
    /// One row per (protocol, class, name, via), sorted by these.
    pub operations: Vec<OperationRow>,
    /// The 1,000 largest connections, by wire bytes.
    pub connections: Vec<Connection>,
    /// Number of further connections.
    pub connections_omitted: u64,
    /// Kernel counters of the window.
    pub counters: Measured<Counters>,
    /// The cost of measuring.
    pub observer: Observer,
    /// Why values per operation are lower bounds, a phrase for each kind of loss; empty if they are exact.
    #[serde(default)]
    pub lower_bounds: Vec<String>,
    /// Warnings, as complete sentences.
    pub warnings: Vec<String>,
    /// Operations by connection, client or server; absent unless requested.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub peers: Option<PeerRows>,
    /// The bytes a link would have carried for the same payload: modelled, not measured; absent unless requested.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub projection: Option<Projection>,
    /// The operations' times at other round-trip times: modelled, not measured; absent unless requested.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub distances: Vec<Distance>,
    /// The rows as requested: order, number, grain and price; absent unless requested.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub view: Option<View>,
    /// The exit status of this tool for the run (0 complete, 3 partial).
    #[serde(default)]
    pub exit: u8,
}

/// The program that wrote a record.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Tool {
    /// `overhead`.
    pub name: String,
    /// Its version.
    pub version: String,
}

/// The machine and the command of a live run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Environment {
    /// The command line of the tool itself.
    pub command_line: Vec<String>,
    /// The command that was run under the capture, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workload: Option<Workload>,
    /// Kernel release.
    pub kernel: String,
    /// CPU model.
    pub cpu: String,
    /// Logical CPUs online.
    pub cpus: u32,
    /// Host name.
    pub host: String,
    /// The captured interface.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interface: Option<Interface>,
    /// The container whose network namespace has the interface; absent if the tool's own namespace was captured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub container: Option<Container>,
}

/// A network interface, with the properties that affect captured frames.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Interface {
    /// Its name.
    pub name: String,
    /// MTU in bytes; `None` if the system does not report it (`any`).
    pub mtu: Option<u32>,
    /// Kernel driver, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub driver: Option<String>,
    /// Segmentation and receive offloads, and whether they were on (`tso`, `gso`, `gro`, `lro`); empty if the system
    /// does not report them.
    pub offloads: BTreeMap<String, bool>,
}

/// The command run under a capture.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Workload {
    /// Program and arguments; passwords are `***`.
    pub command: Vec<String>,
    /// Its exit code; 128 + n when signal n ended it; `None` while unknown.
    pub exit_code: Option<i32>,
    /// Whether the tool ended it because the capture was over.
    #[serde(default)]
    pub was_ended: bool,
}

/// Where the frames of a run came from.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Source {
    /// File or live.
    pub kind: SourceKind,
    /// The files that were read, or those of a live run that still exist (paths relative to the run folder).
    pub inputs: Vec<InputFile>,
    /// How many packet files a live run wrote and deleted; absent if it wrote only one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rotation: Option<Rotation>,
    /// The requested connections.
    #[serde(default)]
    pub selection: Selected,
    /// Traffic that `--only-command` left out; absent without it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub only_command: Option<OnlyCommand>,
    /// Link types seen, by their tcpdump names.
    pub link_types: Vec<String>,
    /// Time of the first frame, Unix nanoseconds; 0 without frames.
    pub first_ns: u64,
    /// Time of the last frame, Unix nanoseconds; 0 without frames.
    pub last_ns: u64,
    /// Frames captured.
    pub frames: u64,
    /// Original lengths of the captured frames.
    pub wire_bytes: u64,
    /// Captured lengths of the captured frames.
    pub captured_bytes: u64,
    /// Frames that were not captured completely.
    pub truncated_frames: u64,
    /// Frames captured twice: on `any`, at a mirror port, or on both sides of an address translation.
    pub duplicate_frames: u64,
    /// Frames whose headers do not parse although they were captured completely.
    pub malformed_frames: u64,
    /// Frames whose headers were cut off by the snap length. Their content is unknown, and they count as `other`.
    #[serde(default)]
    pub header_snapped_frames: u64,
    /// Frames that the kernel dropped because the buffer was full.
    pub kernel_drops: Measured<u64>,
}

/// The choice of connections on the command line, needed to read the same packets in the same way.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Selected {
    /// Systems or protocols named by `--db`; empty for detection.
    pub db: Vec<String>,
    /// Ports named by `--port`; empty for the usual ones.
    pub ports: Vec<u16>,
}

/// A run with only the connections that the command's processes opened: those of its descendants, found by the kernel at
/// `connect`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct OnlyCommand {
    /// Captured connections of other processes and hosts, which are neither counted nor kept in the packet file.
    pub left_out: u64,
    /// Connections that may be the command's and were left out. If there are any, the run is partial.
    pub undetermined: u64,
}

/// Kind of a [`Source`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum SourceKind {
    /// Capture files or standard input.
    #[default]
    File,
    /// A network interface.
    Live,
}

/// One file of a [`Source`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Input")]
pub struct InputFile {
    /// Path as the user gave it; `-` for standard input.
    pub path: String,
    /// Frames read from it.
    pub frames: u64,
    /// Original lengths of these frames.
    pub wire_bytes: u64,
}

/// Transport totals over the selected connections.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TcpTotals {
    /// Connections.
    pub connections: u64,
    /// Frames of these connections; 0 in records before version 3.
    #[serde(default)]
    pub frames: u64,
    /// TCP payload, including repeats.
    pub payload_bytes: u64,
    /// Repeated payload, including keep-alive bytes.
    pub retransmitted_bytes: u64,
    /// Frames with new payload that were captured after later bytes of the stream.
    pub out_of_order_frames: u64,
    /// Bytes between captured bytes that are in no captured frame; posted nowhere.
    pub gap_bytes: u64,
    /// Frames without payload.
    pub control_frames: u64,
    /// Payload on the wire that was not captured (snapped), including repeats.
    #[serde(default)]
    pub snapped_bytes: u64,
    /// Frames with an IP packet longer than the 1,500 bytes of Ethernet: captured on loopback, before segmentation or
    /// after receive offload.
    #[serde(default)]
    pub oversize_frames: u64,
    /// Minimum bytes of headers that a link of MTU 1,500 would add to these frames: those of each further segment.
    #[serde(default)]
    pub oversize_header_bytes: u64,
    /// Length of the longest of these IP packets in bytes; 0 without any.
    #[serde(default)]
    pub oversize_longest_bytes: u64,
    /// Connections with payload from which only the client's frames were captured: their responses are missing, not
    /// empty.
    #[serde(default)]
    pub request_only: u64,
    /// Connections with payload from which only the server's frames were captured.
    #[serde(default)]
    pub response_only: u64,
    /// Connections given up before their end to limit memory, half-open ones first. Their later frames count as new
    /// connections.
    #[serde(default)]
    pub given_up: u64,
}

/// The ledger: totals per side and account, and the proof that they add up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Ledger {
    /// True when `difference` is 0.
    pub balanced: bool,
    /// Wire bytes of the source minus everything posted.
    pub difference: i64,
    /// Client to server.
    pub request: Amounts,
    /// Server to client.
    pub response: Amounts,
    /// Frames that belong to no selected connection.
    pub other: u64,
}

impl Run {
    /// Replaces all latencies with the reason why they cannot be right.
    pub fn withhold_latencies(&mut self, reason: &str) {
        for row in &mut self.operations {
            row.latency_ns = Measured::unavailable(reason);
            row.latency_within = None;
            row.statements.iter_mut().for_each(|row| row.latency_ns = Measured::unavailable(reason));
        }
        let peers = self.peers.iter_mut().flat_map(|peers| &mut peers.rows);
        peers.for_each(|row| row.latency_ns = Measured::unavailable(reason));
    }
}

/// A selected connection.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Connection {
    /// `address:port` of the client; `pid:4711` if it is known only by its process.
    pub client: String,
    /// `address:port` of the server; `unix:/path` of a UNIX socket, `unix:@name` of an abstract one.
    pub server: String,
    /// The carrier of its bytes; absent if it is the carrier of the run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub transport: Option<Transport>,
    /// Protocol name.
    pub protocol: String,
    /// The server's name for itself; `null` if it gave none.
    pub server_software: Option<String>,
    /// The name that the client or driver gave itself; `null` if it gave none.
    pub client_software: Option<String>,
    /// TLS records were seen.
    pub tls: bool,
    /// Some application data was not decrypted; absent if all was, or there was none.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub encrypted: bool,
    /// How the server's side was determined.
    pub server_decided_by: DecidedBy,
    /// Operations on it.
    pub operations: u64,
    /// Bytes of its frames on the wire.
    pub wire_bytes: u64,
    /// Times that the client waited for the server, with the TCP handshake.
    #[serde(default = "Measured::<u64>::not_recorded")]
    pub round_trips: Measured<u64>,
    /// Those up to the first answer to an operation of class workload; unavailable without one.
    #[serde(default = "Measured::<u64>::not_recorded")]
    pub round_trips_to_answer: Measured<u64>,
    /// The kernel's TCP counters of the connection, both directions.
    #[serde(default = "Measured::<KernelTcp>::not_recorded")]
    pub kernel: Measured<KernelTcp>,
}

/// Counts of the sockets of a connection, apart from the capture: at both ends if both are on this host, otherwise at one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct KernelTcp {
    /// Payload with retransmissions, and for each segment its IP and TCP headers and 14 bytes of link header. Without SACK blocks.
    pub wire_bytes: u64,
    /// Segments in both directions.
    pub segments: u64,
    /// The part of them that this host retransmitted.
    pub retransmitted: u64,
}

/// The cost of the measurement itself.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Observer {
    /// CPU time of this tool.
    pub cpu_ns: Measured<u64>,
    /// Time in its BPF programs.
    pub bpf_ns: Measured<u64>,
    /// Frames handled per second of wall time.
    pub frames_per_second: Measured<u64>,
    /// How much it slowed the watched command; absent unless requested.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub watching: Option<WatchingCost>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn absence_is_an_object_with_a_reason() {
        let absent: Measured<u64> = Measured::unavailable("offline");
        assert_eq!(serde_json::to_string(&absent).unwrap(), r#"{"unavailable":"offline"}"#);
        assert_eq!(serde_json::from_str::<Measured<u64>>(r#"{"unavailable":"offline"}"#).unwrap(), absent);
        assert_eq!(serde_json::from_str::<Measured<u64>>("7").unwrap(), Measured::Value(7));
    }
}
