//! Events become chunks, and chunks frames.
//!
//! How far messages were moved, and so how much has to be written of each, grows with the length of
//! chunks if senders are ahead or behind of each other all the time; where messages come in order, a
//! chunk costs its epoch lines. So a chunk ends early if much was moved in it. It is written with
//! those behind it, in one frame: columns are the smaller the longer they are.

use std::collections::BTreeSet;

use crate::clock::chunk::{Chunk, Head, put_chunks};
use crate::clock::epoch::{Member, Ruler};
use crate::clock::event::{Done, Event, Sink};
use crate::clock::part::{Part, places};
use crate::clock::permutation::moves;
use crate::clock::routes::{Routed, Routes};
use crate::clock::table::{Message, Table};
use crate::turns::TurnRecorder;

/// A frame is written at so many messages and rows.
const FULL: usize = 1 << 14;
/// At so many, and twice as many, and so on, it is looked whether a chunk had better end.
const EARLY: usize = 1 << 9;
/// It had if so many messages were moved for each sender: an epoch line takes a few bytes, and of
/// each message moved a bit or two are saved.
const MOVED: usize = 16;

/// Encodes one process's events, in order.
#[derive(Debug, Default)]
pub struct Encoder {
    /// What of the chunk needs no encoding.
    open: Chunk,
    /// Chunks of the frame, and what it tells of them.
    chunks: Vec<Chunk>,
    head: Head,
    /// By number; most are empty.
    tables: Vec<Table>,
    members: Vec<Member>,
    routed: Vec<Routed>,
    ruler: Ruler,
    turns: TurnRecorder,
    /// What weighs in this frame, and in this chunk.
    weight: usize,
    own: usize,
    /// Where it is looked next whether the chunk had better end, if not yet.
    look: Option<usize>,
    /// A call's rows are not all here yet.
    within: bool,
    sealed: Vec<u8>,
    statistics: Statistics,
}

/// What was encoded so far.
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
    /// What was encoded so far.
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
    fn done(&mut self, stream: u32, done: Done) {
        let at = stream as usize;
        if self.head.done.len() <= at {
            self.head.done.resize(at + 1, (0, 0));
        }
        let (posts, calls) = &mut self.head.done[at];
        *posts += u64::from(done.posts);
        *calls += u64::from(done.calls);
    }

    fn weighs(&mut self, within: bool) {
        self.weight += 1;
        self.own += 1;
        self.within = within;
    }

    /// Whether the chunk had better end.
    fn is_disordered(&self) -> bool {
        let senders: BTreeSet<u32> = self.members.iter().map(|member| member.sender).collect();
        let moved = self.tables.iter().map(|table| moves(&places(&table.matched)).len());
        moved.sum::<usize>() > MOVED * senders.len()
    }

    /// The chunk ends.
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
        self.open.epoch = self.ruler.draw(self.members.drain(..));
        self.open.routes = Routes::of(&self.routed);
        self.routed.clear();
        if !self.open.is_empty() {
            self.chunks.push(std::mem::take(&mut self.open));
        }
        (self.own, self.look) = (0, None);
    }

    fn seal(&mut self, last: bool) {
        let before = self.sealed.len();
        self.turns.seal(last, &mut self.sealed);
        self.close();
        self.head.last = last;
        let is_done = self.head.done.iter().any(|done| *done != (0, 0));
        if last || is_done || !self.head.left.is_empty() || !self.chunks.is_empty() {
            put_chunks(&self.head, &self.chunks, &mut self.sealed);
            self.statistics.chunks += self.chunks.len() as u64;
            self.head.number += self.chunks.len() as u64;
            self.head.done.iter_mut().for_each(|done| *done = (0, 0));
            self.head.left.clear();
            self.chunks.clear();
        }
        self.weight = 0;
        self.statistics.bytes += (self.sealed.len() - before) as u64;
    }

    /// Ends the chunk, or the frame, if that is long enough.
    fn end_in_time(&mut self) {
        if self.within {
            return;
        }
        if self.weight >= FULL || self.turns.weight() >= FULL {
            self.seal(false);
        } else if self.own >= self.look.unwrap_or(EARLY) {
            if self.is_disordered() {
                self.close();
            } else {
                self.look = Some(2 * self.own);
            }
        }
    }
}

impl Sink for Encoder {
    fn put(&mut self, event: Event) {
        match event {
            Event::Table(key) => self.open.keys.push(key),
            Event::Failed { table, polls } => self.table(table).failed(polls),
            Event::Message { stream, done, table, stamp, topic, with_next, claim } => {
                self.done(stream, done);
                let crate::Stamp { sender, sequence, clock } = stamp;
                self.members.push(Member { sender, sequence, clock });
                self.routed.push(Routed { message: (sender, sequence), topic, route: table });
                if let Some(table) = table {
                    let message = Message { sender, clock };
                    self.table(table).message(message, with_next, claim.into());
                }
                self.weighs(with_next);
            }
            Event::Other { table, other, with_next } => {
                self.table(table).other(other, with_next);
                self.weighs(with_next);
            }
            Event::Value(value) => {
                self.open.values.push(value);
                self.weight += 1;
                self.own += 1;
            }
            Event::Turn { stream, key, times } => {
                (0..times).for_each(|_| self.turns.took(stream, key));
            }
            Event::Done { stream, done } => self.done(stream, done),
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
