//! Value vectors and trip counts as bytes.
//!
//! A vector is coded as it is kept: runs, and groups that repeat. The model guesses the next value from the values before
//! it, and from the vector of the group of ranks before at the same place of the nest. So a vector that follows a
//! pattern costs next to nothing, whatever its length.

use crate::numbers::{Followers, Series};
use refrain_bytes::range::{Bit, Coder};
use refrain_nest::Seq;
use refrain_nest::seq::Part;

/// Groups nest at most this deep.
const DEEPEST: usize = 48;

/// A model of the vectors at one place of the nest.
#[derive(Debug, Default)]
pub(crate) struct SeqModel {
    is_group: Vec<Bit>,
    values: Series,
    counts: Series,
    lengths: Series,
    times: Series,
    /// Runs of the vector of the last group of ranks, and of this one.
    there: Vec<(i64, i64)>,
    here: Vec<(i64, i64)>,
}

/// What all vectors share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub followers: Followers,
    /// How many more runs and groups may be read.
    pub left: u64,
}

impl SeqModel {
    /// Codes a vector of `length` values. A value that is `known` is a new one: the next time `known` is one more.
    pub fn code(
        &mut self,
        coder: &mut impl Coder,
        shared: &mut Shared,
        place: u64,
        known: Option<&mut i64>,
        length: u64,
        given: Option<&Seq<u64>>,
    ) -> Option<Seq<u64>> {
        self.is_group.resize(3, Bit::EVEN);
        self.there = std::mem::take(&mut self.here);
        [&mut self.values, &mut self.counts, &mut self.lengths, &mut self.times]
            .into_iter()
            .for_each(Series::restart);
        let mut state = State { known, place: place << 3, shared };
        self.level(coder, &mut state, length, given, 0)
    }

    fn level(
        &mut self,
        coder: &mut impl Coder,
        state: &mut State<'_>,
        length: u64,
        given: Option<&Seq<u64>>,
        depth: usize,
    ) -> Option<Seq<u64>> {
        if depth > DEEPEST {
            return None;
        }
        let mut parts = given.map(Seq::parts);
        let mut seq = Seq::default();
        while seq.len() < length {
            state.shared.left = state.shared.left.checked_sub(1)?;
            let left = length - seq.len();
            let part = parts.as_mut().and_then(Iterator::next);
            let is_group = matches!(part, Some(Part::Group(..)));
            if coder.bit(self.is_group.get_mut(depth.min(2))?, is_group) {
                let (inner, times) = match part {
                    Some(Part::Group(inner, times)) => (Some(inner), times),
                    _ => (None, 0),
                };
                let size = inner.map_or(0, Seq::len) as i64;
                let followers = &mut state.shared.followers;
                let hints = [left as i64, 0, 0, 0];
                let size = self.lengths.code(coder, followers, state.place, hints, size) as u64;
                let most = left.checked_div(size)?;
                let hints = [most as i64, 0, 0, 0];
                let times =
                    self.times.code(coder, followers, state.place | 1, hints, times as i64) as u64;
                if times == 0 || times > most {
                    return None;
                }
                let inner = self.level(coder, state, size, inner, depth + 1)?;
                seq.append(inner.repeat(times));
                continue;
            }
            let (value, count) = match part {
                Some(Part::Run(value, count)) => (value as i64, count as i64),
                _ => (0, 0),
            };
            let (value, count) = self.run(coder, state, left, value, count);
            let count = u64::try_from(count).ok().filter(|count| *count > 0 && *count <= left)?;
            seq.push(value as u64, count);
        }
        (seq.len() == length).then_some(seq)
    }

    fn run(
        &mut self,
        coder: &mut impl Coder,
        state: &mut State<'_>,
        left: u64,
        value: i64,
        count: i64,
    ) -> (i64, i64) {
        let beside = self.there.get(self.here.len()).copied().unwrap_or((0, 0));
        let new = state.known.as_deref().copied().unwrap_or(0);
        let followers = &mut state.shared.followers;
        let hints = [new, beside.0, 1, 0];
        let value = self.values.code(coder, followers, state.place | 2, hints, value);
        if let Some(known) = &mut state.known
            && value == **known
        {
            **known += 1;
        }
        let hints = [left as i64, beside.1, 1, 0];
        let count = self.counts.code(coder, followers, state.place | 3, hints, count);
        self.here.push((value, count));
        (value, count)
    }
}

struct State<'a> {
    known: Option<&'a mut i64>,
    place: u64,
    shared: &'a mut Shared,
}
