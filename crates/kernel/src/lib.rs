//! Kernel counters of two roles, server and client: system calls, CPU time, cycles, context switches, sockets.
//!
//! BPF programs (`bpf/`) count at BTF tracepoints. This crate finds the processes, loads the programs, reads their
//! maps at both ends of a window, and returns the difference as [`overhead_model::record`]s. A counter this machine
//! cannot provide is absent with a reason.
//!
//! - [`KernelCounters`]: the counters of a run; [`ProcessRole`] and [`ProcessSelection`] say whom they count.
//! - [`WorkListener`]: CPU time and system calls per operation, from samples.
//! - [`OpenedConnections`]: which connections the processes of a command open.
//! - [`TcpFollower`]: what TCP itself counts for each connection, in every network namespace.
//! - [`UnixStreams`]: the bytes of UNIX stream sockets. [`TlsProbes`]: secrets of TLS handshakes.
//! - [`tcp_servers`], [`unix_servers`]: who listens. [`doctor()`]: which features work here, and why others do not.
//!
//! ```no_run
//! use overhead_kernel::{KernelCounters, CounterOptions, ProcessRole};
//!
//! let mut counters = KernelCounters::load(&CounterOptions::for_ports([6379]))?;
//! counters.add_process(ProcessRole::Client, 4711)?;
//! counters.begin()?;
//! let record = counters.record_so_far()?;
//! # Ok::<(), overhead_kernel::Error>(())
//! ```

mod background;
mod bpf;
mod clients;
mod clock;
mod convert;
mod counters;
mod cpu;
mod cycles;
mod discover;
mod doctor;
mod entry;
mod error;
mod listeners;
mod object;
mod opened;
mod options;
mod ownership;
mod pins;
mod privilege;
mod sampling;
mod snapshot;
mod split;
mod streams;
mod sums;
mod timing;
mod tls;
mod totals;

pub use clients::{ClientOfServer, tcp_clients};
pub use counters::KernelCounters;
pub use cpu::{children_cpu_ns, family_cpu_ns, servers};
pub use discover::{UnixServer, own_network_namespace, unix_servers};
pub use doctor::{Absence, Capability, doctor, unseen_processes};
pub use error::Error;
pub use listeners::{TcpConnection, TcpServer, connected_sockets, tcp_connections, tcp_servers};
pub use opened::{ConnectionOpener, OpenedConnections};
pub use options::{CounterOptions, CycleChoice, OwnCost, ProcessRole, ProcessSelection, SocketKinds};
pub use ownership::CapturedConnection;
pub use pins::PinFolder;
pub use privilege::raised;
pub use sampling::{SampledWork, WorkListener};
pub use streams::{AbsentBytes, StreamBytes, StreamCounts, StreamOptions, UnixStreams, call_name};
pub use tls::{
    HandshakeSocket, ProcessTls, SeenSecret, TlsCounts, TlsNews, TlsOptions, TlsProbes, TlsProcesses, TlsSecrets,
    TlsUnsupported, process_tls,
};
pub use totals::{
    ETHERNET_HEADER, FollowedTraffic, FollowerPosition, SegmentTotals, ServerPort, SocketGroup, SocketTotals,
    TcpFollower, boot_id,
};

/// Skeletons and types that the build generates from `bpf/`.
#[allow(unused_qualifications, unused_imports, rust_2018_idioms)]
#[allow(clippy::all, clippy::pedantic, clippy::undocumented_unsafe_blocks)]
#[allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
mod skeleton {
    include!(concat!(env!("OUT_DIR"), "/overhead.skel.rs"));
    pub(crate) mod opened {
        include!(concat!(env!("OUT_DIR"), "/opened.skel.rs"));
    }
    pub(crate) mod streams {
        include!(concat!(env!("OUT_DIR"), "/streams.skel.rs"));
    }
    pub(crate) mod tls {
        include!(concat!(env!("OUT_DIR"), "/tls.skel.rs"));
    }
    pub(crate) mod totals {
        include!(concat!(env!("OUT_DIR"), "/totals.skel.rs"));
    }
    pub(crate) use opened::types as opened_types;
    pub(crate) use streams::types as stream_types;
    pub(crate) use tls::types as tls_types;
    pub(crate) use totals::types as totals_types;
}
