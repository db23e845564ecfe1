//! The model of completing calls: which one is next, after how many failed polls, and what it completed.

use crate::causal::event::{CallEvent, CallShape, Picked};
use crate::causal::set::SetModel;
use crate::coding::coder::{Bit, Coder};
use crate::coding::number::{Number, length};
use crate::coding::symbol::{Contexts, Followers, Steady, Symbol, WHILE, mix};
use crate::error::OrderError;
use crate::vocabulary::Choice;

/// Counts of failed polls are learnt separately by the last count, and by whether the count before was zero.
const POLLED: usize = 6;
const POLLED_BEFORE: usize = 2;
/// The number of requests that complete at once is learnt separately by their last number, by how many polls failed
/// just before, and by whether any had failed the last time. Counts of failed polls depend on that number too.
const BEFORE: usize = 6;
const AFTER: usize = 3;
/// A pool of wildcard receives completes in posting order: after this many completions in order, one bit says whether
/// the next one is in order too.
const IN_ORDER: u32 = 8;
/// The most indices of a block; more come from damaged bytes.
const MOST_PICKS: u64 = 1 << 22;

/// The model of all completing calls of a stream.
#[derive(Clone, Debug)]
pub struct CallModel {
    followers: Followers,
    shape: Symbol,
    shapes: Vec<ShapeModel>,
    last: u64,
    before: u64,
    /// A hash of the indices that the last call completed.
    digest: u64,
    /// The last call, its indices, how often in a row it was the same, and the model of whether it is the same again.
    previous: CallEvent,
    previous_picks: Vec<u32>,
    run: u32,
    same: Bit,
}

impl Default for CallModel {
    fn default() -> Self {
        Self {
            followers: Followers::default(),
            shape: Symbol::default(),
            shapes: Vec::new(),
            last: 0,
            before: 0,
            digest: 0,
            previous: CallEvent::default(),
            previous_picks: Vec::new(),
            run: 0,
            same: Bit::EVEN,
        }
    }
}

/// The model of the calls of one shape.
#[derive(Clone, Debug, Default)]
struct ShapeModel {
    polls: Option<Box<PollModel>>,
    array: Option<Box<ArrayModel>>,
}

#[derive(Clone, Debug)]
struct PollModel {
    /// By the number of requests that completed the last time, the number of polls that had failed then, and whether any
    /// had failed before.
    counts: Vec<[[Number; POLLED]; POLLED_BEFORE]>,
    /// The lengths in bits of the last count and of the one before.
    last: usize,
    before: usize,
}

impl Default for PollModel {
    fn default() -> Self {
        Self { counts: vec![Default::default(); BEFORE], last: 0, before: 0 }
    }
}

#[derive(Clone, Debug)]
struct ArrayModel {
    count: Steady,
    last_count: u64,
    undefined: Bit,
    /// The number of requests that complete at once, by their last number, the number of failed polls, and whether any
    /// poll had failed the last time.
    several: Vec<[[Number; POLLED_BEFORE]; AFTER]>,
    last_several: usize,
    last_polls: usize,
    ascending: Bit,
    index: Symbol,
    /// How often in a row the request that had waited longest completed, and the model of whether it does again.
    in_order: u32,
    again: Bit,
    set: SetModel,
    last: u64,
    before: u64,
}

impl Default for ArrayModel {
    fn default() -> Self {
        Self {
            count: Steady::default(),
            last_count: 0,
            undefined: Bit::EVEN,
            several: vec![Default::default(); BEFORE],
            last_several: 0,
            last_polls: 0,
            ascending: Bit::EVEN,
            index: Symbol::default(),
            in_order: 0,
            again: Bit::EVEN,
            set: SetModel::default(),
            last: 0,
            before: 0,
        }
    }
}

impl CallModel {
    /// Codes one call. An encoder gets its indices in `given`; the coded indices are appended to `picks`.
    ///
    /// After many equal calls in a row, one bit says whether this one is equal too, without any lookup.
    pub fn code(
        &mut self,
        coder: &mut impl Coder,
        shapes: &[CallShape],
        event: CallEvent,
        given: &[u32],
        picks: &mut Vec<u32>,
    ) -> Result<CallEvent, OrderError> {
        if self.run >= WHILE {
            let is_same = event == self.previous && are_same(given, &self.previous_picks);
            if coder.bit(&mut self.same, is_same) {
                picks.extend_from_slice(&self.previous_picks);
                return Ok(self.previous);
            }
        }
        let from = picks.len();
        let coded = self.code_anew(coder, shapes, event, given, picks)?;
        let coded_picks = picks.get(from..).unwrap_or_default();
        if coded == self.previous && are_same(coded_picks, &self.previous_picks) {
            self.run = self.run.saturating_add(1);
        } else {
            (self.run, self.previous) = (0, coded);
            self.previous_picks.clear();
            self.previous_picks.extend_from_slice(coded_picks);
        }
        Ok(coded)
    }

    fn code_anew(
        &mut self,
        coder: &mut impl Coder,
        shapes: &[CallShape],
        event: CallEvent,
        given: &[u32],
        picks: &mut Vec<u32>,
    ) -> Result<CallEvent, OrderError> {
        let number = if shapes.len() == 1 { 0 } else { self.number(coder, event.shape) };
        let shape = shapes.get(number as usize).ok_or(OrderError::OutOfRange("call shape"))?;
        if self.shapes.len() < shapes.len() {
            self.shapes.resize_with(shapes.len(), ShapeModel::default);
        }
        (self.before, self.last, self.digest) = (self.last, number.into(), 0);
        let Some(model) = self.shapes.get_mut(number as usize) else {
            return Err(OrderError::OutOfRange("call shape"));
        };
        let mut coded = CallEvent { shape: number, ..event };
        if shape.kind.polls() {
            let several = model.array.as_ref().map_or(0, |array| array.last_several);
            coded.polls = model.polls.get_or_insert_default().code(coder, several, event.polls);
        }
        if shape.kind.has_array() {
            let array = model.array.get_or_insert_default();
            array.shape(number, coder, &mut self.followers, &mut coded);
            if shape.kind.choice() != Choice::All {
                let from = picks.len();
                coded.picked =
                    array.picked(coder, &mut self.followers, shape, &coded, given, picks)?;
                let digest = picks.get(from).map_or(0, |index| u64::from(*index) + 1);
                self.digest = mix(digest, (picks.len() - from) as u64);
            }
        }
        Ok(coded)
    }
}

impl CallModel {
    /// Codes the shape of the next call.
    fn number(&mut self, coder: &mut impl Coder, shape: u32) -> u32 {
        let long = mix(mix(mix(1, self.last), self.before), self.digest);
        let (last, before, digest) = (self.last, self.before, self.digest);
        let short = || [mix(mix(2, last), before), mix(6, digest)];
        let contexts = Contexts { long, short };
        self.shape.code(coder, &mut self.followers, contexts, shape)
    }
}

/// Compares element by element: usually both are empty, and `memcmp` of the C library takes a hundred nanoseconds then.
fn are_same(some: &[u32], others: &[u32]) -> bool {
    some.len() == others.len() && some.iter().zip(others).all(|(one, other)| one == other)
}

impl PollModel {
    #[expect(clippy::indexing_slicing, reason = "each index is limited to its length")]
    fn code(&mut self, coder: &mut impl Coder, several: usize, polls: u64) -> u64 {
        let counts = &mut self.counts[several.min(BEFORE - 1)][self.before.min(POLLED_BEFORE - 1)];
        let polls = counts[self.last].code(coder, polls);
        self.before = self.last;
        self.last = (length(polls) as usize).min(POLLED - 1);
        polls
    }
}

impl ArrayModel {
    /// Codes the number of requests of the call.
    fn shape(
        &mut self,
        shape: u32,
        coder: &mut impl Coder,
        followers: &mut Followers,
        event: &mut CallEvent,
    ) {
        let (last, last_count) = (self.last, self.last_count);
        let contexts = || {
            let short = mix(3, shape.into());
            let long = mix(mix(short, last_count), last);
            Contexts { long, short: move || [short, mix(short, last_count)] }
        };
        event.count = self.count.code(coder, followers, contexts, event.count);
        self.last_count = event.count.into();
    }

    /// Codes what the call completed.
    #[expect(clippy::indexing_slicing, reason = "each index is limited to its length")]
    fn picked(
        &mut self,
        coder: &mut impl Coder,
        followers: &mut Followers,
        shape: &CallShape,
        event: &CallEvent,
        given: &[u32],
        picks: &mut Vec<u32>,
    ) -> Result<Picked, OrderError> {
        if coder.bit(&mut self.undefined, event.picked == Picked::Undefined) {
            return Ok(Picked::Undefined);
        }
        let mut several = 1;
        if shape.kind.choice() == Choice::Some {
            let polls = event.polls.min(AFTER as u64 - 1) as usize;
            let polled_before = self.last_polls.min(POLLED_BEFORE - 1);
            let model = &mut self.several[self.last_several][polls][polled_before];
            self.last_polls = polls;
            several = model.code(coder, (given.len() as u64).saturating_sub(1)).saturating_add(1);
        }
        if several > MOST_PICKS.saturating_sub(picks.len() as u64) {
            return Err(OrderError::OutOfRange("number of indices"));
        }
        let several = several as usize;
        self.last_several = several.min(BEFORE - 1);
        let ascends = given.is_sorted_by(|one, next| one < next);
        if several > 1 && coder.bit(&mut self.ascending, ascends) {
            self.set.code(coder, self.index.recency(), several, given, picks)?;
            for index in picks.iter().rev().take(several).rev() {
                (self.before, self.last) = (self.last, (*index).into());
                self.index.note(*index);
            }
            return Ok(Picked::These(several as u32));
        }
        for n in 0..several {
            let index = given.get(n).copied().unwrap_or(0);
            let index = self.index(event.shape, coder, followers, index);
            (self.before, self.last) = (self.last, index.into());
            picks.push(index);
        }
        Ok(Picked::These(several as u32))
    }

    fn index(
        &mut self,
        shape: u32,
        coder: &mut impl Coder,
        followers: &mut Followers,
        index: u32,
    ) -> u32 {
        let oldest = self.index.recency().oldest();
        if let Some(oldest) = oldest.filter(|_| self.in_order >= IN_ORDER)
            && coder.bit(&mut self.again, index == oldest)
        {
            self.index.note(oldest);
            return oldest;
        }
        let by_shape = mix(4, shape.into());
        let (by_last, before) = (mix(by_shape, self.last), self.before);
        let long = mix(mix(5, by_last), before);
        let contexts = Contexts { long, short: || [by_last, mix(by_shape, before)] };
        let index = self.index.code(coder, followers, contexts, index);
        self.in_order = if Some(index) == oldest { self.in_order + 1 } else { 0 };
        index
    }
}
