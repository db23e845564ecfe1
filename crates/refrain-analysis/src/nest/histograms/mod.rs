//! Histogram traces: from the nests of a trace, and as programs that people read.

mod align;
mod flat;
mod gathered;
mod place;
mod program;
#[cfg(test)]
mod tests;

pub use program::{Texts, programs};

use self::align::aligned;
use self::gathered::{Exact, Gathered};
use self::place::{Argument, Call, Part, Place, Visits, What, sum};
use super::arguments::{self, Wording};
use super::skeletons::Renamed;
use super::unroll::unrolled;
use super::{Builder, Common, FoldedThread, folded_threads, samples};
use refrain_format::define::FunctionDef;
use refrain_reader::refrain_elastic::{IdList, tree};
use refrain_reader::refrain_fold::histograms::{
    self, HistogramTrace, Node, Over, Program, Ranks, Tally,
};
use refrain_reader::refrain_nest::formulas::Pattern;
use refrain_reader::refrain_nest::{Grouped, Nest, Options, Seq, over_groups_with};
use refrain_reader::{Arg, CallTrace, Object, Structure, TraceError};
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// What calls are drawn with: any number serves.
const SEED: u64 = 0x5ca1_a7ac;
/// Totals of times are kept to so many binary digits.
const DIGITS: u32 = 10;

/// The trace with histograms in place of vectors of more than `above` numbers.
///
/// Places that occur more often in the nest are put together as well.
pub fn histograms(
    trace: &CallTrace,
    options: Options,
    above: u64,
    renamed: &mut Renamed<'_>,
) -> Result<HistogramTrace, TraceError> {
    let functions = &trace.structure()?.functions;
    let numbers: HashMap<&str, u16> = trace
        .function_table()?
        .called()
        .map(|(number, function)| (function.def.name.as_str(), number))
        .collect();
    let is_timed = trace.durations()?.is_some();
    let mut programs = Vec::new();
    folded_threads(trace, None, options, renamed, &mut |folded| {
        let FoldedThread { thread, groups, nests, has_sites } = folded;
        let all = groups.iter().map(|group| group.ranks().len() as u32).sum();
        let ranks = tree::reduce(groups.iter().map(|g| g.ranks().clone()), |a, b| a.union(&b));
        let mut words = Words::default();
        let nests: Vec<Vec<Grouped>> = nests
            .into_iter()
            .map(|nest| over_groups_with(vec![nest], options))
            .map(|nest| if has_sites { nest } else { unrolled(nest) })
            .collect();
        let mut gather = |group: &Structure<'_>, nest: &[Grouped], frequent: &BTreeSet<u32>| {
            let common = Common { thread, groups: vec![*group], nest: nest.to_vec() };
            let mut gatherer = Gatherer {
                builder: Builder::of(trace, &common, None),
                numbers: &numbers,
                skeletons: skeletons(&common),
                words: &mut words,
                all,
                is_timed,
                frequent,
            };
            gatherer.body(&common.nest, &mut 0)
        };
        // Where a place has too many nodes in the nest of a group, or of several, it becomes one node of each group.
        let mut flattened = frequent(&nests, above);
        let body = loop {
            let mut excess = BTreeSet::new();
            let bodies =
                groups.iter().zip(&nests).map(|(group, nest)| gather(group, nest, &flattened));
            let body = merged(bodies, above, &flattened, &mut excess);
            if excess.is_empty() {
                break body;
            }
            flattened.extend(excess);
        };
        let mut places = BTreeMap::new();
        number(&body, &mut 0, &mut places);
        let stored = Storing { above, words, places };
        let body = body.iter().map(|node| stored.node(node)).collect();
        programs.push(Program { thread, ranks: ranks.unwrap_or_default(), body });
    })?;
    Ok(HistogramTrace { above, seed: SEED, functions: functions.clone(), programs })
}

/// The nest of all groups. Places of which it has more than so many nodes become `excess`, unless they have one node in
/// each group already; then the rest is left out.
fn merged(
    bodies: impl Iterator<Item = Vec<Place>>,
    above: u64,
    flattened: &BTreeSet<u32>,
    excess: &mut BTreeSet<u32>,
) -> Vec<Place> {
    let join = |ours: Vec<Place>, theirs: Vec<Place>| {
        if !excess.is_empty() {
            return ours;
        }
        let body = aligned(ours, theirs, above);
        let mut times: BTreeMap<u32, u64> = BTreeMap::new();
        for node in &body {
            node.each_skeleton(&mut |place| *times.entry(place).or_default() += 1);
        }
        let is_excess = |(place, times): &(u32, u64)| *times > above && !flattened.contains(place);
        excess.extend(times.into_iter().filter(is_excess).map(|(place, _)| place));
        body
    };
    tree::reduce(bodies, join).unwrap_or_default()
}

/// The places that have more than so many nodes in the nest of a group.
fn frequent(nests: &[Vec<Grouped>], most: u64) -> BTreeSet<u32> {
    let mut frequent = BTreeSet::new();
    for nest in nests {
        let mut times = BTreeMap::new();
        flat::occurrences(nest, &mut times);
        frequent.extend(times.into_iter().filter(|(_, n)| *n > most).map(|(place, _)| place));
    }
    frequent
}

/// For each group and signature its skeleton.
fn skeletons(common: &Common<'_>) -> Vec<HashMap<u32, u32>> {
    fn walk(nest: &[Grouped], all: &mut [HashMap<u32, u32>]) {
        for node in nest {
            match node {
                Nest::Leaf(places) => {
                    for (group, values) in &places.groups {
                        values.tally(&mut |row, _| {
                            all[*group].insert(row, places.skeleton);
                        });
                    }
                }
                Nest::Loop { body, .. } => walk(body, all),
                Nest::Block(_) => {}
            }
        }
    }
    let mut all = vec![HashMap::new(); common.groups.len()];
    walk(&common.nest, &mut all);
    all
}

/// The numbers that nodes will have, by skeleton.
fn number(body: &[Place], next: &mut u32, places: &mut BTreeMap<u32, Vec<u32>>) {
    for node in body {
        let this = *next;
        *next += 1;
        match &node.what {
            What::Call(call) => places.entry(call.skeleton).or_default().push(this),
            What::Loop { body, .. } => number(body, next, places),
        }
    }
}

/// Words by number.
#[derive(Default)]
struct Words {
    all: Vec<String>,
    numbers: HashMap<String, i64>,
}

impl Words {
    fn number(&mut self, word: String) -> i64 {
        if let Some(number) = self.numbers.get(&word) {
            return *number;
        }
        let number = self.all.len() as i64;
        self.all.push(word.clone());
        self.numbers.insert(word, number);
        number
    }
}

/// Gathers values from the nest.
struct Gatherer<'a, 't> {
    builder: Builder<'t>,
    numbers: &'a HashMap<&'a str, u16>,
    skeletons: Vec<HashMap<u32, u32>>,
    words: &'a mut Words,
    /// How many ranks there are.
    all: u32,
    is_timed: bool,
    /// Places that occur too often in the nest.
    frequent: &'a BTreeSet<u32>,
}

/// What values are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Number,
    /// A rank.
    Rank,
    /// The number of a word.
    Word,
    /// 0 or 1.
    Condition,
}

/// The values of a place in a group.
enum Here {
    /// The same on all ranks.
    Visits(Seq<i64>),
    /// The same at each of so many visits.
    Ranks(Vec<(u32, i64)>, u64),
    /// Different over both: for each signature its numbers, and how often it is called.
    Mixed(Vec<(Vec<(u32, i64)>, u64)>),
}

impl Gatherer<'_, '_> {
    fn ranks(&self, group: usize) -> &IdList {
        &self.builder.groups[group].ranks
    }

    fn visits<T: Copy + Eq>(&self, groups: &[(usize, Seq<T>)]) -> Visits {
        let of = |(group, values): &(usize, Seq<T>)| {
            let visits = values.len();
            self.ranks(*group).iter().map(move |rank| (rank, visits)).collect::<Vec<_>>()
        };
        groups.iter().flat_map(of).collect()
    }

    fn body(&mut self, nest: &[Grouped], next: &mut usize) -> Vec<Place> {
        let sets: Vec<BTreeSet<u32>> =
            nest.iter().map(|node| flat::places_of(node, self.frequent)).collect();
        let mut body = Vec::with_capacity(nest.len());
        for stretch in flat::stretches(&sets) {
            match &nest[stretch] {
                [node] => body.extend(self.node(node, next)),
                stretch => body.push(self.stretch(stretch, next)),
            }
        }
        body
    }

    fn node(&mut self, node: &Grouped, next: &mut usize) -> Option<Place> {
        let this = *next;
        *next += 1;
        match node {
            Nest::Leaf(places) => {
                let call = self.call(this, places.skeleton, &places.groups)?;
                let visits = self.visits(&places.groups);
                Some(Place { visits, what: What::Call(Box::new(call)) })
            }
            Nest::Loop { count, body } => {
                let is_condition = samples::is_condition(count);
                let all = count
                    .iter()
                    .map(|(group, trips)| (*group, Here::Visits(trips.map(|n| n as i64))))
                    .collect();
                let kind = if is_condition { Kind::Condition } else { Kind::Number };
                let trips = self.gathered(this, all, kind);
                let body = self.body(body, next);
                let visits = self.visits(count);
                Some(Place { visits, what: What::Loop { is_condition, trips, body } })
            }
            Nest::Block(_) => None,
        }
    }

    /// A stretch in which places occur too often.
    fn stretch(&mut self, nest: &[Grouped], next: &mut usize) -> Place {
        let mut calls: BTreeMap<u32, Place> = BTreeMap::new();
        self.calls(nest, next, &mut calls);
        let visits = nest.first().map_or(0, |node| match node {
            Nest::Leaf(places) => places.groups.first().map_or(0, |(_, values)| values.len()),
            Nest::Loop { count, .. } => count.first().map_or(0, |(_, trips)| trips.len()),
            Nest::Block(_) => 0,
        });
        flat::flat(nest, visits, self.ranks(0), calls)
    }

    /// The calls of a stretch by place.
    fn calls(&mut self, nest: &[Grouped], next: &mut usize, calls: &mut BTreeMap<u32, Place>) {
        for node in nest {
            if let Nest::Loop { body, .. } = node {
                *next += 1;
                self.calls(body, next, calls);
                continue;
            }
            let Some(mut place) = self.node(node, next) else { continue };
            let Nest::Leaf(places) = node else { continue };
            place.forget_visits();
            match (calls.get_mut(&places.skeleton), place.what) {
                (Some(Place { visits, what: What::Call(known) }), What::Call(call)) => {
                    *visits = sum(visits, &place.visits);
                    known.absorb(*call, &mut |ours, theirs| ours.absorb(theirs));
                }
                (_, what) => {
                    calls.insert(places.skeleton, Place { visits: place.visits, what });
                }
            }
        }
    }

    /// Values of groups.
    fn gathered(&self, this: usize, all: Vec<(usize, Here)>, kind: Kind) -> Gathered {
        let mut tally = Tally::new(Some(self.all).filter(|_| kind == Kind::Rank));
        let mut by_rank: Option<BTreeMap<u32, i64>> = Some(BTreeMap::new());
        let mut by_visit: Option<Vec<(IdList, Over)>> = Some(Vec::new());
        for (group, here) in all {
            let ranks = self.ranks(group);
            match here {
                Here::Visits(values) => {
                    values.tally(&mut |value, count| {
                        ranks.iter().for_each(|rank| tally.add(rank, value, count));
                    });
                    match (&mut by_rank, values.constant()) {
                        (Some(known), Some(value)) => {
                            known.extend(ranks.iter().map(|rank| (rank, value)));
                        }
                        _ => by_rank = None,
                    }
                    if let Some(sets) = &mut by_visit {
                        sets.push((ranks.clone(), self.over(this, group, values, kind)));
                    }
                }
                Here::Ranks(values, visits) => {
                    values.iter().for_each(|(rank, value)| tally.add(*rank, *value, visits));
                    if let Some(known) = &mut by_rank {
                        known.extend(values);
                    }
                    by_visit = None;
                }
                Here::Mixed(rows) => {
                    for (values, count) in rows {
                        values.iter().for_each(|(rank, value)| tally.add(*rank, *value, count));
                    }
                    (by_rank, by_visit) = (None, None);
                }
            }
        }
        let exact = by_rank.map(Exact::Ranks).or(by_visit.map(Exact::Visits));
        Gathered { exact, tally }
    }

    /// Values over the visits of a group.
    fn over(&self, this: usize, group: usize, values: Seq<i64>, kind: Kind) -> Over {
        if kind == Kind::Condition && values.constant().is_none() {
            let trips = values.map(|held| held as u64);
            return match self.builder.rule(this, group, &trips) {
                Some(rule) => Over::Rule(rule),
                None => Over::Sequence(values),
            };
        }
        match self.builder.pattern(this, group, &values, kind != Kind::Word) {
            Pattern::Between(..) => Over::Sequence(values),
            formula => Over::Formula(formula),
        }
    }

    fn call(&mut self, this: usize, skeleton: u32, groups: &[(usize, Seq<u32>)]) -> Option<Call> {
        let (group, values) = groups.first()?;
        let first = values.iter().next()?;
        let signature = self.builder.groups[*group].structure.signature(first)?;
        let (function, returned) = (signature.function, signature.returned());
        let params: Vec<usize> =
            self.builder.groups[*group].wording.params(first).iter().map(|(at, _)| *at).collect();
        let arguments =
            params.into_iter().map(|param| self.argument(this, function, param, groups));
        let arguments = arguments.collect();
        let mut call = Call {
            skeleton,
            function: self.numbers.get(function.name.as_str()).copied()?,
            returned,
            sites: self.sites(groups),
            arguments,
            requests: self.requests(groups),
            calls: 0,
            nanoseconds: 0.0,
            gaps: 0.0,
        };
        for (number, values) in groups {
            let group = &self.builder.groups[*number];
            let ranks = group.ranks.len() as u64;
            call.calls = call.calls.saturating_add(values.len().saturating_mul(ranks));
            values.tally(&mut |signature, count| {
                let occurs = group.occurrences.get(signature as usize).copied().unwrap_or(0);
                let signature = group.structure.signature(signature).filter(|_| self.is_timed);
                if let Some(mean) = signature.and_then(|signature| signature.mean(occurs)) {
                    let times = count as f64 * ranks as f64 * self.builder.tick;
                    call.nanoseconds += mean.with_polls * times;
                    call.gaps += mean.gap * times;
                }
            });
        }
        Some(call)
    }

    fn sites(&self, groups: &[(usize, Seq<u32>)]) -> Vec<Vec<u8>> {
        self.builder.sites(groups).iter().map(|site| site.as_bytes().to_vec()).collect()
    }

    /// The skeletons of the calls whose requests the calls of a place use.
    fn requests(&self, groups: &[(usize, Seq<u32>)]) -> BTreeSet<u32> {
        let mut all = BTreeSet::new();
        for (number, values) in groups {
            let group = &self.builder.groups[*number];
            let known = &self.skeletons[*number];
            let mut add = |signature: i64| {
                let signature = u32::try_from(signature).ok();
                all.extend(signature.and_then(|signature| known.get(&signature)).copied());
            };
            values.tally(&mut |row, _| {
                let Some(signature) = group.structure.signature(row) else { return };
                let Some(arguments) = signature.variants().next() else { return };
                for (_, arg) in arguments.all() {
                    match arg {
                        Arg::Handle(Object::Request { signature, .. }) => add(signature.into()),
                        Arg::Requests { signatures, .. } => {
                            let Some(rank) = arguments.ranks.first() else { continue };
                            let elements = signatures.on(rank, &[]).unwrap_or_default();
                            elements.into_iter().for_each(|plus_one| add(plus_one - 1));
                        }
                        _ => {}
                    }
                }
            });
        }
        all
    }

    fn argument(
        &mut self,
        this: usize,
        function: &FunctionDef,
        param: usize,
        groups: &[(usize, Seq<u32>)],
    ) -> Argument {
        let def = function.params.get(param);
        let are_ranks = def.is_some_and(|def| def.reads_as == "rank");
        let mut known: HashMap<(usize, u32), Vec<arguments::Part<'_>>> = HashMap::new();
        for (group, values) in groups {
            let wording = &self.builder.groups[*group].wording;
            values.tally(&mut |row, _| {
                known.entry((*group, row)).or_insert_with(|| wording.parts(param, row));
            });
        }
        let count = known.values().next().map_or(0, Vec::len);
        let is_alike = known.values().all(|parts| parts.len() == count);
        let mut parts = Vec::new();
        for at in 0..if is_alike { count } else { 1 } {
            let is_text =
                |parts: &Vec<arguments::Part<'_>>| matches!(parts[at], arguments::Part::Text(_));
            let is_word = !is_alike || known.values().any(is_text);
            let mut all = Vec::with_capacity(groups.len());
            for (group, values) in groups {
                let wording = &self.builder.groups[*group].wording;
                let here = match is_word {
                    true => {
                        let words = &mut *self.words;
                        Here::Visits(values.map(|row| {
                            words.number(word(
                                wording,
                                param,
                                row,
                                &known[&(*group, row)],
                                is_alike.then_some(at),
                            ))
                        }))
                    }
                    false => here(wording, values, |row| &known[&(*group, row)][at]),
                };
                all.push((*group, here));
            }
            let kind = match is_word {
                true => Kind::Word,
                false if are_ranks => Kind::Rank,
                false => Kind::Number,
            };
            let values = self.gathered(this, all, kind);
            parts.push(Part { is_word, values });
        }
        Argument { param: param as u16, parts }
    }
}

/// A part of an argument as text, or all of it.
fn word(
    wording: &Wording<'_>,
    param: usize,
    row: u32,
    parts: &[arguments::Part<'_>],
    at: Option<usize>,
) -> String {
    match at {
        Some(at) => wording.part_text(param, row, &parts[at]),
        None => {
            let all: Vec<String> =
                parts.iter().map(|part| wording.part_text(param, row, part)).collect();
            arguments::joined(&all)
        }
    }
}

/// The numbers of a place in a group.
fn here<'p, 't: 'p>(
    wording: &Wording<'t>,
    values: &Seq<u32>,
    part: impl Fn(u32) -> &'p arguments::Part<'t>,
) -> Here {
    let mut are_numbers = true;
    let mut rows: Vec<(u32, u64)> = Vec::new();
    values.tally(&mut |row, count| {
        are_numbers &= matches!(part(row), arguments::Part::Number(_));
        rows.push((row, count));
    });
    if are_numbers {
        return Here::Visits(values.map(|row| match part(row) {
            arguments::Part::Number(value) => *value,
            _ => 0,
        }));
    }
    let numbers = |row: u32| wording.numbers(part(row)).unwrap_or_default();
    match values.constant() {
        Some(row) => Here::Ranks(numbers(row), values.len()),
        None => Here::Mixed(rows.into_iter().map(|(row, count)| (numbers(row), count)).collect()),
    }
}

/// Makes what is stored.
struct Storing {
    above: u64,
    words: Words,
    places: BTreeMap<u32, Vec<u32>>,
}

impl Storing {
    fn node(&self, place: &Place) -> Node {
        let ranks: Vec<u32> = place.visits.keys().copied().collect();
        let list = IdList::from_sorted(&ranks);
        let ranks = match list.sections().len() as u64 <= self.above.max(1) {
            true => Ranks::Listed(list),
            false => Ranks::Some(list.len() as u32),
        };
        let what = match &place.what {
            What::Call(call) => histograms::What::Call(self.call(call)),
            What::Loop { is_condition, trips, body } => {
                let body = body.iter().map(|node| self.node(node)).collect();
                let values = trips.values(self.above);
                match is_condition {
                    true => histograms::What::If { holds: values, body },
                    false => histograms::What::Loop { trips: values, body },
                }
            }
        };
        Node { ranks, what }
    }

    fn call(&self, call: &Call) -> histograms::Call {
        let argument = |argument: &Argument| histograms::Argument {
            param: argument.param,
            parts: argument.parts.iter().map(|part| self.part(part)).collect(),
        };
        let places = call.requests.iter().filter_map(|skeleton| self.places.get(skeleton));
        let mut requests: Vec<u32> = places.flatten().copied().collect();
        requests.sort_unstable();
        histograms::Call {
            function: call.function,
            returned: call.returned,
            sites: call.sites.clone(),
            arguments: call.arguments.iter().map(argument).collect(),
            requests,
            calls: call.calls,
            nanoseconds: rounded(call.nanoseconds),
            gaps: rounded(call.gaps),
        }
    }

    fn part(&self, part: &Part) -> histograms::Part {
        if !part.is_word {
            return histograms::Part::Number(part.values.values(self.above));
        }
        // The most frequent words first.
        let mut all: Vec<(i64, u64)> = part.values.tally.values().collect();
        all.sort_by_key(|(word, count)| (std::cmp::Reverse(*count), *word));
        let kept = all.len().min(self.above.max(1) as usize);
        let left_out = (all.len() - kept) as u64;
        let numbers: HashMap<i64, i64> =
            (0..).zip(&all[..kept]).map(|(n, (word, _))| (*word, n)).collect();
        let words = all[..kept].iter().map(|(word, _)| self.words.all[*word as usize].clone());
        let which = part.values.renamed(&numbers, left_out == 0);
        histograms::Part::Word { words: words.collect(), left_out, which: which.values(self.above) }
    }
}

/// A number of nanoseconds to a few digits.
fn rounded(nanoseconds: f64) -> u64 {
    let whole = nanoseconds.max(0.0) as u64;
    let drop = (u64::BITS - whole.leading_zeros()).saturating_sub(DIGITS);
    whole.checked_add((1u64 << drop) >> 1).unwrap_or(whole) >> drop << drop
}
