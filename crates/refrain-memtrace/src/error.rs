//! Errors in parts and traces.

use refrain_bytes::BytesError;
use refrain_container::ContainerError;
use refrain_memory::MemoryError;

/// A part or trace that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum TraceError {
    /// The file is not a container, or damaged.
    #[error(transparent)]
    Container(#[from] ContainerError),
    /// Compressed references do not decode.
    #[error("section `{section}`: {source}")]
    Memory {
        /// The section.
        section: String,
        /// The error.
        source: MemoryError,
    },
    /// The bytes end too early.
    #[error("the data ends in the middle")]
    Short,
    /// The file has a later version.
    #[error("version {0} of the format; use a newer Refrain")]
    Newer(u64),
    /// Reading or writing failed.
    #[error("{}", refrain_container::reason(.0))]
    Io(std::io::Error),
}

impl From<std::io::Error> for TraceError {
    fn from(error: std::io::Error) -> Self {
        Self::Io(error)
    }
}

/// Adds the section to an error.
pub fn within<T>(section: &str, result: Result<T, MemoryError>) -> Result<T, TraceError> {
    result.map_err(|source| TraceError::Memory { section: section.to_owned(), source })
}

impl From<BytesError> for TraceError {
    fn from(_: BytesError) -> Self {
        Self::Short
    }
}
