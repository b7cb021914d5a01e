//! Packet files of a capture: one, or a rotated sequence, as with tcpdump's `-G`, `-C` and `-W`.

use super::folder::RunFolder;
use anyhow::Result;
use jiff::tz::TimeZone;
use overhead_capture::{KernelStats, PcapngWriter, WriteError, WriterOptions, padded_key_log};
use overhead_files::{FileOwner, open_named};
use overhead_model::record::{InputFile, Rotation, Selected};
use overhead_model::{Frame, bail_usage};
use overhead_reading::Windows;
use overhead_reading::run_folder::{self, PACKETS, SetPlace};
use overhead_reading::time::unix_ns;
use std::collections::VecDeque;
use std::io::{self, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Limits of a packet file, and how many files are kept.
#[derive(Clone, Copy, Debug, Default)]
pub struct RotationPlan {
    /// Seconds after which a file ends.
    pub seconds: Option<u64>,
    /// Bytes after which a file ends.
    pub bytes: Option<u64>,
    /// With `bytes`, the number of files that are kept; with only `seconds`, the number after which the capture ends.
    pub files: Option<u32>,
}

impl RotationPlan {
    /// Returns whether there may be more than one file.
    pub fn is_asked(&self) -> bool {
        self.seconds.is_some() || self.bytes.is_some() || self.files.is_some()
    }

    /// Returns whether the oldest files are deleted.
    pub fn is_ring(&self) -> bool {
        self.files.is_some() && self.bytes.is_some()
    }

    /// Rejects impossible combinations before anything is created.
    pub fn check(&self, write: Option<&Path>) -> Result<()> {
        if !self.is_asked() {
            return Ok(());
        }
        if self.seconds.is_none() && self.bytes.is_none() {
            bail_usage!("-W needs a limit for each file: add -C SIZE or -G SECONDS");
        }
        let Some(path) = write else { return Ok(()) };
        if path == Path::new("-") {
            bail_usage!("-G, -C and -W need files, but -w - is standard output: name a file with -w");
        }
        if self.seconds.is_some()
            && let Err(error) = named_by_time(path, unix_ns())
        {
            bail_usage!("-w {}: {error}: use the format of strftime, such as %Y%m%d-%H%M%S", path.display());
        }
        Ok(())
    }

    /// Returns a warning if files would overwrite each other although no limit was requested.
    pub fn caution(&self, write: Option<&Path>) -> Option<String> {
        let path = write.filter(|_| self.seconds.is_some() && self.bytes.is_none())?;
        let is_same = named_by_time(path, 0).ok()? == named_by_time(path, 1_000_000_000_000_000_001).ok()?;
        let path = path.display();
        is_same.then(|| format!("-w {path} gives all files of -G the same name, so that each replaces the one before, as in tcpdump: add a time, such as -w packets-%H%M%S.pcapng"))
    }
}

/// Formats a path by strftime, in local time.
fn named_by_time(path: &Path, time_ns: u64) -> Result<PathBuf> {
    let text = path.to_str().ok_or_else(|| anyhow::anyhow!("it is not UTF-8"))?;
    let time = jiff::Timestamp::from_nanosecond(i128::from(time_ns))?.to_zoned(TimeZone::system());
    Ok(PathBuf::from(jiff::fmt::strtime::format(text, &time)?))
}

/// Where packets go.
pub enum PacketPlace {
    Folder(Arc<RunFolder>),
    /// A file, or the start of the names of several files, and their owner.
    Path(PathBuf, Option<FileOwner>),
}

/// The packet files written by a capture.
#[derive(Clone, Debug, Default)]
pub struct PacketSet {
    /// The files that still exist.
    pub inputs: Vec<InputFile>,
    /// Counts of all files; `None` without rotation.
    pub rotation: Option<Rotation>,
    /// Room for the keys; `None` if they are not kept.
    pub keys: Option<Arc<KeyRoom>>,
}

/// The room for a key log in a packet file.
#[derive(Debug)]
pub struct KeyRoom {
    file: std::fs::File,
    offset: u64,
}

impl KeyRoom {
    /// Writes the keys, a key log. Returns whether all had room.
    pub fn fill(&self, text: &str) -> io::Result<bool> {
        let log = padded_key_log(text, KEY_BYTES as usize);
        self.file.write_all_at(&log, self.offset)?;
        Ok(log.starts_with(text.as_bytes()))
    }
}

/// Bytes of a packet file for keys: 20,000 secrets.
pub const KEY_BYTES: u32 = 4 << 20;

type Writer = PcapngWriter<Box<dyn Write + Send>>;

/// The packet files of a running capture.
pub struct PacketFiles {
    maker: FileMaker,
    writer: Writer,
    /// The file being written.
    current: InputFile,
    /// Start of the period of `-G`, Unix nanoseconds.
    period_ns: u64,
    /// End of the period; `u64::MAX` without `-G`.
    due_ns: u64,
    /// A larger file is full.
    most_bytes: u64,
    /// Files of the period before the current one.
    in_period: u64,
    /// Finished files that still exist.
    kept: VecDeque<InputFile>,
    rotation: Rotation,
    keys: Option<KeyRoom>,
}

/// Result of writing a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FrameFate {
    Written,
    /// The requested number of files is full, and the frame belongs to none.
    Enough,
}

impl PacketFiles {
    /// Creates the first file.
    pub fn create(
        place: PacketPlace,
        plan: RotationPlan,
        about: WriterOptions,
        asked: (Selected, Option<Windows>),
    ) -> Result<Self> {
        let now_ns = unix_ns();
        let maker = FileMaker { place, plan, about, asked, set: format!("{now_ns}-{}", std::process::id()) };
        let (current, writer, keys) = maker.create((now_ns, 0), 1)?;
        let mut this = Self {
            maker,
            writer,
            current,
            period_ns: now_ns,
            due_ns: u64::MAX,
            most_bytes: plan.bytes.unwrap_or(u64::MAX),
            in_period: 0,
            kept: VecDeque::new(),
            rotation: Rotation { files: 1, ..Rotation::default() },
            keys,
        };
        this.start_period(now_ns);
        Ok(this)
    }

    /// Writes a frame; starts the next file if the current one is full.
    #[inline]
    pub fn write(&mut self, frame: &Frame<'_>) -> Result<FrameFate, WriteError> {
        if frame.time_ns >= self.due_ns || self.writer.bytes() > self.most_bytes {
            if self.is_enough(frame.time_ns) {
                return Ok(FrameFate::Enough);
            }
            self.turn(frame.time_ns)?;
        }
        self.writer.write(frame)?;
        self.current.frames += 1;
        self.current.wire_bytes += u64::from(frame.wire_len());
        Ok(FrameFate::Written)
    }

    /// Returns whether the periods of all requested files have passed. Fewer files exist if frames are missing.
    pub fn is_enough(&self, time_ns: u64) -> bool {
        let (None, Some(most), Some(seconds)) = (self.maker.plan.bytes, self.maker.plan.files, self.maker.plan.seconds)
        else {
            return false;
        };
        let left = u64::from(most).saturating_sub(self.rotation.files);
        time_ns >= self.due_ns.saturating_add(left.saturating_mul(seconds.saturating_mul(1_000_000_000)))
    }

    /// Passes the written bytes to the system.
    pub fn flush(&mut self) -> Result<(), WriteError> {
        self.writer.flush()
    }

    /// Finishes the last file.
    pub fn finish(mut self, kernel: Option<&KernelStats>) -> Result<PacketSet, WriteError> {
        self.writer.finish(kernel)?;
        self.kept.push_back(self.current);
        let rotation = self.maker.plan.is_asked().then_some(self.rotation);
        Ok(PacketSet { inputs: self.kept.into(), rotation, keys: self.keys.map(Arc::new) })
    }

    /// Periods have a fixed length, whatever the times of the frames.
    fn start_period(&mut self, time_ns: u64) {
        let Some(length_ns) = self.maker.plan.seconds.map(|seconds| seconds.saturating_mul(1_000_000_000)) else {
            return;
        };
        self.period_ns += time_ns.saturating_sub(self.period_ns) / length_ns * length_ns;
        self.due_ns = self.period_ns.saturating_add(length_ns);
    }

    /// Finishes the current file and starts the next.
    #[cold]
    fn turn(&mut self, time_ns: u64) -> Result<(), WriteError> {
        self.in_period += 1;
        if time_ns >= self.due_ns {
            self.in_period = 0;
            self.start_period(time_ns);
        }
        let next = self.maker.path(self.period_ns, self.in_period, self.rotation.files + 1);
        // If the next file replaces an old one, removes that first.
        if let Some(at) = self.kept.iter().position(|kept| kept.path == next)
            && let Some(old) = self.kept.remove(at)
        {
            self.count_deleted(&old);
        }
        let is_alike = self.current.path == next;
        let (current, writer, _) = self.maker.create((self.period_ns, self.in_period), self.rotation.files + 1)?;
        self.rotation.files += 1;
        let (full, writer) =
            (std::mem::replace(&mut self.current, current), std::mem::replace(&mut self.writer, writer));
        if is_alike {
            // Its buffered frames would end up in its successor's file.
            writer.abandon();
            self.count_deleted(&full);
            return Ok(());
        }
        writer.finish(None)?;
        self.kept.push_back(full);
        let most =
            self.maker.plan.files.filter(|_| self.maker.plan.is_ring()).map_or(usize::MAX, |files| files as usize);
        while self.kept.len() >= most {
            let Some(oldest) = self.kept.pop_front() else { break };
            self.maker.place.remove(&oldest.path);
            self.count_deleted(&oldest);
        }
        Ok(())
    }

    fn count_deleted(&mut self, file: &InputFile) {
        self.rotation.deleted_files += 1;
        self.rotation.deleted_frames += file.frames;
        self.rotation.deleted_wire_bytes += file.wire_bytes;
    }
}

impl PacketPlace {
    fn remove(&self, path: &str) {
        // A file that someone else removed is gone as well.
        match self {
            Self::Folder(folder) => folder.remove_packets(path),
            Self::Path(..) => drop(std::fs::remove_file(path)),
        }
    }
}

/// Creates packet files.
struct FileMaker {
    place: PacketPlace,
    plan: RotationPlan,
    about: WriterOptions,
    asked: (Selected, Option<Windows>),
    /// Identifies the files of one capture.
    set: String,
}

impl FileMaker {
    /// Returns the path of a file as the record has it, from the start of its period, the number of earlier files in
    /// the period, and its number overall.
    fn path(&self, time_ns: u64, in_period: u64, number: u64) -> String {
        let path = match &self.place {
            PacketPlace::Folder(_) if self.plan.is_asked() => return run_folder::rotated_name(number),
            PacketPlace::Folder(_) => return PACKETS.to_owned(),
            PacketPlace::Path(path, _) => path,
        };
        let is_timed = self.plan.seconds.is_some();
        let named = if is_timed { named_by_time(path, time_ns).ok() } else { None };
        let name = named.as_deref().unwrap_or(path).display().to_string();
        if self.plan.bytes.is_none() {
            return name;
        }
        // As in tcpdump: digits for the largest possible number, and none for the first file of an unlimited sequence.
        let most = self.plan.files.map_or(0, u64::from);
        let digits = if most > 1 { (most - 1).ilog10() as usize + 1 } else { 0 };
        // Files are numbered from 1, places in the ring from 0.
        let number = if most > 0 && !is_timed { (number - 1) % most } else { in_period };
        if number == 0 && digits == 0 { name } else { format!("{name}{number:0digits$}") }
    }

    fn create(
        &self,
        (time_ns, in_period): (u64, u64),
        number: u64,
    ) -> Result<(InputFile, Writer, Option<KeyRoom>), WriteError> {
        let path = self.path(time_ns, in_period, number);
        let place = self.plan.is_asked().then(|| SetPlace { set: self.set.clone(), part: number });
        let about = WriterOptions {
            comment: run_folder::note(&self.asked.0, place.as_ref(), self.asked.1.as_ref()),
            ..self.about.clone()
        };
        let mut keyed = None;
        let (output, file): (String, Box<dyn Write + Send>) = match &self.place {
            PacketPlace::Path(..) if path == "-" => ("standard output".to_owned(), Box::new(io::stdout())),
            PacketPlace::Path(_, owner) => {
                let opened = open_named(Path::new(&path), 0o600, *owner);
                let opened = opened.map_err(|source| WriteError::Create { output: path.clone(), source })?;
                keyed = opened.try_clone().ok().filter(|_| about.key_log_bytes > 0);
                (path.clone(), Box::new(opened))
            }
            PacketPlace::Folder(folder) => {
                let output = folder.path().join(&path).display().to_string();
                let created = folder.create_packets(&path);
                let created = created.map_err(|source| WriteError::Create { output: output.clone(), source })?;
                (output, Box::new(created))
            }
        };
        let writer = PcapngWriter::new(&output, file, &about)?;
        let keys = keyed.map(|file| KeyRoom { file, offset: writer.key_log() });
        Ok((InputFile { path, frames: 0, wire_bytes: 0 }, writer, keys))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use overhead_capture::{FileSource, FrameSource};
    use overhead_model::LinkType;

    fn frame(time_ns: u64, bytes: &[u8]) -> Frame<'_> {
        Frame { time_ns, link: LinkType::ETHERNET, original_len: bytes.len() as u32, interface: 0, bytes }
    }

    fn files(path: &Path, plan: RotationPlan) -> PacketFiles {
        let place = PacketPlace::Path(path.to_owned(), None);
        PacketFiles::create(place, plan, WriterOptions::new(LinkType::ETHERNET), (Selected::default(), None)).unwrap()
    }

    fn names(dir: &Path) -> Vec<String> {
        let mut names: Vec<String> =
            std::fs::read_dir(dir).unwrap().map(|it| it.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    fn frames_of(path: &Path) -> u64 {
        let (mut file, mut frames) = (FileSource::open(path).unwrap(), 0);
        while file.next_frame().unwrap().frame().is_some() {
            frames += 1;
        }
        frames
    }

    #[test]
    fn a_full_file_is_followed_by_one_with_a_number() {
        let dir = tempfile::tempdir().unwrap();
        let plan = RotationPlan { bytes: Some(1_000), ..RotationPlan::default() };
        let mut set = files(&dir.path().join("p"), plan);
        for time in 0..30 {
            set.write(&frame(time, &[0; 68])).unwrap();
        }
        let set = set.finish(None).unwrap();
        assert_eq!(names(dir.path()), ["p", "p1", "p2", "p3"]);
        assert_eq!(set.inputs.iter().map(|input| input.frames).sum::<u64>(), 30);
        assert_eq!(set.rotation.unwrap(), Rotation { files: 4, ..Rotation::default() });
        assert_eq!(names(dir.path()).iter().map(|name| frames_of(&dir.path().join(name))).sum::<u64>(), 30);
    }

    #[test]
    fn a_ring_starts_again_at_its_first_name() {
        let dir = tempfile::tempdir().unwrap();
        let plan = RotationPlan { bytes: Some(1_000), files: Some(11), ..RotationPlan::default() };
        let mut set = files(&dir.path().join("p"), plan);
        for time in 0..260 {
            set.write(&frame(time, &[0; 68])).unwrap();
        }
        let set = set.finish(None).unwrap();
        let wanted: Vec<String> = (0..11).map(|number| format!("p{number:02}")).collect();
        assert_eq!(names(dir.path()), wanted);
        let rotation = set.rotation.unwrap();
        assert_eq!(rotation.files - rotation.deleted_files, 11);
        assert_eq!(set.inputs.iter().map(|input| input.frames).sum::<u64>() + rotation.deleted_frames, 260);
        let there: u64 = set.inputs.iter().map(|input| frames_of(Path::new(&input.path))).sum();
        assert_eq!(there + rotation.deleted_frames, 260);
    }

    #[test]
    fn a_period_ends_a_file_and_the_count_of_files_ends_the_capture() {
        let dir = tempfile::tempdir().unwrap();
        let plan = RotationPlan { seconds: Some(10), files: Some(2), ..RotationPlan::default() };
        let mut set = files(&dir.path().join("p-%s"), plan);
        let start_ns = set.period_ns;
        let taken: Vec<FrameFate> =
            [0, 9, 10, 19, 20].map(|at| set.write(&frame(start_ns + at * 1_000_000_000, &[0; 60])).unwrap()).to_vec();
        assert_eq!(
            taken,
            [FrameFate::Written, FrameFate::Written, FrameFate::Written, FrameFate::Written, FrameFate::Enough]
        );
        let set = set.finish(None).unwrap();
        let seconds = start_ns / 1_000_000_000;
        assert_eq!(names(dir.path()), [format!("p-{seconds}"), format!("p-{}", seconds + 10)]);
        assert_eq!(set.inputs.iter().map(|input| input.frames).collect::<Vec<_>>(), [2, 2]);
    }

    #[test]
    fn files_of_one_name_take_one_anothers_place() {
        let dir = tempfile::tempdir().unwrap();
        let plan = RotationPlan { seconds: Some(1), ..RotationPlan::default() };
        let path = dir.path().join("p");
        assert!(plan.caution(Some(&path)).unwrap().contains("%H%M%S"));
        let mut set = files(&path, plan);
        let start_ns = set.period_ns;
        for at in 0..5 {
            set.write(&frame(start_ns + at * 1_000_000_000, &[0; 60])).unwrap();
        }
        let set = set.finish(None).unwrap();
        assert_eq!(names(dir.path()), ["p"]);
        assert_eq!(frames_of(&path), 1, "nothing of those before is left");
        assert_eq!(
            set.rotation.unwrap(),
            Rotation { files: 5, deleted_files: 4, deleted_frames: 4, deleted_wire_bytes: 240 }
        );
    }

    #[test]
    fn what_cannot_be_done_is_refused_with_a_remedy() {
        let only_files = RotationPlan { files: Some(3), ..RotationPlan::default() };
        assert!(only_files.check(None).unwrap_err().to_string().contains("add -C SIZE or -G SECONDS"));
        let by_time = RotationPlan { seconds: Some(3), ..RotationPlan::default() };
        assert!(by_time.check(Some(Path::new("-"))).unwrap_err().to_string().contains("standard output"));
        assert!(by_time.check(Some(Path::new("p-%!"))).unwrap_err().to_string().contains("strftime"));
        assert!(by_time.check(Some(Path::new("p-%H"))).is_ok());
    }
}
