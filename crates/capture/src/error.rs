//! Errors of frame sources. Each message states the problem, then the remedy.

use overhead_model::privilege::{NET_RAW, Privilege, remedy};
use std::io;

/// A source that cannot be opened, or failed while being read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SourceError {
    /// No file has this path.
    #[error("{0} does not exist: check the path, or give `-` to read standard input")]
    Missing(String),
    /// A folder cannot be read as one capture.
    #[error("{input} is a directory: name the capture files in it, as in `{}/*.pcap`", .0.trim_end_matches('/'), input = .0)]
    Directory(String),
    /// Opening failed with `EACCES`.
    #[error("{0} may not be read by this user: run as its owner or with `sudo`")]
    Denied(String),
    /// Standard input would wait for typed bytes.
    #[error("standard input is a terminal: pipe a capture into it, as in `tcpdump -w - | overhead analyze -`")]
    Terminal,
    /// The input has no bytes, before decompression.
    #[error("{0} is empty (0 bytes): whatever captured it wrote nothing, so capture again")]
    Empty(String),
    /// The first bytes are not those of a supported format or compression.
    #[error(
        "{input} is not a capture (it starts with {start}): give a pcap or pcapng file, plain or compressed by gzip, zstd or lz4"
    )]
    NotACapture {
        /// As the user named it, here and in the other variants.
        input: String,
        /// Its first bytes in hexadecimal.
        start: String,
    },
    /// A known format that is not supported.
    #[error("{input} is {format}, which is not read: {remedy}")]
    Foreign {
        input: String,
        /// With its article.
        format: &'static str,
        remedy: &'static str,
    },
    /// The file has fewer bytes than its format's header.
    #[error("{input} ends inside its header, after {bytes} bytes: it was cut, so copy it or capture it again")]
    HeaderCut {
        input: String,
        /// After decompression.
        bytes: u64,
    },
    /// The header contradicts the format or the limits.
    #[error("{input} has a damaged header ({reason}): copy it or capture it again")]
    HeaderDamaged { input: String, reason: String },
    /// Any other error of the system.
    #[error("{input} cannot be read ({source}): check the disk or the program that feeds it, and run again")]
    Read { input: String, source: io::Error },
    /// The name is unknown in the captured network namespace.
    #[error("interface {interface} does not exist: choose one of {available}")]
    NoSuchInterface {
        /// As the user named it, here and in the other variants.
        interface: String,
        /// Comma-separated.
        available: String,
    },
    /// Opening the packet socket failed for lack of `CAP_NET_RAW`.
    #[error("capturing on {interface} is not permitted to this user: {}", remedy(&[NET_RAW]), interface = .0)]
    NotPermitted(String),
    /// The namespace may not be entered, or is gone.
    #[error("the network namespace {namespace} cannot be entered ({reason}): {}", remedy(missing))]
    Namespace {
        /// In words.
        namespace: String,
        /// The system's message.
        reason: String,
        /// Privileges needed.
        missing: Vec<Privilege>,
    },
    /// It exists, but cannot deliver frames.
    #[error("interface {0} is down: bring it up with `ip link set {0} up`")]
    InterfaceDown(String),
    /// Removed during the capture.
    #[error(
        "interface {0} was removed: capture again once it exists, or with `-i any`, which needs no particular interface"
    )]
    InterfaceRemoved(String),
    /// libpcap cannot compile it.
    #[error("the filter `{expression}` is not valid ({reason}): see `man pcap-filter`")]
    Filter {
        /// The whole expression, as given to libpcap.
        expression: String,
        /// In the words of libpcap.
        reason: String,
    },
    /// Any other error of libpcap.
    #[error("capturing on {interface} failed ({reason}): run `overhead doctor` to see what this machine can capture")]
    Live { interface: String, reason: String },
    /// A live capture's option is out of range.
    #[error("{option} {value} is out of range: give {range}")]
    Option {
        /// In words.
        option: &'static str,
        value: u64,
        /// Accepted values, in words.
        range: &'static str,
    },
}
