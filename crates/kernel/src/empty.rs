//! Empty BPF programs on the system call path: the lowest cost that any counter there can have.

use crate::bpf::EMPTY;
use crate::error::Error;
use crate::skeleton::{OverheadSkel, OverheadSkelBuilder};
use libbpf_rs::skel::{OpenSkel, SkelBuilder};
use libbpf_rs::{Link, OpenProgramMut, ProgramAttachType, ProgramType};
use std::mem::MaybeUninit;

/// The function that every system call of a 64-bit program passes. On arm64 the first may be inlined into the second.
#[cfg(target_arch = "x86_64")]
const DISPATCHERS: &[&str] = &["x64_sys_call"];
#[cfg(target_arch = "aarch64")]
const DISPATCHERS: &[&str] = &["invoke_syscall", "el0_svc_common"];
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
const DISPATCHERS: &[&str] = &[];

/// Empty BPF programs at the return from every system call, and optionally at the entry. Detached on drop.
#[derive(Debug)]
pub struct EmptyPrograms {
    _links: Vec<Link>,
    function: Option<&'static str>,
}

impl EmptyPrograms {
    /// Attaches to the tracepoint at the return; with `entry`, also to the one at the entry.
    ///
    /// # Errors
    ///
    /// [`Error::Permission`], [`Error::Load`] or [`Error::Attach`].
    pub fn attach(entry: bool) -> Result<Self, Error> {
        let mut place = MaybeUninit::uninit();
        let skeleton = load(&mut place, |_| Ok(()))?;
        let attach =
            |tracepoint: &str| skeleton.progs.empty.attach_raw_tracepoint(tracepoint).map_err(|error| refused(&error));
        let tracepoints = ["sys_exit", "sys_enter"].into_iter().take(1 + usize::from(entry));
        Ok(Self { _links: tracepoints.map(attach).collect::<Result<_, _>>()?, function: None })
    }

    /// Attaches to the return from the system call dispatcher (`fexit`); with `entry`, also to its entry (`fentry`).
    ///
    /// # Errors
    ///
    /// As [`Self::attach`]. Many kernels have no dispatcher that can be traced.
    pub fn attach_to_dispatcher(entry: bool) -> Result<Self, Error> {
        let mut refusals = Vec::new();
        for function in DISPATCHERS {
            match Self::at_function(function, entry) {
                Ok(programs) => return Ok(programs),
                Err(error) => refusals.push(format!("{function}: {error}")),
            }
        }
        Err(Error::Attach { program: EMPTY.to_owned(), reason: refusals.join("; ") })
    }

    /// The dispatcher they are attached to; `None` for the tracepoints.
    pub fn function(&self) -> Option<&'static str> {
        self.function
    }

    fn at_function(function: &'static str, entry: bool) -> Result<Self, Error> {
        let mut links = Vec::new();
        for kind in
            [ProgramAttachType::TraceFexit, ProgramAttachType::TraceFentry].into_iter().take(1 + usize::from(entry))
        {
            let mut place = MaybeUninit::uninit();
            let skeleton = load(&mut place, |program| {
                program.set_prog_type(ProgramType::Tracing);
                program.set_attach_type(kind.clone());
                program.set_attach_target(0, Some(function.to_owned()))
            })?;
            links.push(skeleton.progs.empty.attach_trace().map_err(|error| refused(&error))?);
        }
        Ok(Self { _links: links, function: Some(function) })
    }
}

/// Loads only the empty program, after `change`.
fn load(
    place: &mut MaybeUninit<libbpf_rs::OpenObject>,
    change: impl Fn(&mut OpenProgramMut<'_>) -> libbpf_rs::Result<()>,
) -> Result<OverheadSkel<'_>, Error> {
    libbpf_rs::set_print(None);
    let mut open = OverheadSkelBuilder::default().open(place).map_err(|error| Error::loading(&error))?;
    for mut program in open.open_object_mut().progs_mut() {
        let wanted = program.name() == EMPTY;
        program.set_autoload(wanted);
        if wanted {
            change(&mut program).map_err(|error| Error::loading(&error))?;
        }
    }
    open.load().map_err(|error| Error::loading(&error))
}

fn refused(error: &libbpf_rs::Error) -> Error {
    Error::Attach { program: EMPTY.to_owned(), reason: format!("{error:#}") }
}
