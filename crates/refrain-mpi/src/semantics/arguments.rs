//! Arguments: positions of those that have the same meaning in many functions, and meanings of parameters.

use crate::interface::{Function, Param};
use crate::kind::Class;

/// An argument that means the same in every function that has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Argument {
    /// The rank that a message is received from.
    Source,
    /// The rank that a message is sent to.
    Dest,
    /// The root of a collective.
    Root,
    /// The rank whose window is accessed or synchronized.
    Target,
    /// The tag of the message that is received, or the only tag.
    Tag,
    /// The tag of the message that is sent, or the only tag.
    SendTag,
    /// The communicator.
    Comm,
    /// The communicator that is made.
    NewComm,
    /// The window.
    Window,
    /// The file.
    File,
    /// The message that a matched probe found.
    Message,
    /// The request, or the array of requests.
    Request,
    /// How many requests; or how many elements each process contributes to a collective.
    Count,
    /// The status, or the array of statuses.
    Status,
    /// Whether something was found or completed.
    Flag,
    /// The index that was completed, or the array of indices.
    Index,
    /// How many indices.
    OutCount,
}

impl Argument {
    /// Its names in the standard. If a function has several of them, the first one counts.
    pub fn names(self) -> &'static [&'static str] {
        match self {
            Argument::Source => &["source"],
            Argument::Dest => &["dest"],
            Argument::Root => &["root"],
            Argument::Target => &["target_rank", "rank"],
            Argument::Tag => &["recvtag", "tag"],
            Argument::SendTag => &["sendtag", "tag"],
            Argument::Comm => &["comm", "comm_old", "local_comm", "intercomm"],
            Argument::NewComm => &[
                "newcomm",
                "newintercomm",
                "newintracomm",
                "comm_cart",
                "comm_graph",
                "comm_dist_graph",
            ],
            Argument::Window => &["win"],
            Argument::File => &["fh"],
            Argument::Message => &["message"],
            Argument::Request => &["request", "array_of_requests"],
            Argument::Count => &["count", "incount", "recvcount"],
            Argument::Status => &["status", "array_of_statuses"],
            Argument::Flag => &["flag"],
            Argument::Index => &["index", "array_of_indices"],
            Argument::OutCount => &["outcount"],
        }
    }
}

impl Function {
    /// The position of that argument among the parameters.
    pub fn position(&self, argument: Argument) -> Option<usize> {
        let at = |name: &&str| self.params.iter().position(|p| p.name == *name);
        argument.names().iter().find_map(at)
    }
}

/// What the value of a parameter stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Meaning {
    /// A rank of a communicator, group or window.
    Rank,
    /// A message tag.
    Tag,
    /// A number of elements.
    Count,
    /// A number of bytes.
    Bytes,
    /// A displacement in memory or in a window.
    Displacement,
    /// An offset in a file.
    Offset,
    /// An MPI object.
    Handle,
    /// Memory of the program's.
    Memory,
    /// Text.
    Text,
    /// A status.
    Status,
    /// Something else.
    Other,
}

impl Param {
    /// What its value stands for.
    pub fn meaning(&self) -> Meaning {
        match self.kind.name {
            "RANK" | "RANK_NNI" => Meaning::Rank,
            "TAG" => Meaning::Tag,
            "XFER_NUM_ELEM_NNI"
            | "POLYXFER_NUM_ELEM"
            | "POLYXFER_NUM_ELEM_NNI"
            | "POLYDTYPE_NUM_ELEM"
            | "POLYDTYPE_NUM_ELEM_NNI"
            | "POLYNUM_ELEM" => Meaning::Count,
            "POLYNUM_BYTES"
            | "POLYNUM_BYTES_NNI"
            | "ALLOC_MEM_NUM_BYTES"
            | "WINDOW_SIZE"
            | "WIN_ATTACH_SIZE"
            | "POLYDTYPE_PACK_SIZE" => Meaning::Bytes,
            "DISPLACEMENT"
            | "DISPLACEMENT_NNI"
            | "POLYDISPLACEMENT"
            | "RMA_DISPLACEMENT"
            | "RMA_DISPLACEMENT_NNI" => Meaning::Displacement,
            "OFFSET" => Meaning::Offset,
            _ => match self.class {
                Class::Handle => Meaning::Handle,
                Class::Memory => Meaning::Memory,
                Class::Status => Meaning::Status,
                Class::Str | Class::Strings | Class::Strings2 => Meaning::Text,
                _ => Meaning::Other,
            },
        }
    }
}
