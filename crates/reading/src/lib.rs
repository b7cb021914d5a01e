//! From what a user named to frames, and to a run record.
//!
//! [`InputPlan`] names captures, connections, keys and a window of time, and [`RecordPlan`] how they become a record. Plans hold
//! decisions: the programs lower their arguments into them. The decoders are compiled in this crate, for the tally that they add
//! up in.

// Errors are sentences for the user of a command.
#![allow(clippy::missing_errors_doc)]

mod choice;
mod given;
mod groups;
mod inputs;
mod kept;
mod keys;
mod numbers;
mod projection;
mod record;
pub mod run_folder;
mod run_record;
mod sample;
mod schedule;
pub mod time;
mod warnings;

pub use choice::{ConnectionChoice, DecodePlan};
pub use given::read as read_statements;
pub use groups::{GroupReader, check_sweep_version, distinguish, load, runs_below, sweep_of};
pub use inputs::{Dissect, InputPlan, can_be_read_again};
pub use kept::KeptRun;
pub use keys::{KeyFiles, KeyReader, PATIENCE};
pub use numbers::{number, statement, statements};
pub use projection::{add_distances, read_fields, read_projection};
pub use record::RecordPlan;
pub use run_record::{Beginning, Circumstances, run as run_record};
pub use sample::{
    AggregateWindows, Chosen, DissectPlan, DissectWindows, Dissection, SamplePlan, Sampled, Sampler, Schedule,
    add_window, windows_of,
};
pub use schedule::{DutyCycle, Windows, duty_cycle};
pub use time::TimeWindow;
pub use warnings::{TlsServer, TlsServers, Warnings};
