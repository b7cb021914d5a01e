//! Takes pinned programs and tables over from an earlier process.
//!
//! A subfolder of the pins has all tables and the links of all programs but iterators. Its name is a fingerprint of the tables' layout. The
//! programs are loaded anew with the tables that are there. A link whose program is the same goes on; another one is replaced after the new
//! one is attached, so no event is missed.

use super::{OBJECT, TABLES, TcpFollower, identity, is_iterator};
use crate::error::Error;
use crate::object;
use crate::pins::PinFolder;
use crate::{SocketGroup, SocketTotals};
use libbpf_rs::{Link, MapHandle, ProgramHandle, ProgramMut};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs;

/// The types of the tables, and their sizes.
const LAYOUT: [&str; 2] = [include_str!("../../bpf/totals.h"), include_str!("../../bpf/connection.h")];

/// Where the subfolder is complete only once it is renamed.
const UNFINISHED: &str = "unfinished";

/// How far the tables were read, so that a later process continues there.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FollowerPosition {
    /// Tables have numbers until the host starts again.
    boot: String,
    /// Of each pair, the table that the programs filled, and the other one, all of whose sums were read.
    tables: [[u32; 2]; TABLES],
    /// What was read of the former ones.
    #[serde(with = "overhead_model::pairs")]
    counted: BTreeMap<SocketGroup, SocketTotals>,
}

impl TcpFollower {
    /// Takes over the pinned programs that were read until `position`, and continues there. Otherwise, pins new ones in their place, and
    /// returns why.
    ///
    /// # Errors
    ///
    /// Those of [`TcpFollower::start`], and [`Error::Pins`].
    pub fn start_pinned(
        ports: &[u16],
        pins: &PinFolder,
        position: Option<FollowerPosition>,
    ) -> Result<(Self, Option<String>), Error> {
        let layout = format!("tables-{:016x}", fingerprint(&LAYOUT));
        let reason = match Self::take_over(ports, pins, &layout, position) {
            Ok(follower) => return Ok((follower, None)),
            Err(reason) => reason,
        };
        let failed = |error: std::io::Error| Error::Pins(format!("programs cannot be pinned: {error}"));
        pins.clear().map_err(failed)?;
        let unfinished = pins.subfolder(UNFINISHED).map_err(failed)?;
        let follower = Self::load(ports, false, true, Some(&unfinished))?;
        pins.rename(UNFINISHED, &layout).map_err(failed)?;
        Ok((follower, Some(reason)))
    }

    fn take_over(
        ports: &[u16],
        pins: &PinFolder,
        layout: &str,
        position: Option<FollowerPosition>,
    ) -> Result<Self, String> {
        let names = pins.names().map_err(|error| error.to_string())?;
        if names.is_empty() {
            return Err("no pinned programs were found".to_owned());
        }
        if !names.iter().any(|name| name == layout) {
            return Err("the pinned programs are of another version, whose tables have another layout".to_owned());
        }
        let foreign = || "the pinned programs belong to another state".to_owned();
        let position = position.filter(|position| position.boot == boot_id()).ok_or_else(foreign)?;
        let folder = pins.subfolder(layout).map_err(|error| error.to_string())?;
        let mut tables = position.tables;
        for pair in &mut tables {
            pair.sort_unstable();
        }
        if Self::pinned_tables(&folder).ok() != Some(tables) {
            return Err(foreign());
        }
        let mut follower = Self::load(ports, false, true, Some(&folder)).map_err(|error| error.to_string())?;
        let now = follower.tables().map_err(|error| error.to_string())?;
        // Later sums than the position's are in the table that was filled then, and perhaps in the other one.
        follower.is_unread = std::array::from_fn(|pair| position.tables[pair] != now[pair]);
        follower.counted = position.counted;
        Ok(follower)
    }

    /// Returns the numbers of the pinned tables of sums, each pair in order.
    fn pinned_tables(folder: &PinFolder) -> Result<[[u32; 2]; TABLES], Error> {
        let number = |name| identity(&MapHandle::from_pinned_path(folder.entry(name))?);
        let mut tables = [[number("sums_even")?, number("sums_odd")?], [number("other_even")?, number("other_odd")?]];
        for pair in &mut tables {
            pair.sort_unstable();
        }
        Ok(tables)
    }

    /// Returns how far the tables were read: until the last reading, if that succeeded.
    pub fn position(&self) -> Result<Option<FollowerPosition>, Error> {
        if self.is_unread.contains(&true) {
            return Ok(None);
        }
        Ok(Some(FollowerPosition { boot: boot_id(), tables: self.tables()?, counted: self.counted.clone() }))
    }
}

/// Loads the programs that are used. Tables are those that are pinned in a folder, or are pinned there.
pub(super) fn open(folder: Option<&PinFolder>, is_unused: impl Fn(&str) -> bool) -> Result<libbpf_rs::Object, Error> {
    let mut open = object::open_whole(OBJECT)?;
    for mut program in open.progs_mut().filter(|program| is_unused(&program.name().to_string_lossy())) {
        program.set_autoload(false);
    }
    if let Some(folder) = folder {
        // Constants of the programs have a dot in their name, and are their own.
        for mut map in open.maps_mut().filter(|map| !map.name().to_string_lossy().contains('.')) {
            let path = folder.entry(&map.name().to_string_lossy());
            map.set_pin_path(path)?;
        }
    }
    open.load().map_err(|error| Error::loading(&error))
}

/// Attaches a program, or keeps the pinned link if it runs the same program.
pub(super) fn attach(program: &ProgramMut<'_>, folder: Option<&PinFolder>) -> Result<Link, Error> {
    let Some(folder) = folder.filter(|_| !is_iterator(program)) else { return object::attach(program) };
    let pin = format!("link_{}", program.name().to_string_lossy());
    let running = Link::open(folder.entry(&pin))
        .and_then(|link| Ok((ProgramHandle::from_prog_id(link.info()?.prog_id)?.tag(), link)));
    match running {
        Ok((tag, link)) if tag == ProgramHandle::try_from(program)?.tag() => return Ok(link),
        _ => {}
    }
    let mut link = object::attach(program)?;
    link.pin(folder.entry("link_new"))?;
    folder.rename("link_new", &pin)?;
    Ok(link)
}

/// Returns the number of this start of the host.
pub fn boot_id() -> String {
    fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default().trim().to_owned()
}

/// Returns a hash of C declarations without comments and spaces (FNV-1a).
fn fingerprint(sources: &[&str]) -> u64 {
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    for mut source in sources.iter().copied() {
        while !source.is_empty() {
            let (code, rest) = source.split_once("/*").unwrap_or((source, ""));
            for byte in code.bytes().filter(|byte| !byte.is_ascii_whitespace()) {
                hash = (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
            }
            source = rest.split_once("*/").map_or("", |(_, rest)| rest);
        }
    }
    hash
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fingerprint_changes_with_the_layout_only() {
        let declaration = "struct a { __u64 b; };";
        assert_eq!(fingerprint(&[declaration]), fingerprint(&["/* A. */ struct a {\n\t__u64 b; /* B. */\n};\n"]));
        assert_ne!(fingerprint(&[declaration]), fingerprint(&["struct a { __u32 b; };"]));
        assert_ne!(fingerprint(&LAYOUT), fingerprint(&LAYOUT[..1]));
    }
}
