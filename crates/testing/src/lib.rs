//! Shared test code: checks of decoders, made-up runs and hostile input.
//!
//! - [`transcript`] keeps everything that a decoder posts, and checks that it does not depend on how the bytes are cut.
//! - [`free`] changes the bytes that a decoder calls free, and checks that it says the same.
//! - [`runs`] makes run records (feature `runs`).
//! - [`hostile`] has the bodies and seeds of the fuzz targets (feature `hostile`).
//!
//! A crate's unit tests are compiled apart from the crate that this one depends on: types of the crate under test cannot
//! be passed here, its implementations of traits of other crates can.

#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test that cannot go on has failed")]

pub mod free;
#[cfg(feature = "hostile")]
pub mod hostile;
#[cfg(feature = "runs")]
pub mod runs;
pub mod transcript;
