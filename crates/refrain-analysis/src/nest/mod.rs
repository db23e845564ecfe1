//! A trace as a program: loops with trip counts, calls with arguments as formulas, guards with ranks.
//!
//! Tasks of each thread number become one nest. Signatures are mapped to skeletons, the grammars are folded over
//! these ([`fold`]), and the nests of groups of ranks are aligned ([`over_groups_with`]).
//! Then trip counts and arguments become formulas of the rank and of loop indices ([`fit`]), so far as there are
//! any. Loops are not expanded.

pub mod arguments;
pub mod histograms;
mod ranks;
mod samples;
mod skeletons;
mod unroll;

use crate::nest::arguments::Wording;
use crate::nest::ranks::{Words, over_ranks};
use crate::nest::samples::Samples;
pub use crate::nest::skeletons::Renamed;
use crate::nest::skeletons::Skeletons;
use refrain_reader::refrain_elastic::IdList;
pub use refrain_reader::refrain_nest::formulas as fit;
use refrain_reader::refrain_nest::formulas::{
    Indices, LONGEST_PERIOD, LONGEST_TABLE, Pattern, Rule, condition,
};
use refrain_reader::refrain_nest::{Folded, Grouped, Nest, Options, Seq, fold, over_groups_with};
use refrain_reader::{CallTrace, Structure, TraceError};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Ranks have at most so many different texts, otherwise only their number is given.
const MOST_TEXTS: usize = 4;

/// The nest of the tasks with one thread number.
#[derive(Clone, Debug)]
pub struct Program {
    /// The number of their threads.
    pub thread: u32,
    /// Their ranks.
    pub ranks: IdList,
    /// What they do.
    pub body: Vec<Node>,
    /// Calls of all ranks, without failed polls.
    pub calls: u64,
    /// Nanoseconds in these calls, of all ranks.
    pub nanoseconds: f64,
}

/// A node of a program.
#[derive(Clone, Debug)]
pub struct Node {
    /// The ranks that execute it.
    pub ranks: IdList,
    /// Calls in it, of all these ranks.
    pub calls: u64,
    /// Nanoseconds in these calls.
    pub nanoseconds: f64,
    /// What it is.
    pub what: What,
}

/// What a node is.
#[derive(Clone, Debug)]
pub enum What {
    /// A call.
    Call {
        /// The function.
        function: String,
        /// Its inputs, by the names of the parameters; formulas of the rank and of loop indices.
        arguments: Vec<(String, String)>,
        /// Whether its calls returned.
        returned: bool,
        /// The call site, if it was recorded: a line for each frame, innermost first.
        site: Option<Arc<str>>,
        /// Other call sites of the same place.
        others: Vec<Arc<str>>,
    },
    /// A loop.
    Loop {
        /// The name of its index.
        index: String,
        /// Its trip count: a number, or a formula.
        trips: String,
        /// The number, if it is one.
        count: Option<u64>,
        /// What is repeated.
        body: Vec<Node>,
    },
    /// Executed in some iterations only.
    If {
        /// In which.
        condition: String,
        /// What is executed.
        body: Vec<Node>,
    },
}

/// What the tasks with one thread number have in common.
#[derive(Clone, Debug)]
pub struct Common<'t> {
    /// The number of their threads.
    pub thread: u32,
    /// The groups of ranks, by their numbers in the nest.
    pub groups: Vec<Structure<'t>>,
    /// The nest. Its values are signatures, without notes.
    pub nest: Vec<Grouped>,
}

/// The nests of a trace, by thread number; only those of some ranks if `ranks` is given.
pub fn nests<'t>(
    trace: &'t CallTrace,
    ranks: Option<&BTreeSet<u32>>,
    options: Options,
) -> Result<Vec<Common<'t>>, TraceError> {
    nests_of(trace, ranks, options, &mut <[u8]>::to_vec)
}

/// The same, where call sites that get the same name are the same place of the program. An optimised program may have
/// several copies of a line.
pub fn nests_of<'t>(
    trace: &'t CallTrace,
    ranks: Option<&BTreeSet<u32>>,
    options: Options,
    renamed: &mut Renamed<'_>,
) -> Result<Vec<Common<'t>>, TraceError> {
    let common = |folded: FoldedThread<'t>| {
        let nest = over_groups_with(folded.nests, options);
        let nest = if folded.has_sites { nest } else { unroll::unrolled(nest) };
        Common { thread: folded.thread, groups: folded.groups, nest }
    };
    let mut all = Vec::new();
    folded_threads(trace, ranks, options, renamed, &mut |folded| all.push(common(folded)))?;
    Ok(all)
}

/// The groups of ranks with one thread number, each with its own nest.
struct FoldedThread<'t> {
    thread: u32,
    groups: Vec<Structure<'t>>,
    nests: Vec<Vec<Folded>>,
    /// Whether call sites were recorded.
    has_sites: bool,
}

/// Folds the grammars of each group.
fn folded_threads<'t>(
    trace: &'t CallTrace,
    ranks: Option<&BTreeSet<u32>>,
    options: Options,
    renamed: &mut Renamed<'_>,
    visit: &mut dyn FnMut(FoldedThread<'t>),
) -> Result<(), TraceError> {
    let mut threads: BTreeMap<u32, Vec<Structure<'_>>> = BTreeMap::new();
    for structure in trace.structures()? {
        let is_wanted = |rank: u32| ranks.is_none_or(|ranks| ranks.contains(&rank));
        if structure.ranks().iter().any(is_wanted) {
            threads.entry(structure.thread()).or_default().push(structure);
        }
    }
    for (thread, groups) in threads {
        let mut skeletons = Skeletons::new(options.frames, &mut *renamed);
        let mut nests = Vec::with_capacity(groups.len());
        for group in &groups {
            let numbers = 0..group.len() as u32;
            let of: Vec<Option<u32>> = numbers.map(|number| skeletons.of(group, number)).collect();
            let skeleton = |number: u32| of.get(number as usize).copied().flatten();
            nests.push(fold(group.grammars(), options, skeleton));
        }
        let has_sites = skeletons.has_sites;
        visit(FoldedThread { thread, groups, nests, has_sites });
    }
    Ok(())
}

/// The programs of a trace, by thread number; only those of some ranks if `ranks` is given. `renamed` as in
/// [`nests_of`].
pub fn programs(
    trace: &CallTrace,
    ranks: Option<&BTreeSet<u32>>,
    options: Options,
    renamed: &mut Renamed<'_>,
) -> Result<Vec<Program>, TraceError> {
    let nests = nests_of(trace, ranks, options, renamed)?;
    Ok(nests
        .into_iter()
        .map(|common| Builder::of(trace, &common, ranks).program(&common))
        .collect())
}

/// A group of ranks of the program being built.
struct Group<'t> {
    structure: Structure<'t>,
    /// Its ranks, of those that are wanted.
    ranks: IdList,
    occurrences: Vec<u64>,
    wording: Wording<'t>,
}

struct Builder<'t> {
    groups: Vec<Group<'t>>,
    /// Nanoseconds a tick.
    tick: f64,
    samples: Vec<Samples>,
}

impl<'t> Builder<'t> {
    fn of(
        trace: &'t CallTrace,
        common: &Common<'t>,
        wanted: Option<&BTreeSet<u32>>,
    ) -> Builder<'t> {
        let group = |structure: Structure<'t>| {
            let ranks = match wanted {
                None => structure.ranks().clone(),
                Some(wanted) => {
                    let ranks: Vec<u32> =
                        structure.ranks().iter().filter(|rank| wanted.contains(rank)).collect();
                    IdList::from_sorted(&ranks)
                }
            };
            let wording = Wording::new(trace, structure, ranks.clone());
            Group { structure, occurrences: structure.occurrences(), ranks, wording }
        };
        Builder {
            groups: common.groups.iter().copied().map(group).collect(),
            tick: trace.meta().tick,
            samples: (0..common.groups.len())
                .map(|group| Samples::of(&common.nest, group))
                .collect(),
        }
    }

    fn program(&self, common: &Common<'t>) -> Program {
        let all: Vec<usize> = (0..self.groups.len()).collect();
        let mut number = 0;
        let body = self.body(&common.nest, &mut number, &mut Vec::new());
        let calls = body.iter().map(|node| node.calls).sum();
        let nanoseconds = body.iter().map(|node| node.nanoseconds).sum();
        Program { thread: common.thread, ranks: self.ranks(&all), body, calls, nanoseconds }
    }

    fn ranks(&self, groups: &[usize]) -> IdList {
        let lists = groups.iter().map(|group| self.groups[*group].ranks.clone());
        lists.reduce(|a, b| a.union(&b)).unwrap_or_default()
    }

    /// Nodes, numbered in the order of their beginnings; `names` are those of the loop indices around them.
    fn body(&self, nest: &[Grouped], number: &mut usize, names: &mut Vec<String>) -> Vec<Node> {
        let mut body = Vec::with_capacity(nest.len());
        for node in nest {
            let this = *number;
            *number += 1;
            match node {
                Nest::Leaf(places) => body.push(self.call(this, &places.groups, names)),
                Nest::Loop { count, body: inner } => {
                    let what = self.repeated(this, count, inner, number, names);
                    let inner = match &what {
                        What::Loop { body, .. } | What::If { body, .. } => body.as_slice(),
                        What::Call { .. } => &[],
                    };
                    let calls = inner.iter().map(|node| node.calls).sum();
                    let nanoseconds = inner.iter().map(|node| node.nanoseconds).sum();
                    let ranks = self.ranks(&node.groups());
                    body.push(Node { ranks, calls, nanoseconds, what });
                }
                Nest::Block(_) => {}
            }
        }
        body
    }

    /// A loop or a condition.
    fn repeated(
        &self,
        this: usize,
        counts: &[(usize, Seq<u64>)],
        inner: &[Grouped],
        number: &mut usize,
        names: &mut Vec<String>,
    ) -> What {
        if samples::is_condition(counts) {
            let mut texts = Vec::new();
            for (group, trips) in counts {
                let text = self.condition(this, *group, trips, names);
                texts.push((*group, text));
            }
            let body = self.body(inner, number, names);
            return What::If { condition: self.by_ranks(texts), body };
        }
        let mut numbers = Vec::new();
        let mut texts = Vec::new();
        for (group, trips) in counts {
            numbers.extend(trips.constant().map(|count| (*group, count as i64)));
            let values: Seq<i64> = trips.map(|count| count as i64);
            let pattern = self.pattern(this, *group, &values, true);
            texts.push((*group, pattern.text(names, &|value| value.to_string())));
        }
        let trips = match numbers.len() == counts.len() {
            true => self.over_ranks(&numbers, &|value| value.to_string()),
            false => self.by_ranks(texts),
        };
        let count = numbers.first().map(|(_, count)| *count as u64);
        let is_one =
            numbers.len() == counts.len() && numbers.iter().all(|(_, n)| Some(*n as u64) == count);
        let index = index_name(names.len());
        names.push(index.clone());
        let body = self.body(inner, number, names);
        names.pop();
        What::Loop { index, trips, count: count.filter(|_| is_one), body }
    }

    /// When a condition holds in a group.
    fn condition(&self, this: usize, group: usize, trips: &Seq<u64>, names: &[String]) -> String {
        let (held, all) = (trips.sum(), trips.len());
        let rule = self.rule(this, group, trips);
        rule.map_or_else(|| format!("in {held} of {all} visits"), |rule| rule.text(names))
    }

    /// The rule of a condition in a group, if there is one that holds for all visits.
    fn rule(&self, this: usize, group: usize, trips: &Seq<u64>) -> Option<Rule> {
        let indices = &self.samples[group].indices[this];
        let holds: Vec<bool> = trips.iter().take(indices.visits).map(|trips| trips > 0).collect();
        let are_enough = indices.are_enough(trips, LONGEST_PERIOD.into());
        condition(&indices.indices, &holds).filter(|_| are_enough)
    }

    /// How the values of a node depend on loop indices.
    fn pattern(&self, this: usize, group: usize, values: &Seq<i64>, is_number: bool) -> Pattern {
        if let Some(value) = values.constant() {
            return Pattern::Constant(value);
        }
        let samples = &self.samples[group].indices[this];
        if samples.are_enough(values, LONGEST_TABLE as u64) {
            let known: Vec<i64> = values.iter().take(samples.visits).collect();
            return Pattern::of(&samples.indices, &known, is_number);
        }
        let (mut low, mut high) = (i64::MAX, i64::MIN);
        let mut distinct = BTreeSet::new();
        values.tally(&mut |value, _| {
            (low, high) = (low.min(value), high.max(value));
            distinct.insert(value);
        });
        Pattern::Between(low, high, distinct.len())
    }

    fn call(&self, this: usize, groups: &[(usize, Seq<u32>)], names: &[String]) -> Node {
        let (mut calls, mut ticks) = (0u64, 0.0);
        for (number, values) in groups {
            let group = &self.groups[*number];
            let ranks = group.ranks.len() as u64;
            calls = calls.saturating_add(values.len().saturating_mul(ranks));
            values.tally(&mut |signature, count| {
                let occurs = group.occurrences.get(signature as usize).copied().unwrap_or(0);
                let signature = group.structure.signature(signature);
                if let Some(mean) = signature.and_then(|signature| signature.mean(occurs)) {
                    ticks += mean.with_polls * count as f64 * ranks as f64;
                }
            });
        }
        let mut what = What::Call {
            function: String::new(),
            arguments: Vec::new(),
            returned: true,
            site: None,
            others: Vec::new(),
        };
        if let Some((group, values)) = groups.first()
            && let Some(first) = values.iter().next()
            && let Some(signature) = self.groups[*group].structure.signature(first)
        {
            let mut sites = self.sites(groups).into_iter();
            what = What::Call {
                function: signature.function.name.clone(),
                arguments: self.arguments(this, groups, names),
                returned: signature.returned(),
                site: sites.next(),
                others: sites.collect(),
            };
        }
        let numbers: Vec<usize> = groups.iter().map(|(group, _)| *group).collect();
        Node { ranks: self.ranks(&numbers), calls, nanoseconds: ticks * self.tick, what }
    }

    /// The call sites of a place, each once; that of its first call first.
    fn sites(&self, groups: &[(usize, Seq<u32>)]) -> Vec<Arc<str>> {
        let mut seen: BTreeSet<(usize, u32)> = BTreeSet::new();
        let mut sites: Vec<Arc<str>> = Vec::new();
        for (group, values) in groups {
            let of = &self.groups[*group];
            let mut add = |number: u32| {
                if seen.insert((*group, number))
                    && let Some(arguments) =
                        of.structure.signature(number).and_then(|s| s.variants().next())
                    && let Some(site) =
                        arguments.site().and_then(|site| site.eval(of.ranks.first()?))
                {
                    let site = String::from_utf8_lossy(&site);
                    if sites.iter().all(|known| **known != *site) {
                        sites.push(site.into());
                    }
                }
            };
            values.iter().take(1).for_each(&mut add);
            values.tally(&mut |number, _| add(number));
        }
        sites
    }

    /// The arguments of a place, as text.
    fn arguments(
        &self,
        this: usize,
        groups: &[(usize, Seq<u32>)],
        names: &[String],
    ) -> Vec<(String, String)> {
        let mut all = Vec::new();
        let Some(params) = groups.first().map(|(group, values)| {
            let first = values.iter().next().unwrap_or(0);
            self.groups[*group].wording.params(first)
        }) else {
            return all;
        };
        for (param, name) in params {
            let mut texts = Vec::new();
            // What is before the number, and the number of each rank.
            let mut numbers: Option<(String, Vec<(u32, i64)>)> = None;
            let mut are_numbers = true;
            for (group, values) in groups {
                let wording = &self.groups[*group].wording;
                let (text, constant) = wording.over_visits(
                    param,
                    values,
                    &|values, is_number| self.pattern(this, *group, values, is_number),
                    names,
                );
                let here = constant.and_then(|signature| wording.on_ranks(param, signature));
                match (&mut numbers, here) {
                    (None, Some(here)) => numbers = Some(here),
                    (Some((before, all)), Some((text, here))) if *before == text => {
                        all.extend(here)
                    }
                    _ => are_numbers = false,
                }
                texts.push((*group, text));
            }
            let is_same = texts.windows(2).all(|pair| pair[0].1 == pair[1].1);
            let text = match numbers.filter(|_| are_numbers && !is_same) {
                Some((before, mut numbers)) => {
                    numbers.sort_unstable();
                    let wording = &self.groups[groups[0].0].wording;
                    let signature = groups[0].1.iter().next().unwrap_or(0);
                    wording.over_ranks(param, signature, &before, &numbers)
                }
                None => self.by_ranks(texts),
            };
            all.push((name.to_owned(), text));
        }
        all
    }

    /// Numbers of groups as a formula of the rank.
    fn over_ranks(&self, numbers: &[(usize, i64)], number: &dyn Fn(i64) -> String) -> String {
        if let Some((_, first)) = numbers.first()
            && numbers.iter().all(|(_, value)| value == first)
        {
            return number(*first);
        }
        let mut all: Vec<(u32, i64)> = Vec::new();
        for (group, value) in numbers {
            all.extend(self.groups[*group].ranks.iter().map(|rank| (rank, *value)));
        }
        all.sort_unstable();
        over_ranks(&all, &Words { name: &|_| None, number, are_ranks: false })
    }

    /// Texts of groups: one if they are equal, otherwise each with its ranks.
    fn by_ranks(&self, texts: Vec<(usize, String)>) -> String {
        let mut by_text: Vec<(String, Vec<usize>)> = Vec::new();
        for (group, text) in texts {
            match by_text.iter_mut().find(|(known, _)| *known == text) {
                Some((_, groups)) => groups.push(group),
                None => by_text.push((text, vec![group])),
            }
        }
        match by_text.as_slice() {
            [(text, _)] => text.clone(),
            many if many.len() > MOST_TEXTS => format!("differs by rank ({} variants)", many.len()),
            many => {
                let each = |(text, groups): &(String, Vec<usize>)| {
                    format!("{}: {text}", self.ranks(groups))
                };
                format!("{{{}}}", many.iter().map(each).collect::<Vec<_>>().join("; "))
            }
        }
    }
}

/// `i`, `j`, `k` …; `i18` where the alphabet ends.
pub(crate) fn index_name(depth: usize) -> String {
    match (b'i'..=b'z').nth(depth) {
        Some(letter) => char::from(letter).to_string(),
        None => format!("i{depth}"),
    }
}

/// The indices of a node's first visits in a group.
#[derive(Clone, Debug, Default)]
struct Sampled {
    indices: Indices,
    /// How many visits.
    visits: usize,
    /// The visits in each iteration of the outermost loop, if these are always the same number.
    round: Option<u64>,
}

impl Sampled {
    /// Whether a formula that holds for the sampled visits holds for all of them, if its period is at most `longest`
    /// iterations: either all visits are sampled, or values and formula have periods of which two are sampled.
    fn are_enough<T: Copy + Ord + std::hash::Hash>(&self, values: &Seq<T>, longest: u64) -> bool {
        let half = self.visits / 2;
        let is_periodic = || {
            let round = self.round.and_then(|round| round.checked_mul(longest));
            round.is_some_and(|round| round <= half as u64) && values.pattern(half).is_some()
        };
        self.visits as u64 == values.len() || is_periodic()
    }
}
