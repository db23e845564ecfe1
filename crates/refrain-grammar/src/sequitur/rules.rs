//! The rules of a growing grammar, and the steps that restore their invariants.
//!
//! Invariants whenever [`Rules::settle`] returns:
//!
//! - *merged*: no symbol is next to itself: `a a` is `a^2`;
//! - *digram uniqueness*: no pair of neighbours, with their repetition counts, occurs twice;
//! - *rule utility*: every rule but the start rule is used twice, or once with repetition, and has
//!   at least two symbols.
//!
//! The last pair of the start rule is exempt from digram uniqueness. Only the following terminals
//! tell how often the last symbol is repeated, and matching a pair too early breaks loops: if `x a`
//! occurred before, the `x a` of `x a a y` would become a rule, and the `x a a y` of the next
//! iteration would not be recognised. So the last pair is settled ([`Rules::settle_tail`]) when the
//! sequence has continued.
//!
//! Possible violations are noted in two lists, of symbols and of rules, and repaired until the lists
//! are empty. The order of repairs depends on the sequence alone. An entry may be stale, its node
//! freed or reused: checking a symbol twice is harmless.
//!
//! Repairing ends, and takes constant time per symbol appended, amortised. Let Φ be twice the
//! number of symbols less the number of rules. A merge, a substitution by an old rule, and an
//! inlining each lower Φ; a new rule takes four symbols and leaves four, and so lowers Φ by one;
//! an appended symbol raises Φ by two.

use super::digrams::{self, Digrams};
use super::nodes::{Id, Kind, Nodes, START};

#[derive(Clone, Debug)]
pub(super) struct Rules {
    pub nodes: Nodes,
    pub digrams: Digrams,
    /// Symbols that may violate an invariant with their right neighbour.
    unsettled: Vec<Id>,
    /// Rules that may be useless.
    idle: Vec<Id>,
}

impl Rules {
    pub fn new() -> Rules {
        Rules {
            nodes: Nodes::new(),
            digrams: Digrams::new(),
            unsettled: Vec::new(),
            idle: Vec::new(),
        }
    }

    /// Bytes held.
    pub fn memory(&self) -> usize {
        self.nodes.memory()
            + self.digrams.memory()
            + (self.unsettled.capacity() + self.idle.capacity()) * size_of::<Id>()
    }

    /// Notes that a symbol may violate an invariant with its right neighbour. The last one noted is
    /// repaired first.
    pub fn suspect(&mut self, id: Id) {
        self.unsettled.push(id);
    }

    /// Notes that a rule may be useless.
    pub fn suspect_rule(&mut self, guard: Id) {
        self.idle.push(guard);
    }

    /// Restores all invariants, except at the tail.
    pub fn settle(&mut self) {
        loop {
            if let Some(guard) = self.idle.pop() {
                self.settle_rule(guard);
            } else if let Some(id) = self.unsettled.pop() {
                self.settle_pair(id, false);
            } else {
                return;
            }
        }
    }

    /// Restores the invariants at the tail. Returns whether the tail became another symbol, whose left
    /// neighbour has not been checked yet.
    pub fn settle_tail(&mut self) -> bool {
        let left = self.nodes.prev(self.nodes.tail());
        let changed = self.settle_pair(left, true);
        self.settle();
        changed
    }

    /// Whether the invariants hold at the tail.
    pub fn tail_is_settled(&self) -> bool {
        let left = self.nodes.prev(self.nodes.tail());
        !self.nodes.is_symbol(left) || self.digrams.contains(self.hash(left), left)
    }

    /// Removes the digram at a symbol from the index: it is about to change.
    pub fn forget(&mut self, id: Id) {
        let left = self.nodes.get(id);
        let right = self.nodes.get(left.next);
        if left.kind != Kind::Guard && right.kind != Kind::Guard {
            self.digrams.remove(digrams::hash(left, right), id);
        }
    }

    /// Changes a symbol. Its digrams must have been forgotten.
    pub fn replace(&mut self, id: Id, kind: Kind, value: u32, count: u64) {
        self.drop_use(id);
        let node = self.nodes.get_mut(id);
        (node.kind, node.value, node.count) = (kind, value, count);
        if kind == Kind::Rule {
            self.nodes.join_uses(id, value);
        }
    }

    /// The hash of the digram at a symbol.
    pub fn hash(&self, id: Id) -> u32 {
        let left = self.nodes.get(id);
        digrams::hash(left, self.nodes.get(left.next))
    }

    fn drop_use(&mut self, id: Id) {
        if self.nodes.kind(id) == Kind::Rule {
            let guard = self.nodes.get(id).value;
            self.nodes.leave_uses(id);
            if self.nodes.get(guard).use_next == self.nodes.get(guard).use_prev {
                self.suspect_rule(guard);
            }
        }
    }

    /// Restores the invariants for a symbol and its right neighbour. Returns whether their digram was
    /// replaced.
    fn settle_pair(&mut self, id: Id, tail_too: bool) -> bool {
        let next = self.nodes.next(id);
        if !self.nodes.is_symbol(id) || !self.nodes.is_symbol(next) {
            return false;
        }
        if self.nodes.same(id, next) {
            self.merge(id, next);
            return false;
        }
        if self.nodes.next(next) == START && !tail_too {
            return false;
        }
        let hash = self.hash(id);
        let nodes = &self.nodes;
        let (left, right) = (nodes.get(id), nodes.get(next));
        let found = self.digrams.find_or_insert(hash, id, |other| {
            let other_left = nodes.get(other);
            let other_right = nodes.get(other_left.next);
            other_left.value == left.value
                && other_right.value == right.value
                && other_left.count == left.count
                && other_right.count == right.count
                && other_left.kind == left.kind
                && other_right.kind == right.kind
        });
        match found {
            Some(other) if other != id => {
                self.unite(id, other);
                true
            }
            _ => false,
        }
    }

    /// Merges `a^i a^j` into one symbol.
    fn merge(&mut self, id: Id, next: Id) {
        let prev = self.nodes.prev(id);
        self.forget(prev);
        self.forget(id);
        self.forget(next);
        let count = self.nodes.get(id).count.saturating_add(self.nodes.get(next).count);
        self.nodes.get_mut(id).count = count;
        self.remove(next);
        self.suspect(id);
        self.suspect(prev);
    }

    /// Makes two equal digrams uses of one rule; the second is the one in the index.
    fn unite(&mut self, id: Id, other: Id) {
        if let Some(guard) = self.nodes.whole_rule(other) {
            self.substitute(id, guard);
        } else if let Some(guard) = self.nodes.whole_rule(id) {
            self.suspect(id);
            self.substitute(other, guard);
        } else {
            let left = *self.nodes.get(id);
            let right = *self.nodes.get(left.next);
            let guard = self.nodes.add_guard(self.nodes.first_terminal(id));
            let first = self.nodes.append(guard, left.kind, left.value, left.count);
            self.nodes.append(guard, right.kind, right.value, right.count);
            self.substitute(other, guard);
            self.substitute(id, guard);
            self.suspect(first);
        }
    }

    /// Replaces a digram by a rule.
    fn substitute(&mut self, id: Id, guard: Id) {
        let prev = self.nodes.prev(id);
        let next = self.nodes.next(id);
        self.forget(prev);
        self.forget(id);
        self.forget(next);
        self.remove(next);
        self.replace(id, Kind::Rule, guard, 1);
        self.suspect(id);
        self.suspect(prev);
    }

    /// Removes a symbol from its body. Its digrams must have been forgotten.
    fn remove(&mut self, id: Id) {
        let (prev, next) = (self.nodes.prev(id), self.nodes.next(id));
        self.drop_use(id);
        self.nodes.link(prev, next);
        self.nodes.release(id);
        if self.nodes.kind(next) == Kind::Guard && self.nodes.prev(prev) == next {
            // One symbol is left.
            self.suspect_rule(next);
        }
    }

    /// Restores rule utility.
    fn settle_rule(&mut self, guard: Id) {
        if guard == START || self.nodes.kind(guard) != Kind::Guard {
            return;
        }
        let first = self.nodes.next(guard);
        if self.nodes.get(guard).use_next == guard {
            self.delete(guard);
        } else if self.nodes.next(first) == guard {
            self.dissolve(guard, first);
        } else if let Some(only) = self.nodes.only_use(guard)
            && self.nodes.get(only).count == 1
        {
            self.inline(guard, only);
        }
    }

    /// Deletes a rule that is used nowhere.
    fn delete(&mut self, guard: Id) {
        loop {
            let first = self.nodes.next(guard);
            if first == guard {
                break;
            }
            self.forget(first);
            self.drop_use(first);
            self.nodes.link(guard, self.nodes.next(first));
            self.nodes.release(first);
        }
        self.nodes.release(guard);
    }

    /// Replaces all uses of a rule by its only symbol.
    fn dissolve(&mut self, guard: Id, only: Id) {
        let symbol = *self.nodes.get(only);
        loop {
            let id = self.nodes.get(guard).use_prev;
            if id == guard {
                break;
            }
            let prev = self.nodes.prev(id);
            self.forget(prev);
            self.forget(id);
            let count = self.nodes.get(id).count.saturating_mul(symbol.count);
            self.replace(id, symbol.kind, symbol.value, count);
            self.suspect(id);
            self.suspect(prev);
        }
        self.delete(guard);
    }

    /// Replaces the only use of a rule by its body.
    fn inline(&mut self, guard: Id, only: Id) {
        let (prev, next) = (self.nodes.prev(only), self.nodes.next(only));
        let (first, last) = (self.nodes.next(guard), self.nodes.prev(guard));
        self.forget(prev);
        self.forget(only);
        self.nodes.link(prev, first);
        self.nodes.link(last, next);
        self.nodes.release(only);
        self.nodes.release(guard);
        self.suspect(last);
        self.suspect(prev);
    }
}
