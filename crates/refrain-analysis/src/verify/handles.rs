//! Compares the handles of the records with those of the trace.
//!
//! While an object lives, it has one handle in the records and one in the trace. Requests are
//! special: MPICH returns one handle for several that are complete from the start. So for requests
//! the check is weaker: a request of the trace must have one recorded handle from its creation to
//! its completion, and must not be created twice.

use refrain_mpi::interface::function;
use refrain_mpi::semantics::{self, Op};
use std::collections::HashMap;

/// What created a request, which decides what its status means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Maker {
    /// A receive: the status describes a message.
    Receive,
    /// A file access: the status has a length.
    Transfer,
    /// Any other: MPI defines little of its status.
    Other,
    /// A call that was not recorded.
    Unknown,
}

impl Maker {
    /// By the function's name.
    pub fn of(name: &str) -> Maker {
        match function(name).map(|function| function.op()) {
            Some(Op::Receive | Op::MatchedReceive | Op::SendReceive) => Maker::Receive,
            // The program itself fills in the status of a generalized request.
            Some(Op::Make(semantics::Object::Request)) => Maker::Receive,
            Some(Op::Io(..)) => Maker::Transfer,
            _ => Maker::Other,
        }
    }
}

/// A request in flight.
#[derive(Clone, Copy, Debug)]
pub struct Request {
    raw: u64,
    /// What created it.
    pub maker: Maker,
    /// The program called `MPI_Cancel` on it.
    pub cancelled: bool,
}

#[derive(Clone, Copy, Debug)]
struct Object {
    decoded: u64,
    /// How often MPI returned it; the program must free it as often.
    references: u32,
}

/// The live objects of one kind.
#[derive(Debug, Default)]
struct Kind {
    name: String,
    by_raw: HashMap<u64, Object>,
    by_decoded: HashMap<u64, u64>,
}

/// The live objects of a process, other than predefined ones.
#[derive(Debug, Default)]
pub struct Handles {
    kinds: Vec<Kind>,
    requests: HashMap<u64, Request>,
}

/// What a recorded handle should be in the trace.
type Expected = String;

impl Handles {
    fn kind(&mut self, name: &str) -> &mut Kind {
        let at = self.kinds.iter().position(|kind| kind.name == name);
        let at = at.unwrap_or_else(|| {
            self.kinds.push(Kind { name: name.to_owned(), ..Kind::default() });
            self.kinds.len() - 1
        });
        &mut self.kinds[at]
    }

    /// The program passes a handle.
    pub fn given(&mut self, kind: &str, raw: u64, decoded: u64) -> Result<(), Expected> {
        if is_request(kind) {
            return match self.requests.get(&decoded) {
                Some(request) if request.raw == raw => Ok(()),
                Some(request) => {
                    Err(format!("{raw:#x}, not {:#x} as when it was created", request.raw))
                }
                None => {
                    self.add_request(raw, decoded, Maker::Unknown);
                    Ok(())
                }
            };
        }
        self.kind(kind).pair(raw, decoded).map(drop)
    }

    /// MPI returned a handle from a function of that name.
    pub fn received(
        &mut self,
        kind: &str,
        raw: u64,
        decoded: u64,
        function: &str,
    ) -> Result<(), Expected> {
        if is_request(kind) {
            if self.requests.contains_key(&decoded) {
                return Err(format!("{raw:#x}, a new request: that one is in flight"));
            }
            self.add_request(raw, decoded, Maker::of(function));
            return Ok(());
        }
        let is_new = self.kind(kind).pair(raw, decoded)?;
        let is_counted = matches!(kind, "group" | "errhandler" | "datatype");
        if let Some(object) = self.kind(kind).by_raw.get_mut(&raw)
            && is_counted
            && !is_new
        {
            object.references += 1;
        }
        Ok(())
    }

    fn add_request(&mut self, raw: u64, decoded: u64, maker: Maker) {
        self.requests.insert(decoded, Request { raw, maker, cancelled: false });
    }

    /// The program frees a handle.
    pub fn freed(&mut self, kind: &str, raw: u64, decoded: u64) {
        if is_request(kind) {
            self.requests.remove(&decoded);
            return;
        }
        let kind = self.kind(kind);
        if let Some(object) = kind.by_raw.get_mut(&raw) {
            object.references -= 1;
            if object.references == 0 {
                let Object { decoded, .. } = *object;
                kind.by_raw.remove(&raw);
                kind.by_decoded.remove(&decoded);
            }
        }
    }

    /// A request in flight, by its handle in the trace.
    pub fn request(&mut self, decoded: u64) -> Option<&mut Request> {
        self.requests.get_mut(&decoded)
    }
}

impl Kind {
    /// Checks that both handles mean the same object; returns whether it is new.
    fn pair(&mut self, raw: u64, decoded: u64) -> Result<bool, Expected> {
        match (self.by_raw.get(&raw), self.by_decoded.get(&decoded)) {
            (Some(object), _) if object.decoded == decoded => Ok(false),
            (Some(object), _) => Err(format!("{raw:#x}, so far {}", shown(object.decoded))),
            (None, Some(other)) => Err(format!("{raw:#x}, not {other:#x}, which is in use")),
            (None, None) => {
                self.by_raw.insert(raw, Object { decoded, references: 1 });
                self.by_decoded.insert(decoded, raw);
                Ok(true)
            }
        }
    }
}

/// Whether handles of that kind are requests.
pub fn is_request(kind: &str) -> bool {
    kind == "request"
}

/// A handle of a trace as text.
pub fn shown(decoded: u64) -> String {
    format!("object {decoded:#x}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objects_are_one_to_one_while_they_live() {
        let mut handles = Handles::default();
        assert!(handles.received("comm", 11, 1, "MPI_Comm_dup").is_ok());
        assert!(handles.given("comm", 11, 1).is_ok());
        assert!(handles.given("comm", 11, 2).is_err());
        assert!(handles.given("comm", 12, 1).is_err());
        assert!(handles.given("group", 11, 2).is_ok(), "kinds are apart");
        handles.freed("comm", 11, 1);
        assert!(handles.received("comm", 12, 1, "MPI_Comm_dup").is_ok());
        assert!(handles.received("comm", 11, 2, "MPI_Comm_dup").is_ok());
    }

    #[test]
    fn a_handle_that_was_returned_twice_must_be_freed_twice() {
        let mut handles = Handles::default();
        for _ in 0..2 {
            assert!(handles.received("group", 11, 1, "MPI_Comm_group").is_ok());
        }
        handles.freed("group", 11, 1);
        assert!(handles.given("group", 11, 2).is_err());
        handles.freed("group", 11, 1);
        assert!(handles.given("group", 11, 2).is_ok());
    }

    #[test]
    fn several_requests_may_have_one_handle_but_no_request_has_two() {
        let mut handles = Handles::default();
        assert!(handles.received("request", 7, 1, "MPI_Ibarrier").is_ok());
        assert!(handles.received("request", 7, 2, "MPI_Irecv_c").is_ok());
        assert_eq!(handles.request(2).map(|r| r.maker), Some(Maker::Receive));
        assert!(handles.received("request", 8, 2, "MPI_Irecv").is_err());
        assert!(handles.given("request", 7, 2).is_ok());
        assert!(handles.given("request", 8, 2).is_err());
        handles.freed("request", 7, 2);
        assert!(handles.received("request", 8, 2, "MPI_Irecv").is_ok());
    }
}
