//! Whether messages were received before they were sent, by what the clocks say.
//!
//! Messages between two ranks with one tag on one communicator are received in the order in which they
//! are sent, and receives get them in the order in which they were begun, whatever their source and tag
//! could have been. So the `n`th that was sent is the `n`th that was received, and its receive cannot
//! have been over before its send began: where it seems so, clocks or times are off.
//!
//! Ranks are gone through one after the other. What one has sent is held until the other end has been
//! gone through, too. Collectives are not looked at.

use crate::calls::{CallsError, Process, processes};
use crate::objects::CallNames;
use crate::verify::{is_note, stream_error};
use crate::waits::observe::Observer;
use crate::waits::{Lane, Need, Receipt, Scope, Step};
use refrain_mpi::abi::Family;
use refrain_mpi::names::HandleTable;
use refrain_reader::event::Event;
use refrain_reader::raw::Events;
use refrain_trace::trace::StreamEvents;
use refrain_trace::{StreamMeta, Trace};
use std::collections::{HashMap, HashSet};
use std::io::Read;
use std::sync::Arc;

/// What the messages of a trace tell about its clocks.
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
    /// Those that were received before they were sent by more than the clocks may be off.
    pub beyond_clocks: u64,
}

/// Pairs the messages of a trace; none if it has no times, or its ranks are not those of one world.
pub fn messages(trace: &Trace) -> Result<Option<Messages>, CallsError> {
    let streams = &trace.meta().streams;
    let size = streams.iter().map(|s| s.size).max().unwrap_or(0);
    let world: Arc<[i32]> = (0..size).collect();
    let all = processes(trace);
    let ranks: HashSet<i32> = all.iter().map(|p| p.rank).collect();
    let is_world = ranks.len() == all.len() && ranks.iter().all(|rank| (0..size).contains(rank));
    if !is_world || !(trace.has_raw() || trace.has_times()) {
        return Ok(None);
    }
    let mut board = Board { waited_for: ranks, ..Board::default() };
    for process in &all {
        let mut ends = Ends::of(trace, process, &world)?;
        let first = process.streams.first().map(|s| &streams[*s]);
        board.uncertainty.insert(process.rank, first.map_or(0, |s| s.uncertainty));
        // What was not recorded may have been messages.
        ends.is_unsure |= process.streams.iter().any(|s| streams[*s].unrecorded > 0);
        board.take(process.rank, ends);
    }
    Ok(Some(board.found))
}

/// The calls of a stream with their times: those of the records, if they were kept.
struct Timed<'t> {
    meta: &'t StreamMeta,
    calls: StreamEvents<'t>,
    records: Option<Events<Box<dyn Read>>>,
    now: u64,
}

impl<'t> Timed<'t> {
    fn of(trace: &'t Trace, stream: usize) -> Result<Timed<'t>, CallsError> {
        let (calls, records) = match trace.has_raw() {
            true => (trace.untimed(stream)?, Some(trace.raw(stream)?)),
            false => (trace.decoded(stream)?, None),
        };
        Ok(Timed { meta: &trace.meta().streams[stream], calls, records, now: 0 })
    }

    fn next(&mut self) -> Result<Option<Event>, CallsError> {
        let told = |e| stream_error(self.meta, e);
        let Some(mut event) = self.calls.next().transpose().map_err(told)? else {
            return Ok(None);
        };
        if is_note(&event) {
            event.start = self.now;
        } else if let Some(records) = &mut self.records {
            let Some(record) = records.next().transpose().map_err(told)? else { return Ok(None) };
            (event.start, event.end) = (record.start, record.end);
        }
        self.now = event.start;
        Ok(Some(event))
    }
}

/// The ends of messages that a process has.
#[derive(Default)]
struct Ends {
    scopes: Vec<Scope>,
    /// When they were sent.
    sent: HashMap<Lane, Vec<u64>>,
    /// The receives' order, and when they were received, if that is known.
    got: HashMap<Lane, Vec<(u64, Option<u64>)>>,
    unsure: HashSet<Lane>,
    /// By scope, the first receive of which it is not known what it got.
    lost: HashMap<usize, u64>,
    is_unsure: bool,
}

impl Ends {
    fn of(trace: &Trace, process: &Process, world: &Arc<[i32]>) -> Result<Ends, CallsError> {
        let mut ends = Ends::default();
        let mut sources = Vec::new();
        for stream in &process.streams {
            let mut timed = Timed::of(trace, *stream)?;
            let next = timed.next()?;
            sources.push((timed, next));
        }
        let names = sources.iter().map(|(timed, _)| timed.calls.handle_names());
        let names: Vec<HandleTable> = names.collect();
        let names = names.iter().flat_map(HandleTable::entries).collect();
        let meta = sources.first().map(|(timed, _)| timed.meta);
        let family = meta.and_then(|m| Family::from_code(m.family)).unwrap_or(Family::Mpich);
        let mut observer = Observer::new(process.rank, world, family, names).of_messages();
        // In the order in which they began.
        let earliest = |sources: &[(Timed<'_>, Option<Event>)]| {
            let start = |(i, (_, next)): (usize, &(_, Option<Event>))| {
                next.as_ref().map(|event| (event.start, i))
            };
            sources.iter().enumerate().filter_map(start).min().map(|(_, i)| i)
        };
        while let Some(i) = earliest(&sources) {
            let (timed, next) = &mut sources[i];
            let Some(event) = std::mem::replace(next, timed.next()?) else { break };
            ends.event(&mut observer, timed.meta, &event);
        }
        observer.receives().for_each(|receipt| ends.lose(receipt));
        ends.scopes = observer.scopes().cloned().collect();
        ends.settle();
        Ok(ends)
    }

    fn event(&mut self, observer: &mut Observer, meta: &StreamMeta, event: &Event) {
        let wait = observer.event(meta.thread, event, &CallNames::default(), 1);
        for (need, _) in wait.iter().flat_map(|wait| &wait.needs) {
            if let Need::Receipt(receipt) = need {
                self.lose(*receipt);
            }
        }
        for step in observer.steps() {
            match step {
                Step::Sent(lane) => {
                    self.sent.entry(lane).or_default().push(meta.nanos(event.start));
                }
                Step::Got(lane, Receipt { posted, .. }) => {
                    let end = event.end.map(|end| meta.nanos(end));
                    self.got.entry(lane).or_default().push((posted, end));
                }
                Step::Lost(receipt) => self.lose(receipt),
                Step::Unsure(lane) => drop(self.unsure.insert(lane)),
            }
        }
    }

    /// It is not known when a receive was over, and perhaps not even what it got.
    fn lose(&mut self, Receipt { scope, source, tag, posted, .. }: Receipt) {
        if let (Some(source), Some(tag)) = (source, tag) {
            self.got.entry((scope, source, tag)).or_default().push((posted, None));
        } else {
            let first = self.lost.entry(scope).or_insert(posted);
            *first = posted.min(*first);
        }
    }

    /// Puts receives into the order in which they get messages, as far as that is known.
    fn settle(&mut self) {
        for ((scope, ..), received) in &mut self.got {
            received.sort_unstable();
            received.dedup_by_key(|(posted, _)| *posted);
            if let Some(lost) = self.lost.get(scope) {
                let known = received.partition_point(|(posted, _)| posted < lost);
                received[known..].iter_mut().for_each(|(_, end)| *end = None);
            }
        }
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

/// Messages of which not both ends have been seen.
#[derive(Default)]
struct Board {
    scopes: HashMap<Scope, usize>,
    lanes: HashMap<Key, Both>,
    waited_for: HashSet<i32>,
    /// Nanoseconds that the clock of a rank may be off.
    uncertainty: HashMap<i32, u64>,
    found: Messages,
}

impl Board {
    /// Takes what one rank knows.
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
    use crate::waits::Kind;

    type Received<'a> = (Lane, &'a [(u64, Option<u64>)]);

    fn ends(sent: &[(Lane, &[u64])], got: &[Received<'_>]) -> Ends {
        let scope = Scope { kind: Kind::Communicator, members: Arc::from([0, 1]), nth: 0 };
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
    fn messages_that_seem_to_come_early_are_counted() {
        let mut board = board();
        board.take(0, ends(&[((0, 1, 7), &[100, 200, 300]), ((0, 1, 8), &[1])], &[]));
        assert_eq!(board.found, Messages::default(), "one end alone tells nothing");
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
    fn behind_a_receive_that_got_nobody_knows_what_nothing_is_certain() {
        let mut board = board();
        board.take(0, ends(&[((0, 1, 7), &[100, 200, 300])], &[]));
        let mut other = ends(&[], &[((0, 0, 7), &[(0, Some(110)), (2, Some(10)), (3, Some(10))])]);
        other.lose(Receipt { scope: 0, source: None, tag: Some(7), nth: 0, posted: 1 });
        other.settle();
        board.take(1, other);
        assert_eq!(board.found, Messages { paired: 1, unpaired: 2, ..Messages::default() });
    }
}
