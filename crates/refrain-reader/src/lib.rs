//! Reads `.refrain` files. Every analysis of Refrain builds on this crate, and yours can, too.
//!
//! # The model
//!
//! A file holds one [`Run`] of a parallel program. [`open`] says what was recorded of it: MPI calls ([`CallTrace`]),
//! MPI's nondeterministic choices for replay ([`Orders`]), or loads and stores ([`MemoryTrace`]).
//!
//! In a trace of calls, a *process* is a rank with its threads, and a *task* is one thread of one rank. There are two
//! ways to read what tasks did:
//!
//! * **One call after the other.** [`CallTrace::tasks`] gives [`TaskRef`]s, [`TaskRef::calls`] the [`Call`]s of one,
//!   with arguments by the names that the MPI standard gives them. [`CallTrace::processes`] gives [`ProcessRef`]s,
//!   whose [`items`](ProcessRef::items) are the calls of all threads in one sequence (in their true order only if
//!   the trace has the times of every call).
//! * **Symbolically.** Tasks that do the same with other values are one [`Structure`]: a grammar (or [loop
//!   nest](Structure::nest)) over *signatures*. Each argument of a [`Signature`] is a constant or a formula of the
//!   rank ([`Num`]). This takes time in proportion to the file, not to the number of calls or ranks.
//!
//! # An analysis in ten lines
//!
//! A crate of yours needs two lines in its `Cargo.toml`:
//!
//! ```toml
//! refrain-reader = { path = "…/crates/refrain-reader" }
//! refrain-mpi = { path = "…/crates/refrain-mpi" }        # what MPI functions do; optional
//! ```
//!
//! How much each rank sends, and to how many others:
//!
//! ```
//! use refrain_reader::{Peer, open};
//! use std::collections::BTreeSet;
//! use std::path::Path;
//!
//! let path = Path::new("../refrain/tests/golden/stencil.refrain");
//! let trace = open(path)?.calls().expect("a trace of calls");
//! for task in trace.tasks() {
//!     let (mut bytes, mut peers) = (0, BTreeSet::new());
//!     for call in task.calls()? {
//!         let call = call?;
//!         // Calls that send to a rank, not those to MPI_PROC_NULL.
//!         if let Some(Peer::Rank(_)) = call.peer_in("dest") {
//!             bytes += call.bytes().unwrap_or(0);
//!             // The same as a rank of MPI_COMM_WORLD, where it is known.
//!             peers.extend(call.world_rank_in("dest"));
//!         }
//!     }
//!     println!("rank {}: {bytes} bytes to {} ranks", task.rank(), peers.len());
//! #   assert!(bytes > 0 && peers.len() > 0);
//! }
//! # Ok::<(), refrain_reader::TraceError>(())
//! ```
//!
//! Functions come in many forms (`MPI_Send`, `MPI_Isend_c`, `MPI_Psend_init`). An analysis asks what a call *does*
//! instead of listing names:
//!
//! ```
//! use refrain_mpi::semantics::{Argument, Op};
//! # use std::path::Path;
//! # let path = Path::new("../refrain/tests/golden/stencil.refrain");
//! # let trace = refrain_reader::open(path)?.calls().expect("a trace of calls");
//! # let mut collectives = 0;
//! # for task in trace.tasks() {
//! for call in task.calls()? {
//!     let call = call?;
//!     match call.mpi().map(|function| function.op()) {
//!         Some(Op::Collective(kind)) => {
//!             let root = call.arguments().int(Argument::Root);
//!             println!("{kind:?} with root {root:?} at {:?}", call.site());
//! #           collectives += 1;
//!         }
//!         Some(Op::Send(mode)) => println!("a {mode:?} message to {:?}", call.peer_in("dest")),
//!         _ => {}
//!     }
//! }
//! # }
//! # assert!(collectives > 0);
//! # Ok::<(), refrain_reader::TraceError>(())
//! ```
//!
//! `refrain_analysis::matching` builds on this: it follows requests and communicators, and says which receive got
//! which message.
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
//!                 // `rank` is the rank in MPI_COMM_WORLD, the result a rank of `arguments.arg("comm")`.
//!                 println!("ranks {}: {times} x {} to {dest}", arguments.ranks, signature.function.name);
//!             }
//!         }
//!     }
//! }
//! # Ok::<(), refrain_reader::TraceError>(())
//! ```
//!
//! The loops are a tree whose leaves are numbers of signatures:
//!
//! ```
//! use refrain_reader::{Nest, Structure};
//!
//! /// Prints the calls of a body, indented by loops.
//! fn show(structure: &Structure<'_>, body: &[Nest<u32>], indent: usize) {
//!     for node in body {
//!         match node {
//!             Nest::Leaf(number) => {
//!                 if let Some(signature) = structure.signature(*number).filter(|s| !s.is_note()) {
//!                     println!("{:indent$}{}", "", signature.function.name);
//!                 }
//!             }
//!             Nest::Loop { count, body } => {
//!                 println!("{:indent$}{count} times", "");
//!                 show(structure, body, indent + 2);
//!             }
//!             Nest::Block(block) => println!("{:indent$}block {block}", ""),
//!         }
//!     }
//! }
//!
//! # use std::path::Path;
//! # let path = Path::new("../refrain/tests/golden/stencil.refrain");
//! # let trace = refrain_reader::open(path)?.calls().expect("a trace of calls");
//! for structure in trace.structures()? {
//!     let nest = structure.nest();
//!     // A block may be used several times. Visiting each block once takes time in proportion to the file;
//!     // entering it wherever it is used takes time in proportion to the calls.
//!     for (number, block) in nest.blocks.iter().enumerate() {
//!         println!("block {number}:");
//!         show(&structure, block, 2);
//!     }
//!     show(&structure, &nest.body, 0);
//! }
//! # Ok::<(), refrain_reader::TraceError>(())
//! ```
//!
//! `examples/message_matrix.rs` and `examples/symbolic_peers.rs` are whole programs:
//! `cargo run -p refrain-reader --example message_matrix -- app.refrain`.
//!
//! # Map
//!
//! | you want | ask |
//! |---|---|
//! | how the program was run, and whether the file is complete | [`File::run`], [`CallTrace::run`] |
//! | what a function does in MPI's terms | [`Call::mpi`], [`Signature::mpi`], [`refrain_mpi::semantics`] |
//! | an argument of a call | by name [`Call::arg`], [`Call::int`], [`Call::peer_in`], [`Call::predefined`]; by meaning [`Call::arguments`] |
//! | how much a call sends | [`Call::bytes`] |
//! | what a receive matched | [`Call::statuses`]; over all ranks `refrain_analysis::matching` |
//! | when a call was made | [`Call::span`] |
//! | where in the program a call was made | [`Call::site`]; as file and line `refrain_analysis::sites` |
//! | the threads of a rank in one sequence | [`CallTrace::processes`], [`ProcessRef::items`] |
//! | members and size of communicators | of the communicator of a call [`Call::world_rank_in`], [`Call::comm_size`]; all of them [`Note::members`] among [`ProcessRef::items`] |
//! | calls of a task by function, without decoding it | [`CallTrace::calls`] with [`TaskRef::index`] |
//! | how a task ended, without decoding it | [`TaskRef::tail`] |
//! | which ranks do the same | [`CallTrace::structures`], [`Structure::ranks`] |
//! | the loops | [`Structure::nest`] |
//! | the references of a memory trace, of one thread or of several in turns, also from the middle on | [`MemoryTrace::process`]; examples: [`refrain_memtrace`] |
//! | the loops of a memory trace, with strides | [`MemoryTrace::structures`], [`refrain_memtrace::SharedStructure`] |
//! | how often, how long | [`Structure::occurrences`], [`Signature::mean`]; all statistics [`CallTrace::durations`] |
//! | an argument as a function of the rank | [`Arguments::arg`], [`Num`], [`refrain_elastic::Column`] |
//! | a peer on one rank of a structure | [`Arg::peer_on`]; as a rank in `MPI_COMM_WORLD` [`Arguments::world_rank_on`] |
//!
//! # Pitfalls
//!
//! * A rank in an argument is a rank of the call's communicator; [`Call::world_rank_in`] translates it.
//!   It is `None` where another thread made the communicator, and the process made another one with other members
//!   after it was freed: the handle alone does not say which is meant. With times, [`ProcessRef::items`] knows.
//! * Negative ranks are constants that differ between MPI libraries: use [`Call::peer`], not the number. In a formula
//!   ([`Num`]), compare with `refrain_mpi::names::constant_value(trace.family(), "MPI_PROC_NULL")`.
//! * A status that the program ignored (`MPI_STATUS_IGNORE`) is kept only where MPI had a choice, such as in a receive
//!   from `MPI_ANY_SOURCE`. Elsewhere [`Call::statuses`] has nothing, and the size of what came is known from the
//!   sender alone. [`Call::bytes`] of a receive is an upper bound.
//! * [`Call::bytes`] of a persistent or partitioned request (`MPI_Send_init`) is that of one message, in the call that
//!   makes the request. Each start of the request sends it again.
//! * A loop of [`Structure::nest`] repeats the *same* signatures. A loop of the program whose tag, count or buffer
//!   changes in each iteration has a signature for each value, and may not show as a loop.
//! * [`Call::span`] is `None` unless the times of every call were recorded. Tasks then have no common order: only
//!   messages and collectives relate them.
//! * A call that never returned has its inputs only ([`Call::returned`]): in a program that hung, it is the one to look at.
//! * A failed poll that is repeated at once is a separate call in [`TaskRef::calls`]. [`Structure::occurrences`]
//!   does not count it: occurrences are the same on all ranks, and failed polls are not.
//! * Notes (memory that came into use, members of communicators) are not calls. [`TaskRef::calls`] leaves them out,
//!   [`TaskRef::items`] has them as [`Item::Note`], and [`Structure::signatures`] marks them ([`Signature::is_note`]).
//! * Handles in [`Value::Word`] are numbers that the reader assigns, the same for as long as the object lives. With
//!   [`Source::Records`] they are the handles of the MPI library, which may reuse one for several requests.
//! * A request completes in another call than the one that made it: `call.arguments().requests()` and
//!   `.completed()` pair requests with their statuses. `refrain_analysis::matching::Tracker` follows
//!   requests; so does an analysis of yours that wants the message of an `MPI_Irecv`.
//! * [`Signature::mean`] is of all calls with the same function, call site and message size on all ranks, in ticks
//!   ([`Meta::tick`] nanoseconds each).
//!
//! # Sections of a trace of calls
//!
//! | section | content |
//! |---|---|
//! | `meta` | facts about the run and its processes ([`mod@meta`]) |
//! | `structure` | signatures and grammars of all tasks ([`refrain_structure::write`]) |
//! | `nest` | the same as loop nests, instead of `structure` and `own` ([`mod@refrain_fold`]) |
//! | `histograms` | instead of all these: loop nests with histograms ([`refrain_fold::histograms`]) |
//! | `timing` | statistics of durations ([`durations`]) |
//! | `own/A-B` | per-rank residue of ranks A to B: outcomes and polls; a list of rank, thread, bytes |
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
mod communicators;
pub mod datatypes;
pub mod decoder;
pub mod durations;
mod error;
pub mod event;
pub mod file;
pub mod functions;
pub mod items;
pub mod meta;
mod objects;
pub mod orders;
pub mod parallel;
pub mod payload;
pub mod processes;
pub mod raw;
mod residue;
pub mod run;
pub mod sections;
pub mod structure;
pub mod symbolic;
pub mod tasks;
pub mod timing;
pub mod trace;
pub mod view;

pub use arguments::CallArguments;
pub use calls::{Call, Calls, Peer, Span};
pub use decoder::handles::Handle;
pub use error::TraceError;
pub use event::{Event, Value};
pub use file::{File, is_one, open};
pub use items::{Interleaved, Item, Note};
pub use meta::{Ended, Meta, Paused, StreamMeta};
pub use orders::Orders;
pub use processes::{ProcessRef, Source};
pub use refrain_elastic;
pub use refrain_fold;
pub use refrain_memtrace::{self, MemoryTrace};
pub use refrain_nest::{self, LoopNest, Nest};
pub use run::Run;
pub use structure::{Arguments, Signature, Structure};
pub use symbolic::{Arg, Array, Num, Object};
pub use tasks::TaskRef;
pub use trace::CallTrace;
