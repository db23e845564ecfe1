//! A position in the sequence of a grammar, which can advance by one or by many terminals.

use crate::grammar::{Grammar, What};
use crate::iter::Iter;

/// One level of a cursor's path: an iteration of a rule, and the symbol that comes next in its body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Level {
    /// The rule.
    pub rule: u32,
    /// The iteration, from 0.
    pub iteration: u64,
    /// The repetition count of the enclosing symbol.
    pub count: u64,
    /// The index in the rule's body of the symbol that yields the next terminal.
    pub symbol: usize,
}

/// A position in the sequence of a grammar.
///
/// It takes memory in proportion to the nesting of the rules. [`Cursor::advance`] passes over any number of
/// terminals without visiting them.
///
/// ```
/// use refrain_grammar::{Grammar, Symbol};
///
/// // (7 8)^1000
/// let body = vec![Symbol::terminal(7, 1), Symbol::terminal(8, 1)];
/// let grammar = Grammar::new(vec![vec![Symbol::rule(1, 1000)], body])?;
/// let mut cursor = grammar.cursor();
/// cursor.advance(1501);
/// let innermost = *cursor.path().last().unwrap();
/// assert_eq!((innermost.rule, innermost.iteration, innermost.symbol), (1, 750, 1));
/// assert_eq!((cursor.position(), cursor.next()), (1501, Some(8)));
/// # Ok::<(), refrain_grammar::GrammarError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Cursor<'a> {
    grammar: &'a Grammar,
    iter: Iter<'a>,
    position: u64,
}

impl<'a> Cursor<'a> {
    pub(crate) fn new(grammar: &'a Grammar) -> Cursor<'a> {
        Cursor { grammar, iter: grammar.iter(), position: 0 }
    }

    /// The number of terminals before the next one; at the end, the length of the sequence.
    pub fn position(&self) -> u64 {
        self.position
    }

    /// The number of terminals that are left.
    pub fn left(&self) -> u64 {
        self.grammar.len() - self.position
    }

    /// Skips `n` terminals, or to the end if fewer are left.
    pub fn advance(&mut self, n: u64) {
        let n = n.min(self.left());
        self.position += n;
        if !self.iter.skip_repeated(n) {
            self.iter = self.grammar.iter_from(self.position);
        }
    }

    /// The rules around the next terminal, from the start rule inward; empty at the end.
    pub fn path(&self) -> Vec<Level> {
        let Some(at) = self.grammar.iter_from(self.position).stack() else { return Vec::new() };
        let mut path: Vec<Level> = Vec::with_capacity(at.len());
        for (rule, next, left) in at {
            let symbol = next.saturating_sub(1);
            let body = |rule: u32| self.grammar.rules().get(rule as usize);
            let count =
                path.last().and_then(|outer| Some(body(outer.rule)?.get(outer.symbol)?.count));
            let count = count.unwrap_or(1);
            path.push(Level { rule, iteration: count.saturating_sub(left + 1), count, symbol });
        }
        path
    }
}

impl Iterator for Cursor<'_> {
    type Item = u32;

    #[inline]
    fn next(&mut self) -> Option<u32> {
        let terminal = self.iter.next()?;
        self.position += 1;
        Some(terminal)
    }

    fn nth(&mut self, n: usize) -> Option<u32> {
        self.advance(n as u64);
        self.next()
    }
}

impl std::iter::FusedIterator for Cursor<'_> {}

/// Visits the rules of a grammar as nested loops; see [`Grammar::walk`].
pub trait Visitor {
    /// A rule is repeated `count` times. Returns whether to walk through its body, once. A visitor that
    /// refuses rules it has seen visits each rule once; one that never refuses may take time exponential in
    /// the size of the grammar.
    fn enter_loop(&mut self, rule: u32, count: u64) -> bool;

    /// A terminal is repeated `count` times.
    fn terminal(&mut self, terminal: u32, count: u64);

    /// The body of an entered rule ends.
    fn leave_loop(&mut self, rule: u32);
}

/// Walks from the start rule's first symbol to its last.
pub(crate) fn walk(grammar: &Grammar, visitor: &mut impl Visitor) {
    let body = |rule: u32| grammar.rules().get(rule as usize).map_or(&[][..], Vec::as_slice);
    let mut stack = vec![(0, body(0).iter())];
    while let Some((rule, symbols)) = stack.last_mut() {
        match symbols.next() {
            Some(symbol) => match symbol.what {
                What::Terminal(terminal) => visitor.terminal(terminal, symbol.count),
                What::Rule(inner) => {
                    if visitor.enter_loop(inner, symbol.count) {
                        stack.push((inner, body(inner).iter()));
                    }
                }
            },
            None => {
                let rule = *rule;
                stack.pop();
                if !stack.is_empty() {
                    visitor.leave_loop(rule);
                }
            }
        }
    }
}
