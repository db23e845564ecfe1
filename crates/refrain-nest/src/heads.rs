//! Where iterations begin: the headers of the loops of the program's control flow.
//!
//! The sequence of calls is a walk through the program. Which skeleton follows which is a graph, found in time of the
//! grammar. Its loops are those of the program: a strongly connected part is a loop, the part's skeleton that was
//! called first is its header, and without the edges to the header the part has the inner loops.
//! A repeated stretch that begins elsewhere is the right loop at the wrong phase.

use crate::children_first;
use crate::folded::mix;
use crate::stretches::Keys;
use refrain_grammar::{Grammar, What};
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// Graphs with more skeletons are not analysed.
const MOST_NODES: usize = 1 << 14;
/// Graphs whose loops are found in no fewer steps have none: anything may follow anything.
const MOST_STEPS: usize = 1 << 19;

/// Skeletons with which iterations begin, in the order of their first calls.
pub(crate) type Heads = HashMap<u32, usize>;

/// The headers of all loops; none if the graph is too large or too dense.
pub(crate) fn of(
    grammars: &[Grammar],
    skeleton: &mut impl FnMut(u32) -> Option<u32>,
) -> Option<Heads> {
    let mut graph = Graph::default();
    let mut last = None;
    for grammar in grammars {
        graph.add(grammar, &mut last, skeleton);
        if graph.known.len() > MOST_STEPS || graph.order.len() > MOST_NODES {
            return None;
        }
    }
    // A deep nest of loops in one part would take the square of its size; programs have few levels.
    let mut heads = Heads::new();
    let mut parts: Vec<BTreeSet<u32>> = vec![graph.order.keys().copied().collect()];
    let mut steps = 0;
    while let Some(part) = parts.pop() {
        steps += part
            .iter()
            .map(|node| 1 + graph.edges.get(node).map_or(0, BTreeSet::len))
            .sum::<usize>();
        if steps > MOST_STEPS {
            return None;
        }
        for mut inner in graph.components(&part) {
            let Some(head) = inner.iter().copied().min_by_key(|node| graph.order[node]) else {
                continue;
            };
            heads.insert(head, graph.order[&head]);
            // Without the header, what is left are the inner loops.
            inner.remove(&head);
            parts.push(inner);
        }
    }
    Some(heads)
}

#[derive(Default)]
struct Graph {
    /// For each skeleton, those that follow it.
    edges: BTreeMap<u32, BTreeSet<u32>>,
    /// The hashes of all edges.
    known: Keys,
    /// The order of first calls.
    order: BTreeMap<u32, usize>,
}

impl Graph {
    fn connect(&mut self, from: u32, to: u32) {
        if self.known.insert(mix(u64::from(from) << 32 | u64::from(to))) {
            self.edges.entry(from).or_default().insert(to);
        }
    }

    /// Adds what a grammar yields, or only a part of it if that has too many edges.
    fn add(
        &mut self,
        grammar: &Grammar,
        before: &mut Option<u32>,
        skeleton: &mut impl FnMut(u32) -> Option<u32>,
    ) {
        let rules = grammar.rules();
        // By rule: the first and the last skeleton.
        let mut ends: Vec<Option<(u32, u32)>> = vec![None; rules.len()];
        for rule in children_first(grammar) {
            if self.known.len() > MOST_STEPS {
                return;
            }
            let mut all: Option<(u32, u32)> = None;
            for symbol in &rules[rule] {
                let inner = match symbol.what {
                    What::Terminal(terminal) => skeleton(terminal).map(|one| (one, one)),
                    What::Rule(inner) => ends[inner as usize],
                };
                let Some((first, last)) = inner else { continue };
                if symbol.count > 1 {
                    self.connect(last, first);
                }
                if let Some((_, before)) = all {
                    self.connect(before, first);
                }
                all = Some((all.map_or(first, |(first, _)| first), last));
            }
            ends[rule] = all;
        }
        if let Some((first, last)) = ends[0] {
            if let Some(before) = *before {
                self.connect(before, first);
            }
            *before = Some(last);
        }
        let mut seen = vec![false; rules.len()];
        let mut stack = vec![rules[0].iter()];
        while let Some(symbols) = stack.last_mut() {
            match symbols.next().map(|symbol| symbol.what) {
                Some(What::Terminal(terminal)) => {
                    let next = self.order.len();
                    if let Some(skeleton) = skeleton(terminal) {
                        self.order.entry(skeleton).or_insert(next);
                    }
                }
                Some(What::Rule(inner)) => {
                    if !std::mem::replace(&mut seen[inner as usize], true) {
                        stack.push(rules[inner as usize].iter());
                    }
                }
                None => {
                    stack.pop();
                }
            }
        }
    }

    /// The strongly connected components of a part that have at least two nodes (Tarjan, without recursion).
    fn components(&self, part: &BTreeSet<u32>) -> Vec<BTreeSet<u32>> {
        let mut index: BTreeMap<u32, (usize, usize)> = BTreeMap::new();
        let mut open: Vec<u32> = Vec::new();
        let mut is_open: BTreeSet<u32> = BTreeSet::new();
        let mut found = Vec::new();
        let none = BTreeSet::new();
        for &root in part {
            if index.contains_key(&root) {
                continue;
            }
            let mut stack = vec![(root, self.edges.get(&root).unwrap_or(&none).iter())];
            index.insert(root, (index.len(), index.len()));
            open.push(root);
            is_open.insert(root);
            while let Some((node, targets)) = stack.last_mut() {
                let node = *node;
                match targets.next() {
                    Some(target) if !part.contains(target) => {}
                    Some(target) => match index.get(target).copied() {
                        None => {
                            index.insert(*target, (index.len(), index.len()));
                            open.push(*target);
                            is_open.insert(*target);
                            stack.push((*target, self.edges.get(target).unwrap_or(&none).iter()));
                        }
                        Some((number, _)) if is_open.contains(target) => {
                            let low = &mut index.get_mut(&node).expect("it is numbered").1;
                            *low = number.min(*low);
                        }
                        Some(_) => {}
                    },
                    None => {
                        stack.pop();
                        let (number, low) = index[&node];
                        if let Some((outer, _)) = stack.last() {
                            let outer = &mut index.get_mut(outer).expect("it is numbered").1;
                            *outer = low.min(*outer);
                        }
                        if low == number {
                            let from = open.iter().rposition(|other| *other == node).unwrap_or(0);
                            let component: BTreeSet<u32> = open.drain(from..).collect();
                            component.iter().for_each(|node| {
                                is_open.remove(node);
                            });
                            if component.len() > 1 {
                                found.push(component);
                            }
                        }
                    }
                }
            }
        }
        found
    }
}
