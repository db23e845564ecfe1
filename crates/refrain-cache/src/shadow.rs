//! A fully associative cache with the least recently used line replaced.
//!
//! It shadows a set-associative cache of the same capacity: a miss that would be a hit here is a conflict miss
//! (Hill and Smith, *Evaluating Associativity in CPU Caches*, 1989). Every access takes constant time: a hash table
//! finds the line's node in a list, the most recently used first.

/// No node.
const NONE: u32 = u32::MAX;

#[derive(Clone, Copy, Debug)]
struct Node {
    line: u64,
    before: u32,
    after: u32,
}

/// The fully associative cache.
#[derive(Clone, Debug)]
pub struct Shadow {
    capacity: usize,
    nodes: Vec<Node>,
    /// The node of each line, at its hash or after it.
    table: Vec<u32>,
    /// The hash of a line is the upper bits of a product.
    bits: u32,
    first: u32,
    last: u32,
    unused: Vec<u32>,
}

impl Shadow {
    /// An empty cache for this many lines.
    pub fn new(capacity: usize) -> Self {
        let slots = (2 * capacity).next_power_of_two();
        Self {
            capacity,
            nodes: Vec::new(),
            table: vec![NONE; slots],
            bits: 64 - slots.trailing_zeros(),
            first: NONE,
            last: NONE,
            unused: Vec::new(),
        }
    }

    /// How many lines it holds.
    pub fn len(&self) -> usize {
        self.nodes.len() - self.unused.len()
    }

    #[inline]
    fn hash(&self, line: u64) -> usize {
        (line.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> self.bits) as usize
    }

    /// The place in the table of a line, or the empty one where it would be.
    #[inline]
    fn find(&self, line: u64) -> usize {
        let mask = self.table.len() - 1;
        let mut at = self.hash(line);
        loop {
            match self.table[at] {
                NONE => return at,
                node if self.nodes[node as usize].line == line => return at,
                _ => at = (at + 1) & mask,
            }
        }
    }

    /// Accesses a line; whether it is a hit.
    #[inline]
    pub fn access(&mut self, line: u64) -> bool {
        if self.first != NONE && self.nodes[self.first as usize].line == line {
            return true;
        }
        let at = self.find(line);
        match self.table[at] {
            NONE => {
                self.insert(line, at);
                false
            }
            node => {
                self.unlink(node);
                self.link_first(node);
                true
            }
        }
    }

    fn insert(&mut self, line: u64, mut at: usize) {
        let new = Node { line, before: NONE, after: NONE };
        let node = if self.len() == self.capacity {
            let oldest = self.last;
            self.forget(self.nodes[oldest as usize].line);
            self.unlink(oldest);
            self.nodes[oldest as usize] = new;
            // Forgetting moves entries of the table.
            at = self.find(line);
            oldest
        } else if let Some(node) = self.unused.pop() {
            self.nodes[node as usize] = new;
            node
        } else {
            self.nodes.push(new);
            self.nodes.len() as u32 - 1
        };
        self.table[at] = node;
        self.link_first(node);
    }

    /// Removes a line.
    pub fn remove(&mut self, line: u64) {
        let at = self.find(line);
        let node = self.table[at];
        if node != NONE {
            self.forget(line);
            self.unlink(node);
            self.nodes[node as usize].line = u64::MAX;
            self.unused.push(node);
        }
    }

    /// Removes a line from the table, and moves later entries into the gap.
    fn forget(&mut self, line: u64) {
        let mask = self.table.len() - 1;
        let mut gap = self.find(line);
        let mut at = gap;
        loop {
            at = (at + 1) & mask;
            let node = self.table[at];
            if node == NONE {
                break;
            }
            let home = self.hash(self.nodes[node as usize].line);
            // An entry moves if its home is not between the gap and its place.
            if at.wrapping_sub(home) & mask >= at.wrapping_sub(gap) & mask {
                self.table[gap] = node;
                gap = at;
            }
        }
        self.table[gap] = NONE;
    }

    #[inline]
    fn unlink(&mut self, node: u32) {
        let Node { before, after, .. } = self.nodes[node as usize];
        match before {
            NONE => self.first = after,
            before => self.nodes[before as usize].after = after,
        }
        match after {
            NONE => self.last = before,
            after => self.nodes[after as usize].before = before,
        }
    }

    #[inline]
    fn link_first(&mut self, node: u32) {
        let after = self.first;
        let this = &mut self.nodes[node as usize];
        (this.before, this.after) = (NONE, after);
        match after {
            NONE => self.last = node,
            after => self.nodes[after as usize].before = node,
        }
        self.first = node;
    }

    /// The lines, the most recently used first.
    pub fn lines(&self) -> impl Iterator<Item = u64> + '_ {
        let mut node = self.first;
        std::iter::from_fn(move || {
            let Node { line, after, .. } = *self.nodes.get(node as usize)?;
            node = after;
            Some(line)
        })
    }

    /// Renames every line.
    pub fn shift(&mut self, by: i64) {
        let lines: Vec<u64> = self.lines().map(|line| line.wrapping_add_signed(by)).collect();
        *self = Self::new(self.capacity);
        lines.iter().rev().for_each(|line| {
            self.access(*line);
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn it_is_a_list_in_the_order_of_use(
            capacity in 1usize..9,
            accesses in prop::collection::vec((0u64..20, prop::bool::weighted(0.1)), 0..200),
        ) {
            let mut shadow = Shadow::new(capacity);
            let mut list: Vec<u64> = Vec::new();
            for (line, is_removed) in accesses {
                let at = list.iter().position(|other| *other == line);
                at.map(|at| list.remove(at));
                if is_removed {
                    shadow.remove(line);
                } else {
                    prop_assert_eq!(shadow.access(line), at.is_some());
                    list.insert(0, line);
                    list.truncate(capacity);
                }
                prop_assert_eq!(shadow.lines().collect::<Vec<_>>(), list.clone());
                prop_assert_eq!(shadow.len(), list.len());
            }
            shadow.shift(1000);
            list.iter_mut().for_each(|line| *line += 1000);
            prop_assert_eq!(shadow.lines().collect::<Vec<_>>(), list);
        }
    }
}
