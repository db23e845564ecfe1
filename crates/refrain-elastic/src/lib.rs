//! Values over ranks as formulas.
//!
//! The value that an MPI program passes to the same call on every rank is rarely arbitrary: it is the same
//! number everywhere, the rank's right neighbour, its partner across a hypercube, its transposed position in
//! a grid, or `PROC_NULL` on the border of one. A [`Column`] is one such argument: an
//! `i64` for each rank of a [`IdList`], stored as a few [`Formula`]s instead of one number per
//! rank. [`TextColumn`] does the same for strings. This is the *elastic value* of
//! ScalaTrace II, with the ranklists of its section descriptors (RSD and PRSD).
//!
//! The crate is a pure core: it knows nothing of MPI, files or threads, it has no dependencies,
//! and it neither panics nor loses a value for any input. Decoders treat their input as hostile: they return an
//! [`ElasticError`], and allocate no more memory than the input and the caller's bound on the ranks (`most`)
//! justify.
//!
//! ```
//! use refrain_elastic::{Column, Formula};
//!
//! // The northern neighbour on a 4 x 4 grid: none (-2) in the first row.
//! let ranks: Vec<u32> = (0..16).collect();
//! let north: Vec<i64> = ranks.iter().map(|&r| if r < 4 { -2 } else { i64::from(r) - 4 }).collect();
//!
//! let column = Column::fit(&ranks, &north);
//! assert_eq!(column.eval(2), Some(-2));
//! assert_eq!(column.eval(7), Some(3));
//! assert_eq!(column.eval(16), None);
//! assert_eq!(column.to_string(), "0-3: -2; else rank - 4");
//!
//! let mut bytes = Vec::new();
//! column.encode(&mut bytes);
//! assert_eq!(Column::decode(&mut &bytes[..], 16), Ok(column));
//! ```
//!
//! # Where things are
//!
//! | module | content |
//! |---|---|
//! | [`section`] | one nested arithmetic progression of ranks |
//! | [`idlist`], `folding` | sets of ranks or threads as sections; finding the sections |
//! | [`formula`], [`grid`] | the functions of the rank |
//! | `single`, `residual`, `pieces` | finding one formula for all ranks, or several for parts of them |
//! | [`table`] | values that fit no formula |
//! | [`mod@column`], `merge` | the elastic value itself; merging two of them |
//! | [`columns`] | the numbers of a list that differ between ranks; merging them |
//! | [`bases`] | many numbers as affine functions of a few shared columns |
//! | [`text`] | strings |
//! | [`tree`] | merging the values of many ranks in a binary tree |
//! | `varint`, [`error`] | bytes in and out |

#![cfg_attr(
    not(test),
    deny(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used, clippy::panic)
)]

pub mod bases;
pub mod column;
pub mod columns;
pub mod error;
mod folding;
pub mod formula;
pub mod grid;
pub mod idlist;
mod merge;
mod pieces;
mod residual;
pub mod section;
mod single;
pub mod table;
pub mod text;
pub mod tree;

pub use bases::{Affine, Base, ColumnSet};
pub use column::{Column, Form, Piece};
pub use columns::Columns;
pub use error::ElasticError;
pub use formula::{Formula, TreeStep};
pub use grid::{Digit, Grid};
pub use idlist::IdList;
pub use section::{Dimension, Section};
pub use table::Table;
pub use text::TextColumn;

/// A set of ranks.
pub type RankList = IdList;
