//! The loop indices of the first visits of each node.

use super::Sampled;
use refrain_reader::refrain_nest::seq::Values;
use refrain_reader::refrain_nest::{Grouped, Nest, Seq};

/// So many visits of each node are sampled.
const MOST_VISITS: usize = 1 << 14;

/// Whether all trip counts are 0 or 1.
pub(super) fn is_condition(counts: &[(usize, Seq<u64>)]) -> bool {
    let mut is_condition = true;
    for (_, trips) in counts {
        trips.tally(&mut |trips, _| is_condition &= trips < 2);
    }
    is_condition
}

/// The first visits of all nodes by one group.
#[derive(Clone, Debug)]
pub(super) struct Samples {
    /// By node, in the order of their beginnings.
    pub indices: Vec<Sampled>,
}

struct Walk<'n> {
    group: usize,
    nodes: Vec<Walked<'n>>,
    indices: Vec<u32>,
}

struct Walked<'n> {
    counts: Option<Values<'n, u64>>,
    is_condition: bool,
    /// The number after its last inner node.
    end: usize,
    sampled: Sampled,
    /// Whether all of it has been sampled often enough, or is not executed by the group.
    is_full: bool,
}

impl Samples {
    pub(super) fn of(nest: &[Grouped], group: usize) -> Samples {
        let mut walk = Walk { group, nodes: Vec::new(), indices: Vec::new() };
        walk.add(nest, 0, Some(1));
        walk.visit(0, walk.nodes.len());
        Samples { indices: walk.nodes.into_iter().map(|node| node.sampled).collect() }
    }
}

impl<'n> Walk<'n> {
    /// Adds nodes in `depth` loops. `round` is the number of their visits in an iteration of the outermost of these.
    fn add(&mut self, nest: &'n [Grouped], depth: usize, round: Option<u64>) {
        for node in nest {
            let this = self.nodes.len();
            let mut sampled = Sampled::default();
            sampled.indices.depth = depth;
            sampled.round = round;
            let mut inner = None;
            let (counts, is_condition, is_full) = match node {
                Nest::Leaf(places) => {
                    (None, false, places.groups.iter().all(|(group, _)| *group != self.group))
                }
                Nest::Loop { count, .. } => {
                    let counts = count.iter().find(|(group, _)| *group == self.group);
                    let is_condition = is_condition(count);
                    let trips = match depth {
                        0 => Some(1),
                        _ => counts.and_then(|(_, trips)| trips.constant()),
                    };
                    inner = round
                        .zip(trips.filter(|_| !is_condition))
                        .and_then(|(round, trips)| round.checked_mul(trips));
                    let counts = counts.map(|(_, trips)| trips.iter());
                    let is_full = counts.is_none();
                    (counts, is_condition, is_full)
                }
                Nest::Block(_) => (None, false, true),
            };
            self.nodes.push(Walked { counts, is_condition, end: 0, sampled, is_full });
            if let Nest::Loop { body, .. } = node {
                self.add(body, depth + usize::from(!is_condition), inner);
            }
            self.nodes[this].end = self.nodes.len();
        }
    }

    /// Visits the nodes from a number to another once.
    fn visit(&mut self, from: usize, to: usize) {
        let mut at = from;
        while at < to {
            let end = self.nodes[at].end;
            if !self.nodes[at].is_full {
                self.visit_node(at, end);
            }
            at = end;
        }
    }

    fn visit_node(&mut self, at: usize, end: usize) {
        let node = &mut self.nodes[at];
        let sampled = &mut node.sampled;
        if sampled.visits < MOST_VISITS {
            sampled.indices.all.extend_from_slice(&self.indices);
            sampled.visits += 1;
        }
        let is_sampled = sampled.visits == MOST_VISITS;
        let Some(counts) = &mut node.counts else {
            node.is_full = is_sampled;
            return;
        };
        let Some(trips) = counts.next() else { return };
        let is_loop = !node.is_condition;
        if is_loop {
            self.indices.push(0);
        }
        for trip in 0..trips {
            if is_loop && let Some(index) = self.indices.last_mut() {
                *index = u32::try_from(trip).unwrap_or(u32::MAX);
            }
            self.visit(at + 1, end);
            if self.nodes[at + 1..end].iter().all(|inner| inner.is_full) {
                self.nodes[at].is_full = is_sampled;
                break;
            }
        }
        if is_loop {
            self.indices.pop();
        }
    }
}
