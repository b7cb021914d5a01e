//! Fuzz targets and the memo: one test program, because each would link the whole crate.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test that cannot go on has failed")]

mod cuts;
mod holes;
mod later;
#[cfg(feature = "runs")]
mod memo;
mod numbers;
mod short;
