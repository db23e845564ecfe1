//! Which values came lately, the one that has been away longest first.
//!
//! A neighbour whose message was just received is unlikely to be the next: its receive was posted
//! anew only now, and in a fair exchange everybody has their turn. So values are named by their
//! place in this list, and the places are skewed towards the front.

/// Longer lists cost more to search than they save.
const MOST: usize = 256;

/// Values by the time of their last use.
#[derive(Clone, Debug, Default)]
pub struct Recency {
    values: Vec<u32>,
}

impl Recency {
    /// Where a value stands.
    pub fn place(&self, value: u32) -> Option<usize> {
        self.values.iter().position(|known| *known == value)
    }

    /// Whether every value that ever came is in the list.
    pub fn holds_all(&self) -> bool {
        self.values.len() < MOST
    }

    /// The value that has been away longest.
    pub fn oldest(&self) -> Option<u32> {
        self.values.first().copied()
    }

    /// What stands at a place.
    pub fn at(&self, place: usize) -> Option<u32> {
        self.values.get(place).copied()
    }

    /// A value came.
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
