//! The functions of MPI's C interface, read from `interface.txt`.

use crate::kind::{Class, Kind, kind, rows};
use crate::length::Length;
use crate::semantics::{self, Semantics};
use std::collections::HashMap;
use std::sync::OnceLock;

/// The direction of a parameter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Direction {
    /// Input of the call.
    In,
    /// Output of the call.
    Out,
    /// Both.
    InOut,
}

impl Direction {
    /// The name used in the tables and in files.
    pub fn name(self) -> &'static str {
        match self {
            Direction::In => "in",
            Direction::Out => "out",
            Direction::InOut => "inout",
        }
    }

    /// The direction of that name.
    pub fn named(name: &str) -> Option<Direction> {
        match name {
            "in" => Some(Direction::In),
            "out" => Some(Direction::Out),
            "inout" => Some(Direction::InOut),
            _ => None,
        }
    }
}

/// One parameter of a function.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Param {
    /// Its name in the standard.
    pub name: &'static str,
    /// Input, output or both.
    pub direction: Direction,
    /// Its kind.
    pub kind: &'static Kind,
    /// What C passes: the kind's class, or its large class in a `_c` variant.
    pub class: Class,
    /// The length rule, if it is an array (or a string with a limit).
    pub length: Option<Length>,
    /// The logical output that must be true for this output to be set.
    pub only_if: Option<&'static str>,
}

/// One function: a procedure of the standard, or its `_c` variant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Function {
    /// Its name in C, e.g. `MPI_Send_c`.
    pub name: String,
    /// The kind of its result.
    pub result: &'static Kind,
    /// Its parameters in order.
    pub params: Vec<Param>,
    /// Whether it is no longer in the standard. Some libraries still export it.
    pub removed: bool,
    /// Whether it is a `_c` variant.
    pub large: bool,
    /// What it does; see its accessors in [`crate::semantics`].
    pub(crate) semantics: Semantics,
}

impl Function {
    /// Whether the result is an error code, as nearly everywhere.
    pub fn returns_error(&self) -> bool {
        self.result.name == "ERROR_CODE"
    }

    /// The parameter of that name.
    pub fn param(&self, name: &str) -> Option<&Param> {
        self.params.iter().find(|p| p.name == name)
    }
}

/// All functions, `_c` variants included, in the order of the table; the position is the
/// function's number within one build of Refrain.
pub fn functions() -> &'static [Function] {
    static FUNCTIONS: OnceLock<Vec<Function>> = OnceLock::new();
    FUNCTIONS.get_or_init(|| parse(include_str!("interface.txt")))
}

/// The function of that name.
pub fn function(name: &str) -> Option<&'static Function> {
    static BY_NAME: OnceLock<HashMap<&'static str, &'static Function>> = OnceLock::new();
    BY_NAME
        .get_or_init(|| functions().iter().map(|f| (f.name.as_str(), f)).collect())
        .get(name)
        .copied()
}

/// Functions that the agent does not wrap, with the reason.
pub fn unwrapped() -> impl Iterator<Item = (&'static str, &'static str)> {
    rows(include_str!("unwrapped.txt")).filter_map(|row| {
        let (name, reason) = row.split_once(char::is_whitespace)?;
        Some((name, reason.trim()))
    })
}

/// Whether the agent wraps that function.
pub fn is_wrapped(name: &str) -> bool {
    function(name).is_some() && !unwrapped().any(|(n, _)| n == name)
}

struct Block {
    name: &'static str,
    result: &'static Kind,
    removed: bool,
    /// The parameters, each with whether it is in the `_c` variant only.
    params: Vec<(Param, bool)>,
}

#[expect(
    clippy::panic,
    clippy::expect_used,
    reason = "the table is part of the build, and tests parse every line of it"
)]
fn parse(table: &'static str) -> Vec<Function> {
    let mut blocks: Vec<Block> = Vec::new();
    for row in rows(table) {
        if row.starts_with("MPI_") {
            blocks.push(parse_head(row));
        } else {
            let block = blocks.last_mut().expect("a parameter follows a function");
            block.params.push(parse_param(row).unwrap_or_else(|e| {
                panic!("interface.txt, {}: `{}`: {e}", block.name, row.trim())
            }));
        }
    }
    let semantics = semantics::table();
    let variants = |block: &Block| {
        let line = semantics.get(block.name);
        let line = line.unwrap_or_else(|| panic!("semantics.txt has no {}", block.name));
        block.variants(line)
    };
    blocks.iter().flat_map(variants).collect()
}

#[expect(
    clippy::panic,
    reason = "the table is part of the build, and tests parse every line of it"
)]
fn parse_head(row: &'static str) -> Block {
    let removed = row.ends_with("(removed)");
    let row = row.trim_end_matches("(removed)").trim_end();
    let (name, result) = row.split_once(" -> ").unwrap_or((row, "ERROR_CODE"));
    let result = kind(result).unwrap_or_else(|| panic!("interface.txt: no kind `{result}`"));
    Block { name, result, removed, params: Vec::new() }
}

fn parse_param(row: &'static str) -> Result<(Param, bool), String> {
    let (row, length) = match row.split_once('[') {
        Some((before, rest)) => {
            let (rule, after) = rest.split_once(']').ok_or("`[` is not closed")?;
            ((before, after), Some(Length::parse(rule)?))
        }
        None => ((row, ""), None),
    };
    let mut words = row.0.split_whitespace().chain(row.1.split_whitespace());
    let name = words.next().ok_or("no name")?;
    let direction = words.next().and_then(Direction::named).ok_or("no direction")?;
    let kind = words.next().and_then(kind).ok_or("no such kind")?;
    let (mut only_if, mut large_only) = (None, false);
    for word in words {
        match word.strip_prefix('?') {
            Some(flag) => only_if = Some(flag),
            None if word == "large" => large_only = true,
            None => return Err(format!("`{word}` means nothing here")),
        }
    }
    Ok((Param { name, direction, kind, class: kind.class, length, only_if }, large_only))
}

impl Block {
    /// The function itself and, where it has large counts, its `_c` variant.
    #[expect(
        clippy::panic,
        reason = "the table is part of the build, and tests parse every line of it"
    )]
    fn variants(&self, semantics: &semantics::Line) -> Vec<Function> {
        let has_large = self.params.iter().any(|(p, _)| p.kind.large.is_some());
        let variant = |large: bool| {
            let params = self.params.iter().filter(|(_, large_only)| large || !large_only);
            let params = params.map(|(p, _)| {
                let class = p.kind.large.filter(|_| large).unwrap_or(p.kind.class);
                Param { class, ..p.clone() }
            });
            let params: Vec<Param> = params.collect();
            let semantics = semantics.of(&params);
            Function {
                name: format!("{}{}", self.name, if large { "_c" } else { "" }),
                result: self.result,
                semantics: semantics
                    .unwrap_or_else(|e| panic!("semantics.txt, {}: {e}", self.name)),
                params,
                removed: self.removed,
                large,
            }
        };
        let mut all = vec![variant(false)];
        if has_large {
            all.push(variant(true));
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_holds_the_whole_standard_and_the_removed_functions() {
        let all = functions();
        let count = |f: &dyn Fn(&Function) -> bool| all.iter().filter(|x| f(x)).count();
        assert_eq!(count(&|f| !f.removed && !f.large), 531, "C procedures of MPI 5.0");
        assert_eq!(count(&|f| !f.removed), 690, "prototypes with the _c variants");
        assert_eq!(count(&|f| f.removed), 11, "removed, still exported somewhere");
    }

    #[test]
    fn length_rules_and_conditions_name_parameters_that_exist() {
        for f in functions() {
            for p in &f.params {
                for name in p.length.iter().flat_map(Length::parameters) {
                    assert!(f.param(name).is_some(), "{}: {} needs {name}", f.name, p.name);
                }
                if let Some(flag) = p.only_if {
                    let flag = f.param(flag).expect(flag);
                    assert_eq!(flag.direction, Direction::Out, "{}", f.name);
                }
            }
        }
    }

    #[test]
    fn a_large_variant_differs_in_its_counts_only() {
        let small = function("MPI_Send").unwrap();
        let large = function("MPI_Send_c").unwrap();
        assert_eq!(small.param("count").unwrap().class, Class::Int);
        assert_eq!(large.param("count").unwrap().class, Class::Count);
        assert_eq!(small.params.len(), large.params.len());
        assert!(function("MPI_Barrier_c").is_none());
    }

    #[test]
    fn names_are_unique() {
        let mut names: Vec<_> = functions().iter().map(|f| &f.name).collect();
        names.sort();
        names.dedup();
        assert_eq!(names.len(), functions().len());
    }
}
