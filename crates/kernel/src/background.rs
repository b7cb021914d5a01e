//! A thread that works at intervals.

use crate::privilege::drop_capabilities;
use std::io;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

/// Ends and joins the thread on drop.
#[derive(Debug)]
pub(crate) struct BackgroundThread {
    end: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl BackgroundThread {
    /// Starts the thread. `work` gets a function that sleeps; it returns false if the thread is to end.
    pub(crate) fn start(name: &str, work: impl FnOnce(&dyn Fn(Duration) -> bool) + Send + 'static) -> io::Result<Self> {
        let (end, ended) = channel();
        let wait = move |time| ended.recv_timeout(time) == Err(RecvTimeoutError::Timeout);
        let thread = Builder::new().name(name.to_owned()).spawn(move || {
            drop_capabilities();
            work(&wait);
        })?;
        Ok(Self { end: Some(end), thread: Some(thread) })
    }
}

impl Drop for BackgroundThread {
    fn drop(&mut self) {
        drop(self.end.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
