//! Receive orders by Lamport clocks: recorded as differences to clock order, and forced again.
//!
//! This is *clock delta compression* (Sato, Ahn, Laguna, Lee, Schulz: SC '15), behind the same
//! seam as the causal method of [`refrain_order`], so that both can be compared on the same
//! programs. Every message carries the sender's [Lamport clock](Lamport). Programs receive nearly
//! in the order of these clocks, and a replay knows the clocks too: they are the same again. So
//! the record holds neither sources nor clocks, but what differs from the order of the clocks.
//!
//! | step | where | Sato et al. |
//! |---|---|---|
//! | base table; redundancy elimination | [`table`] | §3.1, §3.2, figures 4 and 6 |
//! | permutation encoding | [`permutation`], [`part`] | §3.3, §4.1, figures 7 and 10 |
//! | linear predictive encoding | [`predict`] | §3.4 |
//! | epoch lines | [`epoch`] | §3.5 |
//! | gzip, chunks | [`chunk`], [`encoder`], [`read`] | §3.5, figure 8 |
//! | an encoder thread behind a queue | [`background`], [`queue`] | §4.2 |
//! | tables by call stack | [`chunk::TableKey`], [`routes`] | §4.4 |
//! | clocks; who may go on in a replay | [`lamport`], [`arrivals`], [`talk`] | §3.6, §5 |
//!
//! Where the paper leaves something out, this is kept besides, and costs nothing where it does not
//! happen: which request got a message ([`table::Table::claims`]), what a call found other than
//! messages ([`table::Other`]), messages of one sender that were seen in another order than sent
//! or never ([`epoch`]), and which table each message belongs to ([`routes`]). Receives that have
//! no choice (a source and a tag, no wildcard before them, a call that completes all it is given)
//! need no row at all: see [`receives`].
//!
//! ```
//! use refrain_clock::{Recorder, Replayer};
//! use refrain_order::{
//!     Answer, Call, Completed, Delivery, Envelope, Fate, Finished, Holding, Kind, Note, Post,
//!     Recording, Stamp,
//! };
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let irecv = Post { site: 0x1040, communicator: 0, source: None, tag: Some(7) };
//! let waitany = Call { kind: Kind::Waitany, site: 0x1080, count: 2 };
//! let sent = |clock, source| Note::Sent { clock, communicator: 0, source, tag: 7 };
//!
//! // Process 0 receives from 2 what was stamped 9 before what was stamped 5.
//! let mut recorder = Recorder::new(0);
//! let tickets = [recorder.post(0, &irecv), recorder.post(0, &irecv)];
//! recorder.hear(1, &sent(5, 1));
//! recorder.hear(2, &sent(9, 2));
//! for (index, source) in [(0, 2), (1, 1)] {
//!     let from = Envelope { source, tag: 7 };
//!     let ticket = tickets[index as usize];
//!     // Nothing that was posted before and is pending could have taken such a message.
//!     assert_eq!(recorder.unknown(Some(ticket), 0, from), []);
//!     let stamp = recorder.stamp_of(Some(ticket), 0, from);
//!     let finished = [Finished { ticket, fate: Fate::Matched(from), stamp }];
//!     let pending = tickets.map(|ticket| recorder.is_open(ticket).then_some(ticket));
//!     recorder.completed(0, &waitany, &pending, Completed::These(&[index]), &finished);
//! }
//! let mut bytes = Vec::new();
//! recorder.finish(&mut bytes);
//!
//! let mut replayer = Replayer::new(bytes, 0, 3)?;
//! let tickets = [replayer.receive(0, &irecv).ok(), replayer.receive(0, &irecv).ok()];
//! replayer.hear(2, sent(9, 2));
//! // What comes first in clock order, and was received second, has not come yet.
//! assert_eq!(replayer.call(0, &waitany, &tickets), Ok(Answer::Later));
//! replayer.hear(1, sent(5, 1));
//! let stamp = |sender, clock| Some(Stamp { sender, sequence: 0, clock });
//! let first = Delivery { index: 0, message: stamp(2, 9), cancelled: false };
//! assert_eq!(replayer.call(0, &waitany, &tickets), Ok(Answer::These(&[first])));
//! let second = Delivery { index: 1, message: stamp(1, 5), cancelled: false };
//! assert_eq!(replayer.call(0, &waitany, &[None, tickets[1]]), Ok(Answer::These(&[second])));
//! assert_eq!(replayer.finish(), Ok(()));
//! # Ok(())
//! # }
//! ```
//!
//! # What an agent has to do
//!
//! **Carry stamps beside messages, not in them.** Then counts, probes, truncation and statuses are
//! what they would be. One communicator of the agent's, a duplicate of the world, carries
//! [`Note`](refrain_order::Note)s: with every message a note goes to the same process, as an eager
//! `MPI_Isend` of some thirty bytes with one tag, *before* the message. All notes between two
//! processes are on one communicator and one tag, so MPI keeps their order, across all of the
//! program's communicators: notes number messages by just being in order, and an answer of a
//! replay cannot overtake the news of a message. (A shadow of every communicator would keep the
//! order of each, but not among them; and creating shadows is collective, where
//! `MPI_Comm_create_group` and `MPI_Comm_idup` leave no moment to do it.) Tags and communicators are data
//! in a note: wildcards and the upper bound of tags do not matter to it.
//!
//! | the program | recording | replaying |
//! |---|---|---|
//! | sends | [`post`](refrain_order::Recording::post), [`stamp`](refrain_order::Recording::stamp), send the note, forward | [`send`](refrain_order::Holding::send) until it is its turn, send what [`say`](refrain_order::Holding::say) has, forward |
//! | posts a receive | `post`, forward | [`receive`](refrain_order::Holding::receive), and hold it back |
//! | completes receives | [`Recorder::unknown`], [`Recorder::learn`], [`Recorder::stamp_of`]; then one [`completed`](refrain_order::Recording::completed) | [`call`](refrain_order::Holding::call) until it is not `Later`; give receives their messages |
//! | polls in vain | [`failed`](refrain_order::Recording::failed) | `call` says `Fail` |
//! | probes successfully | [`Recorder::stamp_of`] nothing, `post`, `completed` with no tickets | `call` with no tickets: the one delivery is the message |
//! | receives a matched message | `completed`, with nothing finished | `call` with no tickets |
//! | cancels | [`cancels`](refrain_order::Recording::cancels), forward | [`cancels`](refrain_order::Holding::cancels) until it is its turn; nothing else |
//! | meets others in a collective | [`Recorder::clock`], see below | [`Replayer::clock`], the same |
//! | waits, or is in any call | take notes in: [`Recorder::hear`] | take notes and messages in: [`hear`](refrain_order::Holding::hear); send what `say` has |
//! | ends | receive all notes, [`Recorder::close`] | [`over`](refrain_order::Holding::over), go on answering until all have ended |
//!
//! *Processes* have numbers that are the same in every run: ranks in the world. *Sites* of matching
//! calls are hashes of their stacks, module and offset of each frame. *Tickets* are kept with
//! requests. In `completed`, `tickets` are those of the receives among the requests given.
//!
//! **Replaying, receives are held back.** Which message a wildcard gets is known when it completes,
//! not when it is posted, and named receives posted behind it must not take its message. So nothing
//! is posted. The agent takes messages out of MPI by `MPI_Improbe` for every note that has come (and
//! nothing else: MPI may have messages of its own on a communicator); the n-th taken of a source,
//! tag and communicator belongs to the n-th note of these. A [`Delivery`](refrain_order::Delivery) says
//! which one a request gets: `MPI_Imrecv` into the program's buffer, and wait for that.
//!
//! # Traps
//!
//! - **Stamps in the order of posting.** Of two receives that got messages of the same source and
//!   tag, that which was posted first got the first stamp, though the other one may be seen first
//!   (figure 3 of the paper). [`Recorder::unknown`] names the wildcards posted earlier that must
//!   have taken something else before; ask `MPI_Request_get_status` until it says what. That ends:
//!   they have matched, and MPI has to complete what has matched. The record does not depend on it
//!   for receives that the program let go of.
//! - **Large messages.** The sender of one may wait until it is received, and the receive is held
//!   back until something else has come, perhaps from that sender. So a message that is not
//!   delivered at once is received aside, as bytes, into memory of the agent; its delivery is a
//!   message to oneself on a communicator of the agent, into the program's buffer with the program's
//!   datatype: counts and truncation come out as they should, source and tag are put right in the
//!   status. `MPI_Mprobe` gets its handle from there too. (The model receives everything aside.)
//! - **Receives without a choice may be posted**, if [`receives::Receives::certain`] says so and no
//!   message of their source and tag was taken: programs that use no wildcards are not slowed.
//! - **Clocks must go wherever news can go.** A replay relies on it that what follows from a
//!   receive is stamped later. A barrier tells of receives before it, and so does every
//!   collective: whoever gets news by it has to [`Lamport::meet`] a clock that nobody who sent the
//!   news was past when they began. Where nobody is done before all have begun (Barrier,
//!   Allreduce, Allgather, Alltoall), that needs no communication on the world: all count its
//!   collectives alike, and who completes the n-th meets n times 2^32. For all others, and on other
//!   communicators, reduce the clocks to their maximum beside it. A Bcast is no exception: it may
//!   come by way of others, and then what its receiver does follows from what those have received.
//!   Nonblocking ones meet at completion. Fences and the creation of windows, files and communicators
//!   are collectives too.
//! - **Whoever is in a collective has to answer**, too: somebody who is missing there may be asking.
//!   So processes tell each other when they come to one, wait for all others outside of MPI,
//!   and say who is missing ([`Replayer::gathers`]).
//!   Where clocks do not go (one-sided atomics, files, shared memory between processes), a
//!   replay may wait for a message that waits for it: when all wait and no note is under way, stop, and
//!   say so.
//! - **Threads.** Stamp, note and message are one step under a lock; blocking sends are Isend under
//!   it and Wait outside. The order in which threads set the clock is recorded and forced by itself
//!   ([`record::CLOCK_LINE`]), other orders as for the causal method.
//! - **Cancelled receives** are not posted anyway; [`Delivery::cancelled`](refrain_order::Delivery)
//!   says which. **Cancelled sends** would leave a note without message: `MPI_Cancel` of a send does
//!   nothing in either mode, which MPI allows.
//! - **Freed receives** keep their place: neither mode tells of `MPI_Request_free`, and when
//!   recording the request is kept, as [`Recorder::unknown`] may ask for it. What they take is a
//!   hole in the epoch; a replay leaves it with the agent.
//! - **Persistent** receives and sends are posted by Start, Startall is several Starts, and their
//!   notes go then. **Partitioned** operations have no choice of messages; they are left to MPI,
//!   and carry clocks by a note with a communicator's number of their own.
//! - **PROC_NULL** gets no note. A message **to oneself** is heard of at once, without MPI.
//! - **Intercommunicators**: `source` in a note is the sender's rank in its own group, which is what
//!   the receiver's status says; the communicator's number is the same on both sides. Processes of
//!   other worlds (spawned, connected) are outside: say so.
//! - **`MPI_Request_get_status`** that succeeds is when the program learns of it; the receive is no
//!   longer [open](Recorder::is_open), and completing it later needs no stamp.
//! - **Failed polls** take notes in, too, or a replay stands still while it polls; and a process in
//!   Finalize goes on answering. Tell all others `Nothing`, for good, when [`over`] for every thread.
//! - **Finalize** with notes that nobody has received is an error. Processes count the notes they
//!   have sent to each other, exchange the counts, and receive what is missing.
//! - **Memory of MPI.** Unreceived notes are unexpected messages: take them in at every call, not
//!   only when a stamp is needed. Notes are sent by `MPI_Isend` even for `MPI_Bsend`: the attached
//!   buffer is the program's.
//! - **Fork.** The encoder's thread is not in the child, and a full queue would never be emptied:
//!   the child forgets the recorder, and does not drop it.
//!
//! [`over`]: refrain_order::Holding::over

pub mod arrivals;
#[cfg(not(loom))]
pub mod background;
mod bytes;
pub mod chunk;
pub mod encoder;
pub mod epoch;
pub mod event;
pub mod lamport;
pub mod loaded;
pub mod pairing;
pub mod part;
pub mod permutation;
pub mod predict;
pub mod queue;
mod ranks;
pub mod read;
pub mod receives;
pub mod record;
pub mod replay;
pub mod routes;
pub mod summary;
pub mod table;
pub mod talk;

pub use encoder::Encoder;
pub use lamport::Lamport;
pub use record::Recorder;
pub use replay::Replayer;
