//! Reads a merged trace from bytes. Arbitrary bytes never cause a panic or excessive memory use;
//! malformed ones are an error that names the part.

use crate::elastic::{Elastic, Variant};
use crate::functions;
use crate::group::{Group, Outcomes, Residue, Row};
use crate::merged::Merged;
use crate::times::Times;
use crate::write::{
    CHANGED, COLUMNS, GENERAL, NEW_SHAPE, NO_COLUMNS, SAME_COLUMNS, SCALE_AT, Shape, VERSION,
};
use refrain_elastic::{Column, Columns, RankList, TextColumn};
use refrain_grammar::{Shared, Symbol, What};
use refrain_signature::cells::{self, Cells};
use refrain_signature::outcome::{Polls, StoredOutcomes};
use refrain_signature::stats::Stats;
use std::collections::BTreeMap;

/// The bytes are malformed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReadError {
    /// What is wrong.
    pub what: String,
}

impl std::fmt::Display for ReadError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.what)
    }
}

impl std::error::Error for ReadError {}

fn bad(what: impl std::fmt::Display) -> ReadError {
    ReadError { what: format!("malformed {what}") }
}

/// The reader limits how much memory a structure may take, because a few damaged bytes can stand for
/// any number of rows. The limits below hold for scale 0 and double with each step. The writer
/// stores the smallest sufficient scale.
pub const MOST_SCALE: u8 = 7;

/// Roughly the most bytes that a structure may take in memory, from its scale.
pub fn most_memory(structure: &[u8]) -> u64 {
    let scale = structure.get(SCALE_AT).copied().unwrap_or(0).min(MOST_SCALE);
    (MOST_CELLS as u64 * 16) << scale
}

/// Limit on ranks.
const MOST_RANKS: u32 = 1 << 20;

/// Limit on the cells of all rows: a row that repeats a change takes no byte.
const MOST_CELLS: usize = 1 << 25;

/// Limit on values in tables: this many, plus [`VALUES_PER_BYTE`] for each byte of the structure. In a
/// run of equal values, most take no byte.
const MOST_VALUES: usize = 1 << 25;
const VALUES_PER_BYTE: usize = 16;

/// Limit on the symbols of all grammars: this many, plus [`SYMBOLS_PER_BYTE`] for each byte of the
/// structure. Rules that grammars share are written once.
const MOST_SYMBOLS: usize = 1 << 23;
const SYMBOLS_PER_BYTE: usize = 256;

/// Limit on the rows of all groups: rows that groups share are written once.
const MOST_ROWS: usize = 1 << 21;

/// In version 2, the limit follows from the timing stream: a row takes at least so many bytes there.
pub const ROW_TIMING: usize = 6;

/// The oldest version that can be read.
const OLDEST: u64 = 2;

/// Limit on the values of all columns that are written as differences.
const MOST_DIFFERENCES: usize = 1 << 26;

/// Whether the timing stream beside this structure has statistics for each row ([`row_statistics`]), not for each key
/// ([`crate::times::read`]).
pub fn has_row_statistics(structure: &[u8]) -> bool {
    Cells::new(structure).get_unsigned().is_some_and(|version| version < VERSION)
}

/// Reads the structure.
pub fn structure(bytes: &[u8]) -> Result<Merged, ReadError> {
    structure_of_rows(bytes, usize::MAX)
}

/// Reads the structure, with at most `most_rows` rows over all groups. Callers know the limit of version 2 from the
/// timing stream, which has at least [`ROW_TIMING`] bytes per row there.
pub fn structure_of_rows(bytes: &[u8], most_rows: usize) -> Result<Merged, ReadError> {
    let mut cells = Cells::new(bytes);
    let version = cells.get_unsigned().ok_or_else(|| bad("first bytes"))?;
    if !(OLDEST..=VERSION).contains(&version) {
        let what = format!("version {version}; this Refrain reads {OLDEST} to {VERSION}");
        return Err(ReadError { what });
    }
    let scale =
        cells.take(1).and_then(|scale| scale.first().copied()).filter(|scale| *scale <= MOST_SCALE);
    let scale = scale.ok_or_else(|| bad("first bytes"))?;
    let most_rows = match version {
        VERSION => most_rows.min(MOST_ROWS << scale),
        _ => most_rows,
    };
    let functions = match version {
        VERSION => functions::get(&mut cells),
        _ => functions::get_texts(&mut cells),
    };
    let functions = functions.ok_or_else(|| {
        bad("function definitions (or a version of Refrain with other functions wrote them)")
    })?;
    let count = cells.get_length().ok_or_else(|| bad("groups"))?;
    let mut groups = Vec::new();
    let values = bytes.len().saturating_mul(VALUES_PER_BYTE).saturating_add(MOST_VALUES << scale);
    let mut rows =
        RowReader { rows_left: most_rows, values_left: values, scale, ..RowReader::default() };
    for _ in 0..count {
        groups.push(group(&mut cells, &mut rows).ok_or_else(|| bad("groups"))?);
    }
    for (number, group) in groups.iter().enumerate() {
        rows.read_group(&mut cells, number, &group.ranks).ok_or_else(|| bad("signatures"))?;
    }
    let lists = lists(&mut cells, groups.len(), rows.rows.len());
    let lists = lists.ok_or_else(|| bad("signatures of groups"))?;
    let grammars: Option<Vec<usize>> = groups.iter().map(|_| cells.get_length()).collect();
    let grammars = grammars.ok_or_else(|| bad("grammars"))?;
    let shared = cells.get_bytes().ok_or_else(|| bad("grammars"))?;
    let shared = Shared::decode(shared, rows.rows.len())
        .map_err(|error| bad(format!("grammars ({error})")))?;
    if lists.iter().map(Vec::len).sum::<usize>() > most_rows {
        return Err(bad("signatures of groups (too many)"));
    }
    let mut all = shared.iter();
    let mut symbols =
        bytes.len().saturating_mul(SYMBOLS_PER_BYTE).saturating_add(MOST_SYMBOLS << scale);
    for ((number, group), (list, count)) in
        groups.iter_mut().enumerate().zip(lists.into_iter().zip(grammars))
    {
        let members = list.iter().map(|row| rows.row(*row, number, &group.ranks));
        group.rows = members.collect::<Option<_>>().ok_or_else(|| bad("signatures of groups"))?;
        let mut local_numbers: BTreeMap<u32, u32> = BTreeMap::new();
        for (index, row) in list.iter().enumerate() {
            local_numbers.entry(*row).or_insert(index as u32);
        }
        for _ in 0..count {
            let grammar = all.next().ok_or_else(|| bad("grammars"))?;
            let grammar = grammar.map_err(|error| bad(format!("grammars ({error})")))?;
            let left = symbols.checked_sub(grammar.symbols());
            symbols = left.ok_or_else(|| bad("grammars (too large)"))?;
            let terminals = grammar.rules().iter().flatten();
            let is_known = |symbol: &Symbol| match symbol.what {
                What::Terminal(terminal) => local_numbers.contains_key(&terminal),
                What::Rule(_) => true,
            };
            if !terminals.clone().all(is_known) {
                return Err(bad("grammars (a signature does not belong to the group)"));
            }
            let local = |terminal: u32| local_numbers.get(&terminal).copied().unwrap_or(u32::MAX);
            group.grammars.push(grammar.relabel(local));
        }
    }
    if !cells.is_empty() || all.next().is_some() {
        return Err(bad("trailing bytes"));
    }
    Ok(Merged { functions, groups, times: Times::default() })
}

/// Reads a value with a decoder of `refrain_elastic`.
fn elastic<'a, T, E>(
    cells: &mut Cells<'a>,
    read: impl FnOnce(&mut &'a [u8]) -> Result<T, E>,
) -> Option<T> {
    let mut rest = cells.rest();
    let before = rest.len();
    let value = read(&mut rest).ok()?;
    cells.take(before - rest.len())?;
    Some(value)
}

/// Reads groups without rows and grammars.
pub fn groups(cells: &mut Cells<'_>) -> Option<Vec<Group>> {
    let mut rows = RowReader { values_left: MOST_VALUES << MOST_SCALE, ..RowReader::default() };
    let count = cells.get_length()?;
    (0..count).map(|_| group(cells, &mut rows)).collect()
}

/// Reads the grammars of groups, each over its own rows, and how many rows each has.
pub fn own_grammars(cells: &mut Cells<'_>, groups: &mut [Group]) -> Result<Vec<usize>, ReadError> {
    let count = |cells: &mut Cells<'_>| {
        let rows = usize::try_from(cells.get_unsigned()?).ok()?;
        Some((rows, cells.get_length()?)).filter(|(rows, _)| *rows <= MOST_CELLS << MOST_SCALE)
    };
    let counts: Option<Vec<(usize, usize)>> = groups.iter().map(|_| count(cells)).collect();
    let counts = counts.ok_or_else(|| bad("grammars"))?;
    let terminals = counts.iter().map(|(rows, _)| *rows).max().unwrap_or(0);
    let bytes = cells.get_bytes().ok_or_else(|| bad("grammars"))?;
    let shared = Shared::decode(bytes, terminals).map_err(bad)?;
    let mut all = shared.iter();
    let symbols = bytes.len().saturating_mul(SYMBOLS_PER_BYTE);
    let mut symbols = symbols.saturating_add(MOST_SYMBOLS << MOST_SCALE);
    for (group, (rows, count)) in groups.iter_mut().zip(&counts) {
        for _ in 0..*count {
            let grammar = all.next().ok_or_else(|| bad("grammars"))?.map_err(bad)?;
            let left = symbols.checked_sub(grammar.symbols());
            symbols = left.ok_or_else(|| bad("grammars (too large)"))?;
            let is_known = |symbol: &Symbol| match symbol.what {
                What::Terminal(terminal) => (terminal as usize) < *rows,
                What::Rule(_) => true,
            };
            if !grammar.rules().iter().flatten().all(is_known) {
                return Err(bad("grammars (a signature does not belong to the group)"));
            }
            group.grammars.push(grammar);
        }
    }
    match all.next() {
        Some(_) => Err(bad("grammars")),
        None => Ok(counts.into_iter().map(|(rows, _)| rows).collect()),
    }
}

/// Reads a row that takes all of these bytes.
pub fn row(bytes: &[u8], ranks: &RankList) -> Option<Row> {
    let mut cells = Cells::new(bytes);
    let mut reader = RowReader { values_left: MOST_VALUES, ..RowReader::default() };
    let row = reader.general(&mut cells, ranks)?;
    cells.is_empty().then_some(row)
}

fn group(cells: &mut Cells<'_>, rows: &mut RowReader) -> Option<Group> {
    let thread = u32::try_from(cells.get_unsigned()?).ok()?;
    let ranks = elastic(cells, |rest| RankList::decode(rest, MOST_RANKS))?;
    let mut predefined = Vec::new();
    for _ in 0..cells.get_length()? {
        predefined.push(String::from_utf8(cells.get_bytes()?.to_vec()).ok()?);
    }
    let mut strings = Vec::new();
    for _ in 0..cells.get_length()? {
        let text = elastic(cells, |rest| TextColumn::decode_texts(rest, &ranks))?;
        rows.reserve(text.held())?;
        strings.push(text);
    }
    let lost = cells.get_unsigned()?;
    let (rows, grammars, residues) = (Vec::new(), Vec::new(), BTreeMap::new());
    Some(Group { thread, ranks, predefined, strings, rows, grammars, residues, lost })
}

fn lists(cells: &mut Cells<'_>, groups: usize, rows: usize) -> Option<Vec<Vec<u32>>> {
    let mut lists = Vec::new();
    for _ in 0..groups {
        let length = usize::try_from(cells.get_unsigned()?).ok().filter(|n| *n <= rows)?;
        let (mut list, mut expected) = (Vec::new(), 0i64);
        while list.len() < length {
            let first = expected.checked_add(cells.get()?)?;
            let run = i64::try_from(cells.get_unsigned()?).ok()?;
            let end = first.checked_add(run)?;
            let fits = run > 0 && first >= 0 && end <= rows as i64;
            if !fits || list.len() + run as usize > length {
                return None;
            }
            list.extend(first as u32..end as u32);
            expected = end;
        }
        lists.push(list);
    }
    Some(lists)
}

/// A row before it is assigned to groups.
enum ReadRow {
    /// Constants and columns only; `split`: how many of the numbers are the signature's.
    Simple { numbers: Vec<i64>, split: usize, columns: Vec<(u32, Column)>, group: usize },
    /// Any other row, with the group that it belongs to.
    General(Box<Row>, usize),
}

/// Reads rows.
#[derive(Default)]
struct RowReader {
    rows: Vec<ReadRow>,
    shapes: Vec<Shape>,
    /// Cells of all rows so far.
    cells: usize,
    /// Values of columns that were written as differences, so far.
    differences: usize,
    /// How many more rows are allowed.
    rows_left: usize,
    /// How many more values in tables are allowed.
    values_left: usize,
    /// The structure's scale, see [`MOST_SCALE`].
    scale: u8,
}

impl RowReader {
    /// Counts values in tables against the limit.
    fn reserve(&mut self, values: usize) -> Option<()> {
        self.values_left = self.values_left.checked_sub(values)?;
        Some(())
    }

    fn read_group(&mut self, cells: &mut Cells<'_>, group: usize, ranks: &RankList) -> Option<()> {
        let count = usize::try_from(cells.get_unsigned()?)
            .ok()
            .filter(|n| *n <= MOST_CELLS << self.scale)?;
        self.rows_left = self.rows_left.checked_sub(count)?;
        let end = self.rows.len() + count;
        while self.rows.len() < end {
            match cells.get_unsigned()? {
                NEW_SHAPE => {
                    let split = cells.get_length()?;
                    let more = cells.get_length()?;
                    let numbers: Option<Vec<i64>> =
                        (0..split.checked_add(more)?).map(|_| cells.get()).collect();
                    let numbers = numbers?;
                    let columns = self.columns(cells, None, numbers.len(), ranks)?;
                    self.add(numbers.clone(), split, columns.clone(), group)?;
                    self.shapes.push(Shape { split, numbers, columns, group });
                }
                GENERAL => {
                    let row = self.general(cells, ranks)?;
                    self.rows.push(ReadRow::General(Box::new(row), group));
                }
                form => {
                    let shape = usize::try_from(form - CHANGED).ok()?;
                    self.changed(cells, shape, group, ranks, end)?;
                }
            }
        }
        (self.rows.len() == end).then_some(())
    }

    fn changed(
        &mut self,
        cells: &mut Cells<'_>,
        shape: usize,
        group: usize,
        ranks: &RankList,
        end: usize,
    ) -> Option<()> {
        let last = self.shapes.get(shape)?;
        let mut changes = Vec::new();
        let mut next = 0usize;
        for _ in 0..cells.get_length()? {
            let index = next.checked_add(usize::try_from(cells.get_unsigned()?).ok()?)?;
            next = index.checked_add(1)?;
            changes.push((index, cells.get()?));
        }
        let split = last.split;
        let mut numbers = last.numbers.clone();
        let before = Some(shape).filter(|_| last.group == group);
        let columns = self.columns(cells, before, numbers.len(), ranks)?;
        let again = cells.get_unsigned()?;
        if again >= (end - self.rows.len()) as u64 {
            return None;
        }
        for _ in 0..=again {
            for (index, difference) in &changes {
                let number = numbers.get_mut(*index)?;
                *number = number.wrapping_add(*difference);
            }
            self.add(numbers.clone(), split, columns.clone(), group)?;
        }
        *self.shapes.get_mut(shape)? = Shape { split, numbers, columns, group };
        Some(())
    }

    fn add(
        &mut self,
        numbers: Vec<i64>,
        split: usize,
        columns: Vec<(u32, Column)>,
        group: usize,
    ) -> Option<()> {
        self.cells += numbers.len() + 1;
        self.reserve(columns.iter().map(|(_, column)| column.held()).sum())?;
        self.rows.push(ReadRow::Simple { numbers, split, columns, group });
        (self.cells <= MOST_CELLS << self.scale).then_some(())
    }

    fn columns(
        &mut self,
        cells: &mut Cells<'_>,
        shape: Option<usize>,
        cells_per_row: usize,
        ranks: &RankList,
    ) -> Option<Vec<(u32, Column)>> {
        let last = shape.and_then(|shape| self.shapes.get(shape));
        match cells.get_unsigned()? {
            NO_COLUMNS => return Some(Vec::new()),
            SAME_COLUMNS => return last.map(|last| last.columns.clone()),
            COLUMNS => {}
            _ => return None,
        }
        let mut columns = Vec::new();
        let mut next = 0u64;
        for _ in 0..cells.get_length()? {
            let index = next.checked_add(cells.get_unsigned()?)?;
            next = index + 1;
            let index = u32::try_from(index).ok().filter(|p| (*p as usize) < cells_per_row)?;
            let form = cells.get_unsigned()?;
            let column = whole_column(cells.get_bytes()?, ranks)?;
            self.reserve(column.held())?;
            let last = shape.and_then(|shape| self.shapes.get(shape));
            columns.push((
                index,
                match form {
                    0 => column,
                    1 => {
                        let at = last?.columns.binary_search_by_key(&index, |(p, _)| *p).ok()?;
                        let (_, before) = last?.columns.get(at)?;
                        self.differences += ranks.len();
                        if self.differences > MOST_DIFFERENCES << self.scale {
                            return None;
                        }
                        let all = ranks.to_vec();
                        let (old, more) = (before.values(&all), column.values(&all));
                        let sum = old.iter().zip(&more).map(|(o, m)| o.wrapping_add(*m));
                        Column::fit_over(ranks, &sum.collect::<Vec<_>>())
                    }
                    _ => return None,
                },
            ));
        }
        Some(columns)
    }

    fn general(&mut self, cells: &mut Cells<'_>, ranks: &RankList) -> Option<Row> {
        let (signature, outcome) =
            (self.elastic_cells(cells, ranks)?, self.elastic_cells(cells, ranks)?);
        let outcomes = match cells.get_unsigned()? {
            0 => Outcomes::Constant,
            1 => Outcomes::PerRank,
            2 => {
                let rows = cells.get_length()?;
                Outcomes::Shared {
                    rows: (0..rows)
                        .map(|_| self.elastic_cells(cells, ranks))
                        .collect::<Option<_>>()?,
                    runs: cells.get_bytes()?.to_vec(),
                    misses: cells.get_bytes()?.to_vec(),
                }
            }
            _ => return None,
        };
        Some(Row { cells: signature, outcome, outcomes })
    }

    fn elastic_cells(&mut self, cells: &mut Cells<'_>, ranks: &RankList) -> Option<Elastic> {
        let count = cells.get_length().filter(|n| *n > 0)?;
        let mut variants = Vec::new();
        for _ in 0..count {
            let subset = match count {
                1 => None,
                _ => Some(elastic(cells, |rest| RankList::decode(rest, MOST_RANKS))?),
            };
            let numbers = cells.get_bytes()?.to_vec();
            let cells_per_row = cells::numbers(&numbers)?.len();
            let mut columns = Vec::new();
            let mut next = 0u64;
            for _ in 0..cells.get_length()? {
                let index = next.checked_add(cells.get_unsigned()?)?;
                next = index + 1;
                let index = u32::try_from(index).ok().filter(|p| (*p as usize) < cells_per_row)?;
                let column = whole_column(cells.get_bytes()?, subset.as_ref().unwrap_or(ranks))?;
                self.reserve(column.held())?;
                columns.push((index, column));
            }
            variants.push(Variant {
                ranks: subset,
                cells: numbers,
                columns: Columns::new(columns),
            });
        }
        Some(Elastic { variants })
    }

    /// A row for a group.
    fn row(&self, number: u32, group: usize, ranks: &RankList) -> Option<Row> {
        match self.rows.get(number as usize)? {
            ReadRow::General(row, owner) => (*owner == group).then(|| (**row).clone()),
            ReadRow::Simple { numbers, split, columns, group: owner } => {
                let column = |(index, column): &(u32, Column)| {
                    let column = match *owner == group {
                        true => column.clone(),
                        false => Column::of(ranks.clone(), *column.formula()?),
                    };
                    Some((*index, column))
                };
                let columns: Option<Vec<(u32, Column)>> = columns.iter().map(column).collect();
                let (mut first, mut second) = (Vec::new(), Vec::new());
                for (index, column) in columns? {
                    match (index as usize).checked_sub(*split) {
                        None => first.push((index, column)),
                        Some(index) => second.push((index as u32, column)),
                    }
                }
                let bytes = |numbers: &[i64]| {
                    let mut out = Vec::new();
                    numbers.iter().for_each(|n| cells::put(&mut out, *n));
                    out
                };
                let elastic = |cells, columns| Elastic {
                    variants: vec![Variant { ranks: None, cells, columns: Columns::new(columns) }],
                };
                Some(Row {
                    cells: elastic(bytes(numbers.get(..*split)?), first),
                    outcome: elastic(bytes(numbers.get(*split..)?), second),
                    outcomes: Outcomes::Constant,
                })
            }
        }
    }
}

/// Reads a column that must take all of these bytes.
fn whole_column(bytes: &[u8], ranks: &RankList) -> Option<Column> {
    let mut rest = bytes;
    let column = Column::decode_values(&mut rest, ranks).ok()?;
    rest.is_empty().then_some(column)
}

/// Reads the statistics of version 2: by group, for each row.
pub fn row_statistics(merged: &Merged, bytes: &[u8]) -> Result<Vec<Vec<Stats>>, ReadError> {
    let mut cells = Cells::new(bytes);
    let mut of_group = |group: &Group| group.rows.iter().map(|_| Stats::get(&mut cells)).collect();
    let all: Option<_> = merged.groups.iter().map(&mut of_group).collect();
    let all = all.ok_or_else(|| bad("statistics"))?;
    cells.is_empty().then_some(all).ok_or_else(|| bad("trailing bytes of the statistics"))
}

/// Reads a per-rank residue.
pub fn residue(bytes: &[u8]) -> Result<Residue, ReadError> {
    residue_cells(bytes).ok_or_else(|| bad("outcomes of a rank"))
}

fn residue_cells(bytes: &[u8]) -> Option<Residue> {
    let mut cells = Cells::new(bytes);
    let mut residue = Residue::default();
    for _ in 0..cells.get_length()? {
        let signature = u32::try_from(cells.get_unsigned()?).ok()?;
        residue.outcomes.insert(signature, StoredOutcomes::get(&mut cells)?);
    }
    for _ in 0..cells.get_length()? {
        let signature = u32::try_from(cells.get_unsigned()?).ok()?;
        residue.polls.insert(signature, Polls::get(&mut cells)?);
    }
    cells.is_empty().then_some(residue)
}
