//! Many numbers as functions of the thread.
//!
//! The numbers of a trace that differ between threads mostly differ in the same way: all places in
//! a thread's share of the rows follow from the first row of the share, and that is a line for an
//! even static schedule, and two lines (floor and ceiling) for an uneven one. So a number is a
//! constant, or a line over the thread's number or over one of a few *bases*, each of which is a
//! [`Column`] of the threads.

use refrain_elastic::{Column, RankList};

use crate::bulk;
use crate::error::MemoryError;
use crate::varint;

/// The most values that columns of a damaged trace may unpack to.
pub const MOST_VALUES: usize = 1 << 25;

/// A number as a function of the thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Line {
    /// The same for every thread.
    Constant(i64),
    /// `scale * base + offset`, where base 0 is the thread's number, and others follow.
    Over {
        /// Which base.
        base: u32,
        /// By what it is multiplied.
        scale: i64,
        /// What is added.
        offset: i64,
    },
}

/// Numbers over the threads of a list.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Lines {
    /// What threads have apart from their numbers.
    pub bases: Vec<Column>,
    /// The numbers.
    pub lines: Vec<Line>,
}

impl Lines {
    /// Finds the lines: `numbers` has, for each thread of the list in ascending order, all
    /// numbers; none where any will do.
    pub fn fit(threads: &RankList, numbers: &[Vec<Option<i64>>]) -> Self {
        let ids: Vec<i64> = threads.iter().map(i64::from).collect();
        let mut fitted = Self::default();
        let mut bases = vec![ids];
        for at in 0..numbers.first().map_or(0, Vec::len) {
            let values: Vec<Option<i64>> =
                numbers.iter().map(|numbers| numbers.get(at).copied().flatten()).collect();
            let line = bases.iter().enumerate().find_map(|(i, base)| line(&values, base, i));
            fitted.lines.push(line.unwrap_or_else(|| {
                let (base, scale, offset) = new_base(&values);
                fitted.bases.push(Column::fit_over(threads, &base));
                bases.push(base);
                Line::Over { base: bases.len() as u32 - 1, scale, offset }
            }));
        }
        fitted
    }

    /// The numbers of a thread.
    pub fn numbers(&self, thread: u32) -> Vec<i64> {
        let bases: Vec<i64> = self.bases.iter().map(|b| b.eval(thread).unwrap_or(0)).collect();
        let number = |line: &Line| match *line {
            Line::Constant(value) => value,
            Line::Over { base: 0, scale, offset } => {
                scale.wrapping_mul(i64::from(thread)).wrapping_add(offset)
            }
            Line::Over { base, scale, offset } => {
                let base = bases.get(base as usize - 1).copied().unwrap_or(0);
                scale.wrapping_mul(base).wrapping_add(offset)
            }
        };
        self.lines.iter().map(number).collect()
    }

    /// Takes apart into a structure (which number is over which base) and plain numbers, and the
    /// bases.
    pub fn kinds(&self) -> Vec<u8> {
        let mut kinds = Vec::new();
        for run in self.lines.chunk_by(|a, b| kind(a) == kind(b)) {
            varint::put(&mut kinds, kind(&run[0]));
            varint::put(&mut kinds, run.len() as u64);
        }
        kinds
    }

    /// The plain numbers: what [`Lines::kinds`] does not say.
    pub fn plain(&self) -> Vec<i64> {
        let mut plain = Vec::new();
        for line in &self.lines {
            match *line {
                Line::Constant(value) => plain.push(value),
                Line::Over { scale, offset, .. } => plain.extend([scale, offset]),
            }
        }
        plain
    }

    /// Puts lines together.
    pub fn assemble(
        bases: Vec<Column>,
        mut kinds: &[u8],
        plain: &[i64],
    ) -> Result<Self, MemoryError> {
        let mut plain = plain.iter().copied();
        let mut next = || plain.next().ok_or(MemoryError::Truncated);
        let mut lines = Vec::new();
        while !kinds.is_empty() {
            let kind = varint::take_u32(&mut kinds, "kind of number")?;
            for _ in 0..varint::take(&mut kinds)? {
                lines.push(match kind.checked_sub(1) {
                    None => Line::Constant(next()?),
                    Some(base) if base as usize <= bases.len() => {
                        Line::Over { base, scale: next()?, offset: next()? }
                    }
                    Some(_) => return Err(MemoryError::OutOfRange("base")),
                });
            }
        }
        Ok(Self { bases, lines })
    }

    /// Appends the lines; the reader knows the threads.
    pub fn encode(&self, out: &mut Vec<u8>) {
        varint::put(out, self.bases.len() as u64);
        self.bases.iter().for_each(|base| base.encode_values(out));
        bulk::put_packed(out, &self.kinds());
        bulk::put_numbers(out, &self.plain());
    }

    /// Takes lines over these threads.
    pub fn decode(input: &mut &[u8], threads: &RankList) -> Result<Self, MemoryError> {
        let bases = take_bases(input, threads)?;
        let kinds = bulk::take_packed(input)?;
        let plain = bulk::take_numbers(input, bulk::MOST_NUMBERS)?;
        Self::assemble(bases, &kinds, &plain)
    }
}

/// Takes columns over these threads.
pub fn take_bases(input: &mut &[u8], threads: &RankList) -> Result<Vec<Column>, MemoryError> {
    let count = varint::take_count(input, "number of bases")?;
    if count.saturating_mul(threads.len()) > MOST_VALUES {
        return Err(MemoryError::OutOfRange("number of bases"));
    }
    let bases = (0..count).map(|_| Column::decode_values(input, threads));
    bases.collect::<Result<_, _>>().map_err(MemoryError::Elastic)
}

fn kind(line: &Line) -> u64 {
    match line {
        Line::Constant(_) => 0,
        Line::Over { base, .. } => 1 + u64::from(*base),
    }
}

/// The values as a constant, or as a line over the base of index `at`.
fn line(values: &[Option<i64>], base: &[i64], at: usize) -> Option<Line> {
    let mut known = values.iter().zip(base).filter_map(|(value, base)| Some(((*value)?, *base)));
    let Some((first, first_base)) = known.next() else { return Some(Line::Constant(0)) };
    let Some((other, other_base)) = known.clone().find(|(value, _)| *value != first) else {
        return Some(Line::Constant(first));
    };
    let (rise, run) = (other.wrapping_sub(first), other_base.wrapping_sub(first_base));
    if run == 0 || rise.checked_rem(run)? != 0 {
        return None;
    }
    let scale = rise / run;
    let offset = first.wrapping_sub(scale.wrapping_mul(first_base));
    let holds = |(value, base): (i64, i64)| scale.wrapping_mul(base).wrapping_add(offset) == value;
    known.all(holds).then_some(Line::Over { base: at as u32, scale, offset })
}

/// A base for values that are on no line over the others: what they have in common is taken out,
/// so that places in rows become numbers of rows. Returns the base, scale and offset; where any
/// value will do, it is some near one.
fn new_base(values: &[Option<i64>]) -> (Vec<i64>, i64, i64) {
    let offset = values.iter().copied().flatten().next().unwrap_or(0);
    let mut near = 0;
    let distances = values.iter().map(|value| {
        near = value.map_or(near, |value| value.wrapping_sub(offset));
        near
    });
    let distances: Vec<i64> = distances.collect();
    let divisor = distances.iter().fold(0, |divisor, d| common_divisor(divisor, d.unsigned_abs()));
    match i64::try_from(divisor) {
        Ok(scale @ 1..) => (distances.iter().map(|d| d / scale).collect(), scale, offset),
        _ => (distances, 1, offset),
    }
}

fn common_divisor(mut a: u64, mut b: u64) -> u64 {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}
