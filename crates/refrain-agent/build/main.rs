//! Generates the agent's wrappers from MPI's interface table.
//!
//! * `wrappers.rs`: one function per MPI function, see [`wrapper`]; one per Fortran procedure that
//!   some MPI implements without calling C, see [`fortran`]
//! * `exports.rs`: the exported names `MPI_X` and `PMPI_X` of each function, and those of Fortran
//! * `hooks.rs`: hooks between wrappers and MPI that record or replay receive orders, see [`roles`]
//! * `table.rs`: definitions of all functions; their numbers and names are those of `refrain-mpilib`

mod fortran;
mod length;
mod roles;
mod wrapper;

use refrain_format::define::FunctionDef;
use refrain_mpi::interface::{Function, Param, functions, is_wrapped};
use refrain_mpi::kind::Class;
use std::fmt::Write;
use std::path::Path;

fn main() {
    println!("cargo::rerun-if-changed=build");
    let out = std::env::var("OUT_DIR").expect("cargo sets OUT_DIR");
    let write = |name: &str, text: &str| {
        std::fs::write(Path::new(&out).join(name), text).expect("OUT_DIR is writable");
    };
    write("wrappers.rs", &wrappers());
    write("exports.rs", &exports());
    write("table.rs", &table());
    write("hooks.rs", &roles::hooks());
}

/// Functions with a generated wrapper: all but the one with a variable number of arguments.
fn wrapped() -> impl Iterator<Item = &'static Function> {
    functions()
        .iter()
        .filter(|f| is_wrapped(&f.name) && f.params.iter().all(|p| p.class != Class::Varargs))
}

/// Fortran procedures that need wrappers of their own, with their symbols.
fn procedures() -> impl Iterator<Item = (&'static Function, Vec<String>)> {
    refrain_mpi::fortran::procedures().map(|procedure| {
        let f = refrain_mpi::interface::function(procedure.function);
        (f.unwrap_or_else(|| panic!("no {}", procedure.function)), procedure.symbols())
    })
}

fn wrappers() -> String {
    let mut text = wrapper::PRELUDE.to_owned() + fortran::PRELUDE;
    for function in wrapped() {
        text.push_str(&wrapper::wrapper(function));
    }
    let mut first = 0;
    for (function, symbols) in procedures() {
        text.push_str(&fortran::wrapper(function, first..first + symbols.len()));
        first += symbols.len();
    }
    text
}

fn exports() -> String {
    let mut text = "use crate::inside::entry::export;\nuse crate::wrappers;\n\n".to_owned();
    for f in wrapped() {
        let name = &f.name;
        // Writing to a String cannot fail.
        let _ = writeln!(text, "export!({name}, 0, wrappers::{name});");
        let _ = writeln!(text, "export!(P{name}, 1, wrappers::{name});");
    }
    for (f, symbols) in procedures() {
        for (i, symbol) in symbols.iter().enumerate() {
            let _ = writeln!(text, "export!({symbol}, {i}, wrappers::{});", fortran::name(f));
        }
    }
    text
}

fn table() -> String {
    let all = functions();
    let definitions: String =
        all.iter().map(|f| format!("    {:?},\n", FunctionDef::from(f).to_text())).collect();
    let mut text = format!(
        "/// The definitions of functions, as logs contain them.\npub static DEFINITIONS: [&str; FUNCTIONS] = [\n{definitions}];\n"
    );
    let symbols: Vec<String> = procedures().flat_map(|(_, symbols)| symbols).collect();
    let _ = writeln!(
        text,
        "/// Symbols of Fortran procedures that have wrappers of their own.\n\
         pub static FORTRAN: [&str; {}] = {symbols:?};\n\
         /// Whether Fortran passes an argument in a different form than C: a buffer or a string.\n\
         pub static CONVERTED: [bool; FUNCTIONS] = {:?};",
        symbols.len(),
        all.iter().map(is_converted).collect::<Vec<_>>(),
    );
    text
}

fn is_converted(f: &Function) -> bool {
    let is = |p: &Param| {
        matches!(p.class, Class::Memory | Class::Str | Class::Strings | Class::Strings2)
    };
    f.params.iter().any(is)
}
