//! Capture files, read and written: one test program, because each would link the whole crate.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test that cannot go on has failed")]

mod bad_inputs;
mod corpus;
mod formats;
mod prefixes;
mod properties;
mod support;
mod writer;
