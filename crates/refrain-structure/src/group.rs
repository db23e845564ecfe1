//! A group: tasks of different ranks with the same sequence of calls and possibly different values.

use crate::elastic::Elastic;
use refrain_bytes::stable;
use refrain_elastic::{RankList, TextColumn};
use refrain_grammar::Grammar;
use refrain_signature::cells::{Cells, put_list, put_unsigned};
use refrain_signature::head::Head;
use refrain_signature::outcome::{Polls, StoredOutcomes};
use refrain_signature::tasktrace::{SignatureTrace, TaskTrace};
use std::collections::BTreeMap;

/// A signature with more distinct outcomes is not compared between ranks.
const MOST_SHARED: usize = 256;

/// How the outcomes of a signature vary.
#[derive(Clone, Debug, PartialEq)]
pub enum Outcomes {
    /// On every rank, all calls have the same outcome.
    Constant,
    /// All ranks have the same sequence of outcomes; each outcome is an elastic list of cells.
    Shared {
        /// The distinct outcomes.
        rows: Vec<Elastic>,
        /// See [`StoredOutcomes`].
        runs: Vec<u8>,
        /// See [`StoredOutcomes`].
        misses: Vec<u8>,
    },
    /// Each rank has its own sequence, in its [`Residue`].
    PerRank,
}

/// A signature over ranks.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// Its cells.
    pub cells: Elastic,
    /// The outcome of its first call.
    pub outcome: Elastic,
    /// All outcomes.
    pub outcomes: Outcomes,
}

/// Per-rank residue: outcomes and failed polls that are not the same on all ranks of the group.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Residue {
    /// Outcomes by signature.
    pub outcomes: BTreeMap<u32, StoredOutcomes>,
    /// Failed polls by signature.
    pub polls: BTreeMap<u32, Polls>,
}

impl Residue {
    /// Writes it.
    pub fn put(&self, out: &mut Vec<u8>) {
        put_list(out, self.outcomes.iter(), |out, (signature, stored)| {
            put_unsigned(out, (*signature).into());
            stored.put(out);
        });
        put_list(out, self.polls.iter(), |out, (signature, polls)| {
            put_unsigned(out, (*signature).into());
            polls.put(out);
        });
    }

    /// Whether there are neither outcomes nor polls.
    pub fn is_empty(&self) -> bool {
        self.outcomes.is_empty() && self.polls.is_empty()
    }
}

/// Tasks of the same structure.
#[derive(Clone, Debug)]
pub struct Group {
    /// Their thread number within their processes.
    pub thread: u32,
    /// Their ranks.
    pub ranks: RankList,
    /// Predefined handles.
    pub predefined: Vec<String>,
    /// Strings.
    pub strings: Vec<TextColumn>,
    /// Signatures.
    pub rows: Vec<Row>,
    /// The sequence of signatures.
    pub grammars: Vec<Grammar>,
    /// Residues by rank.
    pub residues: BTreeMap<u32, Residue>,
    /// Calls that were lost because a signature table was full.
    pub lost: u64,
}

impl Group {
    /// A group of one task.
    pub fn of(rank: u32, thread: u32, task: TaskTrace) -> Group {
        let mut residue = Residue::default();
        let mut rows = Vec::with_capacity(task.signatures.len());
        for (number, signature) in task.signatures.into_iter().enumerate() {
            let SignatureTrace { cells, outcome, varying, polls, .. } = signature;
            if let Some(polls) = polls {
                residue.polls.insert(number as u32, polls);
            }
            let outcomes = match varying {
                None => Outcomes::Constant,
                Some(stored) if stored.rows.len() <= MOST_SHARED => Outcomes::Shared {
                    rows: stored.rows.into_iter().map(Elastic::single).collect(),
                    runs: stored.runs,
                    misses: stored.misses,
                },
                Some(stored) => {
                    residue.outcomes.insert(number as u32, stored);
                    Outcomes::PerRank
                }
            };
            let (cells, outcome) = (Elastic::single(cells), Elastic::single(outcome));
            rows.push(Row { cells, outcome, outcomes });
        }
        let strings =
            task.strings.iter().map(|text| TextColumn::fit(&[rank], &[text.as_slice()])).collect();
        let residues = match residue.is_empty() {
            true => BTreeMap::new(),
            false => BTreeMap::from([(rank, residue)]),
        };
        Group {
            thread,
            ranks: RankList::single(rank),
            predefined: task.predefined,
            strings,
            rows,
            grammars: task.grammars,
            residues,
            lost: task.lost,
        }
    }

    /// A hash that is equal for groups of the same structure.
    pub fn key(&self) -> u64 {
        let mut hash = stable::FNV_BASIS;
        let mut mix = |value: u64| {
            hash = stable::mix::<0, 29>(hash, value);
        };
        mix(self.thread.into());
        mix(self.strings.len() as u64);
        mix(self.rows.len() as u64);
        self.grammars.iter().for_each(|grammar| mix(grammar.hash()));
        self.rows.iter().filter_map(Row::kind).for_each(|kind| mix(kind as u64));
        self.predefined.iter().flat_map(|name| name.bytes()).for_each(|byte| mix(byte.into()));
        hash
    }

    /// Whether another group has the same structure.
    pub fn is_like(&self, other: &Group) -> bool {
        self.thread == other.thread
            && self.strings.len() == other.strings.len()
            && self.predefined == other.predefined
            && self.grammars == other.grammars
            && self.rows.len() == other.rows.len()
            && self.rows.iter().zip(&other.rows).all(|(a, b)| a.kind() == b.kind())
    }

    /// Merges another group of the same structure and other ranks.
    pub fn absorb(&mut self, other: Group) {
        let all = self.ranks.union(&other.ranks);
        let (mine, theirs) = (&self.ranks, &other.ranks);
        let residues = &mut self.residues;
        residues.extend(other.residues);
        for (number, (row, other)) in self.rows.iter_mut().zip(other.rows).enumerate() {
            row.cells.absorb(other.cells, mine, theirs, &all);
            row.outcome.absorb(other.outcome, mine, theirs, &all);
            let ours = std::mem::replace(&mut row.outcomes, Outcomes::Constant);
            row.outcomes = match (ours, other.outcomes) {
                (Outcomes::Constant, Outcomes::Constant) => Outcomes::Constant,
                (
                    Outcomes::Shared { mut rows, runs, misses },
                    Outcomes::Shared { rows: others, runs: other_runs, misses: other_misses },
                ) if runs == other_runs && misses == other_misses && rows.len() == others.len() => {
                    for (row, other) in rows.iter_mut().zip(others) {
                        row.absorb(other, mine, theirs, &all);
                    }
                    Outcomes::Shared { rows, runs, misses }
                }
                (ours, others) => {
                    move_to_residue(residues, number as u32, ours, mine);
                    move_to_residue(residues, number as u32, others, theirs);
                    Outcomes::PerRank
                }
            };
        }
        let strings = std::mem::take(&mut self.strings);
        self.strings =
            strings.into_iter().zip(other.strings).map(|(a, b)| TextColumn::merge(a, b)).collect();
        self.lost += other.lost;
        self.ranks = all;
    }

    /// How often each signature occurs in the sequence.
    pub fn occurrences(&self) -> Vec<u64> {
        let mut counts = vec![0u64; self.rows.len()];
        for grammar in &self.grammars {
            for (sum, n) in counts.iter_mut().zip(grammar.counts(self.rows.len())) {
                *sum = sum.saturating_add(n);
            }
        }
        counts
    }

    /// The trace of one of its tasks, without the definitions of functions and without statistics.
    pub fn task(&self, rank: u32) -> Option<TaskTrace> {
        if !self.ranks.contains(rank) {
            return None;
        }
        let residue = self.residues.get(&rank);
        let signature = |(number, row): (usize, &Row)| {
            let number = number as u32;
            let varying = match &row.outcomes {
                Outcomes::Constant => None,
                Outcomes::Shared { rows, runs, misses } => Some(StoredOutcomes {
                    rows: rows
                        .iter()
                        .map(|row| Some(row.cells(rank)?.into_owned()))
                        .collect::<Option<_>>()?,
                    runs: runs.clone(),
                    misses: misses.clone(),
                }),
                Outcomes::PerRank => {
                    residue.and_then(|residue| residue.outcomes.get(&number)).cloned()
                }
            };
            Some(SignatureTrace {
                cells: row.cells.cells(rank)?.into_owned(),
                outcome: row.outcome.cells(rank)?.into_owned(),
                varying,
                polls: residue.and_then(|residue| residue.polls.get(&number)).cloned(),
                stats: Default::default(),
            })
        };
        Some(TaskTrace {
            functions: Vec::new(),
            predefined: self.predefined.clone(),
            strings: self.strings.iter().map(|text| text.eval(rank)).collect::<Option<_>>()?,
            signatures: self.rows.iter().enumerate().map(signature).collect::<Option<_>>()?,
            grammars: self.grammars.clone(),
            lost: 0,
        })
    }
}

/// Moves shared outcomes into the residue of each rank.
fn move_to_residue(
    residues: &mut BTreeMap<u32, Residue>,
    number: u32,
    outcomes: Outcomes,
    ranks: &RankList,
) {
    if let Outcomes::Shared { rows, runs, misses } = outcomes {
        for rank in ranks.iter() {
            let rows =
                rows.iter().map(|row| row.cells(rank).unwrap_or_default().into_owned()).collect();
            let stored = StoredOutcomes { rows, runs: runs.clone(), misses: misses.clone() };
            residues.entry(rank).or_default().outcomes.insert(number, stored);
        }
    }
}

impl Row {
    /// Function, depth, call site, and whether its calls returned. Function and return are the same on all ranks of
    /// a group; depth and call site are those of one of them.
    pub fn head(&self) -> Option<Head> {
        Head::read(&mut Cells::new(&self.cells.variants.first()?.cells))
    }

    /// The first cell, which must be the same on all ranks of a group.
    fn kind(&self) -> Option<i64> {
        Cells::new(&self.cells.variants.first()?.cells).get()
    }
}
