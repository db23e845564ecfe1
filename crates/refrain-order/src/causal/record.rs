//! The recorder: observes calls, and records what a replay needs.
//!
//! A call only appends a few words to its thread's open block. The block is coded as a whole when it is sealed: by
//! then most match results are known, and the coder's tables do not compete with the program for the cache all the
//! time.

use std::collections::BTreeSet;

use crate::causal::codec::Codec;
use crate::causal::event::{
    Block, CallEvent, CallShape, Completion, LateResult, Picked, PostShape, ReceiveEvent, Trailing,
};
use crate::causal::frames::{Frames, StreamFrames};
use crate::turns::TurnRecorder;
use crate::vocabulary::{Call, Choice, Completed, Kind, MatchResult, Post, Ticket};
use refrain_bytes::table::Map;

/// A block with this many events is full.
const FULL: usize = 1 << 14;
/// A block with this many events is sealed even if the agent does not ask for it: a block can be no larger.
const BURSTING: usize = 8 * FULL;

/// Records one rank's receive order.
#[derive(Debug, Default)]
pub struct Recorder {
    streams: Vec<Stream>,
    turns: TurnRecorder,
    /// Receives that the next matching call completes, each with the index of its request.
    completing: Vec<(Ticket, u32)>,
}

/// The most receives that are kept out of a sealed block, per stream and of all streams. If more are pending, they
/// are sealed, and get their match results in later frames.
const KEPT_BACK: usize = 64;
const ALL_KEPT_BACK: usize = 512;

/// A receive that was kept out of a sealed block: it has to be recorded again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pending {
    /// Its ticket, which stays the same.
    pub ticket: Ticket,
    /// Its shape.
    pub shape: PostShape,
    /// Its match result; `None` for the first.
    pub match_result: Option<MatchResult>,
}

/// Counts of what was recorded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sums {
    /// Wildcard receives that got a message.
    pub receives: u64,
    /// Calls that completed something.
    pub calls: u64,
    /// Failed polls.
    pub polls: u64,
    /// Clock values and random numbers.
    pub values: u64,
    /// The bytes that they take.
    pub value_bytes: u64,
}

/// The state of one thread.
#[derive(Debug, Default)]
struct Stream {
    codec: Codec,
    block: Block,
    call_shapes: Map<CallShape, u32>,
    post_shapes: Map<PostShape, u32>,
    /// Failed polls since the last success, by call shape.
    polls: Vec<u64>,
    last_call: Option<(CallShape, u32)>,
    last_post: Option<(PostShape, u32)>,
    /// Wildcard receives, and other operations, posted in this stream.
    wild: u64,
    named: u64,
    /// The number of the block's first wildcard receive.
    first: u64,
    /// Receives before this one were already kept back once.
    kept: u64,
    /// Receives of sealed blocks whose match result is not known, unless `resumed`.
    waiting: BTreeSet<u64>,
    /// Whether receives may be pending that were posted before this recorder was made.
    resumed: bool,
    /// Frames that were not returned yet.
    sealed: Vec<u8>,
    sums: Sums,
}

impl Recorder {
    /// An empty recorder.
    pub fn new() -> Self {
        Self::default()
    }

    /// A recorder that continues a record, for the events that a killed process has left in its log. The frames it seals
    /// belong after `frames`. Operations that were posted before keep their tickets.
    pub fn resume(frames: &Frames) -> Self {
        let stream = |thread: &StreamFrames| Stream {
            codec: Codec::resumed(thread.bodies.len() as u64, thread.receives),
            wild: thread.receives,
            first: thread.receives,
            // It is not known which receives were kept back.
            kept: u64::MAX,
            named: thread.named,
            resumed: true,
            ..Stream::default()
        };
        let streams = frames.streams().iter().map(stream).collect();
        Self { streams, ..Self::default() }
    }

    #[inline]
    #[expect(clippy::indexing_slicing, reason = "made as long as that just before")]
    fn stream(&mut self, stream: u32) -> &mut Stream {
        let at = stream as usize;
        if self.streams.len() <= at {
            self.add_streams(at + 1);
        }
        &mut self.streams[at]
    }

    #[cold]
    fn add_streams(&mut self, count: usize) {
        self.streams.resize_with(count, Stream::default);
    }

    /// A receive was posted, a persistent receive was started, a probe succeeded, or (with source and tag) something was
    /// sent. The match result of a wildcard has to follow by [`Recorder::resolve`].
    #[inline]
    pub fn post(&mut self, stream: u32, post: &Post) -> Ticket {
        let thread = self.stream(stream);
        if !post.is_wild() {
            thread.named += 1;
            thread.block.named += 1;
            return Ticket { stream, wild: false, number: thread.named - 1 };
        }
        let shape = thread.post_shape(post);
        thread.block.receives.push(ReceiveEvent { shape, match_result: None });
        thread.wild += 1;
        thread.grew(stream);
        Ticket { stream, wild: true, number: thread.wild - 1 }
    }

    /// The match result of an operation. Only wildcards and cancelled operations need it; recording it
    /// twice does no harm.
    #[inline]
    pub fn resolve(&mut self, ticket: Ticket, match_result: MatchResult) {
        let Ticket { stream, wild, number } = ticket;
        let thread = self.stream(stream);
        if !wild && match_result != MatchResult::Cancelled {
            return;
        }
        let index = number.checked_sub(thread.first).filter(|_| wild);
        let receive = index.and_then(|index| thread.block.receives.get_mut(index as usize));
        match receive {
            Some(receive) => receive.match_result = Some(match_result),
            None if wild && !thread.waiting.remove(&number) && !thread.resumed => {}
            None => {
                thread.block.late_results.push(LateResult { wild, number, match_result });
                thread.grew(stream);
            }
        }
    }

    /// The next matching call completes this receive: it is request `index` of the call.
    pub fn completes(&mut self, ticket: Ticket, index: u32) {
        if ticket.wild {
            self.completing.push((ticket, index));
        }
    }

    /// A poll failed. Kinds that cannot fail are ignored.
    #[inline]
    pub fn failed(&mut self, stream: u32, kind: Kind, site: u64) {
        self.failed_often(stream, kind, site, 1);
    }

    /// A poll failed `times` times.
    #[expect(clippy::indexing_slicing, reason = "there is a count for every shape")]
    pub(crate) fn failed_often(&mut self, stream: u32, kind: Kind, site: u64, times: u64) {
        if kind.polls() {
            let thread = self.stream(stream);
            let shape = thread.call_shape(CallShape { kind, site });
            thread.polls[shape as usize] += times;
        }
    }

    /// `times` operations without wildcards were posted.
    pub(crate) fn named(&mut self, stream: u32, times: u64) {
        let thread = self.stream(stream);
        thread.named += times;
        thread.block.named += times;
    }

    /// A completing call succeeded. For a call that chooses among its requests, `completed` has to name them; if it does
    /// not fit the kind of call, the part that fits is recorded.
    #[inline]
    #[expect(clippy::indexing_slicing, reason = "there is a count for every shape")]
    pub fn matched(&mut self, stream: u32, call: &Call, completed: Completed<'_>) {
        let Call { kind, site, count } = *call;
        let thread = self.stream(stream);
        let shape = thread.call_shape(CallShape { kind, site });
        let (receives, picks) = (thread.block.receives.len(), thread.block.picks.len());
        let picked = match (kind.choice(), completed) {
            (Choice::All, _) => Picked::All,
            (Choice::One, Completed::These([index, ..])) => {
                thread.block.picks.push(*index);
                Picked::These(1)
            }
            (Choice::Some, Completed::These(indices)) if !indices.is_empty() => {
                thread.block.picks.extend_from_slice(indices);
                Picked::These(indices.len() as u32)
            }
            _ => Picked::Undefined,
        };
        if matches!(picked, Picked::These(_)) {
            thread.block.behind = receives.saturating_sub(picks) as u32;
        }
        let count = if kind.has_array() { count } else { 0 };
        let polls = std::mem::take(&mut thread.polls[shape as usize]);
        thread.block.calls.push(CallEvent { shape, count, polls, picked });
        if !self.completing.is_empty() {
            self.note_completions(stream);
        }
        self.stream(stream).grew(stream);
    }

    /// Attributes the receives of [`Recorder::completes`] to the last call of a stream.
    fn note_completions(&mut self, stream: u32) {
        let mut completing = std::mem::take(&mut self.completing);
        let block = &mut self.stream(stream).block;
        let call = (block.calls.len() as u32).saturating_sub(1);
        for (Ticket { stream, number: receive, .. }, index) in completing.drain(..) {
            block.completions.push(Completion { call, index, stream, receive });
        }
        self.completing = completing;
    }

    /// A clock was read or a random number drawn; `which` is the source of the value.
    pub fn value(&mut self, stream: u32, which: u8, bits: u64) {
        let thread = self.stream(stream);
        thread.block.values.push((which, bits));
        thread.grew(stream);
    }

    /// An operation of this thread took a turn in the queue of `key` (see [`crate::turns`]).
    pub fn turn(&mut self, stream: u32, key: u64) {
        self.turns.took(stream, key);
    }

    /// Whether it is time to seal. Sealing then bounds the memory of the recorder.
    #[inline]
    pub fn is_full(&self, stream: u32) -> bool {
        let full = |stream: &Stream| stream.block.weight() >= FULL;
        self.streams.get(stream as usize).is_some_and(full) || self.turns.weight() >= FULL
    }

    /// Appends all events of every thread to `out`, as complete frames. Wildcard receives whose match result is not known
    /// yet get it in a later frame.
    pub fn seal(&mut self, out: &mut Vec<u8>) {
        self.turns.seal(false, out);
        for (number, stream) in self.streams.iter_mut().enumerate() {
            stream.seal(number as u32, false, out);
        }
    }

    /// Like [`Self::seal`], but keeps back, for each thread, all receives from the first one whose match result is not
    /// known, unless these are many. They are returned, and have to be recorded again; their match results may be known
    /// by then. The next time they are sealed in any case, so a replayer finds them at most one block later.
    pub fn seal_settled(&mut self, out: &mut Vec<u8>) -> Vec<Pending> {
        let mut pending = Vec::new();
        for (number, stream) in self.streams.iter_mut().enumerate() {
            if pending.len() + KEPT_BACK <= ALL_KEPT_BACK {
                stream.keep_back(number as u32, &mut pending);
            }
        }
        self.seal(out);
        pending
    }

    /// Seals for the last time. Receives without a match result count as never matched, so the agent has to ask MPI first.
    pub fn finish(mut self, out: &mut Vec<u8>) {
        self.turns.seal(true, out);
        for (number, stream) in self.streams.iter_mut().enumerate() {
            stream.seal(number as u32, true, out);
        }
    }

    /// Counts of what was sealed so far, over all threads.
    pub fn sums(&self) -> Sums {
        self.streams.iter().fold(Sums::default(), |all, thread| Sums {
            receives: all.receives + thread.sums.receives,
            calls: all.calls + thread.sums.calls,
            polls: all.polls + thread.sums.polls,
            values: all.values + thread.sums.values,
            value_bytes: all.value_bytes + thread.codec.value_bytes(),
        })
    }

    /// Wildcard receives whose match result is not known. A receive that was posted before one that has matched may have
    /// matched already: an agent whose record is to be exact up to a crash asks MPI about it (`MPI_Request_get_status`)
    /// before it seals.
    pub fn unresolved(&self) -> impl Iterator<Item = Ticket> + '_ {
        self.streams.iter().enumerate().flat_map(|(stream, thread)| {
            let numbers = thread.waiting.iter().copied().chain(thread.open());
            numbers.map(move |number| Ticket { stream: stream as u32, wild: true, number })
        })
    }
}

impl Stream {
    #[inline]
    fn call_shape(&mut self, shape: CallShape) -> u32 {
        if let Some((last, number)) = self.last_call
            && last == shape
        {
            return number;
        }
        let next = self.call_shapes.len() as u32;
        let number = *self.call_shapes.entry(shape).or_insert(next);
        if number == next {
            self.block.call_shapes.push(shape);
            self.polls.push(0);
        }
        self.last_call = Some((shape, number));
        number
    }

    #[inline]
    fn post_shape(&mut self, post: &Post) -> u32 {
        let Post { site, communicator, source, tag } = *post;
        let (any_source, any_tag) = (source.is_none(), tag.is_none());
        let shape = PostShape { site, communicator, any_source, any_tag };
        if let Some((last, number)) = self.last_post
            && last == shape
        {
            return number;
        }
        let next = self.post_shapes.len() as u32;
        let number = *self.post_shapes.entry(shape).or_insert(next);
        if number == next {
            self.block.post_shapes.push(shape);
        }
        self.last_post = Some((shape, number));
        number
    }

    /// Receives of the open block whose match result is not known.
    fn open(&self) -> impl Iterator<Item = u64> + '_ {
        let receives = (self.first..).zip(&self.block.receives);
        receives.filter(|(_, receive)| receive.match_result.is_none()).map(|(number, _)| number)
    }

    /// Moves the receives from the first one without a match result to `pending`, unless these are many.
    fn keep_back(&mut self, stream: u32, pending: &mut Vec<Pending>) {
        let receives = (self.first..).zip(&self.block.receives);
        let mut open = receives.filter(|(_, receive)| receive.match_result.is_none());
        let kept = std::mem::replace(&mut self.kept, self.wild);
        let Some((from, _)) = open.find(|(number, _)| *number >= kept) else { return };
        let settled = (from - self.first) as usize;
        if self.block.receives.len() - settled > KEPT_BACK {
            return;
        }
        let shapes: Map<u32, PostShape> =
            self.post_shapes.iter().map(|(shape, number)| (*number, *shape)).collect();
        self.wild = from;
        for (number, receive) in (self.wild..).zip(self.block.receives.drain(settled..)) {
            let ticket = Ticket { stream, wild: true, number };
            // Every receive has a shape of the stream.
            let shape = shapes.get(&receive.shape).copied();
            pending.extend(shape.map(|shape| Pending {
                ticket,
                shape,
                match_result: receive.match_result,
            }));
        }
    }

    /// Bounds the size of the block, whether or not the agent seals in time.
    #[inline]
    fn grew(&mut self, stream: u32) {
        if self.block.weight() >= BURSTING {
            let mut sealed = std::mem::take(&mut self.sealed);
            self.seal(stream, false, &mut sealed);
            self.sealed = sealed;
        }
    }

    /// Adds the counts of the block to the sums.
    fn add_up(&mut self) {
        let Block { calls, receives, late_results, trailing, values, .. } = &self.block;
        let has_message =
            |match_result: MatchResult| matches!(match_result, MatchResult::Matched(_));
        let now =
            receives.iter().filter(|receive| receive.match_result.is_some_and(has_message)).count();
        let late = late_results
            .iter()
            .filter(|late_result| late_result.wild && has_message(late_result.match_result))
            .count();
        self.sums.receives += (now + late) as u64;
        self.sums.calls += calls.len() as u64;
        self.sums.values += values.len() as u64;
        self.sums.polls += calls.iter().map(|call| call.polls).sum::<u64>();
        self.sums.polls += trailing.iter().map(|trailing| trailing.polls).sum::<u64>();
    }

    fn seal(&mut self, number: u32, last: bool, out: &mut Vec<u8>) {
        out.append(&mut self.sealed);
        let polled = self.polls.iter_mut().enumerate().filter(|(_, polls)| **polls > 0);
        let trailing = polled
            .map(|(shape, polls)| Trailing { shape: shape as u32, polls: std::mem::take(polls) });
        self.block.trailing.extend(trailing);
        if self.block.is_empty() && !last {
            return;
        }
        self.add_up();
        self.codec.encode(number, &self.block, last, out);
        let mut waiting = std::mem::take(&mut self.waiting);
        waiting.extend(self.open());
        self.waiting = waiting;
        self.first = self.wild;
        self.block.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::vocabulary::Envelope;

    #[test]
    fn receives_without_a_match_result_stay_unresolved_across_blocks() {
        let mut recorder = Recorder::new();
        let mut bytes = Vec::new();
        let post = Post { site: 1, communicator: 0, source: None, tag: None };
        let tickets = [(); 4].map(|()| recorder.post(0, &post));
        let match_result = MatchResult::Matched(Envelope { source: 1, tag: 2 });
        recorder.resolve(tickets[1], match_result);
        recorder.seal(&mut bytes);
        recorder.resolve(tickets[3], match_result);
        let open: Vec<Ticket> = recorder.unresolved().collect();
        assert_eq!(open, [tickets[0], tickets[2]]);
        let size = bytes.len();
        recorder.seal(&mut bytes);
        assert!(bytes.len() > size);
        // Recording a result again adds nothing to the record.
        let size = bytes.len();
        recorder.resolve(tickets[3], match_result);
        recorder.resolve(tickets[1], match_result);
        recorder.seal(&mut bytes);
        assert_eq!(bytes.len(), size);
    }
}
