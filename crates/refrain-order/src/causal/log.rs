//! A log in front of the recorder: events as plain words in memory that outlives the process.
//!
//! During a call there is time to store a few words, but not to code them. So the agent writes into a window of a
//! mapped file; when that is full, its words are [applied](apply) to the [`Recorder`] and sealed. If the process is
//! killed before that, the reader of the window does the same, so no event is lost.
//!
//! A window has two halves, which are used alternately. Its first word says which half is in use, how many
//! words of it, and how many bytes of frames come before them. It is stored last, in one store. So the
//! content of frames that a process was appending when it was killed is still in the window, and the
//! incomplete frames are discarded.
//!
//! Receives that are pending when a half is full would have to be sealed without their match results. The
//! recorder keeps them back instead ([`Recorder::seal_settled`]), and they are the first in the other
//! half.
//!
//! While a half is sealed the program does nothing else, and processes that send to it block if that takes too long.
//! So a half counts as full before its end, unless its content takes few bytes, which means that it is coded quickly.
//!
//! Failed polls of a call site are counted in one word, as are operations without wildcards: a million
//! failed polls do not fill the window.

use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::causal::record::{Pending, Recorder};
use crate::error::OrderError;
use crate::vocabulary::{Call, Choice, Completed, Envelope, Kind, MatchResult, Post, Ticket};

/// The tag of an event, in the lowest byte of its first word; 0 is no event.
mod tag {
    pub const POST: u8 = 1;
    pub const NAMED: u8 = 2;
    pub const RESOLVE: u8 = 3;
    pub const FAILED: u8 = 4;
    pub const MATCHED: u8 = 5;
    pub const VALUE: u8 = 6;
    pub const TURN: u8 = 7;
}

/// Bits of a post's detail.
const ANY_SOURCE: u8 = 1;
const ANY_TAG: u8 = 2;
/// Details of a match result; [`WILD`] is added for wildcard receives.
const MATCHED: u8 = 0;
const CANCELLED: u8 = 1;
const NEVER: u8 = 2;
const WILD: u8 = 4;
/// Special values of the number of indices.
const ALL: u64 = u64::MAX;
const UNDEFINED: u64 = u64::MAX - 1;

/// Bits of the window's first word that say how many words are in use, and of which half.
const USED_BITS: u32 = 24;
const SECOND: u64 = 1 << (USED_BITS - 1);
/// The most words of a record, except for those of completing calls.
const LONGEST: usize = 3;
/// How many call sites with failed polls are remembered.
const RECENT: usize = 4;

/// Words that take at most one byte per this many are coded quickly.
const FEW: u64 = 64;

/// The number of words from which on a half of this size counts as full.
fn early(words: usize) -> usize {
    words / 2
}

fn head(tag: u8, detail: u8, stream: u32, number: u32) -> u64 {
    u64::from(tag)
        | u64::from(detail) << 8
        | u64::from(stream as u16) << 16
        | u64::from(number) << 32
}

/// Writes a window.
#[derive(Debug)]
pub struct Log<'a> {
    first: Option<&'a AtomicU64>,
    /// The half in use, and the other one.
    words: &'a [AtomicU64],
    others: &'a [AtomicU64],
    second: bool,
    used: usize,
    /// The half is full when this many words are in use.
    most: usize,
    base: u64,
    /// By stream: the number of wildcard receives and of other operations posted so far, and the position of the word
    /// that counts the latter in this window.
    streams: Vec<Posted>,
    /// The positions of words that count failed polls.
    failed: [Polled; RECENT],
    oldest: usize,
    /// An event had no room and is missing.
    lost: bool,
}

#[derive(Clone, Copy, Debug, Default)]
struct Posted {
    wild: u64,
    named: u64,
    counted_at: Option<usize>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Polled {
    /// 0 for none.
    head: u64,
    site: u64,
    at: usize,
}

impl<'a> Log<'a> {
    /// An empty window after `base` bytes of frames.
    pub fn new(words: &'a [AtomicU64], base: u64) -> Self {
        let (first, rest) = words.split_first().unzip();
        let rest = rest.unwrap_or_default();
        let (words, others) = rest.split_at(rest.len() / 2);
        let log = Self {
            first,
            words,
            others,
            second: false,
            used: 0,
            most: early(words.len()),
            base,
            streams: Vec::new(),
            failed: Default::default(),
            oldest: 0,
            lost: false,
        };
        log.commit();
        log
    }

    /// The content of the window was sealed, except for these receives; `base` bytes of frames exist now.
    pub fn restart(&mut self, base: u64, pending: &[Pending]) {
        std::mem::swap(&mut self.words, &mut self.others);
        let takes_few = base.saturating_sub(self.base).saturating_mul(FEW) < self.used as u64;
        self.most = if takes_few { self.words.len() } else { early(self.words.len()) };
        (self.second, self.used) = (!self.second, 0);
        self.failed = Default::default();
        self.streams.iter_mut().for_each(|posted| posted.counted_at = None);
        for receive in pending {
            let Pending { ticket, shape, match_result } = receive;
            let any_source = if shape.any_source { ANY_SOURCE } else { 0 };
            let any_tag = if shape.any_tag { ANY_TAG } else { 0 };
            let detail = any_source | any_tag;
            self.write([head(tag::POST, detail, ticket.stream, shape.communicator), shape.site]);
            if let Some(record) =
                match_result.and_then(|match_result| resolved(*ticket, match_result, None))
            {
                self.write(record);
            }
        }
        // The old content is valid until the first word is stored.
        self.base = base;
        self.commit();
    }

    #[inline]
    fn commit(&self) {
        if let Some(first) = self.first {
            let second = if self.second { SECOND } else { 0 };
            first.store(self.base << USED_BITS | second | self.used as u64, Ordering::Release);
        }
    }

    /// Whether there is room for a record with this many indices.
    #[inline]
    pub fn has_room(&self, indices: usize) -> bool {
        self.used < self.most && self.words.len() >= self.used + LONGEST + indices.div_ceil(2)
    }

    /// Whether an empty half has room for a record with this many indices.
    pub fn could_hold(&self, indices: usize) -> bool {
        self.words.len() > LONGEST + indices.div_ceil(2)
    }

    /// Whether an event had no room.
    pub fn has_lost(&self) -> bool {
        self.lost
    }

    /// The words in use.
    pub fn content(&self) -> impl Iterator<Item = u64> + '_ {
        let words = self.words.get(..self.used).unwrap_or_default();
        words.iter().map(|word| word.load(Ordering::Relaxed))
    }

    /// Writes a record, and returns its position. It is not valid before [`Self::commit`].
    #[inline]
    fn write<const N: usize>(&mut self, record: [u64; N]) -> Option<usize> {
        let at = self.used;
        let Some(room) = self.words.get(at..).and_then(<[AtomicU64]>::first_chunk::<N>) else {
            self.lost = true;
            return None;
        };
        room.iter().zip(record).for_each(|(word, value)| word.store(value, Ordering::Relaxed));
        self.used = at + N;
        Some(at)
    }

    #[inline]
    fn put<const N: usize>(&mut self, record: [u64; N]) -> Option<usize> {
        let at = self.write(record);
        self.commit();
        at
    }

    /// Increments the count of an existing record.
    #[inline]
    fn count(&self, at: usize) -> bool {
        let Some(word) = self.words.get(at) else { return false };
        let next = word.load(Ordering::Relaxed).checked_add(1 << 32);
        next.inspect(|next| word.store(*next, Ordering::Release)).is_some()
    }

    #[inline]
    #[expect(clippy::indexing_slicing, reason = "made as long as that just before")]
    fn stream(&mut self, stream: u32) -> &mut Posted {
        let at = usize::from(stream as u16);
        if self.streams.len() <= at {
            self.add_streams(at + 1);
        }
        &mut self.streams[at]
    }

    #[cold]
    fn add_streams(&mut self, count: usize) {
        self.streams.resize(count, Posted::default());
    }

    /// See [`Recorder::post`].
    #[inline(always)]
    pub fn post(&mut self, stream: u32, post: &Post) -> Ticket {
        if !post.is_wild() {
            return self.post_named(stream);
        }
        let posted = self.stream(stream);
        posted.wild += 1;
        let number = posted.wild - 1;
        let any_source = if post.source.is_none() { ANY_SOURCE } else { 0 };
        let any_tag = if post.tag.is_none() { ANY_TAG } else { 0 };
        self.put([head(tag::POST, any_source | any_tag, stream, post.communicator), post.site]);
        Ticket { stream, wild: true, number }
    }

    #[inline(never)]
    fn post_named(&mut self, stream: u32) -> Ticket {
        let posted = self.stream(stream);
        posted.named += 1;
        let (number, at) = (posted.named - 1, posted.counted_at);
        if !at.is_some_and(|at| self.count(at)) {
            let at = self.put([head(tag::NAMED, 0, stream, 1)]);
            self.stream(stream).counted_at = at;
        }
        Ticket { stream, wild: false, number }
    }

    /// See [`Recorder::resolve`].
    #[inline]
    pub fn resolve(&mut self, ticket: Ticket, match_result: MatchResult) {
        if let Some(record) = resolved(ticket, match_result, None) {
            self.put(record);
        }
    }

    /// The same, of a receive that the next matching call completes: see [`Recorder::completes`].
    #[inline]
    pub fn complete(&mut self, ticket: Ticket, match_result: MatchResult, index: u32) {
        if let Some(record) = resolved(ticket, match_result, Some(index)) {
            self.put(record);
        }
    }

    /// See [`Recorder::failed`].
    #[inline]
    pub fn failed(&mut self, stream: u32, kind: Kind, site: u64) {
        let head = head(tag::FAILED, kind as u8, stream, 0);
        let known = self.failed.iter().find(|polled| polled.head == head && polled.site == site);
        if known.is_some_and(|polled| self.count(polled.at)) {
            return;
        }
        if let Some(at) = self.put([head | 1 << 32, site]) {
            if let Some(oldest) = self.failed.get_mut(self.oldest) {
                *oldest = Polled { head, site, at };
            }
            self.oldest = (self.oldest + 1) % RECENT;
        }
    }

    /// See [`Recorder::matched`].
    #[inline]
    pub fn matched(&mut self, stream: u32, call: &Call, completed: Completed<'_>) {
        let Call { kind, site, count } = *call;
        let polled = head(tag::FAILED, kind as u8, stream, 0);
        for recent in &mut self.failed {
            if recent.head == polled && recent.site == site {
                *recent = Polled::default();
            }
        }
        let (several, indices) = match completed {
            Completed::All => (ALL, &[][..]),
            Completed::Undefined => (UNDEFINED, &[][..]),
            Completed::These(indices) => (indices.len() as u64, indices),
        };
        let head = head(tag::MATCHED, kind as u8, stream, count);
        if kind.choice() == Choice::All {
            self.put([head, site]);
            return;
        }
        let from = self.used;
        let length = LONGEST + indices.len().div_ceil(2);
        let Some(room) = self.words.get(from..from + length) else {
            self.lost = true;
            return;
        };
        let pairs = indices.chunks(2).map(|pair| {
            let index = |at: usize| pair.get(at).map_or(0, |index| u64::from(*index));
            index(0) | index(1) << 32
        });
        let record = [head, site, several].into_iter().chain(pairs);
        room.iter().zip(record).for_each(|(word, value)| word.store(value, Ordering::Relaxed));
        self.used = from + length;
        self.commit();
    }

    /// See [`Recorder::value`].
    #[inline]
    pub fn value(&mut self, stream: u32, which: u8, bits: u64) {
        self.put([head(tag::VALUE, which, stream, 0), bits]);
    }

    /// See [`Recorder::turn`].
    pub fn turn(&mut self, stream: u32, key: u64) {
        self.put([head(tag::TURN, 0, stream, 0), key]);
    }
}

/// The words of a match result, if it has to be recorded. `index` is that of the request, if the next matching
/// call completes it.
#[inline]
fn resolved(ticket: Ticket, match_result: MatchResult, index: Option<u32>) -> Option<[u64; 3]> {
    let Ticket { stream, wild, number } = ticket;
    if !wild && match_result != MatchResult::Cancelled {
        return None;
    }
    let (detail, from) = match match_result {
        MatchResult::Matched(from) => (MATCHED, from),
        MatchResult::Cancelled => (CANCELLED, Envelope { source: 0, tag: 0 }),
        MatchResult::Never => (NEVER, Envelope { source: 0, tag: 0 }),
    };
    let detail = if wild { detail | WILD } else { detail };
    let from = u64::from(from.source as u32) | u64::from(from.tag as u32) << 32;
    let position = index.map_or(0, |index| index.wrapping_add(1));
    Some([head(tag::RESOLVE, detail, stream, position), number, from])
}

/// The decoded first word of a window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InUse {
    /// The number of bytes of frames before the window.
    pub base: u64,
    /// The number of bytes in use, and whether they are in the second half.
    bytes: u64,
    second: bool,
}

impl InUse {
    /// Reads the first word.
    pub fn read(first: [u8; 8]) -> InUse {
        let first = u64::from_le_bytes(first);
        let bytes = 8 * (first & (SECOND - 1));
        InUse { base: first >> USED_BITS, bytes, second: first & SECOND != 0 }
    }

    /// The bytes in use, in a window of this many bytes.
    pub fn range(&self, window: u64) -> Result<Range<u64>, OrderError> {
        let words = (window / 8).saturating_sub(1);
        let half = words / 2;
        let from = 8 * (1 + if self.second { half } else { 0 });
        let length = 8 * if self.second { words - half } else { half };
        match self.bytes <= length {
            true => Ok(from..from + self.bytes),
            false => Err(OrderError::OutOfRange("words in use")),
        }
    }
}

/// The words in a window's bytes.
pub fn words(bytes: &[u8]) -> impl Iterator<Item = u64> {
    bytes.as_chunks().0.iter().map(|word| u64::from_le_bytes(*word))
}

/// Applies all events of a window to a recorder.
pub fn apply(
    words: impl IntoIterator<Item = u64>,
    recorder: &mut Recorder,
) -> Result<(), OrderError> {
    let mut words = words.into_iter();
    let mut indices = Vec::new();
    while let Some(first) = words.next() {
        let [tag, detail] = [first as u8, (first >> 8) as u8];
        let (stream, number) = (u32::from((first >> 16) as u16), (first >> 32) as u32);
        if tag == tag::NAMED {
            recorder.named(stream, number.into());
            continue;
        }
        let mut word = || words.next().ok_or(OrderError::Truncated);
        let second = word()?;
        match tag {
            tag::POST => {
                let source = (detail & ANY_SOURCE == 0).then_some(0);
                let tag = (detail & ANY_TAG == 0).then_some(0);
                recorder.post(stream, &Post { site: second, communicator: number, source, tag });
            }
            tag::RESOLVE => {
                let from = word()?;
                let from = Envelope { source: from as i32, tag: (from >> 32) as i32 };
                let match_result = match detail & !WILD {
                    MATCHED => MatchResult::Matched(from),
                    CANCELLED => MatchResult::Cancelled,
                    NEVER => MatchResult::Never,
                    _ => return Err(OrderError::Unknown("match result")),
                };
                let wild = detail & WILD != 0;
                let ticket = Ticket { stream, wild, number: second };
                recorder.resolve(ticket, match_result);
                if let Some(index) = number.checked_sub(1) {
                    recorder.completes(ticket, index);
                }
            }
            tag::FAILED => {
                recorder.failed_often(stream, Kind::from_number(detail)?, second, number.into());
            }
            tag::MATCHED => {
                let call = Call { kind: Kind::from_number(detail)?, site: second, count: number };
                let several = if call.kind.choice() == Choice::All { ALL } else { word()? };
                let completed = match several {
                    ALL => Completed::All,
                    UNDEFINED => Completed::Undefined,
                    several => {
                        indices.clear();
                        for n in 0..several.div_ceil(2) {
                            let pair = word()?;
                            indices.push(pair as u32);
                            if 2 * n + 1 < several {
                                indices.push((pair >> 32) as u32);
                            }
                        }
                        Completed::These(&indices)
                    }
                };
                recorder.matched(stream, &call, completed);
            }
            tag::VALUE => recorder.value(stream, detail, second),
            tag::TURN => recorder.turn(stream, second),
            _ => return Err(OrderError::Unknown("record of a log")),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
