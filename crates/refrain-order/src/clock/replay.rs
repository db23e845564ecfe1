//! The replayer: decides which messages the program's calls get, and when.

mod clock_bound;
mod plan;

use crate::clock::arrivals::{Arrivals, Survey};
use crate::clock::bound_queries::BoundQueries;
use crate::clock::chunk::{Left, TableKey};
use crate::clock::lamport::Lamport;
use crate::clock::loaded::Row;
use crate::clock::receives::Receives;
use crate::clock::record::{CLOCK_KEY, is_probe};
use crate::clock::table::Other;
use crate::clock::{Answer, Delivery, Note, Sending};
use crate::turns::TurnReplayer;
use crate::{
    Call, Choice, Divergence, Envelope, Kind, Moment, OrderError, Post, Stamp, Stop, Ticket, Turn,
};
use refrain_bytes::table::Map;

/// Enforces one process's receive order.
#[derive(Debug)]
pub struct Replayer {
    me: u32,
    clock: Lamport,
    sent: Map<u32, u64>,
    receives: Receives,
    arrivals: Arrivals,
    turns: TurnReplayer,
    /// How many operations each stream posts, and how many calls without a row it makes, up to the end of the
    /// record.
    tallies: Vec<(u64, u64)>,
    complete: bool,
    /// Requests that calls leave pending because of an error.
    left: Vec<Left>,
    streams: Vec<Stream>,
    queries: BoundQueries,
    deliveries: Vec<Delivery>,
    /// See [`Replayer::expect_collectives`].
    collectives: bool,
    /// Several threads set the clock, and the record has their order to the end.
    is_clock_shared: bool,
}

#[derive(Clone, Debug, Default)]
struct Stream {
    wild: u64,
    named: u64,
    posted: u64,
    /// Calls without a row.
    rowless: u64,
    /// Completing calls that found something.
    successes: u64,
    /// The number of its current chunk.
    chunk: u64,
    state: State,
}

/// The state of a thread.
#[derive(Clone, Debug, Default)]
enum State {
    /// It runs: it may send at any moment.
    #[default]
    Running,
    /// It waits for all of these messages.
    Waiting(Vec<Need>),
    /// It waits for its turn.
    AwaitsTurn,
    /// It is in a collective operation that these processes have not entered. Its messages after the operation have
    /// at least this stamp.
    InCollective(Vec<u32>, u64),
    /// It makes no more calls.
    Ended,
    /// Its record ends here, but the recorded program continued. It must not count as ended: other processes may have
    /// recorded messages that it sent later.
    Truncated,
}

/// A message that a call waits for.
#[derive(Clone, Copy, Debug)]
enum Need {
    /// The message at a position of a table's reference order.
    Position { chunk: u64, table: u32, position: usize },
    /// The n-th unreceived message with that envelope.
    Named { communicator: u32, from: Envelope, nth: usize },
    /// The message of a sender with that sequence number.
    Numbered { sender: u32, sequence: u64 },
}

/// The rows of a call, and the chunk and table they are in.
type Due = ((u64, u32), Vec<Row>);

impl Replayer {
    /// From the record of process `me` of `processes`.
    pub fn new(record: Vec<u8>, me: u32, processes: u32) -> Result<Self, OrderError> {
        let Survey { tallies, complete, left, turns } = Survey::of(&record)?;
        let streams = vec![Stream::default(); tallies.len().max(1)];
        let is_clock_shared = turns.is_shared(CLOCK_KEY);
        Ok(Self {
            me,
            clock: Lamport::default(),
            sent: Map::default(),
            receives: Receives::default(),
            arrivals: Arrivals::new(record, processes),
            turns,
            tallies,
            complete,
            left,
            streams,
            queries: BoundQueries::new(me),
            deliveries: Vec::new(),
            collectives: false,
            is_clock_shared,
        })
    }

    /// The clock, for collective operations, which exchange it too: see [`Lamport::merge`].
    pub fn clock(&mut self) -> &mut Lamport {
        &mut self.clock
    }

    /// The agent will report collective operations by [`Self::waits_in_collective`]. Then a process without further
    /// sends still counts until it has ended: other processes may wait for it in a collective before they send.
    pub fn expect_collectives(&mut self) {
        self.collectives = true;
    }

    /// A thread is in a collective operation that cannot end before the `missing` processes have entered it; all
    /// messages it sends afterwards have at least the stamp `bound`. The agent calls this again whenever a process
    /// has entered: processes announce that to each other, in order with their notes.
    ///
    /// A process that is queried meanwhile sends no early message unless a missing process does: missing processes
    /// enter with a later clock, or because of an earlier message. When no process is missing, nothing is known.
    pub fn waits_in_collective(&mut self, stream: u32, missing: &[u32], bound: u64) {
        self.stream(stream).state = State::InCollective(missing.to_vec(), bound);
        self.reconsider();
    }

    /// The indices of requests that the next successful call of a thread leaves pending because of an error, although
    /// it is a call that completes all of its requests.
    pub fn left_pending(&self, stream: u32) -> Vec<u32> {
        let successes = self.streams.get(stream as usize).map_or(0, |one| one.successes);
        let is_next = |left: &&Left| left.stream == stream && left.call == successes;
        self.left.iter().filter(is_next).map(|left| left.index).collect()
    }

    /// Whether a poll must fail, as far as that is known at once; if so, the poll is counted. The same answer as
    /// [`Replayer::call`] would give, but fast: programs poll millions of times.
    pub fn poll_fails(&mut self, stream: u32, kind: Kind, site: u64) -> bool {
        let at = self.stream(stream).chunk;
        let Some(table) = self.arrivals.keys.get(&TableKey { stream, kind, site }).copied() else {
            return false;
        };
        match self.arrivals.part(at, table) {
            Some(part) if part.polls > 0 => part.polls -= 1,
            _ => return false,
        }
        self.stream(stream).state = State::Running;
        true
    }

    /// No thread makes any more calls.
    pub fn all_ended(&mut self) {
        self.streams.iter_mut().for_each(|stream| stream.state = State::Ended);
        self.reconsider();
    }

    /// The thread has left the collective operation.
    pub fn resumes(&mut self, stream: u32) {
        self.stream(stream).state = State::Running;
        self.reconsider();
    }

    #[expect(clippy::indexing_slicing, reason = "made as long as that just before")]
    fn stream(&mut self, stream: u32) -> &mut Stream {
        let at = stream as usize;
        if self.streams.len() <= at {
            self.streams.resize_with(at + 1, Stream::default);
        }
        &mut self.streams[at]
    }

    /// Counts a posted operation. Threads stop at the end of a truncated record, even if this operation needs no
    /// decision: the order of threads is not known beyond it.
    fn count_post(&mut self, stream: u32) -> Result<(), Stop> {
        let (known, _) = self.tallies.get(stream as usize).copied().unwrap_or_default();
        let complete = self.complete;
        let thread = self.stream(stream);
        if !complete && thread.posted >= known {
            return Err(self.record_ends(stream));
        }
        thread.posted += 1;
        Ok(())
    }

    fn record_ends(&mut self, stream: u32) -> Stop {
        self.stream(stream).state = if self.complete { State::Ended } else { State::Truncated };
        self.reconsider();
        Stop::RecordEnds
    }

    /// The next recorded call of each unfinished table, of one thread or of all.
    fn expected(&self, stream: Option<u32>) -> Vec<Moment> {
        let is_of = |(key, _): &(&TableKey, &u32)| stream.is_none_or(|stream| stream == key.stream);
        let mut keys: Vec<(&TableKey, &u32)> = self.arrivals.keys.iter().filter(is_of).collect();
        keys.sort_by_key(|(_, table)| **table);
        let (first, end) = self.arrivals.chunks();
        let chunks = (first..end).filter_map(|number| self.arrivals.chunk(number));
        let Some(chunk) = chunks.into_iter().find(|chunk| !chunk.is_done()) else {
            return Vec::new();
        };
        let open = keys.iter().filter_map(|(key, table)| {
            let part = chunk.parts.get(*table).filter(|part| !part.is_done())?;
            let TableKey { kind, site, .. } = **key;
            let index = |row: &Row| match row {
                Row::Other(Other::Index(index)) => Some(*index),
                _ => None,
            };
            let picks = part.group().iter().filter_map(index).collect();
            let (position, polls) = (part.row(), part.polls);
            Some(Moment::Call { position, kind, site, count: 0, polls, picks })
        });
        open.collect()
    }

    fn divergence(&self, stream: u32, asked: Option<u32>, got: Moment) -> Stop {
        let mut neighbours = self.expected(asked);
        neighbours.truncate(4);
        let expected = if neighbours.is_empty() { Moment::End } else { neighbours.remove(0) };
        Stop::Diverged(Box::new(Divergence { stream, expected, got, neighbours }))
    }

    fn diverged(&self, stream: u32, call: &Call) -> Stop {
        let Call { kind, site, count } = *call;
        let picks = Vec::new();
        let got = Moment::Call { position: 0, kind, site, count, polls: 0, picks };
        self.divergence(stream, Some(stream), got)
    }

    /// The chunk and table with the next row of a call.
    fn find(&mut self, stream: u32, call: &Call) -> Result<(u64, u32), Stop> {
        let key = TableKey { stream, kind: call.kind, site: call.site };
        loop {
            let (first, end) = self.arrivals.chunks();
            let at = self.stream(stream).chunk.max(first);
            self.stream(stream).chunk = at;
            if at == end {
                match self.arrivals.load() {
                    Ok(true) => continue,
                    Ok(false) => return Err(self.record_ends(stream)),
                    Err(error) => return Err(Stop::Unreadable(error)),
                }
            }
            let table = self.arrivals.keys.get(&key).copied();
            if let Some(table) = table
                && self.arrivals.part(at, table).is_some_and(|part| !part.is_done())
            {
                return Ok((at, table));
            }
            // The thread must then have finished this chunk.
            let keys = self.arrivals.keys.iter().filter(|(key, _)| key.stream == stream);
            let chunk = self.arrivals.chunk(at);
            let is_open = |table: &u32| {
                chunk.and_then(|chunk| chunk.parts.get(table)).is_some_and(|part| !part.is_done())
            };
            if keys.map(|(_, table)| table).any(is_open) {
                return Err(self.diverged(stream, call));
            }
            self.stream(stream).chunk = at + 1;
            self.arrivals.forget();
        }
    }

    /// The rows with which a call succeeds, and where they are; `None` if the call fails. `has_rows`: whether the
    /// record has rows for this call.
    fn due(&mut self, stream: u32, call: &Call, has_rows: bool) -> Result<Option<Due>, Stop> {
        if !has_rows {
            let (_, known) = self.tallies.get(stream as usize).copied().unwrap_or_default();
            if self.stream(stream).rowless >= known {
                return Err(self.record_ends(stream));
            }
            return Ok(Some(((0, 0), Vec::new())));
        }
        let (chunk, table) = self.find(stream, call)?;
        let part = self.arrivals.part(chunk, table);
        let part = part.ok_or(Stop::Unreadable(OrderError::Missing))?;
        if part.polls > 0 {
            part.polls -= 1;
            self.stream(stream).state = State::Running;
            return Ok(None);
        }
        Ok(Some(((chunk, table), part.group())))
    }

    fn wait(&mut self, stream: u32, state: State) -> Answer<'_> {
        self.stream(stream).state = state;
        self.reconsider();
        Answer::Later
    }
}

/// The calls of an agent.
impl Replayer {
    /// The program posts a receive, which the agent holds back.
    pub fn receive(&mut self, stream: u32, post: &Post) -> Result<Ticket, Stop> {
        self.count_post(stream)?;
        let wild = post.is_wild();
        let thread = self.stream(stream);
        thread.state = State::Running;
        let count = if wild { &mut thread.wild } else { &mut thread.named };
        let ticket = Ticket { stream, wild, number: *count };
        *count += 1;
        self.receives.post(ticket, post);
        Ok(ticket)
    }

    /// The program sends to a process. Returns the stamp, which a note carries to the receiver; `None` if the thread
    /// has to wait for its turn.
    pub fn send(&mut self, stream: u32, sending: &Sending) -> Result<Option<Stamp>, Stop> {
        if self.turns.turn(stream, CLOCK_KEY) != Turn::Go {
            self.wait(stream, State::AwaitsTurn);
            return Ok(None);
        }
        self.count_post(stream)?;
        let thread = self.stream(stream);
        thread.state = State::Running;
        thread.named += 1;
        self.turns.took(CLOCK_KEY);
        let Sending { to, communicator, source, tag } = *sending;
        let sequence = self.sent.entry(to).or_default();
        *sequence += 1;
        let sequence = *sequence - 1;
        let clock = self.clock.send();
        if to == self.me {
            self.arrivals.arrive(to, clock, communicator, Envelope { source, tag });
        } else {
            self.queries.push(to, Note::Sent { clock, communicator, source, tag });
        }
        self.reconsider();
        Ok(Some(Stamp { sender: self.me, sequence, clock }))
    }

    /// The program makes a completing call with these requests (`None` for inactive ones and those that are no
    /// receives).
    pub fn call(
        &mut self,
        stream: u32,
        call: &Call,
        tickets: &[Option<Ticket>],
    ) -> Result<Answer<'_>, Stop> {
        let kind = call.kind;
        let chooses = kind.choice() != Choice::All;
        let mut taken;
        let mut tickets = tickets;
        if !self.left.is_empty() {
            taken = tickets.to_vec();
            for index in self.left_pending(stream) {
                taken.get_mut(index as usize).map(|ticket| ticket.take());
            }
            tickets = &taken;
        }
        let doubtful = |ticket: &Ticket| {
            self.receives.get(*ticket).is_some_and(|open| self.receives.certain(open).is_none())
        };
        // Other threads may change which receives have a choice, so this is decided in turn.
        let opens = !chooses
            && !is_probe(kind)
            && tickets.iter().flatten().any(|ticket| self.receives.get(*ticket).is_some());
        let in_turn = self.turns.turn(stream, CLOCK_KEY) == Turn::Go;
        if opens && !in_turn && !kind.polls() {
            return Ok(self.wait(stream, State::AwaitsTurn));
        }
        let has_rows =
            chooses || kind.polls() || is_probe(kind) || tickets.iter().flatten().any(doubtful);
        let Some((part, rows)) = self.due(stream, call, has_rows)? else {
            return Ok(Answer::Fail);
        };
        if opens && !in_turn {
            return Ok(self.wait(stream, State::AwaitsTurn));
        }
        let undefined = chooses && rows == [Row::Other(Other::Undefined)];
        let mut planned = self.plan(call, tickets, &rows, part);
        if let Some(Err(needs)) = planned {
            // Waiting raises this process's lower bound, which may settle the decision.
            self.wait(stream, State::Waiting(needs));
            planned = self.plan(call, tickets, &rows, part);
        }
        let planned = match planned {
            None => return Err(self.diverged(stream, call)),
            Some(Err(_)) => return Ok(Answer::Later),
            Some(Ok(planned)) => planned,
        };
        if !in_turn && planned.iter().any(|one| self.takes_turn(one, tickets)) {
            return Ok(self.wait(stream, State::AwaitsTurn));
        }
        self.deliveries.clear();
        if !self.commit(stream, call, tickets, &planned) {
            return Err(self.diverged(stream, call));
        }
        self.stream(stream).successes += 1;
        if !has_rows {
            self.stream(stream).rowless += 1;
        } else if let Some(part) = self.arrivals.part(part.0, part.1) {
            part.advance(&rows);
        }
        self.reconsider();
        Ok(match (undefined, chooses) {
            (true, _) => Answer::Undefined,
            (false, true) => Answer::These(&self.deliveries),
            (false, false) => Answer::All(&self.deliveries),
        })
    }

    /// The program tries to cancel a receive. Returns false if the thread has to wait for its turn.
    pub fn cancel(&mut self, ticket: Ticket) -> bool {
        if self.receives.get(ticket).is_none() {
            return true;
        }
        if self.turns.turn(ticket.stream, CLOCK_KEY) != Turn::Go {
            self.wait(ticket.stream, State::AwaitsTurn);
            return false;
        }
        self.stream(ticket.stream).state = State::Running;
        self.turns.took(CLOCK_KEY);
        self.receives.cancel(ticket);
        true
    }

    /// The program reads a clock or draws a random number.
    pub fn value(&mut self, stream: u32, which: u8) -> Result<u64, Stop> {
        loop {
            let next = self.arrivals.values.get_mut(&stream).and_then(|values| values.pop_front());
            match next {
                Some(value) if value.which == which => return Ok(value.bits),
                Some(value) => {
                    let moment = |which| Moment::Value { position: 0, which };
                    return Err(Stop::Diverged(Box::new(Divergence {
                        stream,
                        expected: moment(value.which),
                        got: moment(which),
                        neighbours: Vec::new(),
                    })));
                }
                None => match self.arrivals.load() {
                    Ok(true) => {}
                    Ok(false) => return Err(self.record_ends(stream)),
                    Err(error) => return Err(Stop::Unreadable(error)),
                },
            }
        }
    }

    /// Whether it is the thread's turn for an operation with this key.
    pub fn turn(&self, stream: u32, key: u64) -> Turn {
        self.turns.turn(stream, key)
    }

    /// The thread whose turn it was has performed its operation.
    pub fn took_turn(&mut self, key: u64) {
        self.turns.took(key);
    }

    /// The thread makes no more calls.
    pub fn ended(&mut self, stream: u32) {
        self.stream(stream).state = State::Ended;
        self.reconsider();
    }

    /// Receives a note.
    pub fn receive_note(&mut self, from: u32, note: Note) {
        match note {
            Note::Sent { clock, communicator, source, tag } => {
                self.arrivals.arrive(from, clock, communicator, Envelope { source, tag });
            }
            Note::Query { origin, serial, clock } => {
                let mut queries = std::mem::replace(&mut self.queries, BoundQueries::new(self.me));
                queries.receive_query(from, origin, serial, clock, |clock| self.clock_bound(clock));
                self.queries = queries;
            }
            Note::Bound { origin, serial, clock, sure } => {
                if sure {
                    self.arrivals.raise_bound(from, clock);
                }
                if let Some((clock, asked)) = self.queries.receive_bound(from, origin, serial) {
                    let sure = clock.saturating_add(1);
                    asked.iter().for_each(|one| self.arrivals.raise_bound(*one, sure));
                }
            }
            Note::Retry { origin, serial } => self.queries.receive_retry(origin, serial),
        }
        self.reconsider();
    }

    /// The next note to send, and its destination. The agent calls this after every other function, until there is
    /// none, and sends the notes in this order.
    pub fn next_note(&mut self) -> Option<(u32, Note)> {
        self.queries.next_note()
    }

    /// The program has finalized MPI.
    pub fn finish(mut self) -> Result<(), Stop> {
        loop {
            let (first, end) = self.arrivals.chunks();
            let is_done = |number| self.arrivals.chunk(number).is_none_or(|one| one.is_done());
            if !(first..end).all(is_done) {
                return Err(self.divergence(0, None, Moment::End));
            }
            self.arrivals.forget();
            match self.arrivals.load() {
                Ok(true) => {}
                Ok(false) => return Ok(()),
                Err(error) => return Err(Stop::Unreadable(error)),
            }
        }
    }
}
