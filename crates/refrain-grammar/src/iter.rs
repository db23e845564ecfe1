//! Iterates over the sequence of a grammar.

use crate::grammar::{Grammar, What};

/// Iterates over the sequence of a grammar; see [`Grammar::iter`].
#[derive(Clone, Debug)]
pub struct Iter<'a> {
    grammar: &'a Grammar,
    /// The current terminal, and how often it is still to be returned.
    terminal: u32,
    left: u64,
    path: Vec<Level>,
}

/// A level of an iterator's position: a loop, and where in its body the iterator is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Place {
    /// The rule that is repeated; none if a single terminal is.
    pub rule: Option<u32>,
    /// The index in the rule's body of the symbol after the current one; the terminal, if it is one.
    pub symbol: usize,
    /// Iterations that follow the current one.
    pub left: u64,
}

/// A position in the body of a rule.
#[derive(Clone, Copy, Debug)]
struct Level {
    rule: u32,
    /// The index of the next symbol.
    position: usize,
    /// How often the whole rule is still to be repeated.
    left: u64,
}

impl<'a> Iter<'a> {
    /// The sequence from position `n` on.
    #[expect(clippy::indexing_slicing, reason = "a grammar uses no rule that it does not have")]
    pub(crate) fn new(grammar: &'a Grammar, mut n: u64) -> Iter<'a> {
        let mut iter = Iter { grammar, terminal: 0, left: 0, path: Vec::new() };
        if n >= grammar.len() {
            return iter;
        }
        iter.path.push(Level { rule: 0, position: 0, left: 0 });
        // At each level, skip the symbols that end before position n.
        while let Some(level) = iter.path.last_mut() {
            let Some(symbol) = grammar.rules()[level.rule as usize].get(level.position) else {
                break;
            };
            let unit = match symbol.what {
                What::Terminal(_) => 1,
                What::Rule(rule) => grammar.length(rule).max(1),
            };
            level.position += 1;
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
                    iter.path.push(Level { rule, position: 0, left });
                }
            }
        }
        iter
    }

    /// Skips `n` repetitions of the current terminal, if there are more than that.
    pub(crate) fn skip_repeated(&mut self, n: u64) -> bool {
        let is_enough = n <= self.left;
        if is_enough {
            self.left -= n;
        }
        is_enough
    }

    /// The rules around the current terminal, outermost first: rule, index of the symbol after the current one,
    /// and remaining iterations. None at the end of the sequence.
    pub(crate) fn stack(&self) -> Option<Vec<(u32, usize, u64)>> {
        let level = |at: &Level| (at.rule, at.position, at.left);
        (self.left > 0).then(|| self.path.iter().map(level).collect())
    }

    /// Where it is in the loops around the next terminal; see [`Iter::skip_iterations`].
    pub fn levels(&self) -> Vec<Place> {
        let place = |level: &Level| Place {
            rule: Some(level.rule),
            symbol: level.position,
            left: level.left,
        };
        let terminal = Place { rule: None, symbol: self.terminal as usize, left: self.left };
        self.path.iter().map(place).chain([terminal]).collect()
    }

    /// Leaves out `n` iterations of a level, if that many are still to come. The rest of the current iteration is kept.
    pub fn skip_iterations(&mut self, level: usize, n: u64) -> bool {
        let depth = self.path.len();
        let left = match self.path.get_mut(level) {
            Some(level) => &mut level.left,
            None if level == depth => &mut self.left,
            None => return false,
        };
        let is_enough = n <= *left;
        if is_enough {
            *left -= n;
        }
        is_enough
    }

    /// Advances to the next symbol that is a terminal.
    #[expect(clippy::indexing_slicing, reason = "a grammar uses no rule that it does not have")]
    fn advance(&mut self) -> Option<()> {
        loop {
            let level = self.path.last_mut()?;
            let body = &self.grammar.rules()[level.rule as usize];
            match body.get(level.position) {
                Some(symbol) => {
                    level.position += 1;
                    match symbol.what {
                        What::Terminal(terminal) => {
                            (self.terminal, self.left) = (terminal, symbol.count);
                            return Some(());
                        }
                        What::Rule(rule) => {
                            let left = symbol.count - 1;
                            self.path.push(Level { rule, position: 0, left });
                        }
                    }
                }
                None if level.left > 0 => {
                    level.left -= 1;
                    level.position = 0;
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

#[cfg(test)]
mod tests {
    use crate::{Grammar, Place, Symbol};

    #[test]
    fn skipped_iterations_are_those_after_the_current_one() {
        // 5 (7 8 8)^10 6
        let body = vec![Symbol::terminal(7, 1), Symbol::terminal(8, 2)];
        let main = vec![Symbol::terminal(5, 1), Symbol::rule(1, 10), Symbol::terminal(6, 1)];
        let grammar = Grammar::new(vec![main, body]).expect("a grammar");
        let mut iter = grammar.iter();
        assert_eq!(iter.by_ref().take(6).collect::<Vec<_>>(), [5, 7, 8, 8, 7, 8]);
        let levels = iter.levels();
        assert_eq!(levels[1], Place { rule: Some(1), symbol: 2, left: 8 });
        assert_eq!(levels[2], Place { rule: None, symbol: 8, left: 1 });
        assert!(!iter.skip_iterations(1, 9) && iter.skip_iterations(1, 7));
        assert_eq!(iter.collect::<Vec<_>>(), [8, 7, 8, 8, 6]);
    }
}
