//! Generates a wrapper.
//!
//! ```text
//! pub unsafe extern "C-unwind" fn MPI_Comm_rank(comm: Handle, rank: Ints) -> c_int {
//!     let entry = Entry::new(table::MPI_Comm_rank);
//!     let next: unsafe extern "C-unwind" fn(Handle, Ints) -> c_int = transmute(entry.next());
//!     let Some(mut call) = entry.begin() else { return next(comm, rank) };
//!     call.resume(call.cursor().handle(comm)); call.enter();
//!     let returned = next(comm, rank);
//!     call.leave(returned); call.int_at(rank); call.done();
//!     returned
//! }
//! ```
//!
//! If there are buffers, the first step announces the memory that contains them.

use crate::length;
use refrain_mpi::interface::{Direction, Function, Param};
use refrain_mpi::kind::Class;

/// The imports of the wrappers.
pub const PRELUDE: &str = r"use crate::inside::entry::Entry;
use crate::inside::memory::{self, Handles, Ints, Longs, Statuses, Words};
use crate::inside::redaction;
use crate::table;
use crate::trace::call::StatusRoom;
use crate::trace::{filter, members, milestones, objects};
use std::ffi::{c_char, c_int, c_void};
use std::mem::transmute;

type Handle = usize;
type Address = *mut c_void;
type Chars = *const c_char;
type Strings = *const Chars;
type Strings2 = *const Strings;

/// The limit of a string that ends at its NUL.
const UNLIMITED: usize = usize::MAX - 1;
";

/// The wrapper of a function.
pub fn wrapper(f: &Function) -> String {
    let parameters = join(f, |p| format!("{}: {}", p.name, rust_type(p)));
    let types = join(f, |p| rust_type(p).to_owned());
    let arguments = join(f, |p| p.name.to_owned());
    let passed = join(f, |p| match p.name {
        name if keeps(f, p) => format!("{name}_used"),
        name if new_comm(f) == Some(name) && !is_later(f) => "new_comm.destination()".to_owned(),
        name => name.to_owned(),
    });
    let result = if f.returns_error() { "c_int" } else { "i64" };
    let leave = if f.returns_error() { "leave" } else { "leave_value" };
    let mut lines = vec![
        format!("pub unsafe extern \"C-unwind\" fn {}({parameters}) -> {result} {{", f.name),
        format!("    let entry = Entry::new(table::{});", f.name),
        format!(
            "    let next: unsafe extern \"C-unwind\" fn({types}) -> {result} = transmute(entry.next());"
        ),
        format!("    let Some(mut call) = entry.begin() else {{ return next({arguments}) }};"),
    ];
    if f.name == "MPI_Info_set" {
        // It may switch recording on or off, whether or not it is recorded itself.
        lines.insert(
            3,
            "    let switch = filter::InfoSwitch::by(key, value); switch.before();".into(),
        );
        lines[4] = lines[4].replace("else {", "else { switch.after();");
    }
    // All ranks take part in these collective actions, whether or not they have a log.
    let forwarded = format!("return next({arguments})");
    lines[3] = match f.name.as_str() {
        "MPI_Init" | "MPI_Init_thread" => lines[3].replace(
            &forwarded,
            &format!(
                "let returned = next({arguments}); milestones::compare_clocks(returned); return returned"
            ),
        ),
        "MPI_Finalize" => {
            lines[3].replace(&forwarded, &format!("milestones::finalizing(); {forwarded}"))
        }
        _ => lines[3].clone(),
    };
    for capacity in length::capacities(f) {
        lines.push(format!("    let {0}_before = memory::count_at({0});", capacity.name));
    }
    lines.push(format!("    {}{}{};", announced(f, Direction::In), steps(f, input), enter(f)));
    lines.extend(before(f));
    lines.push(format!("    let returned = next({passed});"));
    lines.extend(after(f));
    lines.push(format!(
        "    call.{leave}(returned); {}{}call.done();",
        announced(f, Direction::Out),
        steps(f, output)
    ));
    lines.extend(finally(f));
    lines.push("    returned\n}\n".into());
    format!("\n{}", lines.join("\n"))
}

/// Completes the record of the inputs. Whether the program ignores the status is known then.
fn enter(f: &Function) -> String {
    let is_status = |p: &&Param| p.class == Class::Status && p.direction == Direction::Out;
    match f.params.iter().find(is_status) {
        Some(p) if p.length.is_some() => format!("call.enter_with_statuses({})", p.name),
        Some(p) => format!("call.enter_with_status({})", p.name),
        None => "call.enter()".to_owned(),
    }
}

fn join(f: &Function, text: impl Fn(&Param) -> String) -> String {
    f.params.iter().map(text).collect::<Vec<_>>().join(", ")
}

/// The steps that record values, in order. Consecutive scalars (`.int(tag)`) become one expression.
pub fn steps(f: &Function, step: impl Fn(&Function, &Param) -> Option<String>) -> String {
    let (mut text, mut in_row) = (String::new(), false);
    for step in f.params.iter().filter_map(|p| step(f, p)) {
        let is_scalar = step.starts_with('.');
        match (in_row, is_scalar) {
            (false, true) => text += "call.resume(call.cursor()",
            (true, false) => text += "); ",
            _ => {}
        }
        text += &step;
        text += if is_scalar { "" } else { "; " };
        in_row = is_scalar;
    }
    if in_row { text + "); " } else { text }
}

/// Announces the memory that contains the addresses of that direction, before anything else is
/// recorded.
pub fn announced(f: &Function, direction: Direction) -> String {
    let is_input = |p: &Param| p.class == Class::Memory || p.direction == Direction::In;
    let announced = f.params.iter().filter(|p| is_input(p) == (direction == Direction::In));
    announced.filter_map(|p| announce(p).map(|step| step + "; ")).collect()
}

/// The step that announces a parameter's memory. Handles of the tools interface are addresses in
/// MPI's own memory, and are not announced.
fn announce(p: &Param) -> Option<String> {
    let what = match (p.class, p.kind.name) {
        (Class::Memory, _) | (_, "C_BUFFER" | "LOCATION_SMALL") => "buffer",
        (_, "ATTRIBUTE_VAL" | "EXTRA_STATE" | "FUNCTION" | "POLYFUNCTION") => "pointer",
        _ => return None,
    };
    let by_value = p.class == Class::Memory || p.direction == Direction::In;
    let step = format!("call.{what}{}({})", if by_value { "" } else { "_at" }, p.name);
    Some(if by_value { step } else { if_set(p, step) })
}

/// The Rust type of what C passes.
fn rust_type(p: &Param) -> &'static str {
    let by_address = p.direction != Direction::In || p.length.is_some();
    match (p.class, by_address) {
        (Class::Memory, _) | (Class::Address, false) => "Address",
        (Class::Int, false) => "c_int",
        (Class::Int, true) => "Ints",
        (Class::Aint | Class::Count | Class::Offset, false) => "i64",
        (Class::Aint | Class::Count | Class::Offset, true) => "Longs",
        (Class::Handle, false) => "Handle",
        (Class::Handle, true) => "Handles",
        (Class::Address, true) => "Words",
        (Class::Status, _) => "Statuses",
        (Class::Str, _) => "Chars",
        (Class::Strings, _) if p.direction == Direction::InOut => "Strings2",
        (Class::Strings, _) => "Strings",
        (Class::Strings2, _) => "Strings2",
        (Class::Double | Class::Varargs, _) => panic!("{}: no Rust type is known", p.name),
    }
}

fn is_file(p: &Param) -> bool {
    p.kind.reads_as == "file"
}

/// The step that records an input.
pub fn input(f: &Function, p: &Param) -> Option<String> {
    if p.direction == Direction::Out && p.class != Class::Memory {
        return None;
    }
    Some(match p.direction {
        Direction::InOut if p.class != Class::Memory => by_address(f, p),
        _ if p.length.is_some() || is_text(p) => by_address(f, p),
        _ => match p.class {
            Class::Int => format!(".int({})", p.name),
            Class::Aint | Class::Count | Class::Offset => format!(".long({})", p.name),
            Class::Handle if is_file(p) => format!(".file({})", p.name),
            Class::Handle => format!(".handle({})", p.name),
            Class::Status => format!("call.status({0}, {0})", p.name),
            _ => format!(".address({})", p.name),
        },
    })
}

fn is_text(p: &Param) -> bool {
    matches!(p.class, Class::Str | Class::Strings | Class::Strings2)
}

/// The step that records an output.
pub fn output(f: &Function, p: &Param) -> Option<String> {
    let is_output = p.direction != Direction::In && p.class != Class::Memory;
    // If MPI did not set an array, its length is not computed: the query might fail as well, and
    // call the program's error handler.
    let length = || format!("call.length(|| {})", length::expression(f, p));
    let length = if p.length.is_some() { length() } else { length::expression(f, p) };
    is_output.then(|| if_set(p, by_address_with(f, p, &length)))
}

/// A step, made conditional on the output that says whether the value is set.
pub fn if_set(p: &Param, step: String) -> String {
    match p.only_if {
        Some(flag) => format!("call.only_if({flag}); {step}; call.in_any_case()"),
        None => step,
    }
}

/// The step that records a value passed by address.
pub fn by_address(f: &Function, p: &Param) -> String {
    by_address_with(f, p, &length::expression(f, p))
}

/// The same with an expression for the number of elements.
fn by_address_with(f: &Function, p: &Param, n: &str) -> String {
    let name = p.name;
    let used = if keeps(f, p) { format!("{name}_used") } else { name.to_owned() };
    match (p.class, p.length.is_some()) {
        (Class::Int, true) => format!("call.ints({name}, {n})"),
        (Class::Int, false) => format!("call.int_at({name})"),
        (Class::Aint | Class::Count | Class::Offset, true) => format!("call.longs({name}, {n})"),
        (Class::Aint | Class::Count | Class::Offset, false) => format!("call.long_at({name})"),
        (Class::Handle, true) => format!("call.handles({name}, {n})"),
        (Class::Handle, false) if is_file(p) => format!("call.file_at({name})"),
        (Class::Handle, false) => format!("call.handle_at({name})"),
        (Class::Address, _) => format!("call.address_at({name})"),
        (Class::Status, true) => format!("call.statuses({name}, {used}, {n})"),
        (Class::Status, false) => format!("call.status({name}, {used})"),
        (Class::Str, _) if is_private(f, p) => {
            format!("call.string(redaction::string({name}), {n})")
        }
        (Class::Str, _) => format!("call.string({name}, {n})"),
        (Class::Strings, _) if p.direction == Direction::InOut => {
            format!("call.argv_at({name}, redaction::count({n}))")
        }
        (Class::Strings, _) if f.name == "MPI_Comm_spawn" => {
            format!("call.argv(redaction::argv({name}), {n})")
        }
        // All arrays of strings are command lines.
        (Class::Strings, _) => format!("call.strings({name}, redaction::count({n}))"),
        (Class::Strings2, _) => format!("call.argvs({name}, redaction::count({n}))"),
        (Class::Memory | Class::Double | Class::Varargs, _) => {
            panic!("{name}: cannot be passed by address")
        }
    }
}

/// The tag argument of a receive.
fn receive_tag(f: &Function) -> Option<&'static str> {
    f.param("source").filter(|p| p.direction == Direction::In && p.kind.reads_as == "rank")?;
    ["recvtag", "tag"].into_iter().find(|tag| f.param(tag).is_some())
}

/// Whether the status is needed to learn what a wildcard matched or whether a receive was cancelled, even
/// if the program ignores it.
fn keeps(f: &Function, p: &Param) -> bool {
    let completes =
        f.params.iter().any(|q| q.kind.name == "REQUEST" && q.direction != Direction::Out);
    p.class == Class::Status
        && p.direction == Direction::Out
        && (receive_tag(f).is_some() || completes)
}

/// Lines right before the call is forwarded.
fn before(f: &Function) -> Vec<String> {
    let mut lines = Vec::new();
    if let (Some(tag), Some(_)) = (receive_tag(f), f.param("request")) {
        lines.push(format!("    call.note_wildcard(source, {tag});"));
    }
    if f.name == "MPI_Cancel" {
        lines.push("    call.note_cancel();".into());
    }
    for p in f.params.iter().filter(|p| keeps(f, p)) {
        let wanted = match receive_tag(f) {
            Some(tag) => format!("call.is_wildcard(source, {tag})"),
            None => "call.may_decide()".into(),
        };
        let name = p.name;
        lines.push("    let wanted = ".to_owned() + &wanted + ";");
        // There must be room for the statuses of all requests: how many complete is not known yet.
        let requests = f.params.iter().find(|q| q.kind.name == "REQUEST" && q.length.is_some());
        lines.push(match requests.filter(|_| p.length.is_some()) {
            Some(requests) => format!(
                "    let {name}_used = call.keep_statuses({name}, {}, wanted);",
                length::expression(f, requests)
            ),
            None => format!(
                "    let mut room = StatusRoom::uninit();\n    \
                 let {name}_used = call.keep_status({name}, wanted, &mut room);"
            ),
        });
    }
    match new_comm(f) {
        Some(name) if is_later(f) => {
            lines.push(format!("    let before = members::handle_at({name});"));
        }
        Some(name) => {
            lines.push(format!("    let mut new_comm = members::NewComm::new({name});"));
        }
        None => {}
    }
    if f.name == "MPI_Abort" {
        lines.push("    milestones::aborting(errorcode);".into());
    }
    if f.name == "MPI_Finalize" {
        lines.push("    milestones::finalizing();".into());
    }
    lines
}

/// Whether `--redact` omits a string: a part of a command line, a path, a host, or a setting that
/// may contain any of these.
fn is_private(f: &Function, p: &Param) -> bool {
    match p.name {
        "filename" | "command" | "port_name" | "service_name" => true,
        "value" => f.name.starts_with("MPI_Info_"),
        "name" => f.name == "MPI_Get_processor_name",
        _ => false,
    }
}

/// The output that is a new communicator.
fn new_comm(f: &Function) -> Option<&'static str> {
    let is_new = |p: &&Param| p.kind.name == "COMMUNICATOR" && p.direction == Direction::Out;
    f.params.iter().find(is_new).map(|p| p.name)
}

/// Whether the communicator is created later, when a request completes.
fn is_later(f: &Function) -> bool {
    f.param("request").is_some()
}

/// The line after the call was recorded.
fn finally(f: &Function) -> Option<String> {
    if f.name == "MPI_Info_set" {
        return Some("    switch.after();".into());
    }
    let name = new_comm(f)?;
    Some(match is_later(f) {
        true => format!("    call.members_like({name}, before, comm, returned);"),
        false => "    call.members(&new_comm, returned);".into(),
    })
}

/// The line right after the call has returned.
fn after(f: &Function) -> Option<String> {
    match f.name.as_str() {
        "MPI_Init" | "MPI_Init_thread" => Some("    milestones::initialized(returned);".into()),
        "MPI_Finalize" => Some("    milestones::finalized(returned);".into()),
        _ if new_comm(f).is_some() && !is_later(f) => Some("    new_comm.hand_over();".into()),
        _ => None,
    }
}
