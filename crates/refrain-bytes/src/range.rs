//! Binary range coding with adaptive probabilities.
//!
//! A [`Bit`] models one binary decision in one context: it learns how often the answer was `true`.
//! The range coder spends about `-log2(p)` bits on an answer of probability `p`. A decision whose
//! answer never varies costs less than a thousandth of a bit.
//!
//! A model is written once for both directions: it asks a [`Coder`] to code a value and continues
//! with the value that the coder returns. The [`Encoder`] returns the value it was given. The
//! [`Decoder`] ignores that value and returns the decoded one. So the two directions cannot diverge.
//!
//! ```
//! use refrain_bytes::range::{Bit, Coder, Decoder, Encoder};
//!
//! fn code(coder: &mut impl Coder, given: [bool; 3]) -> [bool; 3] {
//!     let mut model = Bit::EVEN;
//!     given.map(|value| coder.bit(&mut model, value))
//! }
//!
//! let mut encoder = Encoder::default();
//! code(&mut encoder, [true, false, true]);
//! let bytes = encoder.finish();
//! assert_eq!(code(&mut Decoder::new(&bytes), [false; 3]), [true, false, true]);
//! ```

/// Probabilities are of 16 bits; they stay this far from certainty (0.0003 bits an answer).
const FLOOR: u32 = 16;
/// After so many answers a new one weighs no less than the one before: old habits fade.
const MEMORY: usize = 80;
const TOP: u32 = 1 << 24;

/// How much the n-th answer weighs, in 32768ths.
static WEIGHTS: [u16; 256] = weights();

#[expect(clippy::indexing_slicing, reason = "evaluated when it is compiled")]
const fn weights() -> [u16; 256] {
    let mut table = [0; 256];
    let mut n = 0;
    while n < 256 {
        let seen = if n < MEMORY { n } else { MEMORY };
        table[n] = (65_536 / (2 * seen as u32 + 3)) as u16;
        n += 1;
    }
    table
}

/// An adaptive estimate of how probable `true` is.
#[derive(Clone, Copy, Debug)]
pub struct Bit {
    chance: u16,
    /// Answers so far, up to [`MEMORY`].
    seen: u16,
}

impl Bit {
    /// An even chance.
    pub const EVEN: Bit = Bit { chance: 1 << 15, seen: 0 };

    #[inline]
    #[expect(clippy::indexing_slicing, reason = "a remainder of the length")]
    fn learn(&mut self, value: bool) {
        let weight = i32::from(WEIGHTS[usize::from(self.seen) % WEIGHTS.len()]);
        let target = if value { 65536 - FLOOR as i32 } else { FLOOR as i32 };
        let chance = i32::from(self.chance);
        // Both factors are below 2^16, and the product within 32 bits. Steps round towards the
        // answer, or estimates would stop short of certainty; none goes beyond its target.
        let round = if value { 0x7fff } else { 0 };
        let step = ((target - chance) * weight + round) >> 15;
        self.chance = (chance + step) as u16;
        self.seen += u16::from(usize::from(self.seen) < MEMORY);
    }
}

/// The part of a range that stands for `true`.
#[inline]
fn part_of(range: u32, chance: u16) -> u32 {
    ((u64::from(range) * u64::from(chance)) >> 16) as u32
}

/// What an answer of this chance costs, in [`WHOLE`]ths of a bit.
#[inline]
#[expect(clippy::indexing_slicing, reason = "a remainder of the length")]
fn cost(chance: u16, value: bool) -> u32 {
    let chance = u32::from(chance);
    let chance = if value { chance } else { 65536 - chance };
    COSTS[(chance >> 8) as usize % COSTS.len()].into()
}

/// A bit in the unit of costs.
const WHOLE: u32 = 64;

/// What an answer costs, by the upper half of its probability: 64 log2(256 / p), in the middle of
/// what shares the upper half.
static COSTS: [u16; 256] = costs();

#[expect(clippy::indexing_slicing, reason = "evaluated when it is compiled")]
const fn costs() -> [u16; 256] {
    let mut table = [0; 256];
    let mut n = 0;
    while n < 256 {
        // The logarithm of (2n + 1) / 512, digit by digit: squaring doubles it.
        let mut rest = (2 * n as u64 + 1) << 32;
        let mut log: i64 = -9;
        while rest >= 2 << 32 {
            rest >>= 1;
            log += 1;
        }
        let mut digits = 0;
        while digits < 6 {
            rest = (rest >> 16) * (rest >> 16);
            log *= 2;
            if rest >= 2 << 32 {
                rest >>= 1;
                log += 1;
            }
            digits += 1;
        }
        table[n] = -log as u16;
        n += 1;
    }
    table
}

/// Codes answers, in one direction or the other.
pub trait Coder {
    /// Codes one answer that is `true` with this chance, in 65536ths and not 0; `value` is ignored by
    /// a decoder.
    fn coin(&mut self, chance: u16, value: bool) -> bool;
    /// Codes one answer, and learns from it.
    #[inline]
    fn bit(&mut self, model: &mut Bit, value: bool) -> bool {
        let value = self.coin(model.chance, value);
        model.learn(value);
        value
    }
    /// Codes `count` (at most 16) bits that nothing is known about.
    fn raw(&mut self, count: u32, value: u32) -> u32;
}

/// Writes.
#[derive(Clone, Debug)]
pub struct Encoder {
    low: u64,
    range: u32,
    /// The last byte that a carry may still change, and how many 0xff follow it.
    cache: u8,
    waiting: u64,
    out: Vec<u8>,
}

impl Default for Encoder {
    fn default() -> Self {
        Self { low: 0, range: u32::MAX, cache: 0, waiting: 0, out: Vec::new() }
    }
}

impl Encoder {
    /// How many bytes were written so far, but for a few.
    pub fn len(&self) -> usize {
        self.out.len()
    }

    /// Whether nothing was written so far.
    pub fn is_empty(&self) -> bool {
        self.out.is_empty()
    }

    fn shift(&mut self) {
        if self.low < 0xff00_0000 || self.low > 0xffff_ffff {
            let carry = (self.low >> 32) as u8;
            self.out.push(self.cache.wrapping_add(carry));
            for _ in 0..self.waiting {
                self.out.push(0xffu8.wrapping_add(carry));
            }
            self.waiting = 0;
            self.cache = (self.low >> 24) as u8;
        } else {
            self.waiting += 1;
        }
        self.low = (self.low & 0x00ff_ffff) << 8;
    }

    #[inline]
    fn normalise(&mut self) {
        if self.range < TOP {
            self.shift_out();
        }
    }

    #[inline(never)]
    fn shift_out(&mut self) {
        while self.range < TOP {
            self.range <<= 8;
            self.shift();
        }
    }

    /// The bytes written. A decoder reads zeros behind the end, so trailing zeros are left out,
    /// and of all numbers in the final range one that ends in many zeros is taken.
    pub fn finish(mut self) -> Vec<u8> {
        let last = self.low + u64::from(self.range) - 1;
        let end = (0..=32).rev().map(|k| last & !((1u64 << k) - 1)).find(|end| *end >= self.low);
        self.low = end.unwrap_or(self.low);
        for _ in 0..5 {
            self.shift();
        }
        while self.out.last() == Some(&0) {
            self.out.pop();
        }
        if !self.out.is_empty() {
            // The first byte is the empty cache, and no carry ever reaches it.
            self.out.remove(0);
        }
        self.out
    }
}

impl Coder for Encoder {
    #[inline]
    fn coin(&mut self, chance: u16, value: bool) -> bool {
        let bound = part_of(self.range, chance);
        if value {
            self.low += u64::from(self.range - bound);
            self.range = bound;
        } else {
            self.range -= bound;
        }
        self.normalise();
        value
    }

    fn raw(&mut self, count: u32, value: u32) -> u32 {
        self.range >>= count;
        self.low += u64::from(self.range) * u64::from(value);
        self.normalise();
        value
    }
}

/// Learns what it would have written, and only counts what that would have cost.
#[derive(Debug, Default)]
pub struct Gauge {
    cost: u32,
}

impl Coder for Gauge {
    #[inline]
    fn coin(&mut self, chance: u16, value: bool) -> bool {
        self.cost += cost(chance, value);
        value
    }

    fn raw(&mut self, count: u32, value: u32) -> u32 {
        self.cost += count * WHOLE;
        value
    }
}

/// Codes by another coder, and counts what that costs.
#[derive(Debug)]
pub struct Counted<'a, C> {
    coder: &'a mut C,
    gauge: Gauge,
}

impl<'a, C: Coder> Counted<'a, C> {
    /// By this coder.
    pub fn new(coder: &'a mut C) -> Self {
        Self { coder, gauge: Gauge::default() }
    }

    /// What it cost so far.
    pub fn cost(&self) -> u32 {
        self.gauge.cost
    }
}

impl Gauge {
    /// What it would have cost so far.
    pub fn cost(&self) -> u32 {
        self.cost
    }
}

impl<C: Coder> Coder for Counted<'_, C> {
    #[inline]
    fn coin(&mut self, chance: u16, value: bool) -> bool {
        let value = self.coder.coin(chance, value);
        self.gauge.cost += cost(chance, value);
        value
    }

    fn raw(&mut self, count: u32, value: u32) -> u32 {
        self.gauge.cost += count * WHOLE;
        self.coder.raw(count, value)
    }
}

/// Reads.
#[derive(Clone, Debug)]
pub struct Decoder<'a> {
    code: u32,
    range: u32,
    input: &'a [u8],
}

impl<'a> Decoder<'a> {
    /// From what an [`Encoder`] wrote.
    pub fn new(input: &'a [u8]) -> Self {
        let mut decoder = Self { code: 0, range: u32::MAX, input };
        for _ in 0..4 {
            decoder.code = decoder.code << 8 | decoder.next();
        }
        decoder
    }

    /// The next byte; zero behind the end.
    fn next(&mut self) -> u32 {
        let Some((byte, rest)) = self.input.split_first() else { return 0 };
        self.input = rest;
        u32::from(*byte)
    }

    fn normalise(&mut self) {
        while self.range < TOP {
            self.range <<= 8;
            self.code = self.code << 8 | self.next();
        }
    }
}

impl Coder for Decoder<'_> {
    #[inline]
    fn coin(&mut self, chance: u16, _: bool) -> bool {
        let bound = part_of(self.range, chance);
        let value = self.code >= self.range - bound;
        if value {
            self.code -= self.range - bound;
            self.range = bound;
        } else {
            self.range -= bound;
        }
        self.normalise();
        value
    }

    fn raw(&mut self, count: u32, _: u32) -> u32 {
        self.range >>= count;
        let most = (1u32 << count) - 1;
        let value = (self.code / self.range).min(most);
        self.code = self.code.wrapping_sub(value * self.range);
        self.normalise();
        value
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn answers(coder: &mut impl Coder, given: &[(bool, u8)]) -> Vec<(bool, u8)> {
        let mut bits = [Bit::EVEN; 4];
        let mut code = |&(answer, raw): &(bool, u8)| {
            let answer = coder.bit(&mut bits[usize::from(raw & 3)], answer);
            let raw = coder.raw(8, raw.into()) as u8;
            (answer, raw)
        };
        // A decoder does not know what is asked of it: here the raw part chooses the model.
        given.iter().map(&mut code).collect()
    }

    proptest! {
        #[test]
        fn answers_come_back(given in prop::collection::vec((any::<bool>(), any::<u8>()), 0..400)) {
            let mut encoder = Encoder::default();
            answers(&mut encoder, &given);
            let bytes = encoder.finish();
            prop_assert_eq!(answers(&mut Decoder::new(&bytes), &given), given);
        }

        #[test]
        fn skewed_answers_come_back(given in prop::collection::vec(0u32..1000, 0..4000)) {
            let mut encoder = Encoder::default();
            let mut bit = Bit::EVEN;
            for n in &given {
                encoder.bit(&mut bit, *n != 0);
            }
            let bytes = encoder.finish();
            let (mut decoder, mut bit) = (Decoder::new(&bytes), Bit::EVEN);
            for n in &given {
                prop_assert_eq!(decoder.bit(&mut bit, false), *n != 0);
            }
        }
    }

    #[test]
    fn a_bit_that_never_varies_takes_next_to_nothing() {
        for answer in [false, true] {
            let mut encoder = Encoder::default();
            let mut bit = Bit::EVEN;
            for _ in 0..100_000 {
                encoder.bit(&mut bit, answer);
            }
            let size = encoder.finish().len();
            assert!(size < 20, "{size} bytes for 100,000 equal answers");
        }
    }
}
