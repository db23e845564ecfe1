//! A bounded log: what was appended since a position.

/// Entries beyond this number are dropped, all at once.
const MOST: usize = 1 << 22;

/// Entries by position. Positions count everything that was ever appended.
#[derive(Clone, Debug, Default)]
pub(crate) struct Log {
    entries: Vec<u64>,
    dropped: u64,
}

impl Log {
    #[inline]
    pub fn push(&mut self, entry: u64) {
        if self.entries.len() == MOST {
            self.clear();
        }
        self.entries.push(entry);
    }

    /// The position of the next entry.
    pub fn position(&self) -> u64 {
        self.dropped + self.entries.len() as u64
    }

    /// Drops all entries, and makes sure that nobody finds the log empty since an earlier position.
    pub fn clear(&mut self) {
        self.dropped += self.entries.len() as u64 + 1;
        self.entries.clear();
    }

    /// The entries from one position to another, if they were kept.
    pub fn between(&self, from: u64, to: u64) -> Option<&[u64]> {
        let (from, to) = (from.checked_sub(self.dropped)?, to.checked_sub(self.dropped)?);
        self.entries.get(from as usize..to as usize)
    }
}
