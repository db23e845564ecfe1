//! Where two records differ.

use std::collections::VecDeque;

use crate::causal::frames::Frames;
use crate::causal::read::{Reader, Which};
use crate::divergence::Moment;
use crate::error::OrderError;

/// The first difference of two runs in a thread.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// The rank.
    pub rank: u32,
    /// The thread of the rank.
    pub stream: u32,
    /// The sequence: calls or receives.
    pub which: Which,
    /// What the first record has there.
    pub left: Moment,
    /// What the second record has there.
    pub right: Moment,
    /// The number of entries that differ, compared position by position.
    pub differing: u64,
    /// The number of entries of the longer sequence.
    pub compared: u64,
}

/// Compares the records of two runs: for each rank and thread, the first receive and the first call that differ, and
/// how many differ. Without `polls`, counts of failed polls are ignored, since they differ between any two runs.
pub fn diff(left: &[Frames], right: &[Frames], polls: bool) -> Result<Vec<Difference>, OrderError> {
    let none = Frames::default();
    let mut found = Vec::new();
    for rank in 0..left.len().max(right.len()) {
        let [left, right] = [left, right].map(|side| side.get(rank).unwrap_or(&none));
        for stream in 0..left.streams().len().max(right.streams().len()) {
            for which in [Which::Receives, Which::Calls] {
                let sides = [left, right].map(|frames| Side::new(frames, stream, which, polls));
                let (rank, stream) = (rank as u32, stream as u32);
                found.extend(compare(rank, stream, which, sides)?);
            }
        }
    }
    Ok(found)
}

/// One record's sequence, read as far as needed.
struct Side<'a> {
    reader: Reader<'a>,
    which: Which,
    polls: bool,
    ready: VecDeque<Moment>,
}

impl<'a> Side<'a> {
    fn new(frames: &'a Frames, stream: usize, which: Which, polls: bool) -> Self {
        Self { reader: Reader::new(frames, stream), which, polls, ready: VecDeque::new() }
    }

    fn next(&mut self) -> Result<Option<Moment>, OrderError> {
        while self.ready.is_empty() {
            let Some(stretch) = self.reader.next_stretch()? else { return Ok(None) };
            let mut moments = Vec::new();
            self.reader.append(&stretch, self.which, &mut moments)?;
            self.ready.extend(moments);
        }
        Ok(self.ready.pop_front())
    }

    /// The part of an entry that is compared.
    fn essence(&self, moment: &Option<Moment>) -> Option<Moment> {
        let mut essence = moment.clone()?;
        if let Moment::Call { polls, .. } = &mut essence
            && !self.polls
        {
            *polls = 0;
        }
        Some(essence)
    }
}

fn compare(
    rank: u32,
    stream: u32,
    which: Which,
    [mut left, mut right]: [Side<'_>; 2],
) -> Result<Option<Difference>, OrderError> {
    let (mut first, mut differing, mut compared) = (None, 0, 0);
    loop {
        let (a, b) = (left.next()?, right.next()?);
        if a.is_none() && b.is_none() {
            let found = |(left, right)| Difference {
                rank,
                stream,
                which,
                left,
                right,
                differing,
                compared,
            };
            return Ok(first.map(found));
        }
        compared += 1;
        if left.essence(&a) != right.essence(&b) {
            differing += 1;
            first.get_or_insert((a.unwrap_or(Moment::End), b.unwrap_or(Moment::End)));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Call, Completed, Envelope, Kind, MatchResult, Post, Recorder};

    fn run(sources: &[i32], polls: usize) -> Frames {
        let mut recorder = Recorder::new();
        for source in sources {
            let post = Post { site: 5, communicator: 0, source: None, tag: Some(3) };
            let ticket = recorder.post(0, &post);
            (0..polls).for_each(|_| recorder.failed(0, Kind::Test, 6));
            recorder.matched(0, &Call { kind: Kind::Test, site: 6, count: 0 }, Completed::All);
            let from = Envelope { source: *source, tag: 3 };
            recorder.resolve(ticket, MatchResult::Matched(from));
        }
        let mut bytes = Vec::new();
        recorder.finish(&mut bytes);
        Frames::read(bytes)
    }

    #[test]
    fn the_first_receive_with_another_source_is_the_first_difference() {
        let (left, right) = ([run(&[1, 2, 3, 1], 2)], [run(&[1, 2, 1, 3], 5)]);
        let found = diff(&left, &right, false).unwrap();
        assert_eq!(found.len(), 1);
        assert_eq!((found[0].differing, found[0].compared), (2, 4));
        let texts = [found[0].left.to_string(), found[0].right.to_string()];
        assert_eq!(texts[0], "receive 2: any source on communicator 0 at 0x5, from 3 tag 3");
        assert_eq!(texts[1], "receive 2: any source on communicator 0 at 0x5, from 1 tag 3");
    }

    #[test]
    fn failed_polls_are_compared_only_on_demand() {
        let (left, right) = ([run(&[1, 2], 2)], [run(&[1, 2], 5)]);
        assert_eq!(diff(&left, &right, false), Ok(vec![]));
        assert_eq!(diff(&left, &right, true).unwrap()[0].which, Which::Calls);
    }

    #[test]
    fn the_end_of_a_shorter_run_is_a_difference() {
        let found = diff(&[run(&[1, 2], 0)], &[run(&[1], 0)], false).unwrap();
        assert_eq!(found.len(), 2);
        assert_eq!(found[0].right, Moment::End);
    }
}
