//! A table's part of a chunk: its messages are gone, what is left is how their order differs from
//! that of their clocks (Sato et al., §3.3, figures 7 and 8).

use crate::bytes::{self, Input};
use crate::permutation::{Move, moves};
use crate::table::{Message, Other, Table};
use refrain_order::OrderError;
use refrain_order::varint::{put, zigzag};

/// See the module.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Part {
    /// How many rows there are.
    pub rows: u64,
    /// Messages that were not received in the order of their clocks. Indices count messages.
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

/// For each message received its place in the reference order. No two messages have the same
/// sender and clock.
pub fn places(received: &[Message]) -> Vec<u32> {
    let mut order: Vec<u32> = (0..received.len() as u32).collect();
    order.sort_by_key(|at| received[*at as usize].key());
    let mut places = vec![0; received.len()];
    order.iter().zip(0..).for_each(|(at, place)| places[*at as usize] = place);
    places
}

/// The codes of rows that are no messages.
const NOTHING: u64 = 0;
const UNDEFINED: u64 = 1;
const CANCELLED: u64 = 2;
const PROBED: u64 = 3;
const INDEX: u64 = 4;

impl Part {
    /// Of a table.
    pub fn of(table: &Table) -> Self {
        let Table { rows, with_next, unmatched, others, claims, trailing, matched } = table.clone();
        let moves = moves(&places(&matched));
        Self { rows, moves, with_next, unmatched, others, claims, trailing }
    }

    /// How many of the rows are messages.
    pub fn messages(&self) -> usize {
        self.rows.saturating_sub(self.others.len() as u64) as usize
    }

    /// Whether nothing is in it.
    pub fn is_empty(&self) -> bool {
        self.rows == 0 && self.trailing == 0
    }

    /// How many numbers it holds, epoch lines not counted.
    pub fn values(&self) -> usize {
        let Self { moves, with_next, unmatched, others, claims, .. } = self;
        with_next.len()
            + 2 * (moves.len() + unmatched.len() + others.len() + claims.len())
            + usize::from(self.trailing > 0)
    }

    pub(crate) fn put(&self, out: &mut Vec<u8>) {
        put(out, self.rows);
        put(out, self.trailing);
        bytes::put_rising(out, self.moves.iter().map(|one| one.index));
        self.moves.iter().for_each(|one| put(out, zigzag(one.delay)));
        bytes::put_rising(out, self.with_next.iter().copied());
        bytes::put_pairs(out, &self.unmatched);
        bytes::put_pairs(out, &self.claims);
        bytes::put_rising(out, self.others.iter().map(|(row, _)| *row));
        for (_, other) in &self.others {
            put(
                out,
                match other {
                    Other::Nothing => NOTHING,
                    Other::Undefined => UNDEFINED,
                    Other::Cancelled => CANCELLED,
                    Other::Probed(..) => PROBED,
                    Other::Index(index) => INDEX + u64::from(*index),
                },
            );
            if let Other::Probed(sender, sequence) = other {
                put(out, u64::from(*sender));
                put(out, *sequence);
            }
        }
    }

    pub(crate) fn take(input: &mut Input<'_>) -> Result<Self, OrderError> {
        let rows = input.number()?;
        let trailing = input.number()?;
        let indices = input.rising()?;
        let mut moves = Vec::with_capacity(indices.len());
        for index in indices {
            moves.push(Move { index, delay: input.signed()? });
        }
        let with_next = input.rising()?;
        let unmatched = input.pairs()?;
        let claims = input.pairs()?;
        let mut others = Vec::new();
        for row in input.rising()? {
            others.push((row, take_other(input)?));
        }
        let part = Self { rows, moves, with_next, unmatched, others, claims, trailing };
        part.check()?;
        Ok(part)
    }

    /// Rows are named by rising numbers, and exist.
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
