//! Any MPI library, found at run time and called through the table of MPI's interface.
//!
//! No `mpi.h` is compiled in. A [`Library`] is an MPI library in this process: one that
//! [`Library::open`] has loaded, or one that a program has loaded itself ([`Library::from_loaded`], for
//! code inside that program). The library's binary interface is detected ([`Abi`]), predefined handles and
//! constants are found by name, and functions are called with *words*: every argument is a `usize`.
//!
//! ```no_run
//! use refrain_mpilib::{Library, Status};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! // SAFETY: the file is an MPI library, and the only one in this process.
//! let mpi = unsafe { Library::open("libmpi.so.40")? };
//! println!("{}, an MPI of the family {}", mpi.version(), mpi.abi().family.name());
//!
//! let handle = |name| mpi.predefined(name).ok_or(format!("this MPI has no {name}"));
//! let (world, int, sum) = (handle("MPI_COMM_WORLD")?, handle("MPI_INT")?, handle("MPI_SUM")?);
//! // SAFETY: each function gets its own arguments, and MPI is initialized meanwhile.
//! unsafe {
//!     mpi.call("MPI_Init", &mut [0, 0])?;
//!
//!     // A scalar output is in its word after the call.
//!     let mut words = [world, 0];
//!     mpi.call("MPI_Comm_rank", &mut words)?;
//!     let rank = words[1] as i32;
//!
//!     // Buffers, arrays, strings and statuses are passed by address.
//!     let (mine, mut total) = (rank + 1, 0i32);
//!     let (from, to) = (&raw const mine as usize, &raw mut total as usize);
//!     mpi.call("MPI_Allreduce", &mut [from, to, 1, int, sum, world])?;
//!
//!     let mut status = Status::new();
//!     let any = mpi.abi().any_source as usize;
//!     let at = status.address() as usize;
//!     let mut words = [any, 7, world, 0, at];
//!     mpi.call("MPI_Iprobe", &mut words)?;
//!     let has_message = words[3] != 0;
//!     let source = status.fields(&mpi.status_layout()).map(|fields| fields.source);
//!     println!("rank {rank}: {total}, {has_message}, {source:?}");
//!
//!     mpi.call("MPI_Finalize", &mut [])?;
//! }
//! # Ok(())
//! # }
//! ```
//!
//! `examples/two_ranks.rs` is a whole program.
//!
//! # Where things are
//!
//! * [`Library`]: one MPI library; [`Callable`]: one of its functions, looked up once
//! * [`Abi`]: the values of its binary interface; the layouts themselves are in [`refrain_mpi::abi`]
//! * [`Form`]: how each argument of a function is passed, derived from the interface table
//! * [`function`]: the numbers of all functions
//! * [`invoke`](words::invoke): a function called with words, without a look at the table
//! * [`Comm`]: a communicator that no other code uses, to exchange bytes between ranks
//! * [`Symbols`]: where functions and variables are found. The agent has an implementation of its own.
//!
//! # Rules
//!
//! The agent uses this crate inside other people's programs, so the rules of `refrain-agent` apply: nothing
//! panics, and a call by number takes no lock and allocates nothing.

#![cfg_attr(
    not(test),
    deny(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used, clippy::panic)
)]

#[cfg(not(all(target_arch = "x86_64", target_os = "linux")))]
compile_error!("words are passed as Linux on x86-64 passes integers and addresses");

pub mod function;
pub mod words;

mod abi;
mod comm;
mod error;
mod form;
mod library;
mod opened;
mod status;
mod symbols;

pub use abi::Abi;
pub use comm::Comm;
pub use error::{CallError, OpenError};
pub use form::{Argument, Form, Width};
pub use library::{Callable, Library, Value};
pub use opened::Opened;
pub use status::Status;
pub use symbols::{Symbols, is_library_name};
