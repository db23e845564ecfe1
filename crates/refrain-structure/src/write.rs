//! Writes a merged trace as bytes.
//!
//! There are three kinds of streams, each for its own section of the file:
//!
//! * **structure**: version and scale ([`crate::read::MOST_SCALE`]); functions (`functions.rs`); groups (ranks, names,
//!   strings); rows (signatures over ranks) of all groups; the grammars of all groups, which share
//!   rules. All numbers are varints; a list begins with its length.
//! * **timing**: statistics of durations ([`crate::times`]).
//! * **own**: the residue of each rank that has one: outcomes and polls.
//!
//! # Rows
//!
//! A row is the cells of a signature and of its first outcome. Most rows differ only in a few cells
//! from an earlier row with the same function and lengths (the same *shape*), often by the same
//! step each time (a root that receives from one rank after the other). So a row is written as
//!
//! | form | content |
//! |---|---|
//! | 0 | a row of a new shape: lengths, cells, columns |
//! | 1 | a general row: [`Elastic`] cells, outcome, [`Outcomes`] |
//! | 2 + s | a change of the last row of shape s: number of changed cells, each as gap and difference; columns; how often the same change is repeated |
//!
//! The new rows of each group follow their number.
//!
//! Columns: 0 none · 1 those of the shape's last row · 2 a list of cell index, form, bytes: form 0
//! is [`Column::encode_values`], form 1 the difference from the last row's values.
//!
//! Rows that consist of constants and formulas are shared between groups.

use crate::elastic::Elastic;
use crate::functions;
use crate::group::{Group, Outcomes, Row};
use crate::merged::Merged;
use crate::read::{self, MOST_SCALE};
use refrain_elastic::{Column, RankList};
use refrain_grammar::{Grammar, share};
use refrain_signature::cells::{self, put, put_bytes, put_unsigned};
use std::collections::HashMap;

/// A row of a new shape.
pub(crate) const NEW_SHAPE: u64 = 0;
/// A general row.
pub(crate) const GENERAL: u64 = 1;
/// Plus the number of a shape: a change of its last row.
pub(crate) const CHANGED: u64 = 2;

/// No columns.
pub(crate) const NO_COLUMNS: u64 = 0;
/// The columns of the shape's last row.
pub(crate) const SAME_COLUMNS: u64 = 1;
/// The columns follow.
pub(crate) const COLUMNS: u64 = 2;

/// The version of these streams. Version 2 had statistics for each row, and the text of each function's definition.
pub(crate) const VERSION: u64 = 3;

/// The offset of the scale ([`crate::read::MOST_SCALE`]).
pub(crate) const SCALE_AT: usize = 1;

/// A merged trace in streams.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Streams {
    /// The structure.
    pub structure: Vec<u8>,
    /// Residues: rank, thread, bytes.
    pub residues: Vec<(u32, u32, Vec<u8>)>,
}

/// A row with constants and columns only.
#[derive(Clone, Debug, PartialEq)]
pub struct Simple {
    /// Numbers of the signature, then of the outcome.
    pub numbers: Vec<i64>,
    /// How many of the numbers are the signature's.
    pub split: usize,
    /// The cells that differ between ranks, by index.
    pub columns: Vec<(u32, Column)>,
}

impl Simple {
    fn of(row: &Row) -> Option<Simple> {
        Simple::of_cells(row).filter(|_| row.outcomes == Outcomes::Constant)
    }

    /// The cells of a row and of its first outcome; its other outcomes are left out. None if ranks differ in their number.
    pub fn of_cells(row: &Row) -> Option<Simple> {
        let ([a], [b]) = (row.cells.variants.as_slice(), row.outcome.variants.as_slice()) else {
            return None;
        };
        let mut numbers = cells::numbers(&a.cells)?;
        let split = numbers.len();
        numbers.extend(cells::numbers(&b.cells)?);
        let mut columns: Vec<(u32, Column)> = a.columns.iter().cloned().collect();
        let shifted = b.columns.iter().map(|(p, c)| (p + split as u32, c.clone()));
        columns.extend(shifted);
        // A cell with a column has an arbitrary number; 0 makes most rows equal.
        for (index, _) in &columns {
            if let Some(number) = numbers.get_mut(*index as usize) {
                *number = 0;
            }
        }
        Some(Simple { numbers, split, columns })
    }

    /// Whether it has no table, so that it is valid for any set of ranks.
    fn has_only_formulas(&self) -> bool {
        self.columns.iter().all(|(_, column)| column.formula().is_some())
    }
}

/// The last row of a shape; writer and reader keep the same ones.
pub(crate) struct Shape {
    pub split: usize,
    pub numbers: Vec<i64>,
    pub columns: Vec<(u32, Column)>,
    /// The group that it was written for.
    pub group: usize,
}

/// Writes a merged trace, without statistics ([`crate::times::write`]).
pub fn write(merged: &Merged) -> Streams {
    let mut residues = Vec::new();
    for group in &merged.groups {
        for (rank, residue) in &group.residues {
            let mut bytes = Vec::new();
            residue.put(&mut bytes);
            residues.push((*rank, group.thread, bytes));
        }
    }
    residues.sort_by_key(|(rank, thread, _)| (*rank, *thread));
    Streams { structure: structure(merged), residues }
}

/// Writes the structure of a merged trace.
pub fn structure(merged: &Merged) -> Vec<u8> {
    let mut structure = Vec::new();
    let out = &mut structure;
    put_unsigned(out, VERSION);
    // `set_scale` sets the scale at the end.
    out.push(0);
    functions::put(out, &merged.functions);
    put_unsigned(out, merged.groups.len() as u64);
    merged.groups.iter().for_each(|group| put_group(out, group));
    let mut rows = RowWriter::default();
    let mut lists = Vec::new();
    for (number, group) in merged.groups.iter().enumerate() {
        let before = rows.count;
        let list: Vec<u32> = group.rows.iter().map(|row| rows.put(row, number, group)).collect();
        lists.push(list);
        rows.flush();
        put_unsigned(out, (rows.count - before).into());
        out.append(&mut rows.out);
    }
    put_lists(out, &lists);
    put_grammars(out, merged, &lists, rows.count);
    let rows = merged.groups.iter().map(|group| group.rows.len()).sum();
    set_scale(&mut structure, rows);
    structure
}

/// A structure of fewer bytes and fewer rows is within the limits of scale 0.
const SMALL: usize = 1 << 12;

/// Stores the smallest scale with which the structure can be read.
fn set_scale(structure: &mut [u8], rows: usize) {
    if structure.len() < SMALL && rows < SMALL {
        return;
    }
    for scale in 0..=MOST_SCALE {
        if let Some(at) = structure.get_mut(SCALE_AT) {
            *at = scale;
        }
        if read::structure(structure).is_ok() {
            return;
        }
    }
}

/// Writes the ranks, names and strings of a group.
pub fn put_group(out: &mut Vec<u8>, group: &Group) {
    put_unsigned(out, group.thread.into());
    group.ranks.encode(out);
    put_unsigned(out, group.predefined.len() as u64);
    group.predefined.iter().for_each(|name| put_bytes(out, name.as_bytes()));
    put_unsigned(out, group.strings.len() as u64);
    group.strings.iter().for_each(|text| text.encode_texts(out));
    put_unsigned(out, group.lost);
}

/// Writes the row numbers of each group, which are mostly runs of consecutive numbers.
fn put_lists(out: &mut Vec<u8>, lists: &[Vec<u32>]) {
    for list in lists {
        put_unsigned(out, list.len() as u64);
        let mut expected = 0;
        for run in list.chunk_by(|value, next| Some(*next) == value.checked_add(1)) {
            let (Some(first), Some(last)) = (run.first(), run.last()) else { continue };
            put(out, i64::from(*first) - expected);
            put_unsigned(out, run.len() as u64);
            expected = i64::from(*last) + 1;
        }
    }
}

fn put_grammars(out: &mut Vec<u8>, merged: &Merged, lists: &[Vec<u32>], rows: u32) {
    let mut all: Vec<Grammar> = Vec::new();
    for (group, list) in merged.groups.iter().zip(lists) {
        put_unsigned(out, group.grammars.len() as u64);
        let global = |terminal: u32| list.get(terminal as usize).copied().unwrap_or(rows);
        all.extend(group.grammars.iter().map(|grammar| grammar.relabel(global)));
    }
    let mut bytes = Vec::new();
    share(&all).encode(&mut bytes);
    put_bytes(out, &bytes);
}

/// Writes each distinct row once.
#[derive(Default)]
struct RowWriter {
    out: Vec<u8>,
    count: u32,
    known: HashMap<Vec<u8>, u32>,
    shapes: Vec<Shape>,
    shape_numbers: HashMap<(i64, usize, usize), usize>,
    /// The last change, which may be repeated: shape and changed cells.
    step: Option<(usize, Vec<(usize, i64)>)>,
    /// How often it was repeated.
    again: u64,
}

impl RowWriter {
    /// Returns the number of a row; writes the row if it is new.
    fn put(&mut self, row: &Row, group_number: usize, group: &Group) -> u32 {
        let simple = Simple::of(row);
        let key = simple.as_ref().filter(|s| s.has_only_formulas()).map(|simple| {
            let mut key = Vec::new();
            simple.numbers.iter().for_each(|n| put(&mut key, *n));
            put_unsigned(&mut key, simple.split as u64);
            for (index, column) in &simple.columns {
                put_unsigned(&mut key, (*index).into());
                let mut formula = Vec::new();
                column.encode_values(&mut formula);
                put_bytes(&mut key, &formula);
            }
            key
        });
        if let Some(number) = key.as_ref().and_then(|key| self.known.get(key)) {
            return *number;
        }
        let number = self.count;
        self.count += 1;
        if let Some(key) = key {
            self.known.insert(key, number);
        }
        match simple {
            Some(simple) => self.put_simple(simple, group_number, &group.ranks),
            None => {
                self.flush();
                put_unsigned(&mut self.out, GENERAL);
                put_general(&mut self.out, row);
            }
        }
        number
    }

    /// Writes how often the last change was repeated.
    fn flush(&mut self) {
        if self.step.take().is_some() {
            put_unsigned(&mut self.out, self.again);
        }
        self.again = 0;
    }

    fn put_simple(&mut self, row: Simple, group: usize, ranks: &RankList) {
        let head = row.numbers.first().copied().unwrap_or(0);
        let key = (head, row.split, row.numbers.len());
        let Some(&number) = self.shape_numbers.get(&key) else {
            self.flush();
            put_unsigned(&mut self.out, NEW_SHAPE);
            put_unsigned(&mut self.out, row.split as u64);
            put_unsigned(&mut self.out, (row.numbers.len() - row.split) as u64);
            row.numbers.iter().for_each(|n| put(&mut self.out, *n));
            self.put_columns(&row, None, group, ranks);
            self.shape_numbers.insert(key, self.shapes.len());
            let Simple { numbers, split, columns } = row;
            self.shapes.push(Shape { split, numbers, columns, group });
            return;
        };
        let Some(last) = self.shapes.get(number) else { return };
        let changes: Vec<(usize, i64)> = row
            .numbers
            .iter()
            .zip(&last.numbers)
            .enumerate()
            .filter(|(_, (new, old))| new != old)
            .map(|(i, (new, old))| (i, new.wrapping_sub(*old)))
            .collect();
        let same_columns = row.columns == last.columns && group == last.group;
        if same_columns && self.step.as_ref() == Some(&(number, changes.clone())) {
            self.again += 1;
        } else {
            self.flush();
            put_unsigned(&mut self.out, CHANGED + number as u64);
            put_unsigned(&mut self.out, changes.len() as u64);
            let mut next = 0;
            for (index, difference) in &changes {
                put_unsigned(&mut self.out, (index - next) as u64);
                put(&mut self.out, *difference);
                next = index + 1;
            }
            self.put_columns(&row, Some(number), group, ranks);
            self.step = Some((number, changes));
        }
        let Simple { numbers, split, columns } = row;
        if let Some(shape) = self.shapes.get_mut(number) {
            *shape = Shape { split, numbers, columns, group };
        }
    }

    fn put_columns(&mut self, row: &Simple, shape: Option<usize>, group: usize, ranks: &RankList) {
        let last =
            shape.and_then(|number| self.shapes.get(number)).filter(|last| last.group == group);
        let out = &mut self.out;
        if row.columns.is_empty() {
            return put_unsigned(out, NO_COLUMNS);
        }
        if last.is_some_and(|last| last.columns == row.columns) {
            return put_unsigned(out, SAME_COLUMNS);
        }
        put_unsigned(out, COLUMNS);
        put_unsigned(out, row.columns.len() as u64);
        let mut next = 0;
        for (index, column) in &row.columns {
            put_unsigned(out, u64::from(index - next));
            next = index + 1;
            let mut plain = Vec::new();
            column.encode_values(&mut plain);
            let other = last.and_then(|last| {
                let at = last.columns.binary_search_by_key(index, |(p, _)| *p).ok()?;
                last.columns.get(at).map(|(_, column)| column)
            });
            let difference = other.filter(|_| plain.len() > 8).map(|other| {
                let all = ranks.to_vec();
                let (new, old) = (column.values(&all), other.values(&all));
                let values: Vec<i64> =
                    new.iter().zip(&old).map(|(n, o)| n.wrapping_sub(*o)).collect();
                let mut bytes = Vec::new();
                Column::fit_over(ranks, &values).encode_values(&mut bytes);
                bytes
            });
            match difference.filter(|bytes| bytes.len() < plain.len()) {
                Some(bytes) => {
                    put_unsigned(out, 1);
                    put_bytes(out, &bytes);
                }
                None => {
                    put_unsigned(out, 0);
                    put_bytes(out, &plain);
                }
            }
        }
    }
}

/// Writes the grammars of groups, each over its own rows.
pub fn put_own_grammars(out: &mut Vec<u8>, groups: &[Group]) {
    let mut all: Vec<Grammar> = Vec::new();
    for group in groups {
        put_unsigned(out, group.rows.len() as u64);
        put_unsigned(out, group.grammars.len() as u64);
        all.extend(group.grammars.iter().cloned());
    }
    let mut bytes = Vec::new();
    share(&all).encode(&mut bytes);
    put_bytes(out, &bytes);
}

/// Writes a row of any form, without statistics.
pub fn put_general(out: &mut Vec<u8>, row: &Row) {
    put_elastic(out, &row.cells);
    put_elastic(out, &row.outcome);
    match &row.outcomes {
        Outcomes::Constant => put_unsigned(out, 0),
        Outcomes::PerRank => put_unsigned(out, 1),
        Outcomes::Shared { rows, runs, misses } => {
            put_unsigned(out, 2);
            put_unsigned(out, rows.len() as u64);
            rows.iter().for_each(|row| put_elastic(out, row));
            put_bytes(out, runs);
            put_bytes(out, misses);
        }
    }
}

fn put_elastic(out: &mut Vec<u8>, elastic: &Elastic) {
    put_unsigned(out, elastic.variants.len() as u64);
    for variant in &elastic.variants {
        if elastic.variants.len() > 1
            && let Some(ranks) = &variant.ranks
        {
            ranks.encode(out);
        }
        put_bytes(out, &variant.cells);
        put_unsigned(out, variant.columns.len() as u64);
        let mut next = 0;
        for (index, column) in &variant.columns {
            put_unsigned(out, u64::from(index - next));
            next = index + 1;
            let mut bytes = Vec::new();
            column.encode_values(&mut bytes);
            put_bytes(out, &bytes);
        }
    }
}
