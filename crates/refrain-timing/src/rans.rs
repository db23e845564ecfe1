//! Entropy coding of symbols with known frequencies: range asymmetric numeral systems (J. Duda,
//! "Asymmetric numeral systems", 2013; the 64-bit variant of F. Giesen's `ryg_rans`, with
//! divisions replaced by multiplications).
//!
//! A frequent symbol costs a fraction of a bit, a constant symbol nothing. Symbols are encoded from the
//! last to the first, and decoded from the first to the last.

use crate::TimingError;

/// Frequencies add up to 2 to this.
pub(crate) const SCALE: u32 = 12;

/// The state stays at or above this between symbols.
const LOWEST: u64 = 1 << 31;

/// Precomputed values for encoding a symbol.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Step {
    /// From this state on, 32 bits are written first.
    full: u64,
    /// Reciprocal of the frequency: division is multiplication by this and a shift.
    reciprocal: u64,
    shift: u32,
    bias: u32,
    rest: u32,
}

impl Step {
    /// For a symbol of this frequency (1 or more) after symbols of frequency `before` in all.
    #[expect(clippy::indexing_slicing, reason = "a remainder of the length")]
    pub fn new(before: u32, frequency: u32) -> Step {
        let full = u64::from(frequency) << (63 - SCALE);
        let rest = (1 << SCALE) - frequency;
        let (reciprocal, shift) = RECIPROCALS[frequency as usize % RECIPROCALS.len()];
        // Compensates for the reciprocal of 1, which would take 65 bits.
        let bias = if frequency == 1 { before + (1 << SCALE) - 1 } else { before };
        Step { full, reciprocal, shift, bias, rest }
    }
}

/// For each frequency f: reciprocal and shift. For all states x, x / f is the upper half of the product
/// of x and the reciprocal, shifted. (For f = 1 it is one less.)
#[expect(clippy::indexing_slicing, reason = "evaluated when it is compiled")]
static RECIPROCALS: [(u64, u32); (1 << SCALE) + 1] = {
    let mut all = [(u64::MAX, 0); (1 << SCALE) + 1];
    let mut frequency = 2;
    while frequency < all.len() {
        let shift = u64::BITS - (frequency as u64 - 1).leading_zeros() - 1;
        let reciprocal = (1u128 << (shift + 64)).div_ceil(frequency as u128) as u64;
        all[frequency] = (reciprocal, shift);
        frequency += 1;
    }
    all
};

/// Encodes symbols, the last first.
#[derive(Debug)]
pub(crate) struct Encoder {
    state: u64,
    /// The number of words written.
    at: usize,
}

impl Encoder {
    pub fn new() -> Encoder {
        Encoder { state: LOWEST, at: 0 }
    }

    /// The most words that the given number of symbols takes.
    pub fn room(symbols: usize) -> usize {
        symbols + 2
    }

    /// Encodes a symbol. Always writes a word, and counts it only if it is full: a branch would cost
    /// more, since it cannot be predicted.
    #[inline(always)]
    #[expect(
        clippy::indexing_slicing,
        reason = "the caller makes room for a word of every symbol, and two more"
    )]
    pub fn put(&mut self, step: &Step, out: &mut [u32]) {
        let x = self.state;
        let full = x >= step.full;
        out[self.at] = x as u32;
        self.at += usize::from(full);
        let x = if full { x >> 32 } else { x };
        let quotient = ((u128::from(x) * u128::from(step.reciprocal)) >> 64) as u64 >> step.shift;
        self.state = x + u64::from(step.bias) + quotient * u64::from(step.rest);
    }

    /// Ends the encoding; returns the words, which are read from the last to the first.
    #[expect(
        clippy::indexing_slicing,
        reason = "the caller makes room for a word of every symbol, and two more"
    )]
    pub fn finish(self, out: &mut [u32]) -> &[u32] {
        out[self.at] = self.state as u32;
        out[self.at + 1] = (self.state >> 32) as u32;
        &out[..self.at + 2]
    }
}

/// A symbol with its interval of frequencies.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Span {
    pub symbol: u8,
    /// The sum of the frequencies of all symbols before it.
    pub before: u16,
    pub frequency: u16,
}

/// Symbols by the lowest bits of the state.
#[derive(Clone, Debug)]
pub(crate) struct Spans {
    /// For each value of the lowest bits, the index of its symbol.
    by_low_bits: Vec<u8>,
    spans: Vec<Span>,
}

impl Spans {
    /// From up to 256 symbols whose frequencies add up to 2 to the [`SCALE`].
    pub fn new(symbols: impl Iterator<Item = (u8, u32)>) -> Spans {
        let mut by_low_bits = Vec::with_capacity(1 << SCALE);
        let mut spans = Vec::new();
        for (symbol, frequency) in symbols {
            let before = by_low_bits.len() as u16;
            by_low_bits.resize(by_low_bits.len() + frequency as usize, spans.len() as u8);
            spans.push(Span { symbol, before, frequency: frequency as u16 });
        }
        Spans { by_low_bits, spans }
    }
}

/// Decodes symbols, first to last.
#[derive(Debug)]
pub(crate) struct Decoder<'a> {
    state: u64,
    /// The bytes that are not read yet, four per word.
    rest: &'a [u8],
}

impl<'a> Decoder<'a> {
    /// Reads the words in the order of these bytes.
    pub fn new(bytes: &'a [u8]) -> Result<Decoder<'a>, TimingError> {
        let mut decoder = Decoder { state: 0, rest: bytes };
        let state = u64::from(decoder.word()?) << 32 | u64::from(decoder.word()?);
        if !(LOWEST..LOWEST << 32).contains(&state) {
            return Err(TimingError::Damaged("wrong state of a column"));
        }
        decoder.state = state;
        Ok(decoder)
    }

    fn word(&mut self) -> Result<u32, TimingError> {
        let (word, rest) = self.rest.split_first_chunk().ok_or(TimingError::Truncated)?;
        self.rest = rest;
        Ok(u32::from_le_bytes(*word))
    }

    /// The next symbol.
    #[inline]
    pub fn get(&mut self, spans: &Spans) -> Result<u8, TimingError> {
        let low = (self.state & ((1 << SCALE) - 1)) as usize;
        let span =
            spans.by_low_bits.get(low).and_then(|index| spans.spans.get(usize::from(*index)));
        let Some(span) = span else { return Err(TimingError::Damaged("malformed frequencies")) };
        let within = (low as u64).wrapping_sub(span.before.into());
        self.state = u64::from(span.frequency) * (self.state >> SCALE) + within;
        if self.state < LOWEST {
            self.state = self.state << 32 | u64::from(self.word()?);
        }
        Ok(span.symbol)
    }

    /// Checks that nothing is left and that the state is the initial one: the last check of a column.
    pub fn finish(&self) -> Result<(), TimingError> {
        match self.rest.is_empty() && self.state == LOWEST {
            true => Ok(()),
            false => Err(TimingError::Damaged("wrong final state of a column")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Frequencies from positive weights.
    fn scaled(weights: &[u32]) -> Vec<u32> {
        let sum: u32 = weights.iter().sum();
        let room = (1 << SCALE) - weights.len() as u32;
        let mut all: Vec<u32> = weights.iter().map(|w| 1 + w * room / sum).collect();
        all[0] += (1 << SCALE) - all.iter().sum::<u32>();
        all
    }

    proptest! {
        #[test]
        fn symbols_decode_as_encoded(
            weights in prop::collection::vec(1..5000u32, 1..256),
            message in prop::collection::vec(any::<prop::sample::Index>(), 0..500),
        ) {
            let frequencies = scaled(&weights);
            let message: Vec<_> = message.iter().map(|i| i.index(weights.len())).collect();
            let before = |s: usize| frequencies[..s].iter().sum::<u32>();
            let mut encoder = Encoder::new();
            let mut words = vec![0; Encoder::room(message.len())];
            for symbol in message.iter().rev() {
                encoder.put(&Step::new(before(*symbol), frequencies[*symbol]), &mut words);
            }
            let words = encoder.finish(&mut words);
            let bytes: Vec<u8> = words.iter().rev().flat_map(|w| w.to_le_bytes()).collect();
            let spans = Spans::new((0..=255).zip(frequencies.iter().copied()));
            let mut decoder = Decoder::new(&bytes).unwrap();
            for symbol in message {
                prop_assert_eq!(decoder.get(&spans).map(usize::from), Ok(symbol));
            }
            prop_assert_eq!(decoder.finish(), Ok(()));
        }
    }
}
