//! Whoever makes the rows of a benchmark and removes them.

use anyhow::Result;
use std::future::Future;

/// The objects of a benchmark on a connection of its own.
pub trait Objects: Send {
    /// Makes the objects and loads the rows. Fails, and changes nothing, where objects of these names exist that this program
    /// has not made; what it made earlier is replaced.
    fn set_up(&mut self, rows: u64, payload: usize) -> impl Future<Output = Result<()>> + Send;

    /// Removes the rows that were inserted beside those that [`set_up`](Self::set_up) made, which are so many.
    fn remove_inserted(&mut self, rows: u64) -> impl Future<Output = Result<()>> + Send;

    /// Removes what [`set_up`](Self::set_up) made, and nothing else; tells whether there was anything.
    fn clean_up(&mut self) -> impl Future<Output = Result<bool>> + Send;
}
