//! The memory that a traced process shares with its compressor.
//!
//! A front end inside a program (the *producer*) writes every load and store into shared memory. A
//! compressor process (the *consumer*) empties it. One memory file holds everything that the two share:
//!
//! | part | what it is | module |
//! |---|---|---|
//! | control page | which side lives or sleeps, the length of the ledger | [`layout::Control`] |
//! | ledger | modules, blocks, contexts, segments, threads, in order of creation | [`record`] |
//! | a ring for each thread | its stream: block numbers and addresses | [`layout::RingHead`] |
//!
//! # Streams
//!
//! A stream is a sequence of words: the number of a block, then one address for each reference of the block.
//! The ledger describes the references of each block. A *context* is a block without references: its number
//! is the calling context of all that follows (a node of the tree of stack signatures, ScalaMemTrace §4.1).
//! Contexts are absolute, so exceptions and `longjmp` need no special treatment.
//!
//! # Rings
//!
//! A ring consists of a few chunks. The thread writes records one after the other at `at`, and stores `at`
//! when a record is complete: two stores, an addition and a comparison, which generated code can do. When a
//! chunk is full, or earlier, the thread *publishes* what it has written as a *part*, and continues in the
//! next chunk as soon as the parts there are consumed. `at` lies in the shared memory, too, so a killed
//! program loses nothing: the consumer takes what was written and not published.
//!
//! # Order
//!
//! A part holds the length of the ledger at its publication; the consumer reads the ledger that far before it
//! uses the part. A thread publishes before it announces a segment, so that its references before and after
//! the segment are in different parts.
//!
//! # Death
//!
//! A waiting side checks at least every tenth of a second whether the other side lives. A program whose
//! compressor died stops recording and continues. A compressor whose program died takes what was written.
//! Neither blocks the other for longer.
//!
//! # Meeting
//!
//! The environment variable [`SOCKET`] names an abstract Unix socket (`SOCK_SEQPACKET`). The
//! program sends a [`layout::Hello`] with the memory file, and gets one back when its compressor
//! has started. The socket is not needed after that, so a program may close all its descriptors. A process that
//! forks or executes another program starts again, with a memory file of its own.
//!
//! `include/refrain_rings.h` is the same for C.

#![cfg_attr(
    not(test),
    deny(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used, clippy::panic)
)]
#![cfg_attr(not(feature = "std"), no_std)]

#[cfg(feature = "std")]
pub mod consumer;
mod futex;
pub mod layout;
pub mod producer;
pub mod record;

/// The environment variable that names the socket.
pub const SOCKET: &str = "REFRAIN_MEM_SOCKET";
