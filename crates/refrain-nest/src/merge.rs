//! Merges the nests of two stretches of a program into one nest (ScalaTrace II §3.2.1).
//!
//! Nodes of the two that stand for the same place are paired by a longest common subsequence. The value vectors and
//! trip counts of a pair are concatenated. A node without a partner becomes a condition: its trip counts are 0 in the
//! stretch that does not have it.

use crate::Nest;
use crate::common::common_subsequence;
use crate::folded::{Folded, Place};
use crate::seq::Seq;
use std::collections::HashMap;

/// Two loops are the same loop if so large a part of the smaller one's places, in percent, is in the other as well.
pub(crate) const SAME_LOOP: usize = 50;

/// Keys under which nodes can be paired: a loop of `theirs` over at least so many nodes that resembles a loop of `ours` gets the key of that.
pub(crate) fn tokens<L: Place, C>(
    ours: &[Nest<L, C>],
    theirs: &[Nest<L, C>],
    least: usize,
) -> (Vec<u64>, Vec<u64>) {
    let mine: Vec<u64> = ours.iter().map(Nest::key).collect();
    let mut others: Vec<u64> = theirs.iter().map(Nest::key).collect();
    let is_long =
        |node: &Nest<L, C>| matches!(node, Nest::Loop { body, .. } if body.len() >= least);
    let known: Vec<usize> = (0..ours.len()).filter(|at| is_long(&ours[*at])).collect();
    if known.is_empty() {
        return (mine, others);
    }
    for (at, node) in theirs.iter().enumerate().filter(|(_, node)| is_long(node)) {
        if mine.contains(&others[at]) {
            continue;
        }
        let best = known.iter().map(|mine| (resemblance(&ours[*mine], node), *mine));
        if let Some((percent, best)) = best.max_by_key(|(percent, at)| (*percent, usize::MAX - at))
            && percent >= SAME_LOOP
        {
            others[at] = mine[best];
        }
    }
    (mine, others)
}

/// How many of the smaller node's places the other has, too, in percent; the order is ignored.
pub(crate) fn resemblance<L: Place, C>(a: &Nest<L, C>, b: &Nest<L, C>) -> usize {
    fn skeletons<L: Place, C>(node: &Nest<L, C>, count: &mut HashMap<u32, isize>, step: isize) {
        match node {
            Nest::Leaf(leaf) => *count.entry(leaf.skeleton()).or_default() += step,
            Nest::Loop { body, .. } => body.iter().for_each(|node| skeletons(node, count, step)),
            Nest::Block(_) => {}
        }
    }
    let mut count = HashMap::new();
    skeletons(a, &mut count, 1);
    let places = count.values().sum::<isize>();
    skeletons(b, &mut count, -1);
    let lacking: isize = count.values().filter(|count| **count > 0).sum();
    let common = (places - lacking).max(0) as usize;
    common * 100 / a.places().min(b.places()).max(1)
}

/// Pairs the nodes of two bodies. Loops over at least so many nodes need not have the same body.
pub(crate) fn align<L: Place, C>(
    ours: &[Nest<L, C>],
    theirs: &[Nest<L, C>],
    least: usize,
) -> Vec<(usize, usize)> {
    if has_same_keys(ours, theirs) {
        return (0..ours.len()).map(|at| (at, at)).collect();
    }
    let (a, b) = tokens(ours, theirs, least);
    embedding(&a, &b).unwrap_or_else(|| common_subsequence(&a, &b))
}

/// All of `b` in `a`, in order, if it is.
fn embedding(a: &[u64], b: &[u64]) -> Option<Vec<(usize, usize)>> {
    let mut pairs = Vec::with_capacity(b.len());
    let mut from = 0;
    for (j, token) in b.iter().enumerate() {
        let i = from + a[from..].iter().position(|other| other == token)?;
        pairs.push((i, j));
        from = i + 1;
    }
    Some(pairs)
}

/// Appends the visits of `b` to those of `a`, which is the same place.
pub(crate) fn join(a: Folded, b: Folded) -> Folded {
    match (a, b) {
        (Nest::Leaf(mut a), Nest::Leaf(b)) => {
            a.values.append(b.values);
            Nest::Leaf(a)
        }
        (a, b) => {
            let ((mut count, ours), (others, theirs)) = (a.into_loop(), b.into_loop());
            let (mine, rest) = (iterations(&ours), iterations(&theirs));
            let body = merge(ours, mine, theirs, rest);
            count.append(others);
            Nest::Loop { count, body }
        }
    }
}

/// A node and then another, which is the same place, as one loop; both are executed once.
pub(crate) fn run(a: Folded, b: Folded) -> Folded {
    let ((mine, ours), (others, theirs)) = (a.into_loop(), b.into_loop());
    let (mine, others) = (mine.sum(), others.sum());
    Nest::Loop { count: Seq::run(mine + others, 1), body: merge(ours, mine, theirs, others) }
}

/// How often a body is executed: the sum of the trip counts, in constant time.
fn iterations(body: &[Folded]) -> u64 {
    body.first().map_or(0, Folded::visits)
}

/// Appends `theirs`, a body of `others` iterations, to `ours`, a body of `mine` iterations.
pub(crate) fn merge(
    ours: Vec<Folded>,
    mine: u64,
    mut theirs: Vec<Folded>,
    others: u64,
) -> Vec<Folded> {
    // A node that `theirs` has as a loop may be written out in `ours`, or the other way round.
    let mut ours = ours;
    if !has_same_keys(&ours, &theirs) {
        let once = |body: &[Folded]| Seq::run(1, body.first().map_or(0, Folded::visits));
        wrap(&mut ours, &theirs, once);
        wrap(&mut theirs, &ours, once);
    }
    let pairs = align(&ours, &theirs, 2);
    weave(ours, theirs, &pairs, |node| match node {
        Woven::Both(ours, theirs) => join(ours, theirs),
        Woven::Ours(node) => then_never(node, others),
        Woven::Theirs(node) => never_then(node, mine),
    })
}

/// A node of two aligned bodies.
pub(crate) enum Woven<N> {
    /// Both have it.
    Both(N, N),
    /// Only the first body has it.
    Ours(N),
    /// Only the second one has it.
    Theirs(N),
}

/// One body of two, in an order that both agree with.
pub(crate) fn weave<N>(
    ours: Vec<N>,
    theirs: Vec<N>,
    pairs: &[(usize, usize)],
    mut node: impl FnMut(Woven<N>) -> N,
) -> Vec<N> {
    let mut body = Vec::with_capacity(ours.len().max(theirs.len()));
    let (mut a, mut b) = (ours.into_iter(), theirs.into_iter());
    let (mut before_a, mut before_b) = (0, 0);
    for (x, y) in pairs {
        body.extend(a.by_ref().take(x - before_a).map(|one| node(Woven::Ours(one))));
        body.extend(b.by_ref().take(y - before_b).map(|one| node(Woven::Theirs(one))));
        if let (Some(ours), Some(theirs)) = (a.next(), b.next()) {
            body.push(node(Woven::Both(ours, theirs)));
        }
        (before_a, before_b) = (x + 1, y + 1);
    }
    body.extend(a.map(|one| node(Woven::Ours(one))));
    body.extend(b.map(|one| node(Woven::Theirs(one))));
    body
}

fn has_same_keys<L: Place, C>(ours: &[Nest<L, C>], theirs: &[Nest<L, C>]) -> bool {
    ours.len() == theirs.len() && ours.iter().zip(theirs).all(|(a, b)| a.key() == b.key())
}

/// The node, and then `visits` visits without an iteration.
fn then_never(node: Folded, visits: u64) -> Folded {
    let (mut count, body) = node.into_loop();
    count.push(0, visits);
    Nest::Loop { count, body }
}

/// `visits` visits without an iteration, and then the node.
fn never_then(node: Folded, visits: u64) -> Folded {
    let (count, body) = node.into_loop();
    let mut all = Seq::run(0, visits);
    all.append(count);
    Nest::Loop { count: all, body }
}

/// Makes loops with one iteration of the stretches of `body` that have the form of the body of a loop in `other`.
pub(crate) fn wrap<L: Place, C>(
    body: &mut Vec<Nest<L, C>>,
    other: &[Nest<L, C>],
    once: impl Fn(&[Nest<L, C>]) -> C,
) {
    for node in other {
        let Nest::Loop { body: pattern, .. } = node else { continue };
        if pattern.len() < 2 {
            continue;
        }
        let key = node.key();
        if body.iter().any(|node| node.key() == key) {
            continue;
        }
        let pattern: Vec<u64> = pattern.iter().map(Nest::key).collect();
        let keys: Vec<u64> = body.iter().map(Nest::key).collect();
        let Some(at) = keys.windows(pattern.len()).position(|some| some == pattern) else {
            continue;
        };
        let inner: Vec<Nest<L, C>> = body.splice(at..at + pattern.len(), []).collect();
        body.insert(at, Nest::Loop { count: once(&inner), body: inner });
    }
}
