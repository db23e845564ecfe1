//! Symbols: one of several values, predicted from its contexts.
//!
//! A source, a tag, an index in an array of requests, the next call site: all are coded in the same way. First, one bit
//! says whether the value is the one that followed in the same *long* context, if that prediction was right at least
//! twice in a row. The bit is learnt separately for two, three and more times, so a deterministic program costs next to
//! nothing. Then one bit says whether the last step is repeated (tags that count up).
//!
//! Otherwise there are two codings: by the frequency of values in two *short* contexts, and by the value's rank in the
//! order of recency. Either may be much better than the other, so both keep learning, and the one that would have cost
//! less recently is used. A new value is written as its distance from the previous one.

use crate::coding::alphabet::{Alphabet, PredictionTable};
use crate::coding::coder::{Bit, Coder, Counted, Gauge};
use crate::coding::mixer::SHORT_CONTEXTS;
use crate::coding::number::Number;
use crate::coding::recency::Recency;
use refrain_bytes::stable;
use refrain_bytes::varint::{unzigzag, zigzag};

const ENTRIES: usize = 4096;
const TRUST: usize = 6;
/// How often in a row a prediction must have been right before it is used.
const PROVEN: u8 = 2;
/// The costs of both codings are averages over about two to this many values.
const FADES: u32 = 6;
/// This many first values are coded in both ways, to compare the costs; after that, one in [`EVERY`].
const ALWAYS: u32 = 256;
const EVERY: u32 = 4;

/// The value that followed the last time, by long context.
#[derive(Clone, Debug, Default)]
pub struct Followers {
    /// Empty until the first use: most streams of most records are short.
    entries: Vec<Follower>,
    predictions: PredictionTable,
}

#[derive(Clone, Copy, Debug, Default)]
struct Follower {
    value: u32,
    /// Distinguishes contexts that share an entry.
    check: u16,
    /// How often in a row the prediction was right.
    trust: u8,
    used: bool,
}

/// The contexts of a value.
#[derive(Clone, Copy, Debug)]
pub struct Contexts<S: FnOnce() -> [u64; SHORT_CONTEXTS]> {
    /// A hash of everything the value may depend on.
    pub long: u64,
    /// Hashes of parts of it, which recur more often; computed only if needed.
    pub short: S,
}

/// Mixes a value into a context.
pub fn mix(context: u64, value: u64) -> u64 {
    stable::mix::<23, 29>(context, value)
}

impl Followers {
    /// The entry of a context; cleared if it belonged to another context.
    #[inline]
    #[expect(clippy::indexing_slicing, reason = "a remainder of the length")]
    fn entry(&mut self, context: u64) -> &mut Follower {
        let check = (context >> 48) as u16;
        if self.entries.is_empty() {
            self.entries.resize(ENTRIES, Follower::default());
        }
        // The index is below the table's length.
        let entry = &mut self.entries[context as usize % ENTRIES];
        if entry.check != check {
            *entry = Follower { check, ..Follower::default() };
        }
        entry
    }
}

impl Follower {
    #[inline]
    fn guess(&self) -> Option<u32> {
        self.used.then_some(self.value)
    }

    #[inline]
    fn note(&mut self, value: u32) {
        if self.used && self.value == value {
            self.trust = (self.trust + 1).min(TRUST as u8 - 1);
        } else {
            (self.value, self.trust, self.used) = (value, 0, true);
        }
    }

    fn trust(&self) -> usize {
        usize::from(self.trust).min(TRUST - 1)
    }
}

/// An adaptive model of one of several values.
#[derive(Clone, Debug)]
pub struct Symbol {
    as_long: [Bit; TRUST],
    as_step: Bit,
    known: Bit,
    alphabet: Alphabet,
    recency: Recency,
    rank: Number,
    /// The recent costs of coding by number and by rank.
    costs: [u32; 2],
    /// The number of values coded, up to a few more than [`ALWAYS`].
    compared: u32,
    distance: Number,
    last: u32,
    /// The step from the value before the last to the last.
    step: u32,
    /// Whether the step before was the same; a constant value has no step.
    steady: bool,
}

impl Default for Symbol {
    fn default() -> Self {
        Self {
            as_long: [Bit::EVEN; TRUST],
            as_step: Bit::EVEN,
            known: Bit::EVEN,
            alphabet: Alphabet::default(),
            recency: Recency::default(),
            rank: Number::default(),
            costs: [0; 2],
            compared: 0,
            distance: Number::default(),
            last: 0,
            step: 0,
            steady: false,
        }
    }
}

impl Symbol {
    /// Codes a value.
    #[expect(clippy::indexing_slicing, reason = "a trust is less than their number")]
    pub fn code(
        &mut self,
        coder: &mut impl Coder,
        followers: &mut Followers,
        contexts: Contexts<impl FnOnce() -> [u64; SHORT_CONTEXTS]>,
        value: u32,
    ) -> u32 {
        let Contexts { long, short } = contexts;
        let by_long = followers.entry(long);
        if let Some(guess) = by_long.guess().filter(|_| by_long.trust >= PROVEN) {
            let trust = by_long.trust();
            if coder.bit(&mut self.as_long[trust], guess == value) {
                by_long.note(guess);
                self.note(guess);
                return guess;
            }
        }
        let value = self.without_long(coder, &mut followers.predictions, short(), value);
        followers.entry(long).note(value);
        self.note(value);
        value
    }

    /// A value occurred that was coded elsewhere.
    pub fn note(&mut self, value: u32) {
        self.recency.note(value);
        let step = value.wrapping_sub(self.last);
        (self.steady, self.step, self.last) = (step == self.step && step != 0, step, value);
    }

    /// The values in the order of their last use.
    pub fn recency(&self) -> &Recency {
        &self.recency
    }

    /// Codes a value that the long context does not predict.
    #[inline(never)]
    fn without_long(
        &mut self,
        coder: &mut impl Coder,
        predictions: &mut PredictionTable,
        short: [u64; SHORT_CONTEXTS],
        value: u32,
    ) -> u32 {
        if self.steady {
            let guess = self.last.wrapping_add(self.step);
            if coder.bit(&mut self.as_step, guess == value) {
                return guess;
            }
        }
        let number = self.alphabet.number(value);
        if coder.bit(&mut self.known, number.is_some()) {
            return self.known(coder, predictions, short, (value, number.unwrap_or(0)));
        }
        let distance = zigzag(i64::from(value) - i64::from(self.last));
        let distance = unzigzag(self.distance.code(coder, distance));
        let value = distance.wrapping_add(i64::from(self.last)) as u32;
        self.alphabet.add(value);
        value
    }

    /// Codes a value that has occurred before, by number or by rank.
    fn known(
        &mut self,
        coder: &mut impl Coder,
        predictions: &mut PredictionTable,
        short: [u64; SHORT_CONTEXTS],
        (value, number): (u32, u32),
    ) -> u32 {
        let Self { alphabet, recency, rank, costs, compared, .. } = self;
        let by_place = costs[1] < costs[0] && recency.holds_all();
        // After a while, a sample of the values is enough to compare the costs.
        *compared = compared.saturating_add(1);
        let compares = *compared < ALWAYS || *compared % EVERY == 0;
        *compared -= u32::from(*compared == ALWAYS + EVERY) * EVERY;
        let mut coder = Counted::new(coder);
        let value = if by_place {
            let given = recency.rank(value).unwrap_or(0);
            let coded = usize::try_from(rank.code(&mut coder, given as u64));
            // Only damaged bytes give a rank after the end; any value is fine then.
            coded.ok().and_then(|rank| recency.at(rank)).unwrap_or(0)
        } else {
            alphabet.code(&mut coder, predictions, short, number)
        };
        if compares {
            let mut gauge = Gauge::default();
            if by_place {
                let number = alphabet.number(value).unwrap_or(0);
                alphabet.code(&mut gauge, predictions, short, number);
            } else {
                rank.code(&mut gauge, recency.rank(value).unwrap_or(0) as u64);
            }
            let now = [coder.cost(), gauge.cost()];
            for (cost, now) in costs.iter_mut().zip(if by_place { [now[1], now[0]] } else { now }) {
                *cost = *cost - (*cost >> FADES) + now;
            }
        }
        value
    }
}

/// A value that is often constant. After many equal values in a row, one bit says whether the next is equal too, without
/// any lookup.
#[derive(Clone, Debug)]
pub struct Steady {
    same: Bit,
    symbol: Symbol,
    /// How often in a row it was the same.
    run: u32,
}

/// How many equal values in a row count as constant.
pub const WHILE: u32 = 256;

impl Default for Steady {
    fn default() -> Self {
        Self { same: Bit::EVEN, symbol: Symbol::default(), run: 0 }
    }
}

impl Steady {
    /// Codes a value.
    #[inline]
    pub fn code<S: FnOnce() -> [u64; SHORT_CONTEXTS]>(
        &mut self,
        coder: &mut impl Coder,
        followers: &mut Followers,
        contexts: impl FnOnce() -> Contexts<S>,
        value: u32,
    ) -> u32 {
        if self.run >= WHILE && coder.bit(&mut self.same, value == self.symbol.last) {
            return self.symbol.last;
        }
        let last = self.symbol.last;
        let value = self.symbol.code(coder, followers, contexts(), value);
        self.run = if value == last { self.run.saturating_add(1) } else { 0 };
        value
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::coding::coder::{Decoder, Encoder};
    use proptest::prelude::*;

    fn run(coder: &mut impl Coder, given: &[u32]) -> Vec<u32> {
        let (mut symbol, mut followers) = (Symbol::default(), Followers::default());
        let (mut last, mut before) = (0u64, 0u64);
        let code = |value: &u32| {
            let long = mix(mix(1, last), before);
            let short = || [mix(2, last), mix(3, before)];
            let contexts = Contexts { long, short };
            let value = symbol.code(coder, &mut followers, contexts, *value);
            (before, last) = (last, value.into());
            value
        };
        given.iter().map(code).collect()
    }

    proptest! {
        #[test]
        fn coded_symbols_are_restored(given in prop::collection::vec(
            prop_oneof![0u32..4, 0u32..600, any::<u32>()], 0..900)) {
            let mut encoder = Encoder::default();
            run(&mut encoder, &given);
            let bytes = encoder.finish();
            prop_assert_eq!(run(&mut Decoder::new(&bytes), &given), given);
        }
    }

    #[test]
    fn a_repeating_sequence_takes_few_bytes() {
        let rhythm: Vec<u32> = (0..50_000).map(|n| [3, 1, 4, 1, 5, 9][n % 6]).collect();
        let mut encoder = Encoder::default();
        run(&mut encoder, &rhythm);
        let size = encoder.finish().len();
        assert!(size < 40, "{size} bytes");
    }
}
