//! Sequitur with repetition counts: a grammar that grows with its sequence.
//!
//! The algorithm is Nevill-Manning and Witten's, with the repetition counts of omnisc'IO and
//! Pilgrim (§2.2): rules may contain `R^1000`, so a loop takes constant space for any number of
//! iterations. Refrain adds two things. Symbols are matched only when their repetition count is
//! known (see [`rules`]), so loops with varying trip counts keep their structure. And predicted
//! terminals are compared instead of inserted (see [`cursor`]), so the steady state of a loop costs
//! one comparison per terminal.

mod check;
mod cursor;
mod digrams;
mod nodes;
mod rules;
mod saved;
mod snapshot;

use cursor::{Cursor, Step, Walk, Walked};
use nodes::{Id, Kind, START};
use rules::Rules;
pub use saved::Saving;

/// How many earlier uses of the last symbol are tried for a prediction.
const EARLIER_USES: usize = 4;

/// The fuel that an unexpected terminal adds for finding the next prediction.
const FUEL: u64 = 4;

/// Grows a grammar, terminal by terminal.
///
/// The grammar depends on the sequence alone: two processes that push the same terminals get the
/// same grammar, whenever either takes a [snapshot](Sequitur::grammar).
///
/// A push takes constant time, amortised: a few nanoseconds while the sequence does what the
/// grammar predicts.
#[derive(Clone, Debug)]
pub struct Sequitur {
    cursor: Cursor,
    len: u64,
    /// The number of terminals in the rules; the others are deferred.
    settled: u64,
    rules: Rules,
    /// How many rules may be entered to begin a walk. A walk that begins deep in the rules and ends
    /// soon costs more than it saves; this bounds the total cost.
    fuel: u64,
    walked: Vec<Walked>,
}

impl Default for Sequitur {
    fn default() -> Sequitur {
        Sequitur::new()
    }
}

impl Sequitur {
    /// The grammar of the empty sequence.
    pub fn new() -> Sequitur {
        Sequitur {
            cursor: Cursor::new(),
            len: 0,
            settled: 0,
            rules: Rules::new(),
            fuel: 1024,
            walked: Vec::new(),
        }
    }

    /// Adds a terminal to the end of the sequence.
    ///
    /// A grammar of 2^31 symbols, which take 64 GiB, ignores further terminals; see
    /// [`Sequitur::memory`] for a smaller limit.
    #[inline]
    pub fn push(&mut self, terminal: u32) {
        self.len = self.len.saturating_add(1);
        match self.cursor.step(&self.rules.nodes, terminal) {
            Step::Deferred => {}
            Step::Surprise => self.push_unexpected(terminal),
            Step::End => self.arrive(),
        }
    }

    /// The number of terminals that were pushed.
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Whether nothing was pushed.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The bytes held, approximately.
    pub fn memory(&self) -> usize {
        size_of::<Sequitur>()
            + self.rules.memory()
            + self.cursor.memory()
            + self.walked.capacity() * size_of::<Walked>()
    }

    /// The terminal that the grammar predicts next, if any.
    pub fn predicted(&self) -> Option<u32> {
        if let Some(expected) = self.cursor.expected() {
            return Some(expected);
        }
        let nodes = &self.rules.nodes;
        let tail = nodes.tail();
        if nodes.get(tail).count > 1 && nodes.is_symbol(tail) {
            return Some(nodes.first_terminal(tail));
        }
        let earlier = self.earlier(tail, |_| true)?;
        Some(nodes.first_terminal(nodes.next(earlier)))
    }

    /// Adds a terminal that the cursor did not expect.
    #[inline(never)]
    fn push_unexpected(&mut self, terminal: u32) {
        self.fuel = self.fuel.saturating_add(FUEL);
        self.settle_deferred(1);
        while !self.repeat(terminal) {
            if !self.rules.settle_tail() {
                if !self.resume(terminal) {
                    self.append(terminal);
                }
                return;
            }
        }
    }

    /// Ends the walk and adds the walked terminals to the start rule, except for the last few.
    fn settle_deferred(&mut self, few: u64) {
        let walk = self.cursor.walk();
        let repeated = self.cursor.end(&self.rules.nodes, &mut self.walked);
        if walk.is_none() {
            return;
        }
        if repeated > 0 {
            let tail = self.rules.nodes.tail();
            self.rules.forget(self.rules.nodes.prev(tail));
            let node = self.rules.nodes.get_mut(tail);
            node.count = node.count.saturating_add(repeated);
        }
        self.append_walked();
        self.settled_all_but(few);
    }

    /// Adds the walked symbols to the start rule. All are linked before the first is settled, so that
    /// the rules they stand for stay in use.
    fn append_walked(&mut self) {
        let nodes = &mut self.rules.nodes;
        let before = nodes.tail();
        if nodes.full() {
            self.walked.clear();
        }
        for symbol in self.walked.drain(..) {
            nodes.append(START, symbol.kind, symbol.value, symbol.count);
        }
        // Noted right to left, so that they are settled left to right. The previous tail was not
        // settled if it was being repeated.
        let stop = nodes.prev(before);
        let mut id = nodes.tail();
        if id == before {
            return;
        }
        loop {
            self.rules.suspect(id);
            if id == stop {
                break;
            }
            id = self.rules.nodes.prev(id);
        }
        self.rules.settle();
    }

    /// Notes that all terminals but the last few are in the rules.
    fn settled_all_but(&mut self, few: u64) {
        let settled = self.len.saturating_sub(few);
        self.fuel = self.fuel.saturating_add(settled.saturating_sub(self.settled));
        self.settled = settled;
    }

    /// Begins to walk the last symbol again, if it begins with the terminal.
    fn repeat(&mut self, terminal: u32) -> bool {
        let nodes = &self.rules.nodes;
        let tail = nodes.tail();
        if tail == START || nodes.first_terminal(tail) != terminal {
            return false;
        }
        self.begin(Walk::Repeat, tail, terminal)
    }

    /// Begins to walk what followed an earlier occurrence of the last symbol, if it begins with the
    /// terminal.
    fn resume(&mut self, terminal: u32) -> bool {
        let nodes = &self.rules.nodes;
        let follows = |id| nodes.first_terminal(nodes.next(id)) == terminal;
        let Some(earlier) = self.earlier(nodes.tail(), follows) else { return false };
        let next = nodes.next(earlier);
        self.begin(Walk::Continue(earlier), next, terminal)
    }

    fn begin(&mut self, walk: Walk, symbol: Id, terminal: u32) -> bool {
        if !self.cursor.begin(&self.rules.nodes, walk, symbol, &mut self.fuel) {
            return false;
        }
        if self.cursor.step(&self.rules.nodes, terminal) == Step::End {
            self.arrive();
        }
        true
    }

    /// An earlier occurrence of a symbol's rule whose successor `will_do` accepts: a recent one, and
    /// preferably one with the same repetition count.
    fn earlier(&self, symbol: Id, will_do: impl Fn(Id) -> bool) -> Option<Id> {
        let nodes = &self.rules.nodes;
        let node = nodes.get(symbol);
        if node.kind != Kind::Rule {
            return None;
        }
        let mut found = None;
        let mut id = node.value;
        for _ in 0..=EARLIER_USES {
            id = nodes.get(id).use_next;
            if id == node.value {
                break;
            }
            if id == symbol || !nodes.is_symbol(nodes.next(id)) || !will_do(id) {
                continue;
            }
            if nodes.get(id).count == node.count {
                return Some(id);
            }
            found = found.or(Some(id));
        }
        found
    }

    /// Ends a walk that reached the end of the body in which it began.
    #[inline(never)]
    fn arrive(&mut self) {
        let Some((after, guard)) = self.cursor.arrived(&self.rules.nodes, &mut self.walked) else {
            return;
        };
        let nodes = &self.rules.nodes;
        let tail = nodes.tail();
        let whole = guard != START
            && nodes.next(guard) == after
            && nodes.same(after, tail)
            && nodes.get(after).count == nodes.get(tail).count;
        if whole {
            // The last symbol and the walk together are the whole body of a rule: use the rule.
            // Adding the walked symbols would have the same result.
            self.walked.clear();
            let prev = nodes.prev(tail);
            self.rules.forget(prev);
            self.rules.replace(tail, Kind::Rule, guard, 1);
            self.rules.suspect(prev);
            self.rules.settle();
        } else {
            self.append_walked();
        }
        self.settled_all_but(0);
    }

    fn append(&mut self, terminal: u32) {
        if self.rules.nodes.full() {
            self.len -= 1;
            return;
        }
        self.rules.nodes.append(START, Kind::Terminal, terminal, 1);
        self.settled_all_but(0);
    }
}

#[cfg(test)]
mod tests;
