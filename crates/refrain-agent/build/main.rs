//! Generates the agent's wrappers from MPI's interface table.
//!
//! * `wrappers.rs`: one function per MPI function, see [`wrapper`]
//! * `exports.rs`: the names `MPI_X` and `PMPI_X` for each
//! * `table.rs`: names, definitions and numbers of all functions

mod length;
mod wrapper;

use refrain_format::define::FunctionDef;
use refrain_mpi::interface::{functions, is_wrapped};
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
}

/// Functions with wrappers of the usual form: all but the one with any number of arguments.
fn wrapped() -> impl Iterator<Item = (usize, &'static refrain_mpi::interface::Function)> {
    functions()
        .iter()
        .enumerate()
        .filter(|(_, f)| is_wrapped(&f.name) && f.params.iter().all(|p| p.class != Class::Varargs))
}

fn wrappers() -> String {
    let mut text = wrapper::PRELUDE.to_owned();
    for (_, function) in wrapped() {
        text.push_str(&wrapper::wrapper(function));
    }
    text
}

fn exports() -> String {
    let mut text = "use crate::{entry::export, wrappers};\n\n".to_owned();
    for (number, f) in wrapped() {
        let name = &f.name;
        // Writing to a String cannot fail.
        let _ = writeln!(text, "export!({name}, {}, wrappers::{name});", number * 2);
        let _ = writeln!(text, "export!(P{name}, {}, wrappers::{name});", number * 2 + 1);
    }
    text
}

fn table() -> String {
    let all = functions();
    let mut text =
        format!("/// How many functions there are.\npub const FUNCTIONS: usize = {};\n", all.len());
    let list = |of: &dyn Fn(&refrain_mpi::interface::Function) -> String| {
        all.iter().map(|f| format!("    {:?},\n", of(f))).collect::<String>()
    };
    let _ = write!(
        text,
        "/// Their names.\npub static NAMES: [&str; FUNCTIONS] = [\n{}];\n\
         /// Their forms, as a log holds them.\npub static DEFINITIONS: [&str; FUNCTIONS] = [\n{}];\n",
        list(&|f| f.name.clone()),
        list(&|f| FunctionDef::from(f).to_text()),
    );
    for (number, f) in all.iter().enumerate() {
        let name = &f.name;
        let _ = writeln!(
            text,
            "/// The number of `{name}`.\n#[allow(non_upper_case_globals, dead_code)]\npub const {name}: usize = {number};"
        );
    }
    text
}
