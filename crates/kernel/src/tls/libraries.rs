//! Finds OpenSSL or BoringSSL in a process, and other TLS libraries.
//!
//! Shared libraries are found in the process's memory map, static ones by the program's symbols. Files are opened
//! through the process's root, to find files in containers.

use crate::skeleton::tls_types::tls_function;
use object::{Object, ObjectSection, ObjectSymbol};
use overhead_files::{ForeignFiles, ForeignLimits};
use procfs::FromBufRead;
use procfs::process::{MMPermissions, MMapPath, MemoryMaps, Process};
use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io::{self, Read};
use std::os::fd::AsRawFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// BoringSSL lacks `SSL_read_ex`; it and OpenSSL before 3.0 lack `SSL_sendfile`.
pub(super) const FUNCTIONS: [(&str, tls_function); 5] = [
    ("SSL_read", tls_function::TLS_READ),
    ("SSL_read_ex", tls_function::TLS_READ_EX),
    ("SSL_write", tls_function::TLS_WRITE),
    ("SSL_write_ex", tls_function::TLS_WRITE_EX),
    ("SSL_sendfile", tls_function::TLS_SENDFILE),
];
/// Frees an SSL object.
pub(super) const FREE: &str = "SSL_free";
/// A file without these is not the library.
const NEEDED: [&str; 2] = ["SSL_read", "SSL_write"];
/// Larger programs are not searched for static libraries. A program of another user than root may have a quarter of a GiB.
const LIMITS: ForeignLimits = ForeignLimits { file_bytes: 1 << 30, files: 4_096, bytes: 1 << 30 };
/// Beginnings of the names of other TLS libraries.
const OTHERS: [(&str, &str); 6] = [
    ("libjvm.so", "Java's own TLS"),
    ("libgnutls.so", "GnuTLS"),
    ("libssl3.so", "NSS"),
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
    /// The functions of [`FUNCTIONS`] and [`FREE`] that it defines.
    pub(super) functions: BTreeSet<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct ProcessEncryption {
    pub(super) libraries: Vec<TlsLibrary>,
    /// Other TLS libraries, by name.
    pub(super) others: BTreeSet<&'static str>,
}

/// Examines each file once.
#[derive(Debug, Default)]
pub(super) struct LibraryFinder {
    /// Keeps the libraries' paths valid.
    open: Vec<File>,
    known: BTreeMap<FileId, (Option<TlsLibrary>, BTreeSet<&'static str>)>,
}

impl LibraryFinder {
    pub(super) fn of_process(&mut self, pid: u32) -> io::Result<ProcessEncryption> {
        let process = Process::new(pid.cast_signed()).map_err(io::Error::other)?;
        let maps = maps(pid)?;
        let mut found = ProcessEncryption::default();
        let mut seen = BTreeSet::new();
        let (files, root) = (ForeignFiles::new(LIMITS), PathBuf::from(format!("/proc/{pid}/root")));
        let program = process.exe().ok();
        let program = program.as_ref().map(|program| program.to_string_lossy());
        for map in &maps {
            let MMapPath::Path(name) = &map.pathname else { continue };
            let is_program = program.as_deref() == name.to_str();
            let is_code = map.perms.contains(MMPermissions::EXECUTE);
            if !is_program && other_by_name(name).is_none() && !may_be_openssl(name) && !is_code {
                continue;
            }
            if !seen.insert((map.dev, map.inode)) {
                continue;
            }
            found.others.extend(other_by_name(name));
            // Leads to the running file even if it has been replaced.
            let opened = if is_program {
                files.open_mapped(&PathBuf::from(format!("/proc/{pid}/exe")), Path::new(""))
            } else {
                open_mapped(&files, &root, name, map.inode)
            };
            if let Ok(file) = opened {
                self.file(file, &name.to_string_lossy(), &mut found);
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

    fn file(&mut self, file: File, name: &str, found: &mut ProcessEncryption) {
        let Ok(about) = file.metadata() else { return };
        let id = (about.dev(), about.ino());
        let (library, others) = self.known.entry(id).or_insert_with(|| {
            let path = PathBuf::from(format!("/proc/self/fd/{}", file.as_raw_fd()));
            let (functions, others) = search_file(&file, about.len()).unwrap_or_default();
            let is_openssl = NEEDED.iter().all(|needed| functions.contains(*needed));
            self.open.extend(Some(file).filter(|_| is_openssl));
            let library = TlsLibrary { id, path, name: name.to_owned(), functions };
            (is_openssl.then_some(library), others)
        });
        if let Some(library) = library.as_ref().filter(|library| found.libraries.iter().all(|it| it.id != library.id)) {
            found.libraries.push(library.clone());
        }
        found.others.extend(others.iter());
    }
}

/// Returns a process's memory map. Bytes in file names that are not UTF-8 are replaced.
fn maps(pid: u32) -> io::Result<MemoryMaps> {
    let table = fs::read(format!("/proc/{pid}/maps"))?;
    MemoryMaps::from_buf_read(String::from_utf8_lossy(&table).as_bytes()).map_err(io::Error::other)
}

/// Opens a mapped file: through the process's root, or the same path here if it has only changed its root.
fn open_mapped(files: &ForeignFiles, root: &Path, name: &Path, inode: u64) -> io::Result<File> {
    let is_it = |file: &File| file.metadata().is_ok_and(|about| about.ino() == inode);
    let under_root = files.open_mapped(root, name);
    if under_root.as_ref().is_ok_and(is_it) {
        return under_root;
    }
    files.open_mapped(Path::new("/"), name).ok().filter(is_it).map_or(under_root, Ok)
}

/// Returns whether a file may be OpenSSL by its name. Its code need not be mapped at the moment.
fn may_be_openssl(path: &Path) -> bool {
    let name = path.file_name().map(|name| name.to_string_lossy().to_lowercase()).unwrap_or_default();
    ["ssl", "tls", "crypto", "boring"].iter().any(|part| name.contains(part))
}

/// Recognises other TLS libraries by file name.
fn other_by_name(path: &Path) -> Option<&'static str> {
    let name = path.file_name()?.to_str()?;
    OTHERS.iter().find(|(start, _)| name.starts_with(start)).map(|(_, other)| *other)
}

/// Returns the library functions that a file defines, and other TLS libraries linked into it.
fn search_file(file: &File, length: u64) -> Option<(BTreeSet<String>, BTreeSet<&'static str>)> {
    let mut bytes = Vec::new();
    // It may grow meanwhile.
    file.take(length).read_to_end(&mut bytes).ok()?;
    let file = object::File::parse(&*bytes).ok()?;
    let mut functions = BTreeSet::new();
    for symbol in file.symbols().chain(file.dynamic_symbols()).filter(ObjectSymbol::is_definition) {
        let Ok(name) = symbol.name() else { continue };
        let name = name.split('@').next().unwrap_or(name);
        if name == FREE || FUNCTIONS.iter().any(|(function, _)| *function == name) {
            functions.insert(name.to_owned());
        }
    }
    let mut others = BTreeSet::new();
    if file.section_by_name(".go.buildinfo").is_some() {
        others.insert("Go's crypto/tls");
    }
    // Texts of panics name the source files.
    let has = |texts: &[u8], part: &[u8]| memchr::memmem::find(texts, part).is_some();
    let texts = file.section_by_name(".rodata").and_then(|section| section.data().ok().map(<[u8]>::to_vec));
    if texts.is_some_and(|texts| has(&texts, b"/rustls-0.") || has(&texts, b"rustls/src/")) {
        others.insert("rustls");
    }
    Some((functions, others))
}

fn system_libraries() -> Vec<PathBuf> {
    let mut paths = Vec::new();
    for folder in LIBRARY_FOLDERS {
        let below = fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
        let below = below.filter(|path| path.is_dir() && path.to_string_lossy().contains("-linux-"));
        for folder in std::iter::once(PathBuf::from(folder)).chain(below) {
            let files = fs::read_dir(folder).into_iter().flatten().flatten();
            paths.extend(files.filter(|file| is_libssl(&file.file_name().to_string_lossy())).map(|file| file.path()));
        }
    }
    paths
}

fn is_libssl(name: &str) -> bool {
    name.starts_with("libssl.so") || name.starts_with("libssl-") || name.starts_with("libboringssl")
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
        assert!(NEEDED.iter().all(|name| library.functions.contains(*name)), "{library:?}");
        assert!(library.functions.contains(FREE), "{library:?}");
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
        assert_eq!(of("/usr/lib/x86_64-linux-gnu/libgnutls.so.30.34.3"), Some("GnuTLS"));
        assert_eq!(of("/usr/lib/x86_64-linux-gnu/libssl3.so"), Some("NSS"));
        assert_eq!(of("/usr/lib/x86_64-linux-gnu/libssl.so.3"), None);
    }
}
