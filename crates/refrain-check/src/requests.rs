//! The life of requests.

use crate::finding::{Class, Findings, Place};
use refrain_bytes::table::Map;
use refrain_mpi::interface::Function;
use refrain_mpi::semantics::{Argument, Form, Object, Op};
use refrain_reader::Call;

use std::sync::Arc;

/// A request.
#[derive(Debug)]
struct Request {
    /// The call that made it.
    place: Arc<Place>,
    is_persistent: bool,
    is_partitioned: bool,
    is_active: bool,
    was_started: bool,
    /// A send: its receiver may say that it is complete.
    is_send: bool,
}

/// The requests of a process.
#[derive(Debug, Default)]
pub struct Requests {
    live: Map<u64, Request>,
    /// Active sends that were freed, since when no call could tell that they are complete: the calls that freed and made
    /// their requests.
    freed_sends: Vec<[Arc<Place>; 2]>,
}

/// What a call does to requests.
#[derive(Debug, Default)]
pub struct Change {
    /// The request that it makes.
    pub made: Option<u64>,
    /// Whether the new request must be started.
    pub is_persistent: bool,
    /// Requests that are no longer in flight.
    pub ended: Vec<u64>,
    /// Requests that are started.
    pub started: Vec<u64>,
}

impl Requests {
    /// Checks a call that uses requests, whether or not it returned.
    pub fn check(
        &self,
        call: &Call,
        function: &Function,
        place: &Arc<Place>,
        findings: &mut Findings,
    ) {
        let arguments = call.arguments();
        for handle in arguments.requests() {
            let Some(request) = self.live.get(&handle) else { continue };
            let two = || vec![(**place).clone(), (*request.place).clone()];
            match function.op() {
                Op::Start if request.is_active => {
                    let message =
                        format!("{} starts a request that is active already.", place.function);
                    findings.add(Class::RequestState, message, two());
                }
                Op::Start if !request.is_persistent => {
                    let message =
                        format!("{} starts a request that is not persistent.", place.function);
                    findings.add(Class::RequestState, message, two());
                }
                Op::Ready | Op::Arrived if !request.is_partitioned => {
                    let message =
                        format!("{} needs a request of a partitioned operation.", place.function);
                    findings.add(Class::RequestState, message, two());
                }
                Op::Ready if !request.is_active => {
                    let message = format!(
                        "{} marks a partition of a send that was not started.",
                        place.function
                    );
                    findings.add(Class::RequestState, message, two());
                }
                Op::Complete(_)
                    if request.is_persistent && !request.was_started && call.returned() =>
                {
                    let message = format!(
                        "{} completes a persistent request that was never started, which does nothing.",
                        place.function
                    );
                    findings.add(Class::NeverStarted, message, two());
                }
                // MPI 4.1 §3.7.3 has an example with a send: an answer of its receiver says that it is complete.
                Op::Free(Object::Request)
                    if request.is_active && !request.is_send && call.returned() =>
                {
                    let message = format!(
                        "{} frees a request that is active: nothing tells when its data are there.",
                        place.function
                    );
                    findings.add(Class::ActiveRequestFreed, message, two());
                }
                _ => {}
            }
        }
    }

    /// Follows a call that has returned without an error.
    pub fn observe(&mut self, call: &Call, function: &Function, place: &Arc<Place>) -> Change {
        let (mut change, arguments) = (Change::default(), call.arguments());
        if !function.is_local() && function.op() != Op::End {
            // An answer of the receiver, for example.
            self.freed_sends.clear();
        }
        match function.op() {
            Op::Start => {
                for handle in arguments.requests() {
                    if let Some(request) = self.live.get_mut(&handle) {
                        (request.is_active, request.was_started) = (true, true);
                        change.started.push(handle);
                    }
                }
            }
            Op::Complete(_) => {
                let handles = arguments.requests();
                for (index, _) in arguments.completed() {
                    let Some(handle) = handles.get(index) else { continue };
                    match self.live.get_mut(handle) {
                        Some(request) if request.is_persistent => request.is_active = false,
                        Some(_) => drop(self.live.remove(handle)),
                        None => {}
                    }
                    change.ended.push(*handle);
                }
            }
            Op::Free(Object::Request) => {
                for handle in arguments.requests() {
                    let request = self.live.remove(&handle);
                    if let Some(send) =
                        request.filter(|request| request.is_active && request.is_send)
                    {
                        self.freed_sends.push([place.clone(), send.place]);
                    }
                    change.ended.push(handle);
                }
            }
            Op::Inspect(_) => {}
            op => {
                let made = arguments.output_handle(Argument::Request);
                let made = made.filter(|handle| call.handle_name("request", *handle).is_none());
                let form = function.form();
                if let Some(handle) = made
                    && matches!(form, Form::Nonblocking | Form::Persistent | Form::Partitioned)
                {
                    let is_persistent = form != Form::Nonblocking;
                    self.live.insert(
                        handle,
                        Request {
                            place: place.clone(),
                            is_persistent,
                            is_partitioned: form == Form::Partitioned,
                            is_active: !is_persistent,
                            was_started: false,
                            is_send: matches!(op, Op::Send(_)),
                        },
                    );
                    (change.made, change.is_persistent) = (Some(handle), is_persistent);
                }
            }
        }
        change
    }

    /// How many requests exist, and how many of these are active.
    pub fn len(&self) -> (usize, usize) {
        (self.live.len(), self.live.values().filter(|request| request.is_active).count())
    }

    /// The process calls `MPI_Finalize`.
    pub fn finish(&mut self, findings: &mut Findings) {
        for places in self.freed_sends.drain(..) {
            let message = format!(
                "{} frees the request of a send that is active, and no later call can tell when its buffer may be used again.",
                places[0].function
            );
            findings.add(
                Class::ActiveRequestFreed,
                message,
                places.map(|place| (*place).clone()).into(),
            );
        }
        let mut left: Vec<Request> = self.live.drain().map(|(_, request)| request).collect();
        left.sort_by_key(|request| request.place.number);
        for request in left {
            let function = &request.place.function;
            let message = match (request.is_persistent, request.is_active) {
                (false, _) => format!("The request of {function} is never completed."),
                (true, true) => {
                    format!("The request of {function} is started, and never completed.")
                }
                (true, false) => format!("The persistent request of {function} is never freed."),
            };
            findings.add(Class::RequestLeak, message, vec![(*request.place).clone()]);
        }
    }
}
