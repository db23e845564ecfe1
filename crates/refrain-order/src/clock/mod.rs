//! The clock method: clock delta compression (Sato, Ahn, Laguna, Lee, Schulz, SC '15).
//!
//! Every message carries its sender's [Lamport clock](Lamport). Programs receive nearly in the order of
//! these clocks, and a replay computes the same clocks. So the record holds neither sources nor clocks,
//! but the difference between the observed order and the clock order.
//!
//! | step | module | Sato et al. |
//! |---|---|---|
//! | base table; redundancy elimination | [`table`] | §3.1, §3.2, figures 4 and 6 |
//! | permutation encoding | [`permutation`], [`part`] | §3.3, §4.1, figures 7 and 10 |
//! | linear predictive encoding | [`predict`] | §3.4 |
//! | epoch lines | [`epoch`] | §3.5 |
//! | gzip, chunks | [`chunk`], [`encoder`], [`read`] | §3.5, figure 8 |
//! | an encoder thread behind a queue | `background`, [`queue`] | §4.2 |
//! | one table per call stack | [`chunk::TableKey`], [`routes`] | §4.4 |
//! | clocks; when a replay may decide | [`lamport`], [`arrivals`], [`bound_queries`] | §3.6, §5 |
//!
//! The record also holds what the paper leaves out, at no cost where it does not occur: which request
//! got a message ([`table::Table::claims`]), calls that found something other than messages
//! ([`table::Other`]), messages of one sender that were observed out of order or never ([`epoch`]), and
//! which table each message belongs to ([`routes`]). Receives that have no choice (source and tag given,
//! no wildcard posted before them, a call that completes all it is given) need no row: see [`receives`].
//! What an agent has to do, and why, is in `docs/record-replay.md`.
//!
//! ```
//! use refrain_order::clock::{Answer, Delivery, Note, Recorder, Replayer};
//! use refrain_order::{
//!     Call, Completed, Envelope, Finished, Kind, MatchResult, Post, Recording, Stamp,
//! };
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let irecv = Post { site: 0x1040, communicator: 0, source: None, tag: Some(7) };
//! let waitany = Call { kind: Kind::Waitany, site: 0x1080, count: 2 };
//! let sent = |clock, source| Note::Sent { clock, communicator: 0, source, tag: 7 };
//!
//! // Process 0 receives the message of 2, stamped 9, before that of 1, stamped 5.
//! let mut recorder = Recorder::new(0);
//! let tickets = [recorder.post(0, &irecv), recorder.post(0, &irecv)];
//! recorder.receive_note(1, &sent(5, 1));
//! recorder.receive_note(2, &sent(9, 2));
//! for (index, source) in [(0, 2), (1, 1)] {
//!     let from = Envelope { source, tag: 7 };
//!     let ticket = tickets[index as usize];
//!     // No pending receive that was posted earlier could have taken such a message.
//!     assert_eq!(recorder.unresolved(Some(ticket), 0, from), []);
//!     let stamp = recorder.stamp_of(Some(ticket), 0, from);
//!     let finished = [Finished { ticket, match_result: MatchResult::Matched(from), stamp }];
//!     let pending = tickets.map(|ticket| recorder.is_open(ticket).then_some(ticket));
//!     recorder.completed(0, &waitany, &pending, Completed::These(&[index]), &finished);
//! }
//! let mut bytes = Vec::new();
//! recorder.finish(&mut bytes);
//!
//! let mut replayer = Replayer::new(bytes, 0, 3)?;
//! let tickets = [replayer.receive(0, &irecv).ok(), replayer.receive(0, &irecv).ok()];
//! replayer.receive_note(2, sent(9, 2));
//! // The first message in clock order, which was received second, has not arrived yet.
//! assert_eq!(replayer.call(0, &waitany, &tickets), Ok(Answer::Later));
//! replayer.receive_note(1, sent(5, 1));
//! let stamp = |sender, clock| Some(Stamp { sender, sequence: 0, clock });
//! let first = Delivery { index: 0, message: stamp(2, 9), cancelled: false };
//! assert_eq!(replayer.call(0, &waitany, &tickets), Ok(Answer::These(&[first])));
//! let second = Delivery { index: 1, message: stamp(1, 5), cancelled: false };
//! assert_eq!(replayer.call(0, &waitany, &[None, tickets[1]]), Ok(Answer::These(&[second])));
//! assert_eq!(replayer.finish(), Ok(()));
//! # Ok(())
//! # }
//! ```

pub mod arrivals;
#[cfg(not(loom))]
pub mod background;
pub mod bound_queries;
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
pub mod protocol;
pub mod queue;
mod ranks;
pub mod read;
pub mod receives;
pub mod record;
pub mod replay;
pub mod routes;
pub mod summary;
pub mod table;

pub use encoder::Encoder;
pub use lamport::Lamport;
pub use protocol::{Answer, Delivery, Note, Sending};
pub use record::Recorder;
pub use replay::Replayer;
