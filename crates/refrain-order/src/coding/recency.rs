//! Values in the order of their last use, the least recently used first.
//!
//! A neighbour whose message was just received is unlikely to be the next: its receive was posted again only now, and
//! in a regular exchange the neighbours alternate. So values are coded by their rank in this list, and small ranks are
//! the most frequent.

/// The most values; longer lists cost more to search than they save.
const MOST: usize = 256;

/// Values by the time of their last use.
#[derive(Clone, Debug, Default)]
pub struct Recency {
    values: Vec<u32>,
}

impl Recency {
    /// The rank of a value.
    pub fn rank(&self, value: u32) -> Option<usize> {
        self.values.iter().position(|known| *known == value)
    }

    /// Whether every value that has occurred is in the list.
    pub fn holds_all(&self) -> bool {
        self.values.len() < MOST
    }

    /// The least recently used value.
    pub fn oldest(&self) -> Option<u32> {
        self.values.first().copied()
    }

    /// The value at a rank.
    pub fn at(&self, rank: usize) -> Option<u32> {
        self.values.get(rank).copied()
    }

    /// A value was used.
    pub fn note(&mut self, value: u32) {
        if self.values.last() == Some(&value) {
            return;
        }
        match self.values.iter().position(|v| *v == value) {
            Some(at) => {
                self.values.remove(at);
            }
            None if self.values.len() == MOST => {
                self.values.remove(0);
            }
            None => {}
        }
        self.values.push(value);
    }
}
