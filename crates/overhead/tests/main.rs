//! The program and its records, end to end: one binary, because each would link the whole program.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test that cannot go on has failed")]

mod advise;
mod annotate;
mod anonymise;
#[path = "statements/capture.rs"]
mod capture;
mod check;
mod cli;
mod compare;
mod explain;
mod files;
mod fixtures;
mod foreign;
mod injection;
mod inputs;
mod mistakes;
mod project;
mod report;
mod rotation;
mod rows;
mod runs;
mod sample;
mod schema;
mod statements;
mod sweep;
mod taps;
