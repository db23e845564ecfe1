//! The table of a completing call: what it found each time, without redundancy.
//!
//! The *base table* has a row for every event: `count`, `flag`, `with_next`, `rank`, `clock` (Sato et al., §3.1,
//! figure 4). Most of it is redundant (§3.2, figure 6). Three lists remain: the received messages, the rows that were
//! received together with the next, and the number of failed polls before a row.
//!
//! In the paper, rows are messages. Here there are other rows too ([`Other`]), in a list of their own; a table without
//! them is the paper's.

/// A message, as its receiver knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Message {
    /// The process that sent it.
    pub sender: u32,
    /// Its stamp.
    pub clock: u64,
}

impl Message {
    /// Its key in the reference order (definition 6): clock, then sender.
    pub fn key(&self) -> (u64, u32) {
        (self.clock, self.sender)
    }
}

/// A row of the base table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BaseRow {
    /// How often this event occurred in succession.
    pub count: u64,
    /// The message, and whether the next message was found by the same call. `None` for a failed poll.
    pub found: Option<(Message, bool)>,
}

/// Numbers in each row of the base table.
pub const BASE_VALUES: usize = 5;

/// A row that is no message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Other {
    /// The call succeeded, and has no other row.
    Nothing,
    /// No request was active.
    Undefined,
    /// The receive was cancelled.
    Cancelled,
    /// A message was probed: its sender, and its sequence number among that sender's messages.
    Probed(u32, u64),
    /// The request at this index completed: a send, or a receive whose message was observed before.
    Index(u32),
}

/// A call's table without redundancy. Indices count rows from 0.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Table {
    /// How many rows there are.
    pub rows: u64,
    /// Rows that are messages, in order.
    pub matched: Vec<Message>,
    /// Rows of the same call as the next row.
    pub with_next: Vec<u64>,
    /// Rows before which polls failed, and the number of polls.
    pub unmatched: Vec<(u64, u64)>,
    /// Rows that are no messages.
    pub others: Vec<(u64, Other)>,
    /// Rows whose message was not received by the first request of the call that accepts it, and the index of the
    /// receiving request among those that accept it.
    pub claims: Vec<(u64, u64)>,
    /// Polls that failed after the last row.
    pub trailing: u64,
}

impl Table {
    /// Polls failed.
    pub fn failed(&mut self, polls: u64) {
        self.trailing = self.trailing.saturating_add(polls);
    }

    fn row(&mut self, with_next: bool) -> u64 {
        if self.trailing > 0 {
            self.unmatched.push((self.rows, std::mem::take(&mut self.trailing)));
        }
        if with_next {
            self.with_next.push(self.rows);
        }
        self.rows += 1;
        self.rows - 1
    }

    /// A message was received, by the request with this index (`claim`) among those that accept it.
    pub fn message(&mut self, message: Message, with_next: bool, claim: u64) {
        let row = self.row(with_next);
        self.matched.push(message);
        if claim > 0 {
            self.claims.push((row, claim));
        }
    }

    /// Adds a row that is no message.
    pub fn other(&mut self, other: Other, with_next: bool) {
        let row = self.row(with_next);
        self.others.push((row, other));
    }

    /// Removes the redundancy of a base table.
    pub fn of(rows: &[BaseRow]) -> Self {
        let mut table = Self::default();
        for row in rows {
            match row.found {
                None => table.failed(row.count),
                Some((message, with_next)) => {
                    (0..row.count).for_each(|_| table.message(message, with_next, 0));
                }
            }
        }
        table
    }

    /// How many numbers it holds.
    pub fn values(&self) -> usize {
        let Self { matched, with_next, unmatched, others, claims, .. } = self;
        2 * matched.len()
            + with_next.len()
            + 2 * (unmatched.len() + others.len() + claims.len())
            + usize::from(self.trailing > 0)
    }
}
