//! What can go wrong with a source, one sentence each: what is at fault and what to do about it.

use overhead_model::privilege::{NET_RAW, Privilege, remedy};
use std::io;

/// A source that cannot be opened, or failed under way.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SourceError {
    /// No such file.
    #[error("{input} does not exist: check the path, or give `-` to read standard input")]
    Missing {
        /// The file as the user named it.
        input: String,
    },
    /// The path is a directory.
    #[error("{input} is a directory: name the capture files in it, as in `{}/*.pcap`", input.trim_end_matches('/'))]
    Directory {
        /// The file as the user named it.
        input: String,
    },
    /// The file may not be read.
    #[error("{input} may not be read by this user: run as its owner or with `sudo`")]
    Denied {
        /// The file as the user named it.
        input: String,
    },
    /// Standard input is a terminal.
    #[error("standard input is a terminal: pipe a capture into it, as in `tcpdump -w - | overhead analyze -`")]
    Terminal,
    /// The input has no bytes at all.
    #[error("{input} is empty (0 bytes): whatever captured it wrote nothing, so capture again")]
    Empty {
        /// The file as the user named it.
        input: String,
    },
    /// The input is no capture of any format known here.
    #[error(
        "{input} is not a capture (it starts with {start}): give a pcap or pcapng file, plain or compressed by gzip, zstd or lz4"
    )]
    NotACapture {
        /// The file as the user named it.
        input: String,
        /// Its first bytes in hexadecimal.
        start: String,
    },
    /// The input is something recognised that is not read.
    #[error("{input} is {format}, which is not read: {remedy}")]
    Foreign {
        /// The file as the user named it.
        input: String,
        /// What it is, with its article.
        format: &'static str,
        /// What to do about it.
        remedy: &'static str,
    },
    /// The input ends before its header does.
    #[error("{input} ends inside its header, after {bytes} bytes: it was cut, so copy it or capture it again")]
    HeaderCut {
        /// The file as the user named it.
        input: String,
        /// Bytes of header that are there, after decompression.
        bytes: u64,
    },
    /// The header of the input makes no sense.
    #[error("{input} has a damaged header ({reason}): copy it or capture it again")]
    HeaderDamaged {
        /// The file as the user named it.
        input: String,
        /// What is wrong with it.
        reason: String,
    },
    /// The system cannot open or read the input.
    #[error("{input} cannot be read ({source}): check the disk or the program that feeds it, and run again")]
    Read {
        /// The file as the user named it.
        input: String,
        /// The system's reason.
        source: io::Error,
    },
    /// No such network interface.
    #[error("there is no interface {interface}: choose one of {available}")]
    NoSuchInterface {
        /// The interface as the user named it.
        interface: String,
        /// Those there are, separated by commas.
        available: String,
    },
    /// Capturing takes a privilege that the process lacks.
    #[error(
        "capturing on {interface} is not permitted to this user: {}",
        remedy(&[NET_RAW])
    )]
    NotPermitted {
        /// The interface as the user named it.
        interface: String,
    },
    /// A network namespace may not be entered, or is gone.
    #[error("the network namespace {namespace} cannot be entered ({reason}): {}", remedy(missing))]
    Namespace {
        /// Which, in words.
        namespace: String,
        /// The system's reason.
        reason: String,
        /// What it takes.
        missing: Vec<Privilege>,
    },
    /// The interface is down, or went down.
    #[error("interface {interface} is down: bring it up with `ip link set {interface} up`")]
    InterfaceDown {
        /// The interface as the user named it.
        interface: String,
    },
    /// The interface was removed while it was captured on.
    #[error(
        "interface {interface} was removed, with all that it would have carried: capture anew once it is there again, or with `-i any`, which does not depend on one"
    )]
    InterfaceRemoved {
        /// The interface as the user named it.
        interface: String,
    },
    /// The kernel filter does not compile.
    #[error("the filter `{expression}` is not valid ({reason}): correct it as `man pcap-filter` says")]
    Filter {
        /// The whole expression, as given to libpcap.
        expression: String,
        /// libpcap's reason.
        reason: String,
    },
    /// libpcap fails for another reason.
    #[error("capturing on {interface} failed ({reason}): run `overhead doctor` to see what this machine can capture")]
    Live {
        /// The interface as the user named it.
        interface: String,
        /// libpcap's reason.
        reason: String,
    },
    /// An option of a live capture is out of range.
    #[error("{option} {value} is out of range: give {range}")]
    Option {
        /// The option's name in words.
        option: &'static str,
        /// Its value.
        value: u64,
        /// What is allowed.
        range: &'static str,
    },
}
