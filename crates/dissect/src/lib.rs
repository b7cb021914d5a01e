//! From frames to operations: packet headers, TCP streams, protocol decoders, and the ledger that balances.
//!
//! ```text
//! Frame ─▶ packet ─▶ flow ─▶ decode (protocols) ─▶ ledger ─▶ Tally
//! ```
//!
//! Nothing here does I/O, reads a clock or is `unsafe`. Memory grows with open connections and outstanding operations,
//! never with the number of frames.

#![forbid(unsafe_code)]

mod batch;
mod bounds;
mod connections;
mod copies;
pub mod decode;
mod digest;
mod dissector;
pub mod explain;
mod flow;
mod fragments;
mod ledger;
pub mod limits;
mod near;
pub mod packet;
pub mod protocols;
mod select;

pub use batch::Batch;
pub use connections::{Connections, Moment, route};
pub use dissector::{Dissector, Frames, Totals};
pub use select::{Selection, Verdict};

/// A hash table for what is looked up for every segment or message. Its keys may be chosen by who is captured; seeds are random.
type FastMap<K, V> = std::collections::HashMap<K, V, foldhash::fast::RandomState>;
