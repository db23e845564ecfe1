//! Stretches of a nest in which a place occurs too often, as one loop over places.
//!
//! An exact nest of an irregular program has a node for each order of calls that occurred, so it grows with steps. Here
//! such a stretch is one loop: an iteration has each place once, with the number of its calls as trip count. An
//! iteration ends where a call comes whose place has a smaller number than the last one: places are numbered in the order of their
//! first calls, for all ranks alike.

use super::gathered::{Exact, Gathered};
use super::place::{Place, Visits, What};
use refrain_reader::refrain_elastic::IdList;
use refrain_reader::refrain_fold::histograms::Tally;
use refrain_reader::refrain_nest::seq::Values;
use refrain_reader::refrain_nest::{Grouped, Nest};
use std::collections::{BTreeMap, BTreeSet};

/// So many runs of calls are looked at. What follows is taken to be alike.
const MOST_RUNS: usize = 1 << 20;

/// How many nodes each place has in a nest.
pub(super) fn occurrences(nest: &[Grouped], times: &mut BTreeMap<u32, u64>) {
    for node in nest {
        match node {
            Nest::Leaf(places) => *times.entry(places.skeleton).or_default() += 1,
            Nest::Loop { body, .. } => occurrences(body, times),
            Nest::Block(_) => {}
        }
    }
}

/// The places of a node that are among these.
pub(super) fn places_of(node: &Grouped, wanted: &BTreeSet<u32>) -> BTreeSet<u32> {
    let mut times = BTreeMap::new();
    occurrences(std::slice::from_ref(node), &mut times);
    times.into_keys().filter(|place| wanted.contains(place)).collect()
}

/// Cuts a body into stretches: nodes that share none of the places with other nodes, and from the first to the last of
/// those that do.
pub(super) fn stretches(sets: &[BTreeSet<u32>]) -> Vec<std::ops::Range<usize>> {
    let mut last: BTreeMap<u32, usize> = BTreeMap::new();
    for (at, set) in sets.iter().enumerate() {
        last.extend(set.iter().map(|place| (*place, at)));
    }
    let mut all = Vec::new();
    let mut begin = 0;
    while begin < sets.len() {
        let mut end = begin;
        let mut at = begin;
        while at <= end {
            end = sets[at].iter().filter_map(|place| last.get(place)).fold(end, |a, b| a.max(*b));
            at += 1;
        }
        all.push(begin..end + 1);
        begin = end + 1;
    }
    all
}

/// A stretch as the calls of a rank: runs of calls at one place, for each visit.
struct Runs<'n> {
    counts: Vec<Values<'n, u64>>,
    /// Place and number of calls; a visit ends with 0 calls.
    runs: Vec<(u32, u64)>,
    visits: u64,
}

/// A node, with its vector by its index.
enum Step {
    Call(u32),
    Loop(usize, Vec<Step>),
}

impl<'n> Runs<'n> {
    fn steps(&mut self, nest: &'n [Grouped]) -> Vec<Step> {
        let step = |node: &'n Grouped| match node {
            Nest::Leaf(places) => Some(Step::Call(places.skeleton)),
            Nest::Loop { count, body } => {
                let (_, trips) = count.first()?;
                self.counts.push(trips.iter());
                let this = self.counts.len() - 1;
                Some(Step::Loop(this, self.steps(body)))
            }
            Nest::Block(_) => None,
        };
        nest.iter().filter_map(step).collect()
    }

    fn push(&mut self, place: u32, calls: u64) {
        if calls == 0 {
            return;
        }
        match self.runs.last_mut() {
            Some((last, times)) if *last == place && *times > 0 => *times += calls,
            _ => self.runs.push((place, calls)),
        }
    }

    fn execute(&mut self, steps: &[Step]) {
        for step in steps {
            match step {
                Step::Call(place) => self.push(*place, 1),
                Step::Loop(counts, body) => {
                    let trips = self.counts[*counts].next().unwrap_or(0);
                    if let [Step::Call(place)] = body.as_slice() {
                        self.push(*place, trips);
                        continue;
                    }
                    for _ in 0..trips {
                        self.execute(body);
                        if self.runs.len() >= MOST_RUNS {
                            return;
                        }
                    }
                }
            }
        }
    }
}

/// How often each number of calls at a place, or of iterations, occurs.
type Counts = BTreeMap<u64, u64>;

/// The loop for a stretch that ranks of one group visit so often; `calls` are the calls at each place.
pub(super) fn flat(
    nest: &[Grouped],
    visits: u64,
    ranks: &IdList,
    calls: BTreeMap<u32, Place>,
) -> Place {
    let mut runs = Runs { counts: Vec::new(), runs: Vec::new(), visits: 0 };
    let steps = runs.steps(nest);
    while runs.visits < visits && runs.runs.len() < MOST_RUNS {
        runs.execute(&steps);
        runs.runs.push((0, 0));
        runs.visits += 1;
    }
    let (mut outer, mut inner) = (Counts::new(), BTreeMap::<u32, Counts>::new());
    let (mut iterations, mut last) = (0u64, None);
    for (place, times) in &runs.runs {
        if *times == 0 {
            *outer.entry(iterations).or_default() += 1;
            (iterations, last) = (0, None);
            continue;
        }
        if last.is_none_or(|last| *place <= last) {
            iterations += 1;
        }
        last = Some(*place);
        *inner.entry(*place).or_default().entry(*times).or_default() += 1;
    }
    let all: u64 = outer.iter().map(|(iterations, times)| iterations * times).sum();
    let every = (visits / runs.visits.max(1)).max(1);
    let mut body = Vec::new();
    for (place, call) in calls {
        let mut counts = inner.remove(&place).unwrap_or_default();
        let there: u64 = counts.values().sum();
        if there < all {
            counts.insert(0, all - there);
        }
        if counts.keys().eq([&1]) {
            body.push(call);
            continue;
        }
        let is_condition = counts.keys().all(|times| *times < 2);
        let trips = gathered(&counts, every, ranks);
        let visits = ranks.iter().map(|rank| (rank, all * every)).collect();
        body.push(Place { visits, what: What::Loop { is_condition, trips, body: vec![call] } });
    }
    let trips = gathered(&outer, every, ranks);
    let visits: Visits = ranks.iter().map(|rank| (rank, visits)).collect();
    Place { visits, what: What::Loop { is_condition: false, trips, body } }
}

/// Trip counts of each rank, each so many times.
fn gathered(counts: &Counts, every: u64, ranks: &IdList) -> Gathered {
    let mut tally = Tally::new(None);
    for (value, times) in counts {
        ranks.iter().for_each(|rank| tally.add(rank, *value as i64, times * every));
    }
    let mut values = counts.keys();
    let exact = match (values.next(), values.next()) {
        (Some(only), None) => {
            Some(Exact::Ranks(ranks.iter().map(|rank| (rank, *only as i64)).collect()))
        }
        _ => None,
    };
    Gathered { exact, tally }
}
