//! The shared vocabulary of `overhead`. Every other crate may depend on this one, which only does arithmetic on amounts,
//! (de)serialization and the wording of errors.
//!
//! - `account`, `operation`, `system`: accounts, operations, protocols
//! - `frame`, `stream`: what captures hold; `trace`: the steps from frames to operations, and
//!   [`Tally`], which receives closed operations
//! - `record`, `load`: the records of runs and loads; `agent_rows`: what the agent archives; `spread`: repeated
//!   measurements
//! - `csv`, `outside`, `exit`, `privilege`: tables, text from outside, exit statuses, capabilities
//! - `pairs`: maps in JSON

#![forbid(unsafe_code)]

pub mod account;
pub mod agent_rows;
pub mod csv;
pub mod exit;
pub mod frame;
pub mod idle;
pub mod load;
pub mod operation;
pub mod outside;
pub mod pairs;
pub mod privilege;
pub mod record;
pub mod spread;
pub mod stream;
mod sums;
pub mod system;
pub mod trace;
mod variants;

pub use account::{Account, Amounts, PayloadAmounts};
pub use csv::Csv;
pub use frame::{Frame, LinkType};
pub use load::Load;
pub use operation::{
    Class, ConnectionEnds, ConnectionSummary, DecidedBy, OTHER, Operation, Outcome, RowId, RowKey, Side, SideTotals,
};
pub use outside::OutsideText;
pub use record::{Measured, Run};
pub use spread::Spread;
pub use stream::{StreamPiece, Transport};
pub use sums::sorted_distinct;
pub use system::{Protocol, System};
pub use trace::{FrameFacts, Listener, Tally, TcpFlags, Trace};
