//! Finds messages that were received before they were sent, by the recorded times.
//!
//! Messages between two ranks with one tag on one communicator are received in the order in which they
//! are sent, and receives match them in the order in which they were posted, with or without wildcards.
//! So the `n`th message that was sent is the `n`th that was received, and its receive cannot have
//! completed before its send began. If it seems so, clocks or times are wrong.
//!
//! Threads of one rank may send or receive concurrently. Which of two overlapping receives was posted
//! first is not known then, so the pairing that fits best is assumed: no error of clocks is reported
//! that another order of the overlapping calls explains.
//!
//! Ranks are processed one after the other. The messages of a rank are kept until the rank at the other
//! end has been processed, too. Collectives are not checked.

use crate::matching::{Lane, Op, Operation, Receive, Scope, Step, Tracker};
use refrain_reader::{CallTrace, Item, ProcessRef, Source, TraceError};
use std::collections::{HashMap, HashSet};

/// How the times of messages agree with the order of sends and receives.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Messages {
    /// Messages of which both ends are known.
    pub paired: u64,
    /// Messages of which one end is known, or it is not certain which message it was.
    pub unpaired: u64,
    /// Those that were received before they were sent.
    pub early: u64,
    /// By how many nanoseconds, at most.
    pub worst: u64,
    /// Those that were received before they were sent by more than the uncertainty of the clocks.
    pub beyond_clocks: u64,
}

/// Pairs the messages of a trace; `None` if it has no times, or its ranks are not those of one `MPI_COMM_WORLD`.
pub fn messages(trace: &CallTrace) -> Result<Option<Messages>, TraceError> {
    let size = trace.processes().map(|process| process.facts().size).max().unwrap_or(0);
    let ranks: HashSet<i32> = trace.processes().map(|process| process.rank()).collect();
    let is_world =
        ranks.len() == trace.processes().len() && ranks.iter().all(|rank| (0..size).contains(rank));
    if !is_world || !(trace.has_raw() || trace.has_times()) {
        return Ok(None);
    }
    let mut board = Board { waited_for: ranks, ..Board::default() };
    for process in trace.processes() {
        let mut ends = Ends::of(process, size as usize)?;
        board.uncertainty.insert(process.rank(), process.facts().uncertainty);
        // Calls that were not recorded may have been sends or receives.
        ends.is_unsure |= process.tasks().any(|task| task.facts().unrecorded > 0);
        board.take(process.rank(), ends);
    }
    Ok(Some(board.found))
}

/// The sends and receives of a process.
#[derive(Default)]
struct Ends {
    scopes: Vec<Scope>,
    /// When they were sent.
    sent: HashMap<Lane, Vec<u64>>,
    /// The order of the receives, and when they were complete, if that is known.
    got: HashMap<Lane, Vec<(u64, Option<u64>)>>,
    unsure: HashSet<Lane>,
    /// By scope, the first receive whose match is unknown.
    lost: HashMap<usize, u64>,
    /// By lane, the first receive that may have been cancelled: which messages later ones got is unknown.
    doubtful: HashMap<Lane, u64>,
    /// In a process with several threads: start and end of the call that posted each receive.
    postings: HashMap<u64, (u64, u64)>,
    has_threads: bool,
    is_unsure: bool,
}

impl Ends {
    fn of(process: ProcessRef<'_>, ranks: usize) -> Result<Ends, TraceError> {
        let has_threads = process.tasks().count() > 1;
        let mut ends = Ends { has_threads, ..Ends::default() };
        let mut tracker = Tracker::new(process.rank(), ranks);
        for item in process.items(Source::RecordTimes)? {
            let (_, item) = item?;
            for step in tracker.item(&item) {
                ends.step(&item, step);
            }
        }
        for (op, _) in tracker.pending() {
            if let Operation::Receive(receive) = op.what {
                ends.lose(op.id, receive);
            }
        }
        ends.scopes = tracker.scopes().map(|(scope, _)| scope.clone()).collect();
        ends.settle();
        Ok(ends)
    }

    fn step(&mut self, item: &Item, step: Step) {
        let span = match item {
            Item::Call(call) => call.span(),
            Item::Note(_) => None,
        };
        if let (Step::Posted(op), Some(span), true) = (&step, &span, self.has_threads)
            && matches!(op.what, Operation::Receive(_))
        {
            self.postings.insert(op.id, (span.start, span.end.unwrap_or(u64::MAX)));
        }
        match step {
            Step::Posted(Op { what: Operation::Send { lane, .. }, .. }) => {
                self.sent.entry(lane).or_default().push(span.map_or(0, |span| span.start));
            }
            // A receive in a call that never returned gets no other step.
            Step::Posted(op) => {
                if matches!(item, Item::Call(call) if !call.returned()) {
                    self.unknown(op);
                }
            }
            Step::Matched(op, lane) => {
                let end = span.and_then(|span| span.end);
                self.got.entry(lane).or_default().push((op.id, end));
            }
            Step::Unknown(op) => self.unknown(op),
            Step::Doubtful(op) => self.doubt(op),
            Step::Completed(_) | Step::Cancelled(_) | Step::Entered(_) | Step::Left(_) => {}
        }
    }

    /// Notes an operation whose completion time is unknown, and perhaps its message too.
    fn unknown(&mut self, op: Op) {
        match op.what {
            Operation::Send { lane, .. } => drop(self.unsure.insert(lane)),
            Operation::Receive(receive) => self.lose(op.id, receive),
            Operation::Collective { .. } => {}
        }
    }

    fn lose(&mut self, id: u64, receive: Receive) {
        match receive.lane() {
            Some(lane) => self.got.entry(lane).or_default().push((id, None)),
            None => {
                let first = self.lost.entry(receive.scope).or_insert(id);
                *first = id.min(*first);
            }
        }
    }

    fn doubt(&mut self, op: Op) {
        if let Operation::Receive(receive) = op.what
            && let Some(lane) = receive.lane()
        {
            let first = self.doubtful.entry(lane).or_insert(op.id);
            *first = op.id.min(*first);
        }
    }

    /// Sorts receives into the order in which they match messages, as far as that is known.
    fn settle(&mut self) {
        let posting = |id: u64| self.postings.get(&id).copied();
        for (lane, received) in &mut self.got {
            received.sort_unstable();
            received.dedup_by_key(|(id, _)| *id);
            let (scope, ..) = lane;
            if let Some(first) = self.doubtful.get(lane) {
                let known = received.partition_point(|(id, _)| id < first);
                received[known..].iter_mut().for_each(|(_, end)| *end = None);
            }
            if let Some(lost) = self.lost.get(scope) {
                let start = posting(*lost).map_or(u64::MAX, |(start, _)| start);
                let is_before =
                    |id: u64| id < *lost && posting(id).is_none_or(|(_, end)| end <= start);
                let known = received.iter().take_while(|(id, _)| is_before(*id)).count();
                received[known..].iter_mut().for_each(|(_, end)| *end = None);
            }
            if self.has_threads {
                reorder_overlapping(received, posting);
            }
        }
    }
}

/// Sorts receives that were posted concurrently by their ends. If in any order of them every message was sent
/// before it was received, then in this one.
fn reorder_overlapping(
    received: &mut [(u64, Option<u64>)],
    posting: impl Fn(u64) -> Option<(u64, u64)>,
) {
    let mut rest = received;
    while let Some((first, _)) = rest.first() {
        let mut until = posting(*first).map_or(0, |(_, end)| end);
        let overlaps = |(id, _): &&(u64, Option<u64>)| match posting(*id) {
            Some((start, end)) if start < until => {
                until = until.max(end);
                true
            }
            _ => false,
        };
        let n = 1 + rest[1..].iter().take_while(overlaps).count();
        let (overlapping, others) = rest.split_at_mut(n);
        let mut ends: Vec<Option<u64>> = overlapping.iter().map(|(_, end)| *end).collect();
        match ends.contains(&None) {
            // Any of them may be the unknown one.
            true => ends.fill(None),
            false => ends.sort_unstable(),
        }
        overlapping.iter_mut().zip(ends).for_each(|((_, end), sorted)| *end = sorted);
        rest = others;
    }
}

/// A scope's number, source, destination and tag.
type Key = (usize, i32, i32, i64);

/// Messages of one kind, from both ends.
#[derive(Default)]
struct Both {
    sent: Vec<u64>,
    got: Vec<Option<u64>>,
    is_unsure: bool,
}

/// Messages whose other end has not been processed.
#[derive(Default)]
struct Board {
    scopes: HashMap<Scope, usize>,
    lanes: HashMap<Key, Both>,
    waited_for: HashSet<i32>,
    /// The uncertainty of each rank's clock, in nanoseconds.
    uncertainty: HashMap<i32, u64>,
    found: Messages,
}

impl Board {
    /// Adds the messages of one rank.
    fn take(&mut self, rank: i32, ends: Ends) {
        let Ends { scopes, sent, got, unsure, is_unsure, .. } = ends;
        let number = |scope: Scope| {
            let next = self.scopes.len();
            *self.scopes.entry(scope).or_insert(next)
        };
        let scopes: Vec<usize> = scopes.into_iter().map(number).collect();
        for ((scope, to, tag), times) in sent {
            let both = self.lanes.entry((scopes[scope], rank, to, tag)).or_default();
            both.sent = times;
            both.is_unsure |= is_unsure || unsure.contains(&(scope, to, tag));
        }
        for ((scope, from, tag), times) in got {
            let both = self.lanes.entry((scopes[scope], from, rank, tag)).or_default();
            both.got = times.into_iter().map(|(_, end)| end).collect();
            both.is_unsure |= is_unsure;
        }
        self.waited_for.remove(&rank);
        let (waited_for, lanes) = (&self.waited_for, &mut self.lanes);
        let is_whole = |key: &Key| !waited_for.contains(&key.1) && !waited_for.contains(&key.2);
        let whole: Vec<(Key, Both)> = lanes.extract_if(|key, _| is_whole(key)).collect();
        whole.into_iter().for_each(|(key, both)| self.pair(key, &both));
    }

    fn pair(&mut self, (_, from, to, _): Key, both: &Both) {
        let all = both.sent.len().max(both.got.len()) as u64;
        if both.is_unsure {
            self.found.unpaired += all;
            return;
        }
        let off = |rank: &i32| self.uncertainty.get(rank).copied().unwrap_or(0);
        let clocks = off(&from).saturating_add(off(&to));
        let found = &mut self.found;
        let mut paired = 0;
        for (sent, got) in both.sent.iter().zip(&both.got) {
            let Some(got) = got else { continue };
            paired += 1;
            let early = sent.saturating_sub(*got);
            found.early += u64::from(early > 0);
            found.beyond_clocks += u64::from(early > clocks);
            found.worst = found.worst.max(early);
        }
        found.paired += paired;
        found.unpaired += all - paired;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::matching::{Kind, Origin};
    use std::sync::Arc;

    type Received<'a> = (Lane, &'a [(u64, Option<u64>)]);

    fn ends(sent: &[(Lane, &[u64])], got: &[Received<'_>]) -> Ends {
        let scope = Scope {
            kind: Kind::Communicator,
            members: Arc::from([0, 1]),
            origin: Origin::Unknown,
            nth: 0,
        };
        Ends {
            scopes: vec![scope],
            sent: sent.iter().map(|(lane, times)| (*lane, times.to_vec())).collect(),
            got: got.iter().map(|(lane, times)| (*lane, times.to_vec())).collect(),
            ..Ends::default()
        }
    }

    fn board() -> Board {
        let uncertainty = HashMap::from([(0, 0), (1, 5)]);
        Board { waited_for: HashSet::from([0, 1]), uncertainty, ..Board::default() }
    }

    #[test]
    fn messages_received_before_they_were_sent_are_counted() {
        let mut board = board();
        board.take(0, ends(&[((0, 1, 7), &[100, 200, 300]), ((0, 1, 8), &[1])], &[]));
        assert_eq!(board.found, Messages::default(), "one end alone is not checked");
        // Received in time, a little early, much too early; and one whose time is not known.
        let mut other = ends(
            &[],
            &[
                ((0, 0, 7), &[(2, Some(270)), (0, Some(110)), (1, Some(197))]),
                ((0, 0, 8), &[(3, None)]),
            ],
        );
        other.settle();
        board.take(1, other);
        let found = Messages { paired: 3, unpaired: 1, early: 2, worst: 30, beyond_clocks: 1 };
        assert_eq!(board.found, found);
        assert!(board.lanes.is_empty());
    }

    #[test]
    fn receives_that_threads_post_concurrently_may_get_messages_in_any_order() {
        // The first began to post earlier, but got the second message.
        let received: &[(u64, Option<u64>)] = &[(0, Some(230)), (1, Some(110))];
        let found = |postings: [(u64, u64); 2]| {
            let mut board = board();
            board.take(0, ends(&[((0, 1, 7), &[100, 200])], &[]));
            let mut other = ends(&[], &[((0, 0, 7), received)]);
            (other.postings, other.has_threads) = ((0..).zip(postings).collect(), true);
            other.settle();
            board.take(1, other);
            board.found
        };
        let right = Messages { paired: 2, ..Messages::default() };
        assert_eq!(found([(10, 60), (50, 70)]), right);
        // One after the other, they must have got the messages in that order.
        let wrong = Messages { early: 1, worst: 90, beyond_clocks: 1, ..right };
        assert_eq!(found([(10, 40), (50, 70)]), wrong);
    }

    #[test]
    fn messages_after_a_receive_that_may_have_been_cancelled_are_unpaired() {
        let mut board = board();
        board.take(0, ends(&[((0, 1, 7), &[100, 200, 300])], &[]));
        // The third receive seems to have got the message of the second.
        let mut other = ends(&[], &[((0, 0, 7), &[(0, Some(110)), (2, Some(10)), (3, Some(10))])]);
        let what = Operation::Receive(Receive { scope: 0, source: Some(0), tag: Some(7), nth: 2 });
        other.doubt(Op { id: 1, what });
        other.settle();
        board.take(1, other);
        assert_eq!(board.found, Messages { paired: 1, unpaired: 2, ..Messages::default() });
    }

    #[test]
    fn messages_after_a_receive_with_unknown_match_are_unpaired() {
        let mut board = board();
        board.take(0, ends(&[((0, 1, 7), &[100, 200, 300])], &[]));
        let mut other = ends(&[], &[((0, 0, 7), &[(0, Some(110)), (2, Some(10)), (3, Some(10))])]);
        other.lose(1, Receive { scope: 0, source: None, tag: Some(7), nth: 0 });
        other.settle();
        board.take(1, other);
        assert_eq!(board.found, Messages { paired: 1, unpaired: 2, ..Messages::default() });
    }
}
