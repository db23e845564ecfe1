//! Iterations in which nothing new happens are left out.

use super::Job;
use crate::finding::Findings;
use crate::repeat::{Skip, Snapshot};
use refrain_analysis::matching::Lanes;
use std::hash::{DefaultHasher, Hash, Hasher};

impl Job<'_> {
    /// Leaves out iterations in which nothing new happens.
    pub(super) fn skip_iterations(&mut self, findings: &Findings) {
        let first = self.ranks.first().and_then(|rank| rank.items.loops());
        if !self.repetition.wants(self.turns, first.as_ref()) {
            return;
        }
        let now = self.snapshot(findings);
        let Some(skips) = self.repetition.compare(self.turns, now) else { return };
        if !self.leave_out(&skips) {
            self.repetition.give_up(self.turns);
            return;
        }
        // The loop around that loop may repeat, too.
        let now = self.snapshot(findings);
        if let Some(skips) = self.repetition.compare_outer(now) {
            self.leave_out(&skips);
        }
    }

    fn snapshot(&self, findings: &Findings) -> Snapshot {
        Snapshot {
            loops: self.ranks.iter().map(|rank| rank.items.loops()).collect(),
            calls: self.ranks.iter().map(|rank| rank.calls).collect(),
            pending: self.pending(findings),
        }
    }

    /// Leaves out iterations, unless calls in one of the loops have outcomes that vary.
    fn leave_out(&mut self, skips: &[Skip]) -> bool {
        let mut can = |skip: &Skip, n, calls| {
            let rank = self.ranks.get_mut(skip.rank);
            rank.is_some_and(|rank| rank.items.skip_iterations(skip.level, n, calls))
        };
        if !skips.iter().all(|skip| can(skip, 0, 0)) {
            return false;
        }
        for skip in skips {
            can(skip, skip.iterations, skip.calls);
        }
        for skip in skips {
            if let Some(rank) = self.ranks.get_mut(skip.rank) {
                rank.calls += skip.calls;
            }
        }
        true
    }

    /// A hash of everything that is pending, without what grows on all processes alike.
    fn pending(&self, findings: &Findings) -> u64 {
        let mut hasher = DefaultHasher::new();
        (findings.len(), self.is_doubtful, self.gatherings.len(), self.windows.len())
            .hash(&mut hasher);
        self.messages.pending().hash(&mut hasher);
        let left: usize = self.gatherings.values().map(|one| one.left + one.entries.len()).sum();
        left.hash(&mut hasher);
        for (at, rank) in self.ranks.iter().enumerate() {
            rank.process.pending().hash(&mut hasher);
            (rank.turn.is_some(), rank.released as u8, rank.open.is_some(), rank.is_over)
                .hash(&mut hasher);
            for (scope, (identity, of)) in rank.scopes.iter().enumerate() {
                let first =
                    of.members.first().and_then(|first| self.ranks.get(self.index(*first)?));
                let there =
                    first.and_then(|first| first.entered.get(*first.by_identity.get(identity)?));
                let here = rank.entered.get(scope).copied().unwrap_or(0);
                here.wrapping_sub(there.copied().unwrap_or(0)).hash(&mut hasher);
            }
            let mut lanes = 0u64;
            for ((scope, to, tag), sent) in &rank.process.tracker.counts().sent {
                let received = self.received(at, (*scope, *to, *tag)).unwrap_or(0);
                let mut one = DefaultHasher::new();
                (scope, to, tag, sent.wrapping_sub(received)).hash(&mut one);
                lanes = lanes.wrapping_add(one.finish());
            }
            lanes.hash(&mut hasher);
        }
        hasher.finish()
    }

    /// How many receives have been posted for a lane of a sender.
    fn received(&self, at: usize, (scope, to, tag): (usize, i32, i64)) -> Option<u64> {
        let other = self.ranks.get(self.index(to)?)?;
        let there = other.by_identity.get(&self.identity(at, scope)?)?;
        let lane = (*there, self.ranks.get(at)?.rank, tag);
        let counts = other.process.tracker.counts();
        let of = |lanes: &Lanes| lanes.get(&lane).copied().unwrap_or(0);
        Some(of(&counts.named) + of(&counts.matched))
    }
}
