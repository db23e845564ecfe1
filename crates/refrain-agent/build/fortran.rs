//! Generates a Fortran wrapper, for a procedure that some Fortran bindings implement without calling
//! C.
//!
//! Fortran passes every argument by address, handles as integers, and the lengths of strings after
//! all arguments. The wrapper forwards the arguments as they are, and records the values that C
//! would have been given: it binds each argument's name to its value in C, and then records it as
//! the C wrapper does.
//!
//! ```text
//! pub unsafe extern "C-unwind" fn mpi_type_match_size(typeclass: Ints, size: Ints, datatype: Ints, ierror: Ints) {
//!     let (name, entry) = (entry::name(), Entry::new(table::MPI_Type_match_size));
//!     let next: unsafe extern "C-unwind" fn(Ints, Ints, Ints, Ints) = transmute(fortran::next(90..95, name));
//!     let Some(mut call) = fortran::begin(entry) else { return next(typeclass, size, datatype, ierror) };
//!     let mut code = 0; let ierror = fortran::or_local(ierror, &mut code);
//!     { let typeclass = fortran::int(typeclass); let size = fortran::int(size); call.resume(call.cursor().int(typeclass).int(size)); call.enter(); }
//!     let outer = call.forwarding();
//!     let returned = next(typeclass, size, datatype, ierror);
//!     call.forwarded(outer); call.leave(fortran::int(ierror));
//!     { let mut datatype_in_c = fortran::handle(table::MPI_Type_f2c, datatype); let datatype = (&raw mut datatype_in_c).cast(); call.handle_at(datatype); call.done(); }
//!     returned
//! }
//! ```

use crate::wrapper;
use refrain_mpi::interface::{Direction, Function, Param};
use refrain_mpi::kind::Class;
use std::ops::Range;

/// The imports of the wrappers, in addition to those in C.
pub const PRELUDE: &str = "use crate::inside::entry;\nuse crate::trace::fortran;\n";

/// The name of a procedure's wrapper.
pub fn name(f: &Function) -> String {
    f.name.to_ascii_lowercase()
}

/// The wrapper of a procedure whose symbols have these indices in the table.
pub fn wrapper(f: &Function, symbols: Range<usize>) -> String {
    let mut parameters: Vec<(String, &str)> =
        f.params.iter().map(|p| (p.name.to_owned(), rust_type(f, p))).collect();
    if f.returns_error() {
        parameters.push(("ierror".to_owned(), "Ints"));
    }
    for p in f.params.iter().filter(|p| p.class == Class::Str) {
        parameters.push((format!("{}_length", p.name), "usize"));
    }
    let join = |text: &dyn Fn(&(String, &str)) -> String| {
        parameters.iter().map(text).collect::<Vec<_>>().join(", ")
    };
    let declared = join(&|(name, of_type)| format!("{name}: {of_type}"));
    let types = join(&|(_, of_type)| (*of_type).to_owned());
    let arguments = join(&|(name, _)| name.clone());
    let (result, ierror, leave) = match f.returns_error() {
        true => (
            "",
            "    let mut code = 0; let ierror = fortran::or_local(ierror, &mut code);\n",
            "call.leave(fortran::int(ierror))",
        ),
        false => (" -> i64", "", "call.leave_value(returned)"),
    };
    format!(
        "
pub unsafe extern \"C-unwind\" fn {name}({declared}){result} {{
    let (name, entry) = (entry::name(), Entry::new(table::{function}));
    let next: unsafe extern \"C-unwind\" fn({types}){result} = transmute(fortran::next({symbols:?}, name));
    let Some(mut call) = fortran::begin(entry) else {{ return next({arguments}) }};
{ierror}    {{ {inputs}call.enter(); }}
    let outer = call.forwarding();
    let returned = next({arguments});
    call.forwarded(outer); {leave};
    {{ {outputs}call.done(); }}
    returned
}}
",
        name = name(f),
        function = f.name,
        inputs = bound(f, Direction::Out)
            + &wrapper::announced(f, Direction::In)
            + &wrapper::steps(f, input),
        outputs = bound(f, Direction::In)
            + &wrapper::announced(f, Direction::Out)
            + &wrapper::steps(f, output),
    )
}

fn input(f: &Function, p: &Param) -> Option<String> {
    match p.class {
        Class::Str => (p.direction == Direction::In).then(|| text(p)),
        _ => wrapper::input(f, p),
    }
}

fn output(f: &Function, p: &Param) -> Option<String> {
    match p.class {
        Class::Str => (p.direction == Direction::Out).then(|| wrapper::if_set(p, text(p))),
        _ => wrapper::output(f, p),
    }
}

fn text(p: &Param) -> String {
    format!("call.text({0}, {0}_length)", p.name)
}

/// Before `MPI_ADDRESS_KIND` existed, attributes and extra state were default integers.
fn is_short(f: &Function) -> bool {
    f.name.starts_with("MPI_Attr_") || f.name == "MPI_Keyval_create"
}

fn is_function(p: &Param) -> bool {
    matches!(p.kind.name, "FUNCTION" | "POLYFUNCTION")
}

/// The Rust type of what Fortran passes.
fn rust_type(f: &Function, p: &Param) -> &'static str {
    match p.class {
        Class::Int | Class::Handle => "Ints",
        Class::Str => "Chars",
        Class::Address if is_function(p) => "Address",
        Class::Address if is_short(f) => "Ints",
        Class::Address | Class::Memory | Class::Aint => "Longs",
        _ => panic!("{}: no Rust type is known for {} in Fortran", f.name, p.name),
    }
}

/// Binds the names of the arguments whose direction is not `other`.
fn bound(f: &Function, other: Direction) -> String {
    let arguments = f.params.iter().filter(|p| p.direction != other);
    arguments.filter_map(|p| in_c(f, p)).map(|binding| binding + "; ").collect()
}

/// Binds an argument's name to its value in C.
fn in_c(f: &Function, p: &Param) -> Option<String> {
    let name = p.name;
    let value = match p.class {
        Class::Str => return None,
        Class::Address if is_function(p) => return None,
        Class::Handle => format!("fortran::handle(table::MPI_{}_f2c, {name})", object(p)),
        Class::Int if p.kind.name == "LOGICAL" => format!("fortran::logical({name})"),
        Class::Int if p.kind.name == "KEYVAL" && p.direction == Direction::In => {
            format!("fortran::keyval({name})")
        }
        // C counts the closing NUL, which Fortran's strings do not have.
        Class::Int if name == "buflen" => format!("fortran::with_nul({name})"),
        Class::Int => format!("fortran::int({name})"),
        Class::Aint => format!("fortran::long({name})"),
        _ if is_short(f) => format!("fortran::short_address({name})"),
        _ => format!("fortran::address({name})"),
    };
    Some(match p.direction {
        Direction::In => format!("let {name} = {value}"),
        _ => format!("let mut {name}_in_c = {value}; let {name} = (&raw mut {name}_in_c).cast()"),
    })
}

/// The kind of object as it appears in the names of MPI's conversion functions.
fn object(p: &Param) -> &'static str {
    match p.kind.name {
        "COMMUNICATOR" => "Comm",
        "DATATYPE" => "Type",
        "ERRHANDLER" => "Errhandler",
        "INFO" => "Info",
        "OPERATION" => "Op",
        "REQUEST" => "Request",
        "WINDOW" => "Win",
        other => panic!("{other}: no conversion function is known"),
    }
}
