//! What can be said to others, and what has to be asked.

use super::{Need, Replayer, State, Stream};
use crate::Turn;
use crate::clock::record::CLOCK_LINE;
use crate::clock::talk::{ClockBound, Talk};

/// Asks whose turn it is.
const NOBODY: u32 = u32::MAX;

impl Replayer {
    /// What can be said of the next message of this process, when asked about a clock.
    pub(super) fn clock_bound(&self, clock: u64) -> ClockBound {
        let streams = self.setting_clock();
        if streams.is_empty() {
            return ClockBound::Sure(u64::MAX);
        }
        if self.clock.now() > clock {
            return ClockBound::Sure(self.clock.now());
        }
        let mut laggards = Vec::new();
        let mut waiting = false;
        for stream in streams {
            match &stream.state {
                State::InLine | State::Over => {}
                State::Busy | State::Cut => return ClockBound::Busy,
                State::Gathering(_, bound) if *bound > clock => waiting = true,
                State::Gathering(missing, _) if missing.is_empty() => return ClockBound::Busy,
                State::Gathering(missing, _) => {
                    waiting = true;
                    laggards.extend(missing);
                }
                State::Waiting(needs) => {
                    let Some(need) = needs.iter().find(|need| self.is_late(need, clock)) else {
                        return ClockBound::Busy;
                    };
                    waiting = true;
                    laggards.extend(self.laggards(need, clock));
                }
            }
        }
        if !waiting {
            return ClockBound::Busy;
        }
        laggards.sort_unstable();
        laggards.dedup();
        laggards.retain(|sender| *sender != self.me);
        ClockBound::If(laggards)
    }

    /// Threads of which one will be the next to set the clock, as far as others can hear of it.
    fn setting_clock(&self) -> Vec<&Stream> {
        let next = match self.turns.turn(NOBODY, CLOCK_LINE) {
            // Nobody else can set the clock before that thread does.
            Turn::After(next) => Some(self.streams.get(next as usize).into_iter().collect()),
            Turn::Go => None,
        };
        let is_over = |own: &Stream| matches!(own.state, State::Over);
        if self.gatherings && self.complete {
            if self.is_clock_shared {
                let next: Vec<&Stream> = next.unwrap_or_default();
                return next.into_iter().filter(|own| !is_over(own)).collect();
            }
            // Threads that only wait for others are never heard of.
            let is_active = |number: usize| self.done.get(number).is_some_and(|own| *own != (0, 0));
            let none = !(0..self.streams.len()).any(is_active);
            let counts =
                |(number, own): &(usize, &Stream)| !is_over(own) && (none || is_active(*number));
            return self.streams.iter().enumerate().filter(counts).map(|(_, own)| own).collect();
        }
        let sends = |(number, own): &(usize, &Stream)| {
            let left = self.done.get(*number).is_some_and(|(posts, _)| own.posted < *posts);
            !is_over(own) && (left || !self.complete)
        };
        let streams: Vec<&Stream> =
            self.streams.iter().enumerate().filter(sends).map(|(_, own)| own).collect();
        if streams.is_empty() { streams } else { next.unwrap_or(streams) }
    }

    /// Whether what is needed is not stamped before a clock, unless something comes.
    pub(super) fn is_late(&self, need: &Need, clock: u64) -> bool {
        self.hoped(need).is_none_or(|hoped| hoped >= clock)
    }

    /// The stamp of what is needed, as far as is known.
    pub(super) fn hoped(&self, need: &Need) -> Option<u64> {
        let found = match *need {
            Need::Place { chunk, table, place } => self.arrivals.candidate(chunk, table, place),
            Need::Named { communicator, from, nth } => {
                // Another thread may have received those before it since.
                let nth = if self.streams.len() > 1 { 0 } else { nth };
                self.arrivals.nth(communicator, from, nth)
            }
            Need::Numbered { sender, sequence } => self.arrivals.letter(sender, sequence),
        };
        found.map(|one| one.stamp.clock)
    }

    /// Whether what is needed has come since, and is certain.
    fn has_come(&self, need: &Need) -> bool {
        !matches!(need, Need::Place { .. }) && self.hoped(need).is_some()
    }

    pub(super) fn laggards(&self, need: &Need, clock: u64) -> Vec<u32> {
        match *need {
            _ if self.has_come(need) => Vec::new(),
            Need::Place { chunk, .. } => self.arrivals.laggards(chunk, clock),
            Need::Numbered { sender, .. } if self.arrivals.bound(sender) <= clock => vec![sender],
            Need::Numbered { .. } => Vec::new(),
            Need::Named { .. } => self.arrivals.all_laggards(clock),
        }
    }

    /// Something has changed: looks again at all questions, and whether there is one to be asked.
    pub(super) fn stir(&mut self) {
        self.arrivals.promise(self.me, self.clock.now());
        let mut talk = std::mem::replace(&mut self.talk, Talk::new(self.me));
        if !talk.is_quiet() {
            talk.stir(|clock| self.clock_bound(clock));
        }
        self.talk = talk;
        self.ask();
    }

    /// Asks whether the next call to be decided may be: that with the earliest messages.
    pub(super) fn ask(&mut self) {
        let target = |own: &Stream| match &own.state {
            State::Waiting(needs) => {
                let open = || needs.iter().filter(|need| !self.has_come(need));
                let hoped: Option<Vec<u64>> = open().map(|need| self.hoped(need)).collect();
                let clock = hoped?.into_iter().max()?;
                Some((clock, open().copied().collect::<Vec<Need>>()))
            }
            _ => None,
        };
        let targets = self.streams.iter().filter_map(target);
        let Some((clock, needs)) = targets.min_by_key(|(clock, _)| *clock) else {
            self.talk.drop_question();
            return;
        };
        if self.talk.asking() == Some(clock) {
            return;
        }
        let mut laggards: Vec<u32> =
            needs.iter().flat_map(|need| self.laggards(need, clock)).collect();
        if laggards.contains(&self.me) {
            match self.clock_bound(clock) {
                ClockBound::Busy => return self.talk.drop_question(),
                ClockBound::If(more) => laggards.extend(more),
                ClockBound::Sure(_) => {}
            }
        }
        laggards.sort_unstable();
        laggards.dedup();
        let own = laggards.contains(&self.me);
        laggards.retain(|sender| *sender != self.me);
        if laggards.is_empty() {
            self.talk.drop_question();
            if own {
                self.arrivals.promise(self.me, clock.saturating_add(1));
            }
            return;
        }
        self.talk.ask(clock, laggards, own);
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

    /// A process that has to send something, once.
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
        let mut own = replayer();
        assert_eq!(own.clock_bound(7), ClockBound::Busy);
        own.gathers(0, &[1, 3], 0);
        assert_eq!(own.clock_bound(7), ClockBound::If(vec![1, 3]));
        own.gathers(0, &[3], 0);
        assert_eq!(own.clock_bound(7), ClockBound::If(vec![3]));
        // It may go on at any moment now.
        own.gathers(0, &[], 0);
        assert_eq!(own.clock_bound(7), ClockBound::Busy);
        own.goes_on(0);
        assert_eq!(own.clock_bound(7), ClockBound::Busy);
    }

    /// Another process in the same collective would go on with an early clock.
    #[test]
    fn a_rank_without_sends_may_still_be_awaited_in_a_collective() {
        let mut record = Vec::new();
        Recorder::new(0).finish(&mut record);
        let mut own = Replayer::new(record, 0, 4).expect("a record just made");
        assert_eq!(own.clock_bound(7), ClockBound::Sure(u64::MAX));
        own.expect_gatherings();
        assert_eq!(own.clock_bound(7), ClockBound::Busy);
        own.all_over();
        assert_eq!(own.clock_bound(7), ClockBound::Sure(u64::MAX));
    }

    #[test]
    fn sends_after_a_collective_of_all_ranks_have_later_clocks() {
        let mut own = replayer();
        own.gathers(0, &[1, 3], 1 << 32);
        assert_eq!(own.clock_bound(7), ClockBound::If(Vec::new()));
        assert_eq!(own.clock_bound(1 << 32), ClockBound::If(vec![1, 3]));
        own.all_over();
        assert_eq!(own.clock_bound(1 << 40), ClockBound::Sure(u64::MAX));
    }

    /// The process did more than its record knows, and others may have recorded what came of it.
    #[test]
    fn where_a_record_is_cut_short_nothing_is_certain() {
        let mut recorder = Recorder::new(0);
        let post = Post { site: 0, communicator: 0, source: Some(0), tag: Some(1) };
        let ticket = recorder.post(0, &post);
        recorder.stamp(ticket, 1);
        let mut record = Vec::new();
        recorder.seal(&mut record);
        let mut own = Replayer::new(record, 0, 4).expect("a record just made");
        let sending = Sending { to: 1, communicator: 0, source: 0, tag: 1 };
        assert!(own.send(0, &sending).is_ok_and(|stamp| stamp.is_some()));
        assert_eq!(own.send(0, &sending), Err(Stop::RecordEnds));
        assert_eq!(own.clock_bound(7), ClockBound::Busy);
    }

    /// What has come counts at once, and not only when the program asks for it again.
    #[test]
    fn a_rank_whose_awaited_message_has_arrived_makes_no_promise_about_its_sends() {
        let from = Envelope { source: 1, tag: 7 };
        let sent = Note::Sent { clock: 3, communicator: 0, source: 1, tag: 7 };
        let probe = Call { kind: Kind::Probe, site: 1, count: 0 };
        let receive = Call { kind: Kind::Recv, site: 2, count: 0 };
        let post = Post { site: 2, communicator: 0, source: Some(1), tag: Some(7) };
        let mut recorder = Recorder::new(0);
        recorder.hear(1, &sent);
        for call in [probe, receive] {
            // A probe is posted only to name it, when it has found something.
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
        probing.expect_gatherings();
        assert_eq!(probing.call(0, &probe, &[]), Ok(Answer::Later));
        let mut receiving = Replayer::new(record, 0, 3).expect("a record just made");
        receiving.expect_gatherings();
        let ticket = receiving.receive(0, &post).ok();
        assert_eq!(receiving.call(0, &receive, &[ticket]), Ok(Answer::Later));
        for mut own in [probing, receiving] {
            own.hear(2, Note::Ask { origin: 2, serial: 1, clock: 5 });
            own.hear(1, sent);
            own.hear(1, Note::Nothing { origin: 2, serial: 1, clock: 6, sure: true });
            let said: Vec<(u32, Note)> = std::iter::from_fn(|| own.say()).collect();
            let is_answer = |(_, note): &&(u32, Note)| matches!(note, Note::Nothing { .. });
            assert_eq!(said.iter().find(is_answer), None, "{said:?}");
            assert_eq!(own.clock_bound(5), ClockBound::Busy);
        }
    }
}
