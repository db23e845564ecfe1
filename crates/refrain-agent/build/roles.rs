//! Generates the hooks that record and replay message matching. A hook stands between the wrapper
//! of a function and MPI.
//!
//! ```text
//! static ROLE_OF_MPI_IRECV: Role = Role { act: Act::Post, function: 187, source: 3, tag: 4, … };
//! pub unsafe extern "C-unwind" fn MPI_Irecv(a0: usize, a1: usize, …, a6: usize) -> c_int {
//!     order::call(&ROLE_OF_MPI_IRECV, &mut [a0, a1, …, a6])
//! }
//! ```
//!
//! Functions that programs call often have a second hook for recording, `recorded_MPI_Irecv`, which
//! is compiled with the role as a constant.
//!
//! The role of a function follows from `refrain_mpi::semantics`; nothing here lists functions by
//! name. Every argument is passed as a word: C passes integers, handles and addresses in registers
//! and stack slots of eight bytes, whatever their size, and the bits above an `int` are undefined.
//! So a function and its `_c` variant have the same form.

use refrain_mpi::interface::{Function, functions, is_wrapped};
use refrain_mpi::kind::Class;
use refrain_mpi::semantics::{Argument, Choice, Form, Mode, Object, Op, Over, Sync};
use std::fmt::Write;

/// The arguments that matter, by the field of `Role` that holds their positions.
const POSITIONS: &[(&str, Argument)] = &[
    ("source", Argument::Source),
    ("tag", Argument::Tag),
    ("comm", Argument::Comm),
    ("newcomm", Argument::NewComm),
    ("message", Argument::Message),
    ("dest", Argument::Dest),
    ("sendtag", Argument::SendTag),
    ("request", Argument::Request),
    ("count", Argument::Count),
    ("status", Argument::Status),
    ("flag", Argument::Flag),
    ("index", Argument::Index),
    ("outcount", Argument::OutCount),
];

/// The number of arguments that `order/mpi.rs` can pass.
const MAX_ARGUMENTS: usize = 13;

/// How a function affects message matching: the text of an `Act`, see `order/role.rs`.
fn act(f: &Function) -> Option<String> {
    let act = match f.op() {
        Op::Begin => "Begin".to_owned(),
        Op::End => "End".to_owned(),
        Op::Receive | Op::SendReceive | Op::MatchedReceive => receive(f),
        Op::Send(mode) => send(f.form(), mode),
        Op::Start => "Start".to_owned(),
        Op::Probe | Op::MatchedProbe => format!("Probe(Kind::{})", probe(f)),
        Op::Complete(choice) => format!("Complete(Kind::{})", completion(f.form(), choice)),
        Op::Inspect(choice) => format!("Complete(Kind::{})", inspection(choice)),
        Op::Arrived => "Arrive".to_owned(),
        Op::Cancel => "Cancel".to_owned(),
        Op::Free(Object::Request) => "Free".to_owned(),
        Op::Free(Object::Comm) => "FreeComm".to_owned(),
        Op::Make(Object::Request) => "Generalized".to_owned(),
        // The call is forwarded, and the record names it as unsupported.
        _ if f.depends_on_other_order() => "Unsupported".to_owned(),
        // A hook returns an `int`: another result would be truncated.
        _ if !f.returns_error() || f.params.len() > MAX_ARGUMENTS => return None,
        // Variable arguments are not words, and an abort does not return.
        _ if f.op() == Op::Abort || f.params.iter().any(|p| p.class == Class::Varargs) => {
            return None;
        }
        _ => collective(f),
    };
    Some(act)
}

fn receive(f: &Function) -> String {
    match f.form() {
        Form::Nonblocking => "Post".to_owned(),
        Form::Persistent => "Init".to_owned(),
        Form::Partitioned => "UntrackedSync".to_owned(),
        _ => {
            let kind = match f.op() {
                Op::SendReceive => "Sendrecv",
                Op::MatchedReceive => "Mrecv",
                _ => "Recv",
            };
            format!("Receive(Kind::{kind})")
        }
    }
}

fn send(form: Form, mode: Mode) -> String {
    match form {
        Form::Persistent => "InitSend".to_owned(),
        Form::Partitioned => "UntrackedSync".to_owned(),
        _ => format!("Send(Mode::{mode:?})"),
    }
}

fn probe(f: &Function) -> &'static str {
    match (f.op(), f.form()) {
        (Op::MatchedProbe, Form::Nonblocking) => "Improbe",
        (Op::MatchedProbe, _) => "Mprobe",
        (_, Form::Nonblocking) => "Iprobe",
        _ => "Probe",
    }
}

fn completion(form: Form, choice: Choice) -> String {
    let name = if form == Form::Nonblocking { "Test" } else { "Wait" };
    let of = match choice {
        Choice::One => "",
        Choice::All => "all",
        Choice::Any => "any",
        Choice::Some => "some",
    };
    format!("{name}{of}")
}

fn inspection(choice: Choice) -> String {
    match choice {
        Choice::One => "GetStatus".to_owned(),
        choice => format!("GetStatus{choice:?}"),
    }
}

/// How a collective call synchronizes its processes: calls that make communicators and collectives
/// that carry Lamport clocks come first, then those that carry none.
fn collective(f: &Function) -> String {
    let persistent = f.form() == Form::Persistent;
    match f.op() {
        Op::Make(Object::Comm) => {
            let parent = matches!(f.over(), Some(Over::Comm | Over::CommAndRemote));
            let new = matches!(f.over(), Some(Over::Group | Over::CommAndRemote));
            format!("MakeComm {{ parent: {parent}, new: {new} }}")
        }
        Op::Collective(collective) if !persistent => {
            let ranks = if collective.synchronizes() { "All" } else { "Partial" };
            format!("Collective(Synchronization::{ranks})")
        }
        Op::Make(Object::Window | Object::File) => {
            "Collective(Synchronization::Partial)".to_owned()
        }
        Op::Collective(_)
        | Op::Free(Object::Window | Object::File)
        | Op::Sync(Sync::Fence | Sync::Start | Sync::Complete | Sync::Post | Sync::Wait) => {
            "UntrackedSync".to_owned()
        }
        Op::Io(..) | Op::Change(Object::File) if f.is_collective() => "UntrackedSync".to_owned(),
        _ => "Other".to_owned(),
    }
}

/// Whether programs call such functions often, so that recording them must be fast.
fn is_frequent(act: &str) -> bool {
    ["Post", "Receive", "Probe", "Complete"].iter().any(|often| act.starts_with(often))
}

/// The hooks, and a function that finds them by number.
pub fn hooks() -> String {
    let mut text =
        "use crate::order::{self, Act, Kind, Synchronization, Mode, Role};\nuse std::ffi::c_int;\n"
            .to_owned();
    let mut found = String::new();
    for (number, f) in functions().iter().enumerate() {
        let Some(act) = act(f).filter(|_| is_wrapped(&f.name)) else { continue };
        assert!(f.params.len() <= MAX_ARGUMENTS, "{}: see order/mpi.rs", f.name);
        assert!(f.returns_error(), "{} does not return an error code", f.name);
        let position = |argument: Argument| {
            f.position(argument).map_or("Role::ABSENT".to_owned(), |at| at.to_string())
        };
        let positions = POSITIONS.iter().map(|(field, at)| format!("{field}: {}, ", position(*at)));
        let positions: String = positions.collect();
        let arguments: Vec<String> = (0..f.params.len()).map(|n| format!("a{n}")).collect();
        let words = arguments.join(", ");
        let parameters: String = arguments.iter().map(|a| format!("{a}: usize, ")).collect();
        let (name, upper, large) = (&f.name, f.name.to_uppercase(), f.large);
        // Writing to a String cannot fail.
        let _ = write!(
            text,
            "
static ROLE_OF_{upper}: Role = Role {{ act: Act::{act}, function: {number}, large: {large}, {positions} }};
pub unsafe extern \"C-unwind\" fn {name}({parameters}) -> c_int {{
    order::call(&ROLE_OF_{upper}, &mut [{words}])
}}
"
        );
        if is_frequent(&act) && !large {
            let _ = write!(
                text,
                "
unsafe extern \"C-unwind\" fn recorded_{name}({parameters}) -> c_int {{
    order::recorded(&ROLE_OF_{upper}, &mut [{words}])
}}
"
            );
            let _ =
                writeln!(found, "        {number} if recorded => recorded_{name} as *const (),");
        }
        // Sends matter only if threads send concurrently. A replay also hooks every function that
        // may wait for other ranks, to report which ranks wait in it.
        let blocks = f.params.iter().all(|p| p.name != "request");
        let guard = match act.as_str() {
            "Other" => " if replay",
            "UntrackedSync" => " if replay || clock",
            "Generalized" => " if clock",
            _ if act.starts_with("Collective") || act.starts_with("Make") => " if replay || clock",
            _ if act.starts_with("Send") && blocks => " if shared || replay || clock",
            _ if act.starts_with("Send") || act == "InitSend" => " if shared || clock",
            _ => "",
        };
        let _ = writeln!(found, "        {number}{guard} => {name} as *const (),");
    }
    let _ = write!(
        text,
        "
/// The hook between the wrapper of a function and MPI; `shared`: threads call MPI concurrently,
/// `replay`: this is a replay, `clock`: messages carry Lamport clocks.
pub fn find(function: usize, shared: bool, replay: bool, clock: bool) -> Option<*const ()> {{
    let recorded = !replay && !clock;
    Some(match function {{
{found}        _ => return None,
    }})
}}
"
    );
    text
}
