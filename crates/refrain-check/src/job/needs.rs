//! What calls wait for, and what a process knows once it has passed one.

use super::{Job, On, Released};
use crate::turn::{End, Part, Turn};
use refrain_analysis::matching::{Lanes, Operation};
use refrain_mpi::semantics::Mode;

impl Job<'_> {
    /// Whether what a call waits for has happened.
    pub(super) fn is_ready(&self, at: usize, turn: &Turn) -> bool {
        turn.ends.iter().all(|end| self.unmet(at, end).is_none())
    }

    /// What the process waits for first.
    pub(super) fn missing(&self, at: usize) -> Option<On> {
        let turn = self.ranks[at].turn.as_ref()?;
        turn.ends.iter().find_map(|end| self.unmet(at, end))
    }

    pub(super) fn index(&self, rank: i32) -> Option<usize> {
        usize::try_from(rank).ok().filter(|at| *at < self.ranks.len())
    }

    /// What the end of an operation waits for; none if it has happened, or is not waited for.
    pub(super) fn unmet(&self, at: usize, end: &End) -> Option<On> {
        let me = &self.ranks[at];
        if !end.is_awaited || me.released == Released::All {
            return None;
        }
        match end.begun.op.what {
            Operation::Send { lane: (scope, to, tag), nth } => {
                let waits = match &end.begun.part {
                    Part::Send(Mode::Standard, _) => {
                        !self.options.assume_buffering && me.released == Released::Nothing
                    }
                    Part::Send(Mode::Synchronous, _) => true,
                    _ => false,
                };
                if !waits {
                    return None;
                }
                let there = self.index(to)?;
                let other = &self.ranks[there];
                let Some(scope) = other.by_identity.get(&self.identity(at, scope)?) else {
                    return Some(On::Rank(there));
                };
                let lane = (*scope, me.rank, tag);
                let counts = other.process.tracker.counts();
                let of = |lanes: &Lanes| lanes.get(&lane).copied().unwrap_or(0);
                let open = other.process.wildcards.fitting(*scope, me.rank, tag);
                (of(&counts.named) + of(&counts.matched) + open < nth).then_some(On::Rank(there))
            }
            Operation::Receive(receive) => {
                let (scope, from, tag) = end.lane?;
                let there = self.index(from)?;
                let other = &self.ranks[there];
                let Some(scope_there) = other.by_identity.get(&self.identity(at, scope)?) else {
                    return Some(On::Rank(there));
                };
                let sent = other.process.tracker.counts().sent.get(&(*scope_there, me.rank, tag));
                let matched = me.process.tracker.counts().matched.get(&(scope, from, tag));
                // A named receive also follows those with wildcards that have taken messages of its lane.
                let taken = receive.nth + matched.copied().unwrap_or(0);
                (sent.copied().unwrap_or(0) < taken).then_some(On::Rank(there))
            }
            Operation::Collective { scope, nth, .. } => {
                if me.released >= Released::Collectives {
                    return None;
                }
                let (identity, scope) = me.scopes.get(scope)?;
                let key = (*identity, nth);
                (!self.is_complete(key, scope.members.len())).then_some(On::Collective(key))
            }
        }
    }

    /// A process passes a call.
    pub(super) fn pass(&mut self, at: usize, turn: Turn) {
        let me = self.ranks[at].rank;
        for end in &turn.ends {
            match end.begun.op.what {
                Operation::Send { .. } => {}
                Operation::Receive(_) => {
                    let step = self.ranks[at].clock.tick(at);
                    match self.messages.complete(me, end.begun.op.id, step) {
                        Some(clock) => self.ranks[at].clock.join(&clock),
                        // What this process knows now is not known.
                        None => self.is_doubtful = true,
                    }
                }
                Operation::Collective { scope, nth, .. } => {
                    let Some(scope) = self.ranks[at].scopes.get(scope) else { continue };
                    let (key, members) = ((scope.0, nth), scope.1.members.len());
                    self.leave(at, key, members, &end.begun);
                }
            }
        }
    }
}
