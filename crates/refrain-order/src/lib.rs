//! Record and replay of MPI's nondeterministic choices.
//!
//! An MPI program is deterministic except for a few choices of MPI: which message a wildcard receive gets, which
//! requests a call finds complete, how often a poll fails. A *recorder* records these choices, and a *replayer*
//! enforces them in a later run, which then computes the same results, bit for bit. There are two methods:
//!
//! - [`causal`] sends nothing along with messages. It records the matched source and tag of wildcard
//!   receives, and relies on MPI's rule that messages of one source, tag and communicator do not overtake
//!   each other. A [`Recorder`] observes what happened; a [`Replayer`] is asked about the same calls in the
//!   same order, and says what to do.
//! - `clock` is clock delta compression (Sato et al., SC '15): messages carry Lamport clocks, and the record
//!   holds the difference between the order of receives and the clock order.
//!
//! This crate is the pure part of both: it knows nothing of MPI, files or threads, and does not panic.
//! Recorder and replayer run inside the program, one per rank. `tests/it/model` runs them in a model of
//! MPI's matching rules, over random programs and schedules. How an agent has to use them, and why, is
//! in `docs/record-replay.md`.
//!
//! ```
//! use refrain_order::{
//!     Call, Completed, Decision, Envelope, Frames, Kind, MatchResult, Post, Posting, Recorder, Replayer,
//! };
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let irecv = Post { site: 0x1040, communicator: 0, source: None, tag: Some(7) };
//! let waitany = Call { kind: Kind::Waitany, site: 0x1080, count: 2 };
//! let test = Call { kind: Kind::Test, site: 0x10c0, count: 0 };
//! let (from_3, from_5) = (Envelope { source: 3, tag: 7 }, Envelope { source: 5, tag: 7 });
//!
//! let mut recorder = Recorder::new();
//! let tickets = [recorder.post(0, &irecv), recorder.post(0, &irecv)];
//! recorder.matched(0, &waitany, Completed::These(&[1]));
//! recorder.resolve(tickets[1], MatchResult::Matched(from_5));
//! recorder.failed(0, Kind::Test, 0x10c0);
//! recorder.matched(0, &test, Completed::All);
//! recorder.resolve(tickets[0], MatchResult::Matched(from_3));
//! let mut bytes = Vec::new();
//! recorder.finish(&mut bytes);
//!
//! let mut replayer = Replayer::new(Frames::read(bytes))?;
//! assert_eq!(replayer.post(0, &irecv), Ok(Posting::Narrowed(from_3)));
//! assert_eq!(replayer.post(0, &irecv), Ok(Posting::Narrowed(from_5)));
//! assert_eq!(replayer.call(0, &waitany), Ok(Decision::These(&[1])));
//! assert_eq!(replayer.call(0, &test), Ok(Decision::Fail));
//! assert_eq!(replayer.call(0, &test), Ok(Decision::All));
//! assert_eq!(replayer.finish(), Ok(()));
//! # Ok(())
//! # }
//! ```
//!
//! # Modules
//!
//! | module | contents |
//! |---|---|
//! | [`vocabulary`] | calls and their outcomes as plain data: the types that both methods and the agent share |
//! | [`method`] | the trait that recorders of both methods implement |
//! | [`causal`], `clock` | the two methods |
//! | [`turns`] | the order in which threads performed competing operations |
//! | [`divergence`] | where a program diverged from the record |
//! | [`board`] | the progress that ranks of a replay publish, and when a replay has stalled |
//! | [`frame`], `coding` | bytes: frames with checksums, adaptive entropy coding |
//! | [`arrivals`], [`handles`], [`thread_path`] | data structures for agents: pending receives, requests, identities of threads |

#![cfg_attr(
    not(test),
    deny(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used, clippy::panic)
)]

pub mod arrivals;
pub mod board;
pub mod causal;
#[cfg(feature = "clock")]
pub mod clock;
mod coding;
pub mod divergence;
pub mod error;
pub mod frame;
pub mod handles;
pub mod method;
pub mod thread_path;
pub mod turns;
pub mod vocabulary;

pub use arrivals::Arrivals;
pub use causal::{Decision, Frames, Log, Posting, Recorder, Replayer, Sums};
pub use divergence::{Divergence, Moment, Stop};
pub use error::OrderError;
pub use handles::Handles;
pub use method::Recording;
pub use thread_path::child;
pub use turns::Turn;
pub use vocabulary::source;
pub use vocabulary::{
    Call, Choice, Completed, Envelope, Finished, Kind, MatchResult, Post, Stamp, Ticket,
};
