//! The values of a place before it is decided how they are kept: as they are, if that takes few numbers, and counted.

use refrain_reader::refrain_elastic::IdList;
use refrain_reader::refrain_fold::histograms::{Over, Tally, Values};
use refrain_reader::refrain_nest::formulas::Pattern;
use std::collections::BTreeMap;

/// Values over ranks and visits.
#[derive(Clone, Debug)]
pub(super) struct Gathered {
    /// The values, unless they are known to take too many numbers, or have lost their order.
    pub exact: Option<Exact>,
    /// How often each occurs.
    pub tally: Tally,
}

/// Values that are known at each visit.
#[derive(Clone, Debug)]
pub(super) enum Exact {
    /// The same at every visit of a rank.
    Ranks(BTreeMap<u32, i64>),
    /// By visits, for sets of ranks.
    Visits(Vec<(IdList, Over)>),
}

impl Exact {
    /// The values by visits.
    fn by_visits(&self) -> Vec<(IdList, Over)> {
        match self {
            Exact::Visits(sets) => sets.clone(),
            Exact::Ranks(all) => {
                let mut sets: BTreeMap<i64, Vec<u32>> = BTreeMap::new();
                all.iter().for_each(|(rank, value)| sets.entry(*value).or_default().push(*rank));
                let set = |(value, ranks): (i64, Vec<u32>)| {
                    (IdList::from_sorted(&ranks), Over::Formula(Pattern::Constant(value)))
                };
                sets.into_iter().map(set).collect()
            }
        }
    }
}

impl Gathered {
    /// The same value at all visits of these ranks.
    pub fn constant(value: i64, visits: &BTreeMap<u32, u64>) -> Gathered {
        let mut tally = Tally::new(None);
        visits.iter().for_each(|(rank, count)| tally.add(*rank, value, *count));
        let all = visits.keys().map(|rank| (*rank, value)).collect();
        Gathered { exact: Some(Exact::Ranks(all)), tally }
    }

    /// Adds the values of other visits of the same ranks.
    pub fn absorb(&mut self, other: &Gathered) {
        self.tally.absorb(&other.tally);
        self.exact = match (self.exact.take(), &other.exact) {
            (Some(Exact::Ranks(mut ours)), Some(Exact::Ranks(theirs))) => {
                let is_same =
                    |(rank, value): (&u32, &i64)| ours.get(rank).is_none_or(|known| known == value);
                let are_same = theirs.iter().all(is_same);
                ours.extend(theirs);
                are_same.then_some(Exact::Ranks(ours))
            }
            _ => None,
        };
    }

    /// Adds the values of other ranks. They are kept exactly if they take at most so many numbers.
    pub fn join(&mut self, other: &Gathered, most: u64) {
        self.tally.absorb(&other.tally);
        self.exact = match (self.exact.take(), &other.exact) {
            (Some(Exact::Ranks(mut ours)), Some(Exact::Ranks(theirs))) => {
                ours.extend(theirs);
                Some(Exact::Ranks(ours))
            }
            (Some(ours), Some(theirs)) => {
                let sets = ours.by_visits().into_iter().chain(theirs.by_visits());
                match Values::over_visits(sets, most) {
                    Some(Values::Visits(sets)) => Some(Exact::Visits(sets)),
                    _ => None,
                }
            }
            _ => None,
        };
    }

    /// Forgets in which loops the visits are.
    pub fn forget_visits(&mut self) {
        if matches!(self.exact, Some(Exact::Visits(_))) {
            self.exact = None;
        }
    }

    /// The values as they are kept: a histogram if they would take more than `most` numbers.
    pub fn values(&self, most: u64) -> Values {
        let exact = match self.exact.clone() {
            Some(Exact::Ranks(all)) => Values::over_ranks(all.into_iter().collect(), most),
            Some(Exact::Visits(all)) => Values::over_visits(all, most),
            None => None,
        };
        exact.unwrap_or_else(|| Values::Histogram(self.tally.histogram(most)))
    }
}

impl Gathered {
    /// The values under other numbers; those without one are left out, and then only counts remain.
    pub fn renamed(
        &self,
        numbers: &std::collections::HashMap<i64, i64>,
        is_whole: bool,
    ) -> Gathered {
        let name = |value: i64| numbers.get(&value).copied();
        let mut tally = Tally::new(None);
        for (value, count) in self.tally.values() {
            if let Some(value) = name(value) {
                tally.add(0, value, count);
            }
        }
        let renamed = |over: &Over| match over {
            Over::Sequence(all) => Some(Over::Sequence(all.map(|value| name(value).unwrap_or(0)))),
            Over::Formula(Pattern::Constant(value)) => {
                Some(Over::Formula(Pattern::Constant(name(*value)?)))
            }
            Over::Formula(Pattern::Table { index, values, wraps }) => {
                let values = values.iter().map(|value| name(*value)).collect::<Option<_>>()?;
                Some(Over::Formula(Pattern::Table { index: *index, values, wraps: *wraps }))
            }
            // Numbers of words follow no formula.
            _ => None,
        };
        let exact = match &self.exact {
            _ if !is_whole => None,
            Some(Exact::Ranks(all)) => {
                let all = all.iter().map(|(rank, value)| Some((*rank, name(*value)?)));
                all.collect::<Option<_>>().map(Exact::Ranks)
            }
            Some(Exact::Visits(all)) => {
                let all = all.iter().map(|(ranks, over)| Some((ranks.clone(), renamed(over)?)));
                all.collect::<Option<_>>().map(Exact::Visits)
            }
            None => None,
        };
        Gathered { exact, tally }
    }
}
