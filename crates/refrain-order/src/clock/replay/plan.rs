//! Which messages a successful call gets, and whether they have arrived.

use super::{Need, Replayer, State};
use crate::clock::Delivery;
use crate::clock::arrivals::Arrived;
use crate::clock::loaded::Row;
use crate::clock::record::{CLOCK_KEY, is_probe};
use crate::clock::table::Other;
use crate::{Call, Choice, Envelope, Ticket};

/// What one request of a call gets.
#[derive(Clone, Copy, Debug)]
pub enum Planned {
    /// This message, for the request at this index, or for the n-th request that accepts it.
    Receive(Arrived, Result<u32, usize>),
    /// This message is probed.
    Probe(Arrived),
    /// The request at this index completes without a new message.
    Complete(u32),
    /// The receive at this index was cancelled.
    Cancelled(u32),
}

impl Replayer {
    /// Plans a call that completes all of its requests. The rows are those of receives that have a choice.
    pub(super) fn plan_all(
        &self,
        tickets: &[Option<Ticket>],
        rows: &[Row],
        (chunk, table): (u64, u32),
        needs: &mut Vec<Need>,
    ) -> Option<Vec<Planned>> {
        let mut rows = rows.iter().filter(|row| **row != Row::Other(Other::Nothing));
        let mut planned = Vec::new();
        for (index, ticket) in (0..).zip(tickets) {
            let Some(open) = ticket.and_then(|ticket| self.receives.get(ticket)) else { continue };
            let (found, need) = match self.receives.certain(open) {
                Some(nth) => {
                    let from = Envelope {
                        source: open.post.source.unwrap_or(0),
                        tag: open.post.tag.unwrap_or(0),
                    };
                    let communicator = open.post.communicator;
                    let found = self.arrivals.nth(communicator, from, nth);
                    (found, Need::Named { communicator, from, nth })
                }
                None => match rows.next()? {
                    Row::Other(Other::Cancelled) => {
                        planned.push(Planned::Cancelled(index));
                        continue;
                    }
                    Row::Message(position, _) => {
                        let found = self.arrivals.decide(chunk, table, *position);
                        if found.is_some_and(|one| !open.accepts(one.communicator, one.from)) {
                            return None;
                        }
                        (found, Need::Position { chunk, table, position: *position })
                    }
                    Row::Other(_) => return None,
                },
            };
            match found {
                Some(arrived) => planned.push(Planned::Receive(arrived, Ok(index))),
                None => needs.push(need),
            }
        }
        if rows.next().is_some() { None } else { Some(planned) }
    }

    /// Plans a probe, or a call that chooses from its requests.
    pub(super) fn plan_these(
        &self,
        rows: &[Row],
        (chunk, table): (u64, u32),
        needs: &mut Vec<Need>,
    ) -> Option<Vec<Planned>> {
        let mut planned = Vec::new();
        for row in rows {
            match row {
                Row::Message(position, claim) => {
                    match self.arrivals.decide(chunk, table, *position) {
                        Some(arrived) => planned.push(Planned::Receive(arrived, Err(*claim))),
                        None => needs.push(Need::Position { chunk, table, position: *position }),
                    }
                }
                Row::Other(Other::Probed(sender, sequence)) => {
                    match self.arrivals.message(*sender, *sequence) {
                        Some(arrived) => planned.push(Planned::Probe(arrived)),
                        None => needs.push(Need::Numbered { sender: *sender, sequence: *sequence }),
                    }
                }
                Row::Other(Other::Index(index)) => planned.push(Planned::Complete(*index)),
                Row::Other(_) => return None,
            }
        }
        Some(planned)
    }

    /// Plans a call that succeeds with these rows: what it gets, or which messages it waits for. `None` if the rows do
    /// not fit such a call.
    pub(super) fn plan(
        &self,
        call: &Call,
        tickets: &[Option<Ticket>],
        rows: &[Row],
        part: (u64, u32),
    ) -> Option<Result<Vec<Planned>, Vec<Need>>> {
        let mut needs = Vec::new();
        let chooses = call.kind.choice() != Choice::All;
        let planned = if chooses && rows == [Row::Other(Other::Undefined)] {
            Vec::new()
        } else if chooses || is_probe(call.kind) {
            self.plan_these(rows, part, &mut needs)?
        } else {
            self.plan_all(tickets, rows, part, &mut needs)?
        };
        Some(if needs.is_empty() { Ok(planned) } else { Err(needs) })
    }

    /// Whether the planned completion takes a turn of the clock.
    pub(super) fn takes_turn(&self, planned: &Planned, tickets: &[Option<Ticket>]) -> bool {
        match planned {
            Planned::Receive(..) | Planned::Probe(_) | Planned::Cancelled(_) => true,
            Planned::Complete(index) => {
                let ticket = tickets.get(*index as usize).copied().flatten();
                ticket.is_some_and(|ticket| self.receives.get(ticket).is_some())
            }
        }
    }

    /// Carries a plan out. Returns whether it fits the call.
    pub(super) fn commit(
        &mut self,
        stream: u32,
        call: &Call,
        tickets: &[Option<Ticket>],
        all: &[Planned],
    ) -> bool {
        for planned in all {
            if self.takes_turn(planned, tickets) {
                self.turns.took(CLOCK_KEY);
            }
            let (index, arrived, cancelled) = match planned {
                Planned::Receive(arrived, at) => {
                    let index = match at {
                        Ok(index) => Some(*index),
                        Err(_) if is_probe(call.kind) => Some(0),
                        Err(claim) => {
                            let Arrived { communicator, from, .. } = *arrived;
                            let accepting = self.receives.accepting(tickets, communicator, from);
                            accepting.get(*claim).copied()
                        }
                    };
                    let Some(index) = index else { return false };
                    self.arrivals.receive(arrived);
                    self.clock.receive(arrived.stamp.clock);
                    (index, Some(*arrived), false)
                }
                Planned::Probe(arrived) => {
                    // Messages sent after the probe must have later stamps, too.
                    self.clock.receive(arrived.stamp.clock);
                    (0, Some(*arrived), false)
                }
                Planned::Complete(index) => {
                    let Some(ticket) = tickets.get(*index as usize) else { return false };
                    let open = ticket.and_then(|ticket| self.receives.get(ticket)).is_some();
                    (*index, None, open)
                }
                Planned::Cancelled(index) => (*index, None, true),
            };
            if let Some(ticket) = tickets.get(index as usize).copied().flatten() {
                self.receives.close(ticket);
            }
            let message = arrived.map(|arrived| arrived.stamp);
            self.deliveries.push(Delivery { index, message, cancelled });
        }
        self.stream(stream).state = State::Running;
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::Recorder;
    use crate::clock::{Answer, Note};
    use crate::{Completed, Finished, Kind, MatchResult, Post, Recording as _, Stamp};

    /// MPI may leave requests pending that a call would complete, because another request failed.
    #[test]
    fn requests_that_a_failed_call_left_pending_complete_later() {
        for source in [Some(1), None] {
            let post = Post { site: 2, communicator: 0, source, tag: Some(7) };
            let from = Envelope { source: 1, tag: 7 };
            let sent = |clock| Note::Sent { clock, communicator: 0, source: 1, tag: 7 };
            let call = |kind, count| Call { kind, site: 3, count };
            let mut recorder = Recorder::new(0);
            let tickets = [recorder.post(0, &post), recorder.post(0, &post)];
            let mut notes = Vec::new();
            for (ticket, clock) in tickets.into_iter().zip([3, 5]) {
                recorder.receive_note(1, &sent(clock));
                notes.push(sent(clock));
                let stamp = recorder.stamp_of(Some(ticket), 0, from);
                let finished =
                    [Finished { ticket, match_result: MatchResult::Matched(from), stamp }];
                let open = tickets.map(|ticket| recorder.is_open(ticket).then_some(ticket));
                let (call, open, completed) = match clock {
                    3 => (call(Kind::Waitall, 2), &open[..], Completed::These(&[0])),
                    _ => (call(Kind::Wait, 0), &open[1..], Completed::All),
                };
                recorder.completed(0, &call, open, completed, &finished);
            }
            let mut record = Vec::new();
            recorder.finish(&mut record);

            let mut replayer = Replayer::new(record, 0, 2).expect("a record just made");
            let tickets = [replayer.receive(0, &post).ok(), replayer.receive(0, &post).ok()];
            notes.into_iter().for_each(|note| replayer.receive_note(1, note));
            let got = |index, sequence, clock| Delivery {
                index,
                message: Some(Stamp { sender: 1, sequence, clock }),
                cancelled: false,
            };
            assert_eq!(replayer.left_pending(0), [1]);
            let all = replayer.call(0, &call(Kind::Waitall, 2), &tickets);
            assert_eq!(all, Ok(Answer::All(&[got(0, 0, 3)])));
            assert_eq!(replayer.left_pending(0), [0; 0]);
            let one = replayer.call(0, &call(Kind::Wait, 0), &tickets[1..]);
            assert_eq!(one, Ok(Answer::All(&[got(0, 1, 5)])));
            assert_eq!(replayer.finish(), Ok(()));
        }
    }
}
