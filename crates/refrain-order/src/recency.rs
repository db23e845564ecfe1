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
    /// Where a value stands, those of `without` not counted; and how many of those there are.
    pub fn place(&self, value: u32, without: &[Option<u32>]) -> (Option<usize>, usize) {
        let (mut place, mut skipped) = (None, 0);
        for (at, known) in self.values.iter().enumerate() {
            if without.contains(&Some(*known)) {
                skipped += 1;
            } else if *known == value {
                place = Some(at - skipped);
            }
        }
        (place, skipped)
    }

    /// The value that has been away longest.
    pub fn oldest(&self) -> Option<u32> {
        self.values.first().copied()
    }

    /// What stands at a place, those of `without` not counted.
    pub fn at(&self, place: usize, without: &[Option<u32>]) -> Option<u32> {
        self.values.iter().filter(|v| !without.contains(&Some(**v))).nth(place).copied()
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
