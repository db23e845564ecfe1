//! The model of matching calls: which came next, after how many failed polls, what it completed.

use crate::causal::event::{CallEvent, CallShape, Picked};
use crate::causal::set::SetModel;
use crate::coding::coder::{Bit, Coder};
use crate::coding::number::{Number, length};
use crate::coding::symbol::{Circumstances, Followers, Steady, Symbol, WHILE, mix};
use crate::error::OrderError;
use crate::vocabulary::Choice;

/// Failed polls are learnt separately by how many there were the last time, and by whether there were
/// any the time before.
const POLLED: usize = 6;
const POLLED_BEFORE: usize = 2;
/// How many requests complete at once depends on how many did the last time, as do failed polls, and
/// on how many polls failed just before, and whether any had the last time.
const BEFORE: usize = 6;
const AFTER: usize = 3;
/// A pool of receives from any source completes in the order of posting: after so many in a row,
/// that is asked first.
const IN_LINE: u32 = 8;
/// More indices in one block come from damaged bytes.
const MOST_PICKS: u64 = 1 << 22;

/// What is learnt of all calls of a stream.
#[derive(Clone, Debug)]
pub struct CallModel {
    followers: Followers,
    shape: Symbol,
    shapes: Vec<ShapeModel>,
    last: u64,
    before: u64,
    /// Of what the last call completed.
    digest: u64,
    /// The last call, the indices it completed, how often in a row it was the same, and whether it
    /// is again.
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

/// What is learnt of the calls of one shape.
#[derive(Clone, Debug, Default)]
struct ShapeModel {
    polls: Option<Box<PollModel>>,
    array: Option<Box<ArrayModel>>,
}

#[derive(Clone, Debug)]
struct PollModel {
    /// By how many requests completed the last time, how many polls had failed then, and whether any
    /// had before.
    counts: Vec<[[Number; POLLED]; POLLED_BEFORE]>,
    /// How long the last number was, and the one before.
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
    /// How many were completed at once, by how many were the last time, how many polls failed, and
    /// whether any had the last time.
    several: Vec<[[Number; POLLED_BEFORE]; AFTER]>,
    last_several: usize,
    last_polls: usize,
    ascending: Bit,
    index: Symbol,
    /// How often in a row it was the request that had waited longest, and whether it is again.
    in_line: u32,
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
            in_line: 0,
            again: Bit::EVEN,
            set: SetModel::default(),
            last: 0,
            before: 0,
        }
    }
}

impl CallModel {
    /// Codes one call. An encoder is given its indices in `given`; `picks` gets those coded.
    ///
    /// Once calls were all the same for a while, one question settles whether this one is, without
    /// looking anything up.
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
        let own = picks.get(from..).unwrap_or_default();
        if coded == self.previous && are_same(own, &self.previous_picks) {
            self.run = self.run.saturating_add(1);
        } else {
            (self.run, self.previous) = (0, coded);
            self.previous_picks.clear();
            self.previous_picks.extend_from_slice(own);
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
    /// Codes which shape comes next.
    fn number(&mut self, coder: &mut impl Coder, shape: u32) -> u32 {
        let long = mix(mix(mix(1, self.last), self.before), self.digest);
        let (last, before, digest) = (self.last, self.before, self.digest);
        let short = || [mix(mix(2, last), before), mix(6, digest)];
        let circumstances = Circumstances { long, short };
        self.shape.code(coder, &mut self.followers, circumstances, shape)
    }
}

/// Most often both are empty, and comparing no bytes at no address takes the C library a hundred
/// nanoseconds.
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
    /// Codes how many requests the call had.
    fn shape(
        &mut self,
        shape: u32,
        coder: &mut impl Coder,
        followers: &mut Followers,
        event: &mut CallEvent,
    ) {
        let (last, last_count) = (self.last, self.last_count);
        let circumstances = || {
            let short = mix(3, shape.into());
            let long = mix(mix(short, last_count), last);
            Circumstances { long, short: move || [short, mix(short, last_count)] }
        };
        event.count = self.count.code(coder, followers, circumstances, event.count);
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
        if let Some(oldest) = oldest.filter(|_| self.in_line >= IN_LINE)
            && coder.bit(&mut self.again, index == oldest)
        {
            self.index.note(oldest);
            return oldest;
        }
        let own = mix(4, shape.into());
        let (by_last, before) = (mix(own, self.last), self.before);
        let long = mix(mix(5, by_last), before);
        let circumstances = Circumstances { long, short: || [by_last, mix(own, before)] };
        let index = self.index.code(coder, followers, circumstances, index);
        self.in_line = if Some(index) == oldest { self.in_line + 1 } else { 0 };
        index
    }
}
