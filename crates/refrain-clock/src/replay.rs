//! The replayer: asked about calls, it says which messages they get, and when.

use crate::arrivals::{Arrivals, Arrived, Survey};
use crate::chunk::TableKey;
use crate::lamport::Lamport;
use crate::loaded::Row;
use crate::receives::Receives;
use crate::record::{CLOCK_LINE, is_probe};
use crate::table::Other;
use crate::talk::{Standing, Talk};
use refrain_order::hash::Map;
use refrain_order::turns::TurnReplayer;
use refrain_order::{
    Answer, Call, Choice, Delivery, Divergence, Envelope, Holding, Moment, Note, OrderError, Post,
    Sending, Stamp, Stop, Ticket, Turn,
};

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
    streams: Vec<Stream>,
    talk: Talk,
    deliveries: Vec<Delivery>,
}

#[derive(Clone, Debug, Default)]
struct Stream {
    wild: u64,
    named: u64,
    posted: u64,
    called: u64,
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
    /// It does nothing any more.
    Over,
}

/// A message that a call waits for.
#[derive(Clone, Copy, Debug)]
enum Need {
    /// The message at a place of a table's reference order.
    Place { chunk: u64, table: u32, place: usize },
    /// Any message of some source, or from a sender.
    Any(Option<u32>),
}

/// What one request of a call gets.
#[derive(Clone, Copy, Debug)]
enum Planned {
    /// This message, the request at this index, or the so manieth that would take it.
    Receive(Arrived, Result<u32, usize>),
    /// This message is looked at.
    Probe(Arrived),
    /// Nothing that was not known before.
    Complete(u32),
    /// It was cancelled.
    Cancelled(u32),
}

/// Asks whose turn it is.
const NOBODY: u32 = u32::MAX;

impl Replayer {
    /// From a process's record: its number, and how many processes there are.
    pub fn new(record: Vec<u8>, me: u32, processes: u32) -> Result<Self, OrderError> {
        let Survey { done, complete, turns } = Survey::of(&record)?;
        let streams = vec![Stream::default(); done.len().max(1)];
        Ok(Self {
            me,
            clock: Lamport::default(),
            sent: Map::default(),
            receives: Receives::default(),
            arrivals: Arrivals::new(record, processes),
            turns,
            done,
            complete,
            streams,
            talk: Talk::new(me),
            deliveries: Vec::new(),
        })
    }

    /// The clock, for what carries it other than messages: see [`Lamport::meet`].
    pub fn clock(&mut self) -> &mut Lamport {
        &mut self.clock
    }

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
        self.stream(stream).state = State::Over;
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

    /// Plans a call without a choice: all receives that were not known to be complete. Rows are
    /// for those that have a choice themselves.
    fn plan_all(
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
                    (self.arrivals.nth(open.post.communicator, from, nth), Need::Any(None))
                }
                None => match rows.next()? {
                    Row::Other(Other::Cancelled) => {
                        planned.push(Planned::Cancelled(index));
                        continue;
                    }
                    Row::Message(place, _) => {
                        let found = self.arrivals.decide(chunk, table, *place);
                        if found.is_some_and(|one| !open.accepts(one.communicator, one.from)) {
                            return None;
                        }
                        (found, Need::Place { chunk, table, place: *place })
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
    fn plan_these(
        &self,
        rows: &[Row],
        (chunk, table): (u64, u32),
        needs: &mut Vec<Need>,
    ) -> Option<Vec<Planned>> {
        let mut planned = Vec::new();
        for row in rows {
            match row {
                Row::Message(place, claim) => match self.arrivals.decide(chunk, table, *place) {
                    Some(arrived) => planned.push(Planned::Receive(arrived, Err(*claim))),
                    None => needs.push(Need::Place { chunk, table, place: *place }),
                },
                Row::Other(Other::Probed(sender, sequence)) => {
                    match self.arrivals.letter(*sender, *sequence) {
                        Some(arrived) => planned.push(Planned::Probe(arrived)),
                        None => needs.push(Need::Any(Some(*sender))),
                    }
                }
                Row::Other(Other::Index(index)) => planned.push(Planned::Complete(*index)),
                Row::Other(_) => return None,
            }
        }
        Some(planned)
    }

    /// Plans a call that is to succeed with these rows: what it gets, or needs. Nothing if the
    /// rows are not of such a call.
    fn plan(
        &self,
        call: &Call,
        tickets: &[Option<Ticket>],
        rows: &[Row],
        place: (u64, u32),
    ) -> Option<Result<Vec<Planned>, Vec<Need>>> {
        let mut needs = Vec::new();
        let chooses = call.kind.choice() != Choice::All;
        let planned = if chooses && rows == [Row::Other(Other::Undefined)] {
            Vec::new()
        } else if chooses || is_probe(call.kind) {
            self.plan_these(rows, place, &mut needs)?
        } else {
            self.plan_all(tickets, rows, place, &mut needs)?
        };
        Some(if needs.is_empty() { Ok(planned) } else { Err(needs) })
    }

    /// Whether the order of threads matters for what is planned.
    fn takes_turn(&self, planned: &Planned, tickets: &[Option<Ticket>]) -> bool {
        match planned {
            Planned::Receive(..) | Planned::Probe(_) | Planned::Cancelled(_) => true,
            Planned::Complete(index) => {
                let ticket = tickets.get(*index as usize).copied().flatten();
                ticket.is_some_and(|ticket| self.receives.get(ticket).is_some())
            }
        }
    }

    /// Does what was planned; says whether it fits the call.
    fn commit(
        &mut self,
        stream: u32,
        call: &Call,
        tickets: &[Option<Ticket>],
        all: &[Planned],
    ) -> bool {
        for planned in all {
            if self.takes_turn(planned, tickets) {
                self.turns.took(CLOCK_LINE);
            }
            let (index, arrived, cancelled) = match planned {
                Planned::Receive(arrived, at) => {
                    let index = match at {
                        Ok(index) => Some(*index),
                        Err(_) if is_probe(call.kind) => Some(0),
                        Err(claim) => {
                            let takers =
                                self.receives.takers(tickets, arrived.communicator, arrived.from);
                            takers.get(*claim).copied()
                        }
                    };
                    let Some(index) = index else { return false };
                    self.arrivals.receive(arrived);
                    self.clock.receive(arrived.stamp.clock);
                    (index, Some(*arrived), false)
                }
                Planned::Probe(arrived) => (0, Some(*arrived), false),
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
        self.stream(stream).state = State::Busy;
        true
    }

    fn waits(&mut self, stream: u32, state: State) -> Answer<'_> {
        self.stream(stream).state = state;
        self.stir();
        Answer::Later
    }

    /// What can be said of the next message of this process, when asked about a clock.
    fn standing(&self, clock: u64) -> Standing {
        let sends = |(number, own): &(usize, &Stream)| {
            let left = self.done.get(*number).is_some_and(|(posts, _)| own.posted < *posts);
            !matches!(own.state, State::Over) && (left || !self.complete)
        };
        let mut streams: Vec<&Stream> =
            self.streams.iter().enumerate().filter(sends).map(|(_, own)| own).collect();
        if streams.is_empty() {
            return Standing::Sure(u64::MAX);
        }
        if self.clock.now() > clock {
            return Standing::Sure(self.clock.now());
        }
        if let Turn::After(next) = self.turns.turn(NOBODY, CLOCK_LINE) {
            // Nobody else can set the clock before that thread does.
            streams = self.streams.get(next as usize).into_iter().collect();
        }
        let mut laggards = Vec::new();
        let mut waiting = false;
        for stream in streams {
            match &stream.state {
                State::InLine | State::Over => {}
                State::Busy => return Standing::Busy,
                State::Waiting(needs) => {
                    let Some(need) = needs.iter().find(|need| self.is_late(need, clock)) else {
                        return Standing::Busy;
                    };
                    waiting = true;
                    laggards.extend(self.laggards(need, clock));
                }
            }
        }
        if !waiting {
            return Standing::Busy;
        }
        laggards.sort_unstable();
        laggards.dedup();
        laggards.retain(|sender| *sender != self.me);
        Standing::If(laggards)
    }

    /// Whether what is needed is not stamped before a clock, unless something comes.
    fn is_late(&self, need: &Need, clock: u64) -> bool {
        self.hoped(need).is_none_or(|hoped| hoped >= clock)
    }

    fn hoped(&self, need: &Need) -> Option<u64> {
        match *need {
            Need::Place { chunk, table, place } => {
                self.arrivals.candidate(chunk, table, place).map(|one| one.stamp.clock)
            }
            Need::Any(_) => None,
        }
    }

    fn laggards(&self, need: &Need, clock: u64) -> Vec<u32> {
        match *need {
            Need::Place { chunk, .. } => self.arrivals.laggards(chunk, clock),
            Need::Any(Some(sender)) if self.arrivals.bound(sender) <= clock => vec![sender],
            Need::Any(Some(_)) => Vec::new(),
            Need::Any(None) => self.arrivals.all_laggards(clock),
        }
    }

    /// Something has changed: looks again at all questions, and whether there is one to be asked.
    fn stir(&mut self) {
        self.arrivals.promise(self.me, self.clock.now());
        let mut talk = std::mem::replace(&mut self.talk, Talk::new(self.me));
        if !talk.is_quiet() {
            talk.stir(|clock| self.standing(clock));
        }
        self.talk = talk;
        self.ask();
    }

    /// Asks whether the next call to be decided may be: that with the earliest messages.
    fn ask(&mut self) {
        let target = |own: &Stream| match &own.state {
            State::Waiting(needs) => {
                let hoped: Option<Vec<u64>> = needs.iter().map(|need| self.hoped(need)).collect();
                let clock = hoped?.into_iter().max()?;
                Some((clock, needs.clone()))
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
            match self.standing(clock) {
                Standing::Busy => return self.talk.drop_question(),
                Standing::If(more) => laggards.extend(more),
                Standing::Sure(_) => {}
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

impl Holding for Replayer {
    fn receive(&mut self, stream: u32, post: &Post) -> Result<Ticket, Stop> {
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

    fn send(&mut self, stream: u32, sending: &Sending) -> Result<Option<Stamp>, Stop> {
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

    fn call(
        &mut self,
        stream: u32,
        call: &Call,
        tickets: &[Option<Ticket>],
    ) -> Result<Answer<'_>, Stop> {
        let kind = call.kind;
        let chooses = kind.choice() != Choice::All;
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
        let (place, rows) = if told {
            let place = self.find(stream, call)?;
            let part = self.arrivals.playing(place.0, place.1);
            let part = part.ok_or(Stop::Unreadable(OrderError::Missing))?;
            if part.polls > 0 {
                part.polls -= 1;
                self.stream(stream).state = State::Busy;
                return Ok(Answer::Fail);
            }
            (place, part.group())
        } else {
            let (_, known) = self.done.get(stream as usize).copied().unwrap_or_default();
            if self.stream(stream).called >= known {
                return Err(self.ends(stream));
            }
            ((0, 0), Vec::new())
        };
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

    fn cancels(&mut self, ticket: Ticket) -> bool {
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

    fn value(&mut self, stream: u32, which: u8) -> Result<u64, Stop> {
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

    fn turn(&self, stream: u32, key: u64) -> Turn {
        self.turns.turn(stream, key)
    }

    fn took_turn(&mut self, key: u64) {
        self.turns.took(key);
    }

    fn over(&mut self, stream: u32) {
        self.stream(stream).state = State::Over;
        self.stir();
    }

    fn hear(&mut self, from: u32, note: Note) {
        match note {
            Note::Sent { clock, communicator, source, tag } => {
                self.arrivals.arrive(from, clock, communicator, Envelope { source, tag });
            }
            Note::Ask { origin, serial, clock } => {
                let mut talk = std::mem::replace(&mut self.talk, Talk::new(self.me));
                talk.asked(from, origin, serial, clock, |clock| self.standing(clock));
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

    fn say(&mut self) -> Option<(u32, Note)> {
        self.talk.say()
    }

    fn finish(mut self) -> Result<(), Stop> {
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
