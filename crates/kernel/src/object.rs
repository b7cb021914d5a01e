//! What the objects of BPF programs that have no skeleton share: their tables, and what the kernel has for them.

use crate::error::Error;
use libbpf_rs::btf::Btf;
use libbpf_rs::btf::types::{Func, FuncProto, Typedef};
use libbpf_rs::{MapCore, MapHandle, Object, ReferencesType};

/// The least that a ring buffer can be: a page of any architecture.
const LEAST_RING_BYTES: u32 = 64 << 10;

/// Returns the table of this name.
///
/// # Errors
///
/// [`Error::Tables`] where there is none.
pub(crate) fn map(object: &Object, name: &str) -> Result<MapHandle, Error> {
    let map = object.maps().find(|map| map.name() == name);
    let map = map.ok_or_else(|| Error::Tables(format!("there is no table {name}")))?;
    Ok(MapHandle::try_from(&map)?)
}

/// Returns the size of a ring buffer that is to have so many bytes: the next power of two, and a page at least.
pub(crate) fn ring_size(bytes: u32) -> u32 {
    bytes.max(LEAST_RING_BYTES).checked_next_power_of_two().unwrap_or(1 << 31)
}

/// Returns whether the kernel has a tracepoint of this name that programs with BTF can be attached to.
pub(crate) fn has_tracepoint(btf: &Btf<'_>, tracepoint: &str) -> bool {
    btf.type_by_name::<Typedef<'_>>(&format!("btf_trace_{tracepoint}")).is_some()
}

/// Returns how many arguments a function of the kernel has; `None` where there is no such function.
pub(crate) fn arguments_of(btf: &Btf<'_>, function: &str) -> Option<usize> {
    let function: Func<'_> = btf.type_by_name(function)?;
    let prototype: FuncProto<'_> = function.referenced_type().try_into().ok()?;
    Some(prototype.iter().len())
}
