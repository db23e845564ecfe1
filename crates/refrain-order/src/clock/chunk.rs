//! Chunks as bytes.
//!
//! A record is a sequence of frames ([`crate::frame`]): length, body, checksum. The record of a killed process may
//! end in an incomplete frame. A frame holds chunks that were written at the same time. A body begins with a tag:
//!
//! ```text
//! 2   turns of threads   see crate::turns
//! 18  chunks             the number of the first, flags; for each stream the number of posted
//!                        operations and of calls without a row;
//!                        requests that calls left pending because of an error: stream, call, index;
//!                        values of clocks and random numbers: number of bytes, coded bytes;
//!                        then columns, compressed by DEFLATE: see `Column`. Each chunk has
//!                        new tables: stream, kind, site
//!                        tables: number, rows, moves, with_next, unmatched, claims, others
//!                        epoch: lines, holes, late
//!                        routes: the usual one, topics, single messages
//!                        the number of its values
//! 17  an older layout: values are in the columns, as stream, which, bits
//! ```
//!
//! Numbers are LEB128. A column of rising numbers holds the errors of their linear prediction (Sato et al., §3.4), or
//! a bit per possible number if the set is dense. A sender's epoch line is relative to its line in the previous
//! chunk of the same frame.

use std::collections::BTreeMap;

use crate::coding::coder::{Coder, Decoder, Encoder};
use crate::coding::number::Number;
use crate::coding::value::ValueModel;
use crate::frame::put_frame;
use crate::{Kind, OrderError};
use refrain_bytes::varint::{put, put_bytes, take_byte, take_bytes, unzigzag, zigzag};

use crate::clock::bytes::{self, Column, Columns, Input, Inputs};
use crate::clock::epoch::{Epoch, Line, Numbered};
use crate::clock::part::Part;
use crate::clock::routes::{Route, Routes, Topic};

/// Tag of frames with uncoded values in the columns.
const CHUNKS_WITH_VALUES: u8 = 17;
/// Tag of frames with coded values beside the columns.
const CHUNKS: u8 = 18;
const LAST: u64 = 1;
/// The most rows of all tables of a frame. Recorders stay far below.
pub const MOST_ROWS: u64 = 1 << 24;
/// The most values of a frame. Recorders stay far below.
const MOST_VALUES: u64 = 1 << 20;

/// The key of a table: a completing call by thread, kind and call stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TableKey {
    /// The thread.
    pub stream: u32,
    /// The kind of call.
    pub kind: Kind,
    /// The call site: a hash of the stack.
    pub site: u64,
}

/// A clock value or a random number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Value {
    /// The thread.
    pub stream: u32,
    /// The source of the value, see [`crate::source`].
    pub which: u8,
    /// Its bits.
    pub bits: u64,
}

/// A stretch of a process's record.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Chunk {
    /// New tables; tables are numbered throughout the record.
    pub keys: Vec<TableKey>,
    /// Tables with rows or failed polls in this chunk, by rising number.
    pub parts: Vec<(u32, Part)>,
    /// Which messages belong to it.
    pub epoch: Epoch,
    /// Which tables they belong to.
    pub routes: Routes,
    /// Values, in the order they were read.
    pub values: Vec<Value>,
}

/// The uncompressed head of a frame with chunks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Head {
    /// The number of the first chunk in the record.
    pub number: u64,
    /// Whether the record is complete with this frame.
    pub last: bool,
    /// For each stream: the number of posted operations, and of completing calls without a row.
    pub tallies: Vec<(u64, u64)>,
    /// Requests that were left pending because of an error, by calls that complete all of their requests.
    pub left: Vec<Left>,
}

/// A request that was left pending because of an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Left {
    /// The thread.
    pub stream: u32,
    /// The number of the call among the thread's successful completing calls.
    pub call: u64,
    /// The request's index.
    pub index: u32,
}

/// The last epoch line of each sender in a frame.
type Before = BTreeMap<u32, u64>;

fn route_number(route: Route) -> u64 {
    route.map_or(0, |table| u64::from(table) + 1)
}

fn take_route(input: &mut Input<'_>) -> Result<Route, OrderError> {
    let number = input.number()?.checked_sub(1);
    number.map(u32::try_from).transpose().map_err(|_| OrderError::OutOfRange("table"))
}

fn put_numbered(out: &mut Columns, messages: impl ExactSizeIterator<Item = Numbered> + Clone) {
    out.put_rising(Column::Shape, messages.clone().map(|(sender, _)| u64::from(sender)));
    // The messages of one sender follow each other.
    crate::clock::predict::errors(messages.map(|(_, sequence)| sequence))
        .for_each(|error| out.put(Column::Shape, zigzag(error)));
}

fn take_numbered(input: &mut Inputs<'_>) -> Result<Vec<Numbered>, OrderError> {
    let senders = input.rising(Column::Shape)?;
    let mut line = crate::clock::predict::Line::default();
    let numbered = senders.into_iter().map(|sender| {
        let sender = u32::try_from(sender).map_err(|_| OrderError::OutOfRange("sender"))?;
        Ok((sender, line.next(input.shape().signed()?)))
    });
    numbered.collect()
}

/// Appends chunks as a frame.
pub fn put_chunks(head: &Head, chunks: &[Chunk], out: &mut Vec<u8>) {
    let mut body = vec![CHUNKS];
    put(&mut body, head.number);
    put(&mut body, if head.last { LAST } else { 0 });
    put(&mut body, head.tallies.len() as u64);
    for (posts, calls) in &head.tallies {
        put(&mut body, *posts);
        put(&mut body, *calls);
    }
    put(&mut body, head.left.len() as u64);
    for Left { stream, call, index } in &head.left {
        for number in [u64::from(*stream), *call, u64::from(*index)] {
            put(&mut body, number);
        }
    }
    put_bytes(&mut body, &coded_values(chunks));
    let mut columns = Columns::default();
    let mut before = Before::new();
    columns.put(Column::Shape, chunks.len() as u64);
    chunks.iter().for_each(|chunk| chunk.put(&mut columns, &mut before));
    columns.zip(&mut body);
    put_frame(out, &body);
}

/// Codes the values of a frame's chunks, with a model per thread.
fn coded_values(chunks: &[Chunk]) -> Vec<u8> {
    let (mut encoder, mut models) = (Encoder::default(), Models::default());
    for Value { stream, which, bits } in chunks.iter().flat_map(|chunk| &chunk.values) {
        // Encoding cannot fail.
        let _ = models.code(&mut encoder, *stream, (*which, *bits));
    }
    encoder.finish()
}

/// The most models. Streams share models beyond that, since damaged bytes may name any stream.
const MODELS: u32 = 64;

/// Models of the values of a frame.
#[derive(Default)]
struct Models {
    stream: Number,
    by_stream: BTreeMap<u32, ValueModel>,
}

impl Models {
    fn code(
        &mut self,
        coder: &mut impl Coder,
        stream: u32,
        value: (u8, u64),
    ) -> Result<Value, OrderError> {
        let stream = self.stream.code(coder, stream.into());
        let stream = u32::try_from(stream).map_err(|_| OrderError::OutOfRange("stream"))?;
        let (which, bits) =
            self.by_stream.entry(stream % MODELS).or_default().code(coder, value)?;
        Ok(Value { stream, which, bits })
    }
}

/// Reads the values of a frame.
enum Values<'a> {
    /// They are in the columns.
    InColumns,
    /// They are coded; the number is how many may follow at most.
    Coded(Decoder<'a>, Box<Models>, u64),
}

impl Values<'_> {
    fn take(&mut self, input: &mut Inputs<'_>) -> Result<Vec<Value>, OrderError> {
        let Values::Coded(decoder, models, left) = self else {
            return input.shape().list(take_value);
        };
        let count = input.shape().number()?;
        *left = left.checked_sub(count).ok_or(OrderError::OutOfRange("values"))?;
        (0..count).map(|_| models.code(decoder, 0, (0, 0))).collect()
    }
}

/// Reads a frame's body; `None` if it does not hold chunks.
pub fn take_chunks(body: &[u8]) -> Result<Option<(Head, Vec<Chunk>)>, OrderError> {
    let Some((head, zipped)) = Head::take(body)? else { return Ok(None) };
    let (coded, zipped) = match body.first() {
        Some(&CHUNKS_WITH_VALUES) => (None, zipped),
        _ => {
            let mut rest = zipped;
            (Some(take_bytes(&mut rest)?), rest)
        }
    };
    let mut values = match coded {
        Some(coded) => Values::Coded(Decoder::new(coded), Box::default(), MOST_VALUES),
        None => Values::InColumns,
    };
    let inner = bytes::unzip(zipped)?;
    let mut input = Inputs::of(&inner)?;
    let (mut before, mut rows) = (Before::new(), 0);
    let mut chunks = Vec::new();
    for _ in 0..input.length(Column::Shape)? {
        chunks.push(Chunk::take(&mut input, &mut before, &mut rows, &mut values)?);
    }
    if input.is_empty() { Ok(Some((head, chunks))) } else { Err(OrderError::OutOfRange("size")) }
}

/// How many bytes of a frame hold values; `None` if they are in the columns.
pub fn value_bytes(body: &[u8]) -> Result<Option<u64>, OrderError> {
    match Head::take(body)? {
        Some((_, mut rest)) if body.first() == Some(&CHUNKS) => {
            Ok(Some(take_bytes(&mut rest)?.len() as u64))
        }
        _ => Ok(None),
    }
}

impl Head {
    /// Reads the head of a body, and returns the rest too; `None` if the frame does not hold chunks.
    pub fn take(mut body: &[u8]) -> Result<Option<(Self, &[u8])>, OrderError> {
        match take_byte(&mut body)? {
            CHUNKS | CHUNKS_WITH_VALUES => {}
            // Turns of threads.
            2 => return Ok(None),
            _ => return Err(OrderError::Unknown("frame")),
        }
        let mut input = Input(body);
        let number = input.number()?;
        let last = input.number()? & LAST != 0;
        let tallies = input.list(|input| Ok((input.number()?, input.number()?)))?;
        let left = input.list(|input| {
            let (stream, call) = (input.narrow("stream")?, input.number()?);
            Ok(Left { stream, call, index: input.narrow("index")? })
        })?;
        Ok(Some((Self { number, last, tallies, left }, input.0)))
    }
}

impl Head {
    /// Adds the head of the next frame.
    pub fn add(&mut self, other: &Head) {
        self.last = other.last;
        if self.tallies.len() < other.tallies.len() {
            self.tallies.resize(other.tallies.len(), (0, 0));
        }
        for (sum, one) in self.tallies.iter_mut().zip(&other.tallies) {
            *sum = (sum.0.saturating_add(one.0), sum.1.saturating_add(one.1));
        }
        self.left.extend_from_slice(&other.left);
    }
}

impl Chunk {
    /// Whether nothing is in it.
    pub fn is_empty(&self) -> bool {
        let Self { keys, parts, epoch, values, .. } = self;
        keys.is_empty() && parts.is_empty() && *epoch == Epoch::default() && values.is_empty()
    }

    fn put(&self, out: &mut Columns, before: &mut Before) {
        out.put(Column::Shape, self.keys.len() as u64);
        for TableKey { stream, kind, site } in &self.keys {
            out.put(Column::Shape, u64::from(*stream));
            out.of(Column::Shape).push(*kind as u8);
            out.of(Column::Shape).extend_from_slice(&site.to_le_bytes());
        }
        out.put_rising(Column::Shape, self.parts.iter().map(|(table, _)| u64::from(*table)));
        self.parts.iter().for_each(|(_, part)| part.put(out));
        self.put_epoch(out, before);
        self.put_routes(out);
        out.put(Column::Shape, self.values.len() as u64);
    }

    fn put_epoch(&self, out: &mut Columns, before: &mut Before) {
        let Epoch { lines, holes, late } = &self.epoch;
        out.put_rising(Column::Senders, lines.iter().map(|line| u64::from(line.sender)));
        for Line { sender, clock } in lines {
            let before = before.insert(*sender, *clock).unwrap_or_default();
            out.put(Column::Clocks, zigzag(clock.wrapping_sub(before) as i64));
        }
        put_numbered(out, holes.iter().copied());
        put_numbered(out, late.iter().copied());
    }

    fn put_routes(&self, out: &mut Columns) {
        let Routes { usual, topics, single } = &self.routes;
        out.put(Column::Shape, route_number(*usual));
        out.put(Column::Shape, topics.len() as u64);
        for ((communicator, tag), route) in topics {
            out.put(Column::Shape, u64::from(*communicator));
            out.put(Column::Shape, zigzag(i64::from(*tag)));
            out.put(Column::Shape, route_number(*route));
        }
        put_numbered(out, single.iter().map(|(message, _)| *message));
        single.iter().for_each(|(_, route)| out.put(Column::Shape, route_number(*route)));
    }

    fn take(
        input: &mut Inputs<'_>,
        before: &mut Before,
        rows: &mut u64,
        values: &mut Values<'_>,
    ) -> Result<Self, OrderError> {
        let mut chunk = Self { keys: input.shape().list(take_key)?, ..Self::default() };
        for table in input.rising(Column::Shape)? {
            let table = u32::try_from(table).map_err(|_| OrderError::OutOfRange("table"))?;
            if chunk.parts.last().is_some_and(|(last, _)| *last >= table) {
                return Err(OrderError::OutOfRange("table"));
            }
            chunk.parts.push((table, Part::take(input, rows)?));
        }
        chunk.epoch = take_epoch(input, before)?;
        chunk.routes = take_routes(input)?;
        chunk.values = values.take(input)?;
        Ok(chunk)
    }
}

fn take_key(input: &mut Input<'_>) -> Result<TableKey, OrderError> {
    let stream = input.narrow("stream")?;
    let kind = Kind::from_number(input.byte()?)?;
    Ok(TableKey { stream, kind, site: u64::from_le_bytes(take_eight(input)?) })
}

fn take_eight(input: &mut Input<'_>) -> Result<[u8; 8], OrderError> {
    let (eight, rest) = input.0.split_first_chunk().ok_or(OrderError::Truncated)?;
    input.0 = rest;
    Ok(*eight)
}

fn take_epoch(input: &mut Inputs<'_>, before: &mut Before) -> Result<Epoch, OrderError> {
    let lines = input.rising(Column::Senders)?.into_iter().map(|sender| {
        let sender = u32::try_from(sender).map_err(|_| OrderError::OutOfRange("sender"))?;
        let error = input.of_column(Column::Clocks).signed()?;
        let last = before.entry(sender).or_default();
        *last = last.wrapping_add(error as u64);
        Ok(Line { sender, clock: *last })
    });
    let lines = lines.collect::<Result<_, OrderError>>()?;
    Ok(Epoch { lines, holes: take_numbered(input)?, late: take_numbered(input)? })
}

fn take_routes(input: &mut Inputs<'_>) -> Result<Routes, OrderError> {
    let usual = take_route(input.shape())?;
    let topics = input.shape().list(|input| {
        let communicator = input.narrow("communicator")?;
        let tag = unzigzag(input.number()?);
        let tag = i32::try_from(tag).map_err(|_| OrderError::OutOfRange("tag"))?;
        let topic: Topic = (communicator, tag);
        Ok((topic, take_route(input)?))
    })?;
    let single = take_numbered(input)?;
    let single = single.into_iter().map(|message| Ok((message, take_route(input.shape())?)));
    Ok(Routes { usual, topics, single: single.collect::<Result<_, OrderError>>()? })
}

fn take_value(input: &mut Input<'_>) -> Result<Value, OrderError> {
    let head = input.number()?;
    let stream = u32::try_from(head >> 8).map_err(|_| OrderError::OutOfRange("stream"))?;
    Ok(Value { stream, which: head as u8, bits: u64::from_be_bytes(take_eight(input)?) })
}
