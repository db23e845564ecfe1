//! Whether grammars yield the same sequence, without expanding them.
//!
//! A sequence's hash is a polynomial over a prime field, so the hash of a repeated rule follows from that of the rule.
//! Different sequences have the same hash with a probability of about their length in 2^61.

use refrain_grammar::{Grammar, What};

/// The prime 2^61 - 1.
const PRIME: u64 = (1 << 61) - 1;
/// Where the polynomial is evaluated.
const BASE: u64 = 0x0b5a_d4ec_a6f3_1c87;

fn times(a: u64, b: u64) -> u64 {
    let product = u128::from(a) * u128::from(b);
    let sum = (product as u64 & PRIME) + (product >> 61) as u64;
    if sum >= PRIME { sum - PRIME } else { sum }
}

fn plus(a: u64, b: u64) -> u64 {
    (a + b) % PRIME
}

/// A sequence: its hash, the base to the power of its length, and its length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Sequence {
    hash: u64,
    shift: u64,
    length: u64,
}

impl Sequence {
    const EMPTY: Sequence = Sequence { hash: 0, shift: 1, length: 0 };

    fn of(terminal: u32) -> Sequence {
        Sequence { hash: u64::from(terminal) + 1, shift: BASE, length: 1 }
    }

    fn then(self, other: Sequence) -> Sequence {
        Sequence {
            hash: plus(times(self.hash, other.shift), other.hash),
            shift: times(self.shift, other.shift),
            length: self.length.saturating_add(other.length),
        }
    }

    fn repeated(self, mut count: u64) -> Sequence {
        let (mut all, mut power) = (Sequence::EMPTY, self);
        while count > 0 {
            if count & 1 == 1 {
                all = all.then(power);
            }
            power = power.then(power);
            count >>= 1;
        }
        all
    }

    /// What grammars yield, one after the other.
    pub fn yielded(grammars: &[Grammar]) -> Sequence {
        grammars.iter().fold(Sequence::EMPTY, |all, grammar| all.then(of_grammar(grammar)))
    }
}

fn of_grammar(grammar: &Grammar) -> Sequence {
    let rules = grammar.rules();
    let mut known: Vec<Option<Sequence>> = vec![None; rules.len()];
    // Rules being computed, with the position in each and what it yields so far.
    let mut path = vec![(0usize, 0usize, Sequence::EMPTY)];
    while let Some((rule, at, so_far)) = path.last_mut() {
        let Some(symbol) = rules[*rule].get(*at) else {
            known[*rule] = Some(*so_far);
            path.pop();
            continue;
        };
        let one = match symbol.what {
            What::Terminal(terminal) => Some(Sequence::of(terminal)),
            What::Rule(inner) => known[inner as usize],
        };
        match (one, symbol.what) {
            (Some(one), _) => {
                *so_far = so_far.then(one.repeated(symbol.count));
                *at += 1;
            }
            (None, What::Rule(inner)) => path.push((inner as usize, 0, Sequence::EMPTY)),
            (None, What::Terminal(_)) => *at += 1,
        }
    }
    known.first().copied().flatten().unwrap_or(Sequence::EMPTY)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use refrain_grammar::Sequitur;

    fn grammar(sequence: &[u32]) -> Grammar {
        let mut sequitur = Sequitur::new();
        sequence.iter().for_each(|terminal| sequitur.push(*terminal));
        sequitur.grammar()
    }

    proptest! {
        #[test]
        fn equal_sequences_are_told_from_others(
            sequence in proptest::collection::vec(0u32..4, 0..200), at: u16, cut: u16,
        ) {
            let whole = Sequence::yielded(&[grammar(&sequence)]);
            let cut = usize::from(cut) % (sequence.len() + 1);
            let parts = [grammar(&sequence[..cut]), grammar(&sequence[cut..])];
            prop_assert_eq!(Sequence::yielded(&parts), whole);
            if !sequence.is_empty() {
                let mut other = sequence.clone();
                let at = usize::from(at) % other.len();
                other[at] += 1;
                prop_assert_ne!(Sequence::yielded(&[grammar(&other)]), whole);
            }
        }
    }
}
