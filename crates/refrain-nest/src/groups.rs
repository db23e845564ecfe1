//! Aligns the nests of different groups of ranks (loop-agnostic merge, ScalaTrace II §3.4).
//!
//! Ranks at a border send less than ranks inside; still they are in the same loops. The alignment compares places only:
//! two loops become one even if their trip counts differ, and each group keeps its own trip counts and values. What
//! only some groups do has only their values: it is guarded by their ranks.

use crate::common::common_subsequence;
use crate::folded::{Folded, Place, Visits, is_condition};
use crate::merge::{SAME_LOOP, Woven, align, resemblance, tokens, weave, wrap};
use crate::seq::Seq;
use crate::{Nest, Options};
use std::collections::{HashMap, HashSet};
use std::hash::{DefaultHasher, Hash, Hasher};

/// Bodies with more nodes keep their order.
const MOST_REORDERED: usize = 256;
/// So many trip counts of two loops are compared.
const LONGEST: usize = 1 << 12;

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
    over_groups_with(nests, Options::default())
}

/// The same; without [`Options::agnostic`], only loops that are the same in all groups are merged.
pub fn over_groups_with(nests: Vec<Vec<Folded>>, options: Options) -> Vec<Grouped> {
    let mut all = nests.into_iter().enumerate().map(|(group, nest)| of_group(nest, group));
    let first = all.next().unwrap_or_default();
    joined(all.fold(first, if options.agnostic { merge } else { merge_whole }))
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
    // Not both: each would have the other's loops around its own, without end.
    if !enclose(&mut ours, &theirs) {
        enclose(&mut theirs, &ours);
    }
    wrap(&mut ours, &theirs, once);
    wrap(&mut theirs, &ours, once);
    reorder(&mut ours, &theirs);
    let pairs = align(&ours, &theirs, 1);
    weave(ours, theirs, &pairs, |node| match node {
        Woven::Ours(node) | Woven::Theirs(node) => node,
        Woven::Both(ours, theirs) => both(ours, theirs, &mut merge),
    })
}

/// Puts nodes into the order of `theirs`, so far as no group has another order: what only some groups do and what only
/// others do has no order yet.
fn reorder(ours: &mut Vec<Grouped>, theirs: &[Grouped]) {
    let (mine, others) = tokens(ours, theirs, 1);
    let mut places: HashMap<u64, usize> = HashMap::new();
    for (at, key) in others.iter().enumerate() {
        places.entry(*key).or_insert(at);
    }
    let wanted: Vec<Option<usize>> = mine.iter().map(|key| places.get(key).copied()).collect();
    if ours.len() > MOST_REORDERED || wanted.iter().flatten().is_sorted() {
        return;
    }
    let groups: Vec<Vec<usize>> = ours.iter().map(Grouped::groups).collect();
    let is_ordered = |a: usize, b: usize| groups[a].iter().any(|group| groups[b].contains(group));
    let mut left: Vec<usize> = (0..ours.len()).collect();
    let mut order = Vec::with_capacity(left.len());
    while let Some(first) = left.first().copied() {
        let mut next = vec![first];
        if wanted[first].is_some()
            && let Some(wish) =
                left.iter().copied().filter(|at| wanted[*at].is_some()).min_by_key(|at| wanted[*at])
        {
            // With everything that a group does before it.
            next = vec![wish];
            for before in left.iter().rev().copied().skip_while(|at| *at != wish).skip(1) {
                if next.iter().any(|later| is_ordered(before, *later)) {
                    next.push(before);
                }
            }
            next.reverse();
        }
        left.retain(|at| !next.contains(at));
        order.append(&mut next);
    }
    let mut nodes: Vec<Option<Grouped>> = std::mem::take(ours).into_iter().map(Some).collect();
    ours.extend(order.into_iter().filter_map(|at| nodes[at].take()));
}

/// Merges calls, and loops that are the same in both; loops with other trip counts or bodies stay apart (ScalaTrace II
/// §2.1).
fn merge_whole(ours: Vec<Grouped>, theirs: Vec<Grouped>) -> Vec<Grouped> {
    let (a, b): (Vec<u64>, Vec<u64>) =
        (ours.iter().map(whole).collect(), theirs.iter().map(whole).collect());
    let pairs = common_subsequence(&a, &b);
    weave(ours, theirs, &pairs, |node| match node {
        Woven::Ours(node) | Woven::Theirs(node) => node,
        Woven::Both(ours, theirs) => both(ours, theirs, &mut merge_whole),
    })
}

/// A hash of a node with its trip counts.
fn whole(node: &Grouped) -> u64 {
    match node {
        Nest::Loop { count, body } => {
            let mut hasher = DefaultHasher::new();
            if let Some((_, trips)) = count.first() {
                trips.iter().take(LONGEST).for_each(|trips| trips.hash(&mut hasher));
                (trips.len(), trips.sum()).hash(&mut hasher);
            }
            body.iter().for_each(|node| whole(node).hash(&mut hasher));
            hasher.finish()
        }
        node => node.key(),
    }
}

/// A node that both have.
fn both(
    ours: Grouped,
    theirs: Grouped,
    merge: &mut dyn FnMut(Vec<Grouped>, Vec<Grouped>) -> Vec<Grouped>,
) -> Grouped {
    match (ours, theirs) {
        (Nest::Leaf(mut ours), Nest::Leaf(theirs)) => {
            ours.groups.extend(theirs.groups);
            Nest::Leaf(ours)
        }
        (ours, theirs) => {
            let ((mut count, ours), (others, theirs)) = (into_loop(ours), into_loop(theirs));
            count.extend(others);
            Nest::Loop { count, body: merge(ours, theirs) }
        }
    }
}

/// Makes loops with one iteration of what `other` has in one loop: one group waits in each iteration, another one
/// after its loop (ScalaTrace II, figure 4). Returns whether it made any.
fn enclose(body: &mut Vec<Grouped>, other: &[Grouped]) -> bool {
    if !other.iter().any(is_loop_of_several) {
        return false;
    }
    let mut keys: Vec<u64> = body.iter().map(Nest::key).collect();
    let mut made = HashSet::new();
    // In how many nodes of `other` each skeleton is.
    let mut uses: Option<HashMap<u32, usize>> = None;
    for node in other {
        if !is_loop_of_several(node) || keys.contains(&node.key()) {
            continue;
        }
        let alike = body.iter().zip(&keys).map(|(ours, key)| match is_loop_of_several(ours) {
            true if !made.contains(key) => resemblance(ours, node),
            _ => 0,
        });
        let best = alike.enumerate().max_by_key(|(at, percent)| (*percent, usize::MAX - at));
        let Some((at, SAME_LOOP..)) = best else { continue };
        let inside = skeletons(std::slice::from_ref(node));
        let mut lacking = inside.clone();
        skeletons(&body[at..=at]).iter().for_each(|skeleton| {
            lacking.remove(skeleton);
        });
        if lacking.is_empty() {
            continue;
        }
        let uses = uses.get_or_insert_with(|| uses_of(other));
        let is_outside = |skeleton: &u32| {
            uses.get(skeleton).copied().unwrap_or(0) > usize::from(inside.contains(skeleton))
        };
        // The last node, going from the loop in one direction, that belongs to the other loop.
        let reach = |nodes: &mut dyn Iterator<Item = &Grouped>| {
            let all = nodes.map(|node| skeletons(std::slice::from_ref(node)));
            let near = all.take_while(|here| !here.iter().any(is_outside)).enumerate();
            near.filter(|(_, here)| !here.is_disjoint(&lacking)).map(|(at, _)| at + 1).last()
        };
        let after = reach(&mut body[at + 1..].iter()).unwrap_or(0);
        let before = reach(&mut body[..at].iter().rev()).unwrap_or(0);
        if before + after > 0 {
            let inner: Vec<Grouped> = body.splice(at - before..=at + after, []).collect();
            let node = Nest::Loop { count: once(&inner), body: inner };
            keys.splice(at - before..=at + after, [node.key()]);
            made.insert(node.key());
            body.insert(at - before, node);
        }
    }
    !made.is_empty()
}

/// In how many nodes of a body each skeleton is.
fn uses_of(body: &[Grouped]) -> HashMap<u32, usize> {
    let mut uses = HashMap::new();
    for skeleton in body.iter().flat_map(|node| skeletons(std::slice::from_ref(node))) {
        *uses.entry(skeleton).or_insert(0) += 1;
    }
    uses
}

fn is_loop_of_several(node: &Grouped) -> bool {
    matches!(node, Nest::Loop { body, .. } if body.len() > 1)
}

fn skeletons(body: &[Grouped]) -> HashSet<u32> {
    fn add(body: &[Grouped], out: &mut HashSet<u32>) {
        for node in body {
            match node {
                Nest::Leaf(places) => {
                    out.insert(places.skeleton);
                }
                Nest::Loop { body, .. } => add(body, out),
                Nest::Block(_) => {}
            }
        }
    }
    let mut all = HashSet::new();
    add(body, &mut all);
    all
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
