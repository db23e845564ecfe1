//! What of a call has to do with receive orders.

use refrain_format::decode::{Event, Value};
use refrain_mpi::abi::Layout;
use refrain_mpi::status::StatusFields;
use refrain_order::{Envelope, Kind, Post};

/// What a function is to receive orders; the agent has the same in its `order/role.rs`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Act {
    /// Posts a receive and completes it.
    Receive(Kind),
    /// Posts a receive that completes later.
    Post,
    /// Describes a receive that is posted later, perhaps often.
    Init,
    /// Posts those.
    Start,
    /// Looks for a message.
    Probe(Kind),
    /// Completes operations, or learns of their completion.
    Complete(Kind),
    /// Learns whether a part of an operation is complete.
    Arrive,
    /// Cancels an operation.
    Cancel,
    /// Lets go of a request.
    Free,
    /// Does something whose result depends on an order that is not kept.
    Outside,
}

/// What a function is, by its name.
pub fn act(function: &str) -> Option<Act> {
    let name = function.strip_prefix("MPI_")?;
    Some(match name.strip_suffix("_c").unwrap_or(name) {
        "Recv" => Act::Receive(Kind::Recv),
        "Sendrecv" | "Sendrecv_replace" => Act::Receive(Kind::Sendrecv),
        "Mrecv" => Act::Receive(Kind::Mrecv),
        "Irecv" | "Isendrecv" | "Isendrecv_replace" | "Imrecv" => Act::Post,
        "Recv_init" => Act::Init,
        "Start" | "Startall" => Act::Start,
        "Probe" => Act::Probe(Kind::Probe),
        "Iprobe" => Act::Probe(Kind::Iprobe),
        "Mprobe" => Act::Probe(Kind::Mprobe),
        "Improbe" => Act::Probe(Kind::Improbe),
        "Wait" => Act::Complete(Kind::Wait),
        "Waitall" => Act::Complete(Kind::Waitall),
        "Waitany" => Act::Complete(Kind::Waitany),
        "Waitsome" => Act::Complete(Kind::Waitsome),
        "Test" => Act::Complete(Kind::Test),
        "Testall" => Act::Complete(Kind::Testall),
        "Testany" => Act::Complete(Kind::Testany),
        "Testsome" => Act::Complete(Kind::Testsome),
        "Request_get_status" => Act::Complete(Kind::GetStatus),
        "Request_get_status_all" => Act::Complete(Kind::GetStatusAll),
        "Request_get_status_any" => Act::Complete(Kind::GetStatusAny),
        "Request_get_status_some" => Act::Complete(Kind::GetStatusSome),
        "Parrived" => Act::Arrive,
        "Cancel" => Act::Cancel,
        "Request_free" => Act::Free,
        "Accumulate" | "Raccumulate" | "Get_accumulate" | "Rget_accumulate" => Act::Outside,
        "Fetch_and_op" | "Compare_and_swap" | "Win_lock" => Act::Outside,
        "File_read_shared" | "File_write_shared" => Act::Outside,
        "File_iread_shared" | "File_iwrite_shared" => Act::Outside,
        "Comm_accept" | "Comm_connect" | "Comm_join" => Act::Outside,
        "Comm_spawn" | "Comm_spawn_multiple" => Act::Outside,
        _ => return None,
    })
}

/// A call, and how its MPI writes things.
pub struct Read<'e> {
    /// The call.
    pub event: &'e Event,
    /// How its MPI writes things.
    pub layout: &'static Layout,
}

impl Read<'_> {
    fn place(&self, names: &[&str]) -> Option<usize> {
        let params = &self.event.function.params;
        names.iter().find_map(|name| params.iter().position(|p| p.name == *name))
    }

    fn input(&self, names: &[&str]) -> Option<&Value> {
        self.event.inputs.get(self.place(names)?)?.as_ref()
    }

    fn output(&self, names: &[&str]) -> Option<&Value> {
        self.event.outputs.get(self.place(names)?)?.as_ref()
    }

    /// The receive that is posted; without source and tag it is of a message known already.
    pub fn post(&self) -> Post {
        let given = |names: &[&str], any: i32| match self.input(names) {
            Some(Value::Int(n)) => (*n != i64::from(any)).then_some(*n as i32),
            _ => Some(0),
        };
        let source = given(&["source"], self.layout.any_source);
        let mut tag = given(&["recvtag", "tag"], self.layout.any_tag);
        if source == Some(self.layout.proc_null) {
            // There is nothing to choose, whatever the tag.
            tag = Some(0);
        }
        Post { site: 0, communicator: 0, source, tag }
    }

    /// Requests before the call, and after it.
    pub fn requests(&self) -> [Vec<u64>; 2] {
        let names = ["request", "array_of_requests"];
        let before = self.input(&names);
        [before, self.output(&names).or(before)].map(words)
    }

    /// Whether something was found: calls without a flag return when it was.
    pub fn found(&self) -> bool {
        !matches!(self.output(&["flag"]), Some(Value::Int(0)))
    }

    /// The only index that was completed; none if nothing was active.
    pub fn index(&self) -> Option<u32> {
        match self.output(&["index"]) {
            Some(Value::Int(n)) => u32::try_from(*n).ok(),
            _ => None,
        }
    }

    /// The indices that were completed, in order; none if nothing was active.
    pub fn indices(&self) -> Option<Vec<u32>> {
        let Some(Value::Int(count)) = self.output(&["outcount"]) else { return None };
        let count = usize::try_from(*count).ok()?;
        let Some(Value::List(all)) = self.output(&["array_of_indices"]) else {
            return (count == 0).then(Vec::new);
        };
        let one = |value: &Value| match value {
            Value::Int(n) => u32::try_from(*n).ok(),
            _ => None,
        };
        all.iter().take(count).map(one).collect()
    }

    /// What the n-th status says.
    pub fn status(&self, n: usize) -> Option<StatusFields> {
        let value = match self.output(&["status", "array_of_statuses"])? {
            Value::List(all) => all.get(n)?,
            one => one,
        };
        match value {
            Value::Status { bytes, .. } => self.layout.status.status_fields(bytes),
            _ => None,
        }
    }

    /// Whether a status was filled in, although there may have been an error.
    pub fn has_status(&self) -> bool {
        !self.event.is_failed() || self.event.error_class == Some(self.layout.err_truncate)
    }
}

/// The envelope in a status.
pub fn envelope(fields: &StatusFields) -> Envelope {
    Envelope { source: fields.source, tag: fields.tag }
}

fn words(value: Option<&Value>) -> Vec<u64> {
    let one = |value: &Value| match value {
        Value::Word(word) => *word,
        _ => 0,
    };
    match value {
        Some(Value::List(all)) => all.iter().map(one).collect(),
        Some(Value::Word(word)) => vec![*word],
        // A null address, of no requests.
        _ => Vec::new(),
    }
}
