//! The structure of a trace stored as loop nests: the section `nest`.
//!
//! A grammar over signatures is small where a program repeats itself exactly. Where counts or neighbours change, each
//! change is another signature, and the grammar has nothing to repeat. Here, values leave the structure (ScalaTrace II
//! §3.1): the sequence of a task is a loop nest over *skeletons*, one nest for all groups of ranks; trip counts and the
//! signatures at each place are vectors ([`refrain_nest::Seq`]); and the numbers of signatures are guessed from earlier
//! ones, of this rank and of others, by an adaptive coder.
//!
//! [`read`] returns what [`write`] was given: the same groups with the same signatures under the same numbers, and
//! grammars with the same sequences. So every consumer works on both forms.
//!
//! # Bytes
//!
//! Version; form (0: grammars, 1: nests, 2: call by call), doubled, plus 1 if statistics are by signature; bytes of the section that it replaces;
//! in version 2, which is written if it is not 0, how many frames of call stacks of one place may differ; limits as powers of two (symbols of grammars, cells, calls
//! with outcomes); functions and groups as in
//! [`refrain_structure::write`]; with form 0 the shared grammars. The rest is one stream of the
//! range coder: nests by thread number (`tree.rs`, `seqs.rs`) or sequences call by call (`calls.rs`); then the rows of each
//! group (`rows.rs`), then outcomes and failed polls (`outcomes.rs`), those of the residues of ranks among them.

#![cfg_attr(not(test), deny(clippy::unwrap_used, clippy::expect_used, clippy::panic))]

mod bytes;
mod calls;
mod expand;
pub mod histograms;
mod numbers;
mod outcomes;
mod roles;
mod rows;
mod same;
mod seqs;
mod skeletons;
mod tree;

use crate::calls::CallCoder;
use crate::numbers::{Followers, Series};
use crate::outcomes::OutcomeCoder;
use crate::roles::Functions;
use crate::rows::{Given, RowCoder};
use crate::same::Sequence;
use crate::skeletons::Skeletons;
use crate::tree::{Rows, TreeCoder};
use refrain_bytes::range::{Coder, Decoder, Encoder};
use refrain_elastic::RankList;
use refrain_grammar::{Grammar, What};
use refrain_nest::{Grouped, Options, fold, of_one, over_groups};
use refrain_signature::cells::{Cells, put_unsigned};
use refrain_structure::functions;
use refrain_structure::group::{Group, Row};
use refrain_structure::merged::Merged;
use refrain_structure::read::{self, ReadError};
use refrain_structure::times::Times;
use refrain_structure::write;
use std::collections::BTreeMap;

/// The version of the section.
const VERSION: u64 = 1;
/// The version of a section in which call stacks of one place differ.
const WITH_FRAMES: u64 = 2;
/// Outcomes of more calls are not stored.
const MOST_CALLS: u64 = 1 << 36;
/// The most that a limit may be, as a power of two.
const MOST_LIMIT: u8 = 36;

/// How sequences are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// As grammars over signatures.
    Grammars,
    /// As loop nests.
    Nests,
    /// Call by call.
    Calls,
}

impl Form {
    const ALL: [Form; 3] = [Form::Grammars, Form::Nests, Form::Calls];

    fn code(self) -> u64 {
        match self {
            Form::Grammars => 0,
            Form::Nests => 1,
            Form::Calls => 2,
        }
    }

    fn of_code(code: u64) -> Option<Form> {
        Form::ALL.into_iter().find(|form| form.code() == code)
    }
}

/// The limits of what a reader makes of the bytes, as powers of two.
#[derive(Clone, Copy, Debug)]
struct Limits {
    symbols: u8,
    cells: u8,
    calls: u8,
}

/// Roughly the most bytes that a section may take in memory.
pub fn most_memory(bytes: &[u8]) -> u64 {
    let mut cells = Cells::new(bytes);
    let limits = head(&mut cells).ok().and_then(|_| limits(&mut cells));
    limits.map_or(0, |limits| (48u64 << limits.symbols).saturating_add(48 << limits.cells))
}

/// What is noted of a section and of the file that it is in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Facts {
    /// The bytes that the sections `structure` and `own` would take instead.
    pub instead: u64,
    /// Whether the statistics of durations are by signature, as in files of earlier versions.
    pub has_row_statistics: bool,
    /// How many frames of call stacks may differ that are one place of the program (ScalaTrace II §3.3).
    pub frames: usize,
}

/// The form of a section, and the facts in it.
pub fn facts(bytes: &[u8]) -> Option<(Form, Facts)> {
    head(&mut Cells::new(bytes)).ok()
}

/// Reads what a section begins with.
fn head(cells: &mut Cells<'_>) -> Result<(Form, Facts), ReadError> {
    let damaged = || bad("first bytes");
    let version = cells.get_unsigned().ok_or_else(damaged)?;
    if ![VERSION, WITH_FRAMES].contains(&version) {
        let what = format!("version {version}; this Refrain reads {VERSION} and {WITH_FRAMES}");
        return Err(ReadError { what });
    }
    let read = (|| {
        let code = cells.get_unsigned()?;
        let instead = cells.get_unsigned()?;
        let frames = if version == WITH_FRAMES { cells.get_u32()? as usize } else { 0 };
        let facts = Facts { instead, has_row_statistics: code & 1 == 1, frames };
        Some((Form::of_code(code >> 1)?, facts))
    })();
    read.ok_or_else(damaged)
}

/// Whether the statistics of durations are by signature ([`Facts::has_row_statistics`]).
pub fn has_row_statistics(bytes: &[u8]) -> bool {
    facts(bytes).is_some_and(|(_, facts)| facts.has_row_statistics)
}

fn limits(cells: &mut Cells<'_>) -> Option<Limits> {
    let [symbols, cells, calls] = *cells.take(3)? else { return None };
    let are_small = symbols.max(cells).max(calls) <= MOST_LIMIT;
    are_small.then_some(Limits { symbols, cells, calls })
}

/// The groups of each thread number.
fn threads(groups: &[Group]) -> Vec<Vec<usize>> {
    let mut threads: BTreeMap<u32, Vec<usize>> = BTreeMap::new();
    for (number, group) in groups.iter().enumerate() {
        threads.entry(group.thread).or_default().push(number);
    }
    threads.into_values().collect()
}

/// A trace whose structure is to be written.
pub struct Prepared<'a> {
    merged: &'a Merged,
    frames: usize,
    /// For each row of each group its skeleton.
    skeletons: Vec<Vec<u32>>,
}

impl<'a> Prepared<'a> {
    /// Finds the skeletons; call stacks with so many different frames are one place of the program.
    pub fn of(merged: &'a Merged, frames: usize) -> Prepared<'a> {
        let functions = Functions::of(&merged.functions);
        let mut known = Skeletons::new(frames);
        let skeletons = merged.groups.iter().map(|group| known.of(group, &functions)).collect();
        Prepared { merged, frames, skeletons }
    }

    /// The nests of the tasks, by thread number.
    fn nests(&self) -> Vec<Vec<Grouped>> {
        let nest = |numbers: Vec<usize>| {
            let nests = numbers.iter().map(|number| {
                let of = &self.skeletons[*number];
                let skeleton = |row: u32| of.get(row as usize).copied();
                fold(&self.merged.groups[*number].grammars, Options::default(), skeleton)
            });
            over_groups(nests.collect())
        };
        threads(&self.merged.groups).into_iter().map(nest).collect()
    }

    /// Codes the sequences of calls. None if they cannot be stored in this form: a row that no call has, or a sequence
    /// that is too long.
    pub fn sequences(&self, form: Form) -> Option<Sequences<'_>> {
        let groups = &self.merged.groups;
        let nests = if form == Form::Nests { self.nests() } else { Vec::new() };
        let mut sequences = Sequences {
            prepared: self,
            form,
            coder: Encoder::default(),
            groups: groups.iter().map(head_of).collect(),
            budget: Budget {
                symbols: u64::MAX >> 1,
                cells: u64::MAX >> 1,
                calls: MOST_CALLS,
                most: 0,
                walked: 0,
            },
            skeletons: Vec::new(),
        };
        let counts: Vec<usize> = groups.iter().map(|group| group.rows.len()).collect();
        let Sequences { coder, groups, budget, .. } = &mut sequences;
        let given = Some((self, nests.as_slice()));
        sequences.skeletons = code_sequences(coder, groups, form, &counts, budget, given)?;
        Some(sequences)
    }
}

/// The structure of a trace in one form, of which the sequences are coded and the signatures are not. Signatures take the
/// same in all forms.
pub struct Sequences<'a> {
    prepared: &'a Prepared<'a>,
    form: Form,
    coder: Encoder,
    groups: Vec<Group>,
    budget: Budget,
    skeletons: Vec<Vec<u32>>,
}

impl Sequences<'_> {
    /// The bytes of the coded sequences.
    pub fn coded(&self) -> usize {
        self.coder.len()
    }

    /// The sequences that are not coded, but will be compressed.
    pub fn plain(&self) -> Vec<u8> {
        let mut out = Vec::new();
        if self.form == Form::Grammars {
            write::put_own_grammars(&mut out, &self.prepared.merged.groups);
        }
        out
    }

    /// Codes the signatures, and returns the section, without statistics; `facts` are noted. None if the trace cannot be
    /// stored so.
    pub fn finish(mut self, facts: Facts) -> Option<Vec<u8>> {
        let merged = self.prepared.merged;
        let cells: usize = merged.groups.iter().flat_map(|group| &group.rows).map(cells_of).sum();
        let functions = Functions::of(&merged.functions);
        code_rows(
            &mut self.coder,
            &mut self.groups,
            &self.skeletons,
            functions,
            &mut self.budget,
            Some(merged),
        )?;
        let mut out = Vec::new();
        let frames = self.prepared.frames;
        put_unsigned(&mut out, if frames > 0 { WITH_FRAMES } else { VERSION });
        put_unsigned(&mut out, self.form.code() << 1 | u64::from(facts.has_row_statistics));
        put_unsigned(&mut out, facts.instead);
        if frames > 0 {
            put_unsigned(&mut out, frames as u64);
        }
        out.push(power(self.budget.most));
        out.push(power(2 * cells as u64));
        out.push(power(self.budget.walked));
        functions::put(&mut out, &merged.functions);
        put_unsigned(&mut out, merged.groups.len() as u64);
        merged.groups.iter().for_each(|group| write::put_group(&mut out, group));
        out.extend(self.plain());
        out.extend(self.coder.finish());
        Some(out)
    }
}

/// Writes the structure of a trace, without statistics. None if it cannot be stored in this form: a row that
/// no call has, or a sequence that is too long.
///
/// `facts` are noted.
pub fn write(merged: &Merged, form: Form, facts: Facts) -> Option<Vec<u8>> {
    Prepared::of(merged, facts.frames).sequences(form)?.finish(facts)
}

/// The least power of two that is not smaller.
fn power(n: u64) -> u8 {
    (u64::BITS - n.leading_zeros()) as u8
}

fn cells_of(row: &Row) -> usize {
    let lists = row.cells.variants.iter().chain(&row.outcome.variants);
    lists.map(|variant| variant.cells.len() + 1).sum()
}

/// A group without rows and grammars.
fn head_of(group: &Group) -> Group {
    without_rows(group.thread, group.ranks.clone())
}

fn without_rows(thread: u32, ranks: RankList) -> Group {
    Group {
        thread,
        ranks,
        predefined: Vec::new(),
        strings: Vec::new(),
        rows: Vec::new(),
        grammars: Vec::new(),
        residues: BTreeMap::new(),
        lost: 0,
    }
}

fn bad(what: &str) -> ReadError {
    ReadError { what: format!("malformed {what}") }
}

/// Reads what [`write`] wrote. Arbitrary bytes never cause a panic, nor more use of memory than [`most_memory`] says.
pub fn read(bytes: &[u8]) -> Result<Merged, ReadError> {
    let mut cells = Cells::new(bytes);
    let (form, _) = head(&mut cells)?;
    let limits = limits(&mut cells).ok_or_else(|| bad("first bytes"))?;
    let functions = functions::get(&mut cells).ok_or_else(|| bad("function definitions"))?;
    let mut groups = read::groups(&mut cells).ok_or_else(|| bad("groups"))?;
    let counts = match form {
        Form::Grammars => read::own_grammars(&mut cells, &mut groups)?,
        Form::Nests | Form::Calls => Vec::new(),
    };
    let mut coded = Decoder::new(cells.rest());
    let mut budget = Budget {
        symbols: 1 << limits.symbols,
        cells: 1 << limits.cells,
        calls: 1 << limits.calls,
        most: 0,
        walked: 0,
    };
    let plans = Functions::of(&functions);
    let skeletons = code_sequences(&mut coded, &mut groups, form, &counts, &mut budget, None)
        .ok_or_else(|| bad("nests"))?;
    code_rows(&mut coded, &mut groups, &skeletons, plans, &mut budget, None)
        .ok_or_else(|| bad("nests"))?;
    Ok(Merged { functions, groups, times: Times::default() })
}

/// What may still be made of the bytes.
struct Budget {
    symbols: u64,
    cells: u64,
    /// Calls whose outcomes are coded.
    calls: u64,
    walked: u64,
    /// What was made: runs and groups of vectors, or symbols of grammars.
    most: u64,
}

/// Codes the sequences of calls; `counts` are the rows of each group, for grammars. The groups get their grammars. Returns
/// for each group the skeletons of its rows.
fn code_sequences(
    coder: &mut impl Coder,
    groups: &mut [Group],
    form: Form,
    counts: &[usize],
    budget: &mut Budget,
    given: Option<(&Prepared<'_>, &[Vec<Grouped>])>,
) -> Option<Vec<Vec<u32>>> {
    let mut skeletons: Vec<Vec<u32>> = vec![Vec::new(); groups.len()];
    match form {
        Form::Nests => {
            let mut tree = TreeCoder::new(budget.symbols);
            for (thread, numbers) in threads(groups).into_iter().enumerate() {
                let nest = given.and_then(|(_, nests)| nests.get(thread));
                let mut rows = vec![Rows::default(); numbers.len()];
                let all: Vec<usize> = (0..numbers.len()).collect();
                let nest = tree.code(coder, &mut rows, &all, nest.map(Vec::as_slice))?;
                for (at, (number, rows)) in numbers.into_iter().zip(rows).enumerate() {
                    let before = budget.symbols;
                    let grammar = expand::grammar(&of_one(&nest, at), &mut budget.symbols)?;
                    budget.most += before - budget.symbols;
                    let order = first_uses(&grammar, rows.skeletons.len());
                    let mut names = vec![u32::MAX; rows.skeletons.len()];
                    (0..).zip(&order).for_each(|(name, row)| names[*row as usize] = name);
                    let group = groups.get_mut(number)?;
                    group.grammars = vec![grammar.relabel(|row| names[row as usize])];
                    skeletons[number] =
                        order.iter().map(|row| rows.skeletons[*row as usize]).collect();
                    if let Some((given, _)) = given
                        && !is_same(
                            &given.merged.groups[number],
                            group,
                            &skeletons[number],
                            &given.skeletons[number],
                        )
                    {
                        return None;
                    }
                }
            }
            budget.most = budget.most.max(tree.made());
        }
        Form::Calls => {
            let mut calls = CallCoder::default();
            for (number, group) in groups.iter_mut().enumerate() {
                let given = given.map(|(given, _)| {
                    let skeletons = given.skeletons[number].as_slice();
                    (given.merged.groups[number].grammars.as_slice(), skeletons)
                });
                let before = budget.symbols;
                let (grammar, of) = calls.code(coder, given, &mut budget.symbols)?;
                budget.most += before - budget.symbols;
                if given.is_some_and(|(_, skeletons)| skeletons != of) {
                    return None;
                }
                group.grammars = vec![grammar];
                skeletons[number] = of;
            }
        }
        Form::Grammars => {
            let (mut series, mut followers) = (Series::default(), Followers::default());
            for (number, count) in counts.iter().enumerate() {
                if let Some((given, _)) = given {
                    let grammars = &given.merged.groups[number].grammars;
                    groups.get_mut(number)?.grammars.clone_from(grammars);
                }
                let known = given.and_then(|(given, _)| given.skeletons.get(number));
                series.restart();
                let mut most = 0;
                for row in 0..*count {
                    let skeleton = known.and_then(|known| known.get(row)).copied().unwrap_or(0);
                    let hints = [most, 0, 0, 0];
                    let skeleton = series.code(coder, &mut followers, 3, hints, skeleton.into());
                    most = most.max(skeleton + 1);
                    budget.cells = budget.cells.checked_sub(1)?;
                    skeletons[number].push(u32::try_from(skeleton).ok()?);
                }
            }
        }
    }
    Some(skeletons)
}

/// Codes signatures and outcomes. The groups, which have their grammars, get their rows.
fn code_rows(
    coder: &mut impl Coder,
    groups: &mut [Group],
    skeletons: &[Vec<u32>],
    functions: Functions,
    budget: &mut Budget,
    given: Option<&Merged>,
) -> Option<()> {
    // Skeletons are numbered without gaps, so each has a row.
    let count: usize = skeletons.iter().map(Vec::len).sum();
    if skeletons.iter().flatten().any(|skeleton| *skeleton as usize >= count) {
        return None;
    }
    let mut rows = RowCoder::new(functions, budget.cells);
    for (number, (group, skeletons)) in groups.iter_mut().zip(skeletons).enumerate() {
        rows.begin(group.ranks.first().unwrap_or(0));
        let rows_given = given.map(|merged| merged.groups[number].rows.as_slice());
        for (row, skeleton) in (0u32..).zip(skeletons) {
            let given = rows_given.and_then(|rows| rows.get(row as usize)).map(Given::of);
            let made = rows.code(coder, *skeleton, row, &group.ranks, given.as_ref())?;
            group.rows.push(made);
        }
    }
    let mut outcomes = OutcomeCoder::new(budget.calls);
    for (number, (group, skeletons)) in groups.iter_mut().zip(skeletons).enumerate() {
        let given = given.map(|merged| &merged.groups[number]);
        outcomes.code(coder, group, skeletons, given)?;
        let rows = given.iter().flat_map(|given| &given.rows);
        if !rows.zip(&group.rows).all(|(given, made)| Given::of(given).is(made)) {
            return None;
        }
    }
    budget.walked = outcomes.walked(budget.calls);
    Some(())
}

/// Whether a decoded group has the calls and the skeletons of the group that was encoded.
fn is_same(given: &Group, made: &Group, skeletons: &[u32], wanted: &[u32]) -> bool {
    skeletons == wanted && Sequence::yielded(&given.grammars) == Sequence::yielded(&made.grammars)
}

/// The terminals of a grammar in the order of their first uses.
fn first_uses(grammar: &Grammar, terminals: usize) -> Vec<u32> {
    let rules = grammar.rules();
    let (mut met, mut used) = (vec![false; rules.len()], vec![false; terminals]);
    let mut order = Vec::with_capacity(terminals);
    let mut path = vec![(0usize, 0usize)];
    while let Some((rule, at)) = path.last_mut() {
        let Some(symbol) = rules[*rule].get(*at) else {
            path.pop();
            continue;
        };
        *at += 1;
        match symbol.what {
            What::Rule(inner) => {
                if !std::mem::replace(&mut met[inner as usize], true) {
                    path.push((inner as usize, 0));
                }
            }
            What::Terminal(terminal) => {
                if let Some(used) = used.get_mut(terminal as usize)
                    && !std::mem::replace(used, true)
                {
                    order.push(terminal);
                }
            }
        }
    }
    order
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_skeleton_without_a_row_is_refused() {
        let mut groups = [without_rows(0, RankList::single(0))];
        let mut coded = Decoder::new(&[0; 64]);
        let mut budget = Budget { symbols: 64, cells: 64, calls: 64, most: 0, walked: 0 };
        let skeletons = [vec![0, u32::MAX]];
        let plans = Functions::default();
        let made = code_rows(&mut coded, &mut groups, &skeletons, plans, &mut budget, None);
        assert_eq!(made, None);
    }
}
