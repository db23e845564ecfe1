//! Arguments that MPI does not allow.
//!
//! MPI libraries check most arguments themselves, and abort the job. The arguments of such a call are in the trace: it
//! has not returned, or has failed. So handles are reported only in calls that have not succeeded; a value that MPI has
//! accepted was not significant.

use crate::finding::Class;
use crate::typemap::Types;
use refrain_bytes::table::Map;
use refrain_mpi::interface::{Direction, Function, Param};
use refrain_mpi::names::constant_value;
use refrain_mpi::semantics::{Amount, Buffer, Collective, Meaning, Object, Op, Over, Root};
use refrain_reader::{Call, Peer, Value};
use std::sync::Arc;

/// Facts about a call's communicator or window that its arguments do not say.
#[derive(Clone, Copy, Debug, Default)]
pub struct Scope {
    /// How many ranks may be named: the remote group of an intercommunicator.
    pub size: Option<i64>,
    /// Whether it is an intercommunicator.
    pub is_inter: bool,
    /// Whether this process is the root that the call names; none if that is not known.
    pub is_root: Option<bool>,
    /// Whether the communicator has a Cartesian topology; none if that is not known.
    pub is_cartesian: Option<bool>,
}

/// A wrong argument.
pub type Wrong = (Class, String);

/// The parameters of functions whose values are checked, with what they mean.
#[derive(Debug, Default)]
pub struct Checked(Map<&'static str, Arc<[(usize, Meaning)]>>);

impl Checked {
    fn of(&mut self, function: &'static Function) -> Arc<[(usize, Meaning)]> {
        let meaning = |(at, param): (usize, &Param)| {
            let meaning = param.meaning();
            let is_checked =
                matches!(meaning, Meaning::Rank | Meaning::Tag | Meaning::Count | Meaning::Handle);
            (is_checked && param.direction != Direction::Out).then_some((at, meaning))
        };
        let all = || function.params.iter().enumerate().filter_map(meaning).collect();
        self.0.entry(&function.name).or_insert_with(all).clone()
    }
}

/// The arguments of a call that MPI does not allow.
pub fn wrong(
    call: &Call,
    function: &'static Function,
    checked: &mut Checked,
    types: &mut Types,
    scope: Scope,
) -> Vec<Wrong> {
    let mut all = Vec::new();
    // Tools and conversions take whatever there is.
    if matches!(function.op(), Op::Tool | Op::Convert(_) | Op::Connect | Op::Error) {
        return all;
    }
    let has_failed = !call.returned() || call.error().is_some();
    for (at, meaning) in checked.of(function).iter() {
        let Some(param) = function.params.get(*at) else { continue };
        let Some(value) = call.input(param.name) else { continue };
        let found = match meaning {
            Meaning::Rank => rank(call, function, param, value, scope),
            Meaning::Tag => tag(call, function, param, value),
            Meaning::Count => count(call, param, value),
            Meaning::Handle => handle(call, function, param, value, types, scope, has_failed),
            _ => None,
        };
        all.extend(found);
    }
    for buffer in function.buffers() {
        all.extend(null_buffer(call, function, buffer, types, scope));
    }
    all.extend(special(call, function, scope));
    // One wrong argument often makes others look wrong.
    all.truncate(1);
    all
}

fn of(call: &Call, text: String) -> String {
    format!("{} is called with {text}.", call.name())
}

fn rank(
    call: &Call,
    function: &Function,
    param: &Param,
    value: &Value,
    scope: Scope,
) -> Option<Wrong> {
    let Value::Int(rank) = value else { return None };
    let takes_part = matches!(
        function.op(),
        Op::Send(_) | Op::Receive | Op::SendReceive | Op::Probe | Op::MatchedProbe | Op::Rma(_)
    );
    let has_root = param.name == "root" && function.over() == Some(Over::Comm);
    if !takes_part && !has_root {
        return None;
    }
    let allowed = match Peer::of(*rank, call.layout().family) {
        Some(Peer::Rank(rank)) => scope.size.is_none_or(|size| i64::from(rank) < size),
        Some(Peer::Any) => param.name == "source",
        Some(Peer::ProcNull) => !has_root || scope.is_inter,
        Some(Peer::Root) => has_root && scope.is_inter,
        None => false,
    };
    if allowed {
        return None;
    }
    let known = scope.size.map_or(String::new(), |size| format!("; ranks are 0 to {}", size - 1));
    Some((Class::InvalidArgument, of(call, format!("{} {rank}{known}", param.name))))
}

fn tag(call: &Call, function: &Function, param: &Param, value: &Value) -> Option<Wrong> {
    let Value::Int(tag) = value else { return None };
    // A status may have any.
    if !communicates(function) && !matches!(function.op(), Op::Probe | Op::MatchedProbe) {
        return None;
    }
    let receives = param.name == "recvtag" || call.input("source").is_some() && param.name == "tag";
    let is_any = *tag == i64::from(call.layout().any_tag) && receives;
    (*tag < 0 && !is_any).then(|| {
        (Class::InvalidArgument, of(call, format!("{} {tag}: tags are not negative", param.name)))
    })
}

fn count(call: &Call, param: &Param, value: &Value) -> Option<Wrong> {
    // Strides are of the same kind as counts.
    if !param.name.contains("count") && !param.name.contains("length") {
        return None;
    }
    let negative = match value {
        Value::Int(count) => (*count < 0).then_some(*count),
        Value::List(all) => all.iter().find_map(|value| match value {
            Value::Int(count) if *count < 0 => Some(*count),
            _ => None,
        }),
        _ => None,
    }?;
    // MPI_Status_set_elements and others take MPI_UNDEFINED.
    let is_undefined = constant_value(call.layout().family, "MPI_UNDEFINED") == Some(negative);
    (!is_undefined).then(|| {
        (
            Class::InvalidArgument,
            of(call, format!("{} {negative}: counts are not negative", param.name)),
        )
    })
}

/// Whether an argument of a collective is significant on this process.
fn is_significant(call: &Call, function: &Function, param: &Param, scope: Scope) -> bool {
    let Some(at) = function.params.iter().position(|p| p.name == param.name) else { return true };
    for buffer in function.buffers() {
        let is_part = buffer.datatype == Some(at);
        if is_part && buffer.at_root && scope.is_root != Some(true) {
            return false;
        }
        // MPI_IN_PLACE: count and datatype are ignored.
        let address = function.params.get(buffer.address).and_then(|p| call.input(p.name));
        if is_part && !matches!(address, Some(Value::Location { .. } | Value::Null)) {
            return false;
        }
    }
    true
}

fn handle(
    call: &Call,
    function: &Function,
    param: &Param,
    value: &Value,
    types: &mut Types,
    scope: Scope,
    has_failed: bool,
) -> Option<Wrong> {
    let Value::Word(word) = value else { return None };
    let kind = param.kind.reads_as;
    if kind != "datatype" && !has_failed {
        return None;
    }
    let known = if kind == "datatype" { types.get(call, *word) } else { None };
    let name = if known.is_some() { None } else { call.handle_name(kind, *word) };
    let is_null = name.is_some_and(|name| name.ends_with("_NULL"));
    if kind == "datatype" && !is_null {
        // A datatype that MPI refuses may be one that was freed: its number is then unknown.
        let uses =
            || !function.buffers().is_empty() && is_significant(call, function, param, scope);
        return match known {
            Some((datatype, _)) if !datatype.is_committed && uses() && communicates(function) => {
                Some((
                    Class::InvalidHandle,
                    of(call, format!("a {} that was not committed (MPI_Type_commit)", param.name)),
                ))
            }
            _ => None,
        };
    }
    let may_be_null = kind == "info"
        || kind == "request" && matches!(function.op(), Op::Complete(_) | Op::Inspect(_))
        || kind == "file" && matches!(function.op(), Op::Errhandler(_))
        || kind == "errhandler";
    if !is_null || may_be_null || !has_failed || !is_significant(call, function, param, scope) {
        return None;
    }
    Some((Class::InvalidHandle, of(call, format!("{} {}", param.name, name.unwrap_or("null")))))
}

/// Whether a function needs datatypes that are committed.
pub fn communicates(function: &Function) -> bool {
    matches!(
        function.op(),
        Op::Send(_)
            | Op::Receive
            | Op::MatchedReceive
            | Op::SendReceive
            | Op::Collective(_)
            | Op::Rma(_)
            | Op::Io(..)
            | Op::Pack
            | Op::Unpack
    )
}

fn null_buffer(
    call: &Call,
    function: &Function,
    buffer: &Buffer,
    types: &mut Types,
    scope: Scope,
) -> Option<Wrong> {
    let input = |param: usize| call.input(function.params.get(param)?.name);
    let param = buffer.param(function);
    let is_null = matches!(input(buffer.address)?, Value::Null | Value::Word(0));
    if !is_null || buffer.at_root && scope.is_root != Some(true) {
        return None;
    }
    let amount = match buffer.amount {
        Amount::Count(at) | Amount::Each(at, _) => match input(at)? {
            Value::Int(count) => *count,
            _ => return None,
        },
        Amount::Constant(n) => i64::from(n),
        _ => return None,
    };
    if amount <= 0 {
        return None;
    }
    match (function.op(), buffer.datatype) {
        // A derived datatype may hold absolute addresses: the buffer is MPI_BOTTOM.
        (_, Some(datatype)) => {
            let Value::Word(handle) = input(datatype)? else { return None };
            let (datatype, _) = types.get(call, *handle)?;
            let is_sent = match call.peer() {
                Some(peer) => peer != Peer::ProcNull,
                None => matches!(function.op(), Op::Collective(_)),
            };
            if !datatype.is_predefined || !is_sent || matches!(function.op(), Op::Rma(_)) {
                return None;
            }
        }
        (Op::Make(Object::Window), None) if param.direction == Direction::In => {}
        _ => return None,
    }
    Some((
        Class::InvalidArgument,
        of(call, format!("{} NULL and a size that is not 0", param.name)),
    ))
}

/// Rules of single functions.
fn special(call: &Call, function: &Function, scope: Scope) -> Option<Wrong> {
    let int = |name: &str| match call.input(name) {
        Some(Value::Int(n)) => Some(*n),
        _ => None,
    };
    let undefined = constant_value(call.layout().family, "MPI_UNDEFINED");
    match function.name.as_str() {
        "MPI_Comm_split" => {
            let color = int("color").filter(|color| *color < 0 && Some(*color) != undefined)?;
            Some((
                Class::InvalidArgument,
                of(call, format!("color {color}: colors are not negative")),
            ))
        }
        "MPI_Cart_create" => {
            let Some(Value::List(dims)) = call.input("dims") else { return None };
            let bad = dims.iter().find_map(|dim| match dim {
                Value::Int(n) if *n < 0 => Some(*n),
                _ => None,
            })?;
            Some((Class::InvalidArgument, of(call, format!("a dimension of {bad} processes"))))
        }
        "MPI_Cart_get" | "MPI_Cart_rank" | "MPI_Cart_coords" | "MPI_Cart_shift"
        | "MPI_Cart_sub" | "MPI_Cartdim_get"
            if scope.is_cartesian == Some(false) =>
        {
            Some((
                Class::InvalidHandle,
                of(call, "a communicator that has no Cartesian topology".to_owned()),
            ))
        }
        _ => None,
    }
}

/// Whether this process is the root of a collective that distributes or collects; the rank is that of the argument.
pub fn has_root(function: &Function) -> bool {
    let kinds = |collective: Collective| collective.root();
    match function.op() {
        Op::Collective(collective) => {
            matches!(kinds(collective), Some(Root::Source | Root::Destination))
        }
        _ => false,
    }
}
