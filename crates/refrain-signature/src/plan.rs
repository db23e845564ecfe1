//! How a function's values are encoded: a plan, derived once from the function's parameters and from what it does
//! ([`refrain_mpi::semantics`]).
//!
//! Each value is part of the *signature* of its call or of its *outcome*. Inputs belong to the signature, over which
//! the grammar is built. So do outputs that follow from them: a rank, coordinates, a new object. The outcome is what
//! MPI *decides*: which request completed, what matched, whether a test succeeded. Functions that complete requests,
//! receive or probe decide.

use crate::notes;
use refrain_format::define::{FunctionDef, ParamDef};
use refrain_mpi::interface::Direction;
use refrain_mpi::kind::Class;
use refrain_mpi::semantics::{self, Argument};

/// The kind of object that requests are.
pub const REQUEST: &str = "request";

/// What a value looks like in a record ([`refrain_format::record`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// An `int`.
    Int,
    /// A 64-bit number.
    Long,
    /// A 64-bit number that may be an address (`MPI_Aint`).
    Aint,
    /// A handle of that kind ([`Kinds`]).
    Handle(u8),
    /// An address; the kind of the predefined addresses that it may be.
    Address(u8),
    /// A string.
    Text,
    /// Strings.
    Texts,
    /// Arrays of strings.
    Texts2,
    /// A status.
    Status,
}

/// What a value means to the rest of its call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Nothing special.
    None,
    /// Whether a test succeeded.
    Flag,
    /// Which request completed.
    Index,
    /// How many did.
    Outcount,
    /// Which ones.
    Indices,
}

/// One value.
#[derive(Clone, Copy, Debug)]
pub struct Op {
    /// The parameter's index.
    pub param: u8,
    /// Its form.
    pub form: Form,
    /// Whether it is an array.
    pub array: bool,
    /// Whether the record holds the value itself, not a state that a value may follow.
    pub by_value: bool,
    /// Whether it is also an input, which the call may change.
    pub changes: bool,
    /// What it means.
    pub role: Role,
}

/// What the status of a request means, by the function that made it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Makes {
    /// No request.
    Nothing,
    /// A request whose status has source, tag and length of a message.
    Receive,
    /// A request whose status has a length (file access).
    Transfer,
    /// A request whose status has no meaning.
    Other,
}

/// How to encode a function.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Its form.
    pub def: FunctionDef,
    /// Values before the call.
    pub inputs: Vec<Op>,
    /// Values after it.
    pub outputs: Vec<Op>,
    /// Its outputs are outcomes.
    pub decides: bool,
    /// A call that finds nothing is a failed poll.
    pub polls: bool,
    /// The kind of request that it makes.
    pub makes: Makes,
    /// The request can be started again.
    pub persistent: bool,
    /// Statuses are of files, not of messages.
    pub of_files: bool,
    /// The form of a result that is no error code.
    pub result: Option<Form>,
    /// The result is a time.
    pub tells_time: bool,
    /// A status is among its inputs.
    pub reads_status: bool,
    /// It asks for cancellation.
    pub cancels: bool,
}

/// Kinds of handles and of named addresses, by number.
#[derive(Clone, Debug, Default)]
pub struct Kinds {
    names: Vec<String>,
}

impl Kinds {
    /// All, in order.
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// The number of a kind.
    pub fn number(&mut self, name: &str) -> u8 {
        let found = self.names.iter().position(|n| n == name);
        found.unwrap_or_else(|| {
            self.names.push(name.to_owned());
            self.names.len() - 1
        }) as u8
    }

    /// The kind of that number.
    pub fn name(&self, number: u8) -> &str {
        self.names.get(usize::from(number)).map_or("", String::as_str)
    }
}

/// What a function does, as far as plans depend on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Semantics {
    /// A function of MPI.
    Mpi(semantics::Op, semantics::Form),
    /// A note ([`crate::notes`]).
    Note,
    /// A function that only another version of Refrain knows: its parameters say all there is to know.
    Unknown,
}

impl Semantics {
    fn of(name: &str) -> Semantics {
        match semantics::op_and_form(name) {
            Some((op, form)) => Semantics::Mpi(op, form),
            None if notes::is_note(name) => Semantics::Note,
            None => Semantics::Unknown,
        }
    }

    fn op(self) -> Option<semantics::Op> {
        match self {
            Semantics::Mpi(op, _) => Some(op),
            Semantics::Note | Semantics::Unknown => None,
        }
    }
}

impl Plan {
    /// Makes a plan.
    pub fn new(def: FunctionDef, kinds: &mut Kinds) -> Plan {
        let semantics = Semantics::of(&def.name);
        Plan::derive(def, semantics, kinds)
    }

    /// Derives a plan from a function's parameters and semantics. Its name must not matter.
    fn derive(def: FunctionDef, semantics: Semantics, kinds: &mut Kinds) -> Plan {
        let has_request = |wanted: fn(Direction) -> bool| {
            let is_request = |p: &ParamDef| p.class == Class::Handle && p.reads_as == REQUEST;
            def.params.iter().any(|p| is_request(p) && wanted(p.direction))
        };
        let has_status = |wanted: fn(Direction) -> bool| {
            def.params.iter().any(|p| p.class == Class::Status && wanted(p.direction))
        };
        let takes_requests = has_request(|direction| direction != Direction::Out);
        let makes_request = has_request(|direction| direction == Direction::Out);
        let ops = |wanted: fn(&ParamDef) -> bool, kinds: &mut Kinds| {
            let params = def.params.iter().enumerate().filter(|(_, p)| wanted(p));
            params.map(|(i, p)| op(i, p, takes_requests, kinds)).collect::<Vec<_>>()
        };
        let result = (def.result_reads_as != "error").then(|| match def.result {
            Class::Handle => Form::Handle(kinds.number(&def.result_reads_as)),
            Class::Address => Form::Address(kinds.number("")),
            _ => Form::Long,
        });
        let inputs = ops(ParamDef::is_input, kinds);
        let outputs = ops(ParamDef::is_output, kinds);
        let polls = match semantics {
            Semantics::Mpi(op, form) => semantics::polls(op, form),
            Semantics::Note => false,
            Semantics::Unknown => takes_requests && outputs.iter().any(|op| op.role == Role::Flag),
        };
        let note_with_outputs = semantics == Semantics::Note && !outputs.is_empty();
        Plan {
            decides: has_status(|_| true) || takes_requests || polls || note_with_outputs,
            polls,
            makes: if makes_request { makes(semantics.op()) } else { Makes::Nothing },
            persistent: matches!(
                semantics,
                Semantics::Mpi(_, semantics::Form::Persistent | semantics::Form::Partitioned)
            ),
            of_files: matches!(semantics.op(), Some(semantics::Op::Io(..))),
            result,
            tells_time: semantics.op() == Some(semantics::Op::Clock),
            reads_status: has_status(|direction| direction != Direction::Out),
            cancels: semantics.op() == Some(semantics::Op::Cancel),
            inputs,
            outputs,
            def,
        }
    }
}

/// What the request of a function does that makes one.
fn makes(op: Option<semantics::Op>) -> Makes {
    use semantics::{Object, Op};
    match op {
        Some(Op::Receive | Op::MatchedReceive | Op::SendReceive) => Makes::Receive,
        // The program fills in the status of a generalized request.
        Some(Op::Make(Object::Request)) => Makes::Receive,
        Some(Op::Io(..)) => Makes::Transfer,
        _ => Makes::Other,
    }
}

fn op(param: usize, p: &ParamDef, takes_requests: bool, kinds: &mut Kinds) -> Op {
    let form = match p.class {
        Class::Int => Form::Int,
        Class::Count | Class::Offset | Class::Double | Class::Varargs => Form::Long,
        Class::Aint => Form::Aint,
        Class::Handle => Form::Handle(kinds.number(&p.reads_as)),
        Class::Memory | Class::Address => Form::Address(kinds.number(&p.name)),
        Class::Str => Form::Text,
        Class::Strings => Form::Texts,
        Class::Strings2 => Form::Texts2,
        Class::Status => Form::Status,
    };
    let is = |argument: Argument| {
        p.direction == Direction::Out && argument.names().contains(&p.name.as_str())
    };
    let role = match p.array {
        _ if is(Argument::Flag) => Role::Flag,
        _ if is(Argument::OutCount) => Role::Outcount,
        true if takes_requests && is(Argument::Index) => Role::Indices,
        false if takes_requests && is(Argument::Index) => Role::Index,
        _ => Role::None,
    };
    let by_value = p.direction == Direction::In || p.class == Class::Memory;
    let changes = p.direction == Direction::InOut;
    Op { param: param as u8, form, array: p.array, by_value, changes, role }
}

#[cfg(test)]
mod tests {
    use super::*;
    use refrain_mpi::interface;

    fn plan(name: &str) -> Plan {
        let function = interface::function(name).unwrap();
        Plan::new(FunctionDef::from(function), &mut Kinds::default())
    }

    #[test]
    fn what_mpi_decides_is_told_from_what_follows() {
        for name in ["MPI_Recv", "MPI_Waitany", "MPI_Testsome", "MPI_Iprobe", "MPI_Mprobe_c"] {
            if interface::function(name).is_some() {
                assert!(plan(name).decides, "{name}");
            }
        }
        for name in ["MPI_Comm_rank", "MPI_Isend", "MPI_Irecv", "MPI_Cart_coords", "MPI_Comm_dup"] {
            assert!(!plan(name).decides, "{name}");
        }
    }

    #[test]
    fn a_plan_does_not_depend_on_the_name_of_its_function() {
        for function in interface::functions() {
            let def = FunctionDef::from(function);
            let renamed = FunctionDef { name: "MPI_Renamed".to_owned(), ..def.clone() };
            let semantics = Semantics::Mpi(function.op(), function.form());
            let plan = Plan::new(def.clone(), &mut Kinds::default());
            let derived = Plan::derive(renamed, semantics, &mut Kinds::default());
            assert_eq!(format!("{:?}", Plan { def, ..derived }), format!("{plan:?}"));
        }
    }

    #[test]
    fn plans_mark_the_functions_that_poll() {
        let polls = |name| plan(name).polls;
        assert!(["MPI_Test", "MPI_Testany", "MPI_Testsome", "MPI_Iprobe"].into_iter().all(polls));
        assert!(!["MPI_Wait", "MPI_Test_cancelled", "MPI_Comm_get_attr"].into_iter().any(polls));
    }
}
