//! Why a container is not found.

use overhead_model::privilege::{DAC_READ_SEARCH, remedy};
use std::path::PathBuf;

/// Why a container is not found.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The processes of this host cannot be listed.
    #[error("the processes cannot be listed ({0}): is /proc mounted?")]
    Proc(String),
    /// No container is called so.
    #[error("there is no running container {name}: {}", found_in_words(found, unreadable))]
    Unknown {
        /// What was asked for.
        name: String,
        /// Those there are, in words.
        found: Vec<String>,
        /// Folders of engines that this user may not read.
        unreadable: Vec<PathBuf>,
    },
    /// Several are called so.
    #[error("{name} is more than one container: name one of {meant}, or give its id")]
    Ambiguous {
        /// What was asked for.
        name: String,
        /// Those that may be meant, in words.
        meant: String,
    },
}

fn found_in_words(found: &[String], unreadable: &[PathBuf]) -> String {
    let found = match found {
        [] => "none was found (a container has processes on this host, which must be seen from here)".to_owned(),
        found => format!("found {}", found.join(", ")),
    };
    let Some(folder) = unreadable.first() else { return found };
    let remedy = remedy(&[DAC_READ_SEARCH]);
    format!("{found}; names are not known, for {} cannot be read by this user: {remedy}", folder.display())
}
