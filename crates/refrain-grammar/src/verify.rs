//! Checks the invariants of Sequitur in a finished grammar.

use std::collections::HashMap;
use std::fmt;

use crate::grammar::{Grammar, Symbol, What};

/// A violated invariant, and its position.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Violation {
    /// A symbol is next to itself; its count should be higher instead.
    NotMerged {
        /// The rule.
        rule: usize,
        /// Position of the first of the two.
        position: usize,
    },
    /// A pair of neighbours occurs twice.
    DigramTwice {
        /// Rule and position of the first occurrence.
        first: (usize, usize),
        /// Rule and position of the second occurrence.
        second: (usize, usize),
    },
    /// A rule is used once, without repetition.
    UsedOnce {
        /// The rule.
        rule: usize,
    },
    /// A rule other than the start rule has only one symbol.
    OneSymbol {
        /// The rule.
        rule: usize,
    },
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Violation::NotMerged { rule, position } => {
                write!(f, "symbol {position} of rule {rule} is followed by itself")
            }
            Violation::DigramTwice { first: (rule, at), second: (other, other_at) } => write!(
                f,
                "the digram at symbol {at} of rule {rule} is also at symbol {other_at} of rule \
                 {other}"
            ),
            Violation::UsedOnce { rule } => {
                write!(f, "rule {rule} is used once, and not repeated")
            }
            Violation::OneSymbol { rule } => write!(f, "rule {rule} has only one symbol"),
        }
    }
}

impl std::error::Error for Violation {}

/// Checks merged symbols, digram uniqueness and rule utility.
#[expect(
    clippy::indexing_slicing,
    reason = "rules are numbered below their count, and these lists have an entry for each; a window is a pair"
)]
pub(crate) fn verify(grammar: &Grammar) -> Result<(), Violation> {
    let mut digrams: HashMap<(Symbol, Symbol), (usize, usize)> = HashMap::new();
    let mut uses = vec![0_u64; grammar.rules().len()];
    for (rule, body) in grammar.rules().iter().enumerate() {
        if rule > 0 && body.len() == 1 {
            return Err(Violation::OneSymbol { rule });
        }
        for symbol in body {
            if let What::Rule(inner) = symbol.what {
                let uses = &mut uses[inner as usize];
                *uses = uses.saturating_add(symbol.count);
            }
        }
        for (position, pair) in body.windows(2).enumerate() {
            if pair[0].what == pair[1].what {
                return Err(Violation::NotMerged { rule, position });
            }
            let second = (rule, position);
            if let Some(first) = digrams.insert((pair[0], pair[1]), second) {
                return Err(Violation::DigramTwice { first, second });
            }
        }
    }
    match uses.iter().skip(1).position(|&uses| uses < 2) {
        Some(position) => Err(Violation::UsedOnce { rule: position + 1 }),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn violation(rules: Vec<Vec<Symbol>>) -> Option<Violation> {
        Grammar::new(rules).unwrap().verify().err()
    }

    #[test]
    fn a_violation_is_named_with_its_position() {
        let [a, b, c] = [0, 1, 2].map(|terminal| Symbol::terminal(terminal, 1));
        let r = Symbol::rule(1, 1);
        assert_eq!(violation(vec![vec![Symbol::rule(1, 2)], vec![a, b]]), None);
        assert_eq!(
            violation(vec![vec![b, a, a]]),
            Some(Violation::NotMerged { rule: 0, position: 1 })
        );
        assert_eq!(
            violation(vec![vec![r, c, r, a, b], vec![a, b]]),
            Some(Violation::DigramTwice { first: (0, 3), second: (1, 0) })
        );
        assert_eq!(violation(vec![vec![r, c], vec![a, b]]), Some(Violation::UsedOnce { rule: 1 }));
        assert_eq!(
            violation(vec![vec![r, c, r], vec![Symbol::terminal(0, 2)]]),
            Some(Violation::OneSymbol { rule: 1 })
        );
    }

    #[test]
    fn a_violation_reads_as_a_sentence() {
        let violation = Violation::DigramTwice { first: (0, 3), second: (1, 0) };
        assert_eq!(
            violation.to_string(),
            "the digram at symbol 3 of rule 0 is also at symbol 0 of rule 1"
        );
    }
}
