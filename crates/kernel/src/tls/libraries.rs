//! Finds the TLS libraries of a process whose key log function can be observed, and names the others.
//!
//! Shared libraries are in the process's memory map, static ones in its program. Files are opened through the process's
//! root, to find files in containers. Java programs delete the libraries that they have unpacked and mapped.

use super::finder::{KeyLogFunction, key_log_function};
use overhead_files::{ForeignFiles, ForeignLimits};
use procfs::FromBufRead;
use procfs::process::{MMPermissions, MMapPath, MemoryMap, MemoryMaps, Process};
use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io::{self, Read};
use std::os::fd::AsRawFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Larger programs are not searched for static libraries. A program of another user than root may have a quarter of a GiB.
const LIMITS: ForeignLimits = ForeignLimits { file_bytes: 1 << 30, files: 4_096, bytes: 1 << 30 };
/// Smaller files have no TLS library in them, in bytes.
const SMALLEST_LIBRARY: u64 = 128 << 10;
/// Beginnings of the names of TLS libraries that pass no secret to a key log function.
const OTHERS: [(&str, &str); 4] = [
    ("libjvm.so", "Java's own TLS"),
    ("libmbedtls.so", "Mbed TLS"),
    ("libwolfssl.so", "wolfSSL"),
    ("librustls", "rustls"),
];
/// Searched for system libraries, together with their subfolders for architectures.
const LIBRARY_FOLDERS: [&str; 5] = ["/lib", "/lib64", "/usr/lib", "/usr/lib64", "/usr/local/lib"];

/// Device and inode.
pub(super) type FileId = (u64, u64);

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct TlsLibrary {
    pub(super) id: FileId,
    /// Path from this process, to an open file: its name may lead elsewhere at any time.
    pub(super) path: PathBuf,
    /// Path from its process.
    pub(super) name: String,
    pub(super) function: KeyLogFunction,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct ProcessEncryption {
    pub(super) libraries: Vec<TlsLibrary>,
    /// Other TLS libraries by name, and files that were refused, with the reason.
    pub(super) others: BTreeSet<String>,
}

/// Examines each file once.
#[derive(Debug, Default)]
pub(super) struct LibraryFinder {
    /// Keeps the libraries' paths valid.
    open: Vec<File>,
    known: BTreeMap<FileId, (Option<TlsLibrary>, Option<String>)>,
    /// The files behind mappings, by the device and inode of these.
    mapped: BTreeMap<((i32, i32), u64), FileId>,
}

impl LibraryFinder {
    pub(super) fn of_process(&mut self, pid: u32) -> io::Result<ProcessEncryption> {
        let process = Process::new(pid.cast_signed()).map_err(io::Error::other)?;
        let maps = maps(pid)?;
        let mut found = ProcessEncryption::default();
        let mut seen = BTreeSet::new();
        let (files, folder) = (ForeignFiles::new(LIMITS), PathBuf::from(format!("/proc/{pid}")));
        let program = process.exe().ok();
        let program = program.as_ref().map(|program| program.to_string_lossy());
        for map in &maps {
            let MMapPath::Path(name) = &map.pathname else { continue };
            let is_program = program.as_deref() == name.to_str();
            let is_code = map.perms.contains(MMPermissions::EXECUTE);
            if !is_program && other_by_name(name).is_none() && !(is_code && may_encrypt(name)) {
                continue;
            }
            if !seen.insert((map.dev, map.inode)) {
                continue;
            }
            found.others.extend(other_by_name(name).map(str::to_owned));
            if let Some(id) = self.mapped.get(&(map.dev, map.inode)) {
                found.add(self.known.get(id));
                continue;
            }
            // Leads to the running file even if it has been replaced.
            let opened = if is_program {
                files.open_mapped(&folder.join("exe"), Path::new(""))
            } else {
                open_mapped(&files, &folder, name, map)
            };
            if let Ok(file) = opened
                && let Some(id) = self.file(file, &name.to_string_lossy(), &mut found)
            {
                self.mapped.insert((map.dev, map.inode), id);
            }
        }
        Ok(found)
    }

    /// Returns the system's libraries and those linked into `program`, for a process yet to start.
    pub(super) fn of_system(&mut self, program: Option<&Path>) -> ProcessEncryption {
        let (mut found, files) = (ProcessEncryption::default(), ForeignFiles::new(LIMITS));
        for path in system_libraries().into_iter().chain(program.map(Path::to_owned)) {
            if let Ok(file) = files.open_mapped(&path, Path::new("")) {
                self.file(file, &path.to_string_lossy(), &mut found);
            }
        }
        found
    }

    fn file(&mut self, file: File, name: &str, found: &mut ProcessEncryption) -> Option<FileId> {
        let about = file.metadata().ok()?;
        let id = (about.dev(), about.ino());
        let searched = self.known.entry(id).or_insert_with(|| {
            let path = PathBuf::from(format!("/proc/self/fd/{}", file.as_raw_fd()));
            match search_file(&file, about.len()) {
                Ok(Some(function)) => {
                    self.open.push(file);
                    (Some(TlsLibrary { id, path, name: name.to_owned(), function }), None)
                }
                Ok(None) => (None, None),
                Err(reason) => (None, Some(format!("{name} ({reason})"))),
            }
        });
        found.add(Some(searched));
        Some(id)
    }
}

impl ProcessEncryption {
    fn add(&mut self, searched: Option<&(Option<TlsLibrary>, Option<String>)>) {
        let Some((library, refused)) = searched else { return };
        if let Some(library) = library.as_ref().filter(|library| self.libraries.iter().all(|it| it.id != library.id)) {
            self.libraries.push(library.clone());
        }
        self.others.extend(refused.clone());
    }
}

/// Returns a process's memory map. Bytes in file names that are not UTF-8 are replaced.
fn maps(pid: u32) -> io::Result<MemoryMaps> {
    let table = fs::read(format!("/proc/{pid}/maps"))?;
    MemoryMaps::from_buf_read(String::from_utf8_lossy(&table).as_bytes()).map_err(io::Error::other)
}

/// Opens a mapped file: through the process's root, or the same path here if it has only changed its root, or through the mapping if the
/// file was deleted.
fn open_mapped(files: &ForeignFiles, process: &Path, name: &Path, map: &MemoryMap) -> io::Result<File> {
    let is_it = |file: &File| file.metadata().is_ok_and(|about| about.ino() == map.inode);
    let mapping = process.join(format!("map_files/{:x}-{:x}", map.address.0, map.address.1));
    let places = [(process.join("root"), name), (PathBuf::from("/"), name), (mapping, Path::new(""))];
    let opened = places.iter().find_map(|(root, name)| files.open_mapped(root, name).ok().filter(is_it));
    opened.ok_or_else(|| io::ErrorKind::NotFound.into())
}

/// Returns whether a file may be a TLS library, or have one in it: most of the system's libraries have other names.
fn may_encrypt(path: &Path) -> bool {
    let name = path.file_name().map(|name| name.to_string_lossy().to_lowercase()).unwrap_or_default();
    let is_system = path.starts_with("/usr/lib") || path.starts_with("/lib");
    let parts = ["ssl", "tls", "crypto", "boring", "nss", "node", "netty"];
    !(is_system && name.starts_with("lib")) || parts.iter().any(|part| name.contains(part))
}

/// Recognises other TLS libraries by file name.
fn other_by_name(path: &Path) -> Option<&'static str> {
    let name = path.file_name()?.to_str()?;
    OTHERS.iter().find(|(start, _)| name.starts_with(start)).map(|(_, other)| *other)
}

/// Returns the key log function of a file, if it has one, or why it is refused.
fn search_file(file: &File, length: u64) -> Result<Option<KeyLogFunction>, &'static str> {
    let mut bytes = Vec::new();
    if length < SMALLEST_LIBRARY || file.take(length).read_to_end(&mut bytes).is_err() {
        return Ok(None);
    }
    let found = key_log_function(&bytes);
    // Texts of panics name the source files.
    let has = |part: &[u8]| memchr::memmem::find(&bytes, part).is_some();
    if !matches!(found, Ok(Some(_))) && (has(b"/rustls-0.") || has(b"rustls/src/")) {
        return Err("rustls keeps its secrets to itself");
    }
    found
}

fn system_libraries() -> Vec<PathBuf> {
    let mut paths = Vec::new();
    for folder in LIBRARY_FOLDERS {
        let below = fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
        let below = below.filter(|path| path.is_dir() && path.to_string_lossy().contains("-linux-"));
        for folder in std::iter::once(PathBuf::from(folder)).chain(below) {
            let files = fs::read_dir(folder).into_iter().flatten().flatten();
            paths.extend(files.filter(|file| is_library(&file.file_name().to_string_lossy())).map(|file| file.path()));
        }
    }
    paths
}

fn is_library(name: &str) -> bool {
    ["libssl.so.", "libssl-", "libboringssl.so", "libgnutls.so."].iter().any(|start| name.starts_with(start))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_systems_library_is_found_with_its_functions() {
        let found = LibraryFinder::default().of_system(None);
        let Some(library) = found.libraries.first() else {
            println!("skipped: there is no libssl on this machine");
            return;
        };
        assert!(library.function.offset > 0, "{library:?}");
    }

    #[test]
    fn a_program_without_the_library_has_none() {
        let found = LibraryFinder::default().of_process(std::process::id()).unwrap();
        assert_eq!(found.libraries, []);
    }

    #[test]
    fn other_libraries_are_told_by_their_names() {
        let of = |name: &str| other_by_name(Path::new(name));
        assert_eq!(of("/usr/lib/jvm/lib/server/libjvm.so"), Some("Java's own TLS"));
        assert_eq!(of("/usr/lib/x86_64-linux-gnu/libwolfssl.so.35"), Some("wolfSSL"));
        assert_eq!(of("/usr/lib/x86_64-linux-gnu/libssl.so.3"), None);
    }
}
