//! A chunk that is being replayed.

use crate::OrderError;
use crate::clock::arrivals::Arrived;
use crate::clock::epoch::Border;
use crate::clock::part::Part;
use crate::clock::permutation;
use crate::clock::routes::RouteMap;
use crate::clock::table::Other;
use refrain_bytes::table::Map;

/// A chunk that was read.
#[derive(Debug)]
pub struct LoadedChunk {
    /// Which messages belong to it.
    pub border: Border,
    /// Which table each message belongs to.
    pub routes: RouteMap,
    /// The tables.
    pub parts: Map<u32, PartCursor>,
}

/// A table's part of a chunk, and the position of the replay in it.
#[derive(Debug)]
pub struct PartCursor {
    part: Part,
    /// Positions in the reference order, in observed order.
    positions: Vec<u32>,
    /// Messages that have arrived, in reference order.
    pub arrived: Vec<Arrived>,
    /// The next row, and how many messages and list entries precede it.
    row: u64,
    message: usize,
    with_next: usize,
    unmatched: usize,
    others: usize,
    claims: usize,
    /// Polls that still have to fail before it.
    pub polls: u64,
}

/// A row of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Row {
    /// The message at this position of the reference order, received by the n-th request that accepts it.
    Message(usize, usize),
    /// No message.
    Other(Other),
}

impl LoadedChunk {
    /// A chunk at its beginning.
    pub fn new(
        border: Border,
        routes: RouteMap,
        parts: Vec<(u32, Part)>,
    ) -> Result<Self, OrderError> {
        let parts = parts.into_iter().map(|(table, part)| Ok((table, PartCursor::new(part)?)));
        Ok(Self { border, routes, parts: parts.collect::<Result<_, OrderError>>()? })
    }

    /// Whether everything was replayed.
    pub fn is_done(&self) -> bool {
        self.parts.values().all(PartCursor::is_done)
    }
}

impl PartCursor {
    /// A part at its beginning.
    pub(crate) fn new(part: Part) -> Result<Self, OrderError> {
        let positions = permutation::observed(part.messages(), &part.moves);
        let positions = positions.ok_or(OrderError::OutOfRange("order"))?;
        let mut cursor = Self {
            part,
            positions,
            arrived: Vec::new(),
            row: 0,
            message: 0,
            with_next: 0,
            unmatched: 0,
            others: 0,
            claims: 0,
            polls: 0,
        };
        cursor.find_polls();
        Ok(cursor)
    }

    fn find_polls(&mut self) {
        // Polls fail before a call, not between its rows.
        let unmatched = self.part.unmatched.iter().skip(self.unmatched);
        self.unmatched += unmatched.take_while(|(row, _)| *row < self.row).count();
        if self.row == self.part.rows {
            self.polls = std::mem::take(&mut self.part.trailing);
        } else if let Some((row, polls)) = self.part.unmatched.get(self.unmatched)
            && *row == self.row
        {
            self.polls = *polls;
            self.unmatched += 1;
        }
    }

    /// Whether all of it was replayed.
    pub fn is_done(&self) -> bool {
        self.row == self.part.rows && self.polls == 0
    }

    /// How many rows were replayed.
    pub fn row(&self) -> u64 {
        self.row
    }

    /// The rows of the next successful call.
    pub fn group(&self) -> Vec<Row> {
        let mut rows = Vec::new();
        let (mut row, mut message) = (self.row, self.message);
        let (mut others, mut claims) = (self.others, self.claims);
        let mut chain = self.part.with_next.iter().skip(self.with_next);
        while row < self.part.rows {
            if let Some((at, other)) = self.part.others.get(others)
                && *at == row
            {
                rows.push(Row::Other(*other));
                others += 1;
            } else {
                let claim = self.part.claims.get(claims).filter(|(at, _)| *at == row);
                claims += usize::from(claim.is_some());
                let claim = claim.map_or(0, |(_, claim)| *claim as usize);
                let position = self.positions.get(message).copied().unwrap_or(u32::MAX);
                rows.push(Row::Message(position as usize, claim));
                message += 1;
            }
            if chain.next() != Some(&row) {
                break;
            }
            row += 1;
        }
        rows
    }

    /// Moves past rows that were replayed.
    pub fn advance(&mut self, rows: &[Row]) {
        for row in rows {
            let next = |at: Option<&u64>| usize::from(at == Some(&self.row));
            self.with_next += next(self.part.with_next.get(self.with_next));
            self.claims += next(self.part.claims.get(self.claims).map(|(at, _)| at));
            match row {
                Row::Message(..) => self.message += 1,
                Row::Other(_) => self.others += 1,
            }
            self.row += 1;
        }
        self.find_polls();
    }
}
