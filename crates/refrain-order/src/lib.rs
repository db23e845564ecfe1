//! Receive orders: recorded, coded, and forced on a later run.
//!
//! What an MPI program does is decided by the program, but for a few things that MPI decides:
//! which message a receive from any source gets, which requests a call finds complete, how often
//! a poll fails. Keep those, force them again, and the program does the same again, bit for bit.
//! The method is *causal*: nothing is sent along with messages. MPI lets no message overtake
//! another of the same (source, tag, communicator), and receives match in the order they were
//! posted. So if every receive asks for the source and tag that it got in the record, and is
//! posted in the same order, it gets the same message, however the messages travel.
//!
//! This crate is the pure part: it knows nothing of MPI, files or threads, has no dependencies,
//! and does not panic. The [`Recorder`] is told what happened; the [`Replayer`] is asked about the
//! same calls in the same order, and says what to do. Both run inside the program, one per rank.
//! `tests/model` runs them in a model of MPI's matching rules, over random programs and schedules.
//!
//! ```
//! use refrain_order::{
//!     Call, Completed, Decision, Envelope, Fate, Frames, Kind, Post, Posting, Recorder, Replayer,
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
//! recorder.resolve(tickets[1], Fate::Matched(from_5));
//! recorder.failed(0, Kind::Test, 0x10c0);
//! recorder.matched(0, &test, Completed::All);
//! recorder.resolve(tickets[0], Fate::Matched(from_3));
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
//! # What an agent has to do
//!
//! *Streams* are threads, numbered from 0 by the agent in a way that is the same in every run (by
//! who made them, not by who came first). *Sites* are the same in every run too: module and
//! offset, hashed. So are the numbers of communicators.
//!
//! | the program | recording | replaying |
//! |---|---|---|
//! | posts a receive (Irecv, Start, the receive of Recv, Sendrecv, Isendrecv) | [`Recorder::post`]; keep the [`Ticket`] with the request | [`Replayer::post`], post what it says |
//! | sends with a request | [`Recorder::post`] with source and tag given | [`Replayer::post`] likewise |
//! | completes a wildcard receive, or learns its status | [`Recorder::resolve`] | nothing |
//! | learns that an operation was cancelled | [`Recorder::resolve`], for all operations | nothing |
//! | polls in vain | [`Recorder::failed`] | [`Replayer::call`] says [`Decision::Fail`] |
//! | completes something (Wait…, Test…, Request_get_status…, Recv, Sendrecv, Mrecv, Parrived) | [`Recorder::matched`] | [`Replayer::call`], and complete exactly that |
//! | probes successfully | `matched`, then `post`, then `resolve` | `call`, then `post`, then wait for exactly that message |
//! | reads a clock, draws a number | [`Recorder::value`] | [`Replayer::value`] |
//! | does any of it in several threads | [`Recorder::turn`] | [`Replayer::turn`], [`Replayer::took_turn`] |
//!
//! Blocking receives are a post and a completion: tell both. Within a stream the order of what is
//! told must be that of the program. Heed [`Recorder::is_full`], or seal when the log is full.
//!
//! # Traps
//!
//! - **Narrow when posting.** A wildcard is replaced by its source and tag when it is posted; to
//!   put the post off until the message is known would deadlock. So fates are asked for in posting
//!   order, and a block that was sealed before a fate was known has it in a later one.
//! - **Cancelled receives are not posted** ([`Posting::WithheldCancelled`]), not even those without
//!   wildcards: they would take messages of others. Give the program a request of your own;
//!   complete it as cancelled. `MPI_Cancel` itself does nothing in a replay: what was not cancelled
//!   in the record must not be now.
//! - **Freed and abandoned receives need their fate**, or they do not take the message that they
//!   took. Keep the request when the program frees it, and look at it from time to time; at
//!   Finalize, cancel what is pending: if that fails, it has matched, and waiting for it tells what.
//! - **Startall is several Starts**, when recording too: the order in which it posts is its own.
//! - **A failed poll still drives progress.** [`Decision::Fail`] means not to look at the requests,
//!   but some MPI call has to be made (a probe on the agent's communicator), or MPI stands still. A
//!   matched probe that failed must not be tried: it might take a message now.
//! - **A successful poll waits.** What a Test found may be late this time: wait for it. For
//!   Request_get_status, repeat it until it is so: the request must stay.
//! - **Exactly these indices**, in the order reported, and no others, even if they are complete.
//! - **Statuses are ignored, sources are not.** Pass a status of your own where the program
//!   ignores it: the fate of a wildcard has to be known.
//! - **Loops bounded by time** need MPI_Wtime as a recorded value.
//! - **Threads** that send to the same (destination, tag, communicator), or that receive on the
//!   same communicator, take turns: see [`turns`]. When recording, posting and [`Recorder::turn`]
//!   have to be one step under a lock; blocking calls are split into post and wait, or Iprobe in a
//!   loop. When replaying, a successful probe keeps its turn until it has found its message.
//! - **Crashes.** What was sealed can be read. [`Recorder::resume`] goes on with what the agent's
//!   log has behind it. A wildcard receive that took a message unseen is missing from such a
//!   record: ask MPI about [`Recorder::unresolved`] ones before sealing.
//! - **Locks** between threads are in line too, all in one: a thread that waits for its turn while it
//!   holds a lock that the first in line wants waits for ever. Take the turn *after* getting a lock when
//!   recording, and wait for it *before* asking for the lock when replaying.
//! - **Outside**: RMA atomics, shared file pointers, reductions in order of arrival. The agent has to
//!   notice these and say so.
//!
//! # Where things are
//!
//! | module | what it holds |
//! |---|---|
//! | [`vocabulary`], [`event`] | calls and outcomes as plain data; what a record holds |
//! | [`record`], [`replay`], [`turns`], [`seam`] | the recorder, its mirror, the order of threads, what other methods have to offer |
//! | [`log`] | what a recorder is told, kept by way of a window that outlives the process |
//! | [`board`] | what the ranks of a replay say of themselves, and when nothing goes on any more |
//! | [`divergence`] | where a program left the record |
//! | [`frames`], [`codec`] | a record's bytes |
//! | `calls`, `receives`, `pool`, `set`, `symbol`, `alphabet`, `opinions`, `recency`, `number`, `coder` | adaptive models, from the largest to the single answer |
//! | [`arrivals`], [`handles`], [`descent`] | what an agent keeps of pending receives, and of threads |
//! | [`read`], [`races`], [`mod@diff`], [`summary`] | reading without replaying |

mod alphabet;
pub mod arrivals;
pub mod board;
mod calls;
pub mod codec;
mod coder;
pub mod descent;
pub mod diff;
pub mod divergence;
pub mod error;
pub mod event;
pub mod frames;
pub mod handles;
pub mod hash;
pub mod log;
mod number;
mod opinions;
mod pool;
pub mod races;
pub mod read;
mod receives;
mod recency;
pub mod record;
pub mod replay;
pub mod seam;
mod set;
pub mod summary;
mod symbol;
pub mod turns;
pub mod varint;
pub mod vocabulary;

pub use arrivals::Arrivals;
pub use descent::child;
pub use divergence::{Divergence, Moment};
pub use error::OrderError;
pub use frames::Frames;
pub use handles::Handles;
pub use log::Log;
pub use record::{Recorder, Sums};
pub use replay::{Decision, Posting, Replayer, Stop};
pub use seam::{Answer, Delivery, Holding, Note, Recording, Replaying, Sending};
pub use turns::Turn;
pub use vocabulary::{
    Call, Choice, Completed, Envelope, Fate, Finished, Kind, Post, Stamp, Ticket,
};
