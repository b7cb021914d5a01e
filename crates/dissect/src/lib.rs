//! From frames to operations: packet headers, TCP streams, protocol decoders, and the ledger that balances.
//!
//! Nothing here does I/O, reads a clock or is `unsafe`.

#![forbid(unsafe_code)]

pub mod decode;
pub mod limits;
pub mod protocols;
