//! Merges the nests of different ranks (loop-agnostic merge, ScalaTrace II §3.4).
//!
//! As in `refrain_nest`, two loops become one even if their trip counts differ. Here values of ranks are counted, and
//! nests stay small, so that any number of ranks can be merged.

use super::place::{Place, What, sum};
use refrain_reader::refrain_nest::common_subsequence;
use std::collections::BTreeSet;
use std::hash::{DefaultHasher, Hash, Hasher};

/// Two loops are the same loop if so large a part of the smaller one's places, in percent, is in the other as well.
const SAME_LOOP: usize = 50;

/// The nest of the ranks of two nests. Vectors of more than `most` numbers are only counted.
pub(super) fn aligned(ours: Vec<Place>, theirs: Vec<Place>, most: u64) -> Vec<Place> {
    let (mine, others) = keys(&ours, &theirs);
    let mut pairs = common_subsequence(&mine, &others).into_iter().peekable();
    let mut out = Vec::with_capacity(ours.len().max(theirs.len()));
    let mut theirs = theirs.into_iter().enumerate();
    for (at, node) in ours.into_iter().enumerate() {
        let Some((_, other)) = pairs.next_if(|(mine, _)| *mine == at) else {
            out.push(node);
            continue;
        };
        for (number, theirs) in theirs.by_ref() {
            if number == other {
                out.push(joined(node, theirs, most));
                break;
            }
            out.push(theirs);
        }
    }
    out.extend(theirs.map(|(_, node)| node));
    out
}

/// Keys that are the same for nodes that stand for the same place. A loop of `theirs` that resembles one of `ours` gets its
/// key.
fn keys(ours: &[Place], theirs: &[Place]) -> (Vec<u64>, Vec<u64>) {
    let key = |places: &BTreeSet<u32>| {
        let mut hasher = DefaultHasher::new();
        places.hash(&mut hasher);
        hasher.finish()
    };
    let sets = |body: &[Place]| body.iter().map(Place::skeletons).collect::<Vec<_>>();
    let (mine, others) = (sets(ours), sets(theirs));
    let keys: Vec<u64> = mine.iter().map(key).collect();
    let is_loop = |node: &Place| matches!(node.what, What::Loop { .. });
    let of = |(set, node): (&BTreeSet<u32>, &Place)| {
        let own = key(set);
        if keys.contains(&own) || !is_loop(node) {
            return own;
        }
        let alike = |at: usize| {
            let common = mine[at].intersection(set).count();
            common * 100 / mine[at].len().min(set.len()).max(1)
        };
        let loops = (0..ours.len()).filter(|at| is_loop(&ours[*at]));
        let best = loops.map(|at| (alike(at), usize::MAX - at)).max();
        match best {
            Some((percent, at)) if percent >= SAME_LOOP => keys[usize::MAX - at],
            _ => own,
        }
    };
    let others = others.iter().zip(theirs).map(of).collect();
    (keys, others)
}

/// A node that both have.
fn joined(ours: Place, theirs: Place, most: u64) -> Place {
    let visits = sum(&ours.visits, &theirs.visits);
    let what = match (ours.what, theirs.what) {
        (What::Call(mut ours), What::Call(theirs)) => {
            ours.absorb(*theirs, &mut |ours, theirs| ours.join(theirs, most));
            What::Call(ours)
        }
        (
            What::Loop { is_condition, mut trips, mut body },
            What::Loop { is_condition: other_is, trips: others, body: mut theirs },
        ) => {
            trips.join(&others, most);
            if is_condition != other_is {
                // Formulas of indices of inner loops number the loops around them.
                body.iter_mut().chain(&mut theirs).for_each(Place::forget_visits);
            }
            let is_condition = is_condition && other_is;
            What::Loop { is_condition, trips, body: aligned(body, theirs, most) }
        }
        (call @ What::Call(_), what) => {
            let call = Place { visits: ours.visits, what: call }.once();
            return joined(call, Place { visits: theirs.visits, what }, most);
        }
        (what, call) => {
            let call = Place { visits: theirs.visits, what: call }.once();
            return joined(Place { visits: ours.visits, what }, call, most);
        }
    };
    Place { visits, what }
}
