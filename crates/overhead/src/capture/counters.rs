//! Counters beside the packets: loaded if they can be, absent with the reason if not.

use super::args::Capture;
use anyhow::Result;
use overhead_kernel::{Counters, Error, Options, OwnCost, Selection};
use overhead_model::{Measured, record};

/// Counters, or the reason why there are none.
pub enum Counting {
    /// They count.
    On(Box<Counters>),
    /// They cannot, or were not asked for.
    Off(String),
}

impl Counting {
    /// Loads the programs for the servers of `ports`.
    ///
    /// On loopback a server that does not listen is an error: no traffic can come. Elsewhere it may be on another host.
    pub fn load(args: &Capture, ports: &[u16]) -> Result<Self> {
        if args.no_bpf {
            return Ok(Self::Off("not asked for (--no-bpf)".to_owned()));
        }
        let mut options = Options::for_ports(ports);
        options.own_cost = OwnCost::Sampled;
        if !args.pid.is_empty() {
            options.server = Selection::Pids(args.pid.clone());
        } else if let Some(path) = &args.cgroup {
            options.server = Selection::Cgroup(path.clone());
        }
        match Counters::load(&options) {
            Err(error @ Error::NobodyListens(_)) if args.iface != "lo" => {
                options.server = Selection::Named(format!("{error}").split(':').next().unwrap_or_default().to_owned());
                Self::or_absent(Counters::load(&options), args)
            }
            loaded => Self::or_absent(loaded, args),
        }
    }

    fn or_absent(loaded: Result<Counters, Error>, args: &Capture) -> Result<Self> {
        match loaded {
            Ok(counters) => Ok(Self::On(Box::new(counters))),
            Err(error) if args.bpf_only => Err(error.into()),
            // The machine cannot count: the bytes are worth having without.
            Err(
                error @ (Error::NoBtf(_)
                | Error::Permission(_)
                | Error::PidNamespace
                | Error::Load(_)
                | Error::Attach { .. }),
            ) => Ok(Self::Off(error.to_string())),
            Err(error) => Err(error.into()),
        }
    }

    /// Begins the window.
    pub fn begin(&mut self) {
        if let Self::On(counters) = self
            && let Err(error) = counters.begin()
        {
            *self = Self::Off(error.to_string());
        }
    }

    /// What was counted so far.
    pub fn read(&mut self) -> Measured<record::Counters> {
        match self {
            Self::On(counters) => match counters.read() {
                Ok(read) => Measured::Value(read),
                Err(error) => Measured::unavailable(error.to_string()),
            },
            Self::Off(reason) => Measured::unavailable(reason.clone()),
        }
    }

    /// Time in our own programs.
    pub fn bpf_ns(&self) -> Measured<u64> {
        match self {
            Self::On(counters) => counters.bpf_ns(),
            Self::Off(reason) => Measured::unavailable(reason.clone()),
        }
    }

    /// Doubts about the counts.
    pub fn doubts(&self) -> Vec<String> {
        match self {
            Self::On(counters) => counters.doubts(),
            Self::Off(_) => Vec::new(),
        }
    }
}
