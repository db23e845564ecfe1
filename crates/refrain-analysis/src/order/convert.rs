//! Passes the calls of a trace to a recorder.

use super::kind::kind;
use refrain_mpi::abi::Layout;
use refrain_mpi::interface::function;
use refrain_mpi::semantics::{Argument, Form, Object, Op};
use refrain_mpi::status::StatusFields;
use refrain_order::{Call, Choice, Completed, Envelope, Kind, MatchResult, Post, Recorder, Ticket};
use refrain_reader::CallArguments;
use refrain_reader::Event;
use std::collections::HashMap;

/// The only stream: a trace with several is refused.
const STREAM: u32 = 0;

/// Passes the calls of one rank to a recorder.
pub struct Converter {
    /// The recorder.
    pub recorder: Recorder,
    /// The number of calls so far that match messages.
    pub matching: u64,
    /// Unsupported operations that the program used.
    pub unsupported: Vec<String>,
    /// The call site of the current call.
    pub site: u64,
    layout: &'static Layout,
    /// Whether MPI does not set the status of an `MPI_Isendrecv`, as in MPICH.
    isendrecv_status_is_unset: bool,
    receives: HashMap<u64, Receive>,
}

/// A receive that completes later.
#[derive(Clone, Copy)]
struct Receive {
    /// Its ticket while it is active.
    ticket: Option<Ticket>,
    post: Post,
    /// It can be started again.
    persistent: bool,
    /// The program called `MPI_Cancel` on it. Only then is the status's cancelled flag defined.
    cancelled: bool,
}

impl Receive {
    fn new() -> Receive {
        let post = Post { site: 0, communicator: 0, source: None, tag: None };
        Receive { ticket: None, post, persistent: false, cancelled: false }
    }
}

impl Converter {
    /// A converter without calls.
    pub fn new(layout: &'static Layout, isendrecv_status_is_unset: bool) -> Converter {
        Converter {
            recorder: Recorder::new(),
            matching: 0,
            unsupported: Vec::new(),
            site: 0,
            layout,
            isendrecv_status_is_unset,
            receives: HashMap::new(),
        }
    }

    /// Converts a call. The error is the number of a call that frees an active wildcard receive, whose
    /// match is therefore unknown.
    pub fn event(&mut self, event: &Event) -> Result<(), u64> {
        let Some(function) = function(&event.function.name) else { return Ok(()) };
        let call = CallArguments::of(event, self.layout);
        if function.depends_on_other_order() {
            self.note_unsupported(&event.function.name);
            return Ok(());
        }
        let step = match (function.op(), function.form()) {
            (Op::Receive | Op::SendReceive | Op::MatchedReceive, Form::Blocking) => {
                Converter::receive
            }
            (Op::Receive | Op::SendReceive | Op::MatchedReceive, Form::Nonblocking) => {
                Converter::post
            }
            (Op::Receive, Form::Persistent) => Converter::init,
            (Op::Probe | Op::MatchedProbe, _) => Converter::probe,
            (Op::Start, _) => Converter::start,
            (Op::Complete(_) | Op::Inspect(_), _) => Converter::complete,
            (Op::Arrived, _) => Converter::arrived,
            (Op::Cancel, _) => Converter::cancel,
            (Op::Free(Object::Request), _) => Converter::free,
            _ => return Ok(()),
        };
        self.matching += 1;
        if event.end.is_none() && event.result.is_none() {
            // The call never returned, but its message was sent.
            if function.op() == Op::SendReceive && function.form() == Form::Blocking {
                self.recorder.post(STREAM, &self.wanted(call));
            }
            return Ok(());
        }
        // Steps for functions without a kind ignore it.
        step(self, call, kind(function).unwrap_or(Kind::Recv))
    }

    /// Ends the conversion.
    pub fn end(&mut self) {
        if self.receives.values().any(|receive| receive.ticket.is_some_and(|ticket| ticket.wild)) {
            self.note_unsupported(
                "receives with a wildcard that never completed: treated as unmatched",
            );
        }
    }

    fn note_unsupported(&mut self, what: &str) {
        if !self.unsupported.iter().any(|noted| noted == what) {
            self.unsupported.push(what.to_owned());
        }
    }

    /// The receive that a call posts, with its call site.
    fn wanted(&self, call: CallArguments<'_>) -> Post {
        Post { site: self.site, ..post(call) }
    }

    fn succeeded(&mut self, kind: Kind) {
        let call = Call { kind, site: self.site, count: 0 };
        self.recorder.matched(STREAM, &call, Completed::All);
    }

    /// Records the match of a receive or probe with a wildcard.
    fn resolve(&mut self, ticket: Ticket, status: Option<StatusFields>) {
        if let Some(status) = status.filter(|_| ticket.wild) {
            self.recorder.resolve(ticket, MatchResult::Matched(envelope(&status)));
        }
    }

    fn arrived(&mut self, call: CallArguments<'_>, kind: Kind) -> Result<(), u64> {
        match call.found() {
            true => self.succeeded(kind),
            false => self.recorder.failed(STREAM, kind, self.site),
        }
        Ok(())
    }

    fn cancel(&mut self, call: CallArguments<'_>, _: Kind) -> Result<(), u64> {
        let receive = call.requests().first().and_then(|request| self.receives.get_mut(request));
        match receive {
            Some(receive) => receive.cancelled = true,
            None => self.note_unsupported("MPI_Cancel of an operation that is no receive"),
        }
        Ok(())
    }

    fn receive(&mut self, call: CallArguments<'_>, kind: Kind) -> Result<(), u64> {
        let ticket = self.recorder.post(STREAM, &self.wanted(call));
        self.succeeded(kind);
        // A truncated message also has a status.
        let event = call.event;
        if !event.is_failed() || event.error_class == Some(self.layout.err_truncate) {
            self.resolve(ticket, call.status(0));
        }
        Ok(())
    }

    fn probe(&mut self, call: CallArguments<'_>, kind: Kind) -> Result<(), u64> {
        if !call.found() {
            self.recorder.failed(STREAM, kind, self.site);
            return Ok(());
        }
        self.succeeded(kind);
        let ticket = self.recorder.post(STREAM, &self.wanted(call));
        if !call.event.is_failed() {
            self.resolve(ticket, call.status(0));
        }
        Ok(())
    }

    fn post(&mut self, call: CallArguments<'_>, _: Kind) -> Result<(), u64> {
        let post = self.wanted(call);
        let ticket = self.recorder.post(STREAM, &post);
        let sends_too = call.position(Argument::Dest).is_some();
        if sends_too && post.is_wild() && self.isendrecv_status_is_unset {
            self.note_unsupported(
                "MPI_Isendrecv with a wildcard: this MPI does not tell what was received",
            );
        } else {
            self.add(call, Receive { ticket: Some(ticket), post, ..Receive::new() });
        }
        Ok(())
    }

    fn init(&mut self, call: CallArguments<'_>, _: Kind) -> Result<(), u64> {
        self.add(call, Receive { post: self.wanted(call), persistent: true, ..Receive::new() });
        Ok(())
    }

    /// Adds a receive with the request that the call returned.
    fn add(&mut self, call: CallArguments<'_>, receive: Receive) {
        let request = call.requests_after().first().copied();
        if let Some(request) = request.filter(|_| !call.event.is_failed()) {
            self.receives.insert(request, receive);
        }
    }

    fn start(&mut self, call: CallArguments<'_>, _: Kind) -> Result<(), u64> {
        for request in &call.requests() {
            if let Some(receive) = self.receives.get_mut(request) {
                let post = Post { site: self.site, ..receive.post };
                receive.ticket = Some(self.recorder.post(STREAM, &post));
            }
        }
        Ok(())
    }

    fn complete(&mut self, call: CallArguments<'_>, kind: Kind) -> Result<(), u64> {
        let failed = call.event.is_failed();
        let (before, after) = (call.requests(), call.requests_after());
        let several = match kind.choice() {
            Choice::All => None,
            Choice::One | Choice::Some => Some(call.indices()),
        };
        let is_empty = matches!(&several, Some(Some(indices)) if indices.is_empty());
        if !failed && (!call.found() || (is_empty && kind.polls())) {
            self.recorder.failed(STREAM, kind, self.site);
            return Ok(());
        }
        let narrow = |indices: &Vec<usize>| indices.iter().map(|index| *index as u32).collect();
        let indices: Option<Option<Vec<u32>>> = several.as_ref().map(|s| s.as_ref().map(narrow));
        let completed = match &indices {
            None => Completed::All,
            Some(Some(indices)) if !indices.is_empty() => Completed::These(indices),
            Some(_) => Completed::Undefined,
        };
        let count = if kind.has_array() { before.len() as u32 } else { 0 };
        self.recorder.matched(STREAM, &Call { kind, site: self.site, count }, completed);
        let indices = match several {
            None => (0..before.len()).collect(),
            Some(indices) => indices.unwrap_or_default(),
        };
        for (n, at) in indices.into_iter().enumerate() {
            // After an error, only requests that became null are complete.
            let is_complete = !failed || before.get(at) != after.get(at);
            if let Some(request) = before.get(at).filter(|_| is_complete) {
                self.completed(*request, call.status(n), consumes(kind));
            }
        }
        Ok(())
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
                self.recorder.resolve(ticket, MatchResult::Cancelled);
            }
            (Some(ticket), status) => self.resolve(ticket, status),
            (None, _) => {}
        }
    }

    fn free(&mut self, call: CallArguments<'_>, _: Kind) -> Result<(), u64> {
        let freed = call.requests().first().and_then(|request| self.receives.remove(request));
        match freed.and_then(|receive| receive.ticket) {
            Some(ticket) if ticket.wild => Err(call.event.number),
            _ => Ok(()),
        }
    }
}

/// The receive that a call posts. Without source and tag it is a matched receive.
fn post(call: CallArguments<'_>) -> Post {
    let layout = call.layout;
    let given = |argument: Argument, any: i32| match call.int(argument) {
        Some(n) => (n != i64::from(any)).then_some(n as i32),
        None => Some(0),
    };
    let source = given(Argument::Source, layout.any_source);
    // MPI_PROC_NULL has no choice, whatever the tag.
    let tag = match source == Some(layout.proc_null) {
        true => Some(0),
        false => given(Argument::Tag, layout.any_tag),
    };
    Post { site: 0, communicator: 0, source, tag }
}

/// The envelope in a status.
fn envelope(fields: &StatusFields) -> Envelope {
    Envelope { source: fields.source, tag: fields.tag }
}

/// Whether a call completes requests, or only inspects them.
fn consumes(kind: Kind) -> bool {
    use Kind::*;
    !matches!(kind, GetStatus | GetStatusAll | GetStatusAny | GetStatusSome)
}

#[cfg(test)]
mod tests {
    use super::*;
    use refrain_format::define::FunctionDef;
    use refrain_mpi::abi::Family;
    use refrain_mpi::interface::functions;
    use refrain_order::{Decision, Frames, Posting, Replayer};
    use refrain_reader::event::Value;
    use std::sync::Arc;

    fn layout() -> &'static Layout {
        Layout::of(Family::Mpich)
    }

    /// A call with values for the parameters of these names: inputs, and outputs.
    fn call(name: &str, inputs: &[(&str, Value)], outputs: &[(&str, Value)]) -> Event {
        let function = functions().iter().find(|f| f.name == name).expect("a function of MPI");
        let function = Arc::new(FunctionDef::from(function));
        let of = |given: &[(&str, Value)]| -> Vec<Option<Value>> {
            let value = |name: &str| given.iter().find(|(own, _)| *own == name);
            function.params.iter().map(|p| value(&p.name).map(|(_, v)| v.clone())).collect()
        };
        let (inputs, outputs) = (of(inputs), of(outputs));
        let (number, depth, site, start, end) = (0, 0, None, 0, Some(1));
        let (result, error_class) = (Some(0), None);
        Event { number, depth, function, site, start, end, result, error_class, inputs, outputs }
    }

    fn status(source: i32, tag: i32, cancelled: bool) -> Value {
        let mut bytes = vec![0; layout().status.bytes];
        let count_bytes = Some(8);
        let fields = StatusFields { source, tag, error: 0, count_bytes, cancelled };
        layout().status.write(&mut bytes, &fields);
        Value::Status { bytes, ignored: false }
    }

    fn irecv(request: u64) -> Event {
        let any = Value::Int(layout().any_source.into());
        let inputs = [("source", any), ("tag", Value::Int(7))];
        call("MPI_Irecv", &inputs, &[("request", Value::Word(request))])
    }

    fn requests(all: &[u64]) -> Value {
        Value::List(all.iter().map(|request| Value::Word(*request)).collect())
    }

    fn converted(events: &[Event]) -> Replayer {
        let mut converter = Converter::new(layout(), true);
        events.iter().for_each(|event| converter.event(event).expect("no receive is freed"));
        let mut bytes = Vec::new();
        converter.recorder.finish(&mut bytes);
        Replayer::new(Frames::read(bytes)).expect("a well-formed record")
    }

    fn posted(replayer: &mut Replayer) -> Posting {
        let post = Post { site: 0, communicator: 0, source: None, tag: Some(7) };
        replayer.post(STREAM, &post).expect("it is in the record")
    }

    fn from(source: i32) -> Posting {
        Posting::Narrowed(Envelope { source, tag: 7 })
    }

    #[test]
    fn completions_in_another_order_than_posts_are_converted() {
        let found = [("index", Value::Int(1)), ("status", status(5, 7, true))];
        let waitany = call("MPI_Waitany", &[("array_of_requests", requests(&[1, 2]))], &found);
        let failed = call("MPI_Test", &[("request", Value::Word(1))], &[("flag", Value::Int(0))]);
        let flag = [("flag", Value::Int(1)), ("status", status(3, 7, false))];
        let test = call("MPI_Test", &[("request", Value::Word(1))], &flag);
        let none = call("MPI_Waitall", &[("array_of_requests", Value::Null)], &[]);
        let mut replayer = converted(&[irecv(1), irecv(2), waitany, failed, test, none]);
        // The cancelled flag is undefined if the program did not call MPI_Cancel.
        assert_eq!([posted(&mut replayer), posted(&mut replayer)], [from(3), from(5)]);
        let mut asked = |kind, count| {
            let call = Call { kind, site: 0, count };
            replayer.call(STREAM, &call).map(|decision| match decision {
                Decision::These(indices) => indices.to_vec(),
                Decision::All => vec![99],
                Decision::Fail => vec![98],
                Decision::Undefined => vec![97],
            })
        };
        assert_eq!(asked(Kind::Waitany, 2), Ok(vec![1]));
        assert_eq!(asked(Kind::Test, 0), Ok(vec![98]));
        assert_eq!(asked(Kind::Test, 0), Ok(vec![99]));
        assert_eq!(asked(Kind::Waitall, 0), Ok(vec![99]));
        assert_eq!(replayer.finish(), Ok(()));
    }

    #[test]
    fn a_cancelled_receive_is_not_posted_again() {
        let cancel = |request| call("MPI_Cancel", &[("request", Value::Word(request))], &[]);
        let wait = |request, cancelled| {
            let status = [("status", status(4, 7, cancelled))];
            call("MPI_Wait", &[("request", Value::Word(request))], &status)
        };
        let events =
            [irecv(1), irecv(2), cancel(1), cancel(2), wait(1, true), wait(2, false), irecv(1)];
        let mut replayer = converted(&events);
        let match_results = [(); 3].map(|()| posted(&mut replayer));
        assert_eq!(match_results, [Posting::WithheldCancelled, from(4), Posting::WithheldNever]);
    }

    #[test]
    fn freeing_an_active_wildcard_receive_is_refused() {
        let free = call("MPI_Request_free", &[("request", Value::Word(1))], &[]);
        let mut converter = Converter::new(layout(), true);
        assert_eq!(converter.event(&free), Ok(()), "not a receive");
        assert_eq!(converter.event(&irecv(1)), Ok(()));
        assert_eq!(converter.event(&free), Err(0));
    }
}
