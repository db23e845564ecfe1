//! Finds loops in a sequence of calls, online (ScalaTrace II §3.2, algorithm 1).
//!
//! The folder keeps the nest of what it has seen as a list of nodes. A call that repeats the last node makes it a loop.
//! If the list ends in two stretches with the same keys, they become a loop; if it ends in a loop and a stretch like its
//! body, the loop gets another iteration. Keys ignore values and trip counts, so inner trip counts may vary.
//!
//! *Delayed merge.* The last node may still grow: an inner loop may go on. So a stretch is merged only when
//! the call after it shows that it is complete (the paper's pending iterations).
//!
//! *Partial matches.* Iterations that differ in some calls have different keys. When the list becomes long, and at the
//! end, [`crate::partial`] merges stretches that resemble each other.

use crate::Nest;
use crate::flatten::flattened;
use crate::folded::Folded;
use crate::heads::Heads;
use crate::merge::{join, merge, run};
use crate::partial::{self, Work};
use crate::seq::Seq;
use crate::stretches::Stretches;
use std::sync::Arc;

/// How sequences are folded. Everything is switched on unless told otherwise, and stacks match exactly (the ablation of
/// ScalaTrace II §4.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// Merges iterations that match partially.
    pub partial: bool,
    /// Merges an iteration only when it is known to be complete.
    pub delayed: bool,
    /// Merges loops of different groups even if their trip counts and bodies differ.
    pub agnostic: bool,
    /// So many frames of two call stacks may differ if they are one place ([`crate::Stacks`]).
    pub frames: usize,
}

impl Default for Options {
    fn default() -> Options {
        Options { partial: true, delayed: true, agnostic: true, frames: 0 }
    }
}

/// A list this long is searched for partial matches, for the first time.
const LONG: usize = 1024;
/// So many earlier occurrences of the last node are tried as the end of the previous iteration.
const MOST_TRIES: usize = 32;

/// Finds loops in a sequence of calls.
#[derive(Debug, Default)]
pub struct Folder {
    options: Options,
    pub(crate) list: Vec<Folded>,
    /// The keys of the list.
    stretches: Stretches,
    /// Skeletons with which iterations begin; any if it is not known.
    heads: Option<Arc<Heads>>,
    work: Work,
    /// The length from which on the list is searched for partial matches.
    long: usize,
    /// So many nodes at the beginning have been searched for them, in vain.
    searched: usize,
}

impl Folder {
    /// An empty sequence.
    pub fn new(options: Options) -> Folder {
        Folder { options, long: LONG, ..Folder::default() }
    }

    /// An empty sequence whose iterations begin with one of these skeletons.
    /// What it does to find partial matches is part of `work`.
    pub(crate) fn with_heads(options: Options, heads: Option<Arc<Heads>>, work: &Work) -> Folder {
        Folder { heads, work: work.clone(), ..Folder::new(options) }
    }

    /// Whether an iteration may begin with a node.
    pub(crate) fn is_head(&self, node: &Folded) -> bool {
        self.heads.as_ref().is_none_or(|heads| node.begins_in(heads))
    }

    /// The node of a body with which iterations begin: the header that the program reached first.
    pub(crate) fn beginning(&self, body: &[Folded]) -> Option<usize> {
        let heads = self.heads.as_ref()?;
        let order = |at: &usize| body[*at].first_skeleton().and_then(|first| heads.get(&first));
        (0..body.len()).filter(|at| order(at).is_some()).min_by_key(|at| (order(at), *at))
    }

    /// A body without iterations beside a loop of their kind.
    pub(crate) fn contained(&self, body: Vec<Folded>) -> Vec<Folded> {
        match self.options.partial && body.len() > 1 && body.iter().any(is_loop_of_several) {
            true => partial::merge_contained(body, self.heads.as_deref()),
            false => body,
        }
    }

    /// The nest of the whole sequence.
    pub fn finish(mut self) -> Vec<Folded> {
        self.close(None);
        if self.options.partial {
            self.merge_partial();
            self.close(None);
        }
        let heads = self.heads.take();
        if heads.is_some() {
            // Loops that begin elsewhere, after all.
            let list = std::mem::take(&mut self.list);
            (self.stretches, self.searched) = (Stretches::default(), 0);
            self.put_all(list);
            self.close(None);
            if self.options.partial {
                self.merge_partial();
                self.close(None);
            }
        }
        self.stretches = Stretches::default();
        let mut body = Vec::with_capacity(self.list.len());
        self.list.into_iter().for_each(|node| node.simplified(&mut body));
        if self.options.partial {
            body = partial::merge_inside(body, heads.as_deref());
        }
        flattened(body)
    }

    /// The nest of a part of the sequence.
    pub(crate) fn finish_inner(mut self) -> Vec<Folded> {
        self.close(None);
        self.list
    }

    /// Appends a node, executed once.
    pub fn push(&mut self, node: Folded) {
        let node = match node {
            Nest::Loop { count, body } if body.len() > 1 => return self.push_loop(&count, body),
            node => node,
        };
        self.work.earn();
        let key = node.key();
        if self.stretches.keys().last() == Some(&key) {
            return self.extend_run(node);
        }
        if self.options.delayed {
            self.close(Some(key));
        }
        self.put(node, key);
        if !self.options.delayed {
            self.close(None);
        }
        if self.list.len() > self.long {
            if self.options.partial {
                self.merge_partial();
            }
            self.long = LONG.max(self.list.len() * 2);
        }
    }

    /// Appends a node that may be the last one again.
    fn put(&mut self, node: Folded, key: u64) {
        match self.stretches.keys().last() == Some(&key) {
            true => self.extend_run(node),
            false => self.append(node, key),
        }
    }

    /// Executes the last node again.
    fn extend_run(&mut self, node: Folded) {
        let Some(last) = self.list.pop() else { return };
        self.searched = self.searched.min(self.list.len());
        self.list.push(run(last, node));
        if let Some(Nest::Loop { body, .. }) = self.list.last() {
            self.stretches.set_last_body(&several(body));
        }
    }

    /// Appends a loop of several nodes. The calls before it may belong to its first iteration, and calls after it to
    /// its last one (trailing iterations, ScalaTrace II §3.2.2). So these two are appended node by node.
    fn push_loop(&mut self, count: &Seq<u64>, mut body: Vec<Folded>) {
        let trips = count.sum();
        let split = |body: &mut Vec<Folded>, at: u64| -> Vec<Folded> {
            body.iter_mut().map(|node| node.split_off(at)).collect()
        };
        let mut middle = split(&mut body, 1.min(trips));
        body.into_iter().filter(|node| node.visits() > 0).for_each(|node| self.push(node));
        if trips > 2 {
            let last = split(&mut middle, trips - 2);
            self.push_whole(trips - 2, middle);
            middle = last;
        }
        if trips > 1 {
            middle.into_iter().for_each(|node| self.push(node));
        }
    }

    /// Appends a loop of several nodes. If what is before it has the form of the end of its body, the loop begins
    /// there: `A B (C A B)^9 C` is `(A B C)^10`.
    fn push_whole(&mut self, mut trips: u64, mut body: Vec<Folded>) {
        self.close(body.first().map(Folded::key));
        let mut tail = Vec::new();
        loop {
            if self.ends_like(&body) && self.is_head(&body[0]) {
                let before = self.cut(self.list.len() - body.len());
                body = merge(before, 1, body, trips);
                trips += 1;
                continue;
            }
            let before = self.stretches.keys().iter().rev();
            let same = body.iter().rev().zip(before).take_while(|(node, key)| node.key() == **key);
            let same = same.count();
            let begins = self.is_head(&body[0]);
            // The longest rotation that begins where iterations begin.
            let most = if begins && self.heads.is_some() { 0 } else { same.min(body.len() - 1) };
            let by = (1..=most).rev().find(|by| self.is_head(&body[body.len() - by]));
            let Some(by) = by.filter(|_| tail.is_empty()) else { break };
            let before = self.cut(self.list.len() - by);
            let end = body.split_off(body.len() - by);
            let mut rotated = Vec::with_capacity(body.len() + by);
            for (before, node) in before.into_iter().zip(end) {
                let mut node = join(before, node);
                tail.push(node.split_off(trips));
                rotated.push(node);
            }
            rotated.append(&mut body);
            body = rotated;
        }
        let node = Nest::Loop { count: Seq::run(trips, 1), body };
        let key = node.key();
        self.put(node, key);
        tail.into_iter().for_each(|node| self.push(node));
    }

    /// Whether the list ends in nodes with the keys of a body.
    fn ends_like(&self, body: &[Folded]) -> bool {
        let keys = self.stretches.keys();
        keys.len() >= body.len()
            && body
                .iter()
                .zip(&keys[keys.len() - body.len()..])
                .all(|(node, key)| node.key() == *key)
    }

    fn append(&mut self, node: Folded, key: u64) {
        match &node {
            Nest::Loop { body, .. } => self.stretches.push(key, &several(body)),
            _ => self.stretches.push(key, &[]),
        }
        self.list.push(node);
    }

    /// Removes the nodes from a position on and returns them.
    fn cut(&mut self, from: usize) -> Vec<Folded> {
        self.stretches.cut(from);
        self.searched = self.searched.min(from);
        self.list.split_off(from)
    }

    /// Merges iterations that end at the end of the list. `next` is the key of the node that follows: a loop that
    /// it may continue is left alone.
    fn close(&mut self, next: Option<u64>) {
        while let Some(last) = self.list.last() {
            if let (Nest::Loop { body, .. }, Some(next)) = (last, next)
                && body.len() > 1
                && body.first().map(Folded::key) == Some(next)
            {
                return;
            }
            if !self.merge_last() {
                return;
            }
        }
    }

    /// Merges the last iteration with the one before it.
    fn merge_last(&mut self) -> bool {
        let is_head = |at: usize| self.is_head(&self.list[at]);
        let found = self.stretches.repetition(MOST_TRIES, is_head);
        let Some((from, is_loop)) = found else { return false };
        let mut nodes = self.cut(from);
        if !is_loop && nodes.iter().any(is_loop_of_several) {
            // A loop beside one more iteration with other calls in it: `A x B (A B)^9`.
            let second = nodes.split_off(nodes.len() / 2);
            let length = nodes.len() + second.len();
            nodes = self.contained(nodes);
            nodes.extend(self.contained(second));
            if nodes.len() < length {
                for node in nodes {
                    let key = node.key();
                    self.put(node, key);
                }
                return true;
            }
        }
        let node = if is_loop {
            let second = nodes.split_off(1);
            let Some((count, body)) = nodes.pop().map(Folded::into_loop) else { return false };
            let trips = count.sum();
            Nest::Loop { count: Seq::run(trips + 1, 1), body: merge(body, trips, second, 1) }
        } else {
            let second = nodes.split_off(nodes.len() / 2);
            Nest::Loop { count: Seq::run(2, 1), body: merge(nodes, 1, second, 1) }
        };
        let key = node.key();
        self.put(node, key);
        true
    }

    /// Searches the list for iterations that match partially, except for what has been searched before.
    fn merge_partial(&mut self) {
        let list = std::mem::take(&mut self.list);
        let merged = partial::merge_all(list, self.searched, self.heads.as_deref(), &self.work);
        (self.list, self.searched) = (merged.list, merged.searched);
        if let Some(from) = merged.changed {
            let list = self.cut(from);
            self.put_all(list);
        }
    }

    /// Appends nodes that were in the list before.
    fn put_all(&mut self, list: Vec<Folded>) {
        for node in list {
            match node {
                Nest::Loop { count, body } if body.len() > 1 => self.push_whole(count.sum(), body),
                node => {
                    let key = node.key();
                    self.close(Some(key));
                    self.put(node, key);
                }
            }
        }
    }
}

/// Whether a node is a loop over several nodes.
fn is_loop_of_several(node: &Folded) -> bool {
    matches!(node, Nest::Loop { body, .. } if body.len() > 1)
}

/// The keys of the body of a loop over several nodes.
fn several(body: &[Folded]) -> Vec<u64> {
    match body {
        [_, _, ..] => body.iter().map(Folded::key).collect(),
        _ => Vec::new(),
    }
}
