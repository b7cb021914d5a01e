//! Finds avoidable bytes and waiting time in a database's traffic, and the settings that avoid them.
//!
//! ```text
//! Dissector ─▶ AdviceObserver ─▶ Rule ─▶ AdviceFinding ─▶ Advice
//! ```
//!
//! [`AdviceObserver`] reads a capture ([`overhead_dissect::explain::CaptureReading`]), adds up the ledger's postings by row
//! and field (`seen`), and passes closed operations and connections to the rules. One pass feeds all `rules`. The
//! saving of an [`AdviceFinding`] is the sum of its changes to rows ([`LedgerChange`]); [`WhatIf`] applies them to the
//! ledger.
//!
//! Nothing here does I/O or reads a clock. Open connections, outstanding operations and [`limits`] bound the memory.

#![forbid(unsafe_code)]

mod advice;
mod assembly;
mod finding;
pub mod limits;
mod observed;
mod observer;
mod rule;
mod rules;
mod seen;
mod servers;
mod what_if;

pub use advice::Advice;
pub use finding::{
    AdviceFinding, ByteEvidence, Certainty, Example, FindingSubject, FoundOperations, LedgerChange, Remedy, Saving,
};
pub use observer::AdviceObserver;
pub use rule::{Compressor, NamedRule, Rule, WhatIfOptions};
pub use rules::all;
pub use seen::SeenTraffic;
pub use what_if::{ChangedRow, WhatIf};
