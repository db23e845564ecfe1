//! The times of a task's calls, read beside the sequence of its calls.
//!
//! The bytes are a list of blocks, each with the number of its calls, its length, and its bytes
//! ([`put_block`]). What the calls are is known from the sequence, which is walked a block ahead.

use super::terminals::Terminals;
use crate::view::TaskView;
use refrain_bytes::varint;
use refrain_signature::cells::Cells;
use refrain_signature::times::{BEFORE, BLOCK, EXACT_EVERY, Ids};
use refrain_timing::TimingError;
use std::io::{self, Read};

pub use refrain_signature::times::Ends;

/// A block is never longer: a thousand bytes for each call would be damage.
const LONGEST: u64 = 1000 * BLOCK as u64;

/// What is wrong with times.
#[derive(Debug, thiserror::Error)]
pub enum TimesError {
    /// They cannot be had.
    #[error("the times cannot be read: {0}")]
    Io(#[from] io::Error),
    /// A block is malformed.
    #[error("times of calls from {0} on: {1}")]
    Block(u64, TimingError),
    /// Blocks and calls do not fit together.
    #[error("times of calls from {0} on: {1}")]
    Odd(u64, &'static str),
}

/// The times of one call, in ticks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CallTimes {
    /// From the last return before it, outside of it.
    pub gap: u64,
    /// How long it took.
    pub duration: u64,
    /// Where it is the first of a block, or one of those after it whose start is kept, when it began:
    /// exact.
    pub start: Option<u64>,
    /// The terminal of its signature.
    pub terminal: u32,
}

/// Reads the times of a task, in the order of return.
pub struct Times<'t> {
    input: Box<dyn Read + 't>,
    terminals: Terminals<'t>,
    /// By terminal, whether it is a note.
    notes: Vec<bool>,
    ids: Ids,
    before: Vec<u32>,
    block: refrain_timing::Times,
    /// Starts of the block's calls that are kept.
    starts: Vec<u64>,
    called: Vec<u32>,
    at: usize,
    number: u64,
}

impl<'t> Times<'t> {
    /// The times of a task.
    pub fn new(view: &TaskView<'t>, input: Box<dyn Read + 't>) -> Times<'t> {
        Times {
            input,
            terminals: Terminals::new(view),
            notes: (0..view.signatures() as u32).map(|s| view.is_note(s)).collect(),
            ids: Ids::default(),
            before: Vec::new(),
            block: refrain_timing::Times::default(),
            starts: Vec::new(),
            called: Vec::new(),
            at: 0,
            number: 0,
        }
    }

    /// The times of the next call; `None` behind the last.
    pub fn next_call(&mut self) -> Result<Option<CallTimes>, TimesError> {
        if self.at == self.called.len() && !self.next_block()? {
            return Ok(None);
        }
        let (at, block) = (self.at, &self.block);
        self.at += 1;
        self.number += 1;
        Ok(Some(CallTimes {
            gap: block.gaps.get(at).copied().unwrap_or(0),
            duration: block.durations.get(at).copied().unwrap_or(0),
            start: match at % EXACT_EVERY {
                0 if at == 0 => Some(block.start),
                0 => self.starts.get(at / EXACT_EVERY - 1).copied(),
                _ => None,
            },
            terminal: self.called[at],
        }))
    }

    fn next_block(&mut self) -> Result<bool, TimesError> {
        let Some((calls, bytes)) = self.read_block()? else { return Ok(false) };
        let (number, terminals, notes) = (self.number, &mut self.terminals, &self.notes);
        let calls_only = terminals.map(|(terminal, _)| terminal);
        let calls_only =
            calls_only.filter(|terminal| !notes.get(*terminal as usize).copied().unwrap_or(false));
        self.called.clear();
        self.called.extend(calls_only.take(calls));
        if self.called.len() < calls {
            return Err(TimesError::Odd(number, "there are more times than calls"));
        }
        let ids: Vec<u32> = self.called.iter().map(|terminal| self.ids.id(*terminal)).collect();
        let mut cells = Cells::new(&bytes);
        let starts = cells.get_list(Cells::get);
        let starts = starts.ok_or(TimesError::Odd(number, "the starts of a block do not read"))?;
        self.block = refrain_timing::decode(cells.rest(), &self.before, &ids)
            .map_err(|why| TimesError::Block(number, why))?;
        self.starts.clear();
        self.starts.extend(starts.iter().scan(self.block.start, |at, more| {
            *at = at.wrapping_add_signed(*more);
            Some(*at)
        }));
        self.before.extend_from_slice(&ids[ids.len().saturating_sub(BEFORE)..]);
        self.before.drain(..self.before.len().saturating_sub(BEFORE));
        self.at = 0;
        Ok(true)
    }

    /// The next block's number of calls, and its bytes.
    fn read_block(&mut self) -> Result<Option<(usize, Vec<u8>)>, TimesError> {
        let odd = |what| TimesError::Odd(self.number, what);
        let Some(calls) = varint::read(&mut self.input)? else { return Ok(None) };
        let length = varint::read(&mut self.input)?.ok_or(odd("a block without its length"))?;
        if calls == 0 || calls > BLOCK as u64 || length > LONGEST {
            return Err(odd("a block of an impossible size"));
        }
        let mut bytes = Vec::new();
        self.input.by_ref().take(length).read_to_end(&mut bytes)?;
        if (bytes.len() as u64) < length {
            return Err(odd("a block is cut short"));
        }
        Ok(Some((calls as usize, bytes)))
    }
}

/// Gives calls their times, one after the other.
pub(super) struct Clock<'t> {
    times: Times<'t>,
    ends: Ends,
}

impl<'t> Clock<'t> {
    /// From the first call on.
    pub fn new(times: Times<'t>) -> Clock<'t> {
        Clock { times, ends: Ends::default() }
    }

    /// When the next call began and returned. A call without times gets the end of the call before.
    pub fn span(&mut self, depth: u32) -> Result<(u64, u64), TimesError> {
        let before = self.ends.before(depth);
        let (start, duration) = match self.times.next_call()? {
            Some(CallTimes { start: Some(start), duration, .. }) => (start, duration),
            Some(times) => (before.wrapping_add(times.gap), times.duration),
            None => (before, 0),
        };
        let end = start.wrapping_add(duration);
        self.ends.note(depth, end);
        Ok((start, end))
    }
}
