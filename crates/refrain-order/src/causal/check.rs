//! Checks that a rank's record reads to its end and does not contradict itself.
//!
//! A record holds receives and no sends, so whether a received message was ever sent cannot be checked.

use std::collections::BTreeSet;

use crate::causal::frames::{Frames, StreamFrames};
use crate::causal::read::{Reader, Stretch};
use crate::error::OrderError;
use crate::turns::TurnReplayer;
use crate::vocabulary::MatchResult;

/// What a check found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Checked {
    /// Threads.
    pub threads: u64,
    /// Completing calls.
    pub calls: u64,
    /// Wildcard receives and probes.
    pub receives: u64,
    /// Receives whose completing call is recorded.
    pub completions: u64,
    /// Clock readings and random numbers.
    pub values: u64,
    /// What is wrong.
    pub problems: Vec<String>,
}

/// A receive: its thread and its number there.
type Receive = (u32, u64);

/// Checks a rank's record. One that is `finalized` has to have the end of every thread.
pub fn check(frames: &Frames, finalized: bool) -> Checked {
    let mut checked = Checked { threads: frames.streams().len() as u64, ..Checked::default() };
    checked.problems.extend(frames.truncated().map(|error| error.to_string()));
    let (mut completed, mut unmatched) = (Vec::new(), BTreeSet::new());
    for (stream, own) in (0u32..).zip(frames.streams()) {
        let read = checked.read(frames, stream, &mut completed, &mut unmatched);
        let missing = read.err().map(|error| error.to_string()).or_else(|| {
            let ends = own.complete || !finalized;
            (!ends).then(|| "the end is missing, though the rank called MPI_Finalize".to_owned())
        });
        let late = missing_receives(own);
        let problems = missing.into_iter().chain(late);
        checked.problems.extend(problems.map(|problem| format!("thread {stream}: {problem}")));
    }
    checked.completions = completed.len() as u64;
    completed.sort_unstable();
    let twice = completed.windows(2).filter(|pair| matches!(pair, [one, other] if one == other));
    let twice = twice.filter_map(|pair| pair.first()).map(|receive| (receive, "completed twice"));
    let exists = |receive: &&Receive| {
        let stream = frames.streams().get(receive.0 as usize);
        stream.is_some_and(|stream| receive.1 < stream.receives)
    };
    let unknown = completed.iter().filter(|receive| !exists(receive));
    let unknown = unknown.map(|receive| (receive, "completed, and never posted"));
    let never = completed.iter().filter(|receive| unmatched.contains(*receive));
    let never = never.map(|receive| (receive, "completed, and matched no message"));
    let wrong = twice.chain(unknown).chain(never);
    let wrong =
        wrong.map(|((stream, number), what)| format!("thread {stream}: receive {number}: {what}"));
    checked.problems.extend(wrong.take(MOST_PROBLEMS));
    if let Err(error) = TurnReplayer::new(frames.bodies()) {
        checked.problems.push(format!("turns of threads: {error}"));
    }
    checked
}

/// Problems of one sort that are named.
const MOST_PROBLEMS: usize = 10;

/// Match results of receives that the thread does not have.
fn missing_receives(own: &StreamFrames) -> impl Iterator<Item = String> {
    let is_missing = |number: u64| number >= own.receives;
    let late = own.late_results.iter().filter(move |late| late.wild && is_missing(late.number));
    let late = late.take(MOST_PROBLEMS);
    late.map(|late| format!("receive {}: it has a match result, and was never posted", late.number))
}

impl Checked {
    fn read(
        &mut self,
        frames: &Frames,
        stream: u32,
        completed: &mut Vec<Receive>,
        unmatched: &mut BTreeSet<Receive>,
    ) -> Result<(), OrderError> {
        let mut reader = Reader::new(frames, stream as usize);
        while let Some(stretch) = reader.next_stretch()? {
            self.calls += stretch.block.calls.len() as u64;
            self.receives += stretch.block.receives.len() as u64;
            self.values += stretch.block.values.len() as u64;
            let completions = stretch.block.completions.iter();
            completed.extend(completions.map(|one| (one.stream, one.receive)));
            for (number, receive) in (stretch.first_receive..).zip(&stretch.block.receives) {
                if receive.match_result == Some(MatchResult::Never) {
                    unmatched.insert((stream, number));
                }
            }
            let problems = wrong_indices(&stretch).take(MOST_PROBLEMS);
            self.problems.extend(problems.map(|problem| format!("thread {stream}: {problem}")));
        }
        Ok(())
    }
}

/// Calls that completed a request twice, or one that they did not have.
fn wrong_indices(stretch: &Stretch) -> impl Iterator<Item = String> {
    let calls = (stretch.first_call..).zip(stretch.calls());
    calls.filter_map(|(number, (call, picks))| {
        let distinct: BTreeSet<u32> = picks.iter().copied().collect();
        let largest = distinct.last().filter(|index| **index >= call.count);
        match largest {
            Some(index) => Some(format!("call {number}: request {index} of {}", call.count)),
            None if distinct.len() < picks.len() => {
                Some(format!("call {number}: a request completed twice"))
            }
            None => None,
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Call, Completed, Envelope, Kind, Post, Recorder, Ticket};

    const FROM: MatchResult = MatchResult::Matched(Envelope { source: 1, tag: 3 });

    fn recorded(events: impl FnOnce(&mut Recorder, Ticket)) -> Vec<u8> {
        let mut recorder = Recorder::new();
        let post = Post { site: 5, communicator: 0, source: None, tag: None };
        let ticket = recorder.post(0, &post);
        events(&mut recorder, ticket);
        let mut bytes = Vec::new();
        recorder.finish(&mut bytes);
        bytes
    }

    fn wait(recorder: &mut Recorder, indices: &[u32]) {
        let waitsome = Call { kind: Kind::Waitsome, site: 6, count: 3 };
        recorder.matched(0, &waitsome, Completed::These(indices));
    }

    fn problems(bytes: Vec<u8>) -> Vec<String> {
        check(&Frames::read(bytes), true).problems
    }

    #[test]
    fn a_right_record_has_no_problems_and_is_counted() {
        let bytes = recorded(|recorder, ticket| {
            recorder.resolve(ticket, FROM);
            recorder.completes(ticket, 2);
            wait(recorder, &[2, 0]);
            recorder.value(0, 1, 77);
        });
        let checked = check(&Frames::read(bytes), true);
        let expected = Checked {
            threads: 1,
            calls: 1,
            receives: 1,
            completions: 1,
            values: 1,
            problems: vec![],
        };
        assert_eq!(checked, expected);
    }

    #[test]
    fn every_contradiction_is_a_problem() {
        let twice = problems(recorded(|recorder, ticket| {
            for _ in 0..2 {
                recorder.resolve(ticket, FROM);
                recorder.completes(ticket, 2);
                wait(recorder, &[2, 0]);
            }
        }));
        assert_eq!(twice, ["thread 0: receive 0: completed twice"]);
        let never = problems(recorded(|recorder, ticket| {
            recorder.completes(ticket, 0);
            wait(recorder, &[0]);
        }));
        assert_eq!(never, ["thread 0: receive 0: completed, and matched no message"]);
        let unknown = problems(recorded(|recorder, ticket| {
            recorder.resolve(ticket, FROM);
            recorder.completes(Ticket { number: 9, ..ticket }, 0);
            wait(recorder, &[0]);
        }));
        assert_eq!(unknown, ["thread 0: receive 9: completed, and never posted"]);
        let indices = problems(recorded(|recorder, ticket| {
            recorder.resolve(ticket, FROM);
            wait(recorder, &[1, 1]);
            wait(recorder, &[3]);
        }));
        assert_eq!(
            indices,
            ["thread 0: call 0: a request completed twice", "thread 0: call 1: request 3 of 3"]
        );
    }

    #[test]
    fn a_damaged_record_and_one_without_its_end_are_problems() {
        let bytes = recorded(|recorder, ticket| recorder.resolve(ticket, FROM));
        let mut damaged = bytes.clone();
        damaged[3] ^= 1;
        assert_eq!(problems(damaged), ["a block of the receive order is damaged"]);
        let mut recorder = Recorder::new();
        wait(&mut recorder, &[0]);
        let mut open = Vec::new();
        recorder.seal(&mut open);
        let said = problems(open.clone());
        assert_eq!(said, ["thread 0: the end is missing, though the rank called MPI_Finalize"]);
        assert!(check(&Frames::read(open), false).problems.is_empty());
    }
}
