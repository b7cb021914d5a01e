//! Empty BPF programs on the system call path: the lowest cost that any counter there can have.

use libbpf_rs::{Link, Object, ObjectBuilder, OpenProgramMut, ProgramAttachType, ProgramMut, ProgramType};
use overhead_kernel::Error;

static OBJECT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/overhead.bpf.o"));

const EMPTY: &str = "empty";

/// The function that every system call of a 64-bit program passes. On arm64 the first may be inlined into the second.
#[cfg(target_arch = "x86_64")]
const DISPATCHERS: &[&str] = &["x64_sys_call"];
#[cfg(target_arch = "aarch64")]
const DISPATCHERS: &[&str] = &["invoke_syscall", "el0_svc_common"];
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
const DISPATCHERS: &[&str] = &[];

/// Attaches to the tracepoint at the return from every system call; with `entry`, also to the one at the entry.
pub fn attach(entry: bool) -> Result<Vec<Link>, Error> {
    let mut object = load(|_| Ok(()))?;
    let tracepoints = ["sys_exit", "sys_enter"].into_iter().take(1 + usize::from(entry));
    tracepoints.map(|tracepoint| Ok(empty(&mut object)?.attach_raw_tracepoint(tracepoint)?)).collect()
}

/// Attaches to the return from the system call dispatcher (`fexit`); with `entry`, also to its entry (`fentry`). Returns
/// the dispatcher too. Many kernels have none that can be traced.
#[allow(dead_code, reason = "one of the examples uses it")]
pub fn attach_to_dispatcher(entry: bool) -> Result<(Vec<Link>, &'static str), Error> {
    let mut refusals = Vec::new();
    for function in DISPATCHERS {
        match at_function(function, entry) {
            Ok(links) => return Ok((links, function)),
            Err(error) => refusals.push(format!("{function}: {error}")),
        }
    }
    Err(Error::Attach { program: EMPTY.to_owned(), reason: refusals.join("; ") })
}

fn at_function(function: &str, entry: bool) -> Result<Vec<Link>, Error> {
    let kinds =
        [ProgramAttachType::TraceFexit, ProgramAttachType::TraceFentry].into_iter().take(1 + usize::from(entry));
    let attach = |kind: ProgramAttachType| {
        let mut object = load(|program| {
            program.set_prog_type(ProgramType::Tracing);
            program.set_attach_type(kind.clone());
            program.set_attach_target(0, Some(function.to_owned()))
        })?;
        Ok(empty(&mut object)?.attach_trace()?)
    };
    kinds.map(attach).collect()
}

/// Loads only the empty program, after `change`.
fn load(change: impl Fn(&mut OpenProgramMut<'_>) -> libbpf_rs::Result<()>) -> Result<Object, Error> {
    libbpf_rs::set_print(None);
    let mut open = ObjectBuilder::default().open_memory(OBJECT)?;
    for mut program in open.progs_mut() {
        let wanted = program.name() == EMPTY;
        program.set_autoload(wanted);
        if wanted {
            change(&mut program)?;
        }
    }
    Ok(open.load()?)
}

fn empty(object: &mut Object) -> Result<ProgramMut<'_>, Error> {
    let program = object.progs_mut().find(|program| program.name() == EMPTY);
    program.ok_or_else(|| Error::Load(format!("{EMPTY} is not among the programs")))
}
