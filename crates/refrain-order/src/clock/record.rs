//! The recorder: turns the program's calls into events for the encoder.

use crate::clock::Note;
use crate::clock::chunk::{Left, TableKey, Value};
use crate::clock::encoder::Encoder;
use crate::clock::event::{Event, Sink, Tally};
use crate::clock::lamport::Lamport;
use crate::clock::pairing::Pairing;
use crate::clock::receives::Receives;
use crate::clock::table::Other;
use crate::{
    Call, Choice, Completed, Envelope, Finished, Kind, MatchResult, Post, Recording, Stamp, Ticket,
};
use refrain_bytes::table::Map;

/// The turn key of operations that set the clock, or that depend on the order in which receives complete
/// (that order determines which receives have a choice).
pub const CLOCK_KEY: u64 = 0x636c_6f63_6b00_0001;

/// Records one process's receive order.
///
/// Its events go to an [`Encoder`], or to one in a [background thread](crate::clock::background::Background).
#[derive(Debug)]
pub struct Recorder<S = Encoder> {
    /// This process's number.
    me: u32,
    clock: Lamport,
    /// How many messages were sent to each process.
    sent: Map<u32, u64>,
    receives: Receives,
    streams: Vec<Posted>,
    pairing: Pairing,
    tables: Map<TableKey, u32>,
    /// Failed polls that are not passed on yet, by table; and the tables that have any.
    polls: Vec<u64>,
    polled: Vec<u32>,
    last: Option<(TableKey, u32)>,
    /// The thread that set the clock last, and how many of its consecutive turns are not passed on yet.
    ticks: (u32, u64),
    /// The rows of the current call.
    rows: Vec<Row>,
    sink: S,
}

/// Counts of a thread.
#[derive(Clone, Copy, Debug, Default)]
struct Posted {
    wild: u64,
    named: u64,
    /// Completing calls that found something.
    successes: u64,
    /// What is not passed on yet.
    unsent: Tally,
}

#[derive(Clone, Copy, Debug)]
enum Row {
    Message { certain: bool, stamp: Stamp, topic: (u32, i32), claim: u32 },
    Other(Other),
}

impl Row {
    /// Whether a table has this row. A receive without a choice needs none.
    fn is_written(&self) -> bool {
        !matches!(self, Row::Message { certain: true, .. })
    }
}

impl Recorder {
    /// A recorder with an encoder, for process `me`.
    pub fn new(me: u32) -> Self {
        Self::with(me, Encoder::default())
    }
}

impl<S: Sink> Recorder<S> {
    /// A recorder that passes its events to `sink`, for process `me`.
    pub fn with(me: u32, sink: S) -> Self {
        Self {
            me,
            clock: Lamport::default(),
            sent: Map::default(),
            receives: Receives::default(),
            streams: Vec::new(),
            pairing: Pairing::default(),
            tables: Map::default(),
            polls: Vec::new(),
            polled: Vec::new(),
            last: None,
            ticks: (0, 0),
            rows: Vec::new(),
            sink,
        }
    }

    /// The clock, for collective operations, which exchange it too: see [`Lamport::merge`].
    pub fn clock(&mut self) -> &mut Lamport {
        &mut self.clock
    }

    /// Receives a note: the stamp of the next message from that sender.
    pub fn receive_note(&mut self, sender: u32, note: &Note) {
        if let Note::Sent { clock, communicator, source, tag } = *note {
            self.pairing.arrive(sender, clock, communicator, Envelope { source, tag });
        }
    }

    /// Pending receives that must have been matched because this receive (or a probe, `None`) has found a message
    /// with this envelope. Their match results have to be passed to [`Self::observe`] before [`Self::stamp_of`]
    /// is called.
    pub fn unresolved(
        &self,
        ticket: Option<Ticket>,
        communicator: u32,
        from: Envelope,
    ) -> Vec<Ticket> {
        self.pairing.unresolved(&self.receives, ticket, communicator, from)
    }

    /// Whether the program has not observed that receive complete yet; only then it needs a stamp.
    pub fn is_open(&self, ticket: Ticket) -> bool {
        self.receives.get(ticket).is_some()
    }

    /// The match result of a receive that the program has not observed complete.
    pub fn observe(&mut self, ticket: Ticket, match_result: MatchResult) {
        self.pairing.observe(ticket, match_result);
    }

    /// The stamp of the message that a receive has received, or a probe has found. `None` if its note has not
    /// arrived yet.
    pub fn stamp_of(
        &self,
        ticket: Option<Ticket>,
        communicator: u32,
        from: Envelope,
    ) -> Option<Stamp> {
        self.pairing.stamp(&self.receives, ticket, communicator, from)
    }

    /// Passes on what is left, and returns the sink.
    pub fn close(mut self) -> S {
        self.flush();
        self.put(Event::Seal { last: true });
        self.sink
    }

    #[expect(clippy::indexing_slicing, reason = "made as long as that just before")]
    fn stream(&mut self, stream: u32) -> &mut Posted {
        let at = stream as usize;
        if self.streams.len() <= at {
            self.streams.resize_with(at + 1, Posted::default);
        }
        &mut self.streams[at]
    }

    fn table(&mut self, key: TableKey) -> u32 {
        if let Some((last, table)) = self.last
            && last == key
        {
            return table;
        }
        let next = self.tables.len() as u32;
        let table = *self.tables.entry(key).or_insert(next);
        if table == next {
            self.polls.push(0);
            self.sink.put(Event::Table(key));
        }
        self.last = Some((key, table));
        table
    }

    /// Passes on an event, after the failed polls of all tables: a chunk may end after the event, and a replay
    /// needs the polls that failed before it in the same chunk.
    #[expect(clippy::indexing_slicing, reason = "there is a count for every table")]
    fn put(&mut self, event: Event) {
        for table in self.polled.drain(..) {
            let polls = std::mem::take(&mut self.polls[table as usize]);
            self.sink.put(Event::Failed { table, polls });
        }
        self.sink.put(event);
    }

    /// Passes on everything that was held back.
    fn flush(&mut self) {
        for (stream, posted) in (0..).zip(&mut self.streams) {
            let tally = std::mem::take(&mut posted.unsent);
            self.sink.put(Event::Tally { stream, tally });
        }
        self.flush_ticks();
    }

    fn flush_ticks(&mut self) {
        let (stream, times) = self.ticks;
        if times > 0 {
            self.put(Event::Turn { stream, key: CLOCK_KEY, times });
            self.ticks.1 = 0;
        }
    }

    /// A thread sets the clock, or does something that depends on the order of such operations. While there is only
    /// one thread, its turns are counted and not passed on.
    fn tick(&mut self, stream: u32) {
        if self.ticks.0 != stream {
            self.flush_ticks();
        }
        self.ticks = (stream, self.ticks.1 + 1);
        if self.streams.len() > 1 {
            self.flush_ticks();
        }
    }

    /// A message is received: advances the clock.
    fn receive(&mut self, stream: u32, ticket: Ticket, stamp: &Stamp) {
        self.pairing.receive(ticket, stamp);
        self.clock.receive(stamp.clock);
        self.tick(stream);
    }

    /// Makes the rows of a call that completes all of its requests: one per receive that has a choice.
    fn all(&mut self, stream: u32, kind: Kind, finished: &[Finished]) {
        let known = |one: &Finished| {
            let open = *self.receives.get(one.ticket)?;
            Some((*one, open, self.receives.certain(&open).is_some()))
        };
        let known: Vec<_> = finished.iter().filter_map(known).collect();
        for (Finished { ticket, match_result, stamp }, open, certain) in known {
            match (match_result, stamp) {
                (MatchResult::Matched(_), Some(stamp))
                    if matches!(kind, Kind::Probe | Kind::Iprobe) =>
                {
                    self.rows.push(Row::Other(Other::Probed(stamp.sender, stamp.sequence)));
                    // Messages sent after the probe must have later stamps, too.
                    self.clock.receive(stamp.clock);
                    self.tick(stream);
                }
                (MatchResult::Matched(from), Some(stamp)) => {
                    let certain = certain && !matches!(kind, Kind::Mprobe | Kind::Improbe);
                    let topic = (open.post.communicator, from.tag);
                    self.rows.push(Row::Message { certain, stamp, topic, claim: 0 });
                    self.receive(stream, ticket, &stamp);
                }
                _ => {
                    self.rows.push(Row::Other(Other::Cancelled));
                    self.tick(stream);
                }
            }
            self.receives.close(ticket);
            if is_probe(kind) {
                // A probe was posted only to get a ticket; a replay does not post it.
                let posted = self.stream(stream);
                posted.unsent.posts = posted.unsent.posts.saturating_sub(1);
            }
        }
        if kind.polls() && !self.rows.iter().any(Row::is_written) {
            self.rows.push(Row::Other(Other::Nothing));
        }
    }

    /// A call that completes all of its requests completed only these, because of an error.
    fn left_pending(&mut self, stream: u32, count: usize, these: &[u32]) {
        let call = self.stream(stream).successes;
        for index in (0..count as u32).filter(|index| !these.contains(index)) {
            self.sink.put(Event::Left(Left { stream, call, index }));
        }
    }

    /// Makes the rows of a call that chose these of its requests.
    fn these(&mut self, stream: u32, tickets: &[Option<Ticket>], these: &[u32], all: &[Finished]) {
        for index in these {
            let ticket = tickets.get(*index as usize).copied().flatten();
            let is_same = |one: &&Finished| Some(one.ticket) == ticket;
            let finished = all.iter().find(is_same).copied();
            let open = ticket.and_then(|ticket| self.receives.get(ticket)).copied();
            let row = match (open, finished) {
                (
                    Some(open),
                    Some(Finished {
                        match_result: MatchResult::Matched(from),
                        stamp: Some(stamp),
                        ticket,
                    }),
                ) => {
                    self.receive(stream, ticket, &stamp);
                    let communicator = open.post.communicator;
                    let claim = self.claim(tickets, communicator, from, *index);
                    Row::Message { certain: false, stamp, topic: (communicator, from.tag), claim }
                }
                (open, _) => {
                    if open.is_some() {
                        self.tick(stream);
                    }
                    Row::Other(Other::Index(*index))
                }
            };
            self.rows.push(row);
            if let Some(ticket) = ticket {
                self.receives.close(ticket);
            }
        }
    }

    fn claim(&self, tickets: &[Option<Ticket>], comm: u32, from: Envelope, index: u32) -> u32 {
        let accepting = self.receives.accepting(tickets, comm, from);
        accepting.iter().position(|other| *other == index).unwrap_or(0) as u32
    }

    fn put_rows(&mut self, stream: u32, table: u32) {
        let mut left = self.rows.iter().filter(|row| row.is_written()).count();
        for row in std::mem::take(&mut self.rows) {
            left -= usize::from(row.is_written());
            let with_next = left > 0;
            match row {
                Row::Other(other) => self.put(Event::Other { table, other, with_next }),
                Row::Message { certain, stamp, topic, claim } => {
                    let tally = std::mem::take(&mut self.stream(stream).unsent);
                    let table = (!certain).then_some(table);
                    let event =
                        Event::Message { stream, tally, table, stamp, topic, with_next, claim };
                    self.put(event);
                }
            }
        }
    }
}

/// Whether a call is a probe.
pub(crate) fn is_probe(kind: Kind) -> bool {
    matches!(kind, Kind::Probe | Kind::Iprobe | Kind::Mprobe | Kind::Improbe)
}

impl<S: Sink> Recording for Recorder<S> {
    fn post(&mut self, stream: u32, post: &Post) -> Ticket {
        let posted = self.stream(stream);
        posted.unsent.posts += 1;
        let wild = post.is_wild();
        let count = if wild { &mut posted.wild } else { &mut posted.named };
        let ticket = Ticket { stream, wild, number: *count };
        *count += 1;
        self.receives.post(ticket, post);
        ticket
    }

    /// Not recorded: the program did not observe the match, so a replay leaves the message unreceived.
    fn resolve(&mut self, _ticket: Ticket, _match_result: MatchResult) {}

    #[expect(clippy::indexing_slicing, reason = "there is a count for every table")]
    fn failed(&mut self, stream: u32, kind: Kind, site: u64) {
        if kind.polls() {
            let table = self.table(TableKey { stream, kind, site });
            let polls = &mut self.polls[table as usize];
            if *polls == 0 {
                self.polled.push(table);
            }
            *polls += 1;
        }
    }

    fn matched(&mut self, stream: u32, call: &Call, completed: Completed<'_>) {
        self.completed(stream, call, &[], completed, &[]);
    }

    fn completed(
        &mut self,
        stream: u32,
        call: &Call,
        tickets: &[Option<Ticket>],
        completed: Completed<'_>,
        finished: &[Finished],
    ) {
        let Call { kind, site, .. } = *call;
        if let (Choice::All, Completed::These(these)) = (kind.choice(), completed) {
            self.left_pending(stream, tickets.len(), these);
        }
        self.stream(stream).successes += 1;
        match (kind.choice(), completed) {
            (Choice::All, _) => self.all(stream, kind, finished),
            (Choice::One, Completed::These([index, ..])) => {
                self.these(stream, tickets, &[*index], finished);
            }
            (Choice::Some, Completed::These(indices)) if !indices.is_empty() => {
                self.these(stream, tickets, indices, finished);
            }
            _ => self.rows.push(Row::Other(Other::Undefined)),
        }
        if !self.rows.iter().any(Row::is_written) {
            self.stream(stream).unsent.calls += 1;
        }
        if !self.rows.is_empty() {
            let table = self.table(TableKey { stream, kind, site });
            self.put_rows(stream, table);
        }
    }

    fn value(&mut self, stream: u32, which: u8, bits: u64) {
        self.put(Event::Value(Value { stream, which, bits }));
    }

    fn turn(&mut self, stream: u32, key: u64) {
        // Another queue may have the clock's key.
        self.flush_ticks();
        self.put(Event::Turn { stream, key, times: 1 });
    }

    fn is_full(&self, _stream: u32) -> bool {
        self.sink.is_full()
    }

    fn seal(&mut self, out: &mut Vec<u8>) {
        self.flush();
        self.put(Event::Seal { last: false });
        self.sink.drain(out);
    }

    fn finish(self, out: &mut Vec<u8>) {
        self.close().drain(out);
    }

    fn cancel(&mut self, ticket: Ticket) {
        if self.is_open(ticket) {
            self.tick(ticket.stream);
            self.receives.cancel(ticket);
        }
    }

    fn stamp(&mut self, ticket: Ticket, to: u32) -> Option<Stamp> {
        self.receives.close(ticket);
        self.tick(ticket.stream);
        let sequence = self.sent.entry(to).or_default();
        *sequence += 1;
        Some(Stamp { sender: self.me, sequence: *sequence - 1, clock: self.clock.send() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Collects events.
    #[derive(Default)]
    struct Collected(Vec<Event>);

    impl Sink for Collected {
        fn put(&mut self, event: Event) {
            self.0.push(event);
        }
        fn is_full(&self) -> bool {
            false
        }
        fn drain(&mut self, _: &mut Vec<u8>) {}
    }

    /// The encoder may end a chunk after any event, so everything before an event is passed on before it.
    #[test]
    fn failed_polls_are_encoded_before_the_events_after_them() {
        let poll =
            |recorder: &mut Recorder<Collected>, site| recorder.failed(0, Kind::Testsome, site);
        let is_failed = |event: &Event| matches!(event, Event::Failed { .. });
        let mut recorder = Recorder::with(0, Collected::default());
        poll(&mut recorder, 1);
        poll(&mut recorder, 2);
        poll(&mut recorder, 1);
        assert!(!recorder.sink.0.iter().any(is_failed), "polls are counted");
        let undefined = Call { kind: Kind::Waitany, site: 3, count: 1 };
        recorder.matched(0, &undefined, Completed::Undefined);
        poll(&mut recorder, 2);
        recorder.value(0, 1, 7);
        poll(&mut recorder, 1);
        recorder.turn(0, 5);
        let events: Vec<String> = recorder.sink.0.iter().filter_map(name).collect();
        let expected = ["0: 2", "1: 1", "row", "1: 1", "value", "0: 1", "turn"];
        assert_eq!(events, expected);
    }

    fn name(event: &Event) -> Option<String> {
        match event {
            Event::Failed { table, polls } => Some(format!("{table}: {polls}")),
            Event::Other { .. } => Some("row".to_owned()),
            Event::Value(_) => Some("value".to_owned()),
            Event::Turn { .. } => Some("turn".to_owned()),
            _ => None,
        }
    }
}
