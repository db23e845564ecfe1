//! What a replay knows of messages: those that came, those that may come, and where they belong.

use std::collections::VecDeque;
use std::io::Cursor;

use crate::clock::chunk::{Head, Left, TableKey, Value};
use crate::clock::epoch::{Border, Lines, Member, Numbered};
use crate::clock::loaded::{Loaded, Playing};
use crate::clock::read::Reader;
use crate::clock::routes::RouteMap;
use crate::turns::TurnReplayer;
use crate::{Envelope, OrderError, Stamp};
use refrain_bytes::table::Map;

/// A message that was sent to this process.
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

/// What is known of a sender.
#[derive(Clone, Copy, Debug, Default)]
struct Sender {
    /// The number of its next message.
    next: u64,
    /// The least stamp that it can have: the *local minimum clock* (Sato et al., §3.6) is the
    /// least of all senders'.
    bound: u64,
}

/// See the module.
#[derive(Debug)]
pub struct Arrivals {
    record: Reader<Cursor<Vec<u8>>>,
    pub(crate) keys: Map<TableKey, u32>,
    tables: u32,
    lines: Lines,
    /// Chunks that are not done with; the first one's number.
    loaded: VecDeque<Loaded>,
    first: u64,
    senders: Vec<Sender>,
    /// Messages of chunks that are not loaded.
    ahead: Vec<Arrived>,
    /// Messages that nobody has received, by communicator, source and tag, in the order sent.
    mail: Map<(u32, i32, i32), VecDeque<Stamp>>,
    letters: Map<Numbered, Arrived>,
    /// Clock readings and the like, by stream.
    pub(crate) values: Map<u32, VecDeque<Value>>,
}

/// What can be known of a record before it is replayed.
#[derive(Debug)]
pub struct Survey {
    /// For each stream how many operations it posts, and matching calls it makes that have no row.
    pub done: Vec<(u64, u64)>,
    /// Whether the record ended in good order.
    pub complete: bool,
    /// Requests that calls left, because of an error.
    pub left: Vec<Left>,
    /// The order of threads.
    pub turns: TurnReplayer,
}

impl Survey {
    /// Of a record.
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
        let Head { done, last: complete, left, .. } = known;
        Ok(Self { done, complete, left, turns })
    }
}

impl Arrivals {
    /// Nothing has come yet, of so many processes.
    pub fn new(record: Vec<u8>, processes: u32) -> Self {
        Self {
            record: Reader::new(Cursor::new(record)),
            keys: Map::default(),
            tables: 0,
            lines: Lines::default(),
            loaded: VecDeque::new(),
            first: 0,
            senders: vec![Sender::default(); processes as usize],
            ahead: Vec::new(),
            mail: Map::default(),
            letters: Map::default(),
            values: Map::default(),
        }
    }

    /// Reads the next chunk; says whether there was one.
    pub fn load(&mut self) -> Result<bool, OrderError> {
        let Some(chunk) = self.record.next_chunk()? else { return Ok(false) };
        for key in &chunk.keys {
            self.keys.insert(*key, self.tables);
            self.tables += 1;
        }
        for value in &chunk.values {
            self.values.entry(value.stream).or_default().push_back(*value);
        }
        let border = self.lines.follow(&chunk.epoch);
        let routes = RouteMap::of(&chunk.routes);
        let mut loaded = Loaded::new(border, routes, chunk.parts)?;
        self.ahead.retain(|one| {
            let own = loaded.border.holds(&one.member());
            if own {
                place(&mut loaded, one);
            }
            !own
        });
        self.loaded.push_back(loaded);
        Ok(true)
    }

    /// Lets go of chunks that are done with.
    pub fn forget(&mut self) {
        while self.loaded.len() > 1 && self.loaded.front().is_some_and(Loaded::is_done) {
            self.loaded.pop_front();
            self.first += 1;
        }
    }

    /// The numbers of the first chunk that is not done with, and behind the last that was read.
    pub fn chunks(&self) -> (u64, u64) {
        (self.first, self.first + self.loaded.len() as u64)
    }

    /// A chunk that was read and is not done with.
    pub fn chunk(&self, number: u64) -> Option<&Loaded> {
        self.loaded.get(usize::try_from(number.checked_sub(self.first)?).ok()?)
    }

    /// A table's part of a chunk.
    pub fn playing(&mut self, number: u64, table: u32) -> Option<&mut Playing> {
        let at = usize::try_from(number.checked_sub(self.first)?).ok()?;
        self.loaded.get_mut(at)?.parts.get_mut(&table)
    }

    /// The next message of a sender was sent.
    pub fn arrive(&mut self, sender: u32, clock: u64, communicator: u32, from: Envelope) {
        let Some(own) = self.senders.get_mut(sender as usize) else { return };
        let stamp = Stamp { sender, sequence: own.next, clock };
        own.next += 1;
        own.bound = own.bound.max(clock.saturating_add(1));
        let arrived = Arrived { stamp, communicator, from };
        let name = (communicator, from.source, from.tag);
        self.mail.entry(name).or_default().push_back(stamp);
        self.letters.insert(arrived.numbered(), arrived);
        let member = arrived.member();
        match self.loaded.iter_mut().find(|chunk| chunk.border.holds(&member)) {
            Some(chunk) => place(chunk, &arrived),
            None if self.lines.is_ahead(&member) => self.ahead.push(arrived),
            None => {}
        }
    }

    /// Nothing stamped before that will come from a sender.
    pub fn promise(&mut self, sender: u32, clock: u64) {
        if let Some(own) = self.senders.get_mut(sender as usize) {
            own.bound = own.bound.max(clock);
        }
    }

    /// The least stamp of what may still come from a sender.
    pub fn bound(&self, sender: u32) -> u64 {
        self.senders.get(sender as usize).map_or(u64::MAX, |own| own.bound)
    }

    fn reaches(&self, border: &Border, sender: u32) -> bool {
        let own = self.senders.get(sender as usize);
        own.is_some_and(|own| border.reaches(sender, own.next, own.bound))
    }

    /// The message at a place of the reference order, if it is certain which one that is: it and
    /// all before it have come, and nothing can come any more that would be before it (Sato et
    /// al., axiom 1).
    pub fn decide(&self, chunk: u64, table: u32, place: usize) -> Option<Arrived> {
        let candidate = self.candidate(chunk, table, place)?;
        let border = &self.chunk(chunk)?.border;
        let key = (candidate.stamp.clock, candidate.stamp.sender);
        let late = |sender: u32| (self.bound(sender), sender) < key && self.reaches(border, sender);
        if border.senders().any(late) { None } else { Some(candidate) }
    }

    /// The message that is at that place as long as nothing comes that is before it.
    pub fn candidate(&self, chunk: u64, table: u32, place: usize) -> Option<Arrived> {
        self.chunk(chunk)?.parts.get(&table)?.arrived.get(place).copied()
    }

    /// Who may still send something of a chunk that is stamped no later than that.
    pub fn laggards(&self, chunk: u64, clock: u64) -> Vec<u32> {
        let Some(chunk) = self.chunk(chunk) else { return Vec::new() };
        let lags =
            |sender: &u32| self.bound(*sender) <= clock && self.reaches(&chunk.border, *sender);
        chunk.border.senders().filter(lags).collect()
    }

    /// Who may still send anything that is stamped no later than that.
    pub fn all_laggards(&self, clock: u64) -> Vec<u32> {
        (0..self.senders.len() as u32).filter(|sender| self.bound(*sender) <= clock).collect()
    }

    /// A message that came and that nobody has received.
    pub fn letter(&self, sender: u32, sequence: u64) -> Option<Arrived> {
        self.letters.get(&(sender, sequence)).copied()
    }

    /// Of the messages of a communicator, source and tag that nobody has received the one behind
    /// so many others.
    pub fn nth(&self, communicator: u32, from: Envelope, nth: usize) -> Option<Arrived> {
        let stamp = self.mail.get(&(communicator, from.source, from.tag))?.get(nth)?;
        self.letter(stamp.sender, stamp.sequence)
    }

    /// Somebody receives a message.
    pub fn receive(&mut self, arrived: &Arrived) {
        self.letters.remove(&arrived.numbered());
        let name = (arrived.communicator, arrived.from.source, arrived.from.tag);
        if let Some(queue) = self.mail.get_mut(&name) {
            if let Some(at) = queue.iter().position(|stamp| *stamp == arrived.stamp) {
                queue.remove(at);
            }
            if queue.is_empty() {
                self.mail.remove(&name);
            }
        }
    }
}

/// Puts a message of a chunk in its place.
fn place(chunk: &mut Loaded, arrived: &Arrived) {
    let topic = (arrived.communicator, arrived.from.tag);
    let route = chunk.routes.route(arrived.numbered(), topic);
    if let Some(part) = route.and_then(|table| chunk.parts.get_mut(&table)) {
        let key = |one: &Arrived| (one.stamp.clock, one.stamp.sender);
        let at = part.arrived.partition_point(|other| key(other) < key(arrived));
        part.arrived.insert(at, *arrived);
    }
}
