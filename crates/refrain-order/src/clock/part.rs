//! A table's part of a chunk. It holds no messages, only the difference between their observed order and their clock
//! order (Sato et al., §3.3, figures 7 and 8).

use crate::OrderError;
use crate::clock::bytes::{Column, Columns, Input, Inputs};
use crate::clock::chunk::MOST_ROWS;
use crate::clock::permutation::{Move, Script, moves};
use crate::clock::table::{Message, Other, Table};

/// A table's part of a chunk.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Part {
    /// How many rows there are.
    pub rows: u64,
    /// Messages that were not received in clock order. Indices count messages.
    pub moves: Vec<Move>,
    /// See [`Table::with_next`].
    pub with_next: Vec<u64>,
    /// See [`Table::unmatched`].
    pub unmatched: Vec<(u64, u64)>,
    /// See [`Table::others`].
    pub others: Vec<(u64, Other)>,
    /// See [`Table::claims`].
    pub claims: Vec<(u64, u64)>,
    /// See [`Table::trailing`].
    pub trailing: u64,
}

/// For each received message, its position in the reference order. No two messages have the same sender and clock.
pub fn positions(received: &[Message]) -> Vec<u32> {
    let mut order: Vec<u32> = (0..received.len() as u32).collect();
    order.sort_by_key(|at| received.get(*at as usize).map(Message::key));
    let mut positions = vec![0; received.len()];
    for (at, position) in order.iter().zip(0..) {
        if let Some(slot) = positions.get_mut(*at as usize) {
            *slot = position;
        }
    }
    positions
}

/// The codes of rows that are no messages.
const NOTHING: u64 = 0;
const UNDEFINED: u64 = 1;
const CANCELLED: u64 = 2;
const PROBED: u64 = 3;
const INDEX: u64 = 4;

/// Appends rows, and a number for each.
fn put_pairs(out: &mut Columns, rows: Column, numbers: Column, pairs: &[(u64, u64)]) {
    out.put_rising(rows, pairs.iter().map(|(row, _)| *row));
    pairs.iter().for_each(|(_, number)| out.put(numbers, *number));
}

fn take_pairs(
    input: &mut Inputs<'_>,
    rows: Column,
    numbers: Column,
) -> Result<Vec<(u64, u64)>, OrderError> {
    let rows = input.rising(rows)?;
    rows.into_iter().map(|row| Ok((row, input.of_column(numbers).number()?))).collect()
}

impl Part {
    /// Encodes a table.
    pub fn of(table: &Table) -> Self {
        let Table { rows, with_next, unmatched, others, claims, trailing, matched } = table.clone();
        let moves = moves(&positions(&matched));
        Self { rows, moves, with_next, unmatched, others, claims, trailing }
    }

    /// How many of the rows are messages.
    pub fn messages(&self) -> usize {
        self.rows.saturating_sub(self.others.len() as u64) as usize
    }

    /// Whether it has neither rows nor failed polls.
    pub fn is_empty(&self) -> bool {
        self.rows == 0 && self.trailing == 0
    }

    /// How many numbers it holds, without epoch lines.
    pub fn values(&self) -> usize {
        let Self { moves, with_next, unmatched, others, claims, .. } = self;
        with_next.len()
            + 2 * (moves.len() + unmatched.len() + others.len() + claims.len())
            + usize::from(self.trailing > 0)
    }

    pub(crate) fn put(&self, out: &mut Columns) {
        out.put(Column::Shape, self.rows);
        out.put(Column::Shape, self.trailing);
        out.put_rising(Column::Others, self.others.iter().map(|(row, _)| *row));
        for (_, other) in &self.others {
            let code = match other {
                Other::Nothing => NOTHING,
                Other::Undefined => UNDEFINED,
                Other::Cancelled => CANCELLED,
                Other::Probed(..) => PROBED,
                Other::Index(index) => INDEX + u64::from(*index),
            };
            out.put(Column::Others, code);
            if let Other::Probed(sender, sequence) = other {
                out.put(Column::Others, u64::from(*sender));
                out.put(Column::Others, *sequence);
            }
        }
        self.put_moves(out);
        out.put_rising(Column::WithNext, self.with_next.iter().copied());
        put_pairs(out, Column::Unmatched, Column::Polls, &self.unmatched);
        put_pairs(out, Column::Claimed, Column::Claims, &self.claims);
    }

    fn put_moves(&self, out: &mut Columns) {
        let end = self.messages() as u64;
        let put: Vec<u64> = self.moves.iter().map(|one| one.index).collect();
        let Script { taken, which } = Script::of(&self.moves);
        out.put(Column::Shape, put.len() as u64);
        out.put_set(Column::Put, &put, end);
        out.put_set(Column::Taken, &taken, end);
        for which in which {
            out.of(Column::Which).push(which as u8);
            out.put(Column::WhichHigh, u64::from(which >> 8));
        }
    }

    /// Reads a part; fails if the frame has too many rows in all.
    pub(crate) fn take(input: &mut Inputs<'_>, all: &mut u64) -> Result<Self, OrderError> {
        let rows = input.shape().number()?;
        *all = all.saturating_add(rows);
        if *all > MOST_ROWS {
            return Err(OrderError::OutOfRange("number of rows"));
        }
        let trailing = input.shape().number()?;
        let mut others = Vec::new();
        for row in input.rising(Column::Others)? {
            others.push((row, take_other(input.of_column(Column::Others))?));
        }
        let mut part = Self { rows, trailing, others, ..Self::default() };
        part.moves = part.take_moves(input)?;
        part.with_next = input.rising(Column::WithNext)?;
        part.unmatched = take_pairs(input, Column::Unmatched, Column::Polls)?;
        part.claims = take_pairs(input, Column::Claimed, Column::Claims)?;
        part.check()?;
        Ok(part)
    }

    fn take_moves(&self, input: &mut Inputs<'_>) -> Result<Vec<Move>, OrderError> {
        let moves = input.length(Column::Which)?;
        let end = self.messages() as u64;
        let put = input.set(Column::Put, moves, end)?;
        let taken = input.set(Column::Taken, moves, end)?;
        let which = (0..moves).map(|_| {
            let low = input.of_column(Column::Which).byte()?;
            let high = input.of_column(Column::WhichHigh).number()?;
            let high = u32::try_from(high).ok().and_then(|high| high.checked_mul(256));
            Ok(high.ok_or(OrderError::OutOfRange("order"))? | u32::from(low))
        });
        let which = which.collect::<Result<_, OrderError>>()?;
        Script { taken, which }.moves(&put).ok_or(OrderError::OutOfRange("order"))
    }

    /// Checks that row numbers rise and are in range.
    fn check(&self) -> Result<(), OrderError> {
        let rises = |mut rows: &mut dyn Iterator<Item = u64>| {
            let mut next = 0;
            (&mut rows).all(|row| {
                let fits = row >= next && row < self.rows;
                next = row.saturating_add(1);
                fits
            })
        };
        let fits = rises(&mut self.with_next.iter().copied())
            && rises(&mut self.unmatched.iter().map(|(row, _)| *row))
            && rises(&mut self.claims.iter().map(|(row, _)| *row))
            && rises(&mut self.others.iter().map(|(row, _)| *row));
        if fits { Ok(()) } else { Err(OrderError::OutOfRange("row of a table")) }
    }
}

fn take_other(input: &mut Input<'_>) -> Result<Other, OrderError> {
    Ok(match input.number()? {
        NOTHING => Other::Nothing,
        UNDEFINED => Other::Undefined,
        CANCELLED => Other::Cancelled,
        PROBED => Other::Probed(input.narrow("sender")?, input.number()?),
        index => {
            Other::Index(u32::try_from(index - INDEX).map_err(|_| OrderError::OutOfRange("index"))?)
        }
    })
}
