//! Takes in the times of a thread's calls.

use super::pending::Pending;
use super::{Block, Setting};
use crate::sealed::Sealed;
use refrain_signature::cells::{Cells, put_list, put_unsigned};
use refrain_signature::times::{BEFORE, BLOCK, EXACT_EVERY, Ends, Ids, put_starts};
use refrain_timing::{Bounds, Calls, Mode, Scratch};

/// The times of a thread so far.
#[derive(Debug, Default)]
pub struct Recorder {
    /// Blocks that are complete.
    pub blocks: Vec<Block>,
    ends: Ends,
    ids: Ids,
    /// Relative bounds by id.
    bounds: Bounds,
    /// The ids of the last calls before those below.
    before: Vec<u32>,
    /// Calls that are in no block yet,
    pending: Pending,
    /// when the first of them began,
    start: u64,
    /// and some of those after it, where times are not exact.
    starts: Vec<u64>,
}

impl Recorder {
    /// Takes in a call. `own_bound` tells the relative bound of a signature that has one of its own.
    #[inline]
    pub fn note(
        &mut self,
        setting: &Setting,
        terminal: u32,
        depth: u32,
        (start, end): (u64, u64),
        scratch: &mut Scratch,
        own_bound: impl FnOnce() -> Option<f64>,
    ) {
        let known = self.ids.count();
        let id = self.ids.id(terminal);
        if self.ids.count() > known
            && let Some(bound) = own_bound()
        {
            // Bounds are in range, and there are not more of them than fit.
            let _ = self.bounds.set(id, bound);
        }
        let before = self.ends.before(depth);
        if self.pending.len().is_multiple_of(EXACT_EVERY) {
            self.note_start(setting, start);
        }
        let (gap, duration) = match setting.mode {
            // A clock that goes back is given back.
            Mode::Lossless => (start.wrapping_sub(before), end.wrapping_sub(start)),
            _ => (start.saturating_sub(before), end.saturating_sub(start)),
        };
        self.pending.push(id, gap, duration);
        self.ends.note(depth, end);
        if self.pending.len() >= BLOCK {
            self.seal(setting, scratch);
        }
    }

    #[inline(never)]
    fn note_start(&mut self, setting: &Setting, start: u64) {
        match self.pending.len() == 0 {
            true => self.start = start,
            false if setting.mode != Mode::Lossless => self.starts.push(start),
            false => {}
        }
    }

    /// Seals what is in no block yet.
    #[inline(never)]
    pub fn seal(&mut self, setting: &Setting, scratch: &mut Scratch) {
        let called = self.pending.ids();
        if called.is_empty() {
            return;
        }
        let calls = Calls {
            before: &self.before,
            terminals: called,
            gaps: self.pending.gaps(),
            durations: self.pending.durations(),
            start: self.start,
        };
        let mut bytes = Vec::new();
        put_starts(self.start, self.starts.drain(..), &mut bytes);
        let head = bytes.len();
        if refrain_timing::encode(setting.mode, &self.bounds, &calls, scratch, &mut bytes).is_err()
        {
            bytes.truncate(head);
            // Always there, and never too long.
            let _ =
                refrain_timing::encode(Mode::Lossless, &self.bounds, &calls, scratch, &mut bytes);
        }
        let calls = called.len() as u32;
        self.blocks.push(Block { calls, bytes: Sealed::Held(bytes) });
        let last = called.len().saturating_sub(BEFORE);
        self.before.extend(called.iter().skip(last));
        let surplus = self.before.len().saturating_sub(BEFORE);
        self.before.drain(..surplus);
        self.pending.clear();
    }

    /// One that keeps to a setting.
    pub fn new(setting: &Setting) -> Recorder {
        // Settings have bounds in range.
        let bounds = Bounds::relative(setting.relative).unwrap_or_default();
        Recorder { bounds, ..Recorder::default() }
    }

    /// Bytes held.
    pub fn memory(&self) -> usize {
        self.blocks.iter().map(|block| block.bytes.memory()).sum::<usize>()
            + 20 * self.pending.len()
    }

    /// Writes it, to be gone on with.
    pub fn put(&self, setting: &Setting, out: &mut Vec<u8>) {
        put_list(out, self.blocks.iter(), |out, block| block.put(out));
        let list = |out: &mut Vec<u8>, values: &[u64]| {
            put_list(out, values.iter(), |out, value| put_unsigned(out, *value));
        };
        self.ends.put(out);
        self.ids.put(out);
        let default = setting.relative;
        let own = (0..self.ids.count()).map(|id| (id, self.bounds.relative_of(id)));
        // Bounds are rounded down a little where they are kept.
        let own: Vec<_> = own.filter(|(_, bound)| (bound - default).abs() > 1e-6).collect();
        put_list(out, own.into_iter(), |out, (id, bound)| {
            put_unsigned(out, id.into());
            put_unsigned(out, bound.to_bits());
        });
        for ids in [self.before.as_slice(), self.pending.ids()] {
            put_list(out, ids.iter(), |out, id| put_unsigned(out, (*id).into()));
        }
        self.pending.put_times(out);
        put_unsigned(out, self.start);
        list(out, &self.starts);
    }

    /// Reads it.
    pub fn get(setting: &Setting, cells: &mut Cells<'_>) -> Option<Recorder> {
        let mut recorder = Recorder::new(setting);
        recorder.blocks = cells.get_list(Block::get)?;
        recorder.ends = Ends::get(cells)?;
        recorder.ids = Ids::get(cells)?;
        for (id, bound) in
            cells.get_list(|cells| Some((cells.get_u32()?, cells.get_unsigned()?)))?
        {
            recorder.bounds.set(id, f64::from_bits(bound)).ok()?;
        }
        recorder.before = cells.get_list(Cells::get_u32)?;
        let called = cells.get_list(Cells::get_u32)?;
        recorder.pending = Pending::get_times(&called, cells)?;
        recorder.start = cells.get_unsigned()?;
        recorder.starts = cells.get_list(Cells::get_unsigned)?;
        Some(recorder)
    }
}
