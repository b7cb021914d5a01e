//! Paths only, for systems without folder descriptors, owners and modes. These only read and compare captures.

use super::{FileOwner, ReservedFile};
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

#[derive(Debug)]
pub struct PortableFolder {
    path: PathBuf,
    /// This run created the folder.
    pub is_new: bool,
}

impl PortableFolder {
    /// Opens the folder, or creates it and its missing parents. Ignores mode and owner.
    pub fn open_or_make(path: &Path, mode: u32, owner: Option<FileOwner>) -> io::Result<Self> {
        match Self::make(path, mode, owner) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                if !fs::symlink_metadata(path)?.is_dir() {
                    return Err(io::ErrorKind::NotADirectory.into());
                }
                Ok(Self { path: path.to_owned(), is_new: false })
            }
            made => made,
        }
    }

    /// Creates the folder and its missing parents. Ignores mode and owner.
    pub fn make(path: &Path, _mode: u32, _owner: Option<FileOwner>) -> io::Result<Self> {
        if let Some(above) = path.parent().filter(|above| !above.as_os_str().is_empty()) {
            fs::create_dir_all(above)?;
        }
        fs::create_dir(path)?;
        Ok(Self { path: path.to_owned(), is_new: true })
    }

    /// Returns the path as the user named it.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Always succeeds: these systems have no captures that would lock it.
    #[expect(clippy::unused_self, reason = "the other systems' folder has a lock")]
    pub fn lock(&self) -> bool {
        true
    }

    /// Returns whether the folder has an entry of this name, even a dangling link.
    pub fn holds(&self, name: &str) -> bool {
        fs::symlink_metadata(self.path.join(name)).is_ok()
    }

    /// Returns whether there is a file of this name that starts with these bytes.
    pub fn holds_start(&self, name: &str, start: &[u8]) -> bool {
        let mut found = vec![0; start.len()];
        let read = File::open(self.path.join(name)).and_then(|mut file| file.read_exact(&mut found));
        read.is_ok() && found == start
    }

    /// Creates a new file. Ignores the mode.
    pub fn create(&self, name: &str, _mode: u32) -> io::Result<File> {
        File::options().read(true).write(true).create_new(true).open(self.path.join(name))
    }

    /// Writes a whole file. An existing one is replaced atomically or left as it was.
    pub fn write(&self, name: &str, bytes: &[u8]) -> io::Result<PathBuf> {
        let part = format!(".{name}.{}", std::process::id());
        let reserved = ReservedFile { file: self.create(&part, 0)?, name: part.into() };
        self.write_reserved(reserved, name, bytes)
    }

    /// Reserves space for a file of this size, under a temporary name.
    pub fn reserve(&self, name: &str, bytes: u64) -> io::Result<ReservedFile> {
        let mut reserved = ReservedFile { file: self.create(name, 0)?, name: name.into() };
        io::copy(&mut io::repeat(0xff).take(bytes), &mut reserved.file)?;
        Ok(reserved)
    }

    /// Writes a file into its reserved space and gives it its name. Leaves nothing behind on failure.
    pub fn write_reserved(&self, mut reserved: ReservedFile, name: &str, bytes: &[u8]) -> io::Result<PathBuf> {
        let path = self.path.join(name);
        let written = reserved.fill(bytes);
        let ReservedFile { file, name: part } = reserved;
        // Some systems cannot rename an open file.
        drop(file);
        let renamed = written.and_then(|()| fs::rename(self.path.join(&part), &path));
        renamed.inspect_err(|_| drop(fs::remove_file(self.path.join(&part)))).map(|()| path)
    }

    /// Removes a file or a link, if it exists.
    pub fn remove(&self, name: &str) -> io::Result<()> {
        match fs::remove_file(self.path.join(name)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }
}

/// Writes a file that the user named. Fails if it exists, unless it `replaces` one.
pub fn write_named(path: &Path, bytes: &[u8], _owner: Option<FileOwner>, replaces: bool) -> io::Result<()> {
    let mut file = if replaces { File::create(path) } else { File::create_new(path) }?;
    file.write_all(bytes)
}

/// Opens a file that grows while it is written. Ignores mode and owner.
pub fn open_named(path: &Path, _mode: u32, _owner: Option<FileOwner>) -> io::Result<File> {
    File::create(path)
}

/// Opens a temporary file beside another, deleted on close.
pub fn open_scratch(beside: &Path) -> io::Result<File> {
    let mut name = std::ffi::OsString::from(".");
    name.push(beside.file_name().ok_or(io::ErrorKind::InvalidFilename)?);
    name.push(format!(".{}", std::process::id()));
    let path = beside.with_file_name(name);
    let file = File::options().read(true).write(true).create_new(true).open(&path)?;
    fs::remove_file(path)?;
    Ok(file)
}
