//! Encodes events as chunks, and chunks as frames.
//!
//! If senders run ahead of each other all the time, messages move the farther the longer the chunk is, and each move
//! takes more bytes. If messages arrive in clock order, a chunk costs only its epoch lines. So a chunk ends early if
//! many messages moved in it. Several chunks share a frame, because long columns compress better.

use std::collections::BTreeSet;

use crate::clock::chunk::{Chunk, Head, put_chunks};
use crate::clock::epoch::{EpochBuilder, Member};
use crate::clock::event::{Event, Sink, Tally};
use crate::clock::part::{Part, positions};
use crate::clock::permutation::moves;
use crate::clock::routes::{Routed, Routes};
use crate::clock::table::{Message, Table};
use crate::turns::TurnRecorder;

/// A frame is written at this many rows and values.
const FULL: usize = 1 << 14;
/// After this many rows and values, and each time their number has doubled, it is checked whether the chunk should
/// end.
const EARLY: usize = 1 << 9;
/// A chunk ends if more messages than this moved per sender: an epoch line takes a few bytes, and a shorter chunk
/// saves a bit or two per moved message.
const MOVED: usize = 16;

/// Encodes one process's events, in order.
#[derive(Debug, Default)]
pub struct Encoder {
    /// The current chunk, without its tables.
    open: Chunk,
    /// Finished chunks of the frame, and its head.
    chunks: Vec<Chunk>,
    head: Head,
    /// The tables of the current chunk by number; most are empty.
    tables: Vec<Table>,
    members: Vec<Member>,
    routed: Vec<Routed>,
    epochs: EpochBuilder,
    turns: TurnRecorder,
    /// Rows and values in this frame, and in this chunk.
    weight: usize,
    chunk_weight: usize,
    /// The weight at which it is checked next whether the chunk should end.
    next_check: Option<usize>,
    /// The rows of a call are not complete yet.
    within: bool,
    sealed: Vec<u8>,
    statistics: Statistics,
}

/// Counts of what was encoded so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Statistics {
    /// Messages in tables.
    pub messages: u64,
    /// Those that were not received in the order of their clocks (Sato et al., figure 14).
    pub moved: u64,
    /// Messages in no table.
    pub certain: u64,
    /// Chunks.
    pub chunks: u64,
    /// Bytes.
    pub bytes: u64,
}

impl Encoder {
    /// Counts of what was encoded so far.
    pub fn statistics(&self) -> Statistics {
        self.statistics
    }

    #[expect(clippy::indexing_slicing, reason = "made as long as that just before")]
    fn table(&mut self, table: u32) -> &mut Table {
        let at = table as usize;
        if self.tables.len() <= at {
            self.tables.resize_with(at + 1, Table::default);
        }
        &mut self.tables[at]
    }

    #[expect(clippy::indexing_slicing, reason = "made as long as that just before")]
    fn add_tally(&mut self, stream: u32, tally: Tally) {
        let at = stream as usize;
        if self.head.tallies.len() <= at {
            self.head.tallies.resize(at + 1, (0, 0));
        }
        let (posts, calls) = &mut self.head.tallies[at];
        *posts += u64::from(tally.posts);
        *calls += u64::from(tally.calls);
    }

    fn add_weight(&mut self, within: bool) {
        self.weight += 1;
        self.chunk_weight += 1;
        self.within = within;
    }

    /// Whether so many messages moved that the chunk should end.
    fn is_disordered(&self) -> bool {
        let senders: BTreeSet<u32> = self.members.iter().map(|member| member.sender).collect();
        let moved = self.tables.iter().map(|table| moves(&positions(&table.matched)).len());
        moved.sum::<usize>() > MOVED * senders.len()
    }

    /// Ends the chunk.
    fn close(&mut self) {
        for (number, table) in (0..).zip(&mut self.tables) {
            let part = Part::of(table);
            if !part.is_empty() {
                self.statistics.messages += part.messages() as u64;
                self.statistics.moved += part.moves.len() as u64;
                self.open.parts.push((number, part));
                *table = Table::default();
            }
        }
        self.statistics.certain +=
            self.routed.iter().filter(|one| one.route.is_none()).count() as u64;
        self.open.epoch = self.epochs.build(self.members.drain(..));
        self.open.routes = Routes::of(&self.routed);
        self.routed.clear();
        if !self.open.is_empty() {
            self.chunks.push(std::mem::take(&mut self.open));
        }
        (self.chunk_weight, self.next_check) = (0, None);
    }

    fn seal(&mut self, last: bool) {
        let before = self.sealed.len();
        self.turns.seal(last, &mut self.sealed);
        self.close();
        self.head.last = last;
        let has_tally = self.head.tallies.iter().any(|tally| *tally != (0, 0));
        if last || has_tally || !self.head.left.is_empty() || !self.chunks.is_empty() {
            put_chunks(&self.head, &self.chunks, &mut self.sealed);
            self.statistics.chunks += self.chunks.len() as u64;
            self.head.number += self.chunks.len() as u64;
            self.head.tallies.iter_mut().for_each(|tally| *tally = (0, 0));
            self.head.left.clear();
            self.chunks.clear();
        }
        self.weight = 0;
        self.statistics.bytes += (self.sealed.len() - before) as u64;
    }

    /// Ends the chunk or the frame, if it is long enough.
    fn end_in_time(&mut self) {
        if self.within {
            return;
        }
        if self.weight >= FULL || self.turns.weight() >= FULL {
            self.seal(false);
        } else if self.chunk_weight >= self.next_check.unwrap_or(EARLY) {
            if self.is_disordered() {
                self.close();
            } else {
                self.next_check = Some(2 * self.chunk_weight);
            }
        }
    }
}

impl Sink for Encoder {
    fn put(&mut self, event: Event) {
        match event {
            Event::Table(key) => self.open.keys.push(key),
            Event::Failed { table, polls } => self.table(table).failed(polls),
            Event::Message { stream, tally, table, stamp, topic, with_next, claim } => {
                self.add_tally(stream, tally);
                let crate::Stamp { sender, sequence, clock } = stamp;
                self.members.push(Member { sender, sequence, clock });
                self.routed.push(Routed { message: (sender, sequence), topic, route: table });
                if let Some(table) = table {
                    let message = Message { sender, clock };
                    self.table(table).message(message, with_next, claim.into());
                }
                self.add_weight(with_next);
            }
            Event::Other { table, other, with_next } => {
                self.table(table).other(other, with_next);
                self.add_weight(with_next);
            }
            Event::Value(value) => {
                self.open.values.push(value);
                self.weight += 1;
                self.chunk_weight += 1;
            }
            Event::Turn { stream, key, times } => {
                (0..times).for_each(|_| self.turns.took(stream, key));
            }
            Event::Tally { stream, tally } => self.add_tally(stream, tally),
            Event::Left(left) => self.head.left.push(left),
            Event::Seal { last } => self.seal(last),
        }
        self.end_in_time();
    }

    fn is_full(&self) -> bool {
        !self.sealed.is_empty()
    }

    fn drain(&mut self, out: &mut Vec<u8>) {
        out.append(&mut self.sealed);
    }
}
