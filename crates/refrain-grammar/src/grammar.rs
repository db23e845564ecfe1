//! A finished grammar: rules with repetition counts that yield one sequence of terminals.

use crate::canonical::{Order, canonical, lengths, validate};
use crate::codec;
use crate::cursor::{self, Cursor, Visitor};
use crate::error::GrammarError;
use crate::iter::Iter;
use crate::reader::Reader;
use crate::verify::{Violation, verify};
use refrain_bytes::stable;

/// What a symbol stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum What {
    /// A terminal.
    Terminal(u32),
    /// The body of the rule with this number.
    Rule(u32),
}

/// A symbol in the body of a rule, with its repetition count.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Symbol {
    /// What is repeated.
    pub what: What,
    /// How often; never 0 in a [`Grammar`].
    pub count: u64,
}

impl Symbol {
    /// A terminal, repeated.
    pub fn terminal(terminal: u32, count: u64) -> Symbol {
        Symbol { what: What::Terminal(terminal), count }
    }

    /// A rule, repeated.
    pub fn rule(rule: u32, count: u64) -> Symbol {
        Symbol { what: What::Rule(rule), count }
    }
}

/// A grammar that yields one sequence of terminals.
///
/// It is canonical: all rules can be reached from rule 0, the start rule; no two rules have the same
/// body; rules are numbered by the first visit of a walk, depth first and left to right. No rule
/// contains itself, and the sequence has less than 2^64 terminals. [`Grammar::verify`] checks the
/// invariants of Sequitur as well.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Grammar {
    rules: Vec<Vec<Symbol>>,
    /// The number of terminals that each rule yields.
    lengths: Vec<u64>,
}

impl Default for Grammar {
    /// The grammar of the empty sequence.
    fn default() -> Grammar {
        Grammar { rules: vec![Vec::new()], lengths: vec![0] }
    }
}

impl Grammar {
    /// A grammar from its rules, in any order; the first is the start rule.
    pub fn new(rules: Vec<Vec<Symbol>>) -> Result<Grammar, GrammarError> {
        let order = validate(&rules)?;
        lengths(&rules, &order.children_first)?;
        Ok(Grammar::from_canonical(canonical(rules, &order)))
    }

    /// A grammar from rules known to be valid and canonical.
    pub(crate) fn from_canonical(rules: Vec<Vec<Symbol>>) -> Grammar {
        match lengths(&rules, &Order::of(&rules).children_first) {
            Ok(lengths) => Grammar { rules, lengths },
            // An overflow would need 2^64 pushes.
            Err(_) => Grammar::default(),
        }
    }

    /// The bodies of the rules; rule 0 is the start.
    pub fn rules(&self) -> &[Vec<Symbol>] {
        &self.rules
    }

    /// The number of symbols of all rules: the size of the grammar.
    pub fn symbols(&self) -> usize {
        self.rules.iter().map(Vec::len).sum()
    }

    /// The number of terminals of the sequence.
    pub fn len(&self) -> u64 {
        self.length(0)
    }

    /// Whether the sequence is empty.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The number of terminals that a rule yields; 0 if there is no such rule.
    pub fn length(&self, rule: u32) -> u64 {
        self.lengths.get(rule as usize).copied().unwrap_or(0)
    }

    /// The sequence. The iterator takes memory for the nesting depth of the rules, not for the length.
    pub fn iter(&self) -> Iter<'_> {
        self.iter_from(0)
    }

    /// The sequence from position `n` on; the terminals before it are not visited.
    pub fn iter_from(&self, n: u64) -> Iter<'_> {
        Iter::new(self, n)
    }

    /// A position in the sequence, at its first terminal.
    pub fn cursor(&self) -> Cursor<'_> {
        Cursor::new(self)
    }

    /// Shows the rules as nested loops, in the order of the sequence.
    pub fn walk(&self, visitor: &mut impl Visitor) {
        cursor::walk(self, visitor);
    }

    /// How often each terminal below `terminals` occurs, computed without expanding.
    #[expect(
        clippy::indexing_slicing,
        reason = "rules are numbered below their count, and these lists have an entry for each; there is a start rule"
    )]
    pub fn counts(&self, terminals: usize) -> Vec<u64> {
        let mut counts = vec![0_u64; terminals];
        let mut times = vec![0_u64; self.rules.len()];
        times[0] = 1;
        for &rule in Order::of(&self.rules).children_first.iter().rev() {
            let times_rule = times[rule as usize];
            for symbol in &self.rules[rule as usize] {
                let occurs = times_rule.saturating_mul(symbol.count);
                let sum = match symbol.what {
                    What::Terminal(terminal) => counts.get_mut(terminal as usize),
                    What::Rule(inner) => times.get_mut(inner as usize),
                };
                if let Some(sum) = sum {
                    *sum = sum.saturating_add(occurs);
                }
            }
        }
        counts
    }

    /// The same grammar over other terminals. `name` should map different terminals to different
    /// ones: otherwise the sequence is still right, but [`Grammar::verify`] may fail.
    pub fn relabel(&self, mut name: impl FnMut(u32) -> u32) -> Grammar {
        let mut rules = self.rules.clone();
        for symbol in rules.iter_mut().flatten() {
            if let What::Terminal(terminal) = &mut symbol.what {
                *terminal = name(*terminal);
            }
        }
        let order = Order::of(&rules);
        Grammar::from_canonical(canonical(rules, &order))
    }

    /// Appends the grammar as bytes; the format is described in the source, in `codec.rs`.
    pub fn encode(&self, out: &mut Vec<u8>) {
        codec::encode(&self.rules, out);
    }

    /// The grammar from all of `bytes`, over the terminals below `terminals`.
    ///
    /// The bytes may be arbitrary: if they are not a grammar, the result is an error. Time and memory are
    /// bounded by the number of bytes and the alphabet.
    pub fn decode(bytes: &[u8], terminals: usize) -> Result<Grammar, GrammarError> {
        let mut reader = Reader::new(bytes);
        let rules = codec::decode(&mut reader, terminals)?;
        reader.finish()?;
        Grammar::new(rules)
    }

    /// Checks the invariants of Sequitur: no symbol is next to itself, no digram occurs twice, every rule
    /// is useful. The error says which invariant is violated, and where.
    pub fn verify(&self) -> Result<(), Violation> {
        verify(self)
    }

    /// A hash of the rules: the same in every process and on every machine. Grammars are canonical, so
    /// equal grammars have equal hashes.
    pub fn hash(&self) -> u64 {
        let mut hash = stable::FNV_BASIS;
        let mut mix = |word: u64| hash = stable::mix::<0, 29>(hash, word);
        for body in &self.rules {
            mix(body.len() as u64);
            for symbol in body {
                mix(match symbol.what {
                    What::Terminal(terminal) => u64::from(terminal) << 1,
                    What::Rule(rule) => u64::from(rule) << 1 | 1,
                });
                mix(symbol.count);
            }
        }
        hash ^ hash >> 32
    }
}

impl<'a> IntoIterator for &'a Grammar {
    type Item = u32;
    type IntoIter = Iter<'a>;

    fn into_iter(self) -> Iter<'a> {
        self.iter()
    }
}
