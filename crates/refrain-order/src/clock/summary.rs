//! The contents of a record, without a replay.
//!
//! A record has the difference between the observed order and the clock order, but neither sources nor clocks of
//! messages: only a replay knows those.

use std::collections::BTreeMap;

use crate::clock::chunk::{Chunk, Head, TableKey, Value, value_bytes};
use crate::clock::loaded::{PartCursor, Row};
use crate::clock::read::Reader;
use crate::frame::take_frame;
use crate::vocabulary::source;
use crate::{Kind, OrderError};

/// Counts of a table or a record.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Successful completing calls.
    pub calls: u64,
    /// Failed polls.
    pub polls: u64,
    /// Messages.
    pub messages: u64,
    /// Messages that were not received in clock order (Sato et al., figure 14).
    pub moved: u64,
}

impl Counts {
    /// Adds other counts.
    pub fn add(&mut self, other: &Counts) {
        self.calls += other.calls;
        self.polls += other.polls;
        self.messages += other.messages;
        self.moved += other.moved;
    }
}

/// A summary of a record.
#[derive(Clone, Debug, Default)]
pub struct Summary {
    /// Counts of each table, by thread, kind and call site.
    pub tables: BTreeMap<(u32, Kind, u64), Counts>,
    /// Sum of all tables, and calls without a row.
    pub all: Counts,
    /// Threads.
    pub threads: u64,
    /// Calls without a row, by thread.
    rowless_calls: Vec<u64>,
    /// Values of clocks and random numbers.
    pub values: u64,
    /// Values that are clock readings.
    pub clock_values: u64,
    /// How many of the bytes hold values.
    pub value_bytes: u64,
    /// Chunks.
    pub chunks: u64,
    /// Bytes.
    pub bytes: u64,
    /// Whether the record reaches the end of the program.
    pub complete: bool,
    /// Why the record could not be read to its end, if so.
    pub truncated: Option<OrderError>,
}

/// Visits the chunks of a record. Returns the sum of the heads, and why the record is truncated, if it is.
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
    Ok((reader.known().clone(), reader.truncated()))
}

impl Summary {
    /// The number of successful completing calls of each thread.
    pub fn calls_by_thread(&self) -> BTreeMap<u32, u64> {
        let mut calls: BTreeMap<u32, u64> = (0..).zip(self.rowless_calls.iter().copied()).collect();
        for ((stream, ..), counts) in &self.tables {
            let sum = calls.entry(*stream).or_default();
            *sum = sum.saturating_add(counts.calls);
        }
        calls
    }
}

/// Summarizes a record.
pub fn summary(record: &[u8]) -> Result<Summary, OrderError> {
    let mut summary = Summary { bytes: record.len() as u64, ..Summary::default() };
    let (known, truncated) = each_chunk(record, |chunk, keys| {
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
            let sum = summary.tables.entry((key.stream, key.kind, key.site)).or_default();
            sum.add(&counts);
            summary.all.add(&counts);
        }
        Ok(())
    })?;
    let mut rest = record;
    while let Ok(body) = take_frame(&mut rest) {
        summary.value_bytes += value_bytes(body).ok().flatten().unwrap_or(0);
    }
    summary.truncated = truncated;
    summary.complete = known.last;
    summary.threads = known.tallies.len() as u64;
    summary.rowless_calls = known.tallies.iter().map(|(_, calls)| *calls).collect();
    summary.all.calls =
        summary.rowless_calls.iter().copied().fold(summary.all.calls, u64::saturating_add);
    Ok(summary)
}

/// A successful completing call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// Its number among the calls of its table.
    pub position: u64,
    /// The number of polls that failed before it.
    pub polls: u64,
    /// What it found. Positions of messages count throughout the table, from 0.
    pub rows: Vec<Row>,
}

/// Visits all successful completing calls, table by table within each chunk.
pub fn each_call(
    record: &[u8],
    mut visit: impl FnMut(&TableKey, &Found),
) -> Result<(), OrderError> {
    let mut before: BTreeMap<u32, (u64, usize)> = BTreeMap::new();
    each_chunk(record, |chunk, keys| {
        for (table, part) in &chunk.parts {
            let key = keys.get(*table as usize).ok_or(OrderError::OutOfRange("table"))?;
            let (position, messages) = before.entry(*table).or_default();
            let mut cursor = PartCursor::new(part.clone())?;
            loop {
                let polls = std::mem::take(&mut cursor.polls);
                let group = cursor.group();
                if group.is_empty() {
                    break;
                }
                let through = |row: &Row| match row {
                    Row::Message(position, claim) => Row::Message(position + *messages, *claim),
                    other => *other,
                };
                let rows = group.iter().map(through).collect();
                visit(key, &Found { position: *position, polls, rows });
                *position += 1;
                cursor.advance(&group);
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
    fn a_summary_counts_messages_that_were_not_received_in_clock_order() {
        let mut recorder = Recorder::new(0);
        let post = Post { site: 1, communicator: 0, source: None, tag: Some(7) };
        let call = Call { kind: Kind::Wait, site: 9, count: 0 };
        for (clock, source) in [(5, 1), (9, 2)] {
            recorder.receive_note(
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
        assert_eq!((found.all, found.complete, found.truncated), (all, true, None));
        assert_eq!(found.tables[&(0, Kind::Test, 3)].polls, 1);
        let mut positions = Vec::new();
        each_call(&record, |key, found| positions.push((key.site, found.rows.clone())))
            .expect("as above");
        assert_eq!(positions, [(9, vec![Row::Message(1, 0)]), (9, vec![Row::Message(0, 0)])]);
        let truncated = summary(&record[..record.len() - 1]).expect("whole frames are read");
        assert!(!truncated.complete && truncated.truncated.is_some());
    }
}
