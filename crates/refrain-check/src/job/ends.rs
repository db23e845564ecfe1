//! Where no process can go on: why, and which may pass; and what is left at the end.

use super::{Job, Rank, Released};
use crate::finding::{Class, Findings, Place};
use crate::races::races;
use crate::stuck::{self, Waiting};
use crate::turn::{End, Part};
use refrain_analysis::matching::{Need, Operation, Until};
use refrain_analysis::waits::{Life, RankWaitState};
use refrain_mpi::semantics::Mode;
use refrain_reader::Ended;
use std::collections::BTreeMap;
use std::sync::Arc;

impl Job<'_> {
    /// No process can go on: reports why, and lets some pass.
    pub(super) fn release(&mut self, blocked: &[usize], findings: &mut Findings) {
        let sites =
            |at: &usize| self.ranks[*at].turn.as_ref().and_then(|turn| turn.place.site.clone());
        let mut key: Vec<Option<Arc<str>>> = blocked.iter().map(sites).collect();
        key.sort();
        key.dedup();
        let is_new = self.reported.insert(key);
        let waits_in_send = |at: &usize| {
            let rank = &self.ranks[*at];
            let unmet = |end: &End| {
                matches!(end.begun.part, Part::Send(Mode::Standard, _))
                    && self.unmet(*at, end).is_some()
            };
            rank.turn.as_ref().is_some_and(|turn| turn.ends.iter().any(unmet))
        };
        let waits_in_collective = |at: &usize| {
            let rank = &self.ranks[*at];
            let unmet = |end: &End| {
                matches!(end.begun.part, Part::Collective(_)) && self.unmet(*at, end).is_some()
            };
            rank.turn.as_ref().is_some_and(|turn| turn.ends.iter().any(unmet))
        };
        let sending: Vec<usize> = blocked.iter().copied().filter(waits_in_send).collect();
        let gathering: Vec<usize> = blocked.iter().copied().filter(waits_in_collective).collect();
        let (level, which) = match (sending.is_empty(), gathering.is_empty()) {
            (false, _) => (Released::Sends, sending),
            (true, false) => (Released::Collectives, gathering),
            (true, true) => (Released::All, blocked.to_vec()),
        };
        if is_new && level != Released::All && !self.is_doubtful && !findings.is_fatal() {
            let waiting = self.waiting();
            let graph = stuck::graph(self.states(), &waiting);
            let returned =
                |rank: &i32| waiting.get(rank).is_some_and(|waiting| waiting.has_returned);
            let diverged = findings.has(Class::CollectiveOrder) || findings.has(Class::RmaEpoch);
            if graph.stuck.iter().any(returned) && !(diverged && level == Released::Collectives) {
                stuck::report(&graph, &waiting, false, findings);
            }
        }
        if level == Released::All {
            self.is_doubtful = true;
        }
        for at in which {
            let released = &mut self.ranks[at].released;
            *released = (*released).max(level);
        }
    }

    /// What each process waits for now.
    fn waiting(&self) -> BTreeMap<i32, Waiting> {
        let mut all = BTreeMap::new();
        for (at, rank) in self.ranks.iter().enumerate() {
            if let Some(turn) = &rank.turn {
                if turn.may_differ {
                    continue;
                }
                let need = |end: &End| {
                    self.unmet(at, end)?;
                    let what = match end.begun.op.what {
                        Operation::Collective { scope, nth, .. } => {
                            Operation::Collective { scope, nth, root: None }
                        }
                        what => what,
                    };
                    Some((Need::Operation(what), end.begun.place.clone()))
                };
                let needs = turn.ends.iter().filter_map(need).collect();
                let (place, until) = (turn.place.clone(), Until::All);
                all.insert(rank.rank, Waiting { place, has_returned: true, needs, until });
            } else if let Some(turn) = &rank.open
                && let Some(open) = &turn.open
            {
                let (place, needs, until) = (turn.place.clone(), open.needs.clone(), open.until);
                all.insert(rank.rank, Waiting { place, has_returned: false, needs, until });
            }
        }
        all
    }

    /// What each process has done, for the wait-for graph.
    fn states(&self) -> Vec<RankWaitState> {
        let state = |rank: &Rank<'_>| {
            let counts = rank.process.tracker.counts().clone();
            let scopes = rank.scopes.iter().zip(&rank.entered);
            RankWaitState {
                life: match rank.is_over && rank.process.is_finalized {
                    true => Life::Finished,
                    // A process that was killed might have gone on.
                    false => Life::Here,
                },
                scopes: scopes.map(|((_, scope), entered)| (scope.clone(), *entered)).collect(),
                sent: counts.sent,
                named: counts.named,
                matched: counts.matched,
                open: rank.process.wildcards.iter().copied().collect(),
                ..RankWaitState::new(rank.rank)
            }
        };
        self.ranks.iter().map(state).collect()
    }

    /// All processes have ended, or are in calls that never returned.
    pub(super) fn finish(&mut self, findings: &mut Findings) {
        if findings.is_fatal() || self.ranks.iter().any(|rank| rank.process.has_errors) {
            return;
        }
        let waiting = self.waiting();
        if !waiting.is_empty() {
            let graph = stuck::graph(self.states(), &waiting);
            if !graph.stuck.is_empty() {
                stuck::report(&graph, &waiting, true, findings);
            }
        }
        if self.is_doubtful {
            return;
        }
        let has_ended =
            |rank: i32| self.index(rank).is_some_and(|at| self.ranks[at].process.is_finalized);
        self.messages.finish(has_ended, findings);
        if self.has_clocks {
            let mut inboxes: Vec<_> = self.messages.received.iter().collect();
            inboxes.sort_by_key(|(inbox, _)| **inbox);
            for (inbox, received) in inboxes {
                if self.messages.is_settled(*inbox) {
                    races(received, findings);
                }
            }
        }
        self.ends(findings);
    }

    /// Processes that ended without `MPI_Finalize`, though others did call it.
    fn ends(&self, findings: &mut Findings) {
        let some_finalized = self.ranks.iter().any(|rank| rank.process.is_finalized);
        let none_in_a_call = self.ranks.iter().all(|rank| rank.open.is_none());
        for rank in &self.ranks {
            let left = matches!(rank.ended, Ended::Unfinalized) && !rank.process.is_finalized;
            if left && some_finalized && none_in_a_call && !rank.scopes.is_empty() {
                let place = Place {
                    rank: rank.rank,
                    thread: 0,
                    number: 0,
                    function: "MPI_Init",
                    site: None,
                };
                let message = "A rank ends without MPI_Finalize, which other ranks call.";
                findings.add(Class::MissingFinalize, message, vec![place]);
            }
        }
    }
}
