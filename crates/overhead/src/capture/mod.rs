//! Captures live traffic, and counts the kernel's work during the same window.
//!
//! [`plan`] holds the decisions. [`session`] owns what runs: [`open`] starts it, [`conclude`] makes the record.
//! [`threads`] captures and writes frames, and [`dissecting`] dissects them. [`args`] and [`verb`] are the command line
//! of `overhead capture`: nothing else here uses them.

mod announce;
mod args;
mod beside;
mod clock;
mod command;
mod conclude;
mod container;
mod cost;
mod counters;
mod descriptors;
mod dissecting;
mod environment;
mod family;
mod folder;
mod frames;
mod input;
mod live;
pub mod metrics;
mod only;
mod open;
mod plaintext;
mod plan;
mod progress;
mod queue;
mod rotation;
mod runtime;
mod scrape;
mod session;
mod signals;
mod streams;
mod threads;
mod verb;
mod warmup;
mod witness;

pub use crate::databases::containers_now;
pub use args::CaptureArgs;
#[cfg(feature = "top")]
pub use args::byte_size;
pub use command::CommandOutput;
pub use container::{choose as choose_interface, interfaces};
pub use descriptors::InheritedFiles;
pub use folder::{PRINTED, RunFolder, WrittenRun, by_time as folder_by_time};
pub use live::LivePlan;
pub use plan::{
    CapturePlan, CommandPlan, CounterPlan, LimitPlan, OutputPlan, PacketUse, ResultPlan, SamplePlan, SocketPlan,
};
pub use rotation::RotationPlan;
pub use runtime::{or_never, runtime};
pub use session::{CaptureSession, FinishedCapture};
pub use signals::CaptureSignals;
#[cfg(feature = "top")]
pub use threads::{CaptureLimits, CaptureThreads};
