//! A unit: the requests and responses of one operation, and how far they have come.

use super::copying::UnitCopies;
use crate::statement::StatementText;
use overhead_decode::OpId;
use overhead_model::enum_with;

/// Units are numbered from 0.
pub(in super::super) type PgUnitId = u64;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum PgUnitFate {
    #[default]
    Fine,
    Failed,
    /// The server skipped part of it after an earlier error, so no answer is due.
    Skipped,
    /// Part of it or of its answer was lost.
    Lost,
}

/// Progress of a unit, by what it waits for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum PgUnitStage {
    /// More requests.
    #[default]
    Building,
    /// Copy data, a `Sync` or a `Flush`.
    Complete,
    /// Responses.
    Sealed,
    Closed,
}

enum_with! {
    /// Messages that can name a unit that executes nothing; the greatest one does.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
    pub(in super::super) enum PgSetupKind, name: &'static str {
        #[default]
        Flush = "FLUSH",
        Sync = "SYNC",
        Close = "CLOSE",
        Describe = "DESCRIBE",
        Parse = "PREPARE",
        /// Expects an `Execute`.
        Bind = "BIND",
    }
}

#[derive(Debug, Default)]
pub(super) struct PgUnit {
    pub op: OpId,
    /// Its entries in the queue.
    pub pending: usize,
    pub fate: PgUnitFate,
    pub stage: PgUnitStage,
    pub labelled: bool,
    /// Set if its statement is unknown; the command tag may then name it.
    pub via_unknown: Option<&'static str>,
    /// Its statement, without literals.
    pub statement: StatementText,
    pub answered: bool,
    /// Its name if it executes nothing.
    pub setup: PgSetupKind,
    /// One message, without a `Sync`.
    pub simple: bool,
    /// Boxed because few statements copy.
    pub copies: Option<Box<UnitCopies>>,
}
