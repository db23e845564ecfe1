//! Errors of traces.

use crate::decoder::TaskError;
use crate::raw::DecodeError;
use refrain_container::ContainerError;
use std::io;
use std::path::PathBuf;

/// An error of a trace.
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
    /// The trace has histograms, and no single calls.
    #[error(
        "{path}: its value vectors were replaced by histograms (refrain fold --histogram-above), so it \
         has no single calls: `refrain show --structure` prints its loops and `refrain show` calls that \
         are drawn from the histograms; for this, use the trace that it was made of"
    )]
    Histograms {
        /// The file.
        path: PathBuf,
    },
    /// The times of a process are malformed.
    #[error("{path}: {why}")]
    Times {
        /// The file.
        path: PathBuf,
        /// Why.
        why: String,
    },
    /// The statistics of durations are malformed; the rest may be readable.
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
    /// A task cannot be decoded.
    #[error("{path}: section `structure`: {source}")]
    Task {
        /// The file.
        path: PathBuf,
        /// Why.
        source: TaskError,
    },
    /// The items of a task cannot be read.
    #[error("rank {rank}, thread {thread}: {source}")]
    Stream {
        /// The rank.
        rank: i32,
        /// The thread.
        thread: u32,
        /// Why.
        source: DecodeError,
    },
    /// Memory references cannot be read.
    #[error("{path}: {why}")]
    Memory {
        /// The file.
        path: PathBuf,
        /// Why.
        why: String,
    },
}
