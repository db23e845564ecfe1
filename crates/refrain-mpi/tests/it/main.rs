//! The table of MPI's interface.

mod constants;
mod interface;
mod semantics;
