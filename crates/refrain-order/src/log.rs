//! A log in front of a recorder: what was told, as plain words that outlive the process.
//!
//! On the way of a call there is time to store a few words, not to code them. So the agent writes
//! into a window of a mapped file, and when that is full its words are [applied](apply) to the
//! [`Recorder`] and sealed. If the process is killed in between, whoever finds the window does
//! the same: nothing that was told is lost.
//!
//! The first word of a window says how many words are in use, and how many bytes of frames they
//! come behind; it is stored last, and both change in one store. So frames that a process was just
//! appending when it was killed are still in the window, and are cut off.
//!
//! Failed polls of a place are counted in place, as are operations without wildcards: a program
//! that polls a million times in vain fills no window.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::error::OrderError;
use crate::record::Recorder;
use crate::vocabulary::{Call, Choice, Completed, Envelope, Fate, Kind, Post, Ticket};

/// What a record is, in the lowest byte of its first word; 0 is no record.
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
/// Details of a fate; [`WILD`] is added for wildcard receives.
const MATCHED: u8 = 0;
const CANCELLED: u8 = 1;
const NEVER: u8 = 2;
const WILD: u8 = 4;
/// Stand in the place of a number of indices.
const ALL: u64 = u64::MAX;
const UNDEFINED: u64 = u64::MAX - 1;

/// Bits of the window's first word that say how many words are in use.
const USED_BITS: u32 = 24;
/// Records other than those of matching calls are no longer than this.
const LONGEST: usize = 3;
/// So many places where polls failed are remembered.
const RECENT: usize = 4;

fn head(tag: u8, detail: u8, stream: u32, number: u32) -> u64 {
    u64::from(tag)
        | u64::from(detail) << 8
        | u64::from(stream as u16) << 16
        | u64::from(number) << 32
}

/// Writes a window.
#[derive(Debug)]
pub struct Log<'a> {
    words: &'a [AtomicU64],
    used: usize,
    base: u64,
    /// By stream: wildcard receives and other operations ever posted, and where the latter are
    /// counted in this window.
    streams: Vec<Posted>,
    /// Where failed polls are counted.
    failed: [Polled; RECENT],
    oldest: usize,
    /// Something had no room and is missing.
    lost: bool,
}

#[derive(Clone, Copy, Debug, Default)]
struct Posted {
    wild: u64,
    named: u64,
    counted_at: usize,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Polled {
    head: u64,
    site: u64,
    /// 0 for none.
    at: usize,
}

impl<'a> Log<'a> {
    /// An empty window, behind so many bytes of frames.
    pub fn new(words: &'a [AtomicU64], base: u64) -> Self {
        let mut log = Self {
            words,
            used: 0,
            base,
            streams: Vec::new(),
            failed: Default::default(),
            oldest: 0,
            lost: false,
        };
        log.restart(base);
        log
    }

    /// What is in the window was sealed, and these are so many bytes of frames now.
    pub fn restart(&mut self, base: u64) {
        (self.used, self.base) = (1, base);
        self.failed = Default::default();
        self.streams.iter_mut().for_each(|own| own.counted_at = 0);
        self.commit(1);
    }

    fn commit(&mut self, used: usize) {
        self.used = used;
        if let Some(first) = self.words.first() {
            first.store(self.base << USED_BITS | used as u64, Ordering::Release);
        }
    }

    /// Whether there is room for a record with so many indices.
    #[inline]
    pub fn has_room(&self, indices: usize) -> bool {
        self.words.len() >= self.used + LONGEST + indices.div_ceil(2)
    }

    /// Whether a record with so many indices could ever have room.
    pub fn could_hold(&self, indices: usize) -> bool {
        self.words.len() > LONGEST + indices.div_ceil(2)
    }

    /// Whether something had no room.
    pub fn has_lost(&self) -> bool {
        self.lost
    }

    /// The words in use.
    pub fn content(&self) -> impl Iterator<Item = u64> + '_ {
        let words = self.words.get(1..self.used).unwrap_or_default();
        words.iter().map(|word| word.load(Ordering::Relaxed))
    }

    #[inline]
    fn put<const N: usize>(&mut self, record: [u64; N]) -> usize {
        let at = self.used;
        match self.words.get(at..).and_then(<[AtomicU64]>::first_chunk::<N>) {
            Some(room) => {
                room.iter()
                    .zip(record)
                    .for_each(|(word, value)| word.store(value, Ordering::Relaxed));
                self.commit(at + N);
                at
            }
            None => {
                self.lost = true;
                0
            }
        }
    }

    /// Counts one more in a record that is there.
    #[inline]
    fn count(&self, at: usize) -> bool {
        let Some(word) = self.words.get(at).filter(|_| at > 0) else { return false };
        let next = word.load(Ordering::Relaxed).checked_add(1 << 32);
        next.inspect(|next| word.store(*next, Ordering::Release)).is_some()
    }

    #[inline]
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
    #[inline]
    pub fn post(&mut self, stream: u32, post: &Post) -> Ticket {
        let own = self.stream(stream);
        if !post.is_wild() {
            own.named += 1;
            let (number, at) = (own.named - 1, own.counted_at);
            if !self.count(at) {
                let at = self.put([head(tag::NAMED, 0, stream, 1)]);
                self.stream(stream).counted_at = at;
            }
            return Ticket { stream, wild: false, number };
        }
        own.wild += 1;
        let number = own.wild - 1;
        let any_source = if post.source.is_none() { ANY_SOURCE } else { 0 };
        let any_tag = if post.tag.is_none() { ANY_TAG } else { 0 };
        self.put([head(tag::POST, any_source | any_tag, stream, post.communicator), post.site]);
        Ticket { stream, wild: true, number }
    }

    /// See [`Recorder::resolve`].
    #[inline]
    pub fn resolve(&mut self, ticket: Ticket, fate: Fate) {
        let Ticket { stream, wild, number } = ticket;
        if !wild && fate != Fate::Cancelled {
            return;
        }
        let (detail, from) = match fate {
            Fate::Matched(from) => (MATCHED, from),
            Fate::Cancelled => (CANCELLED, Envelope { source: 0, tag: 0 }),
            Fate::Never => (NEVER, Envelope { source: 0, tag: 0 }),
        };
        let detail = if wild { detail | WILD } else { detail };
        let from = u64::from(from.source as u32) | u64::from(from.tag as u32) << 32;
        self.put([head(tag::RESOLVE, detail, stream, 0), number, from]);
    }

    /// See [`Recorder::failed`].
    #[inline]
    pub fn failed(&mut self, stream: u32, kind: Kind, site: u64) {
        let head = head(tag::FAILED, kind as u8, stream, 0);
        let known = self.failed.iter().find(|polled| polled.head == head && polled.site == site);
        if known.is_some_and(|polled| self.count(polled.at)) {
            return;
        }
        let at = self.put([head | 1 << 32, site]);
        self.failed[self.oldest] = Polled { head, site, at };
        self.oldest = (self.oldest + 1) % RECENT;
    }

    /// See [`Recorder::matched`].
    #[inline]
    pub fn matched(&mut self, stream: u32, call: &Call, completed: Completed<'_>) {
        let Call { kind, site, count } = *call;
        let polled = head(tag::FAILED, kind as u8, stream, 0);
        for own in &mut self.failed {
            if own.head == polled && own.site == site {
                *own = Polled::default();
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
            u64::from(pair[0]) | pair.get(1).map_or(0, |second| u64::from(*second) << 32)
        });
        let record = [head, site, several].into_iter().chain(pairs);
        room.iter().zip(record).for_each(|(word, value)| word.store(value, Ordering::Relaxed));
        self.commit(from + length);
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

/// How many bytes of a window are in use, as its first word says.
pub fn used_bytes(first: [u8; 8]) -> u64 {
    8 * (u64::from_le_bytes(first) & ((1 << USED_BITS) - 1)).max(1)
}

/// What a window's bytes hold: how many bytes of frames it comes behind, and its words. Those
/// that are not in use may be missing.
pub fn window(bytes: &[u8]) -> Result<(u64, Vec<u64>), OrderError> {
    let (words, _) = bytes.as_chunks();
    let (first, rest) = words.split_first().ok_or(OrderError::Truncated)?;
    let used = (used_bytes(*first) / 8 - 1) as usize;
    let rest = rest.get(..used).ok_or(OrderError::OutOfRange("words in use"))?;
    let rest = rest.iter().map(|word| u64::from_le_bytes(*word));
    Ok((u64::from_le_bytes(*first) >> USED_BITS, rest.collect()))
}

/// Tells a recorder all that a window holds.
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
                let fate = match detail & !WILD {
                    MATCHED => Fate::Matched(from),
                    CANCELLED => Fate::Cancelled,
                    NEVER => Fate::Never,
                    _ => return Err(OrderError::Unknown("fate")),
                };
                let wild = detail & WILD != 0;
                recorder.resolve(Ticket { stream, wild, number: second }, fate);
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
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[derive(Clone, Debug)]
    enum Told {
        Post(Post),
        Resolve(usize, Fate),
        Failed(Kind, u64),
        Matched(Call, Vec<u32>, bool),
        Value(u8, u64),
        Turn(u64),
    }

    fn told() -> impl Strategy<Value = (u32, Told)> {
        let option = || prop::option::of(0i32..3);
        let post =
            (0u64..4, 0u32..3, option(), option()).prop_map(|(site, communicator, source, tag)| {
                Told::Post(Post { site, communicator, source, tag })
            });
        let fate = prop_oneof![
            (-2i32..5, -1i32..9).prop_map(|(source, tag)| Fate::Matched(Envelope { source, tag })),
            Just(Fate::Cancelled),
            Just(Fate::Never),
        ];
        let kind = || (0..Kind::ALL.len()).prop_map(|n| Kind::ALL[n]);
        let matched =
            (kind(), 0u64..4, 1u32..6, prop::collection::vec(0u32..5, 0..6), any::<bool>());
        let event = prop_oneof![
            post,
            (0usize..9, fate).prop_map(|(which, fate)| Told::Resolve(which, fate)),
            (kind(), 0u64..4).prop_map(|(kind, site)| Told::Failed(kind, site)),
            matched.prop_map(|(kind, site, count, picks, all)| {
                Told::Matched(Call { kind, site, count }, picks, all)
            }),
            (0u8..3, any::<u64>()).prop_map(|(which, bits)| Told::Value(which, bits)),
            (0u64..5).prop_map(Told::Turn),
        ];
        (0u32..3, event)
    }

    fn completed<'a>(picks: &'a [u32], all: bool) -> Completed<'a> {
        match (all, picks.is_empty()) {
            (true, _) => Completed::All,
            (false, true) => Completed::Undefined,
            (false, false) => Completed::These(picks),
        }
    }

    proptest! {
        #[test]
        fn a_recorder_told_by_way_of_a_log_makes_the_same_frames(
            told in prop::collection::vec(told(), 0..200)) {
            let words: Vec<AtomicU64> = (0..4096).map(|_| AtomicU64::new(7)).collect();
            let mut log = Log::new(&words, 17);
            let mut direct = Recorder::new();
            let mut tickets = Vec::new();
            for (stream, told) in &told {
                match told {
                    Told::Post(post) => {
                        let ticket = direct.post(*stream, post);
                        prop_assert_eq!(log.post(*stream, post), ticket);
                        tickets.push(ticket);
                    }
                    Told::Resolve(which, fate) => {
                        if let Some(ticket) = tickets.get(*which) {
                            direct.resolve(*ticket, *fate);
                            log.resolve(*ticket, *fate);
                        }
                    }
                    Told::Failed(kind, site) => {
                        if kind.polls() {
                            direct.failed(*stream, *kind, *site);
                            log.failed(*stream, *kind, *site);
                        }
                    }
                    Told::Matched(call, picks, all) => {
                        direct.matched(*stream, call, completed(picks, *all));
                        log.matched(*stream, call, completed(picks, *all));
                    }
                    Told::Value(which, bits) => {
                        direct.value(*stream, *which, *bits);
                        log.value(*stream, *which, *bits);
                    }
                    Told::Turn(key) => {
                        direct.turn(*stream, *key);
                        log.turn(*stream, *key);
                    }
                }
            }
            prop_assert!(!log.has_lost());
            let bytes: Vec<u8> =
                words.iter().flat_map(|word| word.load(Ordering::Relaxed).to_le_bytes()).collect();
            let (base, content) = window(&bytes).unwrap();
            prop_assert_eq!(base, 17);
            let mut indirect = Recorder::new();
            apply(content, &mut indirect).unwrap();
            let (mut left, mut right) = (Vec::new(), Vec::new());
            direct.finish(&mut left);
            indirect.finish(&mut right);
            prop_assert_eq!(left, right);
        }

        #[test]
        fn any_words_are_read_or_refused(words in prop::collection::vec(any::<u64>(), 0..50)) {
            let small = words.iter().map(|word| word & 0x0000_000f_0003_ff07);
            let _ = apply(small, &mut Recorder::new());
            let _ = window(&words.iter().flat_map(|word| word.to_le_bytes()).collect::<Vec<_>>());
        }
    }

    #[test]
    fn failed_polls_fill_no_window() {
        let words: Vec<AtomicU64> = (0..16).map(|_| AtomicU64::new(0)).collect();
        let mut log = Log::new(&words, 0);
        for n in 0..1000 {
            log.failed(0, Kind::Testsome, n % 2);
        }
        assert!(!log.has_lost() && log.has_room(0));
    }

    #[test]
    fn what_has_no_room_is_known_to_be_missing() {
        let words: Vec<AtomicU64> = (0..16).map(|_| AtomicU64::new(0)).collect();
        let mut log = Log::new(&words, 0);
        while log.has_room(0) {
            log.value(0, 0, 1);
        }
        log.value(0, 0, 1);
        log.value(0, 0, 1);
        assert!(log.has_lost());
    }
}
