//! Works on an open folder, whatever happens to its path.

use super::foreign::is_trusted;
use super::{FileOwner, ReservedFile};
use rustix::fs::{
    AtFlags, Dir, FallocateFlags, FileType, FlockOperation, Gid, Mode, OFlags, RenameFlags, Uid, fallocate, fchown,
    flock, fstat, fsync, mkdir, mkdirat, open, openat, renameat, renameat_with, statat, unlinkat,
};
use rustix::io::Errno;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

const FOLDER: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

impl FileOwner {
    /// Gives an open file or folder to this owner.
    pub fn take(self, file: impl AsFd) -> io::Result<()> {
        Ok(fchown(file, Some(Uid::from_raw(self.uid)), Some(Gid::from_raw(self.gid)))?)
    }
}

/// An open folder. Later changes of its path have no effect.
#[derive(Debug)]
pub struct OutputFolder {
    path: PathBuf,
    folder: OwnedFd,
    /// The owner of written files; `None` for this process's user.
    pub owner: Option<FileOwner>,
    /// Mode of its files before the umask. Files in a private folder are private.
    file_mode: u32,
    /// This run created the folder.
    pub is_new: bool,
}

impl OutputFolder {
    /// Opens the folder, or creates it and its missing parents.
    ///
    /// # Errors
    ///
    /// [`io::ErrorKind::NotADirectory`] for a symbolic link, or the system's.
    pub fn open_or_make(path: &Path, mode: u32, owner: Option<FileOwner>) -> io::Result<Self> {
        match Self::make(path, mode, owner) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(Self {
                path: path.to_owned(),
                folder: open_folder(path)?,
                owner,
                file_mode: mode & 0o666,
                is_new: false,
            }),
            made => made,
        }
    }

    /// Creates the folder and its missing parents.
    ///
    /// # Errors
    ///
    /// [`io::ErrorKind::AlreadyExists`], or the system's.
    pub fn make(path: &Path, mode: u32, owner: Option<FileOwner>) -> io::Result<Self> {
        let above: Vec<&Path> = path.ancestors().skip(1).filter(|above| !above.as_os_str().is_empty()).collect();
        for folder in above.into_iter().rev().filter(|folder| !folder.exists()) {
            match create_folder(folder, 0o777, owner) {
                Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
                _ => {}
            }
        }
        let folder = create_folder(path, mode, owner)?;
        Ok(Self { path: path.to_owned(), folder, owner, file_mode: mode & 0o666, is_new: true })
    }

    /// Opens a folder below `root`, or creates it and its parents for their owner alone; follows no link below `root`. If
    /// `root` hands its group on (the set-group-ID bit), the group may read as well.
    ///
    /// # Errors
    ///
    /// [`io::ErrorKind::NotADirectory`] for a symbolic link, or the system's.
    pub fn below(root: &Path, path: &Path) -> io::Result<Self> {
        if !root.exists() {
            Self::make(root, 0o700, None)?;
        }
        let mut folder = open(root, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
        let mode = if fstat(&folder)?.st_mode & 0o2000 == 0 { 0o700 } else { 0o2750 };
        for step in path.components() {
            match mkdirat(&folder, step.as_os_str(), Mode::from_raw_mode(mode)) {
                Err(Errno::EXIST) | Ok(()) => {}
                Err(error) => return Err(error.into()),
            }
            folder = openat(&folder, step.as_os_str(), FOLDER, Mode::empty())?;
        }
        Ok(Self { path: root.join(path), folder, owner: None, file_mode: mode & 0o640, is_new: false })
    }

    /// Returns the path as the user named it.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns whether the folder was removed, so that nothing can be written into it.
    pub fn is_gone(&self) -> bool {
        fstat(&self.folder).is_ok_and(|it| it.st_nlink == 0)
    }

    /// Returns why another user could change what is in the folder; `None` if only root and this process's user can.
    pub fn intruder(&self) -> io::Result<Option<String>> {
        let about = fstat(&self.folder)?;
        let path = self.path.display();
        Ok(if !is_trusted(about.st_uid) {
            Some(format!("{path} belongs to user {}: remove it, or change its owner", about.st_uid))
        } else if about.st_mode & 0o022 != 0 {
            Some(format!("{path} is writable by other users: run chmod go-w {path}"))
        } else {
            None
        })
    }

    /// Locks the folder until this is dropped. Returns false if another process holds the lock.
    pub fn lock(&self) -> bool {
        // A file system without locks has no lock holders.
        !matches!(flock(&self.folder, FlockOperation::NonBlockingLockExclusive), Err(Errno::WOULDBLOCK))
    }

    /// Returns whether the folder has an entry of this name, even a dangling link.
    pub fn holds(&self, name: &str) -> bool {
        statat(&self.folder, name, AtFlags::SYMLINK_NOFOLLOW).is_ok()
    }

    /// Returns whether there is a file of this name that starts with these bytes.
    pub fn holds_start(&self, name: &str, start: &[u8]) -> bool {
        let mut found = vec![0; start.len()];
        self.open(name).and_then(|mut file| file.read_exact(&mut found)).is_ok() && found == start
    }

    /// Opens an entry for reading, without waiting for a FIFO.
    pub fn open(&self, name: &str) -> io::Result<File> {
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        Ok(File::from(openat(&self.folder, name, flags, Mode::empty())?))
    }

    /// Creates a new file under a temporary name, as private as the folder. Replaces one that was left behind.
    pub fn create_temporary(&self, name: &str) -> io::Result<File> {
        self.remove(name)?;
        self.create(name, self.file_mode)
    }

    /// Gives a file another name. Replaces a file or a link of that name.
    pub fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        Ok(renameat(&self.folder, from, &self.folder, to)?)
    }

    /// Creates a new file.
    ///
    /// # Errors
    ///
    /// [`io::ErrorKind::AlreadyExists`], or the system's.
    pub fn create(&self, name: &str, mode: u32) -> io::Result<File> {
        create_file(&self.folder, OsStr::new(name), mode, self.owner)
    }

    /// Writes a whole file. An existing one is replaced atomically or left as it was.
    pub fn write(&self, name: &str, bytes: &[u8]) -> io::Result<PathBuf> {
        let (file, part) = create_part(&self.folder, OsStr::new(name), self.file_mode, self.owner)?;
        self.write_reserved(ReservedFile { file, name: part }, name, bytes)
    }

    /// Reserves space for a file of this size, under a temporary name.
    ///
    /// # Errors
    ///
    /// [`io::ErrorKind::StorageFull`], [`io::ErrorKind::AlreadyExists`], or the system's.
    pub fn reserve(&self, name: &str, bytes: u64) -> io::Result<ReservedFile> {
        let reserved = ReservedFile { file: self.create(name, self.file_mode)?, name: name.into() };
        match allocate(&reserved.file, bytes) {
            Ok(()) => Ok(reserved),
            Err(error) => {
                self.remove(name)?;
                Err(error)
            }
        }
    }

    /// Writes a file into its reserved space and gives it its name. Leaves nothing behind on failure.
    pub fn write_reserved(&self, mut reserved: ReservedFile, name: &str, bytes: &[u8]) -> io::Result<PathBuf> {
        let part = reserved.name.clone();
        let mut written = || {
            reserved.fill(bytes)?;
            renameat(&self.folder, &part, &self.folder, name)?;
            // Makes the name durable. File systems that cannot do this do not need it.
            let _ = fsync(&self.folder);
            Ok(self.path.join(name))
        };
        written().inspect_err(|_| discard(&self.folder, &part))
    }

    /// Removes a file or a link, if it exists.
    pub fn remove(&self, name: &str) -> io::Result<()> {
        match unlinkat(&self.folder, name, AtFlags::empty()) {
            Err(Errno::NOENT) | Ok(()) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }
}

impl AsFd for OutputFolder {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.folder.as_fd()
    }
}

fn create_folder(path: &Path, mode: u32, owner: Option<FileOwner>) -> io::Result<OwnedFd> {
    mkdir(path, Mode::from_raw_mode(mode))?;
    let folder = open_folder(path)?;
    if let Some(owner) =
        owner.filter(|_| fstat(&folder).is_ok_and(|it| it.st_uid == rustix::process::geteuid().as_raw()))
    {
        owner.take(&folder)?;
    }
    Ok(folder)
}

fn open_folder(path: &Path) -> io::Result<OwnedFd> {
    Ok(open(path, FOLDER, Mode::empty())?)
}

/// Allocates disk space, by writing if the file system has no other way.
fn allocate(mut file: &File, bytes: u64) -> io::Result<()> {
    match fallocate(file, FallocateFlags::empty(), 0, bytes) {
        Err(Errno::OPNOTSUPP | Errno::NOSYS) => {
            io::copy(&mut io::repeat(0xff).take(bytes), &mut file)?;
            Ok(fsync(file)?)
        }
        allocated => Ok(allocated?),
    }
}

/// Opens a file that grows while it is written, such as the one of `-w`. Replaces an existing regular file, so that
/// its owners and other links get none of the content. Opens a FIFO or a device as it is.
///
/// # Errors
///
/// The system's; a symbolic link is an error.
pub fn open_named(path: &Path, mode: u32, owner: Option<FileOwner>) -> io::Result<File> {
    let (folder, name) = open_parent(path)?;
    if let OutputTarget::Special(file) = examine(&folder, name)? {
        return Ok(file);
    }
    let (file, part) = create_part(&folder, name, mode, owner)?;
    renameat(&folder, &part, &folder, name).inspect_err(|_| discard(&folder, &part))?;
    Ok(file)
}

/// Writes a whole file that the user named, or nothing. Writes to a FIFO or a device directly.
///
/// # Errors
///
/// The system's; a symbolic link is an error, and so is an existing file unless it `replaces` one.
pub fn write_named(path: &Path, bytes: &[u8], owner: Option<FileOwner>, replaces: bool) -> io::Result<()> {
    let (folder, name) = open_parent(path)?;
    match examine(&folder, name)? {
        OutputTarget::Special(mut file) => return file.write_all(bytes),
        OutputTarget::Regular if !replaces => return Err(io::ErrorKind::AlreadyExists.into()),
        OutputTarget::Regular | OutputTarget::Nothing => {}
    }
    let (mut file, part) = create_part(&folder, name, 0o666, owner)?;
    let flags = if replaces { RenameFlags::empty() } else { RenameFlags::NOREPLACE };
    let mut written = || {
        file.write_all(bytes)?;
        fsync(&file)?;
        Ok(renameat_with(&folder, &part, &folder, name, flags)?)
    };
    written().inspect_err(|_: &io::Error| discard(&folder, &part))
}

/// Opens a temporary file beside another, for its owner alone. It has no name, and is deleted on close.
pub fn open_scratch(beside: &Path) -> io::Result<File> {
    let (folder, name) = open_parent(beside)?;
    let (file, part) = create_part(&folder, name, 0o600, None)?;
    unlinkat(&folder, &part, AtFlags::empty())?;
    Ok(file)
}

/// The object that a name in a folder refers to.
enum OutputTarget {
    Nothing,
    Regular,
    /// A FIFO or a device, open for writing.
    Special(File),
}

/// Examines the entry by descriptor, because the name may change at any time.
fn examine(folder: &OwnedFd, name: &OsStr) -> io::Result<OutputTarget> {
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let found = match openat(folder, name, flags, Mode::empty()) {
        Err(Errno::NOENT) => return Ok(OutputTarget::Nothing),
        found => found?,
    };
    match FileType::from_raw_mode(fstat(&found)?.st_mode) {
        FileType::RegularFile => Ok(OutputTarget::Regular),
        FileType::Symlink => {
            Err(io::Error::other("it is a symbolic link: name the file that it leads to, or - for standard output"))
        }
        FileType::Directory => Err(io::ErrorKind::IsADirectory.into()),
        _ => {
            File::options().write(true).open(format!("/proc/self/fd/{}", found.as_raw_fd())).map(OutputTarget::Special)
        }
    }
}

/// Opens a file's folder and returns the file's name in it.
fn open_parent(path: &Path) -> io::Result<(OwnedFd, &OsStr)> {
    let name = path.file_name().ok_or(io::ErrorKind::InvalidFilename)?;
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    Ok((open(folder, flags, Mode::empty())?, name))
}

/// Creates a temporary file, to be renamed to `name`, and returns it with its current name. Removes those that ended
/// processes of ours left behind.
fn create_part(folder: &OwnedFd, name: &OsStr, mode: u32, owner: Option<FileOwner>) -> io::Result<(File, OsString)> {
    let mut start = OsString::from(".");
    start.push(name);
    start.push(".");
    remove_stale(folder, &start);
    start.push(std::process::id().to_string());
    Ok((create_file(folder, &start, mode, owner)?, start))
}

fn create_file(folder: &OwnedFd, name: &OsStr, mode: u32, owner: Option<FileOwner>) -> io::Result<File> {
    let flags = OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::RDWR | OFlags::CLOEXEC;
    let file = openat(folder, name, flags, Mode::from_raw_mode(mode))?;
    if let Some(owner) = owner {
        owner.take(&file)?;
    }
    Ok(File::from(file))
}

/// Removes an unfinished file. A failure cannot be reported.
fn discard(folder: &OwnedFd, part: &OsStr) {
    let _ = unlinkat(folder, part, AtFlags::empty());
}

/// Removes files with this prefix and the number of an ended process, or of this one.
fn remove_stale(folder: &OwnedFd, start: &OsStr) {
    let Ok(entries) = Dir::read_from(folder) else { return };
    for entry in entries.flatten() {
        let pid = entry.file_name().to_bytes().strip_prefix(start.as_bytes());
        let pid = pid.and_then(|pid| std::str::from_utf8(pid).ok()?.parse::<u32>().ok());
        let is_gone = |pid: u32| pid == std::process::id() || !Path::new("/proc").join(pid.to_string()).exists();
        if pid.is_some_and(is_gone) {
            discard(folder, OsStr::from_bytes(entry.file_name().to_bytes()));
        }
    }
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
        assert!(folder.is_new && folder.lock());
        assert_eq!(OutputFolder::make(&path, 0o700, None).unwrap_err().kind(), io::ErrorKind::AlreadyExists);
        let second = OutputFolder::open_or_make(&path, 0o700, None).unwrap();
        assert!(!second.is_new && !second.lock(), "the first one holds it");
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
        assert!(open_named(&path.join("direct"), 0o600, None).unwrap_err().to_string().contains("symbolic link"));
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
        open_named(&path, 0o600, None).unwrap().write_all(b"new").unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "new");
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        open_named(Path::new("/dev/null"), 0o600, None).unwrap();
    }

    #[test]
    fn a_file_that_is_there_is_replaced_and_its_owner_gets_nothing() {
        let scratch = ScratchFolder::new("replaced");
        let (path, other) = (scratch.0.join("packets"), scratch.0.join("other"));
        fs::write(&other, "precious").unwrap();
        fs::hard_link(&other, &path).unwrap();
        open_named(&path, 0o600, None).unwrap().write_all(b"new").unwrap();
        write_named(&scratch.0.join("text"), b"first", None, false).unwrap();
        let again = write_named(&scratch.0.join("text"), b"second", None, false).unwrap_err();
        assert_eq!(again.kind(), io::ErrorKind::AlreadyExists);
        let read = |name: &str| fs::read_to_string(scratch.0.join(name)).unwrap();
        assert_eq!([read("other"), read("packets"), read("text")], ["precious", "new", "first"]);
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(fs::read_dir(&scratch.0).unwrap().count(), 3, "nothing is left behind");
    }

    #[test]
    fn what_a_process_that_is_gone_has_left_is_removed() {
        let scratch = ScratchFolder::new("stale");
        for name in [".text.4294967294", ".text.1", ".text.mine", ".texts.4294967294"] {
            fs::write(scratch.0.join(name), "").unwrap();
        }
        write_named(&scratch.0.join("text"), b"new", None, true).unwrap();
        let mut names: Vec<_> = fs::read_dir(&scratch.0).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        names.sort();
        assert_eq!(names, [".text.1", ".text.mine", ".texts.4294967294", "text"]);
    }

    #[test]
    fn names_that_are_exchanged_all_the_time_lead_nowhere_else() {
        let scratch = ScratchFolder::new("exchanged");
        let [path, link, victim] = ["out", "swap", "victim"].map(|name| scratch.0.join(name));
        fs::write(&victim, "precious").unwrap();
        fs::write(&path, "").unwrap();
        symlink(&victim, &link).unwrap();
        let is_over = std::sync::atomic::AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !is_over.load(std::sync::atomic::Ordering::Relaxed) {
                    let _ = renameat_with(rustix::fs::CWD, &path, rustix::fs::CWD, &link, RenameFlags::EXCHANGE);
                }
            });
            for round in 0..2_000 {
                // Fails while the link has the name, and succeeds later.
                let _ = open_named(&path, 0o600, None).map(|mut file| file.write_all(b"packets"));
                let _ = write_named(&path, b"text", None, true);
                if !link.is_symlink() && !path.is_symlink() {
                    fs::remove_file(&link).unwrap();
                    symlink(&victim, &link).unwrap();
                }
                assert_eq!(fs::read_to_string(&victim).unwrap(), "precious", "round {round}");
            }
            is_over.store(true, std::sync::atomic::Ordering::Relaxed);
        });
    }
}
