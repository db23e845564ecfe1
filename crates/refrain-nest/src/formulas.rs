//! Values as formulas of loop indices: what a reader of the program would have written.

use std::collections::{BTreeMap, HashMap};

/// Longer tables are not written out.
pub const LONGEST_TABLE: usize = 8;
/// The longest period that is looked for.
pub const LONGEST_PERIOD: u32 = 128;

/// The loop indices of visits, outermost first.
#[derive(Clone, Debug, Default)]
pub struct Indices {
    /// How many loops there are around the place.
    pub depth: usize,
    /// `depth` numbers for each visit.
    pub all: Vec<u32>,
}

impl Indices {
    /// The indices of a visit.
    pub fn of(&self, visit: usize) -> &[u32] {
        &self.all[visit * self.depth..][..self.depth]
    }
}

/// How numbers depend on loop indices.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Pattern {
    /// Always the same.
    Constant(i64),
    /// A number, plus a factor for each of some loops.
    Affine(i64, Vec<(usize, i64)>),
    /// An element for each iteration of a loop, from the beginning again after the last one if `wraps`.
    Table {
        /// The loop.
        index: usize,
        /// The elements.
        values: Vec<i64>,
        /// Whether it wraps.
        wraps: bool,
    },
    /// None of these: the least, the greatest, how many there are.
    Between(i64, i64, usize),
}

impl Pattern {
    /// The pattern of the values of visits. `is_number` says whether the numbers are more than names.
    pub fn of(indices: &Indices, values: &[i64], is_number: bool) -> Pattern {
        let Some(&first) = values.first() else { return Pattern::Between(0, 0, 0) };
        if values.iter().all(|value| *value == first) {
            return Pattern::Constant(first);
        }
        let affine = || affine(indices, values).filter(|_| is_number);
        if let Some(found) = affine().or_else(|| table(indices, values)) {
            return found;
        }
        let mut distinct = values.to_vec();
        distinct.sort_unstable();
        distinct.dedup();
        Pattern::Between(distinct[0], distinct[distinct.len() - 1], distinct.len())
    }

    /// The value at these loop indices; none if the pattern is no formula.
    pub fn value(&self, indices: &[u64]) -> Option<i64> {
        match self {
            Pattern::Constant(value) => Some(*value),
            Pattern::Affine(base, terms) => terms.iter().try_fold(*base, |sum, (index, factor)| {
                let at = i64::try_from(*indices.get(*index)?).ok()?;
                sum.checked_add(factor.checked_mul(at)?)
            }),
            Pattern::Table { index, values, .. } => {
                let at = *indices.get(*index)? % (values.len() as u64).max(1);
                values.get(at as usize).copied()
            }
            Pattern::Between(..) => None,
        }
    }

    /// As text, with names of loop indices and numbers.
    pub fn text(&self, names: &[String], number: &dyn Fn(i64) -> String) -> String {
        match self {
            Pattern::Constant(value) => number(*value),
            Pattern::Affine(base, terms) => sum(*base, terms, names, number),
            Pattern::Table { index, values, wraps } => {
                let name = names.get(*index).map_or("?", String::as_str);
                let values: Vec<String> = values.iter().map(|value| number(*value)).collect();
                match wraps {
                    true => format!("[{}][{name} mod {}]", values.join(", "), values.len()),
                    false => format!("[{}][{name}]", values.join(", ")),
                }
            }
            Pattern::Between(low, high, count) => {
                format!("{}..{} ({count} values)", number(*low), number(*high))
            }
        }
    }
}

fn sum(
    base: i64,
    terms: &[(usize, i64)],
    names: &[String],
    number: &dyn Fn(i64) -> String,
) -> String {
    let mut text = if base == 0 { String::new() } else { number(base) };
    for (index, factor) in terms {
        let name = names.get(*index).map_or("?", String::as_str);
        let size = factor.unsigned_abs();
        let term = if size == 1 { name.to_owned() } else { format!("{size}*{name}") };
        text += &match (text.is_empty(), *factor < 0) {
            (true, false) => term,
            (true, true) => format!("-{term}"),
            (false, false) => format!(" + {term}"),
            (false, true) => format!(" - {term}"),
        };
    }
    text
}

fn affine(indices: &Indices, values: &[i64]) -> Option<Pattern> {
    let mut terms: Vec<(usize, i64)> = Vec::new();
    let mut factors: Vec<Option<i64>> = vec![None; indices.depth];
    let mut known: HashMap<&[u32], i64> = HashMap::with_capacity(values.len());
    for (visit, value) in values.iter().enumerate() {
        let here = indices.of(visit);
        // The visits one iteration before in one of the loops show what an iteration adds.
        for (index, factor) in factors.iter_mut().enumerate().filter(|(_, f)| f.is_none()) {
            let mut before = here.to_vec();
            before[index] = before[index].wrapping_sub(1);
            let before = known.get(before.as_slice());
            *factor = before.and_then(|before| value.checked_sub(*before));
        }
        if factors.iter().all(Option::is_some) {
            break;
        }
        known.insert(here, *value);
    }
    let found = factors.into_iter().enumerate();
    terms.extend(found.filter_map(|(index, factor)| Some((index, factor.filter(|f| *f != 0)?))));
    let at = |visit: usize| -> Option<i64> {
        let here = indices.of(visit);
        terms.iter().try_fold(0i64, |sum, (index, factor)| {
            sum.checked_add(factor.checked_mul(here[*index].into())?)
        })
    };
    let base = values[0].checked_sub(at(0)?)?;
    let is_true =
        |visit: usize| at(visit).and_then(|sum| sum.checked_add(base)) == Some(values[visit]);
    (!terms.is_empty() && (0..values.len()).all(is_true)).then_some(Pattern::Affine(base, terms))
}

fn table(indices: &Indices, values: &[i64]) -> Option<Pattern> {
    // The innermost loop on which the value depends alone.
    for index in (0..indices.depth).rev() {
        let most = (0..values.len()).map(|visit| indices.of(visit)[index]).max()?;
        let lengths = (2..=(LONGEST_TABLE as u32)).filter(|length| *length <= most);
        for length in lengths {
            if let Some(values) = by_index(indices, values, index, length) {
                return Some(Pattern::Table { index, values, wraps: true });
            }
        }
        if (most as usize) < LONGEST_TABLE
            && most > 0
            && let Some(values) = by_index(indices, values, index, most + 1)
        {
            return Some(Pattern::Table { index, values, wraps: false });
        }
    }
    None
}

/// The value for each remainder of an index, if the index alone determines it.
fn by_index(indices: &Indices, values: &[i64], index: usize, length: u32) -> Option<Vec<i64>> {
    let mut known: BTreeMap<u32, i64> = BTreeMap::new();
    for (visit, value) in values.iter().enumerate() {
        if *known.entry(indices.of(visit)[index] % length).or_insert(*value) != *value {
            return None;
        }
    }
    (known.len() == length as usize).then(|| known.into_values().collect())
}

/// When a condition holds: a rule for the index of one loop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rule {
    /// The loop.
    pub index: usize,
    /// The iterations.
    pub holds: Holds,
}

/// In which iterations of a loop a condition holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Holds {
    /// In one.
    Is(u32),
    /// In the last, which is this one.
    Last(u32),
    /// In all but this one.
    Not(u32),
    /// Up to this one.
    AtMost(u32),
    /// From this one on.
    AtLeast(u32),
    /// From the first to the second.
    Between(u32, u32),
    /// Where the index divided by the first has the second as remainder.
    Remainder(u32, u32),
    /// Where it has another remainder.
    NotRemainder(u32, u32),
}

impl Rule {
    /// Whether the condition holds at these loop indices.
    pub fn holds_at(&self, indices: &[u64]) -> bool {
        let Some(at) = indices.get(self.index).copied() else { return false };
        let rest = |period: u32| at.checked_rem(period.into());
        match self.holds {
            Holds::Is(one) | Holds::Last(one) => at == u64::from(one),
            Holds::Not(one) => at != u64::from(one),
            Holds::AtMost(high) => at <= u64::from(high),
            Holds::AtLeast(low) => at >= u64::from(low),
            Holds::Between(low, high) => (u64::from(low)..=u64::from(high)).contains(&at),
            Holds::Remainder(period, is) => rest(period) == Some(is.into()),
            Holds::NotRemainder(period, is) => rest(period) != Some(is.into()),
        }
    }

    /// As text, with names of loop indices: `i mod 10 == 9`, `i >= 1`.
    pub fn text(&self, names: &[String]) -> String {
        let name = names.get(self.index).map_or("?", String::as_str);
        match self.holds {
            Holds::Is(one) => format!("{name} == {one}"),
            Holds::Last(one) => format!("{name} == {one} (last)"),
            Holds::Not(one) => format!("{name} != {one}"),
            Holds::AtMost(high) => format!("{name} <= {high}"),
            Holds::AtLeast(low) => format!("{name} >= {low}"),
            Holds::Between(low, high) => format!("{low} <= {name} <= {high}"),
            Holds::Remainder(period, is) => format!("{name} mod {period} == {is}"),
            Holds::NotRemainder(period, is) => format!("{name} mod {period} != {is}"),
        }
    }
}

/// When a condition holds. None if no simple rule is found.
pub fn condition(indices: &Indices, holds: &[bool]) -> Option<Rule> {
    (0..indices.depth).rev().find_map(|index| {
        let mut by_value: BTreeMap<u32, bool> = BTreeMap::new();
        let determines = (0..holds.len()).all(|visit| {
            *by_value.entry(indices.of(visit)[index]).or_insert(holds[visit]) == holds[visit]
        });
        let holds = if determines { iterations(&by_value) } else { None };
        holds.map(|holds| Rule { index, holds })
    })
}

/// The rule for the iterations of a loop in which a condition holds.
fn iterations(by_value: &BTreeMap<u32, bool>) -> Option<Holds> {
    let of = |wanted: bool| -> Vec<u32> {
        by_value.iter().filter(|(_, holds)| **holds == wanted).map(|(at, _)| *at).collect()
    };
    let (yes, no) = (of(true), of(false));
    let (first, last) = (*by_value.keys().next()?, *by_value.keys().next_back()?);
    let (low, high) = (*yes.first()?, *yes.last()?);
    let is_run = yes.len() as u32 == high - low + 1;
    match (low == first, high == last) {
        _ if yes.len() == 1 && high == last => return Some(Holds::Last(high)),
        _ if yes.len() == 1 => return Some(Holds::Is(low)),
        (true, _) if is_run => return Some(Holds::AtMost(high)),
        (_, true) if is_run => return Some(Holds::AtLeast(low)),
        _ if is_run => return Some(Holds::Between(low, high)),
        _ => {}
    }
    if let [only] = no.as_slice() {
        return Some(Holds::Not(*only));
    }
    let not = *no.first()?;
    (2..=LONGEST_PERIOD).find_map(|period| {
        let rest = low % period;
        if by_value.iter().all(|(at, holds)| (at % period == rest) == *holds) {
            return Some(Holds::Remainder(period, rest));
        }
        let rest = not % period;
        let is_rule = by_value.iter().all(|(at, holds)| (at % period != rest) == *holds);
        is_rule.then_some(Holds::NotRemainder(period, rest))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The visits of a body in two loops.
    fn visits(outer: u32, inner: impl Fn(u32) -> u32) -> Indices {
        let mut all = Vec::new();
        for i in 0..outer {
            (0..inner(i)).for_each(|j| all.extend([i, j]));
        }
        Indices { depth: 2, all }
    }

    fn text(indices: &Indices, value: impl Fn(u32, u32) -> i64) -> String {
        let count = indices.all.len() / 2;
        let values: Vec<i64> =
            (0..count).map(|visit| value(indices.of(visit)[0], indices.of(visit)[1])).collect();
        let names = ["i".to_owned(), "j".to_owned()];
        let pattern = Pattern::of(indices, &values, true);
        for (visit, value) in values.iter().enumerate() {
            let at: Vec<u64> = indices.of(visit).iter().map(|at| u64::from(*at)).collect();
            assert!(pattern.value(&at).is_none_or(|known| known == *value));
        }
        pattern.text(&names, &|value| value.to_string())
    }

    #[test]
    fn values_are_formulas_of_the_loops_around_them() {
        let square = visits(20, |_| 10);
        assert_eq!(text(&square, |_, _| 7), "7");
        assert_eq!(text(&square, |i, j| 3 + 8 * i64::from(i) - i64::from(j)), "3 + 8*i - j");
        assert_eq!(text(&square, |_, j| [4, 9, 2][j as usize % 3]), "[4, 9, 2][j mod 3]");
        assert_eq!(text(&square, |i, _| [1, 5][i as usize % 2]), "[1, 5][i mod 2]");
        assert_eq!(text(&visits(4, |_| 3), |_, j| [2, 3, 5][j as usize]), "[2, 3, 5][j]");
        assert_eq!(text(&visits(9, |i| i), |i, j| i64::from(i) + 2 * i64::from(j)), "i + 2*j");
        let random = |i: u32, j: u32| i64::from((i * 7919 + j * 104_729) % 211);
        assert!(text(&square, random).ends_with("values)"));
    }

    #[test]
    fn conditions_are_rules_of_the_loop() {
        let indices = Indices { depth: 1, all: (0..40).collect() };
        let names = ["step".to_owned()];
        let rule = |holds: &dyn Fn(u32) -> bool| {
            let holds: Vec<bool> = (0..40).map(holds).collect();
            let rule = condition(&indices, &holds)?;
            (0..40).for_each(|at| assert_eq!(rule.holds_at(&[at]), holds[at as usize]));
            Some(rule.text(&names))
        };
        assert_eq!(rule(&|i| i % 10 == 9).unwrap(), "step mod 10 == 9");
        assert_eq!(rule(&|i| i % 4 != 1).unwrap(), "step mod 4 != 1");
        assert_eq!(rule(&|i| i == 0).unwrap(), "step == 0");
        assert_eq!(rule(&|i| i == 39).unwrap(), "step == 39 (last)");
        assert_eq!(rule(&|i| i > 0).unwrap(), "step >= 1");
        assert_eq!(rule(&|i| i * i % 7 == 2), None);
    }
}
