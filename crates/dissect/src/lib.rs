//! From frames to operations: packet headers, TCP streams, protocol decoders, and the ledger that balances.
//!
//! ```text
//! Frame ─▶ packet ─▶ flow ─▶ decode (protocols) ─▶ ledger ─▶ Tally
//! ```
//!
//! Nothing here does I/O, reads a clock or is `unsafe`. Memory grows with open connections and outstanding operations,
//! never with the number of frames.

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
mod route;
mod select;
mod tls;
mod totals;

pub use dissector::Dissector;
pub use engine::Engine;
pub use model::{CHECK_SEQUENCE, GAP, LinkModel, Modelled, PREAMBLE};
pub use route::Share;
pub use select::{Selection, Verdict};
pub use tls::KeyLog;
pub use totals::Totals;
