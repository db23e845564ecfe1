//! Numbers by an adaptive coder: guessed first, spelled out only where no guess is right.
//!
//! A *place* is one number of one kind of call, or one kind of number of the nest itself (trip counts, run lengths).
//! For each place the caller makes a few guesses: the last value, the last value plus the last step, the value that
//! followed the same context before, the value that another argument had. A place tries those guesses first that were
//! right most often recently, and learns how much each is worth. A number that no guess predicts is spelled out as its
//! difference from the origin that has made differences short: zero, the last value or another one.
//!
//! The models belong to the format: with other models, old files decode to wrong values.

use refrain_bytes::range::{Bit, Coder};
use refrain_bytes::varint::{unzigzag, zigzag};

/// How many guesses a place can be given.
pub(crate) const GUESSES: usize = 19;
/// How many different guesses are tried.
const TRIES: usize = 8;
/// How many origins a difference can be measured from.
pub(crate) const ORIGINS: usize = 4;
/// Bits of the length of a number.
const LENGTH_BITS: u32 = 7;
/// So many binary digits after the leading one are modelled.
const MODELLED: u32 = 3;

/// A model of numbers of one kind: their lengths and their leading digits.
#[derive(Clone, Debug)]
pub(crate) struct Numbers {
    lengths: Vec<Bit>,
    digits: Vec<Bit>,
}

impl Default for Numbers {
    fn default() -> Numbers {
        Numbers {
            lengths: vec![Bit::EVEN; 1 << LENGTH_BITS],
            digits: vec![Bit::EVEN; 1 << (LENGTH_BITS + MODELLED)],
        }
    }
}

impl Numbers {
    /// Codes a number.
    pub fn code(&mut self, coder: &mut impl Coder, given: u64) -> u64 {
        let length = u64::BITS - given.leading_zeros();
        let length = self.code_length(coder, length);
        let Some(mut left) = length.checked_sub(1) else { return 0 };
        let mut coded = 1u64;
        let mut node = 1usize;
        while left > 0 && length - left <= MODELLED {
            left -= 1;
            let at = (length as usize) << MODELLED | node;
            let digit = self.bit(coder, at, given >> left & 1 == 1);
            coded = coded << 1 | u64::from(digit);
            node = node << 1 | usize::from(digit);
        }
        while left > 0 {
            let count = left.min(16);
            left -= count;
            let digits = coder.raw(count, (given >> left) as u32 & ((1 << count) - 1));
            coded = coded << count | u64::from(digits);
        }
        coded
    }

    fn bit(&mut self, coder: &mut impl Coder, at: usize, given: bool) -> bool {
        match self.digits.get_mut(at) {
            Some(model) => coder.bit(model, given),
            None => coder.raw(1, given.into()) == 1,
        }
    }

    fn code_length(&mut self, coder: &mut impl Coder, given: u32) -> u32 {
        let mut node = 1usize;
        for bit in (0..LENGTH_BITS).rev() {
            let answer = match self.lengths.get_mut(node) {
                Some(model) => coder.bit(model, given >> bit & 1 == 1),
                None => false,
            };
            node = node << 1 | usize::from(answer);
        }
        ((node - (1 << LENGTH_BITS)) as u32).min(u64::BITS)
    }

    /// Codes a number of either sign.
    pub fn code_signed(&mut self, coder: &mut impl Coder, given: i64) -> i64 {
        unzigzag(self.code(coder, zigzag(given)))
    }
}

/// The guesses at a number, by their kinds; kinds without a guess have that of another kind.
pub(crate) type Guesses = [i64; GUESSES];

/// What is known of a place.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    /// The kinds of guesses in the order in which they are tried.
    order: [u8; GUESSES],
    /// How often each was right recently.
    scores: [u16; GUESSES],
    /// Models of whether each is right, by whether the first one was right the last time.
    right: [[Bit; GUESSES]; 2],
    was_first: usize,
    /// About how many bits differences from each origin take, in eighths.
    lengths: [u16; ORIGINS],
}

impl Default for Place {
    fn default() -> Place {
        let mut order = [0; GUESSES];
        (0u8..).zip(&mut order).for_each(|(kind, slot)| *slot = kind);
        Place {
            order,
            scores: [0; GUESSES],
            right: [[Bit::EVEN; GUESSES]; 2],
            was_first: 0,
            lengths: [0; ORIGINS],
        }
    }
}

impl Place {
    /// Codes a number.
    pub fn code(
        &mut self,
        coder: &mut impl Coder,
        guesses: &Guesses,
        origins: &[i64; ORIGINS],
        spelled: &mut Numbers,
        given: i64,
    ) -> i64 {
        let mut tried = [0i64; TRIES];
        let mut tries = 0;
        let mut found = None;
        let models = &mut self.right[self.was_first];
        for kind in self.order.map(usize::from) {
            let guess = guesses[kind];
            if tried[..tries].contains(&guess) {
                continue;
            }
            if coder.bit(&mut models[kind], given == guess) {
                found = Some(guess);
                break;
            }
            tried[tries] = guess;
            tries += 1;
            if tries == TRIES {
                break;
            }
        }
        self.was_first = usize::from(found.is_some() && tries == 0);
        let value = match found {
            Some(value) => value,
            None => {
                let best = (0..ORIGINS).min_by_key(|at| self.lengths[*at]).unwrap_or(0);
                let difference = given.wrapping_sub(origins[best]);
                origins[best].wrapping_add(spelled.code_signed(coder, difference))
            }
        };
        if found.is_none() {
            for (average, origin) in self.lengths.iter_mut().zip(origins) {
                let length = u64::BITS - zigzag(value.wrapping_sub(*origin)).leading_zeros();
                *average = *average - (*average >> 3) + length as u16;
            }
        }
        self.learn(guesses, value);
        value
    }

    /// Notes which guesses were right. The order changes only if the first guess was wrong.
    fn learn(&mut self, guesses: &Guesses, value: i64) {
        for (score, guess) in self.scores.iter_mut().zip(guesses) {
            *score -= *score >> 3;
            *score += if *guess == value { 1 << 10 } else { 0 };
        }
        let scores = &self.scores;
        for at in 1..GUESSES {
            let mut at = at;
            while at > 0
                && scores[usize::from(self.order[at])] > scores[usize::from(self.order[at - 1])]
            {
                self.order.swap(at, at - 1);
                at -= 1;
            }
        }
    }
}

/// The values that followed contexts, by their hashes.
#[derive(Clone, Debug)]
pub(crate) struct Followers {
    values: Vec<i64>,
}

/// Entries of the table, as a power of two.
const ENTRIES: u32 = 18;

impl Default for Followers {
    fn default() -> Followers {
        Followers { values: vec![0; 1 << ENTRIES] }
    }
}

impl Followers {
    /// The value that followed a context the last time; 0 if it is new.
    pub fn get(&self, context: u64) -> i64 {
        self.values[(context >> (64 - ENTRIES)) as usize]
    }

    /// Notes what followed.
    pub fn set(&mut self, context: u64, value: i64) {
        self.values[(context >> (64 - ENTRIES)) as usize] = value;
    }
}

/// A hash of a context.
pub(crate) fn context(kind: u64, parts: &[i64]) -> u64 {
    let step = |hash: u64, part: u64| {
        let hash = (hash ^ part).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        hash ^ hash >> 29
    };
    let hash =
        parts.iter().fold(step(0, kind.wrapping_add(1)), |hash, part| step(hash, *part as u64));
    step(hash, 0x5bd1_e995)
}

/// A series of numbers of the nest: trip counts, identities of rows, lengths of runs.
#[derive(Clone, Debug, Default)]
pub(crate) struct Series {
    place: Place,
    spelled: Numbers,
    /// The last values, the very last first.
    last: [i64; 3],
}

impl Series {
    /// Begins another series of the same kind.
    pub fn restart(&mut self) {
        self.last = [0; 3];
    }

    /// Codes the next number; `kind` tells the series from others, `hints` are more guesses.
    pub fn code(
        &mut self,
        coder: &mut impl Coder,
        followers: &mut Followers,
        kind: u64,
        hints: [i64; 4],
        given: i64,
    ) -> i64 {
        let [a, b, c] = self.last;
        let contexts = [
            context(kind << 2, &[a]),
            context(kind << 2 | 1, &[a, b]),
            context(kind << 2 | 2, &[a, b, c]),
        ];
        let mut guesses = [a; GUESSES];
        for (guess, context) in guesses.iter_mut().zip(&contexts) {
            *guess = followers.get(*context);
        }
        guesses[3] = a;
        guesses[4] = a.wrapping_add(a.wrapping_sub(b));
        for (guess, hint) in guesses[5..].iter_mut().zip(&hints) {
            *guess = *hint;
        }
        let value =
            self.place.code(coder, &guesses, &[0, a, hints[0], hints[1]], &mut self.spelled, given);
        contexts.iter().for_each(|context| followers.set(*context, value));
        self.last = [value, a, b];
        value
    }
}
