//! What can be wrong with a trace.

use crate::decoder::TaskError;
use crate::raw::DecodeError;
use refrain_container::ContainerError;
use std::io;
use std::path::PathBuf;

/// Something wrong with a trace as a whole.
#[derive(Debug, thiserror::Error)]
pub enum TraceError {
    /// The container.
    #[error(transparent)]
    Container(#[from] ContainerError),
    /// A section is malformed.
    #[error("{path}: section `{section}`: {why}")]
    Section {
        /// The file.
        path: PathBuf,
        /// The section.
        section: String,
        /// Why.
        why: String,
    },
    /// Times that a process has left.
    #[error("{path}: {why}")]
    Times {
        /// The file.
        path: PathBuf,
        /// Why.
        why: String,
    },
    /// Durations do not read; the rest may.
    #[error("{0}: `refrain show` works without")]
    Timing(String),
    /// The parts cannot be listed.
    #[error("{path}: {source}")]
    Parts {
        /// The folder of parts.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A task does not decode.
    #[error("{path}: section `structure`: {source}")]
    Task {
        /// The file.
        path: PathBuf,
        /// Why.
        source: TaskError,
    },
    /// The items of a task do not read.
    #[error("rank {rank}, thread {thread}: {source}")]
    Stream {
        /// The rank.
        rank: i32,
        /// The thread.
        thread: u32,
        /// Why.
        source: DecodeError,
    },
    /// References to memory do not read.
    #[error("{path}: {why}")]
    Memory {
        /// The file.
        path: PathBuf,
        /// Why.
        why: String,
    },
}
