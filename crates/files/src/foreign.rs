//! Reads files that other users control, without being blocked, filled or misled by them.

use rustix::fs::{Dir, FileType, Mode, OFlags, Stat, fstat, open, openat, readlinkat};
use rustix::io::Errno;
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Component, Path};

/// Links in a path, as in the kernel.
const LINKS: usize = 40;
/// Names read of a folder: engines have some thousands of containers.
const NAMES: usize = 1 << 16;
/// The share of all users together, and that of root, in shares of one user. Root's must not run out because of others.
const ALL_USERS: u64 = 4;
const ROOT: u64 = 64;

/// What one search may read.
#[derive(Clone, Copy, Debug)]
pub struct ForeignLimits {
    /// Longest file. A file of another user may only have a quarter of `bytes`.
    pub file_bytes: u64,
    /// Files and folders of each user.
    pub files: u64,
    /// Bytes of each user.
    pub bytes: u64,
}

/// Opens files during one search. Root and this process's own user are trusted: both count as user 0.
#[derive(Debug)]
pub struct ForeignFiles {
    limits: ForeignLimits,
    /// Files and bytes by user; `None` for all users together.
    spent: RefCell<BTreeMap<Option<u32>, (u64, u64)>>,
}

impl ForeignFiles {
    pub fn new(limits: ForeignLimits) -> Self {
        Self { limits, spent: RefCell::default() }
    }

    /// Reads a file below `root`, and returns the user who controls it: the owner of the file or of one of its folders.
    /// It may be `user`'s or root's only; any one user's if `None`.
    ///
    /// # Errors
    ///
    /// [`io::ErrorKind::Other`] for other owners and kinds of files, [`io::ErrorKind::QuotaExceeded`] at a limit, or the
    /// system's.
    pub fn read(&self, root: &Path, path: &Path, user: Option<u32>) -> io::Result<(Vec<u8>, u32)> {
        self.spend(user.unwrap_or(0), 0)?;
        let found = FoundFile::below(root, path)?;
        let user = found.user(user)?;
        let (mut bytes, length) = (Vec::new(), found.length());
        // It may grow meanwhile.
        self.open(&found, user)?.take(length).read_to_end(&mut bytes)?;
        Ok((bytes, user))
    }

    /// Returns the sorted names in a folder below `root`, and the user who controls it, as [`ForeignFiles::read`] does.
    pub fn list(&self, root: &Path, path: &Path, user: Option<u32>) -> io::Result<(Vec<OsString>, u32)> {
        self.spend(user.unwrap_or(0), 0)?;
        let found = FoundFile::below(root, path)?;
        let user = found.user(user)?;
        let folder = openat(&found.file, ".", OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
        let names = Dir::new(folder)?.flatten().map(|entry| entry.file_name().to_bytes().to_vec());
        let names = names.filter(|name| name != b"." && name != b"..").take(NAMES);
        let mut names: Vec<OsString> = names.map(OsString::from_vec).collect();
        names.sort();
        Ok((names, user))
    }

    /// Opens a file below `root` whoever owns it, because a process of theirs has it mapped.
    pub fn open_mapped(&self, root: &Path, path: &Path) -> io::Result<File> {
        let found = FoundFile::below(root, path)?;
        self.open(&found, found.owners.first().copied().unwrap_or(0))
    }

    /// Opens a regular file for reading. Never waits: not for a FIFO's writer, and not for the holder of a lease.
    fn open(&self, found: &FoundFile, user: u32) -> io::Result<File> {
        let ForeignLimits { file_bytes, bytes, .. } = self.limits;
        let most = if user == 0 { file_bytes } else { file_bytes.min(bytes / 4) };
        if FileType::from_raw_mode(found.about.st_mode) != FileType::RegularFile || found.length() > most {
            return Err(io::Error::other("it is not a regular file, or too long"));
        }
        self.spend(user, found.length())?;
        let flags = OFlags::NONBLOCK.bits().cast_signed();
        File::options().read(true).custom_flags(flags).open(format!("/proc/self/fd/{}", found.file.as_raw_fd()))
    }

    /// Returns whether this user's share has files left.
    pub fn has_left(&self, user: u32) -> bool {
        let spent = self.spent.borrow();
        let (files, _) = spent.get(&Some(user)).copied().unwrap_or_default();
        files < self.limits.files * if user == 0 { ROOT } else { 1 }
    }

    /// Counts a file for a user.
    fn spend(&self, user: u32, length: u64) -> io::Result<()> {
        let shares = if user == 0 { vec![(Some(0), ROOT)] } else { vec![(Some(user), 1), (None, ALL_USERS)] };
        let mut spent = self.spent.borrow_mut();
        for (user, share) in shares {
            let (files, bytes) = spent.entry(user).or_default();
            (*files, *bytes) = (*files + 1, bytes.saturating_add(length));
            if *files > self.limits.files * share || *bytes > self.limits.bytes * share {
                return Err(io::ErrorKind::QuotaExceeded.into());
            }
        }
        Ok(())
    }
}

/// A file that is found but not opened for reading (`O_PATH`), so nothing waits and no device acts.
struct FoundFile {
    file: OwnedFd,
    about: Stat,
    /// Users other than root who own the file or a folder of its path.
    owners: BTreeSet<u32>,
}

impl FoundFile {
    /// Walks a path step by step, so that no name can be exchanged meanwhile. Follows only links that root made, and
    /// never out of `root`.
    fn below(root: &Path, path: &Path) -> io::Result<Self> {
        let flags = OFlags::PATH | OFlags::CLOEXEC;
        let mut found = vec![open(root, flags, Mode::empty())?];
        let (mut left, mut links) = (Vec::new(), 0);
        let mut owners = BTreeSet::new();
        push_steps(&mut left, path);
        while let (Some(step), Some(folder)) = (left.pop(), found.last()) {
            if step == ".." {
                found.truncate(found.len().saturating_sub(1).max(1));
                continue;
            }
            let next = openat(folder, &step, flags | OFlags::NOFOLLOW, Mode::empty())?;
            let about = fstat(&next)?;
            if FileType::from_raw_mode(about.st_mode) != FileType::Symlink {
                owners.insert(about.st_uid);
                found.push(next);
                continue;
            }
            links += 1;
            if !is_trusted(about.st_uid) || links > LINKS {
                return Err(Errno::LOOP.into());
            }
            let target = readlinkat(&next, "", Vec::new())?;
            let target = Path::new(OsStr::from_bytes(target.to_bytes()));
            found.truncate(if target.is_absolute() { 1 } else { found.len() });
            push_steps(&mut left, target);
        }
        let file = found.pop().ok_or(Errno::NOENT)?;
        let about = fstat(&file)?;
        owners.insert(about.st_uid);
        owners.retain(|owner| !is_trusted(*owner));
        Ok(Self { file, about, owners })
    }

    /// Returns the one user who controls the file, who must be `user` if that is given.
    fn user(&self, user: Option<u32>) -> io::Result<u32> {
        let mut users = self.owners.iter().copied().chain(user.filter(|user| *user != 0)).collect::<BTreeSet<_>>();
        let only = users.pop_first().unwrap_or(0);
        let is_open = self.about.st_mode & 0o002 != 0;
        if !users.is_empty() || (user == Some(0) && only != 0) || is_open {
            return Err(io::Error::other("another user controls it"));
        }
        Ok(only)
    }

    fn length(&self) -> u64 {
        u64::try_from(self.about.st_size).unwrap_or(u64::MAX)
    }
}

/// Returns whether files of this owner are the program's own: root's, or this process's user's.
pub fn is_trusted(owner: u32) -> bool {
    owner == 0 || owner == rustix::process::geteuid().as_raw()
}

/// Adds the steps of a path, the first on top.
fn push_steps(left: &mut Vec<OsString>, path: &Path) {
    let is_step = |step: &Component<'_>| matches!(step, Component::Normal(_) | Component::ParentDir);
    left.extend(path.components().rev().filter(is_step).map(|step| step.as_os_str().to_owned()));
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::{chown, symlink};
    use std::path::PathBuf;

    const LIMITS: ForeignLimits = ForeignLimits { file_bytes: 1 << 20, files: 4, bytes: 4_000 };
    const USER: u32 = 60_001;
    const OTHER: u32 = 60_002;

    struct Scratch(PathBuf);

    impl Scratch {
        fn new(name: &str) -> Self {
            let path = std::env::temp_dir().join(format!("overhead-foreign-{}-{name}", std::process::id()));
            fs::create_dir_all(&path).unwrap();
            Self(path)
        }

        /// Makes a file of a user, or returns false without the right to.
        fn put(&self, name: &str, length: usize, user: u32) -> bool {
            let path = self.0.join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(&path, vec![b'a'; length]).unwrap();
            chown(&path, Some(user), None).is_ok()
        }

        fn read(&self, files: &ForeignFiles, name: &str, user: Option<u32>) -> Result<(usize, u32), io::ErrorKind> {
            let read = files.read(&self.0, Path::new(name), user);
            read.map(|(bytes, user)| (bytes.len(), user)).map_err(|error| error.kind())
        }
    }

    impl Drop for Scratch {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn only_regular_files_are_opened() {
        let scratch = Scratch::new("kinds");
        let files = ForeignFiles::new(LIMITS);
        rustix::fs::mknodat(rustix::fs::CWD, scratch.0.join("fifo"), FileType::Fifo, Mode::RWXU, 0).unwrap();
        symlink("/dev/zero", scratch.0.join("zero")).unwrap();
        fs::create_dir(scratch.0.join("folder")).unwrap();
        for name in ["fifo", "zero", "folder", "none", "../none", ""] {
            assert!(scratch.read(&files, name, None).is_err(), "{name}");
        }
        assert!(files.open_mapped(&scratch.0, Path::new("fifo")).is_err());
        assert!(files.open_mapped(Path::new("/dev/zero"), Path::new("")).is_err());
        assert!(files.open_mapped(&scratch.0.join("fifo"), Path::new("")).is_err());
    }

    #[test]
    fn links_of_ours_stay_below_the_root() {
        let scratch = Scratch::new("links");
        let files = ForeignFiles::new(LIMITS);
        scratch.put("real/deep/file", 3, 0);
        symlink("/real", scratch.0.join("absolute")).unwrap();
        symlink("../../../../real/deep", scratch.0.join("real/up")).unwrap();
        symlink("loop", scratch.0.join("loop")).unwrap();
        for name in ["absolute/deep/file", "real/up/file", "/absolute/up/file"] {
            assert_eq!(scratch.read(&files, name, None), Ok((3, 0)), "{name}");
        }
        assert!(scratch.read(&files, "loop", None).is_err());
        assert_eq!(files.list(&scratch.0, Path::new("absolute"), None).unwrap().0, ["deep", "up"]);
    }

    #[test]
    fn a_file_is_its_owners_or_that_of_a_folder() {
        let scratch = Scratch::new("owners");
        if !scratch.put("users/file", 3, USER) {
            println!("skipped: it takes root's rights");
            return;
        }
        let files = ForeignFiles::new(ForeignLimits { files: 100, ..LIMITS });
        let denied = Err(io::ErrorKind::Other);
        scratch.put("users/others", 3, OTHER);
        scratch.put("users/roots", 3, 0);
        scratch.put("own", 3, 0);
        chown(scratch.0.join("users"), Some(USER), None).unwrap();
        symlink("own", scratch.0.join("link")).unwrap();
        rustix::fs::chownat(
            rustix::fs::CWD,
            scratch.0.join("link"),
            Some(rustix::fs::Uid::from_raw(USER)),
            None,
            rustix::fs::AtFlags::SYMLINK_NOFOLLOW,
        )
        .unwrap();
        for (name, user, wanted) in [
            ("users/file", None, Ok((3, USER))),
            ("users/file", Some(USER), Ok((3, USER))),
            ("users/file", Some(OTHER), denied),
            ("users/file", Some(0), denied),
            ("users/roots", None, Ok((3, USER))),
            ("users/others", None, denied),
            ("own", None, Ok((3, 0))),
            ("own", Some(USER), Ok((3, USER))),
        ] {
            assert_eq!(scratch.read(&files, name, user), wanted, "{name} {user:?}");
        }
        assert!(scratch.read(&files, "link", None).is_err(), "a user's link");
        fs::set_permissions(scratch.0.join("own"), std::os::unix::fs::PermissionsExt::from_mode(0o666)).unwrap();
        assert_eq!(scratch.read(&files, "own", None), denied, "anybody's");
    }

    #[test]
    fn one_user_cannot_use_up_the_share_of_another() {
        let scratch = Scratch::new("shares");
        if !scratch.put("small", 10, USER) {
            println!("skipped: it takes root's rights");
            return;
        }
        scratch.put("long", 1_001, USER);
        scratch.put("other", 10, OTHER);
        scratch.put("own", 10, 0);
        let files = ForeignFiles::new(LIMITS);
        assert!(scratch.read(&files, "long", None).is_err(), "a quarter of the user's bytes");
        assert_eq!(scratch.read(&files, "small", Some(USER)), Ok((10, USER)));
        assert_eq!(scratch.read(&files, "none", Some(USER)), Err(io::ErrorKind::NotFound));
        assert!(files.has_left(USER) && scratch.read(&files, "small", None).is_ok() && !files.has_left(USER));
        assert_eq!(scratch.read(&files, "small", Some(USER)), Err(io::ErrorKind::QuotaExceeded));
        assert_eq!(scratch.read(&files, "other", Some(OTHER)), Ok((10, OTHER)));
        assert_eq!(scratch.read(&files, "own", None), Ok((10, 0)));
    }
}
