//! Capture files, read and written: one test program, because each would link the whole crate.

mod bad_inputs;
mod corpus;
mod formats;
mod prefixes;
mod properties;
mod support;
mod writer;
