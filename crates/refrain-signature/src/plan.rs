//! How a function's values are encoded: a plan, made once from the function's form.
//!
//! A value goes into the *signature* of its call, or into its *outcome*. Inputs, and outputs
//! that follow from them (a rank, coordinates, a new object), belong to the signature, over
//! which the grammar is built. What MPI *decides* (which request completed, what matched,
//! whether a test succeeded) is the outcome: functions that complete, receive or probe decide.

use refrain_format::define::{FunctionDef, ParamDef};
use refrain_mpi::interface::Direction;
use refrain_mpi::kind::Class;

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
    /// An address; where MPI has predefined ones, of that kind.
    Place(u8),
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
    /// The parameter's place.
    pub param: u8,
    /// Its form.
    pub form: Form,
    /// Whether it is an array.
    pub array: bool,
    /// Whether the record holds the value itself, not a state and perhaps a value.
    pub by_value: bool,
    /// Whether it is an input as well that the call may change.
    pub changes: bool,
    /// What it means.
    pub role: Role,
}

/// What a request does, by the function that made it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Makes {
    /// No request.
    Nothing,
    /// One whose status tells source, tag and length of a message.
    Receive,
    /// One whose status tells a length (file access) or what the program says.
    Transfer,
    /// One whose status means nothing.
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
    /// It makes a request of that sort.
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

/// Functions whose outcome is decided by others and shows neither in a status nor a request.
const DECIDING: [&str; 2] = ["MPI_Win_test", "refrain_segment"];

impl Plan {
    /// Makes a plan.
    pub fn new(def: FunctionDef, kinds: &mut Kinds) -> Plan {
        let base = def.name.strip_suffix("_c").unwrap_or(&def.name).to_owned();
        let has = |class: Class| def.params.iter().any(|p| p.class == class);
        let is_request = |p: &ParamDef| p.class == Class::Handle && p.reads_as == REQUEST;
        let completes = def.params.iter().any(|p| is_request(p) && p.direction != Direction::Out);
        let probes = base.ends_with("probe");
        let is_test = DECIDING.contains(&base.as_str());
        let out =
            |name: &str| def.params.iter().any(|p| p.name == name && p.direction == Direction::Out);
        let makes_request =
            def.params.iter().any(|p| is_request(p) && p.direction == Direction::Out);
        let makes = match base.as_str() {
            _ if !makes_request => Makes::Nothing,
            "MPI_Irecv"
            | "MPI_Recv_init"
            | "MPI_Imrecv"
            | "MPI_Precv_init"
            | "MPI_Isendrecv"
            | "MPI_Isendrecv_replace" => Makes::Receive,
            "MPI_Grequest_start" => Makes::Receive,
            name if name.starts_with("MPI_File_i") => Makes::Transfer,
            _ => Makes::Other,
        };
        let ops = |wanted: fn(&ParamDef) -> bool, kinds: &mut Kinds| {
            let params = def.params.iter().enumerate().filter(|(_, p)| wanted(p));
            params.map(|(i, p)| op(i, p, kinds)).collect::<Vec<_>>()
        };
        let result = (def.result_reads_as != "error").then(|| match def.result {
            Class::Handle => Form::Handle(kinds.number(&def.result_reads_as)),
            Class::Address => Form::Place(kinds.number("")),
            _ => Form::Long,
        });
        Plan {
            inputs: ops(ParamDef::is_input, kinds),
            outputs: ops(ParamDef::is_output, kinds),
            decides: has(Class::Status) || completes || probes || is_test,
            polls: (out("flag") && (completes || probes || is_test))
                || matches!(base.as_str(), "MPI_Testsome" | "MPI_Request_get_status_some"),
            makes,
            persistent: base.ends_with("_init"),
            of_files: base.starts_with("MPI_File_"),
            result,
            tells_time: base == "MPI_Wtime",
            reads_status: def
                .params
                .iter()
                .any(|p| p.class == Class::Status && p.direction != Direction::Out),
            cancels: base == "MPI_Cancel",
            def,
        }
    }
}

fn op(param: usize, p: &ParamDef, kinds: &mut Kinds) -> Op {
    let form = match p.class {
        Class::Int => Form::Int,
        Class::Count | Class::Offset | Class::Double | Class::Varargs => Form::Long,
        Class::Aint => Form::Aint,
        Class::Handle => Form::Handle(kinds.number(&p.reads_as)),
        Class::Memory | Class::Address => Form::Place(kinds.number(&p.name)),
        Class::Str => Form::Text,
        Class::Strings => Form::Texts,
        Class::Strings2 => Form::Texts2,
        Class::Status => Form::Status,
    };
    let is_out = p.direction == Direction::Out;
    let role = match p.name.as_str() {
        "flag" if is_out => Role::Flag,
        "index" if is_out && !p.array => Role::Index,
        "outcount" if is_out => Role::Outcount,
        "array_of_indices" if is_out => Role::Indices,
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
    fn plans_mark_the_functions_that_poll() {
        let polls = |name| plan(name).polls;
        assert!(["MPI_Test", "MPI_Testany", "MPI_Testsome", "MPI_Iprobe"].into_iter().all(polls));
        assert!(!["MPI_Wait", "MPI_Test_cancelled", "MPI_Comm_get_attr"].into_iter().any(polls));
    }
}
