//! Vector clocks: which operations happened before which.

use std::sync::Arc;

/// The knowledge of a process: of each rank, how many of its steps happened before.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Clock(Arc<[u32]>);

impl Clock {
    /// A clock of a job of that many ranks.
    pub fn new(ranks: usize) -> Clock {
        Clock(std::iter::repeat_n(0, ranks).collect())
    }

    /// What it knows of a rank.
    pub fn of(&self, rank: usize) -> u32 {
        self.0.get(rank).copied().unwrap_or(0)
    }

    /// A step of a rank. Returns its number.
    pub fn tick(&mut self, rank: usize) -> u32 {
        let clock = Arc::make_mut(&mut self.0);
        let Some(own) = clock.get_mut(rank) else { return 0 };
        *own = own.saturating_add(1);
        *own
    }

    /// Learns what another clock knows.
    pub fn join(&mut self, other: &Clock) {
        if Arc::ptr_eq(&self.0, &other.0) {
            return;
        }
        for (own, other) in Arc::make_mut(&mut self.0).iter_mut().zip(other.0.iter()) {
            *own = (*own).max(*other);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_knows_what_it_has_joined() {
        let (mut a, mut b) = (Clock::new(2), Clock::new(2));
        let sent = a.tick(0);
        let message = a.clone();
        a.tick(0);
        assert_eq!(b.of(0), 0);
        b.join(&message);
        assert_eq!(b.of(0), sent);
        assert!(b.of(0) < a.of(0));
    }
}
