//! MPI as data: its functions and what they do, its kinds of values, its binary layouts, its named
//! constants.
//!
//! Everything in Refrain that must know the form or the meaning of an MPI call derives it from here:
//! the agent's wrappers are generated from [`interface`], [`semantics`] says what each function does,
//! the raw log is written and read by [`kind::Class`], calls are printed with the names in [`names`],
//! and memory that MPI filled in is understood through the layouts in [`abi`]. The facts themselves
//! stand in text tables beside the code (`interface.txt`, `semantics.txt`, `kinds.txt`,
//! `constants.txt`, `handles.txt`, `fortran.txt`), made to be read and edited by people.

pub mod abi;
pub mod datatypes;
pub mod fortran;
pub mod interface;
pub mod kind;
pub mod length;
pub mod names;
pub mod semantics;
pub mod status;
