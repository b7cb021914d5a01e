//! What survives a restart: the programs that count connections, in the kernel, and the agent's counters, in a file.
//!
//! The file has the position until which the kernel's sums are in the counters, so each byte counts once wherever the agent is killed. The
//! kernel keeps the sums after this position ([`TcpFollower::peek`]).

#[cfg(test)]
mod tests;

use super::candidates::CandidateBook;
use super::clock::{RunningTime, SavedMoment};
use super::composition::CompositionBook;
use super::flows::FlowBook;
use super::totals::{AgentBooks, ArchiveRows};
use super::work::WorkBook;
use anyhow::{Context, Result, anyhow, bail};
use overhead_files::{ForeignFiles, ForeignLimits, OutputFolder};
use overhead_host::metrics::thread_cpu;
use overhead_kernel::{FollowerPosition, PinFolder, TcpFollower, raised};
use overhead_model::say;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::io;
use std::path::{Path, absolute};
use std::time::{Duration, Instant};

/// The layout of the file. Raise it with every change that makes a field mean something else, or that older files lack.
const VERSION: u32 = 1;
const FILE: &str = "agent-state.json";
/// Larger than the file of the most flows, groups and statements.
const LARGEST: u64 = 1 << 30;
/// The programs' place in the BPF file system.
const PINS: &str = "/sys/fs/bpf/overhead-agent";
/// Time from one save to the next. A large state is saved less often, so that this takes at most one part of so many of a core.
const EVERY: Duration = Duration::from_secs(10);
const MOST_CPU: u32 = 500;

/// The content of the file. Counters of the agent's own cost and of its faults start at 0 with each start.
#[derive(Serialize, Deserialize)]
pub struct SavedState<F = FlowBook, D = CandidateBook, C = CompositionBook, W = WorkBook, A = ArchiveRows> {
    version: u32,
    moment: SavedMoment,
    /// Absent unless the programs are pinned.
    position: Option<FollowerPosition>,
    time: RunningTime,
    uncounted: Duration,
    /// Of containers whose control groups are in `flows`.
    names: BTreeMap<u64, String>,
    flows: F,
    candidates: D,
    compositions: C,
    work: W,
    archive: A,
}

/// The folder of the file, locked against other agents.
pub struct AgentState {
    folder: OutputFolder,
    /// Absent if the programs end with this process.
    pins: Option<PinFolder>,
    saved: Instant,
    pause: Duration,
    /// Whether the kernel may remove what the last reading returned only after the next save.
    awaits_save: bool,
}

impl AgentState {
    /// Loads what an earlier agent saved into the books, and takes its programs over or replaces them.
    ///
    /// # Errors
    ///
    /// The folder is not writable or not private, or the file is damaged.
    pub fn start(path: &Path, books: &mut AgentBooks) -> Result<(Self, TcpFollower)> {
        let shown = path.display();
        let folder = OutputFolder::open_or_make(path, 0o700, None)
            .with_context(|| format!("state: {shown} cannot be opened: choose another folder, or change its owner"))?;
        if let Some(reason) = folder.intruder()? {
            bail!("state: {reason}");
        }
        if !folder.lock() {
            bail!("state: another agent uses {shown}: stop it, or choose another folder");
        }
        let mut saved = load(path)?;
        let position = saved.as_mut().and_then(|saved| saved.position.take());
        let ports = &books.servers.ports;
        let pinned = raised(|| {
            let pins = PinFolder::open(Path::new(PINS))?;
            let started = TcpFollower::start_pinned(ports, &pins, position)?;
            Ok::<_, overhead_kernel::Error>((Some(pins), started))
        });
        let (pins, (follower, replaced)) = match pinned {
            Ok(started) => started,
            Err(reason) => {
                let follower = follow(ports)?;
                say!("overhead: connections will not be counted between a stop and the next start: {reason}");
                (None, (follower, Some(reason.to_string())))
            }
        };
        if let Some(saved) = saved {
            saved.restore(books, replaced);
        }
        Ok((Self { folder, pins, saved: Instant::now(), pause: Duration::ZERO, awaits_save: false }, follower))
    }

    /// Returns whether the counters should be saved.
    pub fn is_due(&self) -> bool {
        self.saved.elapsed() >= self.pause
    }

    /// Returns whether the next reading may let the kernel remove what readings have returned: a save follows it, and one preceded it.
    pub fn lets_read(&mut self) -> bool {
        let lets_read = self.is_due() && !self.awaits_save;
        self.awaits_save |= lets_read;
        lets_read
    }

    /// Replaces the file.
    pub fn save(&mut self, books: &AgentBooks, follower: &TcpFollower) -> Result<()> {
        let before = thread_cpu();
        let position = match self.pins {
            Some(_) => Some(follower.position()?.context("the last reading failed")?),
            None => None,
        };
        self.folder.write(FILE, &content(books, position)?)?;
        // Without pins, a kill loses what this has not saved.
        let most = if self.pins.is_some() { MOST_CPU } else { 0 };
        self.pause = EVERY.max(thread_cpu().saturating_sub(before) * most);
        (self.saved, self.awaits_save) = (Instant::now(), false);
        Ok(())
    }
}

/// Returns the content of the file.
fn content(books: &AgentBooks, position: Option<FollowerPosition>) -> serde_json::Result<Vec<u8>> {
    serde_json::to_vec(&SavedState {
        version: VERSION,
        moment: SavedMoment::now(),
        position,
        time: books.time.clone(),
        uncounted: books.uncounted,
        names: books.servers.names(books.flows.flows.keys().map(|flow| flow.client_group)),
        flows: &books.flows,
        candidates: &books.candidates,
        compositions: &books.compositions,
        work: &books.work,
        archive: &books.archive,
    })
}

impl SavedState {
    /// Puts the counters into the books, and prints how long nothing counted if the programs were `replaced`, for a reason.
    fn restore(self, books: &mut AgentBooks, replaced: Option<String>) {
        let since = self.moment.elapsed();
        (books.flows, books.candidates) = (self.flows, self.candidates);
        (books.compositions, books.work) = (self.compositions, self.work);
        books.archive = self.archive;
        books.archive.time = (books.archive.time.elapsed() + since).into();
        (books.time, books.uncounted) = ((self.time.elapsed() + since).into(), self.uncounted);
        if self.moment.is_of_this_boot() {
            books.servers.add_names(self.names);
        } else {
            books.flows.leave_boot();
            books.candidates = CandidateBook::default();
            books.compositions.leave_boot();
            books.work.leave_boot();
        }
        books.flows.rezone(&books.config.zones);
        books.compositions.set_statements(books.config.statements as usize);
        if let Some(reason) = replaced {
            say!("overhead: connections were not counted for {since:.1?}: {reason}");
            books.flows.replace_programs();
            books.uncounted += since;
        }
    }
}

/// Counts the connections to these ports as long as this process runs.
pub fn follow(ports: &[u16]) -> Result<TcpFollower> {
    raised(|| TcpFollower::start_with_listeners(ports)).context("the agent needs the kernel's counters of connections")
}

/// Reads the file of a folder. Returns `None` if there is none, or if another version wrote it.
pub fn load(folder: &Path) -> Result<Option<SavedState>> {
    let path = absolute(folder.join(FILE))?;
    let shown = path.display();
    let limits = ForeignLimits { file_bytes: LARGEST, files: 1, bytes: LARGEST };
    let bytes = match ForeignFiles::new(limits).read(Path::new("/"), &path, Some(0)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        read => {
            read.map(|(bytes, _)| bytes).with_context(|| format!("state: {shown} cannot be read: {}", fix(&path)))?
        }
    };
    parse(&bytes, &path)
}

fn parse(bytes: &[u8], path: &Path) -> Result<Option<SavedState>> {
    #[derive(Deserialize)]
    struct StateVersion {
        version: u32,
    }
    let shown = path.display();
    let damaged = |error: serde_json::Error| anyhow!("state: {shown} is damaged ({error}): {}", fix(path));
    let StateVersion { version } = serde_json::from_slice(bytes).map_err(damaged)?;
    if version == VERSION {
        return serde_json::from_slice(bytes).map_err(damaged).map(Some);
    }
    say!("overhead: counters start at 0: {shown} is of another version of overhead (layout {version}, not {VERSION})");
    Ok(None)
}

fn fix(path: &Path) -> String {
    format!("run rm {}, and counters start at 0", path.display())
}
