//! The replayer: asked about calls, it says which messages they get, and when.

mod clock_bound;
mod plan;

use crate::clock::arrivals::{Arrivals, Survey};
use crate::clock::chunk::{Left, TableKey};
use crate::clock::lamport::Lamport;
use crate::clock::loaded::Row;
use crate::clock::receives::Receives;
use crate::clock::record::{CLOCK_LINE, is_probe};
use crate::clock::table::Other;
use crate::clock::talk::Talk;
use crate::clock::{Answer, Delivery, Note, Sending};
use crate::turns::TurnReplayer;
use crate::{
    Call, Choice, Divergence, Envelope, Kind, Moment, OrderError, Post, Stamp, Stop, Ticket, Turn,
};
use refrain_bytes::table::Map;

/// Forces one process's receive order.
#[derive(Debug)]
pub struct Replayer {
    me: u32,
    clock: Lamport,
    sent: Map<u32, u64>,
    receives: Receives,
    arrivals: Arrivals,
    turns: TurnReplayer,
    /// How many operations each stream posts, and calls it makes that have no row, as far as the
    /// record goes.
    done: Vec<(u64, u64)>,
    complete: bool,
    /// Requests that calls leave, because of an error.
    left: Vec<Left>,
    streams: Vec<Stream>,
    talk: Talk,
    deliveries: Vec<Delivery>,
    /// See [`Replayer::expect_gatherings`].
    gatherings: bool,
    /// Several threads set the clock, and the record says in which order to the end.
    is_clock_shared: bool,
}

#[derive(Clone, Debug, Default)]
struct Stream {
    wild: u64,
    named: u64,
    posted: u64,
    called: u64,
    /// Calls that found something.
    made: u64,
    /// The chunk it is at.
    chunk: u64,
    state: State,
}

#[derive(Clone, Debug, Default)]
enum State {
    /// It does something else.
    #[default]
    Busy,
    /// It waits for all of these.
    Waiting(Vec<Need>),
    /// It waits for another thread.
    InLine,
    /// It is in a collective operation, and these are not. What it sends then is stamped at least
    /// so late.
    Gathering(Vec<u32>, u64),
    /// It does nothing any more.
    Over,
    /// Its record ends here, and it did more: others must not take it for over, as what they have recorded
    /// may have come of that.
    Cut,
}

/// A message that a call waits for.
#[derive(Clone, Copy, Debug)]
enum Need {
    /// The message at a place of a table's reference order.
    Place { chunk: u64, table: u32, place: usize },
    /// The next message with that envelope, behind so many others that nobody has received.
    Named { communicator: u32, from: Envelope, nth: usize },
    /// The message of a sender with that number.
    Numbered { sender: u32, sequence: u64 },
}

/// The rows of a call, and the chunk and table they are in.
type Due = ((u64, u32), Vec<Row>);

impl Replayer {
    /// From a process's record: its number, and how many processes there are.
    pub fn new(record: Vec<u8>, me: u32, processes: u32) -> Result<Self, OrderError> {
        let Survey { done, complete, left, turns } = Survey::of(&record)?;
        let streams = vec![Stream::default(); done.len().max(1)];
        let is_clock_shared = turns.is_shared(CLOCK_LINE);
        Ok(Self {
            me,
            clock: Lamport::default(),
            sent: Map::default(),
            receives: Receives::default(),
            arrivals: Arrivals::new(record, processes),
            turns,
            done,
            complete,
            left,
            streams,
            talk: Talk::new(me),
            deliveries: Vec::new(),
            gatherings: false,
            is_clock_shared,
        })
    }

    /// The clock, for what carries it other than messages: see [`Lamport::merge`].
    pub fn clock(&mut self) -> &mut Lamport {
        &mut self.clock
    }

    /// Collective operations will be told of by [`Self::gathers`]. Then a process matters that has
    /// nothing left to send, as long as it is not over: what others send may wait for it.
    pub fn expect_gatherings(&mut self) {
        self.gatherings = true;
    }

    /// A thread is in a collective operation that cannot end before these processes are in it too;
    /// whatever it sends behind it is stamped at least so late. To be told whenever somebody has
    /// come: processes tell each other so, in line with their notes.
    ///
    /// Who is asked meanwhile can say that nothing early will come, if nothing early comes from
    /// those who are missing: they come with a later clock, or because of something earlier. When
    /// nobody is missing any more, nothing is certain.
    pub fn gathers(&mut self, stream: u32, missing: &[u32], bound: u64) {
        self.stream(stream).state = State::Gathering(missing.to_vec(), bound);
        self.stir();
    }

    /// Requests that the next call of a thread that finds something leaves, though it completes all
    /// it is given, because of an error: their indices.
    pub fn leaves(&self, stream: u32) -> Vec<u32> {
        let made = self.streams.get(stream as usize).map_or(0, |own| own.made);
        let own = |left: &&Left| left.stream == stream && left.call == made;
        self.left.iter().filter(own).map(|left| left.index).collect()
    }

    /// Whether a poll is to fail, if that is plain to see; it has then. The same as
    /// [`Replayer::call`] would say, and quick: programs poll millions of times.
    pub fn fails(&mut self, stream: u32, kind: Kind, site: u64) -> bool {
        let at = self.stream(stream).chunk;
        let Some(table) = self.arrivals.keys.get(&TableKey { stream, kind, site }).copied() else {
            return false;
        };
        match self.arrivals.playing(at, table) {
            Some(part) if part.polls > 0 => part.polls -= 1,
            _ => return false,
        }
        self.stream(stream).state = State::Busy;
        true
    }

    /// No thread makes any more calls.
    pub fn all_over(&mut self) {
        self.streams.iter_mut().for_each(|stream| stream.state = State::Over);
        self.stir();
    }

    /// The thread goes on with something else.
    pub fn goes_on(&mut self, stream: u32) {
        self.stream(stream).state = State::Busy;
        self.stir();
    }

    #[expect(clippy::indexing_slicing, reason = "made as long as that just before")]
    fn stream(&mut self, stream: u32) -> &mut Stream {
        let at = stream as usize;
        if self.streams.len() <= at {
            self.streams.resize_with(at + 1, Stream::default);
        }
        &mut self.streams[at]
    }

    /// Where a record is cut short, threads stop where it ends, even if nothing is to be decided:
    /// the order among them is not known any more.
    fn posts(&mut self, stream: u32) -> Result<(), Stop> {
        let (known, _) = self.done.get(stream as usize).copied().unwrap_or_default();
        let complete = self.complete;
        let own = self.stream(stream);
        if !complete && own.posted >= known {
            return Err(self.ends(stream));
        }
        own.posted += 1;
        Ok(())
    }

    fn ends(&mut self, stream: u32) -> Stop {
        self.stream(stream).state = if self.complete { State::Over } else { State::Cut };
        self.stir();
        Stop::RecordEnds
    }

    /// What the record has next of a thread, or of all: a call for each table that is not done.
    fn expected(&self, stream: Option<u32>) -> Vec<Moment> {
        let own = |(key, _): &(&TableKey, &u32)| stream.is_none_or(|stream| stream == key.stream);
        let mut keys: Vec<(&TableKey, &u32)> = self.arrivals.keys.iter().filter(own).collect();
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

    /// Where the next row of a call's table is.
    fn find(&mut self, stream: u32, call: &Call) -> Result<(u64, u32), Stop> {
        let key = TableKey { stream, kind: call.kind, site: call.site };
        loop {
            let (first, end) = self.arrivals.chunks();
            let at = self.stream(stream).chunk.max(first);
            self.stream(stream).chunk = at;
            if at == end {
                match self.arrivals.load() {
                    Ok(true) => continue,
                    Ok(false) => return Err(self.ends(stream)),
                    Err(error) => return Err(Stop::Unreadable(error)),
                }
            }
            let table = self.arrivals.keys.get(&key).copied();
            if let Some(table) = table
                && self.arrivals.playing(at, table).is_some_and(|part| !part.is_done())
            {
                return Ok((at, table));
            }
            // The thread has to be done with this chunk, then.
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

    /// The rows with which a call is to succeed, and where they are; nothing if it is to fail.
    /// Calls that need not be `told` have none.
    fn due(&mut self, stream: u32, call: &Call, told: bool) -> Result<Option<Due>, Stop> {
        if !told {
            let (_, known) = self.done.get(stream as usize).copied().unwrap_or_default();
            if self.stream(stream).called >= known {
                return Err(self.ends(stream));
            }
            return Ok(Some(((0, 0), Vec::new())));
        }
        let place = self.find(stream, call)?;
        let part = self.arrivals.playing(place.0, place.1);
        let part = part.ok_or(Stop::Unreadable(OrderError::Missing))?;
        if part.polls > 0 {
            part.polls -= 1;
            self.stream(stream).state = State::Busy;
            return Ok(None);
        }
        Ok(Some((place, part.group())))
    }

    fn waits(&mut self, stream: u32, state: State) -> Answer<'_> {
        self.stream(stream).state = state;
        self.stir();
        Answer::Later
    }
}

/// What an agent calls.
impl Replayer {
    /// The program posts a receive, which the agent holds back.
    pub fn receive(&mut self, stream: u32, post: &Post) -> Result<Ticket, Stop> {
        self.posts(stream)?;
        let wild = post.is_wild();
        let own = self.stream(stream);
        own.state = State::Busy;
        let count = if wild { &mut own.wild } else { &mut own.named };
        let ticket = Ticket { stream, wild, number: *count };
        *count += 1;
        self.receives.post(ticket, post);
        Ok(ticket)
    }

    /// The program sends to a process: its stamp, which a note tells the receiver. Nothing if it
    /// has to wait for its turn.
    pub fn send(&mut self, stream: u32, sending: &Sending) -> Result<Option<Stamp>, Stop> {
        if self.turns.turn(stream, CLOCK_LINE) != Turn::Go {
            self.waits(stream, State::InLine);
            return Ok(None);
        }
        self.posts(stream)?;
        let own = self.stream(stream);
        own.state = State::Busy;
        own.named += 1;
        self.turns.took(CLOCK_LINE);
        let Sending { to, communicator, source, tag } = *sending;
        let sequence = self.sent.entry(to).or_default();
        *sequence += 1;
        let sequence = *sequence - 1;
        let clock = self.clock.send();
        if to == self.me {
            self.arrivals.arrive(to, clock, communicator, Envelope { source, tag });
        } else {
            self.talk.tell(to, Note::Sent { clock, communicator, source, tag });
        }
        self.stir();
        Ok(Some(Stamp { sender: self.me, sequence, clock }))
    }

    /// The program makes a matching call, with these requests (nothing for inactive ones and
    /// those that are no receives).
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
            for index in self.leaves(stream) {
                taken.get_mut(index as usize).map(|ticket| ticket.take());
            }
            tickets = &taken;
        }
        let doubtful = |ticket: &Ticket| {
            self.receives.get(*ticket).is_some_and(|open| self.receives.certain(open).is_none())
        };
        // Which receives have a choice depends on what other threads do: it is looked at in turn.
        let opens = !chooses
            && !is_probe(kind)
            && tickets.iter().flatten().any(|ticket| self.receives.get(*ticket).is_some());
        let in_turn = self.turns.turn(stream, CLOCK_LINE) == Turn::Go;
        if opens && !in_turn && !kind.polls() {
            return Ok(self.waits(stream, State::InLine));
        }
        let told =
            chooses || kind.polls() || is_probe(kind) || tickets.iter().flatten().any(doubtful);
        let Some((place, rows)) = self.due(stream, call, told)? else { return Ok(Answer::Fail) };
        if opens && !in_turn {
            return Ok(self.waits(stream, State::InLine));
        }
        let undefined = chooses && rows == [Row::Other(Other::Undefined)];
        let mut planned = self.plan(call, tickets, &rows, place);
        if let Some(Err(needs)) = planned {
            // That it waits may be all that was missing.
            self.waits(stream, State::Waiting(needs));
            planned = self.plan(call, tickets, &rows, place);
        }
        let planned = match planned {
            None => return Err(self.diverged(stream, call)),
            Some(Err(_)) => return Ok(Answer::Later),
            Some(Ok(planned)) => planned,
        };
        if !in_turn && planned.iter().any(|one| self.takes_turn(one, tickets)) {
            return Ok(self.waits(stream, State::InLine));
        }
        self.deliveries.clear();
        if !self.commit(stream, call, tickets, &planned) {
            return Err(self.diverged(stream, call));
        }
        self.stream(stream).made += 1;
        if !told {
            self.stream(stream).called += 1;
        } else if let Some(part) = self.arrivals.playing(place.0, place.1) {
            part.pass(&rows);
        }
        self.stir();
        Ok(match (undefined, chooses) {
            (true, _) => Answer::Undefined,
            (false, true) => Answer::These(&self.deliveries),
            (false, false) => Answer::All(&self.deliveries),
        })
    }

    /// The program tries to cancel a receive. False if it has to wait for its turn.
    pub fn cancels(&mut self, ticket: Ticket) -> bool {
        if self.receives.get(ticket).is_none() {
            return true;
        }
        if self.turns.turn(ticket.stream, CLOCK_LINE) != Turn::Go {
            self.waits(ticket.stream, State::InLine);
            return false;
        }
        self.stream(ticket.stream).state = State::Busy;
        self.turns.took(CLOCK_LINE);
        self.receives.cancels(ticket);
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
                    Ok(false) => return Err(self.ends(stream)),
                    Err(error) => return Err(Stop::Unreadable(error)),
                },
            }
        }
    }

    /// An operation comes to a line.
    pub fn turn(&self, stream: u32, key: u64) -> Turn {
        self.turns.turn(stream, key)
    }

    /// An operation took its place in line.
    pub fn took_turn(&mut self, key: u64) {
        self.turns.took(key);
    }

    /// The thread makes no more calls.
    pub fn over(&mut self, stream: u32) {
        self.stream(stream).state = State::Over;
        self.stir();
    }

    /// A note has come.
    pub fn hear(&mut self, from: u32, note: Note) {
        match note {
            Note::Sent { clock, communicator, source, tag } => {
                self.arrivals.arrive(from, clock, communicator, Envelope { source, tag });
            }
            Note::Ask { origin, serial, clock } => {
                let mut talk = std::mem::replace(&mut self.talk, Talk::new(self.me));
                talk.asked(from, origin, serial, clock, |clock| self.clock_bound(clock));
                self.talk = talk;
            }
            Note::Nothing { origin, serial, clock, sure } => {
                if sure {
                    self.arrivals.promise(from, clock);
                }
                if let Some((clock, asked)) = self.talk.answered(from, origin, serial) {
                    let sure = clock.saturating_add(1);
                    asked.iter().for_each(|one| self.arrivals.promise(*one, sure));
                }
            }
            Note::Again { origin, serial } => self.talk.again(origin, serial),
        }
        self.stir();
    }

    /// A note that is to be sent to that process, in this order; to be asked for after every
    /// other call until there is none.
    pub fn say(&mut self) -> Option<(u32, Note)> {
        self.talk.say()
    }

    /// The program has ended.
    pub fn finish(mut self) -> Result<(), Stop> {
        loop {
            let (first, end) = self.arrivals.chunks();
            let done = |number: &u64| self.arrivals.chunk(*number).is_none_or(|one| one.is_done());
            if !(first..end).all(|number| done(&number)) {
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
