//! What of a database's traffic could be saved, by which setting, and how much of it.
//!
//! ```text
//! Dissector ─▶ Observer ─▶ Rule ─▶ Finding ─▶ Advice
//! ```
//!
//! The [`Observer`] is a reading of a capture ([`overhead_dissect::explain::Reading`]): it hears every posting and charge of the
//! ledger, adds them up by row and field, and hands closed operations and connections to the rules. All rules are fed by one
//! pass. What a [`Finding`] would save is a list of changes to the rows ([`Change`]), so that the ledger can be written anew as if
//! it had been done ([`WhatIf`]), and the figures of a finding are the sum of its changes.
//!
//! Nothing here does I/O or reads a clock. Memory is bounded by open connections, outstanding operations and [`limits`].

#![forbid(unsafe_code)]

mod advice;
mod assembly;
mod finding;
pub mod limits;
mod observer;
mod rule;
mod rules;
mod seen;
mod what_if;

pub use advice::Advice;
pub use finding::{Certainty, Change, Evidence, Example, Finding, Remedy, Saving, Subject};
pub use observer::Observer;
pub use rule::{Compressor, Rule, Suppositions, all};
pub use seen::Seen;
pub use what_if::{ChangedRow, WhatIf};
