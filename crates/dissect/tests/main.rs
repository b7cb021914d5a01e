//! Frames to records: one test program, because each would link the whole crate.

mod bounds;
mod common;
mod copies;
mod explain;
#[path = "common/explained.rs"]
mod explained;
mod free;
mod ledger;
mod packets;
mod streams;
mod tcp;
