//! A thread that does something from time to time.

use crate::privilege::lower;
use std::io;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

/// A running thread. It is told to end when this is dropped, and waited for.
#[derive(Debug)]
pub(crate) struct BackgroundThread {
    end: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl BackgroundThread {
    /// Starts it. What it is given waits so long; false where the end came first.
    pub(crate) fn start(name: &str, work: impl FnOnce(&dyn Fn(Duration) -> bool) + Send + 'static) -> io::Result<Self> {
        let (end, ended) = channel();
        let passes = move |time| ended.recv_timeout(time) == Err(RecvTimeoutError::Timeout);
        let thread = Builder::new().name(name.to_owned()).spawn(move || {
            lower();
            work(&passes);
        })?;
        Ok(Self { end: Some(end), thread: Some(thread) })
    }
}

impl Drop for BackgroundThread {
    fn drop(&mut self) {
        drop(self.end.take());
        if let Some(thread) = self.thread.take() {
            // It has nothing to say at its end.
            let _ = thread.join();
        }
    }
}
