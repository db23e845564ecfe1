//! One task of a group, read in place: nothing of the group is copied.

use crate::decoder::handles::nulls;
use crate::decoder::{Decoder, PREDEFINED, TaskError, Terminals};
use crate::functions::{Function, Functions};
use crate::items::{Item, ItemReader, ViewItems};
use refrain_grammar::Grammar;
use refrain_mpi::abi::Family;
use refrain_mpi::names::HandleTable;
use refrain_signature::cells::Cells;
use refrain_signature::head::Head;
use refrain_signature::outcome::{OutcomeReader, Polls};
use refrain_signature::tasktrace::TaskTrace;
use refrain_structure::elastic::Elastic;
use refrain_structure::group::{Group, Outcomes, Residue};
use std::borrow::Cow;
use std::collections::{BTreeMap, HashSet};
use std::ops::Deref;
use std::sync::Arc;

/// Cells of one rank: borrowed from the group if all ranks have the same, else evaluated.
#[derive(Clone, Debug)]
pub enum RankCells<'t> {
    /// The same on all ranks.
    Shared(&'t [u8]),
    /// This rank's.
    Evaluated(Arc<[u8]>),
}

impl RankCells<'_> {
    fn of(elastic: &Elastic, rank: u32) -> Option<RankCells<'_>> {
        Some(match elastic.cells(rank)? {
            Cow::Borrowed(cells) => RankCells::Shared(cells),
            Cow::Owned(cells) => RankCells::Evaluated(cells.into()),
        })
    }
}

impl Deref for RankCells<'_> {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            RankCells::Shared(cells) => cells,
            RankCells::Evaluated(cells) => cells,
        }
    }
}

/// The outcomes of a signature that vary, on one rank.
pub(crate) struct VaryingOutcomes<'t> {
    rows: VaryingRows<'t>,
    sequence: OutcomeReader<'t>,
}

enum VaryingRows<'t> {
    Shared { rows: &'t [Elastic], rank: u32 },
    Residue { residue: Arc<Residue>, signature: u32 },
}

impl<'t> VaryingOutcomes<'t> {
    /// The outcome of the next call.
    pub fn next_outcome(&mut self) -> Option<RankCells<'t>> {
        let row = self.sequence.next_row()?;
        match &self.rows {
            VaryingRows::Shared { rows, rank } => RankCells::of(rows.get(row)?, *rank),
            VaryingRows::Residue { residue, signature } => {
                let cells = residue.outcomes.get(signature)?.rows.get(row)?;
                Some(RankCells::Evaluated(cells.as_slice().into()))
            }
        }
    }
}

/// One task of a group.
#[derive(Clone, Debug)]
pub struct TaskView<'t> {
    pub(crate) group: &'t Group,
    pub(crate) functions: &'t Functions,
    pub(crate) rank: u32,
    pub(crate) family: Family,
    pub(crate) residue: Arc<Residue>,
}

impl<'t> TaskView<'t> {
    /// The task of a rank; `residue` is what the group does not share.
    pub fn new(
        group: &'t Group,
        functions: &'t Functions,
        rank: u32,
        family: Family,
        residue: Arc<Residue>,
    ) -> TaskView<'t> {
        TaskView { group, functions, rank, family, residue }
    }

    /// Its number in its process.
    pub fn thread(&self) -> u32 {
        self.group.thread
    }

    /// The sequences of its signatures, one after the other.
    pub fn grammars(&self) -> &'t [Grammar] {
        &self.group.grammars
    }

    /// How many signatures it has.
    pub fn signatures(&self) -> usize {
        self.group.rows.len()
    }

    /// The head of a signature.
    pub fn head(&self, signature: u32) -> Option<Head> {
        Head::read(&mut Cells::new(&self.cells(signature)?))
    }

    /// A function by its number in signatures.
    pub fn function(&self, number: u16) -> Option<&'t Arc<Function>> {
        self.functions.get(number)
    }

    /// The function of a signature, which is the same on all ranks.
    pub(crate) fn head_function(&self, signature: u32) -> Option<u16> {
        Some(self.group.rows.get(signature as usize)?.head()?.function)
    }

    /// Whether a signature is that of a note.
    pub(crate) fn is_note(&self, signature: u32) -> bool {
        let row = self.group.rows.get(signature as usize);
        row.and_then(|row| row.head()).is_some_and(|head| head.is_note())
    }

    pub(crate) fn cells(&self, signature: u32) -> Option<RankCells<'t>> {
        RankCells::of(&self.group.rows.get(signature as usize)?.cells, self.rank)
    }

    pub(crate) fn first_outcome(&self, signature: u32) -> Option<RankCells<'t>> {
        RankCells::of(&self.group.rows.get(signature as usize)?.outcome, self.rank)
    }

    /// The outcomes of a signature, if they vary.
    pub(crate) fn varying(&self, signature: u32) -> Option<VaryingOutcomes<'t>> {
        if let Some(stored) = self.residue.outcomes.get(&signature) {
            let sequence = OutcomeReader::owned(stored);
            let rows = VaryingRows::Residue { residue: self.residue.clone(), signature };
            return Some(VaryingOutcomes { rows, sequence });
        }
        match &self.group.rows.get(signature as usize)?.outcomes {
            Outcomes::Shared { rows, runs, misses } => Some(VaryingOutcomes {
                sequence: OutcomeReader::of(rows.len(), runs, misses),
                rows: VaryingRows::Shared { rows, rank: self.rank },
            }),
            Outcomes::Constant | Outcomes::PerRank => None,
        }
    }

    pub(crate) fn polls(&self) -> &BTreeMap<u32, Polls> {
        &self.residue.polls
    }

    pub(crate) fn text(&self, number: usize) -> Option<Vec<u8>> {
        self.group.strings.get(number)?.eval(self.rank)
    }

    pub(crate) fn predefined(&self) -> &'t [String] {
        &self.group.predefined
    }

    /// How often each signature occurs in the sequence.
    pub fn occurrences(&self) -> Vec<u64> {
        self.group.occurrences()
    }

    /// How often each function was called, failed polls among them.
    pub fn calls_by_function(&self) -> BTreeMap<String, u64> {
        let mut calls = BTreeMap::new();
        for (number, occurrences) in (0..).zip(self.occurrences()) {
            let Some(head) = self.group.rows.get(number as usize).and_then(|row| row.head()) else {
                continue;
            };
            if head.is_note() {
                continue;
            }
            let polls = self.residue.polls.get(&number).map_or(0, Polls::total);
            let name = match self.functions.get(head.function) {
                Some(function) => function.def.name.clone(),
                None => format!("function {}", head.function),
            };
            let sum: &mut u64 = calls.entry(name).or_default();
            *sum = sum.saturating_add(occurrences).saturating_add(polls);
        }
        calls
    }

    /// The names of the handles in its calls.
    pub fn handle_names(&self) -> HandleTable {
        handle_names(&self.group.predefined)
    }

    /// Its calls and notes.
    pub fn decode(&self) -> Decoder<'t> {
        Decoder::new(self.clone(), Terminals::new(self))
    }

    /// Its calls and notes as items, without times.
    pub fn items(&self) -> Result<ViewItems<'t>, TaskError> {
        ViewItems::new(self)
    }

    /// How many calls and notes its sequence has, failed polls not counted.
    pub fn length(&self) -> u64 {
        self.group.grammars.iter().map(Grammar::len).sum()
    }

    /// One call for each of these signatures, as if it were the only one of its task: with the outcome of the
    /// first, at depth 0, with no requests from before.
    pub fn samples(&self, signatures: &[u32]) -> Result<Vec<crate::event::Event>, TaskError> {
        Decoder::samples(self.clone(), signatures)
    }

    /// Whether another task has the same sequence of signatures and, up to the values of these, the same outcomes;
    /// also the same failed polls, unless `ignores_polls`.
    pub fn has_equal_structure(&self, other: &TaskView<'_>, ignores_polls: bool) -> bool {
        let (ours, theirs) = (self.group, other.group);
        let varies = |group: &Group| group.rows.iter().any(|r| r.outcomes != Outcomes::Constant);
        let outcomes = |view: &TaskView<'_>| view.residue.outcomes.clone();
        ours.grammars == theirs.grammars
            && ours.rows.len() == theirs.rows.len()
            && !varies(ours)
            && !varies(theirs)
            && outcomes(self) == outcomes(other)
            && (ignores_polls || self.residue.polls == other.residue.polls)
    }

    /// One call for each signature, in order, with the outcome of the first and with its depth. Requests are those
    /// that the signature names, even where the program passed a null handle because they had completed.
    pub fn whole_samples(&self) -> Result<Vec<crate::event::Event>, TaskError> {
        Decoder::whole_samples(self.clone())
    }

    /// The last `n` items of the sequence, the very last at the end.
    pub fn last_signatures(&self, n: u64) -> Vec<u32> {
        let mut parts: Vec<Vec<u32>> = Vec::new();
        let mut wanted = n;
        for grammar in self.group.grammars.iter().rev() {
            let from = grammar.len().saturating_sub(wanted);
            parts.push(grammar.iter_from(from).collect());
            wanted -= grammar.len() - from;
            if wanted == 0 {
                break;
            }
        }
        parts.into_iter().rev().flatten().collect()
    }

    /// The last calls, in the order in which they returned or were given up, the very last at the end: those among the
    /// last `n` items of the sequence that are calls.
    pub fn tail(&self, n: u64) -> Vec<LastCall<'t>> {
        let call = |signature: u32| {
            let head = self.head(signature)?;
            let function = self.functions.get(head.function)?;
            let (name, returned, depth) = (function.def.name.as_str(), head.returned, head.depth);
            (!head.is_note()).then_some(LastCall { function: name, returned, depth })
        };
        self.last_signatures(n).into_iter().filter_map(call).collect()
    }

    /// All signatures of the sequence, in the order of their last occurrences.
    pub fn by_last_occurrence(&self) -> Vec<u32> {
        by_last_occurrence(&self.group.grammars)
    }

    /// A few calls that represent a long task: each signature of all but the last `tail` calls once, in the order of
    /// their last occurrences, with how often it occurred; then the last calls one by one, each with 1. Objects and
    /// requests are then as they are at the end of the task. Failed polls are left out.
    ///
    /// None if calls were made inside calls: their order would be lost.
    pub fn digest(&self, tail: u64) -> Result<Option<Digest<'t>>, TaskError> {
        let is_nested =
            |row: &refrain_structure::group::Row| row.head().is_none_or(|h| h.depth > 0);
        if self.group.rows.iter().any(is_nested) {
            return Ok(None);
        }
        let tail = self.last_signatures(tail);
        let mut times = self.occurrences();
        for signature in &tail {
            if let Some(n) = times.get_mut(*signature as usize) {
                *n = n.saturating_sub(1);
            }
        }
        let mut before = self.by_last_occurrence();
        before.retain(|signature| times.get(*signature as usize).is_some_and(|n| *n > 0));
        let is_call = |signature: &&u32| !self.is_note(**signature);
        let single = tail.iter().filter(is_call).count() as u64;
        let kept = before.iter().filter(is_call).count() as u64 + single;
        let calls: u64 = self.calls_by_function().values().sum();
        let times: Vec<u64> = before.iter().map(|signature| times[*signature as usize]).collect();
        let sequence = before.into_iter().chain(tail).collect();
        let decoder = Decoder::new(self.clone(), Terminals::list(sequence));
        let reader = ItemReader::of_view(self)?;
        let left_out = calls.saturating_sub(kept);
        let (times, first_numbered) = (times.into_iter(), calls.saturating_sub(single));
        Ok(Some(Digest { decoder, reader, times, left_out, first_numbered }))
    }
}

/// A call at the end of a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LastCall<'t> {
    /// The function's name.
    pub function: &'t str,
    /// Whether it returned.
    pub returned: bool,
    /// How many calls it was made inside of.
    pub depth: u32,
}

/// A few calls that represent a task; see [`TaskView::digest`].
pub struct Digest<'t> {
    decoder: Decoder<'t>,
    reader: ItemReader,
    times: std::vec::IntoIter<u64>,
    /// How many calls of the task are left out.
    left_out: u64,
    first_numbered: u64,
}

impl Digest<'_> {
    /// The number of the first of the last calls: those from here on have their own numbers, those before stand for
    /// several calls.
    pub fn first_numbered(&self) -> u64 {
        self.first_numbered
    }
}

impl Iterator for Digest<'_> {
    /// A call or note, and how many like it there were.
    type Item = Result<(Item, u64), TaskError>;

    fn next(&mut self) -> Option<Self::Item> {
        let event = self.decoder.next()?;
        let times = self.times.next().unwrap_or(1);
        Some(event.map(|mut event| {
            event.number += self.left_out;
            (self.reader.item(event), times)
        }))
    }
}

/// All terminals, by their last occurrences. The walk goes backwards: once a rule has been walked, its terminals have
/// occurred, and the rule need not be walked again.
fn by_last_occurrence(grammars: &[Grammar]) -> Vec<u32> {
    use refrain_grammar::What;
    let (mut seen, mut order) = (HashSet::new(), Vec::new());
    for grammar in grammars.iter().rev() {
        let mut walked = HashSet::from([0]);
        let body = |rule: u32| grammar.rules().get(rule as usize).map_or(&[][..], Vec::as_slice);
        let mut stack = vec![body(0)];
        while let Some(rest) = stack.last_mut() {
            let Some((last, before)) = rest.split_last() else {
                stack.pop();
                continue;
            };
            *rest = before;
            match last.what {
                What::Terminal(terminal) => {
                    if seen.insert(terminal) {
                        order.push(terminal);
                    }
                }
                What::Rule(rule) => {
                    if walked.insert(rule) {
                        stack.push(body(rule));
                    }
                }
            }
        }
    }
    order.reverse();
    order
}

/// The names of the handles in decoded calls, given the predefined ones that a group uses.
pub fn handle_names(predefined: &[String]) -> HandleTable {
    let mut entries: Vec<(String, u64, String)> = Vec::new();
    for (i, name) in predefined.iter().enumerate() {
        let (kind, name) = name.split_once(' ').unwrap_or(("", name));
        entries.push((kind.to_owned(), PREDEFINED | i as u64, name.to_owned()));
    }
    let owned = |(kind, value, name): (&str, u64, &str)| (kind.to_owned(), value, name.to_owned());
    entries.extend(nulls().map(owned));
    entries.into_iter().collect()
}

/// A task that is in no file yet: of a running process, or in a test.
#[derive(Debug)]
pub struct SingleTask {
    group: Group,
    functions: Functions,
    residue: Arc<Residue>,
    family: Family,
}

impl SingleTask {
    /// The trace of a task, with the number of its thread.
    pub fn new(trace: TaskTrace, family: Family, thread: u32) -> Result<SingleTask, TaskError> {
        let texts = trace.functions.iter().map(|(number, text)| (*number, text.as_str()));
        let functions = Functions::read(texts)?;
        let mut group = Group::of(0, thread, trace);
        let residue = Arc::new(group.residues.remove(&0).unwrap_or_default());
        Ok(SingleTask { group, functions, residue, family })
    }

    /// The task.
    pub fn view(&self) -> TaskView<'_> {
        TaskView::new(&self.group, &self.functions, 0, self.family, self.residue.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use refrain_grammar::Symbol;

    fn task() -> SingleTask {
        // 7 (1 2)^3 4 | 1 5
        let rules = vec![
            vec![Symbol::terminal(7, 1), Symbol::rule(1, 3), Symbol::terminal(4, 1)],
            vec![Symbol::terminal(1, 1), Symbol::terminal(2, 1)],
        ];
        let second = vec![vec![Symbol::terminal(1, 1), Symbol::terminal(5, 1)]];
        let grammars = vec![Grammar::new(rules).unwrap(), Grammar::new(second).unwrap()];
        let trace = TaskTrace { grammars, ..TaskTrace::default() };
        SingleTask::new(trace, Family::Mpich, 0).unwrap()
    }

    #[test]
    fn signatures_come_by_their_last_occurrence() {
        assert_eq!(task().view().by_last_occurrence(), [7, 2, 4, 1, 5]);
    }

    #[test]
    fn the_last_signatures_go_over_several_grammars() {
        let task = task();
        assert_eq!(task.view().last_signatures(100), [7, 1, 2, 1, 2, 1, 2, 4, 1, 5]);
        assert_eq!(task.view().last_signatures(4), [2, 4, 1, 5]);
        assert_eq!(task.view().last_signatures(1), [5]);
    }
}
