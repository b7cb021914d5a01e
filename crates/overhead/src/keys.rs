//! Key logs of TLS: files that are read once, or followed while they grow.

use crate::warnings::Warnings;
use anyhow::{Context, Result};
use clap::Args;
use overhead_capture::DecryptionSecrets;
use overhead_dissect::KeyLog;
use std::cell::RefCell;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
#[cfg(unix)]
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;
use std::sync::Arc;
#[cfg(feature = "live")]
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Bytes read at a time.
const PIECE: usize = 64 << 10;
/// How long a client may take to log the keys of records that were captured already.
#[cfg(feature = "live")]
const PATIENCE: Duration = Duration::from_millis(20);
/// No line of a key log is longer; what is, is none.
const LINE: usize = 4 << 10;

/// Where the keys are.
#[derive(Args, Clone, Debug, Default)]
pub struct KeyFiles {
    /// Key log to decrypt TLS with, as clients and servers write it; repeatable [default: $SSLKEYLOGFILE]
    #[arg(long, value_name = "FILE")]
    keylog: Vec<PathBuf>,
    /// There are none, whatever the environment names and captures bring.
    #[arg(skip)]
    are_none: bool,
}

impl KeyFiles {
    /// Returns no files: nothing is decrypted.
    pub fn none() -> Self {
        Self { keylog: Vec::new(), are_none: true }
    }

    /// The files named, or the one in the environment; and whether they were named.
    fn paths(&self) -> (Vec<PathBuf>, bool) {
        if !self.keylog.is_empty() {
            return (self.keylog.clone(), true);
        }
        let from_environment = std::env::var_os("SSLKEYLOGFILE").filter(|path| !path.is_empty() && !self.are_none);
        (from_environment.map(PathBuf::from).into_iter().collect(), false)
    }
}

/// Reads key logs into one that the dissection shares.
#[derive(Debug)]
pub struct KeyReader {
    log: Arc<KeyLog>,
    files: Vec<Followed>,
    /// What capture files have brought, and is not in the log yet.
    brought: RefCell<Vec<u8>>,
    /// What they bring is of no use.
    is_deaf: bool,
}

/// A file as far as it was read.
#[derive(Debug)]
struct Followed {
    path: PathBuf,
    offset: u64,
    /// The beginning of a line.
    rest: Vec<u8>,
    /// A FIFO or a device, which stays open: what is written to it comes once.
    pipe: Option<File>,
    /// Reading waits for whoever writes to a FIFO.
    waits: bool,
}

impl KeyReader {
    /// For captures that are over: reads the files to their ends. One that the environment names may be missing.
    pub fn read(files: &KeyFiles, warnings: &mut Warnings) -> Result<Self> {
        let (paths, are_named) = files.paths();
        let mut reader = Self { is_deaf: files.are_none, ..Self::of(paths) };
        for file in &mut reader.files {
            let read = file.read(&reader.log);
            let secrets = match read {
                Err(_) if !are_named => continue,
                read => read.with_context(|| format!("the key log {} cannot be read", file.path.display()))?,
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

    /// For a capture that begins: the files may come, and grow. It waits for none of them.
    #[cfg(feature = "live")]
    pub fn follow(files: &KeyFiles) -> Self {
        let mut reader = Self::of(files.paths().0);
        reader.files.iter_mut().for_each(|file| file.waits = false);
        reader.look();
        reader
    }

    /// For packets of a capture that is over: `log` has what was read while it ran, to which the files may have come later.
    #[cfg(feature = "live")]
    pub fn read_again(files: &KeyFiles, log: Arc<KeyLog>) -> Self {
        let mut reader = Self { log, ..Self::of(files.paths().0.into_iter().filter(|path| path.is_file()).collect()) };
        reader.look();
        reader
    }

    fn of(paths: Vec<PathBuf>) -> Self {
        let files = paths.into_iter().map(Followed::new);
        Self { log: Arc::default(), files: files.collect(), brought: RefCell::default(), is_deaf: false }
    }

    /// Returns what the dissection looks into.
    pub fn log(&self) -> Arc<KeyLog> {
        Arc::clone(&self.log)
    }

    /// Takes the secrets that a capture file has brought; they are of no effect until [`KeyReader::commit`].
    #[inline]
    pub fn bring(&self, secrets: &DecryptionSecrets) {
        let text = secrets.take();
        if !text.is_empty() && !self.is_deaf {
            self.brought.borrow_mut().extend(text);
        }
    }

    /// Returns whether secrets wait to be committed.
    pub fn has_brought(&self) -> bool {
        !self.brought.borrow().is_empty()
    }

    /// Adds what was brought to the log: for all frames that are dissected from here on.
    pub fn commit(&self) {
        if self.has_brought() {
            self.log.add(&self.brought.take());
        }
    }

    /// Reads what the files have grown by, if a secret was missed since the last time. The frame that is to be decrypted
    /// next was captured at `time_ns`; where that is just now, its keys are about to be logged.
    #[cfg(feature = "live")]
    pub fn refresh(&mut self, time_ns: u64) {
        if self.files.is_empty() || !self.log.take_missed() {
            return;
        }
        let captured = UNIX_EPOCH + Duration::from_nanos(time_ns);
        // A capture that lags behind waits for nothing.
        let age = SystemTime::now().duration_since(captured).unwrap_or_default();
        std::thread::sleep(PATIENCE.saturating_sub(age));
        self.look();
    }

    #[cfg(feature = "live")]
    fn look(&mut self) {
        for file in &mut self.files {
            // It may come yet, and a file that cannot be read says so by the connections that stay encrypted.
            let _ = file.read(&self.log);
        }
    }
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

    /// Reads on to the end and gives the number of new secrets. A file that got shorter is read again.
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

    /// Reads a file from where it is to what is its end for now.
    fn read_open(&mut self, file: &mut File, log: &KeyLog) -> io::Result<usize> {
        let mut piece = vec![0; PIECE];
        let mut added = 0;
        loop {
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
    fn a_named_file_that_is_missing_is_an_error() {
        let files = KeyFiles { keylog: vec![PathBuf::from("/nowhere/keys")], are_none: false };
        let error = format!("{:#}", KeyReader::read(&files, &mut Warnings::default()).unwrap_err());
        assert!(error.contains("/nowhere/keys"), "{error}");
    }
}
