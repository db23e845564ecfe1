//! Counts of a record, by call site.

use crate::causal::event::{CallShape, PostShape};
use crate::causal::frames::Frames;
use crate::causal::read::Reader;
use crate::error::OrderError;
use crate::vocabulary::{MatchResult, source};
use refrain_bytes::table::Map;

/// Counts of one call site.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Calls that succeeded, or wildcard receives that matched.
    pub matched: u64,
    /// Calls that failed.
    pub failed: u64,
    /// Requests that calls completed by choice.
    pub picked: u64,
    /// Receives that were cancelled or never matched.
    pub unmatched: u64,
}

/// Counts of one rank's record.
#[derive(Clone, Debug, Default)]
pub struct Summary {
    /// Threads.
    pub streams: u32,
    /// Bytes of the record.
    pub bytes: u64,
    /// Whether every thread's record reaches `MPI_Finalize`.
    pub complete: bool,
    /// All completing calls.
    pub calls: Counts,
    /// All wildcard receives and probes.
    pub receives: Counts,
    /// Receives without wildcards.
    pub named: u64,
    /// Clock readings and random numbers.
    pub values: u64,
    /// Those that are clock readings.
    pub clock_values: u64,
    /// The number of bytes of values.
    pub value_bytes: u64,
    /// The same by call site, largest first.
    pub by_call: Vec<(CallShape, Counts)>,
    /// The same by call site, largest first.
    pub by_post: Vec<(PostShape, Counts)>,
}

impl Counts {
    fn add(&mut self, other: &Counts) {
        self.matched += other.matched;
        self.failed += other.failed;
        self.picked += other.picked;
        self.unmatched += other.unmatched;
    }
}

/// The number of successful completing calls of each thread of a rank.
pub fn calls_by_thread(frames: &Frames) -> Result<Vec<u64>, OrderError> {
    let count = |stream: usize| {
        let (mut reader, mut calls) = (Reader::new(frames, stream), 0);
        while let Some(stretch) = reader.next_stretch()? {
            calls += stretch.calls().count() as u64;
        }
        Ok(calls)
    };
    (0..frames.streams().len()).map(count).collect()
}

/// Summarizes a rank's record.
pub fn summary(frames: &Frames) -> Result<Summary, OrderError> {
    let mut calls: Map<CallShape, Counts> = Map::default();
    let mut posts: Map<PostShape, Counts> = Map::default();
    let mut summary = Summary {
        streams: frames.streams().len() as u32,
        bytes: frames.size() as u64,
        named: frames.streams().iter().map(|stream| stream.named).sum(),
        complete: frames.truncated().is_none()
            && frames.streams().iter().all(|stream| stream.complete),
        ..Summary::default()
    };
    for stream in 0..frames.streams().len() {
        let mut reader = Reader::new(frames, stream);
        while let Some(stretch) = reader.next_stretch()? {
            let values = &stretch.block.values;
            summary.values += values.len() as u64;
            let is_clock = |(which, _): &&(u8, u64)| source::is_clock(*which);
            summary.clock_values += values.iter().filter(is_clock).count() as u64;
            for (call, picks) in stretch.calls() {
                let counts = calls.entry(reader.call_shape(call)?).or_default();
                counts.matched += 1;
                counts.failed += call.polls;
                counts.picked += picks.len() as u64;
            }
            for trailing in &stretch.block.trailing {
                let call =
                    crate::causal::event::CallEvent { shape: trailing.shape, ..Default::default() };
                calls.entry(reader.call_shape(&call)?).or_default().failed += trailing.polls;
            }
            for receive in &stretch.block.receives {
                let counts = posts.entry(reader.post_shape(receive)?).or_default();
                let matched = matches!(receive.match_result, Some(MatchResult::Matched(_)));
                counts.matched += u64::from(matched);
                counts.unmatched += u64::from(!matched);
            }
        }
        summary.value_bytes += reader.value_bytes();
    }
    summary.by_call = calls.into_iter().collect();
    summary.by_post = posts.into_iter().collect();
    summary.by_call.sort_by_key(|(shape, c)| (std::cmp::Reverse(c.matched), shape.site));
    summary.by_post.sort_by_key(|(shape, c)| (std::cmp::Reverse(c.matched), shape.site));
    summary.by_call.iter().for_each(|(_, counts)| summary.calls.add(counts));
    summary.by_post.iter().for_each(|(_, counts)| summary.receives.add(counts));
    Ok(summary)
}
