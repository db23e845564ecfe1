//! The figures of a trace: how often which function was called, for how long, with how many
//! bytes.
//!
//! They come from signatures and grammars as they are stored, over all ranks of a group at once.
//! Sequences of calls are not expanded, so a trace of a billion calls takes no longer than one of a
//! thousand. Ranks are evaluated one by one only where their arguments differ.

use crate::datatypes::{Datatype, Elements, Sizes, makes_datatypes};
use crate::payload::{has_payload, payload};
use refrain_format::define::FunctionDef;
use refrain_mpi::names::HandleTable;
use refrain_reader::trace::{Group, Stats};
use refrain_reader::{CallTrace, Item, Source, TraceError};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::rc::Rc;
use std::sync::Arc;

/// The most signatures that are sampled at once.
const AT_A_TIME: usize = 4096;

/// The figures of a trace.
#[derive(Debug, Default)]
pub struct Figures {
    /// For each function that was called: the one that took longest first.
    pub functions: Vec<FunctionFigures>,
    /// For each group of tasks that do the same.
    pub groups: Vec<GroupFigures>,
}

/// The figures of a function.
#[derive(Debug, Default)]
pub struct FunctionFigures {
    /// Its name.
    pub name: String,
    /// Calls, failed polls among them.
    pub calls: u64,
    /// How many processes called it.
    pub ranks: usize,
    /// Payload of its calls; see [`crate::payload`].
    pub bytes: u64,
    /// Calls with a payload whose size is not known.
    pub unsized_calls: u64,
    /// Tests and probes that found nothing and were made again at once. One that was not repeated
    /// is a call like any other to a trace, and not among them.
    pub failed_polls: u64,
    /// Whether durations are unknown: they are kept of whole groups, and of some only single ranks were asked for.
    pub is_untimed: bool,
    /// Durations of the calls that returned, in ticks ([`refrain_reader::Meta::tick`]).
    pub stats: Stats,
}

/// The figures of a group.
#[derive(Debug)]
pub struct GroupFigures {
    /// How many ranks it has.
    pub ranks: usize,
    /// Which.
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

/// Finds the figures of a trace.
pub fn figures(trace: &CallTrace) -> Result<Figures, TraceError> {
    figures_of(trace, None)
}

/// Finds the figures of the processes with these rank indices, or of all. Durations are kept of whole groups. Where
/// only some ranks of a group are asked for, they come from the times of single calls if the trace has these;
/// otherwise the functions of the group have none ([`FunctionFigures::is_untimed`]).
pub fn figures_of(
    trace: &CallTrace,
    wanted: Option<&BTreeSet<u32>>,
) -> Result<Figures, TraceError> {
    trace.check_timing()?;
    let mut count = Count::new(trace, wanted)?;
    let polls = failed_polls(trace, &count.ranks)?;
    let mut groups = Vec::new();
    for (number, group) in trace.structure()?.groups.iter().enumerate() {
        if count.ranks_of(group).is_empty() {
            continue;
        }
        let calls = count.calls(number, group, &polls[number])?;
        groups.push(GroupFigures {
            ranks: group.ranks.len(),
            list: group.ranks.to_string(),
            thread: group.thread,
            signatures: group.rows.len(),
            calls,
        });
        count.payloads(number, group)?;
    }
    for function in &count.untimed {
        if let Some(figures) = count.figures.get_mut(function) {
            figures.stats = Stats::default();
            figures.is_untimed = true;
        }
    }
    let mut functions: Vec<_> = count.figures.into_values().collect();
    functions.sort_by(|a, b| {
        let key = |f: &FunctionFigures| (f.stats.sum, f.calls);
        key(b).cmp(&key(a)).then_with(|| a.name.cmp(&b.name))
    });
    Ok(Figures { functions, groups })
}

/// The groups of each process that is asked for, by its rank index.
type GroupsOf = BTreeMap<u32, Vec<usize>>;

/// For each group and signature the failed polls of all ranks.
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

/// Durations of single ranks of a group, by function: from the times of single calls; none if the trace has none.
fn single_times(
    trace: &CallTrace,
    group: &Group,
    ranks: &[u32],
) -> Result<Option<HashMap<String, Stats>>, TraceError> {
    if !trace.has_times() && !trace.has_raw() {
        return Ok(None);
    }
    let wanted: BTreeSet<u32> = ranks.iter().copied().collect();
    let mut all: HashMap<String, Stats> = HashMap::new();
    for process in trace.processes().filter(|p| wanted.contains(&p.rank_index())) {
        for task in process.tasks().filter(|task| task.thread() == group.thread) {
            // When the last call returned at each depth: calls inside a call are no gap before it.
            let mut returned: Option<u64> = None;
            for item in task.items(Source::RecordTimes)? {
                let Item::Call(call) = item? else { continue };
                let event = call.event();
                let gap = returned.map_or(0, |before| event.start.saturating_sub(before));
                let Some(end) = event.end else { continue };
                returned = Some(returned.map_or(end, |before| before.max(end)));
                let duration = end.saturating_sub(event.start);
                match all.get_mut(call.name()) {
                    Some(stats) => stats.note(duration, gap),
                    None => all.entry(call.name().to_owned()).or_default().note(duration, gap),
                }
            }
        }
    }
    Ok(Some(all))
}

struct Count<'t> {
    trace: &'t CallTrace,
    functions: BTreeMap<u16, Arc<FunctionDef>>,
    ranks: GroupsOf,
    figures: BTreeMap<u16, FunctionFigures>,
    /// Functions of which some durations are those of ranks that were not asked for, too.
    untimed: BTreeSet<u16>,
    /// For each group what is known of it.
    known: Vec<Known>,
    sizes: HashMap<Whose, Rc<Sizes>>,
}

/// What is known of a group.
struct Known {
    /// The functions that its tasks call.
    called: BTreeSet<u16>,
    /// How often each signature occurs in its sequence.
    occurrences: Vec<u64>,
    /// The signatures that make datatypes.
    makers: Vec<usize>,
    /// Whether these are the same on all ranks.
    makes_same: bool,
    names: HandleTable,
}

/// Whose datatypes are meant.
#[derive(PartialEq, Eq, Hash)]
enum Whose {
    /// Of any process with tasks in these groups.
    Of(Vec<usize>),
    /// Of the process with this rank index.
    At(u32),
}

impl<'t> Count<'t> {
    fn new(trace: &'t CallTrace, wanted: Option<&BTreeSet<u32>>) -> Result<Count<'t>, TraceError> {
        let is_wanted = |rank: &u32| wanted.is_none_or(|wanted| wanted.contains(rank));
        let functions = trace.functions()?;
        let mut ranks = GroupsOf::new();
        let mut known = Vec::new();
        for (number, group) in trace.structure()?.groups.iter().enumerate() {
            let wanted = group.ranks.iter().filter(is_wanted);
            wanted.for_each(|rank| ranks.entry(rank).or_default().push(number));
            let makers = rows_of(group, &functions, makes_datatypes);
            known.push(Known {
                called: (0..group.rows.len()).filter_map(|row| function_of(group, row)).collect(),
                occurrences: group.occurrences(),
                makes_same: makers.iter().all(|row| is_constant(group, *row)),
                makers,
                names: trace.sample_names(group),
            });
        }
        let (figures, untimed) = (BTreeMap::new(), BTreeSet::new());
        Ok(Count { trace, functions, ranks, figures, untimed, known, sizes: HashMap::new() })
    }

    /// The rank indices of a group that are asked for.
    fn ranks_of(&self, group: &Group) -> Vec<u32> {
        group.ranks.iter().filter(|rank| self.ranks.contains_key(rank)).collect()
    }

    /// Counts the calls of a group, and gives their number.
    fn calls(
        &mut self,
        number: usize,
        group: &Group,
        polls: &BTreeMap<u32, u64>,
    ) -> Result<u64, TraceError> {
        let ranks = self.ranks_of(group);
        let is_whole = ranks.len() == group.ranks.len();
        let single = match is_whole {
            true => None,
            false => single_times(self.trace, group, &ranks)?,
        };
        for function in &self.known[number].called {
            let Some(form) = self.functions.get(function) else { continue };
            // Threads of a process that has been counted may be in this group.
            let is_new = |rank: &u32| {
                let mut earlier = self.ranks[rank].iter().take_while(|g| **g < number);
                !earlier.any(|g| self.known[*g].called.contains(function))
            };
            let ranks = ranks.iter().filter(|rank| is_new(rank)).count();
            let figures = self.figures.entry(*function).or_default();
            figures.name.clone_from(&form.name);
            figures.ranks += ranks;
        }
        let mut all = 0u64;
        for (row, occurrences) in self.known[number].occurrences.iter().enumerate() {
            let function = function_of(group, row);
            let Some(figures) = function.and_then(|f| self.figures.get_mut(&f)) else { continue };
            let failed = polls.get(&(row as u32)).copied().unwrap_or(0);
            let calls = occurrences.saturating_mul(ranks.len() as u64).saturating_add(failed);
            figures.calls = figures.calls.saturating_add(calls);
            figures.failed_polls = figures.failed_polls.saturating_add(failed);
            if is_whole && !never_returns(group, row) {
                figures.stats.add(&group.rows[row].stats);
            } else if !is_whole && single.is_none() {
                self.untimed.extend(function);
            }
            all = all.saturating_add(calls);
        }
        for (function, stats) in single.into_iter().flatten() {
            let mut known = self.functions.iter();
            let number = known.find(|(_, form)| form.name == function).map(|(number, _)| number);
            if let Some(figures) = number.and_then(|number| self.figures.get_mut(number)) {
                figures.stats.add(&stats);
            }
        }
        Ok(all)
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
                        self.add(group, number, (*rank, row), 1, payload.as_deref())?;
                    }
                } else {
                    let ranks = ranks.len() as u64;
                    self.add(group, number, (first, row), ranks, payload.as_deref())?;
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
                self.add(group, number, task, 1, payload.as_deref())?;
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

    /// Adds the payload of a signature's calls on a rank, and on as many others as have the same.
    fn add(
        &mut self,
        group: &Group,
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
        let function = function_of(group, row);
        let Some(figures) = function.and_then(|f| self.figures.get_mut(&f)) else { return Ok(()) };
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

/// The number of a signature's function.
fn function_of(group: &Group, row: usize) -> Option<u16> {
    Some(group.rows.get(row)?.head()?.function)
}

/// Whether a signature is of calls that never returned: they have no duration, and a trace has 0
/// for it.
fn never_returns(group: &Group, row: usize) -> bool {
    group.rows.get(row).and_then(|row| row.head()).is_some_and(|head| !head.returned)
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
