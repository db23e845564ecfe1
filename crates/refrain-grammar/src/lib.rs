//! Sequences as grammars.
//!
//! A program that communicates in loops makes a long sequence of calls with little information.
//! This crate turns a sequence of *terminals* (plain `u32`s, whose meaning is up to the caller) into
//! a context-free grammar that yields exactly this sequence. It works online, and its space grows
//! with what is new in the sequence, not with its length (Pilgrim §2.2).
//!
//! - [`Sequitur`] grows a grammar, terminal by terminal.
//! - [`Grammar`] is a finished grammar: canonical, immutable, small on disk. Length, positions and
//!   counts are found without expanding it.
//! - [`Cursor`] is a position in its sequence; [`Grammar::walk`] shows its rules as loops to a [`Visitor`].
//! - [`share()`] stores the grammars of many processes as one, with each common part once.
//!
//! ```
//! use refrain_grammar::{Sequitur, Symbol};
//!
//! let mut sequitur = Sequitur::new();
//! for _ in 0..1000 {
//!     for terminal in [7, 8, 8, 8, 9] {
//!         sequitur.push(terminal);
//!     }
//! }
//! let grammar = sequitur.grammar();
//! assert_eq!(grammar.rules()[0], [Symbol::rule(1, 1000)]);
//! assert_eq!(
//!     grammar.rules()[1],
//!     [Symbol::terminal(7, 1), Symbol::terminal(8, 3), Symbol::terminal(9, 1)]
//! );
//! assert_eq!(grammar.len(), 5000);
//! assert_eq!(grammar.iter_from(4998).collect::<Vec<_>>(), [8, 9]);
//! ```
//!
//! No function panics, whatever its input, and none recurses: this code runs inside other people's
//! programs, and reads files that may be damaged.

#![cfg_attr(
    not(test),
    deny(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used, clippy::panic)
)]

mod canonical;
mod codec;
mod cursor;
mod error;
mod grammar;
mod iter;
mod reader;
mod sequitur;
mod share;
mod verify;

pub use cursor::{Cursor, Level, Visitor};
pub use error::GrammarError;
pub use grammar::{Grammar, Symbol, What};
pub use iter::{Iter, Place};
pub use sequitur::{Saving, Sequitur};
pub use share::{Shared, share};
pub use verify::Violation;
