//! Fuzz targets and the memo: one test program, because each would link the whole crate.

mod later;
#[cfg(feature = "runs")]
mod memo;
mod short;
