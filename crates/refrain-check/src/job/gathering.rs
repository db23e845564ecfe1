//! Collectives: members come and leave.

use super::Job;
use crate::clock::Clock;
use crate::collectives::{Entry, compare, is_pairwise};
use crate::finding::Findings;
use crate::turn::{Begun, Part};
use refrain_analysis::matching::Kind;
use refrain_mpi::semantics::{self, Collective, Pattern, Root};
use std::sync::Arc;

/// So many parts of one collective are compared with each new one.
const COMPARED: usize = 64;

/// A collective that not all members have left.
#[derive(Default)]
pub(super) struct Gathering {
    pub(super) entries: Vec<Arc<Entry>>,
    all: Option<Clock>,
    root: Option<Clock>,
    /// How many members have come.
    come: usize,
    /// How many have left.
    pub(super) left: usize,
    /// Processes that wait for the last member.
    waiting: Vec<usize>,
}

impl Gathering {
    /// Compares a part with those that have come before. Returns whether the functions are the same.
    fn compare(&self, kind: Kind, entry: &Entry, findings: &mut Findings) -> bool {
        let Some(first) = self.entries.first() else { return true };
        if !compare(kind, first, entry, findings) {
            return false;
        }
        if is_pairwise(entry) {
            for other in self.entries.iter().skip(1) {
                compare(kind, other, entry, findings);
            }
        }
        true
    }
}

impl Job<'_> {
    /// A process waits until the last member has come to a collective.
    pub(super) fn wait_in(&mut self, at: usize, key: (u64, u64)) {
        if let Some(gathering) = self.gatherings.get_mut(&key)
            && !gathering.waiting.contains(&at)
        {
            gathering.waiting.push(at);
        }
    }

    /// Whether all members have come to a collective.
    pub(super) fn is_complete(&self, key: (u64, u64), members: usize) -> bool {
        self.gatherings.get(&key).is_none_or(|gathering| gathering.come >= members)
    }

    /// A process enters a collective.
    pub(super) fn enter(
        &mut self,
        at: usize,
        (scope, nth): (usize, u64),
        entry: &Arc<Entry>,
        findings: &mut Findings,
    ) {
        let rank = &mut self.ranks[at];
        if let Some(entered) = rank.entered.get_mut(scope) {
            *entered = nth;
        }
        let Some((identity, scope)) =
            rank.scopes.get(scope).map(|(id, scope)| (*id, scope.clone()))
        else {
            return;
        };
        rank.clock.tick(at);
        let clock = rank.clock.clone();
        let gathering = self.gatherings.entry((identity, nth)).or_default();
        if !self.diverged.contains(&identity) {
            let fits = gathering.compare(scope.kind, entry, findings);
            if !fits {
                self.diverged.insert(identity);
            }
        }
        gathering.come += 1;
        if gathering.come == scope.members.len() {
            self.woken.append(&mut gathering.waiting);
        }
        if gathering.entries.len() < COMPARED {
            gathering.entries.push(entry.clone());
        }
        if entry.is_root == Some(true) {
            gathering.root = Some(clock.clone());
        }
        match &mut gathering.all {
            Some(all) => all.join(&clock),
            None => gathering.all = Some(clock),
        }
    }

    /// A process leaves a collective, and knows what it tells.
    pub(super) fn leave(&mut self, at: usize, key: (u64, u64), members: usize, begun: &Begun) {
        let Some(gathering) = self.gatherings.get_mut(&key) else { return };
        let Part::Collective(entry) = &begun.part else { return };
        let learns_all = match entry.function.op() {
            semantics::Op::Collective(kind) => match (kind.pattern(), kind.root()) {
                (Pattern::OneToAll, _) | (_, Some(Root::Source)) => false,
                (Pattern::AllToOne, _) => entry.is_root != Some(false),
                _ => true,
            },
            semantics::Op::Free(semantics::Object::Comm) => false,
            _ => true,
        };
        let is_from_root = matches!(
            entry.function.op(),
            semantics::Op::Collective(
                Collective::Bcast | Collective::Scatter | Collective::Scatterv
            )
        );
        let learned = match (learns_all, is_from_root) {
            (true, _) => gathering.all.clone(),
            (false, true) => gathering.root.clone().or(gathering.all.clone()),
            (false, false) => None,
        };
        if let Some(clock) = learned {
            self.ranks[at].clock.join(&clock);
        }
        gathering.left += 1;
        if gathering.left >= members {
            self.gatherings.remove(&key);
        }
    }
}
