//! Turns frames into operations: packet headers, TCP streams, protocol decoders, and the balancing ledger.
//!
//! ```text
//! Frame ─▶ packet ─▶ flow ─▶ decode (protocols) ─▶ ledger ─▶ Tally
//! ```
//!
//! This crate does no I/O, reads no clock and has no `unsafe` code. Memory grows with open connections and outstanding operations, never
//! with the number of frames.
//!
//! A [`Tally`](overhead_model::Tally) receives the closed operations. This program sums the bytes of each statement in a capture:
//!
//! ```no_run
#![doc = include_str!("../examples/statements.rs")]
//! ```
//!
//! `overhead-protocols` defines the protocols as an enum: a connection's protocol, its rows and each decoder step are chosen at compile
//! time. Other crates therefore cannot plug in a protocol. They can write and test a decoder against only `overhead-decode` (`Decoder`
//! has an example); adding it here then takes a folder and three lines.

#![forbid(unsafe_code)]

mod bounds;
mod connections;
mod copies;
mod digest;
mod dissector;
mod engine;
pub mod explain;
mod flow;
mod fragments;
mod ledger;
pub mod limits;
mod model;
mod moment;
pub mod packet;
mod proxy;
mod relay;
mod select;
mod table;
mod tls;
mod totals;
mod translations;

pub use dissector::Dissector;
pub use engine::ConnectionEngine;
pub use model::{CHECK_SEQUENCE, GAP, LinkModel, ModelTotals, PREAMBLE};
pub use overhead_protocols::statement::PREPARED_BEFORE;
pub use overhead_protocols::{GivenStatements, LearnedCounts, LearnedStatements};
pub use select::{PortVerdict, Selection};
pub use tls::{ConnectionPlace, ENCRYPTED, HandshakeId, KeptCounts, KeptSessions, KeyLog, KeySupply, SecretOrigin};
pub use totals::Totals;
