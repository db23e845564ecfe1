//! Events become chunks.

use crate::chunk::Chunk;
use crate::epoch::{Member, Ruler};
use crate::event::{Done, Event, Sink};
use crate::part::Part;
use crate::routes::{Routed, Routes};
use crate::table::{Message, Table};
use refrain_order::turns::TurnRecorder;

/// A chunk is sealed at so many messages and rows.
const FULL: usize = 1 << 14;

/// Encodes one process's events, in order.
#[derive(Debug, Default)]
pub struct Encoder {
    /// What of the chunk needs no encoding.
    open: Chunk,
    /// By number; most are empty.
    tables: Vec<Table>,
    members: Vec<Member>,
    routed: Vec<Routed>,
    ruler: Ruler,
    turns: TurnRecorder,
    /// What weighs in this chunk.
    weight: usize,
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

    fn table(&mut self, table: u32) -> &mut Table {
        let at = table as usize;
        if self.tables.len() <= at {
            self.tables.resize_with(at + 1, Table::default);
        }
        &mut self.tables[at]
    }

    fn done(&mut self, stream: u32, done: Done) {
        let at = stream as usize;
        if self.open.done.len() <= at {
            self.open.done.resize(at + 1, (0, 0));
        }
        let (posts, calls) = &mut self.open.done[at];
        *posts += u64::from(done.posts);
        *calls += u64::from(done.calls);
    }

    fn seal(&mut self, last: bool) {
        let before = self.sealed.len();
        self.turns.seal(last, &mut self.sealed);
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
        self.open.last = last;
        self.open.epoch = self.ruler.draw(self.members.drain(..));
        self.open.routes = Routes::of(&self.routed);
        self.routed.clear();
        if last || !self.open.is_empty() {
            self.open.put(&mut self.sealed);
            let number = self.open.number + 1;
            let done = vec![(0, 0); self.open.done.len()];
            self.open = Chunk { number, done, ..Chunk::default() };
            self.statistics.chunks += 1;
        }
        self.weight = 0;
        self.statistics.bytes += (self.sealed.len() - before) as u64;
    }
}

impl Sink for Encoder {
    fn put(&mut self, event: Event) {
        match event {
            Event::Table(key) => self.open.keys.push(key),
            Event::Failed { table, polls } => self.table(table).failed(polls),
            Event::Message { stream, done, table, stamp, topic, with_next, claim } => {
                self.done(stream, done);
                let refrain_order::Stamp { sender, sequence, clock } = stamp;
                self.members.push(Member { sender, sequence, clock });
                self.routed.push(Routed { message: (sender, sequence), topic, route: table });
                if let Some(table) = table {
                    let message = Message { sender, clock };
                    self.table(table).message(message, with_next, claim.into());
                }
                self.weight += 1;
                self.within = with_next;
            }
            Event::Other { table, other, with_next } => {
                self.table(table).other(other, with_next);
                self.weight += 1;
                self.within = with_next;
            }
            Event::Value(value) => {
                self.open.values.push(value);
                self.weight += 1;
            }
            Event::Turn { stream, key, times } => {
                (0..times).for_each(|_| self.turns.took(stream, key));
            }
            Event::Done { stream, done } => self.done(stream, done),
            Event::Seal { last } => self.seal(last),
        }
        if (self.weight >= FULL || self.turns.weight() >= FULL) && !self.within {
            self.seal(false);
        }
    }

    fn is_full(&self) -> bool {
        !self.sealed.is_empty()
    }

    fn drain(&mut self, out: &mut Vec<u8>) {
        out.append(&mut self.sealed);
    }
}
