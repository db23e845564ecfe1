//! The interface table against the MPIs themselves: what their libraries export and what
//! their `mpi.h` declares.

use refrain_mpi::interface::{Direction, Function, Param, function, is_wrapped, unwrapped};
use refrain_mpi::kind::Class;
use refrain_testing::{Mpi, exported_functions, is_procedure};
use std::collections::BTreeSet;

#[test]
fn every_function_an_mpi_exports_is_wrapped_or_left_out_for_a_reason() {
    let left_out: BTreeSet<_> = unwrapped().map(|(name, _)| name).collect();
    for mpi in Mpi::installed() {
        let exports = exported_functions(&mpi);
        assert!(exports.len() > 300, "{}: only {} exports", mpi.name(), exports.len());
        let unknown: Vec<_> = exports
            .iter()
            .filter(|name| !is_wrapped(name) && !left_out.contains(name.as_str()))
            .collect();
        assert!(unknown.is_empty(), "{}: neither wrapped nor left out: {unknown:?}", mpi.name());
        println!("{}: {} functions exported, all accounted for", mpi.name(), exports.len());
    }
}

#[test]
fn what_is_left_out_exists_and_says_why() {
    for (name, reason) in unwrapped() {
        assert!(function(name).is_some(), "{name} is no MPI function");
        assert!(reason.len() > 10, "{name}: no reason");
    }
}

/// A C type without names, qualifiers and attributes; arrays are pointers.
fn normalised(declaration: &str) -> String {
    let mut text = declaration.replace("const ", " ").replace("restrict", " ");
    // Rows of three, in memory, are an array like any other.
    text = text.replace("][3]", "]");
    let mut stars = text.matches('*').count();
    while let (Some(open), Some(close)) = (text.find('['), text.find(']')) {
        text.replace_range(open..=close, " ");
        stars += 1;
    }
    let text = text.replace('*', " ");
    let words: Vec<_> = text.split_whitespace().collect();
    // `long long x`, `struct MPI_X x`, `int`: the name is the last of several words.
    let words = match words.as_slice() {
        ["int" | "void" | "..." | "char" | "double"] => words,
        [_] => words,
        [all @ .., _] if !all.is_empty() => all.to_vec(),
        _ => words,
    };
    format!("{}{}", words.join(" "), "*".repeat(stars))
}

/// Declarations of `MPI_` functions in `mpi.h`: name, result, parameters.
fn prototypes(mpi: &Mpi) -> Vec<(String, Vec<String>)> {
    let mut command = mpi.command("mpicc");
    let output = command.args(["-E", "-P", "-x", "c", "-include", "mpi.h", "/dev/null"]).output();
    let text = String::from_utf8_lossy(&output.expect("mpicc runs").stdout).into_owned();
    let mut found = Vec::new();
    for statement in strip_attributes(&text).split(';') {
        let Some((head, rest)) = statement.split_once('(') else { continue };
        let Some(name) = head.split_whitespace().next_back() else { continue };
        let name = name.trim_start_matches('*');
        if !name.starts_with("MPI_") || !is_procedure(name) || head.contains("typedef") {
            continue;
        }
        let inside = rest.rsplit_once(')').map_or(rest, |(inside, _)| inside);
        let parameters = match inside.trim() {
            "" | "void" => Vec::new(),
            inside => inside.split(',').map(normalised).collect(),
        };
        found.push((name.to_owned(), parameters));
    }
    found
}

fn strip_attributes(text: &str) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some(at) = rest.find("__attribute__") {
        out.push_str(&rest[..at]);
        let mut depth = 0;
        let end = rest[at..].char_indices().find_map(|(i, c)| {
            depth += i32::from(c == '(') - i32::from(c == ')');
            (c == ')' && depth == 0).then_some(at + i + 1)
        });
        rest = &rest[end.unwrap_or(rest.len())..];
    }
    out + rest
}

/// Whether a C type is what the table says of a parameter.
fn fits(p: &Param, c: &str) -> bool {
    let by_address = p.direction != Direction::In || p.length.is_some();
    let pointer = if by_address { "*" } else { "" };
    let is = |base: &str| c == format!("{base}{pointer}");
    match p.class {
        // Enumerations of the tool interface are ints to the calling convention.
        Class::Int => {
            is("int") || is("MPI_Fint") || is("MPI_T_cb_safety") || is("MPI_T_source_order")
        }
        Class::Aint => is("MPI_Aint"),
        Class::Count => is("MPI_Count"),
        Class::Offset => is("MPI_Offset"),
        Class::Handle => {
            let name = match p.kind.reads_as {
                "datatype" => "Datatype",
                "comm" => "Comm",
                "group" => "Group",
                "op" => "Op",
                "request" => "Request",
                "errhandler" => "Errhandler",
                "info" => "Info",
                "win" => "Win",
                "file" => "File",
                "message" => "Message",
                "session" => "Session",
                other => panic!("no handle is called {other}"),
            };
            is(&format!("MPI_{name}"))
        }
        Class::Status => c == "MPI_Status*",
        Class::Str => c == "char*",
        Class::Strings => c == if p.direction == Direction::InOut { "char***" } else { "char**" },
        Class::Strings2 => c == "char***",
        // MPI_Aint_add takes addresses as numbers.
        Class::Memory => c.ends_with('*') || c == "MPI_Aint",
        // Pointers to functions and tool handles hide behind type names of their own.
        Class::Address if !by_address => c.ends_with('*') || c.starts_with("MPI_"),
        Class::Address => c == "void*" || (c.starts_with("MPI_T_") && c.ends_with('*')),
        Class::Double => false,
        Class::Varargs => c == "...",
    }
}

fn difference(f: &Function, c: &[String]) -> Option<String> {
    if f.params.len() != c.len() {
        return Some(format!("{} parameters, mpi.h has {}: {c:?}", f.params.len(), c.len()));
    }
    let (p, c) = f.params.iter().zip(c).find(|(p, c)| !fits(p, c))?;
    Some(format!("{} is {:?} {:?}, mpi.h has `{c}`", p.name, p.direction, p.class))
}

#[test]
fn every_prototype_in_mpi_h_is_as_the_table_has_it() {
    for mpi in Mpi::installed() {
        let prototypes = prototypes(&mpi);
        assert!(prototypes.len() > 300, "{}: {} prototypes", mpi.name(), prototypes.len());
        let mut wrong = Vec::new();
        for (name, parameters) in &prototypes {
            match function(name) {
                None => wrong.push(format!("{name}: not in the table")),
                Some(_) if !is_wrapped(name) => {}
                Some(f) => wrong.extend(difference(f, parameters).map(|d| format!("{name}: {d}"))),
            }
        }
        wrong.sort();
        wrong.dedup();
        assert!(wrong.is_empty(), "{}:\n{}", mpi.name(), wrong.join("\n"));
        println!("{}: {} prototypes agree", mpi.name(), prototypes.len());
    }
}
