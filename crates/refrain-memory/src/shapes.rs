//! The table of all shapes of a compressor.
//!
//! A shape is a block, a loop over shapes, or a loop with another exit. Each construction is looked up first, so
//! equal shapes have equal numbers, and no shape is compiled twice.

use std::collections::HashMap;
use std::sync::Arc;

use refrain_bytes::table::Map;

use crate::block::Blocks;
use crate::error::MemoryError;
use crate::shape::{Node, Shape};

/// The number of a shape.
pub type ShapeId = u32;

/// Shapes by number.
#[derive(Clone, Debug, Default)]
pub struct Shapes {
    shapes: Vec<Arc<Shape>>,
    blocks: Vec<Option<ShapeId>>,
    /// Loops over a single shape, by that shape. They are looked up most often, so they have a table of their own.
    loops_over_one: Vec<Option<ShapeId>>,
    /// Loops over several shapes; `None` for a loop that would be too large.
    loops: Map<Box<[ShapeId]>, Option<ShapeId>>,
    exits: HashMap<(ShapeId, u32), ShapeId>,
}

impl Shapes {
    /// The shape of this number.
    pub fn get(&self, id: ShapeId) -> &Arc<Shape> {
        &self.shapes[id as usize]
    }

    /// How many shapes there are.
    pub fn len(&self) -> usize {
        self.shapes.len()
    }

    /// The shape of one block.
    #[inline]
    pub fn block(&mut self, block: u32, blocks: &Blocks) -> Result<ShapeId, MemoryError> {
        match self.blocks.get(block as usize) {
            Some(Some(id)) => Ok(*id),
            _ => self.new_block(block, blocks),
        }
    }

    /// The shape of a block that was met before.
    #[inline]
    pub fn known_block(&self, block: u32) -> Option<ShapeId> {
        self.blocks.get(block as usize).copied().flatten()
    }

    #[cold]
    fn new_block(&mut self, block: u32, blocks: &Blocks) -> Result<ShapeId, MemoryError> {
        let id = self.add(Node::Block(block), blocks)?;
        let at = block as usize;
        self.blocks.resize(self.blocks.len().max(at + 1), None);
        self.blocks[at] = Some(id);
        Ok(id)
    }

    /// The loop over these shapes; none if it would be too large or too deep.
    pub fn repeat(&mut self, body: &[ShapeId], blocks: &Blocks) -> Option<ShapeId> {
        if let [one] = body
            && let Some(Some(known)) = self.loops_over_one.get(*one as usize)
        {
            return Some(*known);
        }
        if let Some(known) = self.loops.get(body) {
            return *known;
        }
        let nodes = body.iter().map(|&id| self.get(id).node.clone()).collect();
        let made = self.add(Node::Loop { exit: 0, body: nodes }, blocks).ok();
        if let [one] = body {
            let one = *one as usize;
            self.loops_over_one.resize(self.loops_over_one.len().max(one + 1), None);
            self.loops_over_one[one] = made;
        }
        self.loops.insert(body.into(), made);
        made
    }

    /// The loop with another exit; `None` if the shape is not a loop that exits at the end of its body.
    pub fn with_exit(&mut self, id: ShapeId, exit: u32, blocks: &Blocks) -> Option<ShapeId> {
        if let Some(known) = self.exits.get(&(id, exit)) {
            return Some(*known);
        }
        let Node::Loop { exit: 0, body } = &self.get(id).node else { return None };
        let node = Node::Loop { exit, body: body.clone() };
        let made = self.add(node, blocks).ok()?;
        self.exits.insert((id, exit), made);
        Some(made)
    }

    fn add(&mut self, node: Node, blocks: &Blocks) -> Result<ShapeId, MemoryError> {
        let shape = Shape::compile(node, blocks)?;
        let id = self.shapes.len() as ShapeId;
        self.shapes.push(Arc::new(shape));
        Ok(id)
    }
}
