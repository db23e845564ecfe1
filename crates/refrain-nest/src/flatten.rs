//! A loop over a loop and one more call, as one loop with a condition.
//!
//! `for 10 { for 10 { B } C }` and `for 100 { B; if i mod 10 == 9 { C } }` execute the same calls. If the iterations of
//! the inner loop are alike, programs are mostly of the second kind: C reduces a norm every tenth step. If they
//! differ, the inner loop is one over dimensions, levels or neighbours, and stays. A long inner loop stays as well.

use crate::Nest;
use crate::folded::Folded;
use crate::merge;
use crate::seq::Seq;

/// Inner loops with more iterations stay.
const MOST_TRIPS: u64 = 128;
/// Vectors are searched for patterns up to this length.
const LONGEST_PATTERN: usize = 1 << 12;

/// The nest with one loop instead of two where the inner one has iterations that are alike, and one call follows it.
pub(crate) fn flattened(body: Vec<Folded>) -> Vec<Folded> {
    let mut all: Vec<Folded> = Vec::with_capacity(body.len());
    for node in body {
        let node = match node {
            Nest::Loop { count, body } => one_loop(count, flattened(body)),
            node => node,
        };
        match all.pop_if(|last| continues(last, &node)) {
            Some(last) => all.push(merge::run(last, node)),
            None => all.push(node),
        }
    }
    all
}

/// One loop of two, or the loop as it was.
fn one_loop(count: Seq<u64>, mut body: Vec<Folded>) -> Folded {
    let every = match body.as_slice() {
        [Nest::Loop { count: trips, body: inner }, Nest::Leaf(_)]
            if inner.iter().map(Nest::places).sum::<usize>() > 1 =>
        {
            trips
                .constant()
                .filter(|every| (4..=MOST_TRIPS).contains(every) && is_alike(inner, *every))
        }
        _ => None,
    };
    let (Some(every), Some(call)) = (every, every.and_then(|_| body.pop())) else {
        return Nest::Loop { count, body };
    };
    let Some(Nest::Loop { body: mut inner, .. }) = body.pop() else {
        return Nest::Loop { count, body: vec![call] };
    };
    let mut holds = Seq::run(0, every - 1);
    holds.push(1, 1);
    inner.push(Nest::Loop { count: holds.repeat(count.sum()), body: vec![call] });
    Nest::Loop { count: count.map(|trips| trips * every), body: inner }
}

/// Whether the iterations of a loop with so many of them are alike: all vectors have a pattern that recurs within the loop.
fn is_alike(body: &[Folded], trips: u64) -> bool {
    let recurs = |length: Option<usize>| length.is_some_and(|length| 2 * length as u64 <= trips);
    body.iter().all(|node| match node {
        Nest::Leaf(visits) => {
            recurs(visits.values.pattern(LONGEST_PATTERN).map(|(values, _)| values.len()))
        }
        Nest::Loop { count, body } => match count.constant() {
            Some(inner) => is_alike(body, trips.saturating_mul(inner)),
            None => recurs(count.pattern(LONGEST_PATTERN).map(|(counts, _)| counts.len())),
        },
        Nest::Block(_) => true,
    })
}

/// Whether a loop continues the one before it: the steps after the last one in which its condition holds. Both
/// are executed once.
fn continues(last: &Folded, node: &Folded) -> bool {
    let (Nest::Loop { count, body }, Nest::Loop { count: others, body: rest }) = (last, node)
    else {
        return false;
    };
    let [inner @ .., Nest::Loop { count: holds, .. }] = body.as_slice() else { return false };
    let is_condition = holds.constant().is_none() && holds.len() > holds.sum();
    let is_same =
        inner.len() == rest.len() && inner.iter().zip(rest).all(|(a, b)| a.key() == b.key());
    is_condition && is_same && inner.len() > 1 && count.len() == 1 && others.len() == 1
}
