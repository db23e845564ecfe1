//! The figures of a trace: calls, durations and bytes per function.
//!
//! They are computed from signatures and grammars, over all ranks of a group at once. Sequences of
//! calls are not expanded, so a trace of a billion calls takes no longer than one of a thousand.
//! Ranks are evaluated one by one only if their arguments differ.

mod durations;

use crate::datatypes::{Datatype, Elements, Sizes, makes_datatypes};
use crate::payload::{has_payload, payload};
use refrain_format::define::FunctionDef;
use refrain_mpi::names::HandleTable;
use refrain_reader::refrain_fold::histograms::{self, HistogramTrace};
use refrain_reader::trace::{Group, Stats};
use refrain_reader::{CallTrace, TraceError};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::rc::Rc;
use std::sync::Arc;

/// The most signatures that are sampled at once.
const AT_A_TIME: usize = 4096;

/// The figures of a trace.
#[derive(Debug, Default)]
pub struct Figures {
    /// By function, the one that took longest first.
    pub functions: Vec<FunctionFigures>,
    /// By group.
    pub groups: Vec<GroupFigures>,
}

/// What figures are of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum By {
    /// Each function.
    #[default]
    Function,
    /// Each function at each call site. The sites of a group of ranks are those of its first rank.
    Site,
}

/// A function by its number, and the call site where figures are by site.
type Key = (u16, Option<Arc<str>>);

/// The figures of a function, or of a function at a call site.
#[derive(Debug, Default)]
pub struct FunctionFigures {
    /// Its name.
    pub name: String,
    /// The call site, where figures are by site and sites were recorded.
    pub site: Option<Arc<str>>,
    /// Calls, including failed polls.
    pub calls: u64,
    /// How many processes called it.
    pub ranks: usize,
    /// Payload of its calls; see [`crate::payload`].
    pub bytes: u64,
    /// Calls with a payload of unknown size.
    pub unsized_calls: u64,
    /// Failed polls that were repeated at once. A failed poll that was not repeated is an ordinary call in
    /// a trace, and is not counted here.
    pub failed_polls: u64,
    /// Whether durations are unknown: statistics are over more ranks than were requested.
    pub is_untimed: bool,
    /// Durations of the calls that returned, in ticks ([`refrain_reader::Meta::tick`]).
    pub stats: Stats,
}

/// The figures of a group.
#[derive(Debug)]
pub struct GroupFigures {
    /// The number of ranks.
    pub ranks: usize,
    /// The ranks.
    pub list: String,
    /// The number of its tasks in their processes.
    pub thread: u32,
    /// Its signatures.
    pub signatures: usize,
    /// Calls of all its ranks.
    pub calls: u64,
}

impl Figures {
    /// Calls in all.
    pub fn calls(&self) -> u64 {
        self.functions.iter().map(|f| f.calls).fold(0, u64::saturating_add)
    }
}

/// The figures of a trace.
pub fn figures(trace: &CallTrace) -> Result<Figures, TraceError> {
    figures_of(trace, None, By::Function)
}

/// The figures of the processes with these rank indices, or of all. Statistics of durations are over all ranks that make
/// the same calls. If only some of these ranks are requested, durations are taken from the times of every call if the
/// trace has these; otherwise the function has none ([`FunctionFigures::is_untimed`]).
pub fn figures_of(
    trace: &CallTrace,
    wanted: Option<&BTreeSet<u32>>,
    by: By,
) -> Result<Figures, TraceError> {
    let durations = trace.durations()?;
    let mut count = Count::new(trace, wanted, by)?;

    let polls = failed_polls(trace, &count.ranks)?;
    let mut groups = Vec::new();
    for (number, group) in trace.structure()?.groups.iter().enumerate() {
        if count.ranks_of(group).is_empty() {
            continue;
        }
        let calls = count.calls(number, group, &polls[number]);
        groups.push(GroupFigures {
            ranks: group.ranks.len(),
            list: group.ranks.to_string(),
            thread: group.thread,
            signatures: group.rows.len(),
            calls,
        });
        count.payloads(number, group)?;
    }
    if let Some(durations) = durations {
        count.durations(durations)?;
    }
    let mut functions: Vec<_> = count.figures.into_values().collect();
    functions.sort_by(|a, b| {
        let key = |f: &FunctionFigures| (f.stats.sum, f.calls);
        key(b).cmp(&key(a)).then_with(|| (&a.name, &a.site).cmp(&(&b.name, &b.site)))
    });
    Ok(Figures { functions, groups })
}

/// The calls of a trace with histograms, by function; durations and bytes are unknown.
pub fn of_histograms(trace: &HistogramTrace) -> Figures {
    let name = |number: &u16| {
        let def = FunctionDef::from_text(trace.functions.get(number)?).ok()?;
        Some(def.name)
    };
    let mut functions: BTreeMap<String, FunctionFigures> = BTreeMap::new();
    trace.each_call(&mut |call| {
        let name = name(&call.function).unwrap_or_else(|| "?".to_owned());
        let figures = functions.entry(name.clone()).or_default();
        (figures.name, figures.is_untimed) = (name, true);
        figures.calls = figures.calls.saturating_add(call.calls);
    });
    let group = |program: &histograms::Program| GroupFigures {
        ranks: program.ranks.len(),
        list: program.ranks.to_string(),
        thread: program.thread,
        signatures: program.places().len(),
        calls: program.places().iter().map(|call| call.calls).fold(0, u64::saturating_add),
    };
    let groups = trace.programs.iter().map(group).collect();
    Figures { functions: functions.into_values().collect(), groups }
}

/// The groups of each requested process, by its rank index.
type GroupsOf = BTreeMap<u32, Vec<usize>>;

/// For each group and signature, the failed polls of all ranks.
fn failed_polls(
    trace: &CallTrace,
    ranks: &GroupsOf,
) -> Result<Vec<BTreeMap<u32, u64>>, TraceError> {
    let groups = &trace.structure()?.groups;
    let mut all = vec![BTreeMap::new(); groups.len()];
    for (rank, thread, residue) in trace.residues()? {
        let mut of_rank = ranks.get(&rank).into_iter().flatten();
        let Some(group) = of_rank.find(|g| groups[**g].thread == thread) else { continue };
        for (signature, polls) in residue.polls {
            let sum: &mut u64 = all[*group].entry(signature).or_default();
            *sum = sum.saturating_add(polls.total());
        }
    }
    Ok(all)
}

struct Count<'t> {
    trace: &'t CallTrace,
    functions: BTreeMap<u16, Arc<FunctionDef>>,
    by: By,
    ranks: GroupsOf,
    figures: BTreeMap<Key, FunctionFigures>,
    /// By group.
    known: Vec<Known>,
    sizes: HashMap<Whose, Rc<Sizes>>,
}

/// Facts about a group.
struct Known {
    /// For each signature what it counts for.
    keys: Vec<Option<Key>>,
    /// All of these.
    called: BTreeSet<Key>,
    /// How often each signature occurs in its sequence.
    occurrences: Vec<u64>,
    /// The signatures that create datatypes.
    makers: Vec<usize>,
    /// Whether these signatures are the same on all ranks.
    makes_same: bool,
    names: HandleTable,
}

/// Whose datatypes.
#[derive(PartialEq, Eq, Hash)]
enum Whose {
    /// Of any process with tasks in these groups.
    Of(Vec<usize>),
    /// Of the process with this rank index.
    At(u32),
}

impl<'t> Count<'t> {
    fn new(
        trace: &'t CallTrace,
        wanted: Option<&BTreeSet<u32>>,
        by: By,
    ) -> Result<Count<'t>, TraceError> {
        let is_wanted = |rank: &u32| wanted.is_none_or(|wanted| wanted.contains(rank));
        let functions = trace.functions()?;
        let mut ranks = GroupsOf::new();
        let mut known = Vec::new();
        for (number, group) in trace.structure()?.groups.iter().enumerate() {
            let wanted = group.ranks.iter().filter(is_wanted);
            wanted.for_each(|rank| ranks.entry(rank).or_default().push(number));
            let makers = rows_of(group, &functions, makes_datatypes);
            let keys = keys(group, by);
            known.push(Known {
                called: keys.iter().flatten().cloned().collect(),
                keys,
                occurrences: group.occurrences(),
                makes_same: makers.iter().all(|row| is_constant(group, *row)),
                makers,
                names: trace.sample_names(group),
            });
        }
        let (figures, sizes) = (BTreeMap::new(), HashMap::new());
        Ok(Count { trace, functions, by, ranks, figures, known, sizes })
    }

    /// The requested rank indices of a group.
    fn ranks_of(&self, group: &Group) -> Vec<u32> {
        group.ranks.iter().filter(|rank| self.ranks.contains_key(rank)).collect()
    }

    /// Counts the calls of a group; returns their number.
    fn calls(&mut self, number: usize, group: &Group, polls: &BTreeMap<u32, u64>) -> u64 {
        let ranks = self.ranks_of(group);
        for key in &self.known[number].called {
            let Some(form) = self.functions.get(&key.0) else { continue };
            // Another thread of the process may have been counted in an earlier group.
            let is_new = |rank: &u32| {
                let mut earlier = self.ranks[rank].iter().take_while(|g| **g < number);
                !earlier.any(|g| self.known[*g].called.contains(key))
            };
            let ranks = ranks.iter().filter(|rank| is_new(rank)).count();
            let figures = self.figures.entry(key.clone()).or_default();
            figures.name.clone_from(&form.name);
            figures.site.clone_from(&key.1);
            figures.ranks += ranks;
        }
        let mut all = 0u64;
        let Known { occurrences, keys, .. } = &self.known[number];
        for (row, (occurrences, key)) in occurrences.iter().zip(keys).enumerate() {
            let figures = key.as_ref().and_then(|key| self.figures.get_mut(key));
            let Some(figures) = figures else { continue };
            let failed = polls.get(&(row as u32)).copied().unwrap_or(0);
            let calls = occurrences.saturating_mul(ranks.len() as u64).saturating_add(failed);
            figures.calls = figures.calls.saturating_add(calls);
            figures.failed_polls = figures.failed_polls.saturating_add(failed);
            all = all.saturating_add(calls);
        }
        all
    }

    /// Adds the payloads of a group's calls.
    fn payloads(&mut self, number: usize, group: &Group) -> Result<(), TraceError> {
        let (same, differing): (Vec<_>, Vec<_>) = rows_of(group, &self.functions, has_payload)
            .into_iter()
            .partition(|row| is_constant(group, *row));
        let ranks = self.ranks_of(group);
        let first = ranks.first().copied().unwrap_or(0);
        let same: Vec<_> = same.into_iter().map(|row| (first, row)).collect();
        for some in same.chunks(AT_A_TIME) {
            for ((_, row), payload) in self.sampled(number, group, some)? {
                if payload.as_deref().is_some_and(has_derived) {
                    for rank in &ranks {
                        self.add(number, (*rank, row), 1, payload.as_deref())?;
                    }
                } else {
                    let ranks = ranks.len() as u64;
                    self.add(number, (first, row), ranks, payload.as_deref())?;
                }
            }
        }
        let differing = ranks.iter().flat_map(|rank| {
            let rank = *rank;
            differing.iter().map(move |row| (rank, *row))
        });
        let mut differing = differing.peekable();
        while differing.peek().is_some() {
            let some: Vec<_> = differing.by_ref().take(AT_A_TIME).collect();
            for (task, payload) in self.sampled(number, group, &some)? {
                self.add(number, task, 1, payload.as_deref())?;
            }
        }
        Ok(())
    }

    /// The payloads of these signatures on these ranks.
    fn sampled(
        &self,
        number: usize,
        group: &Group,
        some: &[(u32, usize)],
    ) -> Result<Vec<Sampled>, TraceError> {
        let family = self.trace.family();
        let names = &self.known[number].names;
        let events = self.trace.samples(group, some)?;
        let of = |event| payload(&event, names, family);
        Ok(some.iter().copied().zip(events.into_iter().map(of)).collect())
    }

    /// Adds the payload of a signature's calls, for one rank and for the others with the same arguments.
    fn add(
        &mut self,
        number: usize,
        (rank, row): (u32, usize),
        ranks: u64,
        payload: Option<&[(u64, Datatype)]>,
    ) -> Result<(), TraceError> {
        let calls = self.known[number].occurrences[row].saturating_mul(ranks);
        let bytes = match payload {
            Some(payload) if has_derived(payload) => self.sizes(rank)?.bytes(payload),
            Some(payload) => Sizes::default().bytes(payload),
            None => None,
        };
        let key = self.known[number].keys[row].as_ref();
        let Some(figures) = key.and_then(|key| self.figures.get_mut(key)) else { return Ok(()) };
        let (sum, more) = match bytes {
            Some(bytes) => (&mut figures.bytes, bytes.saturating_mul(calls)),
            None => (&mut figures.unsized_calls, calls),
        };
        *sum = sum.saturating_add(more);
        Ok(())
    }

    /// The sizes of the datatypes of a process.
    fn sizes(&mut self, rank: u32) -> Result<Rc<Sizes>, TraceError> {
        let of = self.ranks.get(&rank).cloned().unwrap_or_default();
        let all_same = of.iter().all(|group| self.known[*group].makes_same);
        let whose = if all_same { Whose::Of(of.clone()) } else { Whose::At(rank) };
        if let Some(sizes) = self.sizes.get(&whose) {
            return Ok(sizes.clone());
        }
        let mut calls = Vec::new();
        for number in of {
            let Known { makers, names, .. } = &self.known[number];
            let wanted: Vec<_> = makers.iter().map(|row| (rank, *row)).collect();
            let group = &self.trace.structure()?.groups[number];
            calls.extend(self.trace.samples(group, &wanted)?.into_iter().map(|e| (e, names)));
        }
        let sizes = Rc::new(Sizes::new(calls));
        self.sizes.insert(whose, sizes.clone());
        Ok(sizes)
    }
}

/// Rank index and signature, and the payload if it is known.
type Sampled = ((u32, usize), Option<Elements>);

fn has_derived(payload: &[(u64, Datatype)]) -> bool {
    payload.iter().any(|(_, datatype)| matches!(datatype, Datatype::Derived(_)))
}

/// For each signature of a group what it counts for; nothing for a note.
fn keys(group: &Group, by: By) -> Vec<Option<Key>> {
    let first = group.ranks.iter().next().unwrap_or(0);
    let mut sites: HashMap<u32, Arc<str>> = HashMap::new();
    let mut site = |number: u32| {
        if let Some(site) = sites.get(&number) {
            return Some(site.clone());
        }
        let bytes = group.strings.get(number as usize)?.eval(first)?;
        let site: Arc<str> = String::from_utf8_lossy(&bytes).into();
        sites.insert(number, site.clone());
        Some(site)
    };
    let heads = group.rows.iter().map(|row| row.head());
    let keys = heads.map(|head| {
        let head = head?;
        Some((head.function, head.site.filter(|_| by == By::Site).and_then(&mut site)))
    });
    keys.collect()
}

/// The number of a signature's function.
fn function_of(group: &Group, row: usize) -> Option<u16> {
    Some(group.rows.get(row)?.head()?.function)
}

/// Whether a signature is the same on all ranks.
fn is_constant(group: &Group, row: usize) -> bool {
    let row = group.rows.get(row);
    row.is_some_and(|row| row.cells.constant().is_some() && row.outcome.constant().is_some())
}

/// The signatures of some functions.
fn rows_of(
    group: &Group,
    functions: &BTreeMap<u16, Arc<FunctionDef>>,
    wanted: fn(&FunctionDef) -> bool,
) -> Vec<usize> {
    let numbers: BTreeSet<u16> =
        functions.iter().filter(|(_, form)| wanted(form)).map(|(number, _)| *number).collect();
    let is_wanted = |row: &usize| function_of(group, *row).is_some_and(|f| numbers.contains(&f));
    (0..group.rows.len()).filter(is_wanted).collect()
}
