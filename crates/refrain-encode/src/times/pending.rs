//! The times of calls that are in no block yet.

use refrain_signature::cells::{Cells, put_list, put_unsigned};
use refrain_signature::times::BLOCK;

/// Columns of a block's length under one count, as every call of a traced program adds to all of
/// them. There are none before the first call.
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

/// Zeros, not by way of the stack.
fn column<T: Copy + Default>() -> Option<Box<[T; BLOCK]>> {
    vec![T::default(); BLOCK].into_boxed_slice().try_into().ok()
}

impl Columns {
    fn new() -> Option<Columns> {
        Some(Columns { ids: column()?, gaps: column()?, durations: column()? })
    }
}

impl Pending {
    /// How many.
    #[inline]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Adds a call; none is added to a full block.
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

    /// Of each call its id,
    pub fn ids(&self) -> &[u32] {
        self.columns.as_ref().and_then(|columns| columns.ids.get(..self.len)).unwrap_or_default()
    }

    /// its interval,
    pub fn gaps(&self) -> &[u64] {
        self.columns.as_ref().and_then(|columns| columns.gaps.get(..self.len)).unwrap_or_default()
    }

    /// and its duration.
    pub fn durations(&self) -> &[u64] {
        self.columns
            .as_ref()
            .and_then(|columns| columns.durations.get(..self.len))
            .unwrap_or_default()
    }

    /// Forgets all.
    pub fn clear(&mut self) {
        self.len = 0;
    }

    /// Writes the intervals and durations.
    pub fn put_times(&self, out: &mut Vec<u8>) {
        for times in [self.gaps(), self.durations()] {
            put_list(out, times.iter(), |out, time| put_unsigned(out, *time));
        }
    }

    /// Reads them, for these ids.
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
