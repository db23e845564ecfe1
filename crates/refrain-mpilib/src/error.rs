//! What can go wrong with a library and with a call.

use std::error::Error;
use std::fmt;

/// Why a library could not be opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OpenError {
    /// The loader refused it.
    NotLoaded {
        /// The path or name that was given.
        library: String,
        /// The loader's message.
        reason: String,
    },
    /// It is loaded, and has no functions of MPI.
    NotMpi {
        /// The path or name that was given.
        library: String,
    },
}

impl fmt::Display for OpenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            OpenError::NotLoaded { library, reason } => write!(
                f,
                "cannot load the MPI library {library}: {reason}. Give the path that `ldd` shows for an \
                 MPI program, or add its folder to LD_LIBRARY_PATH"
            ),
            OpenError::NotMpi { library } => write!(
                f,
                "{library} is not an MPI library: it has no PMPI_Init. Give the path that `ldd` shows for \
                 an MPI program"
            ),
        }
    }
}

impl Error for OpenError {}

/// Why a function was not called.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CallError {
    /// MPI's interface has no function of that name.
    Unknown(String),
    /// The library does not have the function.
    Absent(&'static str),
    /// The function takes another number of arguments.
    Arguments {
        /// The function.
        function: &'static str,
        /// The number of arguments that it takes.
        takes: usize,
        /// The number of words that were given.
        given: usize,
    },
    /// The function does not return an error code: [`crate::Callable::value`] calls it.
    ReturnsValue(&'static str),
}

impl fmt::Display for CallError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CallError::Unknown(name) => write!(f, "MPI has no function {name}"),
            CallError::Absent(name) => write!(f, "this MPI library does not have {name}"),
            CallError::Arguments { function, takes, given } => {
                write!(f, "{function} takes {takes} arguments, not {given}")
            }
            CallError::ReturnsValue(name) => write!(f, "{name} does not return an error code"),
        }
    }
}

impl Error for CallError {}
