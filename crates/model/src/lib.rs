//! The vocabulary that every room of `overhead` shares: accounts, frames, operations, the records of a run and of a load.
//!
//! No behaviour lives here beyond arithmetic on amounts, (de)serialisation and the wording of errors, so that every other
//! crate can depend on this one and none has to depend on a neighbour for a name.

#![forbid(unsafe_code)]

pub mod account;
pub mod call;
pub mod csv;
pub mod exit;
pub mod frame;
pub mod load;
pub mod operation;
pub mod outside;
pub mod privilege;
pub mod record;
pub mod spread;
pub mod stream;
pub mod sweep;
pub mod system;
pub mod trace;

pub use account::{Account, Amounts, PayloadAmounts};
pub use call::{CallPacket, CallPart};
pub use csv::Csv;
pub use frame::{Frame, LinkType};
pub use load::Load;
pub use operation::{
    Class, ConnectionSummary, DecidedBy, Ends, Listener, OTHER, Operation, Outcome, RowId, RowKey, Side, SideTotals,
    Tally,
};
pub use outside::OutsideText;
pub use record::{Measured, Run};
pub use spread::Spread;
pub use stream::{StreamPiece, Transport};
pub use sweep::Sweep;
pub use system::{Protocol, System};
pub use trace::{FrameFacts, TcpFlags, Trace};
