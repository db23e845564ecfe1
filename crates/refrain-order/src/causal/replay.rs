//! The replayer: asked about the same calls again, it answers with their recorded outcome.
//!
//! The mirror of [`crate::causal::record`]. It decodes one block at a time, and holds the outcomes of each call
//! shape in this block. The order in which shapes succeed was recorded too,
//! so divergence is detected at the first success that is not due.
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

/// What a matching call is to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision<'a> {
    /// Report that nothing was found, without looking; but let MPI make progress.
    Fail,
    /// Complete everything it was given, and wait for that.
    All,
    /// Report that no request was active.
    Undefined,
    /// Complete exactly these, waiting for each, and report them in this order.
    These(&'a [u32]),
}

/// What is to be posted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Posting {
    /// What the program asked for.
    AsAsked,
    /// A receive of exactly this source and tag.
    Narrowed(Envelope),
    /// Nothing: it was cancelled, and would take another's message. `MPI_Cancel` and completion
    /// are answered without MPI.
    WithheldCancelled,
    /// Nothing: no message was ever seen to match it. Nobody waited for it successfully.
    WithheldNever,
}

/// Forces the recorded order on one rank.
#[derive(Debug)]
pub struct Replayer {
    /// Made when first asked for.
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

    /// The program posts a receive, starts a persistent one, probes successfully or sends:
    /// exactly the calls of which [`crate::Recorder::post`] was called.
    pub fn post(&mut self, stream: u32, post: &Post) -> Result<Posting, Stop> {
        self.stream(stream).post(post)
    }

    /// The program makes a matching call.
    pub fn call(&mut self, stream: u32, call: &Call) -> Result<Decision<'_>, Stop> {
        self.stream(stream).call(call)
    }

    /// The program reads a clock or draws a random number.
    pub fn value(&mut self, stream: u32, which: u8) -> Result<u64, Stop> {
        self.stream(stream).value(which)
    }

    /// An operation of this thread comes to the line of `key`. If it is another thread's turn,
    /// wait until somebody has gone, and ask again. If it is this one's, do the operation, and
    /// say so by [`Replayer::took_turn`]. A probe keeps its turn until it has found its message:
    /// a receive that another thread posts meanwhile would take that away.
    pub fn turn(&self, stream: u32, key: u64) -> Turn {
        self.turns.turn(stream, key)
    }

    /// The operation whose turn it was is done.
    pub fn took_turn(&mut self, key: u64) {
        self.turns.took(key);
    }

    /// How many matching calls of the thread have succeeded so far.
    pub fn position(&self, stream: u32) -> u64 {
        self.streams.get(stream as usize).and_then(Option::as_ref).map_or(0, |own| own.position())
    }

    /// The program has ended. It diverged if the record continues.
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
    /// The block behind it, if its receives were needed already.
    ahead: Option<Ahead>,
    /// The receives of both, and some before them; and how many of these are not those of the block
    /// that is ahead.
    receives: Vec<(PostShape, Option<MatchResult>)>,
    own_receives: usize,
    /// For each call of the block where its indices begin, and the next call of its shape.
    picks: Vec<u32>,
    following: Vec<u32>,
    /// For each shape its first call that is still to succeed, and failed polls still to come.
    due: Vec<u32>,
    polls: Vec<u64>,
    /// Calls and values of the block that were replayed, and receives of those listed.
    called: usize,
    received: usize,
    valued: usize,
    /// Those before.
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
    /// The shapes of calls, if there are others than before.
    shapes: Option<Vec<CallShape>>,
}

impl Stream {
    fn new(number: u32, frames: &Arc<Frames>) -> Self {
        let own = frames.streams().get(number as usize);
        let late_results = own.map_or(&[][..], |own| &own.late_results[..]);
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
        self.frames.streams().get(self.number as usize).is_some_and(|own| own.complete)
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

    /// Takes a failed poll of that shape, if one is due.
    fn take_poll(&mut self, shape: u32) -> bool {
        let polls = self.polls.get_mut(shape as usize).filter(|polls| **polls > 0);
        polls.map(|polls| *polls -= 1).is_some()
    }

    /// The next call of that shape succeeds: it has to be the next of all.
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
        // Polls before the next success, or those behind the last one of the block.
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
        let own = self.block.trailing.iter().find(|trailing| trailing.shape == shape);
        own.map_or(0, |trailing| trailing.polls)
    }

    #[expect(clippy::indexing_slicing, reason = "the loop ends when there is one")]
    fn post(&mut self, post: &Post) -> Result<Posting, Stop> {
        if !post.is_wild() {
            // Where a record is cut short, threads stop where it ends, even if nothing is to be
            // decided: the order among them is not known any more.
            let own = self.frames.streams().get(self.number as usize);
            if !own.is_some_and(|own| own.complete || self.named < own.named) {
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
            // Where a record is cut short, what was pending then is missing.
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

    /// What the program does is not in this block. The block has to be done with, then.
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

    /// The same, for something that the program does: behind the end of a whole record there is
    /// nothing to do.
    fn proceed(&mut self, got: impl Fn(&Self) -> Moment) -> Result<(), Stop> {
        let advanced = self.advance(&got);
        match self.is_complete() && advanced == Err(Stop::RecordEnds) {
            true => Err(self.diverged(got(self))),
            false => advanced,
        }
    }

    /// Goes on to the next block.
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

    /// Decodes the next block for its receives, unless that was done. Says whether there is one.
    fn look_ahead(&mut self) -> Result<bool, Stop> {
        if self.ahead.is_none() {
            self.ahead = self.decode()?;
            return Ok(self.ahead.is_some());
        }
        Ok(false)
    }

    /// Decodes the next block, if there is one, and lists its receives.
    fn decode(&mut self) -> Result<Option<Ahead>, Stop> {
        let own = self.frames.streams().get(self.number as usize);
        let Some(body) = own.and_then(|own| own.bodies.get(self.next)) else { return Ok(None) };
        let (head, block) = self.codec.decode(self.frames.body(body)).map_err(Stop::Unreadable)?;
        self.next += 1;
        let gone = self.received.saturating_sub(NEIGHBOURS);
        self.receives.drain(..gone);
        self.receives_before += gone as u64;
        (self.received, self.own_receives) =
            (self.received - gone, self.own_receives.saturating_sub(gone));
        for ReceiveEvent { shape, match_result } in &block.receives {
            // The codec has looked that up before.
            let shape = self.codec.post_shapes.get(*shape as usize).copied();
            self.receives.extend(shape.map(|shape| (shape, *match_result)));
        }
        let changed = head.fresh || !block.call_shapes.is_empty();
        let shapes = changed.then(|| self.codec.call_shapes.clone());
        Ok(Some(Ahead { block, shapes }))
    }

    /// Finds for each call of the block the next of its shape.
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
