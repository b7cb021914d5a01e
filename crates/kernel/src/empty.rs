//! The floor that the cost of the counters is held against: two BPF programs that do nothing.

use crate::bpf::EMPTY;
use crate::error::Error;
use crate::skeleton::OverheadSkelBuilder;
use libbpf_rs::Link;
use libbpf_rs::skel::{OpenSkel, SkelBuilder};
use std::mem::MaybeUninit;

/// Empty BPF programs at the entry to and the return from every system call, as long as this lives.
#[derive(Debug)]
pub struct EmptyPrograms {
    _links: [Link; 2],
}

impl EmptyPrograms {
    /// Attaches them.
    ///
    /// # Errors
    ///
    /// [`Error::Permission`], [`Error::Load`] or [`Error::Attach`] where this machine does not let them in.
    pub fn attach() -> Result<Self, Error> {
        libbpf_rs::set_print(None);
        let mut place = MaybeUninit::uninit();
        let mut open = OverheadSkelBuilder::default().open(&mut place).map_err(|error| Error::loading(&error))?;
        for mut program in open.open_object_mut().progs_mut() {
            let wanted = program.name() == EMPTY;
            program.set_autoload(wanted);
        }
        let skeleton = open.load().map_err(|error| Error::loading(&error))?;
        let attach = |tracepoint: &str| {
            let program = &skeleton.progs.empty;
            program
                .attach_raw_tracepoint(tracepoint)
                .map_err(|error| Error::Attach { program: EMPTY.to_owned(), reason: format!("{error:#}") })
        };
        Ok(Self { _links: [attach("sys_enter")?, attach("sys_exit")?] })
    }
}
