//! Helpers for BPF objects and the values in their maps.

use crate::discover::check_pid_namespace;
use crate::error::Error;
use libbpf_rs::btf::Btf;
use libbpf_rs::btf::ReferencesType;
use libbpf_rs::btf::types::{FuncProto, Typedef};
use libbpf_rs::{
    Link, MapCore, MapFlags, MapHandle, Object, ObjectBuilder, OpenObject, ProgramMut, RingBuffer, RingBufferBuilder,
};

/// A ring buffer is at least one page, and some architectures have 64 KiB pages.
const MIN_RING_BYTES: u32 = 64 << 10;

/// Types of the headers in `bpf/` that are made of integers only.
///
/// # Safety
///
/// Every bit pattern must be a valid value of the type.
pub(crate) unsafe trait Plain: Copy {}

macro_rules! plain_types {
    ($($type:ty),+ $(,)?) => {$(
        // SAFETY: integers and arrays of integers; the headers' enums are wrapped integers here.
        unsafe impl $crate::object::Plain for $type {}
    )+};
}
pub(crate) use plain_types;

/// Reads a value from the start of `bytes`; `None` if there are too few.
pub(crate) fn plain<T: Plain>(bytes: &[u8]) -> Option<T> {
    // SAFETY: the length was checked, the read need not be aligned, and any bytes are a `T`.
    (bytes.len() >= size_of::<T>()).then(|| unsafe { bytes.as_ptr().cast::<T>().read_unaligned() })
}

pub(crate) fn bytes_of<T: Plain>(value: &T) -> &[u8] {
    // SAFETY: the value is `size_of::<T>()` bytes long, and the header's types have no padding.
    unsafe { std::slice::from_raw_parts(std::ptr::from_ref(value).cast(), size_of::<T>()) }
}

/// Loads an object without the programs that are unused, and with these numbers of entries in its tables.
pub(crate) fn load(bytes: &[u8], is_unused: impl Fn(&str) -> bool, sizes: &[(&str, u32)]) -> Result<Object, Error> {
    let mut open = open(bytes)?;
    for mut program in open.progs_mut() {
        if is_unused(&program.name().to_string_lossy()) {
            program.set_autoload(false);
        }
    }
    for mut map in open.maps_mut() {
        if let Some((_, entries)) = sizes.iter().find(|(name, _)| map.name() == *name) {
            map.set_max_entries(*entries).map_err(|error| Error::loading(&error))?;
        }
    }
    open.load().map_err(|error| Error::loading(&error))
}

fn open(bytes: &[u8]) -> Result<OpenObject, Error> {
    ObjectBuilder::default().open_memory(bytes).map_err(|error| Error::loading(&error))
}

/// Checks that this machine can run BPF programs, and loads an object whose programs are all required.
pub(crate) fn load_whole(bytes: &[u8]) -> Result<Object, Error> {
    open_whole(bytes)?.load().map_err(|error| Error::loading(&error))
}

/// Checks that this machine can run BPF programs, and opens an object whose programs are all required.
pub(crate) fn open_whole(bytes: &[u8]) -> Result<OpenObject, Error> {
    libbpf_rs::set_print(None);
    check_pid_namespace()?;
    kernel_types()?;
    open(bytes)
}

/// Attaches a program that is required.
pub(crate) fn attach(program: &ProgramMut<'_>) -> Result<Link, Error> {
    let failed =
        |error| Error::Attach { program: program.name().to_string_lossy().into_owned(), reason: format!("{error:#}") };
    program.attach().map_err(failed)
}

/// Returns a bit for each port, as the BPF programs look them up.
pub(crate) fn port_set(ports: &[u16]) -> [u8; 1 << 13] {
    let mut set = [0; 1 << 13];
    for port in ports {
        set[usize::from(port >> 3)] |= 1 << (port & 7);
    }
    set
}

/// Returns a ring buffer whose records go to `take`.
pub(crate) fn ring(map: &MapHandle, mut take: impl FnMut(&[u8]) + 'static) -> libbpf_rs::Result<RingBuffer<'static>> {
    let mut builder = RingBufferBuilder::new();
    builder.add(map, move |record| {
        take(record);
        0
    })?;
    builder.build()
}

/// Returns the types of the running kernel.
pub(crate) fn kernel_types() -> Result<Btf<'static>, Error> {
    Btf::from_vmlinux().map_err(|error| Error::NoBtf(format!("{error:#}")))
}

pub(crate) fn map(object: &Object, name: &str) -> Result<MapHandle, Error> {
    let map = object.maps().find(|map| map.name() == name);
    let map = map.ok_or_else(|| Error::Tables(format!("table {name} is missing")))?;
    Ok(MapHandle::try_from(&map)?)
}

/// Returns the value of a key; `None` if the map lacks it.
pub(crate) fn lookup<T: Plain>(map: &MapHandle, key: &[u8]) -> libbpf_rs::Result<Option<T>> {
    Ok(map.lookup(key, MapFlags::ANY)?.and_then(|bytes| plain(&bytes)))
}

/// Rounds a ring buffer's size up to a power of two, and to at least a page.
pub(crate) fn ring_size(bytes: u32) -> u32 {
    bytes.max(MIN_RING_BYTES).checked_next_power_of_two().unwrap_or(1 << 31)
}

/// Returns whether the kernel has this tracepoint for BTF programs.
pub(crate) fn has_tracepoint(btf: &Btf<'_>, tracepoint: &str) -> bool {
    btf.type_by_name::<Typedef<'_>>(&format!("btf_trace_{tracepoint}")).is_some()
}

/// Returns the number of arguments of a tracepoint for BTF programs; 0 if the kernel lacks it.
pub(crate) fn tracepoint_arguments(btf: &Btf<'_>, tracepoint: &str) -> usize {
    let name = btf.type_by_name::<Typedef<'_>>(&format!("btf_trace_{tracepoint}"));
    let function = name.and_then(|name| FuncProto::try_from(name.referenced_type().next_type()?).ok());
    // The first one is the kernel's own.
    function.map_or(0, |function| function.len().saturating_sub(1))
}
