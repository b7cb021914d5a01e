//! By an open folder, whatever happens to its path.

use super::FileOwner;
use rustix::fs::{
    AtFlags, FallocateFlags, FileType, FlockOperation, Gid, Mode, OFlags, Uid, fallocate, fchown, flock, fstat, fsync,
    mkdir, open, openat, renameat, statat, unlinkat,
};
use rustix::io::Errno;
use std::fs::File;
use std::io::{self, Read, Seek, Write};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

impl FileOwner {
    /// Gives an open file or folder to this owner.
    ///
    /// # Errors
    ///
    /// The system's, where this process may not.
    pub fn take(self, file: impl rustix::fd::AsFd) -> io::Result<()> {
        Ok(fchown(file, Some(Uid::from_raw(self.uid)), Some(Gid::from_raw(self.gid)))?)
    }
}

/// An open folder: what happens to its path from here on does not matter.
#[derive(Debug)]
pub struct OutputFolder {
    path: PathBuf,
    folder: OwnedFd,
    owner: Option<FileOwner>,
    is_new: bool,
}

/// Room on the disk for a file that is yet to be written.
#[derive(Debug)]
pub struct Reserved {
    file: File,
    name: String,
}

impl OutputFolder {
    /// Makes the folder, and those above it that are missing; or opens the one that is there.
    ///
    /// # Errors
    ///
    /// The system's; a symbolic link in the folder's place is [`io::ErrorKind::NotADirectory`].
    pub fn open_or_make(path: &Path, mode: u32, owner: Option<FileOwner>) -> io::Result<Self> {
        match Self::make(path, mode, owner) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                Ok(Self { path: path.to_owned(), folder: opened(path)?, owner, is_new: false })
            }
            made => made,
        }
    }

    /// Makes the folder, and those above it that are missing.
    ///
    /// # Errors
    ///
    /// [`io::ErrorKind::AlreadyExists`] where something of this name is there; else the system's.
    pub fn make(path: &Path, mode: u32, owner: Option<FileOwner>) -> io::Result<Self> {
        let above: Vec<&Path> = path.ancestors().skip(1).filter(|above| !above.as_os_str().is_empty()).collect();
        for folder in above.into_iter().rev().filter(|folder| !folder.exists()) {
            match make_one(folder, 0o777, owner) {
                Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
                _ => {}
            }
        }
        let folder = make_one(path, mode, owner)?;
        Ok(Self { path: path.to_owned(), folder, owner, is_new: true })
    }

    /// Returns the path as the user named it.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns whether this run made the folder.
    pub fn is_new(&self) -> bool {
        self.is_new
    }

    /// Returns whether somebody has removed the folder: nothing can be put into it any more.
    pub fn is_gone(&self) -> bool {
        fstat(&self.folder).is_ok_and(|it| it.st_nlink == 0)
    }

    /// Returns to whom what is written belongs; `None` for whoever runs this process.
    pub fn owner(&self) -> Option<FileOwner> {
        self.owner
    }

    /// Keeps others from using the folder as long as this lives. False where another process does already.
    pub fn lock(&self) -> bool {
        // A file system without locks has nobody who holds one.
        !matches!(flock(&self.folder, FlockOperation::NonBlockingLockExclusive), Err(Errno::WOULDBLOCK))
    }

    /// Returns whether there is anything of this name in the folder, be it a link that leads nowhere.
    pub fn holds(&self, name: &str) -> bool {
        statat(&self.folder, name, AtFlags::SYMLINK_NOFOLLOW).is_ok()
    }

    /// Returns whether there is a file of this name that starts with these bytes.
    pub fn holds_start(&self, name: &str, start: &[u8]) -> bool {
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let Ok(file) = openat(&self.folder, name, flags, Mode::empty()) else { return false };
        let mut found = vec![0; start.len()];
        File::from(file).read_exact(&mut found).is_ok() && found == start
    }

    /// Creates a file that is not there yet.
    ///
    /// # Errors
    ///
    /// [`io::ErrorKind::AlreadyExists`] where something of this name is there; else the system's.
    pub fn create(&self, name: &str, mode: u32) -> io::Result<File> {
        let flags = OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::RDWR | OFlags::CLOEXEC;
        let file = openat(&self.folder, name, flags, Mode::from_raw_mode(mode))?;
        if let Some(owner) = self.owner {
            owner.take(&file)?;
        }
        Ok(File::from(file))
    }

    /// Writes a file whole: one that is there is replaced at once, or stays as it was.
    ///
    /// # Errors
    ///
    /// The system's.
    pub fn write(&self, name: &str, bytes: &[u8]) -> io::Result<PathBuf> {
        let part = format!(".{name}.{}", std::process::id());
        let reserved = Reserved { file: self.create(&part, 0o666)?, name: part };
        self.write_reserved(reserved, name, bytes)
    }

    /// Takes room for a file of as many bytes, under a name of its own.
    ///
    /// # Errors
    ///
    /// [`io::ErrorKind::StorageFull`] where there is not so much; [`io::ErrorKind::AlreadyExists`] where something of this
    /// name is there; else the system's.
    pub fn reserve(&self, name: &str, bytes: u64) -> io::Result<Reserved> {
        let reserved = Reserved { file: self.create(name, 0o666)?, name: name.to_owned() };
        match allocate(&reserved.file, bytes) {
            Ok(()) => Ok(reserved),
            Err(error) => {
                self.remove(name)?;
                Err(error)
            }
        }
    }

    /// Writes a file into the room that was taken for it, and gives it its name.
    ///
    /// # Errors
    ///
    /// The system's. Nothing is left behind then.
    pub fn write_reserved(&self, reserved: Reserved, name: &str, bytes: &[u8]) -> io::Result<PathBuf> {
        let Reserved { mut file, name: part } = reserved;
        let mut written = || {
            file.rewind()?;
            file.write_all(bytes)?;
            file.set_len(bytes.len() as u64)?;
            fsync(&file)?;
            renameat(&self.folder, &*part, &self.folder, name)?;
            // The name is as durable as the file. A file system that cannot do this has no need to.
            let _ = fsync(&self.folder);
            Ok(self.path.join(name))
        };
        written().inspect_err(|_| drop(self.remove(&part)))
    }

    /// Removes a file, or a link, if there is any of this name.
    ///
    /// # Errors
    ///
    /// The system's; a folder is not removed.
    pub fn remove(&self, name: &str) -> io::Result<()> {
        match unlinkat(&self.folder, name, AtFlags::empty()) {
            Err(Errno::NOENT) | Ok(()) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }
}

fn make_one(path: &Path, mode: u32, owner: Option<FileOwner>) -> io::Result<OwnedFd> {
    mkdir(path, Mode::from_raw_mode(mode))?;
    let folder = opened(path)?;
    if let Some(owner) =
        owner.filter(|_| fstat(&folder).is_ok_and(|it| it.st_uid == rustix::process::geteuid().as_raw()))
    {
        owner.take(&folder)?;
    }
    Ok(folder)
}

fn opened(path: &Path) -> io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    Ok(open(path, flags, Mode::empty())?)
}

/// Takes room on the disk; by writing, where the file system has no other way.
fn allocate(mut file: &File, bytes: u64) -> io::Result<()> {
    match fallocate(file, FallocateFlags::empty(), 0, bytes) {
        Err(Errno::OPNOTSUPP | Errno::NOSYS) => {
            io::copy(&mut io::repeat(0xff).take(bytes), &mut file)?;
            Ok(fsync(file)?)
        }
        allocated => Ok(allocated?),
    }
}

/// Opens the file that packets are to go to alone, as `-w` names it: for its owner's eyes, and not through a link to a file.
/// What is no regular file, such as a pipe or `/dev/null`, is taken as it is.
///
/// # Errors
///
/// The system's; a link to a file is an error.
pub fn open_private(path: &Path, owner: Option<FileOwner>) -> io::Result<File> {
    let is_special =
        rustix::fs::stat(path).is_ok_and(|it| FileType::from_raw_mode(it.st_mode) != FileType::RegularFile);
    if is_special {
        return File::options().write(true).open(path);
    }
    let flags = OFlags::CREATE | OFlags::WRONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let file = File::from(open(path, flags, Mode::from_raw_mode(0o600)).map_err(|error| match error {
        Errno::LOOP => io::Error::other("it is a symbolic link: name the file that it leads to"),
        error => error.into(),
    })?);
    file.set_len(0)?;
    // The packets of another's file are that other's to show; those of one's own are nobody else's.
    let _ = rustix::fs::fchmod(&file, Mode::from_raw_mode(0o600));
    if let Some(owner) = owner.filter(|_| fstat(&file).is_ok_and(|it| it.st_uid == rustix::process::geteuid().as_raw()))
    {
        owner.take(&file)?;
    }
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::{PermissionsExt, symlink};

    struct ScratchFolder(PathBuf);

    impl ScratchFolder {
        fn new(name: &str) -> Self {
            let path = std::env::temp_dir().join(format!("overhead-folder-{}-{name}", std::process::id()));
            fs::create_dir_all(&path).unwrap();
            Self(path)
        }
    }

    impl Drop for ScratchFolder {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn a_folder_is_made_once() {
        let scratch = ScratchFolder::new("once");
        let path = scratch.0.join("deep/run");
        let folder = OutputFolder::make(&path, 0o700, None).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o700);
        assert!(folder.is_new() && folder.lock());
        assert_eq!(OutputFolder::make(&path, 0o700, None).unwrap_err().kind(), io::ErrorKind::AlreadyExists);
        let second = OutputFolder::open_or_make(&path, 0o700, None).unwrap();
        assert!(!second.is_new() && !second.lock(), "the first one holds it");
        drop(folder);
        assert!(second.lock());
        assert!(!second.is_gone());
        fs::remove_dir(&path).unwrap();
        assert!(second.is_gone());
    }

    #[test]
    fn a_planted_link_is_not_followed() {
        let scratch = ScratchFolder::new("planted");
        let (victim, path) = (scratch.0.join("victim"), scratch.0.join("run"));
        fs::write(&victim, "precious").unwrap();
        let folder = OutputFolder::make(&path, 0o700, None).unwrap();
        symlink(&victim, path.join("packets")).unwrap();
        assert_eq!(folder.create("packets", 0o600).unwrap_err().kind(), io::ErrorKind::AlreadyExists);
        folder.write("packets", b"ours").unwrap();
        assert_eq!(fs::read_to_string(&victim).unwrap(), "precious");
        assert!(fs::symlink_metadata(path.join("packets")).unwrap().is_file(), "the link was replaced");
        symlink(&victim, path.join("direct")).unwrap();
        assert!(open_private(&path.join("direct"), None).unwrap_err().to_string().contains("symbolic link"));
        symlink(&path, scratch.0.join("link")).unwrap();
        assert!(OutputFolder::open_or_make(&scratch.0.join("link"), 0o700, None).is_err(), "nor in the folder's place");
        assert_eq!(fs::read_to_string(&victim).unwrap(), "precious");
    }

    #[test]
    fn a_file_is_written_whole_into_the_room_taken_for_it() {
        let scratch = ScratchFolder::new("reserved");
        let folder = OutputFolder::open_or_make(&scratch.0, 0o700, None).unwrap();
        let reserved = folder.reserve(".part", 1 << 20).unwrap();
        assert_eq!(fs::metadata(scratch.0.join(".part")).unwrap().len(), 1 << 20);
        let path = folder.write_reserved(reserved, "record", b"{}").unwrap();
        assert_eq!(fs::read_to_string(path).unwrap(), "{}");
        assert!(!folder.holds(".part") && folder.holds_start("record", b"{"));
    }

    #[test]
    fn packets_are_for_their_owners_eyes() {
        let scratch = ScratchFolder::new("private");
        let path = scratch.0.join("old.pcapng");
        fs::write(&path, "of an earlier capture").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
        open_private(&path, None).unwrap().write_all(b"new").unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "new");
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        open_private(Path::new("/dev/null"), None).unwrap();
    }
}
