//! MPI as data: its functions and what they do, its kinds of values, its binary layouts, its named
//! constants.
//!
//! All of Refrain derives its knowledge of MPI from this crate: the agent's wrappers are generated from
//! [`interface`], [`semantics`] says what each function does, the log is written and read by
//! [`kind::Class`], calls are printed with the names in [`names`], and memory that MPI filled in is
//! interpreted with the layouts in [`abi`]. The facts are in text tables beside the code
//! (`interface.txt`, `semantics.txt`, `kinds.txt`, `constants.txt`, `handles.txt`, `fortran.txt`),
//! which people can read and edit.
//!
//! To add a function: its form goes into `interface.txt`, its meaning into `semantics.txt`. The wrapper, the replay
//! hook, the encoding and the decoder follow from these. Where Fortran does not reach the C function, it also has a
//! line in `fortran.txt`.

#![cfg_attr(
    not(test),
    deny(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used, clippy::panic)
)]

pub mod abi;
pub mod datatypes;
pub mod fortran;
pub mod interface;
pub mod kind;
pub mod length;
pub mod names;
pub mod semantics;
pub mod status;
