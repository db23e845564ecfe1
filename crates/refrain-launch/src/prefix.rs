//! Commands that may precede a launcher: `env A=B mpirun …`, `nice -n 5 srun …`.
//!
//! They are skipped only if a launcher follows. Otherwise they are part of a bare command, and the
//! wrapper goes before everything.

use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;

use crate::options::{Dialect, Found, NOTHING, Syntax, Table, has};
use crate::recognise::{self, Named, file_name};

/// A prefix command.
struct Prefix {
    name: &'static str,
    /// Its options.
    dialect: Dialect,
    /// How many words are between its options and the command.
    operands: usize,
}

/// From the manual pages of coreutils, util-linux, GNU time and numactl.
const PREFIXES: &[Prefix] = &[
    prefix("env", &ENV, 0),
    prefix("nice", &NICE, 0),
    prefix("nohup", &NOTHING, 0),
    prefix("numactl", &NUMACTL, 0),
    prefix("setsid", &SETSID, 0),
    prefix("stdbuf", &STDBUF, 0),
    prefix("taskset", &TASKSET, 1),
    prefix("time", &TIME, 0),
    prefix("timeout", &TIMEOUT, 1),
];

const ENV: Table = Table {
    none: "i ignore-environment v debug list-signal-handling",
    one: "u unset C chdir a argv0",
    attached: "block-signal default-signal ignore-signal",
    directory: "C chdir",
    ..NOTHING
};

const NICE: Table = Table { one: "n adjustment", ..NOTHING };

const NUMACTL: Table = Table {
    none: "a all l localalloc b balancing",
    one: "i interleave w weighted-interleave p preferred P preferred-many m membind
        N cpunodebind C physcpubind cpubind",
    ..NOTHING
};

const SETSID: Table = Table { none: "c ctty f fork w wait", ..NOTHING };

const STDBUF: Table = Table { one: "i input o output e error", ..NOTHING };

const TASKSET: Table = Table { none: "a all-tasks c cpu-list", ..NOTHING };

const TIME: Table =
    Table { none: "p portability v verbose a append q quiet", one: "o output f format", ..NOTHING };

const TIMEOUT: Table =
    Table { none: "preserve-status foreground v verbose", one: "k kill-after s signal", ..NOTHING };

const fn prefix(name: &'static str, table: &'static Table, operands: usize) -> Prefix {
    Prefix { name, dialect: Dialect { table, syntax: Syntax::Getopt }, operands }
}

/// A launcher and the prefix commands before it.
pub(crate) struct Prefixed {
    /// The launcher, as far as its name tells.
    pub launcher: Named,
    /// Index of the launcher's name.
    pub position: usize,
    /// Index of the first word after the launcher's name.
    pub options: usize,
    /// The words of every `env` in front of it.
    pub env_words: Vec<OsString>,
    /// The directory that an `env` changes to.
    pub directory: Option<OsString>,
}

/// Skips prefix commands up to a launcher; `None` if there is no launcher.
pub(crate) fn skip(words: &[OsString]) -> Option<Prefixed> {
    let mut position = 0;
    let mut env_words = Vec::new();
    let mut directory = None;
    loop {
        let rest = words.get(position..).filter(|rest| !rest.is_empty())?;
        if let Some((launcher, length)) = recognise::launcher(rest) {
            return Some(Prefixed {
                launcher,
                position,
                options: position + length,
                env_words,
                directory,
            });
        }
        let name = file_name(&rest[0]);
        let prefix = PREFIXES.iter().find(|p| p.name == name)?;
        let length = prefix.length(rest, &mut directory)?;
        if name == "env" {
            env_words.extend_from_slice(&rest[..length]);
        }
        position += length;
    }
}

impl Prefix {
    /// The number of words up to the command that this prefix runs; `None` if an option is
    /// unknown. Notes the directory that it changes to.
    fn length(&self, words: &[OsString], directory: &mut Option<OsString>) -> Option<usize> {
        let mut at = 1;
        while let Some(word) = words.get(at).filter(|w| w.as_bytes().starts_with(b"-")) {
            at += 1;
            if word == "--" {
                break;
            }
            let Some(found) = self.read(word) else {
                continue;
            };
            let found = found?;
            let values = found.take(&words[at..])?;
            at += found.words(&values);
            if has(self.dialect.table.directory, found.name) {
                *directory = values.into_iter().next();
            }
        }
        if self.name == "env" {
            let assignments = words.get(at..)?.iter();
            at += assignments.take_while(|w| w.as_bytes().contains(&b'=')).count();
        }
        Some(at + self.operands)
    }

    /// Reads an option; nothing for `nice -5` and `env -`, which have a syntax of their own.
    fn read(&self, word: &OsString) -> Option<Option<Found>> {
        let special = match self.name {
            "nice" => word.as_bytes()[1..].iter().all(u8::is_ascii_digit) && word.len() > 1,
            "env" => word == "-",
            _ => false,
        };
        (!special).then(|| self.dialect.read(word))
    }
}
