//! The times of calls that are not in a block yet.

use refrain_signature::cells::{Cells, put_list, put_unsigned};
use refrain_signature::times::BLOCK;

/// Three columns of one block's length that share one count, because every call adds to all three.
/// They are allocated by the first call.
#[derive(Debug, Default)]
pub(super) struct Pending {
    len: usize,
    columns: Option<Columns>,
}

#[derive(Debug)]
struct Columns {
    ids: Box<[u32; BLOCK]>,
    gaps: Box<[u64; BLOCK]>,
    durations: Box<[u64; BLOCK]>,
}

/// A column of zeros, allocated on the heap directly: it is too large for the stack.
fn column<T: Copy + Default>() -> Option<Box<[T; BLOCK]>> {
    vec![T::default(); BLOCK].into_boxed_slice().try_into().ok()
}

impl Columns {
    fn new() -> Option<Columns> {
        Some(Columns { ids: column()?, gaps: column()?, durations: column()? })
    }
}

impl Pending {
    /// How many calls are pending.
    #[inline]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Adds a call; does nothing if the block is full.
    #[inline]
    #[expect(clippy::indexing_slicing, reason = "compared with the length")]
    pub fn push(&mut self, id: u32, gap: u64, duration: u64) {
        let Some(columns) = &mut self.columns else { return self.push_first(id, gap, duration) };
        let at = self.len;
        if at < BLOCK {
            (columns.ids[at], columns.gaps[at], columns.durations[at]) = (id, gap, duration);
            self.len = at + 1;
        }
    }

    #[cold]
    fn push_first(&mut self, id: u32, gap: u64, duration: u64) {
        self.columns = Columns::new();
        if self.columns.is_some() {
            self.push(id, gap, duration);
        }
    }

    /// The id of each call.
    pub fn ids(&self) -> &[u32] {
        self.columns.as_ref().and_then(|columns| columns.ids.get(..self.len)).unwrap_or_default()
    }

    /// The interval before each call.
    pub fn gaps(&self) -> &[u64] {
        self.columns.as_ref().and_then(|columns| columns.gaps.get(..self.len)).unwrap_or_default()
    }

    /// The duration of each call.
    pub fn durations(&self) -> &[u64] {
        self.columns
            .as_ref()
            .and_then(|columns| columns.durations.get(..self.len))
            .unwrap_or_default()
    }

    /// Removes all calls.
    pub fn clear(&mut self) {
        self.len = 0;
    }

    /// Writes the intervals and durations.
    pub fn put_times(&self, out: &mut Vec<u8>) {
        for times in [self.gaps(), self.durations()] {
            put_list(out, times.iter(), |out, time| put_unsigned(out, *time));
        }
    }

    /// Reads the intervals and durations of calls with these ids.
    pub fn get_times(ids: &[u32], cells: &mut Cells<'_>) -> Option<Pending> {
        let gaps = cells.get_list(Cells::get_unsigned)?;
        let durations = cells.get_list(Cells::get_unsigned)?;
        let is_even = gaps.len() == ids.len() && durations.len() == ids.len();
        let mut pending = Pending::default();
        for ((id, gap), duration) in ids.iter().zip(gaps).zip(durations) {
            pending.push(*id, gap, duration);
        }
        (is_even && ids.len() <= BLOCK).then_some(pending)
    }
}
