//! Checks the internal state of a growing grammar, which a finished one does not have: links, index
//! of digrams, walk.

use std::collections::HashMap;

use super::Sequitur;
use super::nodes::{Id, Kind, Nodes, START};

impl Sequitur {
    /// Checks that the invariants hold: digram uniqueness (except for the last pair of the start rule,
    /// which is settled when the sequence has continued), rule utility, and consistent bookkeeping.
    /// The error says what is wrong, and where.
    ///
    /// Takes time in proportion to the grammar. For tests and debugging.
    pub fn check(&self) -> Result<(), String> {
        let nodes = &self.rules.nodes;
        let guards: Vec<Id> =
            (0..nodes.end()).filter(|&id| nodes.kind(id) == Kind::Guard).collect();
        let mut seen = HashMap::new();
        let mut indexed = 0;
        for &guard in &guards {
            let body = body(nodes, guard)?;
            if guard != START {
                check_use(nodes, guard, &body)?;
            }
            for pair in body.windows(2) {
                let &[left, right] = pair else { continue };
                if nodes.same(left, right) {
                    return Err(format!("symbol {left} is next to itself"));
                }
                let is_indexed = self.rules.digrams.contains(self.rules.hash(left), left);
                indexed += usize::from(is_indexed);
                if nodes.next(right) == START && !is_indexed {
                    continue;
                }
                if !is_indexed {
                    return Err(format!("the digram at {left} is not in the index"));
                }
                let key = [left, right].map(|id| {
                    let node = nodes.get(id);
                    (node.kind as u8, node.value, node.count)
                });
                if let Some(other) = seen.insert(key, left) {
                    return Err(format!("the digram at {left} is also at {other}"));
                }
            }
        }
        if indexed != self.rules.digrams.len() {
            let len = self.rules.digrams.len();
            return Err(format!("{len} digrams in the index, {indexed} in the rules"));
        }
        self.check_lengths(&guards)
    }

    /// Checks that the rules and the walk yield as many terminals as were pushed.
    fn check_lengths(&self, guards: &[Id]) -> Result<(), String> {
        let nodes = &self.rules.nodes;
        let mut lengths: HashMap<Id, u64> = HashMap::new();
        let mut path = guards.to_vec();
        let mut steps = 0;
        'path: while let Some(&guard) = path.last() {
            steps += 1;
            if steps > 4 * u64::from(nodes.end()) {
                return Err(format!("rule {guard} contains itself"));
            }
            let mut length = 0_u64;
            for id in body(nodes, guard)? {
                let node = nodes.get(id);
                let unit = match node.kind {
                    Kind::Rule => match lengths.get(&node.value) {
                        Some(&unit) => unit,
                        None => {
                            path.push(node.value);
                            continue 'path;
                        }
                    },
                    _ => 1,
                };
                length = length.saturating_add(unit.saturating_mul(node.count));
            }
            lengths.insert(guard, length);
            path.pop();
        }
        let length = |guard| lengths.get(&guard).copied().unwrap_or(0);
        if length(START) != self.settled {
            return Err(format!("{} terminals in the rules, not {}", length(START), self.settled));
        }
        let deferred = self.cursor.deferred(nodes, length);
        if self.settled.saturating_add(deferred) != self.len {
            return Err(format!("{deferred} deferred after {} of {}", self.settled, self.len));
        }
        Ok(())
    }
}

/// The symbols of a rule, if their links are consistent.
fn body(nodes: &Nodes, guard: Id) -> Result<Vec<Id>, String> {
    let mut body = Vec::new();
    let (mut prev, mut id) = (guard, nodes.next(guard));
    while id != guard {
        if nodes.prev(id) != prev || !nodes.is_symbol(id) || nodes.get(id).count == 0 {
            return Err(format!("symbol {id} of rule {guard} is not well linked"));
        }
        body.push(id);
        (prev, id) = (id, nodes.next(id));
    }
    if nodes.prev(guard) != prev {
        return Err(format!("rule {guard} does not end with its last symbol"));
    }
    Ok(body)
}

/// Checks that a rule is useful.
#[expect(clippy::indexing_slicing, reason = "a body of two symbols or more, as was just checked")]
fn check_use(nodes: &Nodes, guard: Id, body: &[Id]) -> Result<(), String> {
    if body.len() < 2 {
        return Err(format!("rule {guard} has {} symbols", body.len()));
    }
    if nodes.get(guard).count != u64::from(nodes.first_terminal(body[0])) {
        return Err(format!(
            "rule {guard} does not begin with terminal {}",
            nodes.get(guard).count
        ));
    }
    let (mut uses, mut count) = (0, 0_u64);
    let mut id = nodes.get(guard).use_next;
    while id != guard {
        let node = nodes.get(id);
        if node.kind != Kind::Rule || node.value != guard {
            return Err(format!("symbol {id} is not a use of rule {guard}"));
        }
        uses += 1;
        count = count.saturating_add(node.count);
        id = node.use_next;
    }
    if count < 2 {
        return Err(format!("rule {guard} has {uses} uses, {count} with repetition"));
    }
    Ok(())
}
