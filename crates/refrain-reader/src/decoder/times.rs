//! The times of a task's calls, read beside the sequence of its calls.
//!
//! The bytes are a list of blocks, each with the number of its calls, its length, and its bytes
//! ([`put_block`]). The calls come from the sequence, which is read one block ahead.

use super::fit::{Fit, StoredTimes};
use super::terminals::Terminals;
use crate::view::TaskView;
use refrain_bytes::varint;
use refrain_signature::cells::Cells;
use refrain_signature::times::{BEFORE, BLOCK, EXACT_EVERY, Ids};
use refrain_timing::{Mode, TimingError};
use std::collections::VecDeque;
use std::io::{self, Read};

pub use refrain_signature::times::Ends;

/// A block is never longer: a thousand bytes for each call would be damage.
const LONGEST: u64 = 1000 * BLOCK as u64;

/// An error of times.
#[derive(Debug, thiserror::Error)]
pub enum TimesError {
    /// They cannot be read.
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
    /// From the last return before it that was not inside of it.
    pub gap: u64,
    /// How long it took.
    pub duration: u64,
    /// Its exact start, if that is stored: of the first call of a block, and of some calls after it.
    pub start: Option<u64>,
    /// The terminal of its signature.
    pub terminal: u32,
    /// Whether these times are exact.
    pub is_exact: bool,
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
    /// Whether the block's times are exact.
    is_exact: bool,
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
            is_exact: false,
            at: 0,
            number: 0,
        }
    }

    /// The times of the next call; `None` after the last.
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
            is_exact: self.is_exact,
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
        let block = |why| TimesError::Block(number, why);
        self.is_exact = refrain_timing::mode_of(cells.rest()).map_err(block)? == Mode::Lossless;
        self.block = refrain_timing::decode(cells.rest(), &self.before, &ids).map_err(block)?;
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

/// Returns the times of calls, one after the other.
pub(super) struct Clock<'t> {
    times: Times<'t>,
    view: TaskView<'t>,
    /// By terminal, how many calls its calls were made inside of, and whether they returned, as far as it was asked
    /// for.
    heads: Vec<Option<(u32, bool)>>,
    fit: Fit,
    /// The next stretch begins with this call.
    next: Option<StoredTimes>,
    stretch: Vec<StoredTimes>,
    spans: VecDeque<(u64, u64)>,
    /// Why there are no more times, where there should be.
    failure: Option<TimesError>,
}

impl<'t> Clock<'t> {
    /// From the first call on.
    pub fn new(view: TaskView<'t>, times: Times<'t>) -> Clock<'t> {
        Clock {
            times,
            heads: vec![None; view.signatures()],
            view,
            fit: Fit::default(),
            next: None,
            stretch: Vec::new(),
            spans: VecDeque::new(),
            failure: None,
        }
    }

    /// When the next call began and returned. A call without times gets the end of the call before.
    pub fn span(&mut self, depth: u32) -> Result<(u64, u64), TimesError> {
        if self.spans.is_empty() {
            self.read_stretch();
        }
        match (self.spans.pop_front(), self.failure.take()) {
            (Some(span), failure) => {
                self.failure = failure;
                Ok(span)
            }
            (None, Some(failure)) => Err(failure),
            (None, None) => Ok((self.fit.before(depth), self.fit.before(depth))),
        }
    }

    /// Reads the calls up to the next with an exact start. Exact times are read call by call.
    fn read_stretch(&mut self) {
        if self.failure.is_some() {
            return;
        }
        self.stretch.clear();
        self.stretch.extend(self.next.take());
        loop {
            let call = match self.times.next_call() {
                Ok(Some(call)) => call,
                Ok(None) => break,
                Err(why) => {
                    self.failure = Some(why);
                    break;
                }
            };
            let (depth, returned) = self.head(call.terminal);
            let CallTimes { gap, duration, start, is_exact, .. } = call;
            let call = StoredTimes { gap, duration, start, depth, returned, is_exact };
            if start.is_some() && !self.stretch.is_empty() {
                self.next = Some(call);
                break;
            }
            self.stretch.push(call);
            if is_exact {
                break;
            }
        }
        self.fit.stretch(&self.stretch, self.next, &mut self.spans);
    }

    fn head(&mut self, terminal: u32) -> (u32, bool) {
        let read =
            || self.view.head(terminal).map_or((0, true), |head| (head.depth, head.returned));
        match self.heads.get_mut(terminal as usize) {
            Some(head) => *head.get_or_insert_with(read),
            None => read(),
        }
    }
}
