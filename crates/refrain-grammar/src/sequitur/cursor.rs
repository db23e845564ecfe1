//! Prediction: a cursor over the terminals that the grammar expects next.
//!
//! In a loop, the next terminal is known. While the sequence matches the prediction, nothing is
//! built: a terminal is compared with the one at the cursor, and the cursor advances. The walked
//! terminals are *deferred*: the caller adds them to the grammar when the walk ends, as whole
//! symbols if whole symbols were walked. Each of these yields at least one terminal, so adding them
//! costs no more than the comparisons did.
//!
//! There are two walks.
//!
//! - [`Walk::Repeat`]: the last symbol of the start rule, again and again. This is the steady state
//!   of a loop, and has no end. Inner loops of any depth are walked by their counts.
//! - [`Walk::Continue`]: the symbols that followed an earlier occurrence of the last symbol of the
//!   start rule, to the end of that body. This resumes prediction after an unexpected terminal.
//!
//! The rules do not change during a walk.

use super::nodes::{Id, Kind, Nodes};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Walk {
    /// Repeats the last symbol of the start rule.
    Repeat,
    /// Continues with what follows this symbol.
    Continue(Id),
}

/// A symbol that stands for a rule whose body is being walked.
#[derive(Clone, Copy, Debug)]
struct Level {
    id: Id,
    /// Repetitions walked.
    done: u64,
    /// Repetitions expected.
    of: u64,
}

/// A symbol that was walked, to be added to the start rule.
#[derive(Clone, Copy, Debug)]
pub(super) struct Walked {
    pub kind: Kind,
    pub value: u32,
    pub count: u64,
}

/// A position in the predicted sequence.
#[derive(Clone, Debug)]
pub(super) struct Cursor {
    expected: u32,
    /// The remaining repetitions of `expected`; 0 if there is no walk.
    left: u64,
    /// The symbol that yields `expected`.
    at: Id,
    of: u64,
    walk: Walk,
    levels: Vec<Level>,
}

/// The result of giving a terminal to the cursor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// It was not expected, or there is no walk.
    Surprise,
    /// It is deferred.
    Deferred,
    /// It is deferred, and the walk has reached the end of the body in which it began.
    End,
}

impl Cursor {
    pub fn new() -> Cursor {
        Cursor { expected: 0, left: 0, at: 0, of: 0, walk: Walk::Repeat, levels: Vec::new() }
    }

    /// Bytes held.
    pub fn memory(&self) -> usize {
        self.levels.capacity() * size_of::<Level>()
    }

    /// The walk, if there is one.
    pub fn walk(&self) -> Option<Walk> {
        (self.left > 0).then_some(self.walk)
    }

    /// The terminal expected next.
    pub fn expected(&self) -> Option<u32> {
        (self.left > 0).then_some(self.expected)
    }

    /// Compares a terminal with the one expected, and advances.
    #[inline(always)]
    pub fn step(&mut self, nodes: &Nodes, terminal: u32) -> Step {
        if terminal != self.expected || self.left == 0 {
            return Step::Surprise;
        }
        self.left -= 1;
        if self.left != 0 { Step::Deferred } else { self.advance(nodes) }
    }

    /// Begins to walk a symbol: the last one of the start rule, or an earlier one. Gives up if its first
    /// terminal lies deeper than `fuel` rules; subtracts the depth from the fuel.
    pub fn begin(&mut self, nodes: &Nodes, walk: Walk, symbol: Id, fuel: &mut u64) -> bool {
        self.walk = walk;
        self.levels.clear();
        let mut id = symbol;
        loop {
            let node = nodes.get(id);
            let of = if walk == Walk::Repeat && id == symbol { u64::MAX } else { node.count };
            if node.kind != Kind::Rule {
                (self.expected, self.left, self.at, self.of) = (node.value, of, id, of);
                return true;
            }
            if *fuel == 0 {
                return false;
            }
            *fuel -= 1;
            self.levels.push(Level { id, done: 0, of });
            id = nodes.next(node.value);
        }
    }

    /// Ends the walk. Returns how often a [`Walk::Repeat`] completed its symbol; the rest of the walk is
    /// appended to `out`.
    pub fn end(&mut self, nodes: &Nodes, out: &mut Vec<Walked>) -> u64 {
        if self.left == 0 {
            return 0;
        }
        // The symbols on the path: all but the last are entered rules.
        self.levels.push(Level { id: self.at, done: self.of - self.left, of: self.of });
        self.left = 0;
        let (mut repeated, mut start) = (0, 0);
        for (depth, level) in self.levels.iter().enumerate() {
            match (depth, self.walk) {
                (0, Walk::Repeat) => repeated = level.done,
                (0, Walk::Continue(after)) => {
                    start = nodes.next(after);
                    walked(nodes, start, level, out);
                }
                _ => walked(nodes, start, level, out),
            }
            let node = nodes.get(level.id);
            if node.kind == Kind::Rule {
                start = nodes.next(node.value);
            }
        }
        self.levels.clear();
        repeated
    }

    /// After [`Step::End`]: the symbol after which the walk began, and the guard at which it ended. The
    /// walked symbols are appended to `out`.
    pub fn arrived(&self, nodes: &Nodes, out: &mut Vec<Walked>) -> Option<(Id, Id)> {
        let Walk::Continue(after) = self.walk else { return None };
        let end = Level { id: self.at, done: 0, of: 0 };
        walked(nodes, nodes.next(after), &end, out);
        Some((after, self.at))
    }

    /// The number of deferred terminals; `yields` gives the number of terminals of each rule.
    pub fn deferred(&self, nodes: &Nodes, yields: impl Fn(Id) -> u64) -> u64 {
        let mut out = Vec::new();
        let repeated = self.clone().end(nodes, &mut out);
        let tail = nodes.get(nodes.tail());
        let unit = |kind, value| if kind == Kind::Rule { yields(value) } else { 1 };
        out.iter().fold(repeated.saturating_mul(unit(tail.kind, tail.value)), |sum, symbol| {
            sum.saturating_add(symbol.count.saturating_mul(unit(symbol.kind, symbol.value)))
        })
    }

    /// Advances to the next terminal after the symbol at the cursor.
    #[inline(always)]
    fn advance(&mut self, nodes: &Nodes) -> Step {
        let id = nodes.next(self.at);
        let node = nodes.get(id);
        if node.kind == Kind::Terminal {
            (self.expected, self.left, self.at, self.of) = (node.value, node.count, id, node.count);
            return Step::Deferred;
        }
        self.cross(nodes, id)
    }

    /// Advances to the next terminal across rule boundaries.
    fn cross(&mut self, nodes: &Nodes, mut id: Id) -> Step {
        loop {
            let node = nodes.get(id);
            match node.kind {
                Kind::Rule => {
                    self.levels.push(Level { id, done: 0, of: node.count });
                    id = nodes.next(node.value);
                }
                Kind::Guard => {
                    let Some(level) = self.levels.last_mut() else {
                        self.at = id;
                        return Step::End;
                    };
                    level.done += 1;
                    if level.done < level.of {
                        id = node.next;
                    } else {
                        id = nodes.next(level.id);
                        self.levels.pop();
                    }
                }
                _ => {
                    (self.expected, self.left, self.at, self.of) =
                        (node.value, node.count, id, node.count);
                    return Step::Deferred;
                }
            }
        }
    }
}

/// The symbols of a body from `start` up to that of a level, which is repeated as often as it was
/// walked.
fn walked(nodes: &Nodes, start: Id, level: &Level, out: &mut Vec<Walked>) {
    let mut id = start;
    while id != level.id {
        let node = nodes.get(id);
        out.push(Walked { kind: node.kind, value: node.value, count: node.count });
        id = node.next;
    }
    if level.done > 0 {
        let node = nodes.get(id);
        out.push(Walked { kind: node.kind, value: node.value, count: level.done });
    }
}
