//! From frames to operations: packet headers, TCP streams, protocol decoders, and the ledger that balances.
//!
//! ```text
//! Frame ─▶ packet ─▶ flow ─▶ decode (protocols) ─▶ ledger ─▶ Tally
//! ```
//!
//! Nothing here does I/O, reads a clock or is `unsafe`. Memory grows with open connections and outstanding operations,
//! never with the number of frames.
//!
//! What closed operations become is up to a [`Tally`](overhead_model::Tally). This program adds up the bytes of each statement
//! of a capture:
//!
//! ```no_run
#![doc = include_str!("../examples/statements.rs")]
//! ```
//!
//! Protocols are those of `overhead-protocols`, as an enum: which of them a connection speaks, its rows and each step of its decoder
//! are chosen at compile time. So one more cannot be put in from another crate; a decoder can be written and tested there, against
//! `overhead-decode` alone (`Decoder` has an example), and be added here by a folder and three lines.

#![forbid(unsafe_code)]

mod bounds;
mod connections;
mod copies;
mod digest;
mod dissector;
mod early;
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
mod select;
mod table;
mod tls;
mod totals;

pub use dissector::Dissector;
pub use engine::Engine;
pub use model::{CHECK_SEQUENCE, GAP, LinkModel, Modelled, PREAMBLE};
pub use select::{Selection, Verdict};
pub use tls::KeyLog;
pub use totals::Totals;
