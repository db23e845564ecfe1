//! Many grammars in one: what the grammars of many processes have in common is stored once.
//!
//! Processes of one program run the same loops, so their grammars have rules in common, and bodies
//! that differ often differ in a few symbols only. Pilgrim (§2.5.2) joins all grammars and runs
//! Sequitur once more. So does this module, in two steps that preserve each grammar:
//!
//! 1. Rules with equal bodies become one, from the innermost out.
//! 2. The remaining bodies are concatenated, each followed by its own separator, and Sequitur runs
//!    over them, with symbols and their counts as terminals. A separator occurs once, so no rule
//!    found this way contains one. Such a rule is a *fragment*: a part of several bodies, and not a
//!    rule of any of the grammars.
//!
//! To restore a grammar, its rules are collected from its start rule, fragments are expanded, and
//! the rules are numbered. The canonical form is unique, so the result is the original grammar.
//!
//! # Fragments in hostile bytes
//!
//! Nested fragments could claim bodies of any length. But if digrams are unique, a fragment occurs
//! once in a grammar, so a grammar has at most as many symbols as all shared rules together. This is
//! checked before a grammar is restored. If the input of [`share()`] violates it, no fragments are
//! used.

use std::collections::HashMap;

use crate::canonical::{Order, Walker, validate_symbols};
use crate::codec;
use crate::error::GrammarError;
use crate::grammar::{Grammar, Symbol, What};
use crate::reader::Reader;
use crate::sequitur::Sequitur;
use refrain_bytes::varint;

/// Several grammars over the same terminals, with their common parts stored once.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Shared {
    /// The rules of the grammars, then the fragments.
    rules: Vec<Vec<Symbol>>,
    /// The number of rules that are not fragments.
    whole: usize,
    /// The start rule of each grammar.
    starts: Vec<u32>,
}

/// Stores the common parts of grammars over the same terminals once.
pub fn share(grammars: &[Grammar]) -> Shared {
    let (bodies, starts) = unify(grammars);
    let shared = Shared { whole: bodies.len(), rules: bodies, starts };
    let with_fragments = shared.with_fragments();
    let mut walker = Walker::new(&with_fragments.rules);
    let symbols = with_fragments.symbols();
    let mut restorable = |index| with_fragments.reached(index, symbols, &mut walker).is_ok();
    if (0..grammars.len()).all(&mut restorable) { with_fragments } else { shared }
}

/// The different rules of some grammars, and the start rule of each grammar.
#[expect(
    clippy::indexing_slicing,
    reason = "rules are numbered below their count, and these lists have an entry for each"
)]
fn unify(grammars: &[Grammar]) -> (Vec<Vec<Symbol>>, Vec<u32>) {
    let mut bodies: Vec<Vec<Symbol>> = Vec::new();
    let mut by_body: HashMap<Vec<Symbol>, u32> = HashMap::new();
    let mut starts = Vec::new();
    for grammar in grammars {
        let mut numbers = vec![0; grammar.rules().len()];
        for &rule in &Order::of(grammar.rules()).children_first {
            let body: Vec<Symbol> = grammar.rules()[rule as usize]
                .iter()
                .map(|symbol| match symbol.what {
                    What::Terminal(_) => *symbol,
                    What::Rule(inner) => Symbol::rule(numbers[inner as usize], symbol.count),
                })
                .collect();
            numbers[rule as usize] = match by_body.get(&body) {
                Some(&number) => number,
                None => {
                    let number = bodies.len() as u32;
                    bodies.push(body.clone());
                    by_body.insert(body, number);
                    number
                }
            };
        }
        starts.push(numbers[0]);
    }
    (bodies, starts)
}

impl Shared {
    /// The number of grammars.
    pub fn len(&self) -> usize {
        self.starts.len()
    }

    /// Whether there are no grammars.
    pub fn is_empty(&self) -> bool {
        self.starts.is_empty()
    }

    /// The number of symbols of all rules.
    pub fn symbols(&self) -> usize {
        self.rules.iter().map(Vec::len).sum()
    }

    /// The grammars that were shared, in their order.
    pub fn grammars(&self) -> Result<Vec<Grammar>, GrammarError> {
        self.iter().collect()
    }

    /// The grammars that were shared, one after the other. Together they may be much larger than this
    /// value.
    pub fn iter(&self) -> impl Iterator<Item = Result<Grammar, GrammarError>> + '_ {
        let mut walker = Walker::new(&self.rules);
        let symbols = self.symbols();
        (0..self.len()).map(move |index| self.restore(index, symbols, &mut walker))
    }

    /// One of the grammars. It is an error if there is no such grammar, or if this was decoded from
    /// bytes that [`Shared::encode`] did not write.
    pub fn grammar(&self, index: usize) -> Result<Grammar, GrammarError> {
        self.restore(index, self.symbols(), &mut Walker::new(&self.rules))
    }

    fn restore(
        &self,
        index: usize,
        symbols: usize,
        walker: &mut Walker<'_>,
    ) -> Result<Grammar, GrammarError> {
        let reached = self.reached(index, symbols, walker)?;
        let numbers: HashMap<u32, u32> = reached.iter().copied().zip(0..).collect();
        let bodies = reached.iter().map(|&rule| self.body(rule, &numbers)).collect();
        Grammar::new(bodies)
    }

    /// Appends the grammars as bytes: the number of rules that are not fragments, the rules (see
    /// [`Grammar::encode`]), the number of grammars, and their start rules, each as the difference to
    /// the one before plus one.
    pub fn encode(&self, out: &mut Vec<u8>) {
        varint::put(out, self.whole as u64);
        codec::encode(&self.rules, out);
        varint::put(out, self.starts.len() as u64);
        let mut before = -1;
        for &start in &self.starts {
            varint::put(out, varint::zigzag(i64::from(start) - (before + 1)));
            before = i64::from(start);
        }
    }

    /// The grammars from all of `bytes`, over the terminals below `terminals`. The bytes may be
    /// arbitrary, as for [`Grammar::decode`].
    pub fn decode(bytes: &[u8], terminals: usize) -> Result<Shared, GrammarError> {
        let mut reader = Reader::new(bytes);
        let whole = reader.number()?;
        let rules = codec::decode(&mut reader, terminals)?;
        let mut starts = Vec::new();
        let mut before = -1_i64;
        for grammar in 0..reader.amount()? {
            let difference = varint::unzigzag(reader.number()?);
            let start = difference.saturating_add(before + 1);
            let known = u32::try_from(start).ok().filter(|&start| u64::from(start) < whole);
            let unknown =
                GrammarError::UnknownRule { rule: grammar, names: start, rules: rules.len() };
            starts.push(known.ok_or(unknown)?);
            before = start;
        }
        reader.finish()?;
        let whole = usize::try_from(whole).unwrap_or(usize::MAX);
        if whole > rules.len() {
            return Err(GrammarError::Truncated);
        }
        validate_symbols(&rules)?;
        // Fragments have at least two symbols, so expanding them takes time in proportion to the
        // result.
        if let Some(short) = rules.iter().skip(whole).position(|body| body.len() < 2) {
            return Err(GrammarError::TooFewSymbols { rule: whole + short });
        }
        match Walker::new(&rules).walk(0..rules.len() as u32).cycle {
            Some(rule) => Err(GrammarError::Cycle { rule: rule as usize }),
            None => Ok(Shared { rules, whole, starts }),
        }
    }

    /// The same grammars with fragments.
    #[expect(clippy::indexing_slicing, reason = "every symbol was numbered above")]
    fn with_fragments(&self) -> Shared {
        let mut atoms: Vec<Symbol> = Vec::new();
        let mut by_symbol: HashMap<Symbol, u32> = HashMap::new();
        for &symbol in self.rules.iter().flatten() {
            by_symbol.entry(symbol).or_insert_with(|| {
                atoms.push(symbol);
                (atoms.len() - 1) as u32
            });
        }
        if u32::try_from(atoms.len() + 2 * self.symbols() + self.rules.len()).is_err() {
            return self.clone();
        }
        let mut separators = atoms.len() as u32..;
        let mut sequitur = Sequitur::new();
        for body in &self.rules {
            for symbol in body {
                sequitur.push(by_symbol[symbol]);
            }
            separators.next().into_iter().for_each(|separator| sequitur.push(separator));
        }
        let strung = sequitur.grammar();
        let mut shared =
            Shared { rules: Vec::new(), whole: self.whole, starts: self.starts.clone() };
        let mut body = Vec::new();
        for (rule, strung_body) in strung.rules().iter().enumerate() {
            for symbol in strung_body {
                match symbol.what {
                    What::Rule(fragment) => {
                        let number = self.whole as u32 + fragment - 1;
                        body.push(Symbol::rule(number, symbol.count));
                    }
                    What::Terminal(atom) => match atoms.get(atom as usize) {
                        Some(&atom) => body.extend((0..symbol.count).map(|_| atom)),
                        None => shared.rules.push(std::mem::take(&mut body)),
                    },
                }
            }
            if rule > 0 {
                shared.rules.push(std::mem::take(&mut body));
            }
        }
        shared
    }

    fn is_fragment(&self, rule: u32) -> bool {
        rule as usize >= self.whole
    }

    /// The rules of a grammar, the start rule first. Checks that with fragments expanded they have at
    /// most as many symbols as all shared rules.
    #[expect(
        clippy::indexing_slicing,
        reason = "rules are numbered below their count, and these lists have an entry for each"
    )]
    fn reached(
        &self,
        index: usize,
        symbols: usize,
        walker: &mut Walker<'_>,
    ) -> Result<Vec<u32>, GrammarError> {
        let grammars = self.len();
        let &start =
            self.starts.get(index).ok_or(GrammarError::NoSuchGrammar { index, grammars })?;
        let order = walker.walk([start]);
        let mut lengths: HashMap<u32, u64> = HashMap::new();
        let mut sum = 0_u64;
        for &rule in &order.children_first {
            let length = self.rules[rule as usize].iter().fold(0_u64, |length, symbol| {
                length.saturating_add(match symbol.what {
                    What::Rule(inner) if self.is_fragment(inner) => {
                        lengths[&inner].saturating_mul(symbol.count)
                    }
                    _ => 1,
                })
            });
            lengths.insert(rule, length);
            if !self.is_fragment(rule) {
                sum = sum.saturating_add(length);
            }
        }
        if sum > symbols as u64 {
            return Err(GrammarError::FragmentsTooLong { index });
        }
        let whole = |rule: &u32| !self.is_fragment(*rule);
        Ok(order.first_met.into_iter().filter(whole).collect())
    }

    /// The body of a rule with fragments expanded and rules renumbered.
    #[expect(
        clippy::indexing_slicing,
        reason = "rules are numbered below their count, and these lists have an entry for each"
    )]
    fn body(&self, rule: u32, numbers: &HashMap<u32, u32>) -> Vec<Symbol> {
        let mut body = Vec::new();
        // The entered fragments: the position in each, and its remaining repetitions.
        let mut path = vec![(rule, 0, 0)];
        while let Some((rule, position, left)) = path.last_mut() {
            match self.rules[*rule as usize].get(*position) {
                None if *left == 0 => {
                    path.pop();
                }
                None => {
                    *left -= 1;
                    *position = 0;
                }
                Some(symbol) => {
                    *position += 1;
                    match symbol.what {
                        What::Rule(inner) if self.is_fragment(inner) => {
                            path.push((inner, 0, symbol.count - 1));
                        }
                        What::Rule(inner) => {
                            body.push(Symbol::rule(numbers[&inner], symbol.count));
                        }
                        What::Terminal(_) => body.push(*symbol),
                    }
                }
            }
        }
        body
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn grammar(sequence: impl IntoIterator<Item = u32>) -> Grammar {
        let mut sequitur = Sequitur::new();
        sequence.into_iter().for_each(|terminal| sequitur.push(terminal));
        sequitur.grammar()
    }

    #[test]
    fn equal_grammars_are_stored_once() {
        let one = grammar([1, 2, 3, 1, 2, 3, 4]);
        let shared = share(&vec![one.clone(); 100]);
        assert_eq!(shared.symbols(), one.symbols());
        assert_eq!(shared.grammars(), Ok(vec![one; 100]));
    }

    #[test]
    fn equal_rules_of_different_grammars_are_stored_once() {
        let one = grammar([1, 2, 3].repeat(10));
        let other = grammar([1, 2, 3].repeat(20));
        let shared = share(&[one.clone(), other.clone()]);
        // Two starts of one symbol, and the common rule.
        assert_eq!(shared.symbols(), 5);
        assert_eq!(shared.grammars(), Ok(vec![one, other]));
    }

    #[test]
    fn a_long_body_with_one_difference_is_stored_once_and_the_difference() {
        let grammars: Vec<_> =
            (1000..1010).map(|own| grammar((0..100).chain([own]).chain(100..200))).collect();
        let shared = share(&grammars);
        // Two fragments of a hundred, and ten starts of three.
        assert_eq!(shared.symbols(), 230);
        assert_eq!(shared.grammars(), Ok(grammars));
    }

    #[test]
    fn the_empty_grammar_and_none_at_all_can_be_shared() {
        let grammars = vec![Grammar::default(), grammar([1, 2]), Grammar::default()];
        assert_eq!(share(&grammars).grammars(), Ok(grammars));
        assert_eq!(share(&[]).grammars(), Ok(vec![]));
        assert!(share(&[]).is_empty());
    }

    #[test]
    fn a_grammar_that_is_not_there_is_an_error() {
        let no_such_grammar = GrammarError::NoSuchGrammar { index: 0, grammars: 0 };
        assert_eq!(share(&[]).grammar(0), Err(no_such_grammar));
    }

    #[test]
    fn fragments_cannot_claim_more_than_there_is() {
        // Ten fragments, each a hundred million of the next.
        let mut rules = vec![vec![Symbol::rule(1, 1)]];
        for next in 2..=10 {
            rules.push(vec![Symbol::rule(next, 100_000_000), Symbol::terminal(next, 1)]);
        }
        rules.push(vec![Symbol::terminal(0, 1), Symbol::terminal(1, 1)]);
        let shared = Shared { rules, whole: 1, starts: vec![0] };
        let mut bytes = Vec::new();
        shared.encode(&mut bytes);
        let decoded = Shared::decode(&bytes, 20).unwrap();
        assert_eq!(decoded.grammar(0), Err(GrammarError::FragmentsTooLong { index: 0 }));
    }
}
