//! Merges iterations that match only partially (ScalaTrace II §3.2.1).
//!
//! A call after the same call as before may begin a new iteration. Two such stretches that follow each other become a
//! loop if they resemble each other. Short stretches are tried first, so that inner loops are found before the loops
//! around them; great resemblance is tried before little.

use crate::Nest;
use crate::common::common_subsequence;
use crate::folded::{Folded, mix};
use crate::heads::Heads;
use crate::merge::{merge, run};
use crate::seq::Seq;
use std::collections::{HashMap, HashSet};

/// A longer stretch is no iteration.
const LONGEST: usize = 1 << 11;
/// The search is given up after looking at so many nodes.
const MOST_WORK: usize = 1 << 26;

/// How much two iterations must have in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Demand {
    /// All places.
    All,
    /// All places of the smaller one, and a quarter of those of the larger one; they begin and end with the same place.
    Smaller,
    /// So many percent of the places of the larger one.
    OfLarger(usize),
    /// So many percent of the places of the smaller one; they begin and end with the same place.
    OfSmaller(usize),
}

const DEMANDS: [Demand; 4] =
    [Demand::Smaller, Demand::All, Demand::OfLarger(70), Demand::OfSmaller(50)];

/// Merges iterations until none is left that resembles its neighbour.
pub(crate) fn merge_all(list: Vec<Folded>, heads: Option<&Heads>) -> Vec<Folded> {
    let mut search = Search { work: 0, heads, ..Search::of(list) };
    for demand in DEMANDS {
        let mut failed = HashSet::new();
        while search.work < MOST_WORK && search.merge_one(demand, &mut failed) {}
    }
    search.list
}

/// Merges only iterations that are contained in their neighbour.
pub(crate) fn merge_contained(list: Vec<Folded>, heads: Option<&Heads>) -> Vec<Folded> {
    let mut search = Search { work: 0, heads, ..Search::of(list) };
    let mut failed = HashSet::new();
    while search.work < MOST_WORK && search.merge_one(Demand::Smaller, &mut failed) {}
    search.list
}

struct Search<'h> {
    list: Vec<Folded>,
    keys: Vec<u64>,
    /// The keys of the first calls.
    firsts: Vec<u64>,
    work: usize,
    /// Where iterations begin; anywhere if it is not known.
    heads: Option<&'h Heads>,
}

impl<'h> Search<'h> {
    fn of(list: Vec<Folded>) -> Search<'h> {
        let keys = list.iter().map(Folded::key).collect();
        let firsts = list.iter().map(Folded::first_key).collect();
        Search { list, keys, firsts, work: 0, heads: None }
    }
}

/// Stretches that may be iterations of one loop.
#[derive(Clone, Copy, Debug)]
enum Candidate {
    /// Two stretches: where each begins, and where the second ends.
    Pair(usize, usize, usize),
    /// A loop, and the stretch from the node after it to a position.
    After(usize, usize),
    /// A stretch from a position to a loop.
    Before(usize, usize),
    /// A loop and the loop after it.
    Loops(usize),
}

impl Candidate {
    fn length(&self) -> usize {
        match *self {
            Candidate::Pair(first, second, _) => second - first,
            Candidate::After(at, end) => end - at - 1,
            Candidate::Before(from, at) => at - from,
            Candidate::Loops(_) => 1,
        }
    }
}

impl Search<'_> {
    /// Merges the shortest stretches that meet the demand.
    fn merge_one(&mut self, demand: Demand, failed: &mut HashSet<u64>) -> bool {
        let mut candidates = self.candidates();
        candidates.sort_by_key(Candidate::length);
        for candidate in candidates {
            let name = self.name(candidate);
            if failed.contains(&name) {
                continue;
            }
            if let Some(at) = self.try_merge(candidate, demand) {
                self.extend(at, demand);
                return true;
            }
            failed.insert(name);
            if self.work > MOST_WORK {
                break;
            }
        }
        false
    }

    /// Adds the iterations that follow a loop.
    fn extend(&mut self, at: usize, demand: Demand) {
        let mut again = true;
        while again && self.work < MOST_WORK {
            again = self
                .after(at)
                .into_iter()
                .any(|candidate| self.try_merge(candidate, demand).is_some());
        }
    }

    /// The hash of a candidate: it need not be tried twice.
    fn name(&self, candidate: Candidate) -> u64 {
        let (from, middle, to) = match candidate {
            Candidate::Pair(first, second, end) => (first, second, end),
            Candidate::After(at, end) => (at, at + 1, end),
            Candidate::Before(from, at) => (from, at, at + 1),
            Candidate::Loops(at) => (at, at + 1, at + 2),
        };
        let keys = self.keys[from..to].iter();
        keys.fold(mix((middle - from) as u64), |hash, key| mix(hash ^ key))
    }

    fn candidates(&self) -> Vec<Candidate> {
        let mut all = Vec::new();
        // For each key, its next position behind the current one.
        let mut next: HashMap<u64, (usize, Option<usize>)> = HashMap::new();
        for at in (0..self.keys.len()).rev() {
            let key = self.firsts[at];
            let known = next.get(&key).copied();
            if let Some((second, third)) = known
                && self.keys[at] == self.keys[second]
            {
                let length = second - at;
                let is_head = self.heads.is_none_or(|heads| self.list[at].begins_in(heads));
                if is_head && (2..=LONGEST).contains(&length) {
                    let end = self.end_of(second, third, length, self.keys[second - 1]);
                    all.extend(end.map(|end| Candidate::Pair(at, second, end)));
                }
            }
            next.insert(key, (at, known.map(|(second, _)| second)));
            if let Nest::Loop { body, .. } = &self.list[at]
                && body.len() > 1
            {
                if let Some(Nest::Loop { body: other, .. }) = self.list.get(at + 1)
                    && other.len() > 1
                    && body.first().map(Folded::key) == other.first().map(Folded::key)
                {
                    all.push(Candidate::Loops(at));
                }
                all.extend(self.after(at));
                all.extend(self.before(at, body));
            }
        }
        all
    }

    /// Where the iteration that begins at `from` may end: before the next one, if that is not far, or behind the
    /// node with the key `last` that makes it most like the iteration before.
    fn end_of(&self, from: usize, next: Option<usize>, length: usize, last: u64) -> Option<usize> {
        let most = (from + 2 * length + 8).min(self.keys.len());
        if let Some(next) = next.filter(|next| *next <= most) {
            return Some(next);
        }
        let expected = from + length;
        let ends = (from + 1..=most).filter(|end| self.keys[end - 1] == last);
        ends.min_by_key(|end| end.abs_diff(expected))
    }

    fn after(&self, at: usize) -> Option<Candidate> {
        let Nest::Loop { body, .. } = self.list.get(at)? else { return None };
        let (first, last) = (body.first()?.key(), body.last()?.key());
        let from = at + 1;
        if body.len() < 2 || *self.keys.get(from)? != first {
            return None;
        }
        let most = (from + 2 * body.len() + 8).min(self.keys.len());
        let head = self.firsts[from];
        let next = (from + 1..most).find(|at| self.firsts[*at] == head);
        Some(Candidate::After(at, self.end_of(from, next, body.len(), last)?))
    }

    fn before(&self, at: usize, body: &[Folded]) -> Option<Candidate> {
        let (first, last) = (body.first()?.key(), body.last()?.key());
        if at == 0 || self.keys[at - 1] != last {
            return None;
        }
        let least = at.saturating_sub(2 * body.len() + 8);
        let head = self.firsts[at];
        let from = (least..at).rev().find(|from| self.firsts[*from] == head)?;
        (self.keys[from] == first).then_some(Candidate::Before(from, at))
    }

    /// Merges a candidate if it meets the demand; returns the position of the loop.
    fn try_merge(&mut self, candidate: Candidate, demand: Demand) -> Option<usize> {
        let (from, to) = match candidate {
            Candidate::Pair(first, _, end) => (first, end),
            Candidate::After(at, end) => (at, end),
            Candidate::Before(from, at) => (from, at + 1),
            Candidate::Loops(at) => (at, at + 2),
        };
        let is_match = match candidate {
            Candidate::Pair(first, second, end) => {
                let (ours, theirs) = (&self.list[first..second], &self.list[second..end]);
                resembles(ours, theirs, demand, &mut self.work)
            }
            Candidate::Loops(at) => {
                let (Nest::Loop { body: ours, .. }, Nest::Loop { body: theirs, .. }) =
                    (&self.list[at], &self.list[at + 1])
                else {
                    return None;
                };
                resembles(ours, theirs, demand, &mut self.work)
            }
            Candidate::After(at, _) | Candidate::Before(_, at) => {
                let Nest::Loop { body, .. } = &self.list[at] else { return None };
                let other = match candidate {
                    Candidate::After(..) => &self.list[at + 1..to],
                    _ => &self.list[from..at],
                };
                resembles(body, other, demand, &mut self.work)
            }
        };
        if !is_match {
            return None;
        }
        let mut nodes: Vec<Folded> = self.list.splice(from..to, []).collect();
        let node = match candidate {
            Candidate::Pair(first, second, _) => {
                let theirs = nodes.split_off(second - first);
                Nest::Loop { count: Seq::run(2, 1), body: merge(nodes, 1, theirs, 1) }
            }
            Candidate::After(..) => {
                let theirs = nodes.split_off(1);
                let (count, body) = nodes.pop()?.into_loop();
                let trips = count.sum();
                Nest::Loop { count: Seq::run(trips + 1, 1), body: merge(body, trips, theirs, 1) }
            }
            Candidate::Loops(_) => {
                let theirs = nodes.pop()?;
                run(nodes.pop()?, theirs)
            }
            Candidate::Before(..) => {
                let (count, body) = nodes.pop()?.into_loop();
                let trips = count.sum();
                Nest::Loop { count: Seq::run(trips + 1, 1), body: merge(nodes, 1, body, trips) }
            }
        };
        let (key, first) = (node.key(), node.first_key());
        self.list.insert(from, node);
        self.keys.splice(from..to, [key]);
        self.firsts.splice(from..to, [first]);
        Some(from)
    }
}

/// Whether two stretches meet the demand. Loops are ignored: only the order of the places counts.
fn resembles(ours: &[Folded], theirs: &[Folded], demand: Demand, work: &mut usize) -> bool {
    let (mut a, mut b) = (Vec::new(), Vec::new());
    skeletons(ours, &mut a);
    skeletons(theirs, &mut b);
    *work += a.len() + b.len();
    let (larger, smaller) = (a.len().max(b.len()), a.len().min(b.len()));
    let least = match demand {
        Demand::All => larger,
        Demand::OfLarger(percent) => (larger * percent).div_ceil(100),
        Demand::Smaller => smaller.max(larger.div_ceil(4)),
        Demand::OfSmaller(percent) => (smaller * percent).div_ceil(100).max(larger / 8),
    };
    let has_same_ends = a.first() == b.first() && a.last() == b.last();
    if matches!(demand, Demand::Smaller | Demand::OfSmaller(_)) && !has_same_ends {
        return false;
    }
    if smaller < least || most_common(&a, &b) < least {
        return false;
    }
    *work += a.len() * b.len() / 8;
    common_subsequence(&a, &b).len() >= least
}

fn skeletons(body: &[Folded], out: &mut Vec<u32>) {
    for node in body {
        match node {
            Nest::Leaf(visits) => out.push(visits.skeleton),
            Nest::Loop { body, .. } => skeletons(body, out),
            Nest::Block(_) => {}
        }
    }
}

/// How many places two stretches can have in common at most: those of the same skeleton, in any order.
fn most_common(ours: &[u32], theirs: &[u32]) -> usize {
    let mut left: HashMap<u32, usize> = HashMap::new();
    ours.iter().for_each(|skeleton| *left.entry(*skeleton).or_default() += 1);
    let is_common = |skeleton: &&u32| match left.get_mut(*skeleton) {
        Some(left) if *left > 0 => {
            *left -= 1;
            true
        }
        _ => false,
    };
    theirs.iter().filter(is_common).count()
}
