//! The symbols of a growing grammar, as linked lists in one arena.
//!
//! Sequitur cuts and splices rule bodies all the time, so a body is a doubly linked list, closed
//! to a ring by a *guard*. Links are `u32` indices: half the size of pointers, no `unsafe`, and a
//! copy of the arena is a copy of the grammar.
//!
//! A rule is identified by its guard: a symbol that stands for a rule holds the guard's index. The
//! guard is also the head of a second ring, through all the symbols that stand for its rule, so that
//! the only use of a rule, or the previous one, is found at once.

/// Index of a node.
pub(super) type Id = u32;

/// The guard of the start rule.
pub(super) const START: Id = 0;

/// The most symbols of a grammar: the index of digrams has no room for more, and they would take
/// 64 GiB.
const MOST: usize = 1 << 31;

/// The kind of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Kind {
    /// Free; `next` is the next free node.
    Free,
    /// Start and end of a rule's body.
    Guard,
    /// A symbol that stands for itself.
    Terminal,
    /// A symbol that stands for a rule.
    Rule,
}

/// A symbol with its repetition count, in the body of a rule. Half a cache line.
#[derive(Clone, Copy, Debug)]
pub(super) struct Node {
    pub prev: Id,
    pub next: Id,
    /// The terminal, or the guard of the rule.
    pub value: u32,
    pub kind: Kind,
    /// The ring of uses: in a symbol for a rule, its neighbours; in a guard, its ends.
    pub use_prev: Id,
    pub use_next: Id,
    /// The repetition count. In a guard, the first terminal that the rule yields, which no rewriting
    /// changes.
    pub count: u64,
}

/// All nodes.
#[derive(Clone, Debug)]
pub(super) struct Nodes {
    nodes: Vec<Node>,
    free: Id,
}

const NONE: Id = Id::MAX;

impl Nodes {
    /// The start rule, with an empty body.
    pub fn new() -> Nodes {
        let mut nodes = Nodes { nodes: Vec::new(), free: NONE };
        nodes.add_guard(0);
        nodes
    }

    /// Whether the arena is full.
    pub fn full(&self) -> bool {
        self.nodes.len() >= MOST
    }

    /// Every index is below this one.
    pub fn end(&self) -> Id {
        self.nodes.len() as Id
    }

    /// Bytes held.
    pub fn memory(&self) -> usize {
        self.nodes.capacity() * size_of::<Node>()
    }

    #[inline(always)]
    #[expect(
        clippy::indexing_slicing,
        reason = "ids are given out here, and nodes never taken away"
    )]
    pub fn get(&self, id: Id) -> &Node {
        &self.nodes[id as usize]
    }

    #[inline(always)]
    #[expect(
        clippy::indexing_slicing,
        reason = "ids are given out here, and nodes never taken away"
    )]
    pub fn get_mut(&mut self, id: Id) -> &mut Node {
        &mut self.nodes[id as usize]
    }

    #[inline(always)]
    pub fn next(&self, id: Id) -> Id {
        self.get(id).next
    }

    #[inline(always)]
    pub fn prev(&self, id: Id) -> Id {
        self.get(id).prev
    }

    #[inline(always)]
    pub fn kind(&self, id: Id) -> Kind {
        self.get(id).kind
    }

    /// The last symbol of the start rule, or its guard if it has none.
    #[inline(always)]
    pub fn tail(&self) -> Id {
        self.prev(START)
    }

    /// Whether this is a symbol, not a guard and not free.
    pub fn is_symbol(&self, id: Id) -> bool {
        matches!(self.kind(id), Kind::Terminal | Kind::Rule)
    }

    /// Whether two nodes are the same symbol, with any repetition counts.
    pub fn same(&self, a: Id, b: Id) -> bool {
        let (a, b) = (self.get(a), self.get(b));
        a.kind == b.kind && a.value == b.value
    }

    /// The first terminal that a symbol yields.
    pub fn first_terminal(&self, id: Id) -> u32 {
        let node = self.get(id);
        match node.kind {
            Kind::Rule => self.get(node.value).count as u32,
            _ => node.value,
        }
    }

    /// The rule whose body is the digram at `id` and nothing else.
    pub fn whole_rule(&self, id: Id) -> Option<Id> {
        let guard = self.prev(id);
        let whole = guard != START && self.next(self.next(id)) == guard;
        (whole && self.kind(guard) == Kind::Guard).then_some(guard)
    }

    /// The only use of a rule.
    pub fn only_use(&self, guard: Id) -> Option<Id> {
        let guard_node = self.get(guard);
        (guard_node.use_next == guard_node.use_prev && guard_node.use_next != guard)
            .then_some(guard_node.use_next)
    }

    /// Links two nodes as neighbours.
    #[inline(always)]
    pub fn link(&mut self, left: Id, right: Id) {
        self.get_mut(left).next = right;
        self.get_mut(right).prev = left;
    }

    /// Adds a rule with an empty body. `first` is the first terminal that it will yield.
    pub fn add_guard(&mut self, first: u32) -> Id {
        let id = self.add(Node {
            prev: 0,
            next: 0,
            value: 0,
            kind: Kind::Guard,
            use_prev: 0,
            use_next: 0,
            count: u64::from(first),
        });
        let node = self.get_mut(id);
        (node.prev, node.next, node.use_prev, node.use_next) = (id, id, id, id);
        id
    }

    /// Adds a symbol at the end of a rule's body.
    pub fn append(&mut self, guard: Id, kind: Kind, value: u32, count: u64) -> Id {
        let last = self.prev(guard);
        let id = self.add(Node {
            prev: last,
            next: guard,
            value,
            kind,
            use_prev: 0,
            use_next: 0,
            count,
        });
        self.get_mut(last).next = id;
        self.get_mut(guard).prev = id;
        if kind == Kind::Rule {
            self.join_uses(id, value);
        }
        id
    }

    /// Frees a node that is no longer linked.
    pub fn release(&mut self, id: Id) {
        let free = self.free;
        let node = self.get_mut(id);
        node.kind = Kind::Free;
        node.next = free;
        self.free = id;
    }

    /// Makes a symbol a use of a rule: the latest one.
    pub fn join_uses(&mut self, id: Id, guard: Id) {
        let second = self.get(guard).use_next;
        let node = self.get_mut(id);
        node.use_prev = guard;
        node.use_next = second;
        self.get_mut(guard).use_next = id;
        self.get_mut(second).use_prev = id;
    }

    /// The opposite of [`Nodes::join_uses`].
    pub fn leave_uses(&mut self, id: Id) {
        let Node { use_prev, use_next, .. } = *self.get(id);
        self.get_mut(use_prev).use_next = use_next;
        self.get_mut(use_next).use_prev = use_prev;
    }

    fn add(&mut self, node: Node) -> Id {
        if self.free != NONE {
            let id = self.free;
            self.free = self.next(id);
            *self.get_mut(id) = node;
            return id;
        }
        if self.nodes.len() == self.nodes.capacity() {
            // Grow by half, not twofold: this is most of the memory that the encoder takes from the
            // program.
            self.nodes.reserve_exact(self.nodes.len() / 2 + 16);
        }
        self.nodes.push(node);
        (self.nodes.len() - 1) as Id
    }
}
