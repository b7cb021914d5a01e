//! Where pieces of files go: threads encode batches, and one appends them to their files in the order in which they were handed
//! over. So the files do not depend on the number of threads.

use crate::dataset::{cannot_write, part_of, remove_folders};
use crate::encode::{Encoded, Layout, ParquetLayout};
use anyhow::{Context, Result, anyhow};
use bytes::Bytes;
use parquet::file::writer::SerializedFileWriter;
use std::collections::HashMap;
use std::fs::{self, File};
use std::io::{BufWriter, IntoInnerError, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::{self, JoinHandle};

type Job = Box<dyn FnOnce() -> Result<Piece> + Send>;

/// A part of a file, or its end.
struct Piece {
    file: Arc<FilePlan>,
    /// `None` at the end.
    encoded: Option<Encoded>,
}

/// A file that is to be written.
#[derive(Debug)]
pub struct FilePlan {
    /// Where it comes to lie once it is whole.
    pub place: PathBuf,
    temporary: PathBuf,
    parquet: Option<ParquetLayout>,
    head: Vec<u8>,
}

impl FilePlan {
    /// Returns the plan of a file of a table.
    pub fn new<B>(place: PathBuf, layout: &Layout<B>) -> Self {
        let temporary = part_of(&place);
        Self { place, temporary, parquet: layout.parquet().cloned(), head: layout.head() }
    }
}

/// Files that are whole, and have their names once they are [kept](Written::keep); those that are not are removed.
#[derive(Debug, Default)]
pub struct Written {
    files: Vec<Arc<FilePlan>>,
}

impl Written {
    /// Gives all files their names in place of those of an earlier export, in the order in which they were begun. Returns where they
    /// lie.
    pub fn keep(mut self, before: &[PathBuf]) -> Result<Vec<PathBuf>> {
        // The table `runs` is listed last, and goes first: who finds a run in it has all of it.
        for path in before.iter().rev() {
            fs::remove_file(path).map_err(|error| anyhow!("{} cannot be replaced: {error}", path.display()))?;
        }
        let mut places = Vec::new();
        while !self.files.is_empty() {
            let file = self.files.remove(0);
            fs::rename(&file.temporary, &file.place).map_err(|error| {
                let _ = fs::remove_file(&file.temporary);
                cannot_write(&file.place)(error)
            })?;
            places.push(file.place.clone());
        }
        Ok(places)
    }
}

impl Drop for Written {
    fn drop(&mut self) {
        for file in &self.files {
            let _ = fs::remove_file(&file.temporary);
            remove_folders(&file.place);
        }
    }
}

/// The threads.
pub struct Sink {
    encoders: Vec<SyncSender<Job>>,
    threads: Vec<JoinHandle<()>>,
    next: usize,
    appender: JoinHandle<Result<Written>>,
}

impl Sink {
    /// Starts so many threads that encode, one at least.
    pub fn start(encoders: usize) -> Self {
        let (mut jobs, mut threads, mut pieces) = (Vec::new(), Vec::new(), Vec::new());
        for _ in 0..encoders.max(1) {
            // Batches are large: what a thread works at, and one more.
            let (to_encode, encoding) = sync_channel::<Job>(1);
            let (encoded, appending) = sync_channel(1);
            threads.push(thread::spawn(move || {
                for job in encoding {
                    if encoded.send(job()).is_err() {
                        return;
                    }
                }
            }));
            jobs.push(to_encode);
            pieces.push(appending);
        }
        Self { encoders: jobs, threads, next: 0, appender: thread::spawn(move || append_all(&pieces)) }
    }

    /// Encodes a batch, as the next part of a file. Returns false where writing has failed: [`Sink::finish`] says why.
    pub fn append<B: Send + Sync + 'static>(
        &mut self,
        file: &Arc<FilePlan>,
        layout: &Arc<Layout<B>>,
        batch: B,
        rows: usize,
    ) -> bool {
        let (file, layout) = (Arc::clone(file), Arc::clone(layout));
        self.hand_over(Box::new(move || {
            let encoded = layout.encode(&batch, rows)?;
            Ok(Piece { file, encoded: Some(encoded) })
        }))
    }

    /// Ends a file.
    pub fn end(&mut self, file: &Arc<FilePlan>) -> bool {
        let file = Arc::clone(file);
        self.hand_over(Box::new(move || Ok(Piece { file, encoded: None })))
    }

    fn hand_over(&mut self, job: Job) -> bool {
        let turn = self.next;
        self.next = (turn + 1) % self.encoders.len();
        self.encoders.get(turn).is_some_and(|encoder| encoder.send(job).is_ok())
    }

    /// Waits until all is written.
    pub fn finish(self) -> Result<Written> {
        drop(self.encoders);
        let written = self.appender.join().map_err(|_| anyhow!("writing failed: this is a bug, please report it"))?;
        for thread in self.threads {
            thread.join().map_err(|_| anyhow!("an encoding thread failed: this is a bug, please report it"))?;
        }
        written
    }
}

/// Appends what the threads give, each in its turn.
fn append_all(pieces: &[Receiver<Result<Piece>>]) -> Result<Written> {
    let (mut open, mut written) = (HashMap::<PathBuf, OpenFile>::new(), Written::default());
    for turn in pieces.iter().cycle() {
        // Where one has nothing any more, those after it have not, either.
        let Ok(piece) = turn.recv() else { break };
        let Piece { file, encoded } = piece?;
        match encoded {
            Some(encoded) => {
                if !open.contains_key(&file.place) {
                    open.insert(file.place.clone(), OpenFile::create(&file, &mut written)?);
                }
                let Some(opened) = open.get_mut(&file.place) else { continue };
                opened.append(encoded).with_context(|| format!("{} cannot be written", file.place.display()))?;
            }
            None => {
                if let Some(opened) = open.remove(&file.place) {
                    opened.end().with_context(|| format!("{} cannot be written", file.place.display()))?;
                }
            }
        }
    }
    if !open.is_empty() {
        return Err(anyhow!("files were not ended: this is a bug, please report it"));
    }
    Ok(written)
}

enum OpenFile {
    Parquet(Box<SerializedFileWriter<BufWriter<File>>>),
    Lines(BufWriter<File>),
}

impl OpenFile {
    fn create(plan: &Arc<FilePlan>, written: &mut Written) -> Result<Self> {
        let folder = plan.place.parent().unwrap_or(Path::new("."));
        fs::create_dir_all(folder).map_err(cannot_write(folder))?;
        // Not through a link that somebody has put there.
        let _ = fs::remove_file(&plan.temporary);
        let file = File::create_new(&plan.temporary).map_err(cannot_write(&plan.place))?;
        written.files.push(Arc::clone(plan));
        // It tells others that somebody is at it; where file systems have no locks, they do without.
        let _ = file.try_lock();
        let mut file = BufWriter::with_capacity(64 << 10, file);
        if let Some(layout) = &plan.parquet {
            let writer = SerializedFileWriter::new(file, Arc::clone(&layout.schema), Arc::clone(&layout.properties))?;
            return Ok(Self::Parquet(Box::new(writer)));
        }
        file.write_all(&plan.head)?;
        Ok(Self::Lines(file))
    }

    fn append(&mut self, encoded: Encoded) -> Result<()> {
        match (self, encoded) {
            (Self::Parquet(writer), Encoded::RowGroup(bytes, columns)) => {
                let bytes = Bytes::from(bytes);
                let mut group = writer.next_row_group()?;
                for column in columns {
                    group.append_column(&bytes, column)?;
                }
                group.close()?;
            }
            (Self::Lines(file), Encoded::Lines(lines)) => file.write_all(&lines)?,
            _ => return Err(anyhow!("a part is of another form than its file: this is a bug, please report it")),
        }
        Ok(())
    }

    fn end(self) -> Result<()> {
        match self {
            Self::Parquet(writer) => drop(writer.into_inner()?.into_inner().map_err(IntoInnerError::into_error)?),
            Self::Lines(file) => drop(file.into_inner().map_err(IntoInnerError::into_error)?),
        }
        Ok(())
    }
}
