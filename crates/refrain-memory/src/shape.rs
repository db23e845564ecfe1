//! The control structure of a nest, without its numbers.
//!
//! A shape is a tree of loops over blocks. Trip counts and addresses are *slots* of the shape; the
//! values of the slots are in `series`. Two executions of the same shape can become two iterations of a loop
//! around them, whatever their numbers.
//!
//! A loop has an *exit*: how many of its body's nodes are executed once more after the last whole
//! iteration. `do { A } while` exits after no node; `while (A) { B }` after `A`.
//!
//! A shape is compiled to a short program. The compressor matches a stream against it, and the player
//! executes it to decode the stream.

use std::collections::BTreeSet;
use std::ops::Range;

use crate::block::Blocks;
use crate::error::MemoryError;
use refrain_bytes::varint;

/// The deepest nest.
pub const MOST_DEPTH: usize = 32;
/// The longest program.
pub const MOST_OPS: usize = 4096;

/// A node of a shape.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Node {
    /// A block.
    Block(u32),
    /// A loop.
    Loop {
        /// How many nodes of the body are executed once more at the end.
        exit: u32,
        /// What is repeated.
        body: Vec<Node>,
    },
}

/// A step of the program that walks a shape.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Op {
    /// Execute a block.
    Block {
        /// Which.
        block: u32,
        /// The slot of its first reference; those of the others follow.
        slot: u32,
        /// How many references it has.
        references: u32,
    },
    /// A loop begins.
    Enter(u32),
    /// The position in the body where the loop is left, if it is not the end.
    Check(u32),
    /// The end of the body.
    Next(u32),
}

/// What a slot stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Meaning {
    /// How often a loop is executed (the loop's index).
    Count(u32),
    /// The address of a reference.
    Address {
        /// The block.
        block: u32,
        /// Which of its references.
        reference: u32,
    },
}

/// A number that varies between executions: a trip count or an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slot {
    /// What it stands for.
    pub meaning: Meaning,
    /// How many loops are around it.
    pub depth: usize,
}

/// A loop of a compiled shape.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Loop {
    /// How many loops there are around its body: 1 for the outermost.
    pub level: u8,
    /// How many nodes of the body are executed once more at the end.
    pub exit: u32,
    /// The first block of the body.
    pub head: u32,
    /// The block that follows the exit within the loop: if it comes next, the loop goes on.
    pub goes_on: u32,
    /// The first step of the body.
    pub body: usize,
    /// The step after the loop.
    pub after: usize,
    /// The slot of its count.
    pub count: usize,
    /// The slots in its body.
    pub slots: Range<usize>,
    /// How many blocks the body has, if it has no loops.
    pub straight: Option<u32>,
    /// Whether the code that may follow the loop begins with the same block as its body. Then blocks alone do
    /// not show where the loop ends.
    pub ambiguous: bool,
}

/// A compiled shape.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shape {
    /// The tree.
    pub node: Node,
    /// The program.
    pub ops: Vec<Op>,
    /// The loops, in the order of their beginnings.
    pub loops: Vec<Loop>,
    /// The slots: a loop's count, then what is in its body.
    pub slots: Vec<Slot>,
}

impl Node {
    /// The first block that is executed.
    pub fn head(&self) -> u32 {
        let mut node = self;
        loop {
            match node {
                Self::Block(block) => return *block,
                Self::Loop { body, .. } => match body.first() {
                    Some(first) => node = first,
                    None => return u32::MAX,
                },
            }
        }
    }

    /// The tree with other block numbers; `None` if a block has no new number.
    pub fn renumbered(&self, numbers: &[u32]) -> Option<Self> {
        Some(match self {
            Self::Block(block) => Self::Block(*numbers.get(*block as usize)?),
            Self::Loop { exit, body } => {
                let body = body.iter().map(|node| node.renumbered(numbers));
                Self::Loop { exit: *exit, body: body.collect::<Option<_>>()? }
            }
        })
    }

    /// Adds the blocks of the tree.
    pub fn blocks(&self, all: &mut BTreeSet<u32>) {
        match self {
            Self::Block(block) => {
                all.insert(*block);
            }
            Self::Loop { body, .. } => body.iter().for_each(|node| node.blocks(all)),
        }
    }

    /// Appends the tree: 0 ends a body, 1 followed by the exit begins a loop, larger numbers are blocks.
    pub fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Self::Block(block) => varint::put(out, u64::from(*block) + 2),
            Self::Loop { exit, body } => {
                varint::put(out, 1);
                varint::put(out, u64::from(*exit));
                body.iter().for_each(|node| node.encode(out));
                varint::put(out, 0);
            }
        }
    }

    /// Decodes a tree.
    pub fn decode(input: &mut &[u8]) -> Result<Self, MemoryError> {
        Self::decode_some(input, 0)?.ok_or(MemoryError::OutOfRange("shape"))
    }

    fn decode_some(input: &mut &[u8], depth: usize) -> Result<Option<Self>, MemoryError> {
        match varint::take(input)? {
            0 => Ok(None),
            1 if depth == MOST_DEPTH => Err(MemoryError::OutOfRange("depth of a shape")),
            1 => {
                let exit = varint::take_u32(input, "exit")?;
                let mut body = Vec::new();
                while let Some(node) = Self::decode_some(input, depth + 1)? {
                    body.push(node);
                }
                if exit as usize >= body.len() {
                    return Err(MemoryError::OutOfRange("exit"));
                }
                Ok(Some(Self::Loop { exit, body }))
            }
            block => match u32::try_from(block - 2) {
                Ok(block) if block != u32::MAX => Ok(Some(Self::Block(block))),
                _ => Err(MemoryError::OutOfRange("block")),
            },
        }
    }
}

impl Shape {
    /// Compiles a tree.
    pub fn compile(node: Node, blocks: &Blocks) -> Result<Self, MemoryError> {
        let mut shape =
            Self { node: Node::Block(0), ops: Vec::new(), loops: Vec::new(), slots: Vec::new() };
        shape.add(&node, 0, blocks)?;
        for at in 0..shape.loops.len() {
            let this = &shape.loops[at];
            let ambiguous = this.exit == 0 && shape.may_begin(this.after, this.goes_on);
            shape.loops[at].ambiguous = ambiguous;
        }
        shape.node = node;
        Ok(shape)
    }

    /// The shape with other block numbers: `blocks` is indexed by the new numbers.
    pub fn renumbered(&self, numbers: &[u32], blocks: &Blocks) -> Result<Self, MemoryError> {
        let node = self.node.renumbered(numbers);
        Self::compile(node.ok_or(MemoryError::OutOfRange("block"))?, blocks)
    }

    fn add(&mut self, node: &Node, depth: usize, blocks: &Blocks) -> Result<(), MemoryError> {
        if self.ops.len() >= MOST_OPS {
            return Err(MemoryError::OutOfRange("size of a shape"));
        }
        match node {
            Node::Block(block) => {
                let known = blocks.get(*block);
                let references =
                    known.ok_or(MemoryError::UnknownBlock(u64::from(*block)))?.len() as u32;
                let slot = self.slots.len() as u32;
                self.ops.push(Op::Block { block: *block, slot, references });
                self.slots.extend((0..references).map(|reference| Slot {
                    meaning: Meaning::Address { block: *block, reference },
                    depth,
                }));
                Ok(())
            }
            Node::Loop { exit, body } => self.add_loop(*exit, body, depth, blocks),
        }
    }

    fn add_loop(
        &mut self,
        exit: u32,
        body: &[Node],
        depth: usize,
        blocks: &Blocks,
    ) -> Result<(), MemoryError> {
        const WHAT: MemoryError = MemoryError::OutOfRange("shape");
        if depth >= MOST_DEPTH {
            return Err(MemoryError::OutOfRange("depth of a shape"));
        }
        let this = self.loops.len();
        let count = self.slots.len();
        self.slots.push(Slot { meaning: Meaning::Count(this as u32), depth });
        self.ops.push(Op::Enter(this as u32));
        let straight = body.iter().all(|node| matches!(node, Node::Block(_)));
        self.loops.push(Loop {
            level: depth as u8 + 1,
            exit,
            head: body.first().ok_or(WHAT)?.head(),
            goes_on: body.get(exit as usize).ok_or(WHAT)?.head(),
            body: self.ops.len(),
            after: 0,
            count,
            slots: count + 1..0,
            straight: straight.then_some(body.len() as u32),
            ambiguous: false,
        });
        for (at, node) in body.iter().enumerate() {
            if at == exit as usize && exit != 0 {
                self.ops.push(Op::Check(this as u32));
            }
            self.add(node, depth + 1, blocks)?;
        }
        self.ops.push(Op::Next(this as u32));
        self.loops[this].after = self.ops.len();
        self.loops[this].slots.end = self.slots.len();
        Ok(())
    }

    /// Whether the next block from this step on can be `block`. After the end of the shape any block can follow.
    fn may_begin(&self, mut at: usize, block: u32) -> bool {
        loop {
            let (head, next) = match self.ops.get(at) {
                None => return true,
                Some(Op::Block { block: head, .. }) => return *head == block,
                Some(Op::Enter(inner)) => {
                    let inner = &self.loops[*inner as usize];
                    (inner.head, (inner.exit == 0).then_some(inner.after))
                }
                Some(Op::Check(around) | Op::Next(around)) => {
                    let around = &self.loops[*around as usize];
                    let ends_here = matches!(self.ops[at], Op::Check(_)) || around.exit == 0;
                    let head = if ends_here { around.goes_on } else { around.head };
                    (head, ends_here.then_some(around.after))
                }
            };
            match next {
                _ if head == block => return true,
                Some(next) => at = next,
                None => return false,
            }
        }
    }

    /// How many nodes of the outermost loop's body are complete at step `at`, if that is between two of them;
    /// `None` inside an inner loop.
    pub fn complete_nodes(&self, at: usize) -> Option<u32> {
        let outer = self.loops.first()?;
        let mut op = outer.body;
        let mut complete = 0;
        while op < at {
            op = match self.ops.get(op)? {
                Op::Enter(inner) => self.loops[*inner as usize].after,
                _ => op + 1,
            };
            complete += 1;
        }
        (op == at).then_some(complete)
    }

    /// The loops around step `at`, the outermost first.
    pub fn loops_around(&self, at: usize) -> impl Iterator<Item = usize> + '_ {
        let inside = move |this: &Loop| (this.body..this.after).contains(&at);
        self.loops.iter().enumerate().filter(move |(_, this)| inside(this)).map(|(at, _)| at)
    }
}
