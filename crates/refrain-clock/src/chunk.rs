//! Chunks as bytes.
//!
//! A record is a sequence of frames as in [`refrain_order::codec`]: length, body, checksum. What
//! a killed process leaves behind ends in half a frame at most. Bodies begin with a tag:
//!
//! ```text
//! 2   turns of threads   see refrain_order::turns
//! 16  a chunk            number, flags, for each stream how many operations were posted,
//!                        and how many calls made that have no row;
//!                        then, in gzip:
//!                        tables that are new: stream, kind, site
//!                        tables: number, rows, moves, with_next, unmatched, claims, others
//!                        epoch: lines, holes, late
//!                        routes: the usual one, topics, single messages
//!                        values: stream, which, bits
//! ```
//!
//! Numbers are LEB128; columns of rising ones are the errors of their linear prediction (Sato et
//! al., §3.4), lists are written column by column, so that gzip finds like beside like.

use refrain_order::codec::put_frame;
use refrain_order::varint::{put, take_byte, unzigzag, zigzag};
use refrain_order::{Kind, OrderError};

use crate::bytes::{self, Input};
use crate::epoch::{Epoch, Line, Numbered};
use crate::part::Part;
use crate::routes::{Route, Routes, Topic};

const CHUNK: u8 = 16;
const LAST: u64 = 1;
/// Rows of all tables of a chunk, together. Recorders seal sooner.
pub const MOST_ROWS: u64 = 1 << 24;

/// What a table belongs to: a matching call by thread, kind and call stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TableKey {
    /// The thread.
    pub stream: u32,
    /// What it is.
    pub kind: Kind,
    /// Where in the program: a hash of the stack.
    pub site: u64,
}

/// A clock reading or a random number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Value {
    /// The thread.
    pub stream: u32,
    /// Which source of values.
    pub which: u8,
    /// Its bits.
    pub bits: u64,
}

/// A stretch of a process's record.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Chunk {
    /// The how manieth.
    pub number: u64,
    /// Whether the record ended here in good order.
    pub last: bool,
    /// For each stream how many operations were posted, and how many matching calls were made that
    /// have no row.
    pub done: Vec<(u64, u64)>,
    /// Tables that are new; they are numbered through the record.
    pub keys: Vec<TableKey>,
    /// Tables with something in this chunk, by rising number.
    pub parts: Vec<(u32, Part)>,
    /// Which messages belong to it.
    pub epoch: Epoch,
    /// Which tables they belong to.
    pub routes: Routes,
    /// In order.
    pub values: Vec<Value>,
}

fn route_number(route: Route) -> u64 {
    route.map_or(0, |table| u64::from(table) + 1)
}

fn take_route(input: &mut Input<'_>) -> Result<Route, OrderError> {
    let number = input.number()?.checked_sub(1);
    number.map(u32::try_from).transpose().map_err(|_| OrderError::OutOfRange("table"))
}

fn put_numbered(out: &mut Vec<u8>, messages: impl ExactSizeIterator<Item = Numbered> + Clone) {
    bytes::put_rising(out, messages.clone().map(|(sender, _)| u64::from(sender)));
    // Those of one sender follow each other.
    crate::predict::errors(messages.map(|(_, sequence)| sequence))
        .for_each(|error| put(out, zigzag(error)));
}

fn take_numbered(input: &mut Input<'_>) -> Result<Vec<Numbered>, OrderError> {
    let senders = input.rising()?;
    let mut line = crate::predict::Line::default();
    let numbered = senders.into_iter().map(|sender| {
        let sender = u32::try_from(sender).map_err(|_| OrderError::OutOfRange("sender"))?;
        Ok((sender, line.next(input.signed()?)))
    });
    numbered.collect()
}

impl Chunk {
    /// Whether nothing is in it.
    pub fn is_empty(&self) -> bool {
        self.parts.is_empty()
            && self.epoch == Epoch::default()
            && self.values.is_empty()
            && self.done.iter().all(|done| *done == (0, 0))
    }

    /// Appends it as a frame.
    pub fn put(&self, out: &mut Vec<u8>) {
        let mut body = vec![CHUNK];
        put(&mut body, self.number);
        put(&mut body, if self.last { LAST } else { 0 });
        put(&mut body, self.done.len() as u64);
        for (posts, calls) in &self.done {
            put(&mut body, *posts);
            put(&mut body, *calls);
        }
        let mut inner = Vec::new();
        self.put_keys(&mut inner);
        bytes::put_rising(&mut inner, self.parts.iter().map(|(table, _)| u64::from(*table)));
        self.parts.iter().for_each(|(_, part)| part.put(&mut inner));
        self.put_epoch(&mut inner);
        self.put_routes(&mut inner);
        put(&mut inner, self.values.len() as u64);
        for Value { stream, which, bits } in &self.values {
            put(&mut inner, u64::from(*stream) << 8 | u64::from(*which));
            inner.extend_from_slice(&bits.to_be_bytes());
        }
        bytes::zip(&mut body, &inner);
        put_frame(out, &body);
    }

    fn put_keys(&self, out: &mut Vec<u8>) {
        put(out, self.keys.len() as u64);
        for TableKey { stream, kind, site } in &self.keys {
            put(out, u64::from(*stream));
            out.push(*kind as u8);
            out.extend_from_slice(&site.to_le_bytes());
        }
    }

    fn put_epoch(&self, out: &mut Vec<u8>) {
        let Epoch { lines, holes, late } = &self.epoch;
        bytes::put_rising(out, lines.iter().map(|line| u64::from(line.sender)));
        bytes::put_rising(out, lines.iter().map(|line| line.clock));
        put_numbered(out, holes.iter().copied());
        put_numbered(out, late.iter().copied());
    }

    fn put_routes(&self, out: &mut Vec<u8>) {
        let Routes { usual, topics, single } = &self.routes;
        put(out, route_number(*usual));
        put(out, topics.len() as u64);
        for ((communicator, tag), route) in topics {
            put(out, u64::from(*communicator));
            put(out, zigzag(i64::from(*tag)));
            put(out, route_number(*route));
        }
        put_numbered(out, single.iter().map(|(message, _)| *message));
        single.iter().for_each(|(_, route)| put(out, route_number(*route)));
    }

    /// Reads a frame's body; nothing if that is no chunk. Of `tables` so many are known.
    pub fn take(body: &[u8]) -> Result<Option<Self>, OrderError> {
        let Some((mut chunk, zipped)) = Self::take_head(body)? else { return Ok(None) };
        let inner = bytes::unzip(zipped)?;
        let mut input = Input(&inner);
        chunk.keys = input.list(take_key)?;
        let tables = input.rising()?;
        let mut rows = 0u64;
        for table in tables {
            let table = u32::try_from(table).map_err(|_| OrderError::OutOfRange("table"))?;
            let part = Part::take(&mut input)?;
            rows = rows.saturating_add(part.rows);
            if rows > MOST_ROWS {
                return Err(OrderError::OutOfRange("number of rows"));
            }
            if chunk.parts.last().is_some_and(|(last, _)| *last >= table) {
                return Err(OrderError::OutOfRange("table"));
            }
            chunk.parts.push((table, part));
        }
        chunk.epoch = take_epoch(&mut input)?;
        chunk.routes = take_routes(&mut input)?;
        chunk.values = input.list(take_value)?;
        if input.0.is_empty() { Ok(Some(chunk)) } else { Err(OrderError::OutOfRange("size")) }
    }

    /// Reads what can be read without gzip, and leaves the rest.
    pub fn take_head(mut body: &[u8]) -> Result<Option<(Self, &[u8])>, OrderError> {
        match take_byte(&mut body)? {
            CHUNK => {}
            // Turns of threads.
            2 => return Ok(None),
            _ => return Err(OrderError::Unknown("frame")),
        }
        let mut input = Input(body);
        let number = input.number()?;
        let last = input.number()? & LAST != 0;
        let done = input.list(|input| Ok((input.number()?, input.number()?)))?;
        Ok(Some((Self { number, last, done, ..Self::default() }, input.0)))
    }
}

fn take_key(input: &mut Input<'_>) -> Result<TableKey, OrderError> {
    let stream = input.narrow("stream")?;
    let kind = Kind::from_number(take_byte(&mut input.0)?)?;
    Ok(TableKey { stream, kind, site: u64::from_le_bytes(take_eight(input)?) })
}

fn take_eight(input: &mut Input<'_>) -> Result<[u8; 8], OrderError> {
    let (eight, rest) = input.0.split_first_chunk().ok_or(OrderError::Truncated)?;
    input.0 = rest;
    Ok(*eight)
}

fn take_epoch(input: &mut Input<'_>) -> Result<Epoch, OrderError> {
    let senders = input.rising()?;
    let clocks = input.rising()?;
    if senders.len() != clocks.len() {
        return Err(OrderError::OutOfRange("number of lines"));
    }
    let lines = senders.into_iter().zip(clocks).map(|(sender, clock)| {
        let sender = u32::try_from(sender).map_err(|_| OrderError::OutOfRange("sender"))?;
        Ok(Line { sender, clock })
    });
    let lines = lines.collect::<Result<_, OrderError>>()?;
    Ok(Epoch { lines, holes: take_numbered(input)?, late: take_numbered(input)? })
}

fn take_routes(input: &mut Input<'_>) -> Result<Routes, OrderError> {
    let usual = take_route(input)?;
    let topics = input.list(|input| {
        let communicator = input.narrow("communicator")?;
        let tag = unzigzag(input.number()?);
        let tag = i32::try_from(tag).map_err(|_| OrderError::OutOfRange("tag"))?;
        let topic: Topic = (communicator, tag);
        Ok((topic, take_route(input)?))
    })?;
    let single = take_numbered(input)?;
    let single = single.into_iter().map(|message| Ok((message, take_route(input)?)));
    Ok(Routes { usual, topics, single: single.collect::<Result<_, OrderError>>()? })
}

fn take_value(input: &mut Input<'_>) -> Result<Value, OrderError> {
    let head = input.number()?;
    let stream = u32::try_from(head >> 8).map_err(|_| OrderError::OutOfRange("stream"))?;
    Ok(Value { stream, which: head as u8, bits: u64::from_be_bytes(take_eight(input)?) })
}
