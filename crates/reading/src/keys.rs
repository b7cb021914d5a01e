//! Key logs for TLS: files that are read once, or followed while they grow.

use crate::warnings::Warnings;
use anyhow::{Result, bail};
use overhead_capture::DecryptionSecrets;
use overhead_dissect::KeyLog;
use overhead_dissect::limits::KEY_LOG_BYTES;
use overhead_model::say;
use std::cell::RefCell;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
#[cfg(unix)]
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

const PIECE: usize = 64 << 10;
/// How long records wait for a client to log their keys, after their capture.
pub const PATIENCE: Duration = Duration::from_millis(20);
/// Interval between looks for a key that records wait for.
const LOOK: Duration = Duration::from_millis(1);
/// Longest line of a key log, in bytes; a longer one is not a key.
const LINE: usize = 4 << 10;

/// Key logs of TLS.
#[derive(Clone, Debug, Default)]
pub struct KeyFiles {
    /// The files to read; empty for the one that `SSLKEYLOGFILE` names.
    named: Vec<PathBuf>,
    /// Ignores the environment and secrets in captures.
    are_none: bool,
}

impl KeyFiles {
    /// Returns a choice of these key logs, or without any, of the one that `SSLKEYLOGFILE` names.
    pub fn new(named: Vec<PathBuf>) -> Self {
        Self { named, are_none: false }
    }

    /// Returns an empty choice that decrypts nothing.
    pub fn none() -> Self {
        Self { named: Vec::new(), are_none: true }
    }

    /// Returns the named files, or else the one from the environment, and whether they were named.
    fn paths(&self) -> (Vec<PathBuf>, bool) {
        if !self.named.is_empty() {
            return (self.named.clone(), true);
        }
        let from_environment = std::env::var_os("SSLKEYLOGFILE").filter(|path| !path.is_empty() && !self.are_none);
        (from_environment.map(PathBuf::from).into_iter().collect(), false)
    }
}

/// Reads key logs into a log shared with the dissection.
#[derive(Debug)]
pub struct KeyReader {
    log: Arc<KeyLog>,
    files: Vec<Followed>,
    /// Secrets from capture files that are not in the log yet.
    brought: RefCell<Vec<u8>>,
    /// Ignore secrets from capture files.
    is_deaf: bool,
}

/// A file and how far it was read.
#[derive(Debug)]
struct Followed {
    path: PathBuf,
    offset: u64,
    /// The start of an incomplete line.
    rest: Vec<u8>,
    /// A FIFO or device, kept open because its data comes only once.
    pipe: Option<File>,
    /// Reading waits for a writer to open the FIFO.
    waits: bool,
}

impl KeyReader {
    /// Reads the files to their ends, for a finished capture. The file from the environment may be missing.
    pub fn read(files: &KeyFiles, warnings: &mut Warnings) -> Result<Self> {
        let (paths, are_named) = files.paths();
        let mut reader = Self { is_deaf: files.are_none, ..Self::new(paths) };
        for file in &mut reader.files {
            let read = file.read(&reader.log);
            let secrets = match read {
                Err(_) if !are_named => continue,
                Err(error) => bail!("--keylog {}: {error}: check the path", file.path.display()),
                Ok(read) => read,
            };
            if secrets + reader.log.add(&file.rest) == 0 && are_named {
                warnings.remark(format!(
                    "{} has no secrets that are new: a key log has lines such as CLIENT_RANDOM, the random and the secret in hex digits",
                    file.path.display()
                ));
            }
        }
        Ok(reader)
    }

    /// Follows files that may appear and grow during a capture, without waiting for them.
    ///
    /// # Errors
    ///
    /// A file has no end.
    pub fn follow(files: &KeyFiles) -> Result<Self> {
        let mut reader = Self::new(files.paths().0);
        reader.files.iter_mut().for_each(|file| file.waits = false);
        look(&mut reader.files, &reader.log).map_or(Ok(reader), |endless| bail!(endless))
    }

    /// Returns a reader for the packets of a finished capture. `log` has the keys read so far; adds files that appeared late.
    pub fn read_again(files: &KeyFiles, log: Arc<KeyLog>) -> Self {
        let mut reader = Self { log, ..Self::new(files.paths().0.into_iter().filter(|path| path.is_file()).collect()) };
        let _ = look(&mut reader.files, &reader.log);
        reader
    }

    fn new(paths: Vec<PathBuf>) -> Self {
        let files = paths.into_iter().map(Followed::new);
        Self { log: Arc::default(), files: files.collect(), brought: RefCell::default(), is_deaf: false }
    }

    /// Returns the log for the dissection.
    pub fn log(&self) -> Arc<KeyLog> {
        Arc::clone(&self.log)
    }

    /// Takes secrets from a capture file; they have no effect until [`KeyReader::commit`].
    #[inline]
    pub fn bring(&self, secrets: &DecryptionSecrets) {
        let text = secrets.take();
        if !text.is_empty() && !self.is_deaf {
            self.brought.borrow_mut().extend(text);
        }
    }

    /// Returns whether secrets wait for a commit.
    pub fn has_brought(&self) -> bool {
        !self.brought.borrow().is_empty()
    }

    /// Adds the secrets from capture files to the log, for all frames dissected from now on.
    pub fn commit(&self) {
        if self.has_brought() {
            self.log.add(&self.brought.take());
        }
    }

    /// Returns the log for a live dissection. Records whose secrets are missing wait for them, for `patience` after their
    /// capture, but not while `is_behind`: a capture that lags behind must not lose frames.
    pub fn wait(mut self, patience: Duration, is_behind: impl Fn() -> bool + Send + Sync + 'static) -> Arc<KeyLog> {
        let log = self.log();
        let files = Mutex::new(std::mem::take(&mut self.files));
        let supplied = Arc::downgrade(&log);
        log.set_supply(Box::new(move |frame_ns| {
            let Some(log) = supplied.upgrade() else { return false };
            let captured = frame_ns.map(|frame_ns| UNIX_EPOCH + Duration::from_nanos(frame_ns));
            let age = captured.map(|captured| SystemTime::now().duration_since(captured).unwrap_or_default());
            let left = age.map_or(Duration::ZERO, |age| patience.saturating_sub(age));
            let waits = !left.is_zero() && !is_behind();
            if waits {
                std::thread::sleep(LOOK.min(left));
            }
            let mut files = files.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(endless) = look(&mut files, &log) {
                say!("overhead: warning: {endless}");
            }
            waits
        }));
        log
    }
}

/// Reads the files' new data. Returns a message about a file without an end, which is not read again.
fn look(files: &mut Vec<Followed>, log: &KeyLog) -> Option<String> {
    let mut endless = None;
    files.retain_mut(|file| match file.read(log) {
        Err(error) if error.kind() == io::ErrorKind::FileTooLarge => {
            endless = Some(format!("--keylog {}: {error}: check the path", file.path.display()));
            false
        }
        // The file may still appear. If it is unreadable, the connections that stay encrypted show it.
        _ => true,
    });
    endless
}

impl Followed {
    fn new(path: PathBuf) -> Self {
        Self { path, offset: 0, rest: Vec::new(), pipe: None, waits: true }
    }

    fn open(&self) -> io::Result<File> {
        let mut options = File::options();
        #[cfg(unix)]
        if !self.waits {
            options.custom_flags(rustix::fs::OFlags::NONBLOCK.bits().cast_signed());
        }
        options.read(true).open(&self.path)
    }

    /// Reads on to the end and returns the number of new secrets. Reads a file that shrank from the start.
    fn read(&mut self, log: &KeyLog) -> io::Result<usize> {
        let length = std::fs::metadata(&self.path)?;
        if length.is_file() && length.len() == self.offset {
            return Ok(0);
        }
        let mut file = self.pipe.take().map_or_else(|| self.open(), Ok)?;
        if length.is_file() {
            if length.len() < self.offset {
                self.offset = 0;
                self.rest.clear();
            }
            file.seek(SeekFrom::Start(self.offset))?;
        }
        let added = self.read_open(&mut file, log);
        self.pipe = (!length.is_file()).then_some(file);
        added
    }

    /// Reads a file from its current position to its current end.
    fn read_open(&mut self, file: &mut File, log: &KeyLog) -> io::Result<usize> {
        let mut piece = vec![0; PIECE];
        let (mut added, start) = (0, self.offset);
        loop {
            if self.offset - start > KEY_LOG_BYTES {
                let why = format!("it is longer than {} MiB, which no key log is", KEY_LOG_BYTES >> 20);
                return Err(io::Error::new(io::ErrorKind::FileTooLarge, why));
            }
            let bytes = match file.read(&mut piece) {
                Ok(0) => return Ok(added),
                Ok(bytes) => bytes,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(added),
                Err(error) => return Err(error),
            };
            self.offset += bytes as u64;
            self.rest.extend_from_slice(piece.get(..bytes).unwrap_or_default());
            let whole = self.rest.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
            added += log.add(self.rest.get(..whole).unwrap_or_default());
            self.rest.drain(..whole);
            self.rest.truncate(LINE);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    #[test]
    fn a_log_is_read_on_by_whole_lines() {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        let log = KeyLog::default();
        let mut followed = Followed::new(file.path().to_owned());
        let line = |random: &str| format!("CLIENT_RANDOM {} {}\n", random.repeat(32), "ab".repeat(48));
        let (first, second) = (line("01"), line("02"));
        write!(file, "# a comment\n{first}{}", &second[..90]).unwrap();
        assert_eq!(followed.read(&log).unwrap(), 1);
        assert_eq!(followed.read(&log).unwrap(), 0);
        write!(file, "{}", &second[90..]).unwrap();
        assert_eq!(followed.read(&log).unwrap(), 1);
        file.as_file().set_len(0).unwrap();
        std::fs::write(file.path(), line("03")).unwrap();
        assert_eq!(followed.read(&log).unwrap(), 1);
    }

    #[test]
    #[cfg(unix)]
    fn a_log_without_an_end_is_an_error() {
        let files = KeyFiles::new(vec![PathBuf::from("/dev/zero")]);
        let read = KeyReader::read(&files, &mut Warnings::default()).unwrap_err();
        for error in [read, KeyReader::follow(&files).unwrap_err()] {
            let wanted = "--keylog /dev/zero: it is longer than 512 MiB, which no key log is: check the path";
            assert_eq!(format!("{error:#}"), wanted);
        }
    }

    #[test]
    fn a_named_file_that_is_missing_is_an_error() {
        let files = KeyFiles::new(vec![PathBuf::from("/nowhere/keys")]);
        let error = format!("{:#}", KeyReader::read(&files, &mut Warnings::default()).unwrap_err());
        assert!(error.contains("/nowhere/keys"), "{error}");
    }
}
