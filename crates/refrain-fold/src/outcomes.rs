//! Outcomes that vary and failed polls, in the order of the calls.
//!
//! The sequence of calls is known when they are decoded: after a test that succeeded comes another call than after one
//! that failed. So an outcome is guessed from the call after it, from the outcomes of the same signature before, and from
//! those of other signatures with the same skeleton. Signatures with the same skeleton share their outcomes: which two of
//! four requests completed is the same outcome for any four requests.

use crate::bytes::Bytes;
use crate::numbers::{Followers, GUESSES, Guesses, Numbers, Place, Series, context};
use refrain_bytes::range::{Bit, Coder};
use refrain_grammar::Grammar;
use refrain_signature::outcome::{OutcomeReader, OutcomeWriter, PollReader, Polls, StoredOutcomes};
use refrain_structure::elastic::Elastic;
use refrain_structure::group::{Group, Outcomes, Residue};
use std::collections::HashMap;

/// The most bytes of an outcome that are read.
const MOST_BYTES: usize = 1 << 24;

/// What is known of the outcomes of a skeleton.
#[derive(Debug, Default)]
struct Skeleton {
    place: Place,
    spelled: Numbers,
    /// Distinct outcomes.
    outcomes: Vec<Vec<u8>>,
    numbers: HashMap<Vec<u8>, i64>,
    /// The last outcome, and the last one before a call of another signature.
    last: i64,
    polls: Series,
    has: [Option<Bit>; 4],
}

/// Codes outcomes.
#[derive(Debug)]
pub(crate) struct OutcomeCoder {
    followers: Followers,
    skeletons: HashMap<u32, Skeleton>,
    bytes: Bytes,
    /// How many more calls may be read.
    left: u64,
    tasks: u64,
}

/// The outcomes of a signature: those that are coded so far.
#[derive(Debug, Default)]
struct Coded {
    writer: OutcomeWriter,
    rows: Vec<Vec<u8>>,
    numbers: HashMap<Vec<u8>, u32>,
    last: i64,
}

impl Coded {
    /// The number of an outcome among those of the signature.
    fn row(&mut self, text: &[u8]) -> u32 {
        if let Some(row) = self.numbers.get(text) {
            return *row;
        }
        let row = self.rows.len() as u32;
        self.rows.push(text.to_vec());
        self.numbers.insert(text.to_vec(), row);
        row
    }

    fn stored(self) -> StoredOutcomes {
        self.writer.stored(self.rows)
    }
}

/// What of a signature is coded with its calls.
#[derive(Default)]
struct Stream<'a> {
    outcomes: Option<Coded>,
    given: Option<(OutcomeReader<'a>, Vec<&'a [u8]>)>,
    polls: Option<Polls>,
    given_polls: Option<PollReader<'a>>,
}

impl OutcomeCoder {
    /// How many calls it has walked over, of at most so many.
    pub fn walked(&self, most: u64) -> u64 {
        most - self.left
    }

    /// Walks over at most so many calls.
    pub fn new(most: u64) -> OutcomeCoder {
        OutcomeCoder {
            followers: Followers::default(),
            skeletons: HashMap::new(),
            bytes: Bytes::new(1 << 12),
            left: most,
            tasks: 0,
        }
    }

    /// Codes the outcomes of a group's rows whose outcomes are shared and have no row yet, and the residues of its ranks.
    /// None if the bytes are damaged, or if what was given cannot be coded.
    pub fn code(
        &mut self,
        coder: &mut impl Coder,
        group: &mut Group,
        skeletons: &[u32],
        given: Option<&Group>,
    ) -> Option<()> {
        let is_open = |outcomes: &Outcomes| matches!(outcomes, Outcomes::Shared { rows, .. } if rows.is_empty());
        let mut streams: Vec<Stream<'_>> = Vec::new();
        for (number, row) in group.rows.iter().enumerate() {
            let mut stream = Stream::default();
            if is_open(&row.outcomes) {
                stream.outcomes = Some(Coded::default());
                if let Some(Outcomes::Shared { rows, runs, misses }) =
                    given.and_then(|given| given.rows.get(number)).map(|row| &row.outcomes)
                {
                    let texts: Option<Vec<&[u8]>> = rows.iter().map(Elastic::constant).collect();
                    stream.given = Some((OutcomeReader::of(rows.len(), runs, misses), texts?));
                }
                self.first(coder, *skeletons.get(number)?, &mut stream)?;
            }
            streams.push(stream);
        }
        if streams.iter().any(|stream| stream.outcomes.is_some()) {
            self.walk(coder, &group.grammars, skeletons, &mut streams)?;
            for (row, stream) in group.rows.iter_mut().zip(streams) {
                let Some(coded) = stream.outcomes else { continue };
                let StoredOutcomes { rows, runs, misses } = coded.stored();
                row.outcome = Elastic::single(rows.first()?.clone());
                let rows = rows.into_iter().map(Elastic::single).collect();
                row.outcomes = Outcomes::Shared { rows, runs, misses };
            }
        }
        let ranks = group.ranks.to_vec();
        let nothing = Residue::default();
        for rank in ranks {
            let given = given.map(|given| given.residues.get(&rank).unwrap_or(&nothing));
            let residue = self.residue(coder, group, skeletons, given)?;
            if given.is_some_and(|given| !is_same(given, &residue)) {
                return None;
            }
            if !residue.is_empty() {
                group.residues.insert(rank, residue);
            }
        }
        Some(())
    }

    /// Codes the residue of a rank.
    fn residue(
        &mut self,
        coder: &mut impl Coder,
        group: &Group,
        skeletons: &[u32],
        given: Option<&Residue>,
    ) -> Option<Residue> {
        let mut streams: Vec<Stream<'_>> = Vec::new();
        let mut are_there = false;
        for (number, row) in (0u32..).zip(&group.rows) {
            let skeleton = *skeletons.get(number as usize)?;
            let mut stream = Stream::default();
            if row.outcomes == Outcomes::PerRank {
                let stored = given.and_then(|given| given.outcomes.get(&number));
                if self.has(coder, skeleton, 0, stored.is_some()) {
                    stream.outcomes = Some(Coded::default());
                    stream.given = stored.map(|stored| {
                        (
                            OutcomeReader::new(stored),
                            stored.rows.iter().map(Vec::as_slice).collect(),
                        )
                    });
                    self.first(coder, skeleton, &mut stream)?;
                    are_there = true;
                }
            }
            let polls = given.and_then(|given| given.polls.get(&number));
            if self.has(coder, skeleton, 1, polls.is_some()) {
                let failed = polls.map_or(&[][..], |polls| polls.failed.as_slice());
                let failed = self.text(coder, skeleton, None, failed)?;
                stream.polls = Some(Polls::new(&failed, 0));
                stream.given_polls = polls.map(PollReader::new);
                are_there = true;
            }
            streams.push(stream);
        }
        let mut residue = Residue::default();
        if are_there {
            self.walk(coder, &group.grammars, skeletons, &mut streams)?;
        }
        for (number, stream) in (0u32..).zip(streams) {
            if let Some(coded) = stream.outcomes {
                residue.outcomes.insert(number, coded.stored());
            }
            if let Some(polls) = stream.polls {
                residue.polls.insert(number, polls);
            }
        }
        Some(residue)
    }

    /// Codes the first outcome of a signature if it is not that of its first call: a poll that failed was seen before.
    fn first(
        &mut self,
        coder: &mut impl Coder,
        skeleton: u32,
        stream: &mut Stream<'_>,
    ) -> Option<()> {
        let first = match &stream.given {
            Some((reader, texts)) => match reader.clone().next_row() {
                Some(0) | None => None,
                Some(_) => texts.first().copied(),
            },
            None => None,
        };
        if self.has(coder, skeleton, 2, first.is_some()) {
            let text = self.text(coder, skeleton, None, first.unwrap_or_default())?;
            stream.outcomes.as_mut()?.row(&text);
        }
        Some(())
    }

    fn has(&mut self, coder: &mut impl Coder, skeleton: u32, what: usize, given: bool) -> bool {
        let state = self.skeletons.entry(skeleton).or_default();
        let Some(model) = state.has.get_mut(what) else { return false };
        coder.bit(model.get_or_insert(Bit::EVEN), given)
    }

    /// Codes what there is of each call of a sequence.
    fn walk(
        &mut self,
        coder: &mut impl Coder,
        grammars: &[Grammar],
        skeletons: &[u32],
        streams: &mut [Stream<'_>],
    ) -> Option<()> {
        self.tasks += 1;
        let mut calls = grammars.iter().flatten().peekable();
        let mut chain = 0i64;
        while let Some(call) = calls.next() {
            self.left = self.left.checked_sub(1)?;
            let next = calls.peek().copied();
            let stream = streams.get_mut(call as usize)?;
            let skeleton = *skeletons.get(call as usize)?;
            if let Some(polls) = &mut stream.polls {
                let count = stream.given_polls.as_mut().map_or(0, PollReader::next_count);
                let state = self.skeletons.entry(skeleton).or_default();
                let kind = 0x2000 + u64::from(skeleton);
                let count =
                    state.polls.code(coder, &mut self.followers, kind, [0; 4], count as i64);
                polls.note(count as u64);
            }
            if let Some(mut coded) = stream.outcomes.take() {
                let given = match &mut stream.given {
                    Some((reader, texts)) => *texts.get(reader.next_row()?)?,
                    None => &[],
                };
                let is_again = next == Some(call);
                let after = next.and_then(|next| skeletons.get(next as usize));
                let after = after.map_or(-1, |after| i64::from(*after)) << 1 | i64::from(is_again);
                let place =
                    Calls { call: call.into(), next: next.map_or(-1, i64::from), after, chain };
                let number = self.outcome(coder, skeleton, &place, &mut coded, given)?;
                chain = match is_again {
                    true => context(7, &[chain, number]) as i64,
                    false => 0,
                };
                stream.outcomes = Some(coded);
            }
        }
        Some(())
    }

    /// Codes the outcome of a call; returns its number among those of the skeleton.
    fn outcome(
        &mut self,
        coder: &mut impl Coder,
        skeleton: u32,
        calls: &Calls,
        coded: &mut Coded,
        given: &[u8],
    ) -> Option<i64> {
        let state = self.skeletons.entry(skeleton).or_default();
        let Calls { call, next, after, chain } = *calls;
        let task = self.tasks as i64;
        let salt = u64::from(skeleton) << 8;
        let known = state.outcomes.len() as i64;
        let contexts = [
            context(salt | 1, &[task, call, next, coded.last]),
            context(salt | 2, &[task, call, coded.last]),
            context(salt | 3, &[after, coded.last]),
            context(salt | 4, &[after, chain]),
            context(salt | 5, &[after, state.last]),
            context(salt | 6, &[after]),
            context(salt | 7, &[task, call, next]),
            context(salt | 8, &[coded.last, state.last]),
        ];
        let mut guesses: Guesses = [known; GUESSES];
        for (guess, context) in guesses.iter_mut().zip(&contexts) {
            *guess = self.followers.get(*context);
        }
        guesses[9] = coded.last;
        guesses[10] = state.last;
        let number = state.numbers.get(given).copied().unwrap_or(known);
        let origins = [0, coded.last, state.last, known];
        let number = state.place.code(coder, &guesses, &origins, &mut state.spelled, number);
        contexts.iter().for_each(|context| self.followers.set(*context, number));
        coded.last = number;
        state.last = number;
        self.text(coder, skeleton, Some(number), given)?;
        let state = self.skeletons.get(&skeleton)?;
        let text = state.outcomes.get(usize::try_from(number).ok()?)?;
        let row = coded.row(text);
        coded.writer.note(row);
        Some(number)
    }

    /// Codes an outcome of a skeleton. With a number, only if it is a new one.
    fn text(
        &mut self,
        coder: &mut impl Coder,
        skeleton: u32,
        number: Option<i64>,
        given: &[u8],
    ) -> Option<Vec<u8>> {
        let state = self.skeletons.entry(skeleton).or_default();
        let known = state.outcomes.len() as i64;
        match number {
            Some(number) if number < known => return Some(Vec::new()),
            Some(number) if number > known => return None,
            _ => {}
        }
        let text = self.bytes.code(coder, given, MOST_BYTES)?;
        if number.is_some() {
            state.numbers.insert(text.clone(), known);
            state.outcomes.push(text.clone());
        }
        Some(text)
    }
}

/// A call and what is around it.
struct Calls {
    call: i64,
    next: i64,
    after: i64,
    chain: i64,
}

fn is_same(given: &Residue, made: &Residue) -> bool {
    let bytes = |residue: &Residue| {
        let mut bytes = Vec::new();
        residue.put(&mut bytes);
        bytes
    };
    bytes(given) == bytes(made)
}
