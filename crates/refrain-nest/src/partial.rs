//! Merges iterations that match only partially (ScalaTrace II §3.2.1).
//!
//! A call after the same call as before may begin a new iteration. Two such stretches that follow each other become a
//! loop if they resemble each other. Short stretches are tried first, so that inner loops are found before the loops
//! around them; great resemblance is tried before little.

use crate::Nest;
use crate::common::common_subsequence;
use crate::folded::{Folded, gcd, mix};
use crate::heads::Heads;
use crate::merge::merge;
use crate::seq::Seq;
use crate::stretches::{BASE, KeyMap, Keys};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// A longer stretch is no iteration.
const LONGEST: usize = 1 << 11;
/// Bodies that are executed more often, each time in another way, are left alone.
const MOST_VISITS: u64 = 1 << 12;
/// Longer lists are searched in parts of this length.
const WINDOW: usize = 1 << 12;
/// What a search may do in short sequences.
const FIRST_WORK: usize = 1 << 22;
/// What it may do for each call of a long one.
const WORK_PER_CALL: usize = 4;
/// What a search inside of a loop may do.
const INNER_WORK: usize = 1 << 20;

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

/// What [`merge_all`] has done.
pub(crate) struct Merged {
    pub(crate) list: Vec<Folded>,
    /// From which position on the list has changed; none if it is as before.
    pub(crate) changed: Option<usize>,
    /// So many nodes at the beginning have been searched in vain: another search would find nothing.
    pub(crate) searched: usize,
}

/// Merges iterations until none is left that resembles its neighbour, or until so much work is done. Long lists are cut.
/// The first nodes, so many, have been searched before.
pub(crate) fn merge_all(
    mut list: Vec<Folded>,
    searched: usize,
    heads: Option<&Heads>,
    work: &Work,
) -> Merged {
    let mut searched = searched / WINDOW * WINDOW;
    let search = |window: Vec<Folded>| {
        let nodes = window.len();
        let mut search = Search { heads, ..Search::of(window, work.left()) };
        search.merge_by_all_demands();
        work.spend(search.work);
        (search.list, nodes == WINDOW && search.work < search.most)
    };
    // As long as nothing is found, nodes stay where they are.
    let mut at = searched;
    while at < list.len() && work.left() > 0 {
        let end = (at + WINDOW).min(list.len());
        let nodes = list[at..end].iter_mut();
        let window = nodes.map(|node| std::mem::replace(node, Nest::Block(0))).collect();
        let (mut found, is_complete) = search(window);
        // Whatever is merged makes the list shorter.
        if found.len() < end - at {
            let mut rest = list.split_off(end).into_iter();
            list.truncate(at);
            list.append(&mut found);
            while rest.len() > 0 && work.left() > 0 {
                let (mut found, _) = search(rest.by_ref().take(WINDOW).collect());
                list.append(&mut found);
            }
            list.extend(rest);
            return Merged { list, changed: Some(at), searched };
        }
        list[at..end].iter_mut().zip(found).for_each(|(slot, node)| *slot = node);
        if is_complete && searched == at {
            searched = end;
        }
        at = end;
    }
    Merged { list, changed: None, searched }
}

/// How much a search may still do, in steps of about fifty nanoseconds.
#[derive(Clone, Debug)]
pub(crate) struct Work(Arc<AtomicUsize>);

impl Default for Work {
    fn default() -> Work {
        Work(Arc::new(AtomicUsize::new(FIRST_WORK)))
    }
}

impl Work {
    /// Another call has come. A single thread folds: nothing comes between.
    pub(crate) fn earn(&self) {
        self.0.store(self.left().saturating_add(WORK_PER_CALL), Ordering::Relaxed);
    }

    fn left(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }

    fn spend(&self, work: usize) {
        self.0.store(self.left().saturating_sub(work), Ordering::Relaxed);
    }
}

/// Merges iterations in the bodies of all loops, innermost first. What the loop around them does in all its iterations is
/// merged at once.
pub(crate) fn merge_inside(list: Vec<Folded>, heads: Option<&Heads>) -> Vec<Folded> {
    let inside = |node: Folded| match node {
        Nest::Loop { count, body } => {
            let body = merge_inside(body, heads);
            let iterations = count.sum();
            Nest::Loop { count, body: merge_body(body, iterations, heads) }
        }
        node => node,
    };
    list.into_iter().map(inside).collect()
}

/// Merges iterations in a body that is executed so many times.
fn merge_body(mut body: Vec<Folded>, iterations: u64, heads: Option<&Heads>) -> Vec<Folded> {
    let mut keys: Vec<u64> = body.iter().map(Folded::key).collect();
    keys.sort_unstable();
    if iterations == 0 || keys.windows(2).all(|pair| pair[0] != pair[1]) {
        return body;
    }
    // Only so many executions are looked at that all others repeat them.
    let repeats = body.iter().fold(iterations, |all, node| gcd(all, node.repeats()));
    let visits = iterations / repeats;
    if visits > MOST_VISITS {
        return body;
    }
    if repeats > 1 {
        body.iter_mut().for_each(|node| drop(node.split_off(visits)));
    }
    let mut search = Search { heads, visits, ..Search::of(body, INNER_WORK) };
    search.merge_by_all_demands();
    search.list.into_iter().map(|node| node.repeat(repeats)).collect()
}

/// Merges two bodies of which each execution has one of the first and then one of the second. The numbers of
/// iterations of both are given for each execution.
fn merge_each(
    mut ours: Vec<Folded>,
    mine: Seq<u64>,
    mut theirs: Vec<Folded>,
    others: Seq<u64>,
) -> Vec<Folded> {
    if mine.len() <= 1 {
        return merge(ours, mine.sum(), theirs, others.sum());
    }
    let first = |body: &mut Vec<Folded>, count: u64| -> Vec<Folded> {
        let rest = body.iter_mut().map(|node| node.split_off(count)).collect();
        std::mem::replace(body, rest)
    };
    let mut all: Option<Vec<Folded>> = None;
    for (mine, others) in mine.iter().zip(others.iter()) {
        let (a, b) = (first(&mut ours, mine), first(&mut theirs, others));
        let merged = merge(a, mine, b, others);
        match &mut all {
            None => all = Some(merged),
            Some(all) => all.iter_mut().zip(merged).for_each(|(node, next)| node.append(next)),
        }
    }
    all.unwrap_or_default()
}

/// Merges only iterations that are contained in their neighbour.
pub(crate) fn merge_contained(list: Vec<Folded>, heads: Option<&Heads>) -> Vec<Folded> {
    let mut search = Search { heads, ..Search::of(list, INNER_WORK) };
    let mut failed = Keys::default();
    while search.work < search.most && search.merge_one(Demand::Smaller, &mut failed) {}
    search.list
}

/// The hash of the keys before each position.
fn hashes_of(keys: &[u64]) -> Vec<u64> {
    let mut hash = 0u64;
    let next = keys.iter().map(|key| {
        hash = hash.wrapping_mul(BASE).wrapping_add(mix(*key));
        hash
    });
    std::iter::once(0).chain(next).collect()
}

struct Search<'h> {
    list: Vec<Folded>,
    keys: Vec<u64>,
    /// For each position, the hash of the keys before it when candidates were last collected.
    hashes: Vec<u64>,
    /// The candidates of the list as it is, the shortest first.
    collected: Option<Vec<Candidate>>,
    /// The keys of the first calls.
    firsts: Vec<u64>,
    /// What has been done, and the most that may be done.
    work: usize,
    most: usize,
    /// Where iterations begin; anywhere if it is not known.
    heads: Option<&'h Heads>,
    /// How often the list is executed.
    visits: u64,
}

impl<'h> Search<'h> {
    fn of(list: Vec<Folded>, most: usize) -> Search<'h> {
        let keys = list.iter().map(Folded::key).collect();
        let firsts = list.iter().map(Folded::first_key).collect();
        let (hashes, collected) = (Vec::new(), None);
        Search { list, keys, hashes, collected, firsts, work: 0, most, heads: None, visits: 1 }
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
    fn merge_by_all_demands(&mut self) {
        for demand in DEMANDS {
            let mut failed = Keys::default();
            while self.work < self.most && self.merge_one(demand, &mut failed) {}
        }
    }

    /// Merges the shortest stretches that meet the demand.
    fn merge_one(&mut self, demand: Demand, failed: &mut Keys) -> bool {
        let candidates = self.collected.take().unwrap_or_else(|| {
            self.work += self.list.len();
            self.hashes = hashes_of(&self.keys);
            let mut candidates = self.candidates();
            candidates.sort_by_key(Candidate::length);
            candidates
        });
        for candidate in &candidates {
            let name = self.name(*candidate);
            if failed.contains(&name) {
                continue;
            }
            if let Some(at) = self.try_merge(*candidate, demand) {
                self.extend(at, demand);
                return true;
            }
            failed.insert(name);
            if self.work > self.most {
                break;
            }
        }
        self.collected = Some(candidates);
        false
    }

    /// Adds the iterations that follow a loop.
    fn extend(&mut self, at: usize, demand: Demand) {
        let Some(Nest::Loop { count, body }) = self.list.get_mut(at) else { return };
        let (mut count, mut body) = (std::mem::take(count), std::mem::take(body));
        let from = at + 1;
        let mut end = from;
        while self.work < self.most
            && let Some(to) = self.iteration(&body, end)
            && resembles(&body, &self.list[end..to], demand, &mut self.work)
        {
            self.work += body.len() / 4;
            let nodes = self.list[end..to].iter_mut();
            let theirs = nodes.map(|node| std::mem::replace(node, Nest::Block(0))).collect();
            let more = count.map(|trips| trips + 1);
            body = merge_each(body, count, theirs, self.once());
            (count, end) = (more, to);
        }
        self.work += (self.list.len() - end) / 16;
        self.list[at] = Nest::Loop { count, body };
        self.list.drain(from..end);
        self.keys.drain(from..end);
        self.firsts.drain(from..end);
        self.keys[at] = self.list[at].key();
        self.firsts[at] = self.list[at].first_key();
    }

    /// The hash of a candidate: it need not be tried twice.
    fn name(&self, candidate: Candidate) -> u64 {
        let (from, middle, to) = match candidate {
            Candidate::Pair(first, second, end) => (first, second, end),
            Candidate::After(at, end) => (at, at + 1, end),
            Candidate::Before(from, at) => (from, at, at + 1),
            Candidate::Loops(at) => (at, at + 1, at + 2),
        };
        let hash = |from: usize, to: usize| {
            let shift = BASE.wrapping_pow((to - from) as u32);
            self.hashes[to].wrapping_sub(self.hashes[from].wrapping_mul(shift))
        };
        mix(hash(from, middle)) ^ hash(middle, to)
    }

    fn candidates(&self) -> Vec<Candidate> {
        let mut all = Vec::new();
        // For each key, its next position behind the current one.
        let mut next: KeyMap<(usize, Option<usize>)> =
            KeyMap::with_capacity_and_hasher(self.keys.len(), Default::default());
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
        Some(Candidate::After(at, self.iteration(body, at + 1)?))
    }

    /// Where the iteration of a loop ends that begins at `from`, if one may begin there.
    fn iteration(&self, body: &[Folded], from: usize) -> Option<usize> {
        let (first, last) = (body.first()?.key(), body.last()?.key());
        if body.len() < 2 || *self.keys.get(from)? != first {
            return None;
        }
        let most = (from + 2 * body.len() + 8).min(self.keys.len());
        let head = self.firsts[from];
        let next = (from + 1..most).find(|at| self.firsts[*at] == head);
        self.end_of(from, next, body.len(), last)
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

    /// One iteration each time the list is executed.
    fn once(&self) -> Seq<u64> {
        Seq::run(1, self.visits)
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
        self.work += self.list.len() / 16;
        let mut nodes: Vec<Folded> = self.list.splice(from..to, []).collect();
        let node = match candidate {
            Candidate::Pair(first, second, _) => {
                let theirs = nodes.split_off(second - first);
                let body = merge_each(nodes, self.once(), theirs, self.once());
                Nest::Loop { count: Seq::run(2, self.visits), body }
            }
            Candidate::After(..) => {
                let theirs = nodes.split_off(1);
                let (count, body) = nodes.pop()?.into_loop();
                let more = count.map(|trips| trips + 1);
                Nest::Loop { count: more, body: merge_each(body, count, theirs, self.once()) }
            }
            Candidate::Loops(_) => {
                let (others, theirs) = nodes.pop()?.into_loop();
                let (mine, ours) = nodes.pop()?.into_loop();
                let count = mine.iter().zip(others.iter()).map(|(a, b)| a + b).collect();
                Nest::Loop { count, body: merge_each(ours, mine, theirs, others) }
            }
            Candidate::Before(..) => {
                let (count, body) = nodes.pop()?.into_loop();
                let more = count.map(|trips| trips + 1);
                Nest::Loop { count: more, body: merge_each(nodes, self.once(), body, count) }
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
    *work += 1 + (a.len() + b.len()) / 8;
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
    if smaller < least {
        return false;
    }
    let (short, long) = if a.len() < b.len() { (&a, &b) } else { (&b, &a) };
    if is_embedded(short, long) {
        return true;
    }
    if smaller == least {
        return false;
    }
    *work += (a.len() + b.len()) / 4;
    if most_common(&a, &b) < least {
        return false;
    }
    *work += a.len() * b.len() / 16;
    common_subsequence(&a, &b).len() >= least
}

/// Whether all of `short` is in `long`, in order.
fn is_embedded(short: &[u32], long: &[u32]) -> bool {
    let mut rest = long.iter();
    short.iter().all(|skeleton| rest.any(|other| other == skeleton))
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
    let mut left: KeyMap<usize> = KeyMap::default();
    let key = |skeleton: &u32| mix(u64::from(*skeleton) + 1);
    ours.iter().for_each(|skeleton| *left.entry(key(skeleton)).or_default() += 1);
    let is_common = |skeleton: &&u32| match left.get_mut(&key(skeleton)) {
        Some(left) if *left > 0 => {
            *left -= 1;
            true
        }
        _ => false,
    };
    theirs.iter().filter(is_common).count()
}
