//! Reads the calls of each thread, and their times, from a trace with raw records.

use anyhow::{Context, Result, bail};
use refrain_reader::view::TaskView;
use refrain_trace::Trace;
use std::path::Path;

/// The calls of one thread, in the order of the trace's grammar.
pub struct Stream {
    /// Signatures.
    pub terminals: Vec<u32>,
    /// Ticks since the previous call returned.
    pub gaps: Vec<u64>,
    /// Ticks in the call.
    pub durations: Vec<u64>,
    /// The tick at which the first call began.
    pub start: u64,
}

/// All threads of all ranks.
pub fn of(path: &Path) -> Result<Vec<Stream>> {
    let trace = Trace::open(path)?;
    if !trace.has_raw() {
        bail!("{} has no raw records: record with --raw", path.display());
    }
    let streams = 0..trace.meta().streams.len();
    streams.filter_map(|stream| stream_of(&trace, stream).transpose()).collect()
}

fn stream_of(trace: &Trace, stream: usize) -> Result<Option<Stream>> {
    let Some(task) = trace.view(stream)? else { return Ok(None) };
    let mut terminals = terminals_of(&task);
    let (mut gaps, mut durations, mut start, mut before) = (Vec::new(), Vec::new(), None, 0);
    for event in trace.raw(stream)? {
        let event = event.context("a raw record")?;
        let Some(end) = event.end else { continue };
        if start.is_none() {
            start = Some(event.start);
            before = event.start;
        }
        gaps.push(event.start.saturating_sub(before));
        durations.push(end.saturating_sub(event.start));
        before = end;
    }
    // A call that never returned has a signature and no times.
    if !(gaps.len()..=gaps.len() + 1).contains(&terminals.len()) {
        bail!("stream {stream}: {} signatures, {} calls", terminals.len(), gaps.len());
    }
    terminals.truncate(gaps.len());
    Ok(start.map(|start| Stream { terminals, gaps, durations, start }))
}

/// The sequence of signatures, without those of notes.
fn terminals_of(task: &TaskView<'_>) -> Vec<u32> {
    let is_call = |terminal: &u32| task.head(*terminal).is_some_and(|head| !head.is_note());
    task.grammars().iter().flat_map(|grammar| grammar.iter()).filter(is_call).collect()
}
