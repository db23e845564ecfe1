//! What a record holds, without replaying it.
//!
//! A record says how the order of messages differs from that of their clocks, and neither where
//! they are from nor what their clocks were: these are known in a replay alone.

use std::collections::BTreeMap;

use crate::clock::chunk::{Chunk, Head, TableKey, Value, value_bytes};
use crate::clock::loaded::{Playing, Row};
use crate::clock::read::Reader;
use crate::frame::take_frame;
use crate::vocabulary::source;
use crate::{Kind, OrderError};

/// How much of something there is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Calls that found something.
    pub calls: u64,
    /// Polls that found nothing.
    pub polls: u64,
    /// Messages.
    pub messages: u64,
    /// Those that were not received in the order of their clocks (Sato et al., figure 14).
    pub moved: u64,
}

impl Counts {
    /// Adds others.
    pub fn add(&mut self, other: &Counts) {
        self.calls += other.calls;
        self.polls += other.polls;
        self.messages += other.messages;
        self.moved += other.moved;
    }
}

/// What is in a record.
#[derive(Clone, Debug, Default)]
pub struct Summary {
    /// By thread, kind and site, in this order.
    pub tables: BTreeMap<(u32, Kind, u64), Counts>,
    /// All of them, and calls without a row.
    pub all: Counts,
    /// Threads.
    pub threads: u64,
    /// By thread, calls that had no choice.
    done: Vec<u64>,
    /// Values of clocks and random numbers.
    pub values: u64,
    /// Those that are clock readings.
    pub clock_values: u64,
    /// How many of the bytes hold values.
    pub value_bytes: u64,
    /// Chunks.
    pub chunks: u64,
    /// Bytes.
    pub bytes: u64,
    /// Whether it ended in good order.
    pub complete: bool,
    /// Why it could not be read to its end, if so.
    pub cut: Option<OrderError>,
}

/// Goes through the chunks of a record; gives what is known of all, and why it ended before its
/// end, if it did.
fn each_chunk(
    record: &[u8],
    mut visit: impl FnMut(&Chunk, &[TableKey]) -> Result<(), OrderError>,
) -> Result<(Head, Option<OrderError>), OrderError> {
    let mut reader = Reader::new(record);
    let mut keys = Vec::new();
    while let Some(chunk) = reader.next_chunk()? {
        keys.extend_from_slice(&chunk.keys);
        visit(&chunk, &keys)?;
    }
    Ok((reader.known().clone(), reader.cut()))
}

impl Summary {
    /// How many calls each thread made that succeeded.
    pub fn calls_by_thread(&self) -> BTreeMap<u32, u64> {
        let mut calls: BTreeMap<u32, u64> = (0..).zip(self.done.iter().copied()).collect();
        for ((stream, ..), counts) in &self.tables {
            let own = calls.entry(*stream).or_default();
            *own = own.saturating_add(counts.calls);
        }
        calls
    }
}

/// What is in a record.
pub fn summary(record: &[u8]) -> Result<Summary, OrderError> {
    let mut summary = Summary { bytes: record.len() as u64, ..Summary::default() };
    let (known, cut) = each_chunk(record, |chunk, keys| {
        summary.chunks += 1;
        summary.values += chunk.values.len() as u64;
        let is_clock = |value: &&Value| source::is_clock(value.which);
        summary.clock_values += chunk.values.iter().filter(is_clock).count() as u64;
        for (table, part) in &chunk.parts {
            let key = keys.get(*table as usize).ok_or(OrderError::OutOfRange("table"))?;
            let polls = part.unmatched.iter().map(|(_, polls)| *polls);
            let counts = Counts {
                calls: part.rows.saturating_sub(part.with_next.len() as u64),
                polls: polls.fold(part.trailing, u64::saturating_add),
                messages: part.messages() as u64,
                moved: part.moves.len() as u64,
            };
            let own = summary.tables.entry((key.stream, key.kind, key.site)).or_default();
            own.add(&counts);
            summary.all.add(&counts);
        }
        Ok(())
    })?;
    let mut rest = record;
    while let Ok(body) = take_frame(&mut rest) {
        summary.value_bytes += value_bytes(body).ok().flatten().unwrap_or(0);
    }
    summary.cut = cut;
    summary.complete = known.last;
    summary.threads = known.done.len() as u64;
    summary.done = known.done.iter().map(|(_, calls)| *calls).collect();
    summary.all.calls = summary.done.iter().copied().fold(summary.all.calls, u64::saturating_add);
    Ok(summary)
}

/// A call that found something.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// The how manieth of its table.
    pub position: u64,
    /// So many polls failed before it.
    pub polls: u64,
    /// What it found. Places of messages count through the table, from 0.
    pub rows: Vec<Row>,
}

/// Goes through all calls that found something, table by table within each chunk.
pub fn each_call(
    record: &[u8],
    mut visit: impl FnMut(&TableKey, &Found),
) -> Result<(), OrderError> {
    let mut before: BTreeMap<u32, (u64, usize)> = BTreeMap::new();
    each_chunk(record, |chunk, keys| {
        for (table, part) in &chunk.parts {
            let key = keys.get(*table as usize).ok_or(OrderError::OutOfRange("table"))?;
            let (position, messages) = before.entry(*table).or_default();
            let mut playing = Playing::new(part.clone())?;
            loop {
                let polls = std::mem::take(&mut playing.polls);
                let group = playing.group();
                if group.is_empty() {
                    break;
                }
                let through = |row: &Row| match row {
                    Row::Message(place, claim) => Row::Message(place + *messages, *claim),
                    other => *other,
                };
                let rows = group.iter().map(through).collect();
                visit(key, &Found { position: *position, polls, rows });
                *position += 1;
                playing.pass(&group);
            }
            *messages += part.messages();
        }
        Ok(())
    })?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::Note;
    use crate::clock::Recorder;
    use crate::{Call, Completed, Envelope, Finished, MatchResult, Post, Recording as _};

    #[test]
    fn a_record_tells_how_its_order_differs_from_that_of_the_clocks() {
        let mut recorder = Recorder::new(0);
        let post = Post { site: 1, communicator: 0, source: None, tag: Some(7) };
        let call = Call { kind: Kind::Wait, site: 9, count: 0 };
        for (clock, source) in [(5, 1), (9, 2)] {
            recorder.hear(
                source,
                &Note::Sent { clock, communicator: 0, source: source as i32, tag: 7 },
            );
        }
        recorder.failed(0, Kind::Test, 3);
        for source in [2, 1] {
            let ticket = recorder.post(0, &post);
            let from = Envelope { source, tag: 7 };
            let stamp = recorder.stamp_of(Some(ticket), 0, from);
            let finished = [Finished { ticket, match_result: MatchResult::Matched(from), stamp }];
            recorder.completed(0, &call, &[Some(ticket)], Completed::All, &finished);
        }
        let mut record = Vec::new();
        recorder.finish(&mut record);
        let found = summary(&record).expect("a record just made");
        let all = Counts { calls: 2, polls: 1, messages: 2, moved: 1 };
        assert_eq!((found.all, found.complete, found.cut), (all, true, None));
        assert_eq!(found.tables[&(0, Kind::Test, 3)].polls, 1);
        let mut places = Vec::new();
        each_call(&record, |key, found| places.push((key.site, found.rows.clone())))
            .expect("as above");
        assert_eq!(places, [(9, vec![Row::Message(1, 0)]), (9, vec![Row::Message(0, 0)])]);
        let cut = summary(&record[..record.len() - 1]).expect("what is whole is read");
        assert!(!cut.complete && cut.cut.is_some());
    }
}
