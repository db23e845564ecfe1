//! Tells a recorder of the calls of a trace.

use super::read::{Act, Read, act, envelope};
use refrain_format::decode::Event;
use refrain_mpi::abi::Layout;
use refrain_mpi::status::StatusFields;
use refrain_order::{Call, Choice, Completed, Fate, Kind, Post, Recorder, Ticket};
use std::collections::HashMap;

/// The only stream: several are refused.
const STREAM: u32 = 0;

/// Tells a recorder of the calls of one rank.
pub struct Teller {
    /// The recorder.
    pub recorder: Recorder,
    /// Calls that match messages, so far.
    pub matching: u64,
    /// What the program did that a record does not hold.
    pub outside: Vec<String>,
    layout: &'static Layout,
    /// Whether the status of an `MPI_Isendrecv` says nothing, as MPICH's.
    isendrecv_is_mute: bool,
    receives: HashMap<u64, Receive>,
}

/// A receive that completes later.
#[derive(Clone, Copy)]
struct Receive {
    /// While it is active.
    ticket: Option<Ticket>,
    post: Post,
    /// It can be started again.
    persistent: bool,
    /// The program has tried to cancel it: only then a status tells whether that was done.
    cancelled: bool,
}

impl Teller {
    /// Nothing has happened yet.
    pub fn new(layout: &'static Layout, isendrecv_is_mute: bool) -> Teller {
        Teller {
            recorder: Recorder::new(),
            matching: 0,
            outside: Vec::new(),
            layout,
            isendrecv_is_mute,
            receives: HashMap::new(),
        }
    }

    /// A call; what is wrong is that a receive is let go of, by the call of that number.
    pub fn event(&mut self, event: &Event) -> Result<(), u64> {
        let name = event.function.name.as_str();
        let Some(act) = act(name) else { return Ok(()) };
        let read = Read { event, layout: self.layout };
        if act == Act::Outside {
            self.note(name);
            return Ok(());
        }
        self.matching += 1;
        if event.end.is_none() && event.result.is_none() {
            // It never returned. What it sent was sent, though.
            if act == Act::Receive(Kind::Sendrecv) {
                self.recorder.post(STREAM, &read.post());
            }
            return Ok(());
        }
        match act {
            Act::Receive(kind) => self.receive(&read, kind),
            Act::Probe(kind) => self.probe(&read, kind),
            Act::Post => self.post(&read),
            Act::Init => self.init(&read),
            Act::Start => self.start(&read),
            Act::Complete(kind) => self.complete(&read, kind),
            Act::Arrive if read.found() => self.succeeded(Kind::Parrived),
            Act::Arrive => self.recorder.failed(STREAM, Kind::Parrived, 0),
            Act::Cancel => self.cancel(&read),
            Act::Free => return self.free(&read),
            Act::Outside => {}
        }
        Ok(())
    }

    /// There are no more calls.
    pub fn end(&mut self) {
        if self.receives.values().any(|receive| receive.ticket.is_some_and(|own| own.wild)) {
            self.note("receives with a wildcard that were never completed: taken for unmatched");
        }
    }

    fn note(&mut self, what: &str) {
        if !self.outside.iter().any(|noted| noted == what) {
            self.outside.push(what.to_owned());
        }
    }

    fn succeeded(&mut self, kind: Kind) {
        let call = Call { kind, site: 0, count: 0 };
        self.recorder.matched(STREAM, &call, Completed::All);
    }

    /// What a receive or probe with a wildcard got.
    fn settle(&mut self, ticket: Ticket, status: Option<StatusFields>) {
        if let Some(status) = status.filter(|_| ticket.wild) {
            self.recorder.resolve(ticket, Fate::Matched(envelope(&status)));
        }
    }

    fn cancel(&mut self, read: &Read<'_>) {
        let [before, _] = read.requests();
        let receive = before.first().and_then(|request| self.receives.get_mut(request));
        match receive {
            Some(receive) => receive.cancelled = true,
            None => self.note("MPI_Cancel of what is no receive"),
        }
    }

    fn receive(&mut self, read: &Read<'_>, kind: Kind) {
        let ticket = self.recorder.post(STREAM, &read.post());
        self.succeeded(kind);
        if read.has_status() {
            self.settle(ticket, read.status(0));
        }
    }

    fn probe(&mut self, read: &Read<'_>, kind: Kind) {
        if !read.found() {
            self.recorder.failed(STREAM, kind, 0);
            return;
        }
        self.succeeded(kind);
        let ticket = self.recorder.post(STREAM, &read.post());
        if !read.event.is_failed() {
            self.settle(ticket, read.status(0));
        }
    }

    fn post(&mut self, read: &Read<'_>) {
        let post = read.post();
        let ticket = self.recorder.post(STREAM, &post);
        let is_mute = read.event.function.name.starts_with("MPI_Isendrecv")
            && post.is_wild()
            && self.isendrecv_is_mute;
        if is_mute {
            self.note("MPI_Isendrecv with a wildcard: this MPI does not tell what was received");
        } else if !read.event.is_failed()
            && let [_, after] = read.requests()
            && let Some(request) = after.first()
        {
            let receive =
                Receive { ticket: Some(ticket), post, persistent: false, cancelled: false };
            self.receives.insert(*request, receive);
        }
    }

    fn init(&mut self, read: &Read<'_>) {
        if !read.event.is_failed()
            && let [_, after] = read.requests()
            && let Some(request) = after.first()
        {
            let receive =
                Receive { ticket: None, post: read.post(), persistent: true, cancelled: false };
            self.receives.insert(*request, receive);
        }
    }

    fn start(&mut self, read: &Read<'_>) {
        for request in &read.requests()[0] {
            if let Some(receive) = self.receives.get_mut(request) {
                receive.ticket = Some(self.recorder.post(STREAM, &receive.post));
            }
        }
    }

    fn complete(&mut self, read: &Read<'_>, kind: Kind) {
        let failed = read.event.is_failed();
        let [before, after] = read.requests();
        let several = match kind.choice() {
            Choice::All => None,
            Choice::One => Some(read.index().map(|index| vec![index])),
            Choice::Some => Some(read.indices()),
        };
        let is_empty = matches!(&several, Some(Some(indices)) if indices.is_empty());
        if !failed && (!read.found() || (is_empty && kind.polls())) {
            self.recorder.failed(STREAM, kind, 0);
            return;
        }
        let count = if kind.has_array() { before.len() as u32 } else { 0 };
        let completed = match &several {
            None => Completed::All,
            Some(Some(indices)) if !indices.is_empty() => Completed::These(indices),
            Some(_) => Completed::Undefined,
        };
        self.recorder.matched(STREAM, &Call { kind, site: 0, count }, completed);
        let indices = match several {
            None => (0..before.len() as u32).collect(),
            Some(indices) => indices.unwrap_or_default(),
        };
        for (n, index) in indices.into_iter().enumerate() {
            let at = index as usize;
            // After an error only what has become null is complete.
            let is_complete = !failed || before.get(at) != after.get(at);
            if let Some(request) = before.get(at).filter(|_| is_complete) {
                self.completed(*request, read.status(n), consumes(kind));
            }
        }
    }

    fn completed(&mut self, request: u64, status: Option<StatusFields>, consumed: bool) {
        let Some(receive) = self.receives.get_mut(&request) else { return };
        let Receive { ticket, persistent, cancelled, .. } = *receive;
        if consumed {
            (receive.ticket, receive.cancelled) = (None, false);
            if !persistent {
                self.receives.remove(&request);
            }
        }
        match (ticket, status) {
            (Some(ticket), Some(status)) if cancelled && status.cancelled => {
                self.recorder.resolve(ticket, Fate::Cancelled);
            }
            (Some(ticket), status) => self.settle(ticket, status),
            (None, _) => {}
        }
    }

    fn free(&mut self, read: &Read<'_>) -> Result<(), u64> {
        let freed = read.requests()[0].first().and_then(|request| self.receives.remove(request));
        match freed.and_then(|receive| receive.ticket) {
            Some(ticket) if ticket.wild => Err(read.event.number),
            _ => Ok(()),
        }
    }
}

/// Whether a call hands requests back, or only looks at them.
fn consumes(kind: Kind) -> bool {
    use Kind::*;
    !matches!(kind, GetStatus | GetStatusAll | GetStatusAny | GetStatusSome)
}
