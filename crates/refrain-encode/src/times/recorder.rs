//! Records the times of a thread's calls.

use super::pending::Pending;
use super::{Block, Setting};
use crate::sealed::Sealed;
use refrain_signature::cells::{Cells, put_list, put_unsigned};
use refrain_signature::times::{BEFORE, BLOCK, EXACT_EVERY, Ends, Ids, put_starts};
use refrain_timing::{Bounds, Calls, Mode, Scratch};

/// The times of a thread so far.
#[derive(Debug, Default)]
pub struct Recorder {
    /// Complete blocks.
    pub blocks: Vec<Block>,
    ends: Ends,
    ids: Ids,
    /// Relative bounds by id.
    bounds: Bounds,
    /// The ids of the last calls before the pending ones.
    before: Vec<u32>,
    /// Calls that are not in a block yet.
    pending: Pending,
    /// The start of the first pending call.
    start: u64,
    /// The start of every [`EXACT_EVERY`]th pending call after it, if times are lossy.
    starts: Vec<u64>,
}

impl Recorder {
    /// Records a call. `own_bound` returns the relative bound of its function, if that differs from the
    /// default.
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
            // Cannot fail: bounds are in range, and there are fewer than `Bounds` can hold.
            let _ = self.bounds.set(id, bound);
        }
        let before = self.ends.before(depth);
        if self.pending.len().is_multiple_of(EXACT_EVERY) {
            self.note_start(setting, start);
        }
        let (gap, duration) = match setting.mode {
            // Wrapping keeps a clock that went backwards exact.
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

    /// Makes a block of the pending calls.
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
            // The lossless mode needs no library and has no length limit.
            let _ =
                refrain_timing::encode(Mode::Lossless, &self.bounds, &calls, scratch, &mut bytes);
        }
        let calls = called.len() as u32;
        self.blocks.push(Block { calls, bytes: Sealed::InMemory(bytes) });
        let last = called.len().saturating_sub(BEFORE);
        self.before.extend(called.iter().skip(last));
        let surplus = self.before.len().saturating_sub(BEFORE);
        self.before.drain(..surplus);
        self.pending.clear();
    }

    /// A recorder with that setting.
    pub fn new(setting: &Setting) -> Recorder {
        // `Setting` accepts only bounds in range.
        let bounds = Bounds::relative(setting.relative).unwrap_or_default();
        Recorder { bounds, ..Recorder::default() }
    }

    /// Bytes held.
    pub fn memory(&self) -> usize {
        self.blocks.iter().map(|block| block.bytes.memory()).sum::<usize>()
            + 20 * self.pending.len()
    }

    /// Writes the recorder's state.
    pub fn put(&self, setting: &Setting, out: &mut Vec<u8>) {
        put_list(out, self.blocks.iter(), |out, block| block.put(out));
        let list = |out: &mut Vec<u8>, values: &[u64]| {
            put_list(out, values.iter(), |out, value| put_unsigned(out, *value));
        };
        self.ends.put(out);
        self.ids.put(out);
        let default = setting.relative;
        let own = (0..self.ids.count()).map(|id| (id, self.bounds.relative_of(id)));
        // `Bounds` stores bounds rounded down a little.
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

    /// Reads the state that [`Recorder::put`] wrote.
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
