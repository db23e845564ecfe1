//! What a matching call has found, time after time, and what of it must be kept.
//!
//! The *base table* has a row for every event: `count`, `flag`, `with_next`, `rank`, `clock` (Sato
//! et al., §3.1, figure 4). Most of it is redundant (§3.2, figure 6). What is left are three lists:
//! the messages received, the rows that were received together with the next, and how many polls
//! failed before a row.
//!
//! The paper's rows are messages. A program also learns of other things, which are rows too here,
//! listed apart: a table without them is the paper's.

/// A message, as the one who received it knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Message {
    /// The process that sent it.
    pub sender: u32,
    /// Its stamp.
    pub clock: u64,
}

impl Message {
    /// Its place in the reference order (definition 6): by clock, then by sender.
    pub fn key(&self) -> (u64, u32) {
        (self.clock, self.sender)
    }
}

/// A row of the base table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BaseRow {
    /// How often this event came, one behind the other.
    pub count: u64,
    /// The message found, and whether the next one was found by the same call. Nothing for a
    /// poll that failed.
    pub found: Option<(Message, bool)>,
}

/// Numbers in each row of the base table.
pub const BASE_VALUES: usize = 5;

/// A row that is no message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Other {
    /// The call succeeded, and no row says more about it.
    Nothing,
    /// No request was active.
    Undefined,
    /// The receive was cancelled.
    Cancelled,
    /// A message was seen, but stays where it is: its sender, and its number among the messages
    /// of that sender.
    Probed(u32, u64),
    /// The request at this index: a send, or a receive that was known to be complete.
    Index(u32),
}

/// One call's table without its redundancy. Indices count rows from 0.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Table {
    /// How many rows there are.
    pub rows: u64,
    /// Rows that are messages, in order.
    pub matched: Vec<Message>,
    /// Rows that were found by the same call as the next.
    pub with_next: Vec<u64>,
    /// Rows before which polls failed, and how many.
    pub unmatched: Vec<(u64, u64)>,
    /// Rows that are no messages.
    pub others: Vec<(u64, Other)>,
    /// Rows whose message was not received by the first request of the call that would have
    /// taken it, but by the so manieth behind that.
    pub claims: Vec<(u64, u64)>,
    /// Polls that failed behind the last row.
    pub trailing: u64,
}

impl Table {
    /// So many polls failed.
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

    /// A message was found, by the so manieth request that would take it.
    pub fn message(&mut self, message: Message, with_next: bool, claim: u64) {
        let row = self.row(with_next);
        self.matched.push(message);
        if claim > 0 {
            self.claims.push((row, claim));
        }
    }

    /// Something else was found.
    pub fn other(&mut self, other: Other, with_next: bool) {
        let row = self.row(with_next);
        self.others.push((row, other));
    }

    /// From the rows of a base table.
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
