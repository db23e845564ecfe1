//! The lower bound of this process's future stamps, and which processes to query for theirs.

use super::{Need, Replayer, State, Stream};
use crate::Turn;
use crate::clock::bound_queries::{BoundQueries, ClockBound};
use crate::clock::record::CLOCK_KEY;

/// The number of no thread: asking for its turn returns the thread that is next.
const NO_THREAD: u32 = u32::MAX;

impl Replayer {
    /// What is known about the stamp of this process's next message, relative to a queried clock.
    pub(super) fn clock_bound(&self, clock: u64) -> ClockBound {
        let streams = self.next_to_set_clock();
        if streams.is_empty() {
            return ClockBound::AtLeast(u64::MAX);
        }
        if self.clock.now() > clock {
            return ClockBound::AtLeast(self.clock.now());
        }
        let mut laggards = Vec::new();
        let mut waiting = false;
        for stream in streams {
            match &stream.state {
                State::AwaitsTurn | State::Ended => {}
                State::Running | State::Truncated => return ClockBound::Unknown,
                State::InCollective(_, bound) if *bound > clock => waiting = true,
                State::InCollective(missing, _) if missing.is_empty() => {
                    return ClockBound::Unknown;
                }
                State::InCollective(missing, _) => {
                    waiting = true;
                    laggards.extend(missing);
                }
                State::Waiting(needs) => {
                    let Some(need) = needs.iter().find(|need| self.is_late(need, clock)) else {
                        return ClockBound::Unknown;
                    };
                    waiting = true;
                    laggards.extend(self.laggards(need, clock));
                }
            }
        }
        if !waiting {
            return ClockBound::Unknown;
        }
        laggards.sort_unstable();
        laggards.dedup();
        laggards.retain(|sender| *sender != self.me);
        ClockBound::LaterUnless(laggards)
    }

    /// The threads of which one is the next to set the clock in a way that other processes can observe.
    fn next_to_set_clock(&self) -> Vec<&Stream> {
        let next = match self.turns.turn(NO_THREAD, CLOCK_KEY) {
            // No other thread can set the clock before that one.
            Turn::After(next) => Some(self.streams.get(next as usize).into_iter().collect()),
            Turn::Go => None,
        };
        let is_ended = |stream: &Stream| matches!(stream.state, State::Ended);
        if self.collectives && self.complete {
            if self.is_clock_shared {
                let next: Vec<&Stream> = next.unwrap_or_default();
                return next.into_iter().filter(|stream| !is_ended(stream)).collect();
            }
            // Other processes never observe threads that post and complete nothing.
            let is_active =
                |number: usize| self.tallies.get(number).is_some_and(|tally| *tally != (0, 0));
            let none = !(0..self.streams.len()).any(is_active);
            let counts = |(number, stream): &(usize, &Stream)| {
                !is_ended(stream) && (none || is_active(*number))
            };
            return self
                .streams
                .iter()
                .enumerate()
                .filter(counts)
                .map(|(_, stream)| stream)
                .collect();
        }
        let sends = |(number, stream): &(usize, &Stream)| {
            let left = self.tallies.get(*number).is_some_and(|(posts, _)| stream.posted < *posts);
            !is_ended(stream) && (left || !self.complete)
        };
        let streams: Vec<&Stream> =
            self.streams.iter().enumerate().filter(sends).map(|(_, stream)| stream).collect();
        if streams.is_empty() { streams } else { next.unwrap_or(streams) }
    }

    /// Whether the needed message is not stamped before a clock, unless another message arrives.
    pub(super) fn is_late(&self, need: &Need, clock: u64) -> bool {
        self.expected_clock(need).is_none_or(|expected| expected >= clock)
    }

    /// The stamp of the needed message, as far as known.
    pub(super) fn expected_clock(&self, need: &Need) -> Option<u64> {
        let found = match *need {
            Need::Position { chunk, table, position } => {
                self.arrivals.candidate(chunk, table, position)
            }
            Need::Named { communicator, from, nth } => {
                // Another thread may have received the messages before it meanwhile.
                let nth = if self.streams.len() > 1 { 0 } else { nth };
                self.arrivals.nth(communicator, from, nth)
            }
            Need::Numbered { sender, sequence } => self.arrivals.message(sender, sequence),
        };
        found.map(|one| one.stamp.clock)
    }

    /// Whether the needed message has arrived meanwhile, and is certain.
    fn has_arrived(&self, need: &Need) -> bool {
        !matches!(need, Need::Position { .. }) && self.expected_clock(need).is_some()
    }

    pub(super) fn laggards(&self, need: &Need, clock: u64) -> Vec<u32> {
        match *need {
            _ if self.has_arrived(need) => Vec::new(),
            Need::Position { chunk, .. } => self.arrivals.laggards(chunk, clock),
            Need::Numbered { sender, .. } if self.arrivals.bound(sender) <= clock => vec![sender],
            Need::Numbered { .. } => Vec::new(),
            Need::Named { .. } => self.arrivals.all_laggards(clock),
        }
    }

    /// Reconsiders all queries after something has changed, and begins one if necessary.
    pub(super) fn reconsider(&mut self) {
        self.arrivals.raise_bound(self.me, self.clock.now());
        let mut queries = std::mem::replace(&mut self.queries, BoundQueries::new(self.me));
        if !queries.is_idle() {
            queries.reconsider(|clock| self.clock_bound(clock));
        }
        self.queries = queries;
        self.query();
    }

    /// Begins a query for the waiting call with the earliest messages, if there is one.
    pub(super) fn query(&mut self) {
        let target = |stream: &Stream| match &stream.state {
            State::Waiting(needs) => {
                let open = || needs.iter().filter(|need| !self.has_arrived(need));
                let expected: Option<Vec<u64>> =
                    open().map(|need| self.expected_clock(need)).collect();
                let clock = expected?.into_iter().max()?;
                Some((clock, open().copied().collect::<Vec<Need>>()))
            }
            _ => None,
        };
        let targets = self.streams.iter().filter_map(target);
        let Some((clock, needs)) = targets.min_by_key(|(clock, _)| *clock) else {
            self.queries.drop_query();
            return;
        };
        if self.queries.queried_clock() == Some(clock) {
            return;
        }
        let mut laggards: Vec<u32> =
            needs.iter().flat_map(|need| self.laggards(need, clock)).collect();
        if laggards.contains(&self.me) {
            match self.clock_bound(clock) {
                ClockBound::Unknown => return self.queries.drop_query(),
                ClockBound::LaterUnless(more) => laggards.extend(more),
                ClockBound::AtLeast(_) => {}
            }
        }
        laggards.sort_unstable();
        laggards.dedup();
        let agreed = laggards.contains(&self.me);
        laggards.retain(|sender| *sender != self.me);
        if laggards.is_empty() {
            self.queries.drop_query();
            if agreed {
                self.arrivals.raise_bound(self.me, clock.saturating_add(1));
            }
            return;
        }
        self.queries.query(clock, laggards, agreed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::Recorder;
    use crate::clock::{Answer, Note, Sending};
    use crate::{
        Call, Completed, Envelope, Finished, Kind, MatchResult, Post, Recording as _, Stop,
    };

    /// A replayer whose record has one send.
    fn replayer() -> Replayer {
        let mut recorder = Recorder::new(0);
        let post = Post { site: 0, communicator: 0, source: Some(0), tag: Some(1) };
        let ticket = recorder.post(0, &post);
        recorder.stamp(ticket, 1);
        let mut record = Vec::new();
        recorder.finish(&mut record);
        Replayer::new(record, 0, 4).expect("a record just made")
    }

    #[test]
    fn a_rank_in_a_collective_waits_for_the_ranks_that_have_not_entered() {
        let mut replayer = replayer();
        assert_eq!(replayer.clock_bound(7), ClockBound::Unknown);
        replayer.waits_in_collective(0, &[1, 3], 0);
        assert_eq!(replayer.clock_bound(7), ClockBound::LaterUnless(vec![1, 3]));
        replayer.waits_in_collective(0, &[3], 0);
        assert_eq!(replayer.clock_bound(7), ClockBound::LaterUnless(vec![3]));
        // The collective may end at any moment now.
        replayer.waits_in_collective(0, &[], 0);
        assert_eq!(replayer.clock_bound(7), ClockBound::Unknown);
        replayer.resumes(0);
        assert_eq!(replayer.clock_bound(7), ClockBound::Unknown);
    }

    /// Other processes in the same collective could continue with an early clock.
    #[test]
    fn a_rank_without_sends_may_still_be_awaited_in_a_collective() {
        let mut record = Vec::new();
        Recorder::new(0).finish(&mut record);
        let mut replayer = Replayer::new(record, 0, 4).expect("a record just made");
        assert_eq!(replayer.clock_bound(7), ClockBound::AtLeast(u64::MAX));
        replayer.expect_collectives();
        assert_eq!(replayer.clock_bound(7), ClockBound::Unknown);
        replayer.all_ended();
        assert_eq!(replayer.clock_bound(7), ClockBound::AtLeast(u64::MAX));
    }

    #[test]
    fn sends_after_a_collective_of_all_ranks_have_later_clocks() {
        let mut replayer = replayer();
        replayer.waits_in_collective(0, &[1, 3], 1 << 32);
        assert_eq!(replayer.clock_bound(7), ClockBound::LaterUnless(Vec::new()));
        assert_eq!(replayer.clock_bound(1 << 32), ClockBound::LaterUnless(vec![1, 3]));
        replayer.all_ended();
        assert_eq!(replayer.clock_bound(1 << 40), ClockBound::AtLeast(u64::MAX));
    }

    /// The program continued after the end of its record, and others may have recorded messages it sent then.
    #[test]
    fn after_the_end_of_a_truncated_record_there_is_no_lower_bound() {
        let mut recorder = Recorder::new(0);
        let post = Post { site: 0, communicator: 0, source: Some(0), tag: Some(1) };
        let ticket = recorder.post(0, &post);
        recorder.stamp(ticket, 1);
        let mut record = Vec::new();
        recorder.seal(&mut record);
        let mut replayer = Replayer::new(record, 0, 4).expect("a record just made");
        let sending = Sending { to: 1, communicator: 0, source: 0, tag: 1 };
        assert!(replayer.send(0, &sending).is_ok_and(|stamp| stamp.is_some()));
        assert_eq!(replayer.send(0, &sending), Err(Stop::RecordEnds));
        assert_eq!(replayer.clock_bound(7), ClockBound::Unknown);
    }

    /// A message counts when it arrives, not only when the program asks for it again.
    #[test]
    fn a_rank_whose_awaited_message_has_arrived_makes_no_promise_about_its_sends() {
        let from = Envelope { source: 1, tag: 7 };
        let sent = Note::Sent { clock: 3, communicator: 0, source: 1, tag: 7 };
        let probe = Call { kind: Kind::Probe, site: 1, count: 0 };
        let receive = Call { kind: Kind::Recv, site: 2, count: 0 };
        let post = Post { site: 2, communicator: 0, source: Some(1), tag: Some(7) };
        let mut recorder = Recorder::new(0);
        recorder.receive_note(1, &sent);
        for call in [probe, receive] {
            // A probe is posted only to get a ticket, after it has found something.
            let found = recorder.stamp_of(None, 0, from);
            let ticket = recorder.post(0, &post);
            let known = (call == receive).then_some(ticket);
            let stamp = if call == probe { found } else { recorder.stamp_of(known, 0, from) };
            let finished = [Finished { ticket, match_result: MatchResult::Matched(from), stamp }];
            let tickets = [known];
            recorder.completed(0, &call, &tickets, Completed::All, &finished);
        }
        let mut record = Vec::new();
        recorder.finish(&mut record);

        let mut probing = Replayer::new(record.clone(), 0, 3).expect("a record just made");
        probing.expect_collectives();
        assert_eq!(probing.call(0, &probe, &[]), Ok(Answer::Later));
        let mut receiving = Replayer::new(record, 0, 3).expect("a record just made");
        receiving.expect_collectives();
        let ticket = receiving.receive(0, &post).ok();
        assert_eq!(receiving.call(0, &receive, &[ticket]), Ok(Answer::Later));
        for mut replayer in [probing, receiving] {
            replayer.receive_note(2, Note::Query { origin: 2, serial: 1, clock: 5 });
            replayer.receive_note(1, sent);
            replayer.receive_note(1, Note::Bound { origin: 2, serial: 1, clock: 6, sure: true });
            let sent: Vec<(u32, Note)> = std::iter::from_fn(|| replayer.next_note()).collect();
            let is_answer = |(_, note): &&(u32, Note)| matches!(note, Note::Bound { .. });
            assert_eq!(sent.iter().find(is_answer), None, "{sent:?}");
            assert_eq!(replayer.clock_bound(5), ClockBound::Unknown);
        }
    }
}
