//! The recorder: observes calls, and keeps what a replay has to know.
//!
//! On the way of a call only a few words are appended to the thread's open block. Coding happens
//! when the block is sealed, all at once: by then most match results are known, and the coder's tables do
//! not compete with the program for the cache all the time.

use std::collections::BTreeSet;

use crate::causal::codec::Codec;
use crate::causal::event::{
    Block, CallEvent, CallShape, LateResult, Picked, PostShape, ReceiveEvent, Trailing,
};
use crate::causal::frames::{Frames, StreamFrames};
use crate::turns::TurnRecorder;
use crate::vocabulary::{Call, Choice, Completed, Kind, MatchResult, Post, Ticket};
use refrain_bytes::table::Map;

/// A block is full when so many things are in it.
const FULL: usize = 1 << 14;
/// And is sealed at so many, whether the agent minds or not: a block can be no larger.
const BURSTING: usize = 8 * FULL;

/// Records one rank's receive order.
#[derive(Debug, Default)]
pub struct Recorder {
    streams: Vec<Stream>,
    turns: TurnRecorder,
}

/// So many receives at most are kept back when a stream is sealed, and so many of all streams. Those of
/// a program that keeps more receives pending get their match results in later frames.
const KEPT_BACK: usize = 64;
const ALL_KEPT_BACK: usize = 512;

/// A receive that was kept out of a sealed block: it has to be recorded again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pending {
    /// Its ticket, before and after.
    pub ticket: Ticket,
    /// What it was posted as.
    pub shape: PostShape,
    /// Its match result; not known of the first.
    pub match_result: Option<MatchResult>,
}

/// How much was recorded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sums {
    /// Wildcard receives that got a message.
    pub receives: u64,
    /// Calls that completed something.
    pub calls: u64,
    /// Failed polls.
    pub polls: u64,
    /// Clock readings and random numbers.
    pub values: u64,
    /// Bytes that hold these.
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
    /// Receives before this one were kept back already.
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
    /// A recorder for a rank that has done nothing yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// A recorder that continues after what another one has sealed: for what a killed process has
    /// left in its log. What it seals belongs after `frames`. Operations posted before keep
    /// their tickets.
    pub fn resume(frames: &Frames) -> Self {
        let stream = |own: &StreamFrames| Stream {
            codec: Codec::resumed(own.bodies.len() as u64),
            wild: own.receives,
            first: own.receives,
            // Which ones were is not known.
            kept: u64::MAX,
            named: own.named,
            resumed: true,
            ..Stream::default()
        };
        let streams = frames.streams().iter().map(stream).collect();
        Self { streams, turns: TurnRecorder::default() }
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

    /// A receive was posted, a persistent one started, a message probed for, or (with source and
    /// tag given) something sent. The match result of wildcards has to follow by [`Recorder::resolve`].
    #[inline]
    pub fn post(&mut self, stream: u32, post: &Post) -> Ticket {
        let own = self.stream(stream);
        if !post.is_wild() {
            own.named += 1;
            own.block.named += 1;
            return Ticket { stream, wild: false, number: own.named - 1 };
        }
        let shape = own.post_shape(post);
        own.block.receives.push(ReceiveEvent { shape, match_result: None });
        own.wild += 1;
        own.grew(stream);
        Ticket { stream, wild: true, number: own.wild - 1 }
    }

    /// The match result of an operation. Only wildcards and cancelled operations need it; recording it
    /// twice does no harm.
    #[inline]
    pub fn resolve(&mut self, ticket: Ticket, match_result: MatchResult) {
        let Ticket { stream, wild, number } = ticket;
        let own = self.stream(stream);
        if !wild && match_result != MatchResult::Cancelled {
            return;
        }
        let place = number.checked_sub(own.first).filter(|_| wild);
        let place = place.and_then(|place| own.block.receives.get_mut(place as usize));
        match place {
            Some(receive) => receive.match_result = Some(match_result),
            None if wild && !own.waiting.remove(&number) && !own.resumed => {}
            None => {
                own.block.late_results.push(LateResult { wild, number, match_result });
                own.grew(stream);
            }
        }
    }

    /// A poll failed. Kinds that cannot fail are ignored.
    #[inline]
    pub fn failed(&mut self, stream: u32, kind: Kind, site: u64) {
        self.failed_often(stream, kind, site, 1);
    }

    /// The same, `times` times.
    #[expect(clippy::indexing_slicing, reason = "there is a count for every shape")]
    pub(crate) fn failed_often(&mut self, stream: u32, kind: Kind, site: u64, times: u64) {
        if kind.polls() {
            let own = self.stream(stream);
            let shape = own.call_shape(CallShape { kind, site });
            own.polls[shape as usize] += times;
        }
    }

    /// `times` operations without wildcards were posted.
    pub(crate) fn named(&mut self, stream: u32, times: u64) {
        let own = self.stream(stream);
        own.named += times;
        own.block.named += times;
    }

    /// A matching call returned, and completed something. A call that chooses among its requests
    /// has to say which; one that says too little or too much is recorded as far as
    /// that makes sense for its kind.
    #[inline]
    #[expect(clippy::indexing_slicing, reason = "there is a count for every shape")]
    pub fn matched(&mut self, stream: u32, call: &Call, completed: Completed<'_>) {
        let Call { kind, site, count } = *call;
        let own = self.stream(stream);
        let shape = own.call_shape(CallShape { kind, site });
        let (receives, picks) = (own.block.receives.len(), own.block.picks.len());
        let picked = match (kind.choice(), completed) {
            (Choice::All, _) => Picked::All,
            (Choice::One, Completed::These([index, ..])) => {
                own.block.picks.push(*index);
                Picked::These(1)
            }
            (Choice::Some, Completed::These(indices)) if !indices.is_empty() => {
                own.block.picks.extend_from_slice(indices);
                Picked::These(indices.len() as u32)
            }
            _ => Picked::Undefined,
        };
        if matches!(picked, Picked::These(_)) {
            own.block.behind = receives.saturating_sub(picks) as u32;
        }
        let count = if kind.has_array() { count } else { 0 };
        let polls = std::mem::take(&mut own.polls[shape as usize]);
        own.block.calls.push(CallEvent { shape, count, polls, picked });
        own.grew(stream);
    }

    /// A clock was read or a random number drawn; `which` tells the sources of values apart.
    pub fn value(&mut self, stream: u32, which: u8, bits: u64) {
        let own = self.stream(stream);
        own.block.values.push((which, bits));
        own.grew(stream);
    }

    /// An operation of this thread took a turn in the line of `key` (see [`crate::turns`]).
    pub fn turn(&mut self, stream: u32, key: u64) {
        self.turns.took(stream, key);
    }

    /// Whether it is time to seal. Sealing then bounds the memory of the recorder.
    #[inline]
    pub fn is_full(&self, stream: u32) -> bool {
        let full = |stream: &Stream| stream.block.weight() >= FULL;
        self.streams.get(stream as usize).is_some_and(full) || self.turns.weight() >= FULL
    }

    /// Appends everything known of every thread to `out`, as frames that can be read from now on
    /// whatever happens. Wildcard receives whose match result is not known yet get it in a later frame.
    pub fn seal(&mut self, out: &mut Vec<u8>) {
        self.turns.seal(false, out);
        for (number, stream) in self.streams.iter_mut().enumerate() {
            stream.seal(number as u32, false, out);
        }
    }

    /// The same, without the receives of each thread from the first one on whose match result is not known,
    /// unless these are many. They count as not recorded, and have to be recorded again: then their match
    /// results may be known. If not, they are sealed all the same, so that a replayer finds them at most one
    /// block later.
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

    /// Seals for the last time. Receives without a match result count as never matched: ask MPI before.
    pub fn finish(mut self, out: &mut Vec<u8>) {
        self.turns.seal(true, out);
        for (number, stream) in self.streams.iter_mut().enumerate() {
            stream.seal(number as u32, true, out);
        }
    }

    /// How much was sealed so far, by all threads.
    pub fn sums(&self) -> Sums {
        self.streams.iter().fold(Sums::default(), |all, own| Sums {
            receives: all.receives + own.sums.receives,
            calls: all.calls + own.sums.calls,
            polls: all.polls + own.sums.polls,
            values: all.values + own.sums.values,
            value_bytes: all.value_bytes + own.codec.value_bytes(),
        })
    }

    /// Wildcard receives whose match result is not known. Those posted before one that has matched may
    /// have taken a message already: an agent that wants a record to be exact up to a crash asks
    /// MPI about them (`MPI_Request_get_status`) before it seals.
    pub fn unresolved(&self) -> impl Iterator<Item = Ticket> + '_ {
        self.streams.iter().enumerate().flat_map(|(stream, own)| {
            let numbers = own.waiting.iter().copied().chain(own.open());
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

    /// Forgets the receives from the first on whose match result is not known, unless these are many.
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
    fn receives_without_a_fate_are_known_across_blocks() {
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
        // Recording the same again leaves nothing to write.
        let size = bytes.len();
        recorder.resolve(tickets[3], match_result);
        recorder.resolve(tickets[1], match_result);
        recorder.seal(&mut bytes);
        assert_eq!(bytes.len(), size);
    }
}
