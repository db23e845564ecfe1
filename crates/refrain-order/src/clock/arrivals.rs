//! The messages of a replay: which have arrived, which may still arrive, and which chunk and table they belong to.

use std::collections::VecDeque;
use std::io::Cursor;

use crate::clock::chunk::{Head, Left, TableKey, Value};
use crate::clock::epoch::{Border, EpochLines, Member, Numbered};
use crate::clock::loaded::{LoadedChunk, PartCursor};
use crate::clock::read::Reader;
use crate::clock::routes::RouteMap;
use crate::turns::TurnReplayer;
use crate::{Envelope, OrderError, Stamp};
use refrain_bytes::table::Map;

/// A message to this process whose stamp has arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrived {
    /// Its stamp.
    pub stamp: Stamp,
    /// The communicator.
    pub communicator: u32,
    /// Source in the communicator, and tag.
    pub from: Envelope,
}

impl Arrived {
    fn member(&self) -> Member {
        let Stamp { sender, sequence, clock } = self.stamp;
        Member { sender, sequence, clock }
    }

    fn numbered(&self) -> Numbered {
        (self.stamp.sender, self.stamp.sequence)
    }
}

/// The state of a sender.
#[derive(Clone, Copy, Debug, Default)]
struct Sender {
    /// The sequence number of its next message.
    next: u64,
    /// A lower bound of the next message's stamp. The *local minimum clock* (Sato et al., §3.6) is the minimum over
    /// all senders.
    bound: u64,
}

/// The loaded chunks, and the messages that have arrived.
#[derive(Debug)]
pub struct Arrivals {
    record: Reader<Cursor<Vec<u8>>>,
    pub(crate) keys: Map<TableKey, u32>,
    tables: u32,
    lines: EpochLines,
    /// Chunks that are not finished, and the number of the first.
    loaded: VecDeque<LoadedChunk>,
    first: u64,
    senders: Vec<Sender>,
    /// Messages of chunks that are not loaded yet.
    ahead: Vec<Arrived>,
    /// Stamps of unreceived messages by communicator, source and tag, in sending order.
    unreceived: Map<(u32, i32, i32), VecDeque<Stamp>>,
    /// Unreceived messages by sender and sequence number.
    messages: Map<Numbered, Arrived>,
    /// Clock values and random numbers, by stream.
    pub(crate) values: Map<u32, VecDeque<Value>>,
}

/// Facts about a whole record, read before the replay starts.
#[derive(Debug)]
pub struct Survey {
    /// For each stream: how many operations it posts, and how many completing calls without a row it makes.
    pub tallies: Vec<(u64, u64)>,
    /// Whether the record reaches the end of the program.
    pub complete: bool,
    /// Requests that calls left pending because of an error.
    pub left: Vec<Left>,
    /// The turns of threads.
    pub turns: TurnReplayer,
}

impl Survey {
    /// Reads a record's heads and turns.
    pub fn of(record: &[u8]) -> Result<Self, OrderError> {
        let mut reader = Reader::new(record);
        let mut known = Head::default();
        let mut turns: Vec<Vec<u8>> = Vec::new();
        while let Some(body) = reader.next_body() {
            match Head::take(body)? {
                Some((head, _)) => known.add(&head),
                None => turns.push(body.to_vec()),
            }
        }
        let turns = TurnReplayer::new(turns.iter().map(Vec::as_slice))?;
        let Head { tallies, last: complete, left, .. } = known;
        Ok(Self { tallies, complete, left, turns })
    }
}

impl Arrivals {
    /// Without messages, for this many processes.
    pub fn new(record: Vec<u8>, processes: u32) -> Self {
        Self {
            record: Reader::new(Cursor::new(record)),
            keys: Map::default(),
            tables: 0,
            lines: EpochLines::default(),
            loaded: VecDeque::new(),
            first: 0,
            senders: vec![Sender::default(); processes as usize],
            ahead: Vec::new(),
            unreceived: Map::default(),
            messages: Map::default(),
            values: Map::default(),
        }
    }

    /// Loads the next chunk. Returns whether there was one.
    pub fn load(&mut self) -> Result<bool, OrderError> {
        let Some(chunk) = self.record.next_chunk()? else { return Ok(false) };
        for key in &chunk.keys {
            self.keys.insert(*key, self.tables);
            self.tables += 1;
        }
        for value in &chunk.values {
            self.values.entry(value.stream).or_default().push_back(*value);
        }
        let border = self.lines.next_chunk(&chunk.epoch);
        let routes = RouteMap::of(&chunk.routes);
        let mut loaded = LoadedChunk::new(border, routes, chunk.parts)?;
        self.ahead.retain(|one| {
            let belongs = loaded.border.contains(&one.member());
            if belongs {
                insert(&mut loaded, one);
            }
            !belongs
        });
        self.loaded.push_back(loaded);
        Ok(true)
    }

    /// Drops finished chunks.
    pub fn forget(&mut self) {
        while self.loaded.len() > 1 && self.loaded.front().is_some_and(LoadedChunk::is_done) {
            self.loaded.pop_front();
            self.first += 1;
        }
    }

    /// The numbers of loaded chunks: first and end.
    pub fn chunks(&self) -> (u64, u64) {
        (self.first, self.first + self.loaded.len() as u64)
    }

    /// A loaded chunk.
    pub fn chunk(&self, number: u64) -> Option<&LoadedChunk> {
        self.loaded.get(usize::try_from(number.checked_sub(self.first)?).ok()?)
    }

    /// A table's part of a chunk.
    pub fn part(&mut self, number: u64, table: u32) -> Option<&mut PartCursor> {
        let at = usize::try_from(number.checked_sub(self.first)?).ok()?;
        self.loaded.get_mut(at)?.parts.get_mut(&table)
    }

    /// The stamp of a sender's next message has arrived.
    pub fn arrive(&mut self, sender: u32, clock: u64, communicator: u32, from: Envelope) {
        let Some(state) = self.senders.get_mut(sender as usize) else { return };
        let stamp = Stamp { sender, sequence: state.next, clock };
        state.next += 1;
        state.bound = state.bound.max(clock.saturating_add(1));
        let arrived = Arrived { stamp, communicator, from };
        let name = (communicator, from.source, from.tag);
        self.unreceived.entry(name).or_default().push_back(stamp);
        self.messages.insert(arrived.numbered(), arrived);
        let member = arrived.member();
        match self.loaded.iter_mut().find(|chunk| chunk.border.contains(&member)) {
            Some(chunk) => insert(chunk, &arrived),
            None if self.lines.is_ahead(&member) => self.ahead.push(arrived),
            None => {}
        }
    }

    /// All future stamps of a sender are at least this clock.
    pub fn raise_bound(&mut self, sender: u32, clock: u64) {
        if let Some(state) = self.senders.get_mut(sender as usize) {
            state.bound = state.bound.max(clock);
        }
    }

    /// The lower bound of a sender's future stamps.
    pub fn bound(&self, sender: u32) -> u64 {
        self.senders.get(sender as usize).map_or(u64::MAX, |state| state.bound)
    }

    fn may_send_to(&self, border: &Border, sender: u32) -> bool {
        let state = self.senders.get(sender as usize);
        state.is_some_and(|state| border.may_contain_from(sender, state.next, state.bound))
    }

    /// The message at a position of the reference order, if it is certain: it and all messages before it have arrived,
    /// and no message that precedes it can still arrive (Sato et al., axiom 1).
    pub fn decide(&self, chunk: u64, table: u32, position: usize) -> Option<Arrived> {
        let candidate = self.candidate(chunk, table, position)?;
        let border = &self.chunk(chunk)?.border;
        let key = (candidate.stamp.clock, candidate.stamp.sender);
        let late =
            |sender: u32| (self.bound(sender), sender) < key && self.may_send_to(border, sender);
        if border.senders().any(late) { None } else { Some(candidate) }
    }

    /// The message that is at that position now; a message that precedes it may still arrive.
    pub fn candidate(&self, chunk: u64, table: u32, position: usize) -> Option<Arrived> {
        self.chunk(chunk)?.parts.get(&table)?.arrived.get(position).copied()
    }

    /// Laggards: senders that may still send a message of a chunk with a stamp not later than this clock.
    pub fn laggards(&self, chunk: u64, clock: u64) -> Vec<u32> {
        let Some(chunk) = self.chunk(chunk) else { return Vec::new() };
        let lags =
            |sender: &u32| self.bound(*sender) <= clock && self.may_send_to(&chunk.border, *sender);
        chunk.border.senders().filter(lags).collect()
    }

    /// Senders that may still send any message with a stamp not later than this clock.
    pub fn all_laggards(&self, clock: u64) -> Vec<u32> {
        (0..self.senders.len() as u32).filter(|sender| self.bound(*sender) <= clock).collect()
    }

    /// An unreceived message.
    pub fn message(&self, sender: u32, sequence: u64) -> Option<Arrived> {
        self.messages.get(&(sender, sequence)).copied()
    }

    /// The n-th unreceived message of a communicator, source and tag.
    pub fn nth(&self, communicator: u32, from: Envelope, nth: usize) -> Option<Arrived> {
        let stamp = self.unreceived.get(&(communicator, from.source, from.tag))?.get(nth)?;
        self.message(stamp.sender, stamp.sequence)
    }

    /// A message is received.
    pub fn receive(&mut self, arrived: &Arrived) {
        self.messages.remove(&arrived.numbered());
        let name = (arrived.communicator, arrived.from.source, arrived.from.tag);
        if let Some(queue) = self.unreceived.get_mut(&name) {
            if let Some(at) = queue.iter().position(|stamp| *stamp == arrived.stamp) {
                queue.remove(at);
            }
            if queue.is_empty() {
                self.unreceived.remove(&name);
            }
        }
    }
}

/// Inserts a message of a chunk into the reference order of its table.
fn insert(chunk: &mut LoadedChunk, arrived: &Arrived) {
    let topic = (arrived.communicator, arrived.from.tag);
    let route = chunk.routes.route(arrived.numbered(), topic);
    if let Some(part) = route.and_then(|table| chunk.parts.get_mut(&table)) {
        let key = |one: &Arrived| (one.stamp.clock, one.stamp.sender);
        let at = part.arrived.partition_point(|other| key(other) < key(arrived));
        part.arrived.insert(at, *arrived);
    }
}
