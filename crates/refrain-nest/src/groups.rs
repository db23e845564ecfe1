//! Aligns the nests of different groups of ranks (loop-agnostic merge, ScalaTrace II §3.4).
//!
//! Ranks at a border send less than ranks inside; still they are in the same loops. The alignment compares places only:
//! two loops become one even if their trip counts differ, and each group keeps its own trip counts and values. What
//! only some groups do has only their values: it is guarded by their ranks.

use crate::Nest;
use crate::folded::{Folded, Place, Visits, is_condition};
use crate::merge::{Woven, align, weave, wrap};
use crate::seq::Seq;

/// A place of the program in some groups.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Places {
    /// The skeleton of its calls.
    pub skeleton: u32,
    /// For each group that visits it, its number and the value of each visit.
    pub groups: Vec<(usize, Seq<u32>)>,
}

impl Place for Places {
    fn skeleton(&self) -> u32 {
        self.skeleton
    }
}

/// A node of the nest of several groups: each group that executes a loop has its own trip counts.
pub type Grouped = Nest<Places, Vec<(usize, Seq<u64>)>>;

impl Grouped {
    /// The groups that have the node.
    pub fn groups(&self) -> Vec<usize> {
        let mut groups: Vec<usize> = match self {
            Nest::Leaf(places) => places.groups.iter().map(|(group, _)| *group).collect(),
            Nest::Loop { count, .. } => count.iter().map(|(group, _)| *group).collect(),
            Nest::Block(_) => Vec::new(),
        };
        groups.sort_unstable();
        groups
    }
}

/// The nest of groups, each with its own nest.
pub fn over_groups(nests: Vec<Vec<Folded>>) -> Vec<Grouped> {
    let mut all = nests.into_iter().enumerate().map(|(group, nest)| of_group(nest, group));
    let first = all.next().unwrap_or_default();
    joined(all.fold(first, merge))
}

/// The nest of one of the groups.
pub fn of_one(nest: &[Grouped], group: usize) -> Vec<Folded> {
    let node = |node: &Grouped| match node {
        Nest::Leaf(places) => {
            let values = places.groups.iter().find(|(number, _)| *number == group)?.1.clone();
            Some(Nest::Leaf(Visits { skeleton: places.skeleton, values }))
        }
        Nest::Loop { count, body } => {
            let count = count.iter().find(|(number, _)| *number == group)?.1.clone();
            Some(Nest::Loop { count, body: of_one(body, group) })
        }
        Nest::Block(block) => Some(Nest::Block(*block)),
    };
    nest.iter().filter_map(node).collect()
}

/// The nest with one condition where several that hold at the same times follow each other.
fn joined(nest: Vec<Grouped>) -> Vec<Grouped> {
    let mut all: Vec<Grouped> = Vec::with_capacity(nest.len());
    for node in nest {
        let Nest::Loop { count, body } = node else {
            all.push(node);
            continue;
        };
        let is_condition = count.iter().all(|(_, trips)| is_condition(trips));
        match all.last_mut() {
            Some(Nest::Loop { count: last, body: before }) if is_condition && *last == count => {
                before.extend(body);
            }
            _ => all.push(Nest::Loop { count, body }),
        }
    }
    all.into_iter()
        .map(|node| match node {
            Nest::Loop { count, body } => Nest::Loop { count, body: joined(body) },
            node => node,
        })
        .collect()
}

fn of_group(body: Vec<Folded>, group: usize) -> Vec<Grouped> {
    let node = |node: Folded| match node {
        Nest::Leaf(visits) => {
            let groups = vec![(group, visits.values)];
            Nest::Leaf(Places { skeleton: visits.skeleton, groups })
        }
        Nest::Loop { count, body } => {
            Nest::Loop { count: vec![(group, count)], body: of_group(body, group) }
        }
        Nest::Block(block) => Nest::Block(block),
    };
    body.into_iter().map(node).collect()
}

fn merge(mut ours: Vec<Grouped>, mut theirs: Vec<Grouped>) -> Vec<Grouped> {
    wrap(&mut ours, &theirs, once);
    wrap(&mut theirs, &ours, once);
    let pairs = align(&ours, &theirs);
    weave(ours, theirs, &pairs, |node| match node {
        Woven::Ours(node) | Woven::Theirs(node) => node,
        Woven::Both(Nest::Leaf(mut ours), Nest::Leaf(theirs)) => {
            ours.groups.extend(theirs.groups);
            Nest::Leaf(ours)
        }
        Woven::Both(ours, theirs) => {
            let ((mut count, ours), (others, theirs)) = (into_loop(ours), into_loop(theirs));
            count.extend(others);
            Nest::Loop { count, body: merge(ours, theirs) }
        }
    })
}

/// One iteration for each visit of a body.
fn once(body: &[Grouped]) -> Vec<(usize, Seq<u64>)> {
    let mut counts: Vec<(usize, Seq<u64>)> = Vec::new();
    let mut add = |group: usize, visits: u64| {
        if counts.iter().all(|(known, _)| *known != group) {
            counts.push((group, Seq::run(1, visits)));
        }
    };
    for node in body {
        match node {
            Nest::Leaf(places) => {
                places.groups.iter().for_each(|(g, values)| add(*g, values.len()))
            }
            Nest::Loop { count, .. } => count.iter().for_each(|(g, trips)| add(*g, trips.len())),
            Nest::Block(_) => {}
        }
    }
    counts
}

fn into_loop(node: Grouped) -> (Vec<(usize, Seq<u64>)>, Vec<Grouped>) {
    match node {
        Nest::Loop { count, body } => (count, body),
        node => (once(std::slice::from_ref(&node)), vec![node]),
    }
}
