//! Makes and removes the rows of a benchmark.

use anyhow::Result;
use std::future::Future;

/// Benchmark objects on a separate connection.
pub trait BenchObjects: Send {
    /// Makes the objects and loads the rows. Replaces what this program made earlier. Fails, without changes, if other
    /// objects have these names.
    fn set_up(&mut self, rows: u64, payload: usize) -> impl Future<Output = Result<()>> + Send;

    /// Removes the rows inserted since [`set_up`](Self::set_up) loaded `rows` rows.
    fn remove_inserted(&mut self, rows: u64) -> impl Future<Output = Result<()>> + Send;

    /// Removes only what [`set_up`](Self::set_up) made. Returns whether there was anything.
    fn clean_up(&mut self) -> impl Future<Output = Result<bool>> + Send;
}
