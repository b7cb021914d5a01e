//! Captures live traffic, and counts the kernel's work during the same window.
//!
//! `plan` holds the decisions. `session` owns what runs and starts it; `conclude` makes the record.
//! `threads` captures and writes frames, and `dissecting` dissects them.

mod announce;
mod beside;
mod clock;
mod command;
mod conclude;
mod container;
mod cost;
mod counters;
mod dissecting;
mod folder;
mod only;
mod plan;
mod progress;
mod queue;
mod redact;
mod rotation;
mod scrape;
mod session;
mod streams;
mod sweep;
mod threads;
mod tls_keys;
mod user;
mod warmup;
mod witness;

pub use command::CommandOutput;
pub use command::InheritedFiles;
pub use container::LivePlan;
pub use container::{choose as choose_interface, interfaces};
pub use folder::{PRINTED, RunFolder, WrittenRun, by_time as folder_by_time};
pub use plan::{CapturePlan, CommandPlan, CounterPlan, LimitPlan, OutputPlan, PacketUse, ResultPlan, SocketPlan};
pub use rotation::RotationPlan;
pub use session::{CaptureSession, FinishedCapture};
pub use sweep::{FinishedSweep, SweepParameter, SweepPlan, check_parameters, parse_parameter};
pub use threads::{CaptureLimits, CaptureThreads};
pub use user::User;
