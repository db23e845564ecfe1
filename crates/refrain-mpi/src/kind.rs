//! Kinds of parameters: what C passes for them and how their values read.
//!
//! The kinds are in `kinds.txt`, under their names in the MPI standard.

use std::sync::OnceLock;

/// What C passes for a kind. It determines how wrappers pass a value and how logs store it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Class {
    /// `int` (and C enumerations).
    Int,
    /// `MPI_Aint`, 64 bits.
    Aint,
    /// `MPI_Count`, 64 bits.
    Count,
    /// `MPI_Offset`, 64 bits.
    Offset,
    /// An opaque MPI object: 4 or 8 bytes, as the ABI says.
    Handle,
    /// `MPI_Status`, always by address.
    Status,
    /// `char *`.
    Str,
    /// `char **`.
    Strings,
    /// `char ***`.
    Strings2,
    /// An address through which MPI reads or writes; Refrain never follows it.
    Memory,
    /// A pointer-sized value: a function, extra state, an attribute, a tool handle.
    Address,
    /// `double`, as a result only.
    Double,
    /// C's `...`.
    Varargs,
}

impl Class {
    const NAMES: [(Class, &'static str); 13] = [
        (Class::Int, "int"),
        (Class::Aint, "aint"),
        (Class::Count, "count"),
        (Class::Offset, "offset"),
        (Class::Handle, "handle"),
        (Class::Status, "status"),
        (Class::Str, "string"),
        (Class::Strings, "strings"),
        (Class::Strings2, "strings2"),
        (Class::Memory, "memory"),
        (Class::Address, "address"),
        (Class::Double, "double"),
        (Class::Varargs, "varargs"),
    ];

    /// The name used in the tables and in files.
    pub fn name(self) -> &'static str {
        Self::NAMES.iter().find(|(c, _)| *c == self).map_or("int", |(_, n)| n)
    }

    /// The class of that name.
    pub fn named(name: &str) -> Option<Class> {
        Self::NAMES.iter().find(|(_, n)| *n == name).map(|(c, _)| *c)
    }
}

/// One kind of parameter or result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kind {
    /// The MPI standard's name for it, e.g. `RANK`.
    pub name: &'static str,
    /// What C passes.
    pub class: Class,
    /// What C passes in the `_c` variant, where that differs.
    pub large: Option<Class>,
    /// The group of named constants, or the kind of handle, a value may stand for.
    pub reads_as: &'static str,
}

/// All kinds, in the order of `kinds.txt`.
#[expect(
    clippy::panic,
    reason = "the table is part of the build, and tests parse every line of it"
)]
pub fn kinds() -> &'static [Kind] {
    static KINDS: OnceLock<Vec<Kind>> = OnceLock::new();
    KINDS.get_or_init(|| {
        rows(include_str!("kinds.txt"))
            .map(|row| {
                let words: Vec<_> = row.split_whitespace().collect();
                let [name, class, large, reads_as] = words[..] else {
                    panic!("kinds.txt: `{row}` has not four columns")
                };
                let class_of = |word| {
                    Class::named(word).unwrap_or_else(|| panic!("kinds.txt: no class `{word}`"))
                };
                let large = (large != "-").then(|| class_of(large));
                Kind { name, class: class_of(class), large, reads_as }
            })
            .collect()
    })
}

/// The kind of that name.
pub fn kind(name: &str) -> Option<&'static Kind> {
    kinds().iter().find(|k| k.name == name)
}

/// The lines of a text table without comments and blank lines.
pub(crate) fn rows(table: &'static str) -> impl Iterator<Item = &'static str> {
    table
        .lines()
        .map(|line| line.split('#').next().unwrap_or("").trim_end())
        .filter(|line| !line.trim().is_empty())
}
