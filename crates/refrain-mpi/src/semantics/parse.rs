//! Reads `semantics.txt`.

use super::{
    Access, Amount, Blocks, Buffer, Choice, Collective, Form, Io, Mode, Object, Op, Over, Pointer,
    Rma, Semantics, Sync,
};
use crate::interface::Param;
use crate::kind::rows;
use std::collections::HashMap;

const TABLE: &str = include_str!("../semantics.txt");

/// One line of the table, not yet resolved against parameters.
#[derive(Clone, Debug)]
pub(crate) struct Line {
    op: Op,
    form: Form,
    is_local: bool,
    over: Option<Over>,
    buffers: Vec<&'static str>,
}

/// The lines by function.
#[expect(
    clippy::panic,
    reason = "the table is part of the build, and tests parse every line of it"
)]
pub(crate) fn table() -> HashMap<&'static str, Line> {
    let line = |row: &'static str| {
        parse_line(row).unwrap_or_else(|e| panic!("semantics.txt: `{}`: {e}", row.trim()))
    };
    rows(TABLE).map(line).collect()
}

/// The first columns of a function's row, without reading the others: callers inside a traced program cannot afford
/// to parse all tables, and this allocates nothing.
pub(crate) fn lookup(name: &str) -> Option<(Op, Form)> {
    let columns = |name: &str| {
        let columns = |row: &'static str| row.strip_prefix(name)?.strip_prefix(' ');
        let mut columns = rows(TABLE).find_map(columns)?.split_whitespace();
        Some((parse_op(columns.next()?)?, parse_form(columns.next()?)?))
    };
    columns(name).or_else(|| columns(name.strip_suffix("_c")?))
}

impl Line {
    /// The line for a function with these parameters.
    pub(crate) fn of(&self, params: &[Param]) -> Result<Semantics, String> {
        let buffers = self.buffers.iter().map(|text| buffer(text, params));
        Ok(Semantics {
            op: self.op,
            form: self.form,
            is_local: self.is_local,
            over: self.over,
            buffers: buffers.collect::<Result<_, _>>()?,
        })
    }
}

fn parse_line(row: &'static str) -> Result<(&'static str, Line), String> {
    let mut words = row.split_whitespace();
    let mut word = || words.next().ok_or("too few columns");
    let (name, op, form, locality, over) = (word()?, word()?, word()?, word()?, word()?);
    let unknown = |what: &str| format!("`{what}` is not known");
    let is_local = match locality {
        "local" => true,
        "non-local" => false,
        other => return Err(unknown(other)),
    };
    let line = Line {
        op: parse_op(op).ok_or_else(|| unknown(op))?,
        form: parse_form(form).ok_or_else(|| unknown(form))?,
        is_local,
        over: parse_over(over).ok_or_else(|| unknown(over))?,
        buffers: words.collect(),
    };
    Ok((name, line))
}

fn parse_form(word: &str) -> Option<Form> {
    Some(match word {
        "blocking" | "-" => Form::Blocking,
        "nonblocking" => Form::Nonblocking,
        "persistent" => Form::Persistent,
        "partitioned" => Form::Partitioned,
        "split-begin" => Form::SplitBegin,
        "split-end" => Form::SplitEnd,
        _ => return None,
    })
}

fn parse_over(word: &str) -> Option<Option<Over>> {
    Some(match word {
        "-" => None,
        "world" => Some(Over::World),
        "session" => Some(Over::Session),
        "comm" => Some(Over::Comm),
        "comm+remote" => Some(Over::CommAndRemote),
        "group" => Some(Over::Group),
        "window" => Some(Over::Window),
        "file" => Some(Over::File),
        _ => return None,
    })
}

fn parse_op(word: &str) -> Option<Op> {
    let (what, detail) = word.split_once(':').unwrap_or((word, ""));
    Some(match (what, detail) {
        ("begin", "") => Op::Begin,
        ("end", "") => Op::End,
        ("abort", "") => Op::Abort,
        ("send", mode) => Op::Send(parse_mode(mode)?),
        ("receive", "") => Op::Receive,
        ("receive", "matched") => Op::MatchedReceive,
        ("sendrecv", "") => Op::SendReceive,
        ("probe", "") => Op::Probe,
        ("probe", "matched") => Op::MatchedProbe,
        ("complete", which) => Op::Complete(parse_choice(which)?),
        ("inspect", which) => Op::Inspect(parse_choice(which)?),
        ("start", "") => Op::Start,
        ("cancel", "") => Op::Cancel,
        ("ready", "") => Op::Ready,
        ("arrived", "") => Op::Arrived,
        ("collective", kind) => Op::Collective(parse_collective(kind)?),
        ("make", object) => Op::Make(parse_object(object)?),
        ("free", object) => Op::Free(parse_object(object)?),
        ("change", object) => Op::Change(parse_object(object)?),
        ("query", object) => Op::Query(parse_object(object)?),
        ("convert", object) => Op::Convert(parse_object(object)?),
        ("connect", "") => Op::Connect,
        ("rma", kind) => Op::Rma(parse_rma(kind)?),
        ("sync", kind) => Op::Sync(parse_sync(kind)?),
        ("io", access) => parse_io(access)?,
        ("attribute", access) => Op::Attribute(parse_access(access)?),
        ("errhandler", access) => Op::Errhandler(parse_access(access)?),
        ("memory", "allocate") => Op::Allocate,
        ("memory", "free") => Op::Deallocate,
        ("pack", "") => Op::Pack,
        ("unpack", "") => Op::Unpack,
        ("reduce", "") => Op::Reduce,
        ("clock", "time") => Op::Clock,
        ("clock", "resolution") => Op::ClockResolution,
        ("error", "") => Op::Error,
        ("name", "") => Op::Name,
        ("tool", "") => Op::Tool,
        ("local", "") => Op::Local,
        _ => return None,
    })
}

fn parse_mode(word: &str) -> Option<Mode> {
    Some(match word {
        "standard" => Mode::Standard,
        "buffered" => Mode::Buffered,
        "synchronous" => Mode::Synchronous,
        "ready" => Mode::Ready,
        _ => return None,
    })
}

fn parse_choice(word: &str) -> Option<Choice> {
    Some(match word {
        "one" => Choice::One,
        "all" => Choice::All,
        "any" => Choice::Any,
        "some" => Choice::Some,
        _ => return None,
    })
}

fn parse_collective(word: &str) -> Option<Collective> {
    use Collective::*;
    Some(match word {
        "barrier" => Barrier,
        "bcast" => Bcast,
        "gather" => Gather,
        "gatherv" => Gatherv,
        "scatter" => Scatter,
        "scatterv" => Scatterv,
        "allgather" => Allgather,
        "allgatherv" => Allgatherv,
        "alltoall" => Alltoall,
        "alltoallv" => Alltoallv,
        "alltoallw" => Alltoallw,
        "reduce" => Reduce,
        "allreduce" => Allreduce,
        "reduce_scatter" => ReduceScatter,
        "reduce_scatter_block" => ReduceScatterBlock,
        "scan" => Scan,
        "exscan" => Exscan,
        "neighbor_allgather" => NeighborAllgather,
        "neighbor_allgatherv" => NeighborAllgatherv,
        "neighbor_alltoall" => NeighborAlltoall,
        "neighbor_alltoallv" => NeighborAlltoallv,
        "neighbor_alltoallw" => NeighborAlltoallw,
        _ => return None,
    })
}

fn parse_object(word: &str) -> Option<Object> {
    Some(match word {
        "comm" => Object::Comm,
        "group" => Object::Group,
        "datatype" => Object::Datatype,
        "window" => Object::Window,
        "file" => Object::File,
        "request" => Object::Request,
        "message" => Object::Message,
        "info" => Object::Info,
        "op" => Object::Op,
        "errhandler" => Object::Errhandler,
        "keyval" => Object::Keyval,
        "session" => Object::Session,
        "status" => Object::Status,
        "buffering" => Object::Buffering,
        _ => return None,
    })
}

fn parse_rma(word: &str) -> Option<Rma> {
    Some(match word {
        "put" => Rma::Put,
        "get" => Rma::Get,
        "accumulate" => Rma::Accumulate,
        "get_accumulate" => Rma::GetAccumulate,
        "fetch_and_op" => Rma::FetchAndOp,
        "compare_and_swap" => Rma::CompareAndSwap,
        _ => return None,
    })
}

fn parse_sync(word: &str) -> Option<Sync> {
    Some(match word {
        "fence" => Sync::Fence,
        "start" => Sync::Start,
        "complete" => Sync::Complete,
        "post" => Sync::Post,
        "wait" => Sync::Wait,
        "lock" => Sync::Lock,
        "unlock" => Sync::Unlock,
        "lock_all" => Sync::LockAll,
        "unlock_all" => Sync::UnlockAll,
        "flush" => Sync::Flush,
        "flush_all" => Sync::FlushAll,
        "flush_local" => Sync::FlushLocal,
        "flush_local_all" => Sync::FlushLocalAll,
        "memory" => Sync::Memory,
        _ => return None,
    })
}

fn parse_io(word: &str) -> Option<Op> {
    let (direction, pointer) = word.split_once(':')?;
    let direction = match direction {
        "read" => Io::Read,
        "write" => Io::Write,
        _ => return None,
    };
    let pointer = match pointer {
        "explicit" => Pointer::Explicit,
        "individual" => Pointer::Individual,
        "shared" => Pointer::Shared,
        _ => return None,
    };
    Some(Op::Io(direction, pointer))
}

fn parse_access(word: &str) -> Option<Access> {
    Some(match word {
        "get" => Access::Get,
        "set" => Access::Set,
        "delete" => Access::Delete,
        "call" => Access::Call,
        _ => return None,
    })
}

/// Reads `recvbuf(recvcounts+displs,recvtype)@root`.
fn buffer(text: &str, params: &[Param]) -> Result<Buffer, String> {
    let position = |name: &str| {
        let at = params.iter().position(|p| p.name == name);
        at.ok_or_else(|| format!("no parameter `{name}`"))
    };
    let (text, at_root) = match text.strip_suffix("@root") {
        Some(text) => (text, true),
        None => (text, false),
    };
    let Some((address, inside)) = text.split_once('(') else {
        let address = position(text)?;
        return Ok(Buffer { address, amount: Amount::Unknown, datatype: None, at_root });
    };
    let inside = inside.strip_suffix(')').ok_or("`(` is not closed")?;
    let (amount, datatype) = match inside.split_once(',') {
        Some((amount, datatype)) => (amount, Some(position(datatype)?)),
        None => (inside, None),
    };
    let amount = if let Ok(constant) = amount.parse() {
        Amount::Constant(constant)
    } else if let Some(counts) = amount.strip_prefix("own:") {
        Amount::OwnCount(position(counts)?)
    } else if let Some((counts, displacements)) = amount.split_once('+') {
        Amount::Displaced { counts: position(counts)?, displacements: position(displacements)? }
    } else if let Some((count, blocks)) = amount.split_once('*') {
        let blocks = match blocks {
            "peers" => Blocks::Peers,
            "size" => Blocks::Size,
            "sources" => Blocks::Sources,
            "destinations" => Blocks::Destinations,
            partitions => Blocks::Partitions(position(partitions)?),
        };
        Amount::Each(position(count)?, blocks)
    } else {
        let at = position(amount)?;
        match params.get(at).and_then(|param| param.length.as_ref()) {
            Some(_) => Amount::Counts(at),
            None => Amount::Count(at),
        }
    };
    Ok(Buffer { address: position(address)?, amount, datatype, at_root })
}
