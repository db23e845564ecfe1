//! How launchers read one option: its name, and which words are its values.
//!
//! Launchers agree on little. `-np` is one option to `mpirun` and `-n` with the value `p` to
//! `srun`; `--map-by=core` is fine for PRRTE and unknown to ORTE; Hydra ignores case. A
//! [`Dialect`] is a table of names together with the [`Syntax`] in which they are written.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;

/// How many values an option takes, and where they stand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Values {
    /// A flag.
    None,
    /// One: `-n 4`, or in the same word: `--ntasks=4`, `-n4`.
    One,
    /// Two: `--mca key value`.
    Two,
    /// `NAME=VALUE` in one word or `NAME VALUE` in two, as Hydra's `-genv`.
    Assignment,
    /// At most one, in the same word: `--exclusive=user`.
    Attached,
}

/// The options of a launcher by what they take, as text: names without dashes, between spaces.
pub(crate) struct Table {
    /// Flags.
    pub none: &'static str,
    /// Options with one value.
    pub one: &'static str,
    /// Options with two values.
    pub two: &'static str,
    /// Options with an assignment in one word or two.
    pub assignment: &'static str,
    /// Options with an optional value in the same word.
    pub attached: &'static str,
    /// Of all these options, those that give the number of ranks,
    pub ranks: &'static str,
    /// the program's working directory,
    pub directory: &'static str,
    /// every program's working directory,
    pub every_directory: &'static str,
    /// variables for the ranks, in the first value,
    pub environment: &'static str,
    /// a directory to look for the program in,
    pub search: &'static str,
    /// and a file which lists the programs.
    pub program_file: &'static str,
}

/// A table without options.
pub(crate) const NOTHING: Table = Table {
    none: "",
    one: "",
    two: "",
    assignment: "",
    attached: "",
    ranks: "",
    directory: "",
    every_directory: "",
    environment: "",
    search: "",
    program_file: "",
};

/// Whether a name is in a list of names.
pub(crate) fn has(names: &str, name: &str) -> bool {
    names.split_ascii_whitespace().any(|n| n == name)
}

impl Table {
    fn columns(&self) -> [(Values, &'static str); 5] {
        [
            (Values::None, self.none),
            (Values::One, self.one),
            (Values::Two, self.two),
            (Values::Assignment, self.assignment),
            (Values::Attached, self.attached),
        ]
    }

    /// Every option with its values.
    pub fn entries(&self) -> impl Iterator<Item = (&'static str, Values)> {
        self.columns()
            .into_iter()
            .flat_map(|(values, names)| names.split_ascii_whitespace().map(move |n| (n, values)))
    }

    fn find(&self, name: &str) -> Option<(&'static str, Values)> {
        self.entries().find(|(n, _)| *n == name)
    }

    /// The one long option that begins with `start`, as `getopt_long` completes it.
    fn complete(&self, start: &str) -> Option<(&'static str, Values)> {
        let mut found = self.entries().filter(|(n, _)| n.starts_with(start));
        found.next().filter(|_| found.next().is_none())
    }
}

/// How options are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Syntax {
    /// Any number of dashes, any case, `=` before the first value.
    Hydra,
    /// One or two dashes; no `=`; one-letter flags in one word.
    Orte,
    /// One or two dashes before a long name, which may be shortened; `=` before the value.
    Prrte,
    /// Two dashes before a long name, which may be shortened; one before letters, the last of
    /// which may have its value in the same word.
    Getopt,
}

/// An option found in a dialect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Found {
    /// Its full name.
    pub name: &'static str,
    /// Its values.
    pub values: Values,
    /// A value in the same word.
    pub attached: Option<OsString>,
}

impl Found {
    /// The values, of which those not in the option's own word are the first of `rest`; `None` if
    /// there are too few words.
    pub fn take(&self, rest: &[OsString]) -> Option<Vec<OsString>> {
        let mut values: Vec<OsString> = self.attached.iter().cloned().collect();
        let mut rest = rest.iter().cloned();
        let wanted = match self.values {
            Values::None | Values::Attached => values.len(),
            Values::One => 1,
            Values::Two => 2,
            Values::Assignment => {
                if values.is_empty() {
                    values.push(rest.next()?);
                }
                if values[0].as_bytes().contains(&b'=') { 1 } else { 2 }
            }
        };
        while values.len() < wanted {
            values.push(rest.next()?);
        }
        Some(values)
    }

    /// How many of `values` are words of their own.
    pub fn words(&self, values: &[OsString]) -> usize {
        values.len() - usize::from(self.attached.is_some())
    }
}

/// A table and how its options are written.
pub(crate) struct Dialect {
    /// The options.
    pub table: &'static Table,
    /// How they are written.
    pub syntax: Syntax,
}

impl Dialect {
    /// Reads a word that begins with `-`; `None` if it is not an option of this dialect.
    pub fn read(&self, word: &OsStr) -> Option<Found> {
        let bytes = word.as_bytes();
        let dashes = bytes.iter().take_while(|b| **b == b'-').count();
        let bare = &bytes[dashes..];
        match (self.syntax, dashes) {
            (_, 0) => None,
            (Syntax::Hydra, _) => self.long(&fold_name(bare), false),
            (Syntax::Orte, 1) => self.exact(bare).or_else(|| self.letters(bare, false)),
            (Syntax::Orte, 2) => self.exact(bare),
            (Syntax::Prrte, 1) if bare.len() > 1 => {
                self.long(bare, true).or_else(|| self.letters(bare, true))
            }
            (Syntax::Prrte | Syntax::Getopt, 1) => self.letters(bare, true),
            (Syntax::Prrte | Syntax::Getopt, 2) => self.long(bare, true),
            _ => None,
        }
    }

    fn exact(&self, name: &[u8]) -> Option<Found> {
        let (name, values) = self.table.find(std::str::from_utf8(name).ok()?)?;
        Some(Found { name, values, attached: None })
    }

    /// A long name, perhaps with `=` and a value. A flag takes none.
    fn long(&self, bare: &[u8], shortened: bool) -> Option<Found> {
        let (name, attached) = match bare.iter().position(|b| *b == b'=') {
            Some(at) => (&bare[..at], Some(OsStr::from_bytes(&bare[at + 1..]).to_owned())),
            None => (bare, None),
        };
        let name = std::str::from_utf8(name).ok().filter(|n| !n.is_empty())?;
        let table = self.table;
        let (name, values) =
            table.find(name).or_else(|| table.complete(name).filter(|_| shortened))?;
        (attached.is_none() || values != Values::None).then_some(Found { name, values, attached })
    }

    /// One-letter options in one word. All but the last are flags; what follows an option with a
    /// value is that value, if the syntax allows it.
    fn letters(&self, letters: &[u8], attach: bool) -> Option<Found> {
        for (at, letter) in letters.iter().enumerate() {
            let found = self.exact(std::slice::from_ref(letter))?;
            let rest = &letters[at + 1..];
            if rest.is_empty() {
                return Some(found);
            }
            if found.values != Values::None {
                let attached = Some(OsStr::from_bytes(rest).to_owned());
                return attach.then_some(Found { attached, ..found });
            }
        }
        None
    }
}

/// Lower-cases an option's name, but not a value after `=`.
fn fold_name(bare: &[u8]) -> Vec<u8> {
    let end = bare.iter().position(|b| *b == b'=').unwrap_or(bare.len());
    let mut folded = bare.to_vec();
    folded[..end].make_ascii_lowercase();
    folded
}
