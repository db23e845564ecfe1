//! The replayer: answers the program's calls with their recorded outcomes.
//!
//! The mirror of [`crate::causal::record`]. It decodes one block at a time, and holds the outcomes of each call
//! shape in this block. The order in which shapes succeed was recorded too, so divergence is detected at the first
//! success that is not the next one in the record.
//!
//! Receives that were pending when a block was sealed are in the next one, if they were few. So the position
//! in the receives may be one block ahead of that in the calls.

use std::sync::Arc;

use crate::causal::codec::Codec;
use crate::causal::event::{Block, CallShape, Picked, PostShape, ReceiveEvent};
use crate::causal::frames::Frames;
use crate::divergence::{Divergence, Moment, Stop};
use crate::error::OrderError;
use crate::turns::{Turn, TurnReplayer};
use crate::vocabulary::{Call, Choice, Envelope, MatchResult, Post};
use refrain_bytes::table::Map;

/// How many neighbours a divergence shows on either side.
const NEIGHBOURS: usize = 3;
const NONE: u32 = u32::MAX;

/// What a completing call must do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision<'a> {
    /// Report a failed poll without asking MPI, but let MPI make progress.
    Fail,
    /// Complete all of its requests, and wait for them.
    All,
    /// Report that no request was active.
    Undefined,
    /// Complete exactly these, waiting for each, and report them in this order.
    These(&'a [u32]),
}

/// How to post a receive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Posting {
    /// As the program asks.
    AsAsked,
    /// With exactly this source and tag.
    Narrowed(Envelope),
    /// Not at all: it was cancelled, and would take the message of another receive. `MPI_Cancel` and completion are
    /// answered without MPI.
    WithheldCancelled,
    /// Not at all: its match was never observed, and no call completed it.
    WithheldNever,
}

/// Enforces the recorded order on one rank.
#[derive(Debug)]
pub struct Replayer {
    /// Each is made at its first use.
    streams: Vec<Option<Box<Stream>>>,
    turns: TurnReplayer,
    frames: Arc<Frames>,
}

impl Replayer {
    /// From a rank's record.
    pub fn new(frames: Frames) -> Result<Self, OrderError> {
        let turns = TurnReplayer::new(frames.bodies())?;
        let frames = Arc::new(frames);
        Ok(Self { streams: Vec::new(), turns, frames })
    }

    #[expect(clippy::indexing_slicing, reason = "made as long as that just before")]
    fn stream(&mut self, stream: u32) -> &mut Stream {
        let at = stream as usize;
        if self.streams.len() <= at {
            self.streams.resize_with(at + 1, || None);
        }
        self.streams[at].get_or_insert_with(|| Box::new(Stream::new(stream, &self.frames)))
    }

    /// The program posts a receive, starts a persistent one, probes successfully or sends: exactly the calls for which
    /// the recording agent called [`crate::Recorder::post`].
    pub fn post(&mut self, stream: u32, post: &Post) -> Result<Posting, Stop> {
        self.stream(stream).post(post)
    }

    /// The program makes a completing call.
    pub fn call(&mut self, stream: u32, call: &Call) -> Result<Decision<'_>, Stop> {
        self.stream(stream).call(call)
    }

    /// The program reads a clock or draws a random number.
    pub fn value(&mut self, stream: u32, which: u8) -> Result<u64, Stop> {
        self.stream(stream).value(which)
    }

    /// Whether it is the thread's turn for an operation with this key. If it is another thread's turn, wait until a turn
    /// was taken, and ask again. If it is this thread's turn, perform the operation, and call [`Replayer::took_turn`]. A
    /// probe keeps its turn until it has found its message: otherwise another thread's receive could take the message.
    pub fn turn(&self, stream: u32, key: u64) -> Turn {
        self.turns.turn(stream, key)
    }

    /// The operation whose turn it was has been performed.
    pub fn took_turn(&mut self, key: u64) {
        self.turns.took(key);
    }

    /// The number of successful completing calls of the thread so far.
    pub fn position(&self, stream: u32) -> u64 {
        self.streams
            .get(stream as usize)
            .and_then(Option::as_ref)
            .map_or(0, |recorded| recorded.position())
    }

    /// The program has finalized MPI. It diverged if the record continues.
    pub fn finish(mut self) -> Result<(), Stop> {
        for stream in 0..self.frames.streams().len() {
            self.stream(stream as u32).finish()?;
            if let Some(done) = self.streams.get_mut(stream) {
                *done = None;
            }
        }
        Ok(())
    }
}

/// The state of one thread.
#[derive(Debug)]
struct Stream {
    number: u32,
    frames: Arc<Frames>,
    codec: Codec,
    /// The shapes of calls, and their numbers.
    shapes: Vec<CallShape>,
    call_shapes: Map<CallShape, u32>,
    late: Map<(bool, u64), MatchResult>,
    /// The next block to decode.
    next: usize,
    block: Block,
    /// The next block, if its receives were needed already.
    ahead: Option<Ahead>,
    /// The receives of both blocks, and some before them; and how many of these precede those of the block ahead.
    receives: Vec<(PostShape, Option<MatchResult>)>,
    own_receives: usize,
    /// For each call of the block, the position of its indices, and the next call of its shape.
    picks: Vec<u32>,
    following: Vec<u32>,
    /// For each shape, its next call that succeeds, and the number of polls that fail before it.
    due: Vec<u32>,
    polls: Vec<u64>,
    /// How many calls, listed receives and values were replayed.
    called: usize,
    received: usize,
    valued: usize,
    /// How many there were before those.
    calls_before: u64,
    receives_before: u64,
    values_before: u64,
    /// Operations other than wildcard receives.
    named: u64,
}

/// A block that was decoded early, without its receives.
#[derive(Debug)]
struct Ahead {
    block: Block,
    /// The shapes of calls, if they have changed.
    shapes: Option<Vec<CallShape>>,
}

impl Stream {
    fn new(number: u32, frames: &Arc<Frames>) -> Self {
        let recorded = frames.streams().get(number as usize);
        let late_results = recorded.map_or(&[][..], |recorded| &recorded.late_results[..]);
        let late = late_results.iter().map(|f| ((f.wild, f.number), f.match_result)).collect();
        Self {
            number,
            frames: frames.clone(),
            codec: Codec::default(),
            shapes: Vec::new(),
            call_shapes: Map::default(),
            late,
            next: 0,
            block: Block::default(),
            ahead: None,
            receives: Vec::new(),
            own_receives: 0,
            picks: Vec::new(),
            following: Vec::new(),
            due: Vec::new(),
            polls: Vec::new(),
            called: 0,
            received: 0,
            valued: 0,
            calls_before: 0,
            receives_before: 0,
            values_before: 0,
            named: 0,
        }
    }

    /// Whether the stream ended at `MPI_Finalize`.
    fn is_complete(&self) -> bool {
        self.frames.streams().get(self.number as usize).is_some_and(|recorded| recorded.complete)
    }

    fn position(&self) -> u64 {
        self.calls_before + self.called as u64
    }

    fn receive_position(&self) -> u64 {
        self.receives_before + self.received as u64
    }

    fn call(&mut self, call: &Call) -> Result<Decision<'_>, Stop> {
        let asked = CallShape { kind: call.kind, site: call.site };
        loop {
            let shape = self.call_shapes.get(&asked).copied();
            let due = shape.and_then(|shape| self.due.get(shape as usize)).copied();
            match (shape, due) {
                (Some(shape), _) if self.take_poll(shape) => return Ok(Decision::Fail),
                (Some(shape), Some(due)) if due != NONE => {
                    return self.succeed(call, shape, due as usize);
                }
                _ => self.proceed(|stream| Moment::asked(stream.position(), call))?,
            }
        }
    }

    /// Counts a failed poll of that shape, if one is next.
    fn take_poll(&mut self, shape: u32) -> bool {
        let polls = self.polls.get_mut(shape as usize).filter(|polls| **polls > 0);
        polls.map(|polls| *polls -= 1).is_some()
    }

    /// The next call of that shape succeeds; it has to be the next of all calls.
    #[expect(
        clippy::indexing_slicing,
        reason = "`index` has made these lists, for the calls and shapes of the block"
    )]
    fn succeed(&mut self, call: &Call, shape: u32, due: usize) -> Result<Decision<'_>, Stop> {
        let event = self.block.calls[due];
        let count_fits = event.count == call.count || !call.kind.has_array();
        if due != self.called || !count_fits {
            return Err(self.diverged(Moment::asked(self.position(), call)));
        }
        self.called += 1;
        let next = self.following[due];
        self.due[shape as usize] = next;
        // Failed polls before the next success, or after the last one of the block.
        self.polls[shape as usize] = match self.block.calls.get(next as usize) {
            Some(next) => next.polls,
            None => self.trailing(shape),
        };
        let from = self.picks[due] as usize;
        match event.picked {
            Picked::All => Ok(Decision::All),
            Picked::Undefined => Ok(Decision::Undefined),
            Picked::These(several) => {
                let indices = self.block.picks.get(from..from + several as usize);
                let indices = indices.unwrap_or_default();
                if call.kind.choice() != Choice::All && indices.iter().any(|i| *i >= call.count) {
                    return Err(Stop::Unreadable(OrderError::OutOfRange("index")));
                }
                Ok(Decision::These(indices))
            }
        }
    }

    fn trailing(&self, shape: u32) -> u64 {
        let recorded = self.block.trailing.iter().find(|trailing| trailing.shape == shape);
        recorded.map_or(0, |trailing| trailing.polls)
    }

    #[expect(clippy::indexing_slicing, reason = "the loop ends when there is one")]
    fn post(&mut self, post: &Post) -> Result<Posting, Stop> {
        if !post.is_wild() {
            // Threads stop at the end of a truncated record, even if this operation needs no decision: the order of
            // threads is not known beyond it.
            let recorded = self.frames.streams().get(self.number as usize);
            if !recorded.is_some_and(|recorded| recorded.complete || self.named < recorded.named) {
                return Err(Stop::RecordEnds);
            }
            self.named += 1;
            let cancelled = self.late.contains_key(&(false, self.named - 1));
            return Ok(if cancelled { Posting::WithheldCancelled } else { Posting::AsAsked });
        }
        while self.received == self.receives.len() {
            if self.look_ahead()? {
                continue;
            }
            // In a truncated record, receives that were pending at its end are missing.
            if self.ahead.is_none() && !self.is_complete() {
                return Err(Stop::RecordEnds);
            }
            self.proceed(|stream| Moment::posted(stream.receive_position(), post))?;
        }
        let (shape, match_result) = self.receives[self.received];
        let Post { site, communicator, source, tag } = *post;
        let (any_source, any_tag) = (source.is_none(), tag.is_none());
        let asked = PostShape { site, communicator, any_source, any_tag };
        let late = self.late.get(&(true, self.receive_position())).copied();
        let match_result = match_result.or(late).unwrap_or(MatchResult::Never);
        let fits = match match_result {
            MatchResult::Matched(from) => {
                source.is_none_or(|source| source == from.source)
                    && tag.is_none_or(|tag| tag == from.tag)
            }
            MatchResult::Cancelled | MatchResult::Never => true,
        };
        if shape != asked || !fits {
            return Err(self.diverged_receive(Moment::posted(self.receive_position(), post)));
        }
        self.received += 1;
        Ok(match match_result {
            MatchResult::Matched(from) => Posting::Narrowed(from),
            MatchResult::Cancelled => Posting::WithheldCancelled,
            MatchResult::Never => Posting::WithheldNever,
        })
    }

    #[expect(clippy::indexing_slicing, reason = "the loop ends when there is one")]
    fn value(&mut self, which: u8) -> Result<u64, Stop> {
        let moment = |stream: &Self| {
            let position = stream.values_before + stream.valued as u64;
            Moment::Value { position, which }
        };
        while self.valued == self.block.values.len() {
            self.proceed(moment)?;
        }
        let (recorded, value) = self.block.values[self.valued];
        if recorded != which {
            return Err(self.diverged(moment(self)));
        }
        self.valued += 1;
        Ok(value)
    }

    /// The program's operation is not in this block: loads the next block, provided that this one is finished.
    fn advance(&mut self, got: impl FnOnce(&Self) -> Moment) -> Result<(), Stop> {
        if self.called < self.block.calls.len() || self.valued < self.block.values.len() {
            return Err(self.diverged(got(self)));
        }
        if self.received < self.own_receives {
            return Err(self.diverged_receive(got(self)));
        }
        if self.polls.iter().any(|polls| *polls > 0) {
            return Err(self.diverged(got(self)));
        }
        self.load()
    }

    /// Like `advance`, for an operation of the program, which is a divergence after the end of a complete record.
    fn proceed(&mut self, got: impl Fn(&Self) -> Moment) -> Result<(), Stop> {
        let advanced = self.advance(&got);
        match self.is_complete() && advanced == Err(Stop::RecordEnds) {
            true => Err(self.diverged(got(self))),
            false => advanced,
        }
    }

    /// Moves to the next block.
    fn load(&mut self) -> Result<(), Stop> {
        let Ahead { block, shapes } = match self.ahead.take() {
            Some(ahead) => ahead,
            None => self.decode()?.ok_or(Stop::RecordEnds)?,
        };
        self.own_receives = self.receives.len();
        self.calls_before += self.called as u64;
        self.values_before += self.valued as u64;
        (self.called, self.valued) = (0, 0);
        if let Some(shapes) = shapes {
            let numbers = shapes.iter().enumerate();
            self.call_shapes = numbers.map(|(number, shape)| (*shape, number as u32)).collect();
            self.shapes = shapes;
        }
        self.block = block;
        self.index();
        Ok(())
    }

    /// Decodes the next block for its receives, unless that was done. Returns whether it decoded one.
    fn look_ahead(&mut self) -> Result<bool, Stop> {
        if self.ahead.is_none() {
            self.ahead = self.decode()?;
            return Ok(self.ahead.is_some());
        }
        Ok(false)
    }

    /// Decodes the next block, if there is one, and lists its receives.
    fn decode(&mut self) -> Result<Option<Ahead>, Stop> {
        let recorded = self.frames.streams().get(self.number as usize);
        let Some(body) = recorded.and_then(|recorded| recorded.bodies.get(self.next)) else {
            return Ok(None);
        };
        let (head, block) = self.codec.decode(self.frames.body(body)).map_err(Stop::Unreadable)?;
        self.next += 1;
        let gone = self.received.saturating_sub(NEIGHBOURS);
        self.receives.drain(..gone);
        self.receives_before += gone as u64;
        (self.received, self.own_receives) =
            (self.received - gone, self.own_receives.saturating_sub(gone));
        for ReceiveEvent { shape, match_result } in &block.receives {
            // The codec has checked the number of the shape.
            let shape = self.codec.post_shapes.get(*shape as usize).copied();
            self.receives.extend(shape.map(|shape| (shape, *match_result)));
        }
        let changed = head.fresh || !block.call_shapes.is_empty();
        let shapes = changed.then(|| self.codec.call_shapes.clone());
        Ok(Some(Ahead { block, shapes }))
    }

    /// Finds, for each call of the block, the next call of its shape.
    #[expect(
        clippy::indexing_slicing,
        reason = "the decoder has compared the shapes of calls with their number"
    )]
    fn index(&mut self) {
        let shapes = self.shapes.len();
        self.due = vec![NONE; shapes];
        self.following = vec![NONE; self.block.calls.len()];
        for (at, call) in self.block.calls.iter().enumerate().rev() {
            let due = &mut self.due[call.shape as usize];
            self.following[at] = std::mem::replace(due, at as u32);
        }
        let mut from = 0;
        let starts = self.block.calls.iter().map(|call| {
            let start = from;
            from += if let Picked::These(several) = call.picked { several } else { 0 };
            start
        });
        self.picks = starts.collect();
        let polls = |shape: usize| match self.block.calls.get(self.due[shape] as usize) {
            Some(call) => call.polls,
            None => self.trailing(shape as u32),
        };
        self.polls = (0..shapes).map(polls).collect();
    }

    fn finish(&mut self) -> Result<(), Stop> {
        loop {
            match self.advance(|_| Moment::End) {
                Ok(()) => {}
                Err(Stop::RecordEnds) => return Ok(()),
                Err(stop) => return Err(stop),
            }
        }
    }

    fn call_moment(&self, at: usize) -> Option<Moment> {
        let event = *self.block.calls.get(at)?;
        let shape = *self.shapes.get(event.shape as usize)?;
        let picks = self.block.picks.get(*self.picks.get(at)? as usize..)?;
        Some(Moment::called(self.calls_before + at as u64, shape, event, picks))
    }

    fn receive_moment(&self, at: usize) -> Option<Moment> {
        let (shape, match_result) = *self.receives.get(at)?;
        Some(Moment::received(self.receives_before + at as u64, shape, match_result))
    }

    fn diverged(&self, got: Moment) -> Stop {
        self.divergence(got, self.called, |at| self.call_moment(at))
    }

    fn diverged_receive(&self, got: Moment) -> Stop {
        self.divergence(got, self.received, |at| self.receive_moment(at))
    }

    fn divergence(&self, got: Moment, at: usize, moment: impl Fn(usize) -> Option<Moment>) -> Stop {
        let around = at.saturating_sub(NEIGHBOURS)..at.saturating_add(NEIGHBOURS + 1);
        Stop::Diverged(Box::new(Divergence {
            stream: self.number,
            expected: moment(at).unwrap_or(Moment::End),
            got,
            neighbours: around.filter(|n| *n != at).filter_map(moment).collect(),
        }))
    }
}
