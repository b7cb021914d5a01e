use overhead_model::privilege::{DAC_READ_SEARCH, remedy};
use std::path::PathBuf;

/// Why a container is not found.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// With the system's message.
    #[error("the processes cannot be listed ({0}): is /proc mounted?")]
    Proc(String),
    /// No name, pod or id matches.
    #[error("no running container matches {name}: {}", found_in_words(found, unreadable))]
    Unknown {
        /// As the user named it.
        name: String,
        /// Running containers, in words.
        found: Vec<String>,
        /// Engine folders that this user may not read.
        unreadable: Vec<PathBuf>,
    },
    /// Several names, pods or ids match.
    #[error("{name} is more than one container: name one of {meant}, or give its id")]
    Ambiguous {
        /// As the user named it.
        name: String,
        /// The matches, in words.
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
    format!("{found}; names are unknown, because this user cannot read {}: {remedy}", folder.display())
}
