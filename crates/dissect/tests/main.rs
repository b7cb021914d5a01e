//! Frames to records: one test program, because each would link the whole crate.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test that cannot go on has failed")]

mod bounds;
mod common;
mod copies;
mod explain;
#[path = "common/explained.rs"]
mod explained;
mod free;
mod ledger;
mod packets;
mod rounds;
mod streams;
mod tcp;
