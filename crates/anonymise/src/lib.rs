//! Copies of captures that can be given away: without user data, names, addresses and what authenticates, and with the same figures.
//!
//! ```text
//! frames ─▶ dissection ──▶ fields ──▶ filler
//!    │     (Streams listens)            │ put into its places
//!    └─▶ headers and payload replaced ─▶ Spool ─▶ checksums ─▶ frames
//! ```
//!
//! What a byte is, the decoders say: `Streams` listens to the steps of an ordinary dissection, as an explanation does. Lengths
//! stay, and everything that steers decoding, so that the copy comes to the same record but for names. Nothing of the original is
//! ever written: what is not known to be harmless has been replaced before it reaches the `Spool`.
//!
//! - `fill`: bytes to other bytes of their class; `names`: identifiers and statements; `address`: addresses and ports;
//! - `rules`: which field is replaced in which way; `tls`: the same of handshakes;
//! - `packed`: compressed bytes to as many others; `deflate`: the same code by code;
//! - `streams`: fields to places in frames; `layers` and `frame`: headers, and what is no stream; `piece`: streams without frames;
//! - `spool`: the copy while it is made.

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
pub use fill::{Filler, Key};
