//! The asynchronous runtime of programs that capture.

use anyhow::Result;
use tokio::runtime::Runtime;

/// Returns a runtime of one thread.
pub fn runtime() -> Result<Runtime> {
    Ok(tokio::runtime::Builder::new_current_thread().enable_all().build()?)
}

/// Waits for `future`, or forever if there is none.
pub async fn or_never<F: Future>(future: Option<F>) -> F::Output {
    match future {
        Some(future) => future.await,
        None => std::future::pending().await,
    }
}
