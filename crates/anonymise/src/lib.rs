//! Copies of captures that can be given away: without user data, names, addresses and credentials, but with the same byte counts.
//!
//! ```text
//! frames ─▶ dissection ──▶ fields ──▶ filler
//!    │   (Streams listens)     │ written over them
//!    └─▶ headers and payload replaced ─▶ Spool ─▶ checksums ─▶ frames
//! ```
//!
//! The decoders give the meaning of each byte: `Streams` listens to an ordinary dissection, as an explanation does.
//! Lengths stay, and so does everything that controls decoding, so the copy yields the same record except for names. Original
//! bytes are never written: anything not known to be harmless is replaced before it reaches the `Spool`.
//!
//! - `fill`: bytes to other bytes of their class; `names`: identifiers and statements; `address`: addresses and ports
//! - `rules`: how each field is replaced; `tls`: handshakes
//! - `packed`: compressed bytes; `deflate`: DEFLATE, edited in place
//! - `streams`: fields to locations in frames; `layers`, `frame`: headers and other packets; `piece`: streams without frames
//! - `copy`: frames in, copies out; `spool`: the file that the copy is built in

#![forbid(unsafe_code)]

mod address;
mod copy;
mod deflate;
mod fill;
mod frame;
mod layers;
mod names;
mod packed;
mod piece;
mod rules;
mod spool;
mod streams;
mod tls;

pub use copy::{Anonymiser, CopiedFrames};
pub use fill::{Filler, FillerKey};
