//! Receives with a wildcard that have not matched, as far as it is known.

use refrain_analysis::matching::Receive;
use refrain_bytes::table::Map;
use std::collections::BTreeMap;

/// The scope, the source and the tag that a receive asks for; none for a wildcard.
type Spec = (usize, Option<i32>, Option<i64>);

/// The receives of a process.
#[derive(Debug, Default)]
pub struct Wildcards {
    /// By the numbers of the operations.
    all: BTreeMap<u64, Receive>,
    counts: Map<Spec, u64>,
    /// How many have ended, and what they matched is not known: they stay, because they may have matched anything.
    lost: usize,
}

impl Wildcards {
    /// A receive is posted.
    pub fn add(&mut self, id: u64, receive: Receive) {
        self.all.insert(id, receive);
        *self.counts.entry((receive.scope, receive.source, receive.tag)).or_default() += 1;
    }

    /// A receive has matched, or was cancelled.
    pub fn remove(&mut self, id: u64) {
        let Some(receive) = self.all.remove(&id) else { return };
        if let Some(count) = self.counts.get_mut(&(receive.scope, receive.source, receive.tag)) {
            *count = count.saturating_sub(1);
        }
    }

    /// A receive has ended, and what it matched is not known.
    pub fn lose(&mut self, id: u64) {
        self.lost += usize::from(self.all.contains_key(&id));
    }

    /// How many receives a message fits.
    pub fn fitting(&self, scope: usize, source: i32, tag: i64) -> u64 {
        let specs = [(scope, None, None), (scope, Some(source), None), (scope, None, Some(tag))];
        specs.iter().filter_map(|spec| self.counts.get(spec)).sum()
    }

    /// The receives.
    pub fn iter(&self) -> impl Iterator<Item = &Receive> {
        self.all.values()
    }

    /// How many are open.
    pub fn open(&self) -> usize {
        self.all.len() - self.lost
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn receive(source: Option<i32>, tag: Option<i64>) -> Receive {
        Receive { scope: 0, source, tag, nth: 0 }
    }

    #[test]
    fn a_message_fits_receives_whose_source_and_tag_are_its_own_or_any() {
        let mut wildcards = Wildcards::default();
        let specs = [(None, None), (Some(1), None), (None, Some(7)), (Some(2), None)];
        for (id, (source, tag)) in specs.into_iter().enumerate() {
            wildcards.add(id as u64, receive(source, tag));
        }
        assert_eq!(wildcards.fitting(0, 1, 7), 3);
        assert_eq!(wildcards.fitting(0, 2, 8), 2);
        wildcards.remove(0);
        assert_eq!((wildcards.fitting(0, 1, 7), wildcards.open()), (2, 3));
        // What a lost one matched is not known: it may have been any message that fits.
        wildcards.lose(1);
        assert_eq!((wildcards.fitting(0, 1, 7), wildcards.open()), (2, 2));
    }
}
