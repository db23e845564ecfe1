//! One of several values, predicted from what came before.
//!
//! A source, a tag, an index in an array of requests, the next call site: all are coded the same
//! way. What followed in the same *long* circumstances is asked for first, if it proved right there
//! twice: each answer is learnt separately for predictions that proved right twice, three times or
//! more in a row, so that a deterministic program costs next to nothing. Then the last step is asked
//! for (tags that count).
//!
//! Otherwise there are two ways: by how often values follow in either of two *short* circumstances, and
//! by the value's place in the order of recency. Either may be much better than the other, so both go
//! on learning, and the one is taken that would have cost less of late. A value never seen
//! is written as its distance from the one before.

use crate::coding::alphabet::{Alphabet, Lines};
use crate::coding::coder::{Bit, Coder, Counted, Gauge};
use crate::coding::mixer::ASKED;
use crate::coding::number::Number;
use crate::coding::recency::Recency;
use refrain_bytes::stable;
use refrain_bytes::varint::{unzigzag, zigzag};

const ENTRIES: usize = 4096;
const TRUST: usize = 6;
/// So often a prediction has proved right in a row before it is asked for.
const PROVEN: u8 = 2;
/// What a way cost fades in about two to this many values.
const FADES: u32 = 6;
/// The first values are coded both ways, to see which is better; then one in so many is.
const ALWAYS: u32 = 256;
const EVERY: u32 = 4;

/// What followed last, by circumstances.
#[derive(Clone, Debug, Default)]
pub struct Followers {
    /// Empty until the first use: most streams of most records are short.
    entries: Vec<Follower>,
    lines: Lines,
}

#[derive(Clone, Copy, Debug, Default)]
struct Follower {
    value: u32,
    /// Tells circumstances apart that share an entry.
    check: u16,
    /// How often in a row the prediction was right; nothing is predicted before the first time.
    trust: u8,
    used: bool,
}

/// What a value may depend on.
#[derive(Clone, Copy, Debug)]
pub struct Circumstances<S: FnOnce() -> [u64; ASKED]> {
    /// All that was before.
    pub long: u64,
    /// Parts of it, each of which comes again often; mostly nobody asks.
    pub short: S,
}

/// Mixes a value into circumstances.
pub fn mix(circumstances: u64, value: u64) -> u64 {
    stable::mix::<23, 29>(circumstances, value)
}

impl Followers {
    /// The entry for circumstances, emptied if it is of others.
    #[inline]
    #[expect(clippy::indexing_slicing, reason = "a remainder of the length")]
    fn entry(&mut self, circumstances: u64) -> &mut Follower {
        let check = (circumstances >> 48) as u16;
        if self.entries.is_empty() {
            self.entries.resize(ENTRIES, Follower::default());
        }
        // The index is below the table's length.
        let entry = &mut self.entries[circumstances as usize % ENTRIES];
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
    place: Number,
    /// What coding by number and by place cost of late.
    costs: [u32; 2],
    /// How many values were coded, up to a few more than [`ALWAYS`].
    compared: u32,
    distance: Number,
    last: u32,
    /// The step from the value before the last to the last.
    step: u32,
    /// Whether the step before was the same; that of values that stay is none.
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
            place: Number::default(),
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
        circumstances: Circumstances<impl FnOnce() -> [u64; ASKED]>,
        value: u32,
    ) -> u32 {
        let Circumstances { long, short } = circumstances;
        let by_long = followers.entry(long);
        if let Some(guess) = by_long.guess().filter(|_| by_long.trust >= PROVEN) {
            let trust = by_long.trust();
            if coder.bit(&mut self.as_long[trust], guess == value) {
                by_long.note(guess);
                self.note(guess);
                return guess;
            }
        }
        let value = self.without_long(coder, &mut followers.lines, short(), value);
        followers.entry(long).note(value);
        self.note(value);
        value
    }

    /// A value came that was coded by other means.
    pub fn note(&mut self, value: u32) {
        self.recency.note(value);
        let step = value.wrapping_sub(self.last);
        (self.steady, self.step, self.last) = (step == self.step && step != 0, step, value);
    }

    /// The values by the time of their last use.
    pub fn recency(&self) -> &Recency {
        &self.recency
    }

    /// Codes a value that is not what followed in the long circumstances.
    #[inline(never)]
    fn without_long(
        &mut self,
        coder: &mut impl Coder,
        lines: &mut Lines,
        short: [u64; ASKED],
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
            return self.known(coder, lines, short, (value, number.unwrap_or(0)));
        }
        let distance = zigzag(i64::from(value) - i64::from(self.last));
        let distance = unzigzag(self.distance.code(coder, distance));
        let value = distance.wrapping_add(i64::from(self.last)) as u32;
        self.alphabet.add(value);
        value
    }

    /// Codes a value that has come before, by number or by place.
    fn known(
        &mut self,
        coder: &mut impl Coder,
        lines: &mut Lines,
        short: [u64; ASKED],
        (value, number): (u32, u32),
    ) -> u32 {
        let Self { alphabet, recency, place, costs, compared, .. } = self;
        let by_place = costs[1] < costs[0] && recency.holds_all();
        // After a while every so many values tell as well which way is better.
        *compared = compared.saturating_add(1);
        let compares = *compared < ALWAYS || *compared % EVERY == 0;
        *compared -= u32::from(*compared == ALWAYS + EVERY) * EVERY;
        let mut coder = Counted::new(coder);
        let value = if by_place {
            let given = recency.place(value).unwrap_or(0);
            let coded = usize::try_from(place.code(&mut coder, given as u64));
            // A place behind the end comes from damaged bytes alone; any value will do.
            coded.ok().and_then(|place| recency.at(place)).unwrap_or(0)
        } else {
            alphabet.code(&mut coder, lines, short, number)
        };
        if compares {
            let mut gauge = Gauge::default();
            if by_place {
                let number = alphabet.number(value).unwrap_or(0);
                alphabet.code(&mut gauge, lines, short, number);
            } else {
                place.code(&mut gauge, recency.place(value).unwrap_or(0) as u64);
            }
            let now = [coder.cost(), gauge.cost()];
            for (cost, now) in costs.iter_mut().zip(if by_place { [now[1], now[0]] } else { now }) {
                *cost = *cost - (*cost >> FADES) + now;
            }
        }
        value
    }
}

/// A value that may well be the same for ever. Once it was for a while, one question settles that,
/// without looking anything up.
#[derive(Clone, Debug)]
pub struct Steady {
    same: Bit,
    symbol: Symbol,
    /// How often in a row it was the same.
    run: u32,
}

/// Rhythms shorter than this are not taken for values that stay the same.
pub const WHILE: u32 = 256;

impl Default for Steady {
    fn default() -> Self {
        Self { same: Bit::EVEN, symbol: Symbol::default(), run: 0 }
    }
}

impl Steady {
    /// Codes a value.
    #[inline]
    pub fn code<S: FnOnce() -> [u64; ASKED]>(
        &mut self,
        coder: &mut impl Coder,
        followers: &mut Followers,
        circumstances: impl FnOnce() -> Circumstances<S>,
        value: u32,
    ) -> u32 {
        if self.run >= WHILE && coder.bit(&mut self.same, value == self.symbol.last) {
            return self.symbol.last;
        }
        let last = self.symbol.last;
        let value = self.symbol.code(coder, followers, circumstances(), value);
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
            let circumstances = Circumstances { long, short };
            let value = symbol.code(coder, &mut followers, circumstances, *value);
            (before, last) = (last, value.into());
            value
        };
        given.iter().map(code).collect()
    }

    proptest! {
        #[test]
        fn values_come_back(given in prop::collection::vec(
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
