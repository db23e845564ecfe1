//! Value vectors over ranks and visits.

use super::histogram::Histogram;
use refrain_elastic::{Column, IdList};
use refrain_nest::Seq;
use refrain_nest::formulas::{Pattern, Rule};

/// The values of a place, over its ranks and their visits.
#[derive(Clone, Debug, PartialEq)]
pub enum Values {
    /// The same at every visit of a rank.
    Ranks(Column),
    /// For each set of ranks the values of its visits (ScalaTrace II §3.1: value vector, ranklist).
    Visits(Vec<(IdList, Over)>),
    /// How often each value occurs.
    Histogram(Histogram),
}

/// Values over visits.
#[derive(Clone, Debug, PartialEq)]
pub enum Over {
    /// A formula of the loop indices.
    Formula(Pattern),
    /// 1 where a rule holds, otherwise 0.
    Rule(Rule),
    /// The values in order.
    Sequence(Seq<i64>),
}

impl Over {
    /// How many numbers it takes.
    pub fn numbers(&self) -> u64 {
        match self {
            Over::Formula(Pattern::Affine(_, terms)) => 1 + terms.len() as u64,
            Over::Formula(Pattern::Table { values, .. }) => values.len() as u64,
            Over::Formula(_) | Over::Rule(_) => 1,
            Over::Sequence(values) => values.items() as u64,
        }
    }
}

impl Values {
    /// The same value at each visit, if there are at most so many numbers in it.
    pub fn over_ranks(mut all: Vec<(u32, i64)>, most: u64) -> Option<Values> {
        all.sort_unstable();
        let (ranks, values): (Vec<u32>, Vec<i64>) = all.into_iter().unzip();
        let column = Column::fit(&ranks, &values);
        let numbers = (column.held() + column.pieces().len()) as u64;
        (numbers <= most).then_some(Values::Ranks(column))
    }

    /// Values over visits, if there are at most so many numbers in them. Ranks with the same values are joined.
    pub fn over_visits(all: impl IntoIterator<Item = (IdList, Over)>, most: u64) -> Option<Values> {
        let mut sets: Vec<(IdList, Over)> = Vec::new();
        let mut numbers = 0;
        for (ranks, over) in all {
            if let Some((known, _)) = sets.iter_mut().find(|(_, known)| *known == over) {
                *known = known.union(&ranks);
                continue;
            }
            numbers += over.numbers();
            if numbers > most {
                return None;
            }
            sets.push((ranks, over));
        }
        let lists: u64 = sets.iter().map(|(ranks, _)| ranks.sections().len() as u64).sum();
        (lists <= most.max(1)).then_some(Values::Visits(sets))
    }

    /// Whether it is a histogram.
    pub fn is_histogram(&self) -> bool {
        matches!(self, Values::Histogram(_))
    }
}
