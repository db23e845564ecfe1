//! What every format of Refrain is made of: numbers as bytes, an adaptive range coder, hashes whose
//! values are stored in files, and a fast hash for tables in memory.
//!
//! ```
//! use refrain_bytes::varint;
//!
//! let mut bytes = Vec::new();
//! varint::put(&mut bytes, 300);
//! varint::put_signed(&mut bytes, -1);
//! assert_eq!(bytes, [0xac, 0x02, 0x01]);
//!
//! let mut input = &bytes[..];
//! assert_eq!(varint::take(&mut input), Ok(300));
//! assert_eq!(varint::take_signed(&mut input), Ok(-1));
//! assert_eq!(varint::take(&mut input), Err(refrain_bytes::BytesError::Truncated));
//! ```
//!
//! | module | holds |
//! |---|---|
//! | [`varint`] | LEB128 numbers, zigzag for signed ones, bytes behind their length |
//! | [`range`] | binary range coding with adaptive probabilities |
//! | [`number`] | numbers for the range coder |
//! | [`logistic`] | probabilities as the logarithms of their odds, to mix predictions |
//! | [`stable`] | hashes that stand in files: their values never change |
//! | [`table`] | the hash of tables in memory: it may change with every build |
//!
//! This crate is linked into other people's programs. It has no dependencies, and none of its
//! functions panics, whatever the bytes.

#![cfg_attr(
    not(test),
    deny(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used, clippy::panic)
)]
#![forbid(unsafe_code)]

mod error;
pub mod logistic;
pub mod number;
pub mod range;
pub mod stable;
pub mod table;
pub mod varint;

pub use error::BytesError;
