//! Threads encode batches, and one thread appends them in their original order. The files do not depend on the number
//! of threads.

use crate::dataset::{cannot_write, folder, remove_folders, temporary_name};
use crate::encode::{EncodedPart, ParquetLayout, TableLayout};
use anyhow::{Context, Result, anyhow};
use bytes::Bytes;
use parquet::file::writer::SerializedFileWriter;
use std::collections::HashMap;
use std::fs::File;
use std::io::{self, BufWriter, IntoInnerError, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::{self, JoinHandle};

type EncodeJob = Box<dyn FnOnce() -> Result<FilePiece> + Send>;

struct FilePiece {
    file: Arc<FilePlan>,
    /// `None` ends the file.
    encoded: Option<EncodedPart>,
}

/// A file to write.
#[derive(Debug)]
pub struct FilePlan {
    /// Folder of the data set.
    root: PathBuf,
    /// Final path.
    pub place: PathBuf,
    parquet: Option<ParquetLayout>,
    head: Vec<u8>,
}

impl FilePlan {
    pub fn new<B>(root: &Path, place: PathBuf, layout: &TableLayout<B>) -> Self {
        Self { root: root.to_owned(), place, parquet: layout.parquet().cloned(), head: layout.head() }
    }

    /// Gives the complete file its name, or removes it.
    fn settle(&self, is_kept: bool) -> io::Result<()> {
        let (folder, name) = folder(&self.root, &self.place)?;
        let temporary = temporary_name(&name);
        let kept = if is_kept { folder.rename(&temporary, &name) } else { Err(io::ErrorKind::Interrupted.into()) };
        kept.inspect_err(|_| drop(folder.remove(&temporary)))
    }
}

/// Complete files with temporary names. Removed unless [published](WrittenFiles::publish).
#[derive(Debug, Default)]
pub struct WrittenFiles {
    files: Vec<Arc<FilePlan>>,
}

impl WrittenFiles {
    /// Renames all files in the order of their creation, and replaces those of an earlier export. Returns their paths.
    pub fn publish(mut self, root: &Path, before: &[PathBuf]) -> Result<Vec<PathBuf>> {
        // Remove the table `runs` first: a run listed there must be complete.
        for path in before.iter().rev() {
            let removed = folder(root, path).and_then(|(folder, name)| folder.remove(&name));
            removed.map_err(|error| anyhow!("{} cannot be replaced: {error}", path.display()))?;
        }
        let mut places = Vec::new();
        while !self.files.is_empty() {
            let file = self.files.remove(0);
            file.settle(true).map_err(cannot_write(&file.place))?;
            places.push(file.place.clone());
        }
        Ok(places)
    }
}

impl Drop for WrittenFiles {
    fn drop(&mut self) {
        for file in &self.files {
            let _ = file.settle(false);
            remove_folders(&file.place);
        }
    }
}

pub struct FileSink {
    encoders: Vec<SyncSender<EncodeJob>>,
    threads: Vec<JoinHandle<()>>,
    next: usize,
    appender: JoinHandle<Result<WrittenFiles>>,
}

impl FileSink {
    /// Starts at least one encoding thread.
    pub fn start(encoders: usize) -> Self {
        let (mut jobs, mut threads, mut pieces) = (Vec::new(), Vec::new(), Vec::new());
        for _ in 0..encoders.max(1) {
            // Batches are large: queue at most one.
            let (to_encode, encoding) = sync_channel::<EncodeJob>(1);
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

    /// Encodes a batch as the next part of a file. Returns false after an error, which [`FileSink::finish`] reports.
    pub fn append<B: Send + Sync + 'static>(
        &mut self,
        file: &Arc<FilePlan>,
        layout: &Arc<TableLayout<B>>,
        batch: B,
        rows: usize,
    ) -> bool {
        let (file, layout) = (Arc::clone(file), Arc::clone(layout));
        self.hand_over(Box::new(move || {
            let encoded = layout.encode(&batch, rows)?;
            Ok(FilePiece { file, encoded: Some(encoded) })
        }))
    }

    pub fn end(&mut self, file: &Arc<FilePlan>) -> bool {
        let file = Arc::clone(file);
        self.hand_over(Box::new(move || Ok(FilePiece { file, encoded: None })))
    }

    fn hand_over(&mut self, job: EncodeJob) -> bool {
        let turn = self.next;
        self.next = (turn + 1) % self.encoders.len();
        self.encoders.get(turn).is_some_and(|encoder| encoder.send(job).is_ok())
    }

    /// Waits for all threads.
    pub fn finish(self) -> Result<WrittenFiles> {
        drop(self.encoders);
        let written = self.appender.join().map_err(|_| anyhow!("writing failed: this is a bug, please report it"))?;
        for thread in self.threads {
            thread.join().map_err(|_| anyhow!("an encoding thread failed: this is a bug, please report it"))?;
        }
        written
    }
}

/// Appends the output of the threads in turn.
fn append_all(pieces: &[Receiver<Result<FilePiece>>]) -> Result<WrittenFiles> {
    let (mut open, mut written) = (HashMap::<PathBuf, OpenFile>::new(), WrittenFiles::default());
    for turn in pieces.iter().cycle() {
        // Batches are handed out in turn, so no later thread has one either.
        let Ok(piece) = turn.recv() else { break };
        let FilePiece { file, encoded } = piece?;
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
    fn create(plan: &Arc<FilePlan>, written: &mut WrittenFiles) -> Result<Self> {
        let opened = folder(&plan.root, &plan.place);
        let file = opened.and_then(|(folder, name)| folder.create_temporary(&temporary_name(&name)));
        let file = file.map_err(cannot_write(&plan.place))?;
        written.files.push(Arc::clone(plan));
        // The lock shows others that the file is in use. Some file systems have none.
        let _ = file.try_lock();
        let mut file = BufWriter::with_capacity(64 << 10, file);
        if let Some(layout) = &plan.parquet {
            let writer = SerializedFileWriter::new(file, Arc::clone(&layout.schema), Arc::clone(&layout.properties))?;
            return Ok(Self::Parquet(Box::new(writer)));
        }
        file.write_all(&plan.head)?;
        Ok(Self::Lines(file))
    }

    fn append(&mut self, encoded: EncodedPart) -> Result<()> {
        match (self, encoded) {
            (Self::Parquet(writer), EncodedPart::RowGroup(bytes, columns)) => {
                let bytes = Bytes::from(bytes);
                let mut group = writer.next_row_group()?;
                for column in columns {
                    group.append_column(&bytes, column)?;
                }
                group.close()?;
            }
            (Self::Lines(file), EncodedPart::Lines(lines)) => file.write_all(&lines)?,
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
