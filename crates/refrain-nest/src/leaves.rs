//! The leaves of a loop nest in the order of their execution.

use crate::{LoopNest, Nest};

/// The leaves of a loop nest; see [`LoopNest::leaves`].
#[derive(Clone, Debug)]
pub struct Leaves<'a, L> {
    nest: &'a LoopNest<L>,
    /// The bodies being executed, innermost last.
    levels: Vec<Level<'a, L>>,
}

#[derive(Clone, Debug)]
struct Level<'a, L> {
    body: &'a [Nest<L>],
    /// The node that comes next.
    next: usize,
    /// How often the body is executed after the current execution.
    left: u64,
}

impl<'a, L> Leaves<'a, L> {
    pub(crate) fn new(nest: &'a LoopNest<L>) -> Leaves<'a, L> {
        Leaves { nest, levels: vec![Level { body: &nest.body, next: 0, left: 0 }] }
    }
}

impl<'a, L> Iterator for Leaves<'a, L> {
    type Item = &'a L;

    fn next(&mut self) -> Option<&'a L> {
        loop {
            let level = self.levels.last_mut()?;
            let Some(node) = level.body.get(level.next) else {
                if level.left > 0 {
                    (level.next, level.left) = (0, level.left - 1);
                } else {
                    self.levels.pop();
                }
                continue;
            };
            level.next += 1;
            let (body, left) = match node {
                Nest::Leaf(leaf) => return Some(leaf),
                Nest::Loop { count: 0, .. } => continue,
                Nest::Loop { count, body } => (body.as_slice(), count - 1),
                Nest::Block(block) => {
                    (self.nest.blocks.get(*block).map_or(&[][..], Vec::as_slice), 0)
                }
            };
            // Repeating an empty body yields no leaf.
            if !body.is_empty() {
                self.levels.push(Level { body, next: 0, left });
            }
        }
    }
}

impl<L> std::iter::FusedIterator for Leaves<'_, L> {}
