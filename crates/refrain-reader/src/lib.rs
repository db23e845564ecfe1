//! Reads `.refrain` files: every analysis of Refrain's, and yours, stands on this crate.
//!
//! # The model
//!
//! A file holds one [`Run`] of a parallel program. [`open`] says what was recorded of it: MPI calls ([`CallTrace`]),
//! MPI's nondeterministic choices for replay ([`Orders`]), or loads and stores ([`MemoryTrace`]).
//!
//! In a trace of calls, a *task* is one thread of one rank. There are two ways to read what tasks did:
//!
//! * **One call after the other.** [`CallTrace::tasks`] gives [`TaskRef`]s, [`TaskRef::calls`] the [`Call`]s of one, with
//!   arguments by the names that the MPI standard gives them.
//! * **Symbolically.** Tasks that do the same with other values are one [`Structure`]: a grammar (or [loop
//!   nest](Structure::nest)) over *signatures*, and each argument of a [`Signature`] is a constant or a formula of the
//!   rank ([`Num`]). This takes time in proportion to the file, not to the calls or ranks.
//!
//! # Calls
//!
//! ```
//! use refrain_reader::{Peer, open};
//! use std::path::Path;
//!
//! let path = Path::new("../refrain/tests/golden/stencil.refrain");
//! let trace = open(path)?.calls().expect("a trace of calls");
//! let mut messages = 0;
//! for task in trace.tasks() {
//!     for call in task.calls()? {
//!         let call = call?;
//!         if let Some(Peer::Rank(_)) = call.peer_in("dest") {
//!             messages += 1;
//!         }
//!     }
//! }
//! assert!(messages > 0);
//! # Ok::<(), refrain_reader::TraceError>(())
//! ```
//!
//! # Structures
//!
//! ```
//! # use std::path::Path;
//! # let path = Path::new("../refrain/tests/golden/stencil.refrain");
//! # let trace = refrain_reader::open(path)?.calls().expect("a trace of calls");
//! for structure in trace.structures()? {
//!     let occurrences = structure.occurrences();
//!     for signature in structure.signatures().filter(|signature| !signature.is_note()) {
//!         for arguments in signature.variants() {
//!             let times = occurrences[signature.number as usize];
//!             if let Some(dest) = arguments.arg("dest").and_then(|arg| arg.int()) {
//!                 // ranks 0-3: 120 x MPI_Isend to ((rank + 1) mod 4)
//!                 println!("ranks {}: {times} x {} to {dest}", arguments.ranks, signature.function.name);
//!             }
//!         }
//!     }
//! }
//! # Ok::<(), refrain_reader::TraceError>(())
//! ```
//!
//! `examples/message_matrix.rs` and `examples/symbolic_peers.rs` are whole programs.
//!
//! # Map
//!
//! | you want | ask |
//! |---|---|
//! | how the program was run, and whether the file is complete | [`File::run`], [`CallTrace::run`] |
//! | an argument of a call | [`Call::arg`], [`Call::int`], [`Call::peer`], [`Call::predefined`] |
//! | how much a call sends | [`Call::bytes`] |
//! | what a receive matched | [`Call::statuses`] |
//! | when a call was made | [`Call::span`] |
//! | how a task ended, without decoding it | [`TaskRef::tail`] |
//! | which ranks do the same | [`CallTrace::structures`], [`Structure::ranks`] |
//! | the loops | [`Structure::nest`] |
//! | how often, how long | [`Structure::occurrences`], [`Signature::stats`] |
//! | an argument as a function of the rank | [`Arguments::arg`], [`Num`], [`refrain_elastic::Column`] |
//! | what a function does in MPI's terms | `refrain_mpi::semantics` |
//!
//! # Pitfalls
//!
//! * A rank in an argument is a rank of the call's communicator; [`Call::world_rank_in`] translates it.
//! * Negative ranks are constants that differ between MPI libraries: use [`Call::peer`], not the number.
//! * [`Call::span`] is `None` unless the times of every call were recorded. Tasks then have no common order: only
//!   messages and collectives relate them.
//! * A call that never returned has its inputs only ([`Call::returned`]): in a program that hung, it is the one to look at.
//! * A test that fails and is repeated at once counts as often as it was made, in [`TaskRef::calls`]; in
//!   [`Structure::occurrences`] it does not count: that is the same on all ranks, and failed polls are not.
//! * Notes (memory that came into use, members of communicators) are no calls. [`TaskRef::calls`] leaves them out,
//!   [`Structure::signatures`] has them ([`Signature::is_note`]).
//! * Handles in [`Value::Word`] are numbers of the reader's own, the same for as long as the object lives.
//! * [`Signature::stats`] is over all ranks of the structure, in ticks ([`Meta::tick`] nanoseconds each).
//!
//! # Sections of a trace of calls
//!
//! | section | content |
//! |---|---|
//! | `meta` | how the trace came about and its processes ([`mod@meta`]) |
//! | `structure` | signatures and grammars of all tasks ([`refrain_structure::write`]) |
//! | `timing` | durations by signature |
//! | `own/A-B` | what ranks A to B have of their own: outcomes and polls; a list of rank, thread, bytes |
//! | `clocks` | the clocks of the processes, where times of single calls are kept ([`clocks`]) |
//! | `timing-setting` | how times are kept, and how far they may be off ([`times::Wanted`]) |
//! | `times/N` | the times of stream N's calls, if they were asked for ([`times`]) |
//! | `order/facts`, `order/N` | receive orders, in a file of those ([`orders`]) |
//! | `raw/N` | the records ([`refrain_format::record`]) of stream N, if they were asked for |
//!
//! A reader of one rank reads `meta` and `structure`, which are small, and the `own` section
//! with that rank.
//!

pub mod arguments;
pub mod calls;
pub mod clocks;
pub mod datatypes;
pub mod decoder;
mod error;
pub mod event;
pub mod file;
pub mod functions;
pub mod items;
pub mod meta;
pub mod orders;
mod own;
pub mod payload;
pub mod processes;
pub mod raw;
pub mod run;
pub mod sections;
pub mod structure;
pub mod tasks;
pub mod timing;
pub mod trace;
pub mod view;

pub use calls::{Call, Calls, Peer, Span};
pub use error::TraceError;
pub use event::{Event, Value};
pub use file::{File, open};
pub use items::{Interleaved, Item, Note};
pub use meta::{Ended, Meta, Paused, StreamMeta};
pub use orders::Orders;
pub use processes::{ProcessRef, Source};
pub use refrain_elastic;
pub use refrain_memtrace::MemoryTrace;
pub use run::Run;
pub use structure::{Arg, Arguments, Num, Object, Signature, Structure};
pub use tasks::TaskRef;
pub use trace::CallTrace;
