//! The sequence a grammar yields, as a stream.

use crate::grammar::{Grammar, What};

/// The sequence a grammar yields; see [`Grammar::iter`].
#[derive(Clone, Debug)]
pub struct Iter<'a> {
    grammar: &'a Grammar,
    /// The terminal at hand, and how often it is still to be given.
    terminal: u32,
    left: u64,
    path: Vec<Place>,
}

/// A place in the body of a rule.
#[derive(Clone, Copy, Debug)]
struct Place {
    rule: u32,
    /// Of the symbol to come next.
    position: usize,
    /// How often the rule is still to be repeated from its start.
    left: u64,
}

impl<'a> Iter<'a> {
    /// The sequence from position `n` on.
    pub(crate) fn new(grammar: &'a Grammar, mut n: u64) -> Iter<'a> {
        let mut iter = Iter { grammar, terminal: 0, left: 0, path: Vec::new() };
        if n >= grammar.len() {
            return iter;
        }
        iter.path.push(Place { rule: 0, position: 0, left: 0 });
        // At each level, passes by the symbols that end before position n.
        while let Some(place) = iter.path.last_mut() {
            let Some(symbol) = grammar.rules()[place.rule as usize].get(place.position) else {
                break;
            };
            let unit = match symbol.what {
                What::Terminal(_) => 1,
                What::Rule(rule) => grammar.length(rule).max(1),
            };
            place.position += 1;
            let repeated = n / unit;
            if repeated >= symbol.count {
                n -= unit * symbol.count;
                continue;
            }
            n -= unit * repeated;
            match symbol.what {
                What::Terminal(terminal) => {
                    (iter.terminal, iter.left) = (terminal, symbol.count - repeated);
                    break;
                }
                What::Rule(rule) => {
                    let left = symbol.count - repeated - 1;
                    iter.path.push(Place { rule, position: 0, left });
                }
            }
        }
        iter
    }

    /// Passes over `n` repetitions of the terminal at hand, if there are more than that.
    pub(crate) fn skip_repeated(&mut self, n: u64) -> bool {
        let is_enough = n <= self.left;
        if is_enough {
            self.left -= n;
        }
        is_enough
    }

    /// The rules around the terminal at hand, outermost first: rule, index of the symbol after the one at hand,
    /// and iterations still to come. None at the end of the sequence.
    pub(crate) fn stack(&self) -> Option<Vec<(u32, usize, u64)>> {
        let level = |at: &Place| (at.rule, at.position, at.left);
        (self.left > 0).then(|| self.path.iter().map(level).collect())
    }

    /// Goes to the next symbol that is a terminal.
    fn advance(&mut self) -> Option<()> {
        loop {
            let place = self.path.last_mut()?;
            let body = &self.grammar.rules()[place.rule as usize];
            match body.get(place.position) {
                Some(symbol) => {
                    place.position += 1;
                    match symbol.what {
                        What::Terminal(terminal) => {
                            (self.terminal, self.left) = (terminal, symbol.count);
                            return Some(());
                        }
                        What::Rule(rule) => {
                            let left = symbol.count - 1;
                            self.path.push(Place { rule, position: 0, left });
                        }
                    }
                }
                None if place.left > 0 => {
                    place.left -= 1;
                    place.position = 0;
                }
                None => {
                    self.path.pop();
                }
            }
        }
    }
}

impl Iterator for Iter<'_> {
    type Item = u32;

    #[inline]
    fn next(&mut self) -> Option<u32> {
        if self.left == 0 {
            self.advance()?;
        }
        self.left -= 1;
        Some(self.terminal)
    }
}

impl std::iter::FusedIterator for Iter<'_> {}
