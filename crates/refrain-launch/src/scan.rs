//! Walks over a launcher's words and finds where each program begins.

use std::ffi::{OsStr, OsString};
use std::ops::Range;
use std::os::unix::ffi::OsStrExt;

use crate::options::{Dialect, Found, Table, Values, has};
use crate::prefix::{self, Prefixed};
use crate::recognise::{Flavour, Named, file_name};
use crate::tables::{FLUX, HYDRA, ORTE, PRRTE, SRUN};
use crate::{LaunchError, Launcher, Plan, Program};

/// How options are read if more than one dialect is possible.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Trust {
    /// The first is the launcher's own; the others complete it with options of other versions.
    First,
    /// Any of them may be the launcher's: all that know an option must agree.
    Agreed,
    /// Any of them may be the launcher's: all must know an option, and agree.
    Unanimous,
}

/// How to read a launcher's options.
struct Reader {
    launcher: Launcher,
    /// The launcher's name in messages.
    name: String,
    dialects: &'static [Dialect],
    trust: Trust,
}

/// Understands a command; see [`Plan::parse`].
pub(crate) fn parse(words: Vec<OsString>, flavour: Option<Flavour>) -> Result<Plan, LaunchError> {
    match prefix::skip(&words) {
        Some(prefixed) => {
            let name = file_name(&words[prefixed.position]).to_owned();
            let reader = reader(prefixed.launcher, name, flavour);
            reader.plan(words, prefixed)
        }
        None => bare(words),
    }
}

/// A command without a launcher: the program is its first word.
fn bare(words: Vec<OsString>) -> Result<Plan, LaunchError> {
    let marker = words.first().and_then(|word| (word == "--").then_some(0));
    let position = usize::from(marker.is_some());
    if words.len() <= position {
        return Err(LaunchError::Empty);
    }
    Ok(Plan {
        launcher: Launcher::Bare,
        words,
        programs: vec![Program { position, marker, ranks: Some(1), directory: None }],
        passes_preload: false,
        changes_path: false,
        start_directory: None,
    })
}

fn reader(named: Named, name: String, flavour: Option<Flavour>) -> Reader {
    let named = match (named, flavour) {
        (Named::Mpirun, Some(flavour)) => Named::Flavour(flavour),
        (Named::OpenMpi, Some(flavour)) if flavour != Flavour::Hydra => Named::Flavour(flavour),
        (named, _) => named,
    };
    use Trust::{Agreed, First, Unanimous};
    let (launcher, dialects, trust): (_, &'static [Dialect], _) = match named {
        Named::Flavour(Flavour::Hydra) => (Launcher::Hydra, &[HYDRA], First),
        Named::Flavour(Flavour::OpenMpi4) => (Launcher::OpenMpi, &[ORTE, PRRTE], First),
        Named::Flavour(Flavour::OpenMpi5) => (Launcher::OpenMpi, &[PRRTE, ORTE], First),
        Named::OpenMpi => (Launcher::OpenMpi, &[ORTE, PRRTE], Agreed),
        Named::Mpirun => (Launcher::Other, &[HYDRA, ORTE, PRRTE], Unanimous),
        Named::Srun => (Launcher::Slurm, &[SRUN], First),
        Named::FluxRun => (Launcher::Flux, &[FLUX], First),
        Named::Other => (Launcher::Other, &[], First),
    };
    Reader { launcher, name, dialects, trust }
}

/// What the options before a program specify.
#[derive(Default)]
struct Settings {
    marker: Option<usize>,
    ranks: Option<u32>,
    directory: Option<OsString>,
    every_directory: Option<OsString>,
    /// The option that gives a search path for the program.
    search: Option<String>,
    preload: bool,
    path: bool,
}

impl Settings {
    /// Notes an option by its first value.
    fn note(&mut self, word: &OsStr, name: &str, table: &Table, value: OsString) {
        if has(table.ranks, name) {
            self.ranks = value.to_str().and_then(|v| v.parse().ok());
        } else if has(table.directory, name) {
            self.directory = Some(value);
        } else if has(table.every_directory, name) {
            self.every_directory = Some(value);
        } else if has(table.search, name) {
            self.search = Some(word.display().to_string());
        } else if has(table.environment, name) {
            self.preload |= sets(&value, "LD_PRELOAD");
            self.path |= sets(&value, "PATH");
        }
    }
}

impl Reader {
    /// Finds the programs among the words.
    fn plan(&self, words: Vec<OsString>, prefixed: Prefixed) -> Result<Plan, LaunchError> {
        let mut programs = Vec::new();
        let mut passes_preload = prefixed.env_words.iter().any(|w| sets(w, "LD_PRELOAD"));
        let mut changes_path = prefixed.env_words.iter().any(|w| sets(w, "PATH"));
        let mut every_directory = None;
        for context in self.contexts(&words, prefixed.options) {
            let (settings, position) = match self.dialects {
                // It is unknown whether an unknown launcher separates programs by `:`. It may be an argument.
                [] if !programs.is_empty() && marker(&words, context.clone()).is_none() => continue,
                [] => self.marked(&words, context)?,
                _ => self.walk(&words, context)?,
            };
            passes_preload |= settings.preload;
            changes_path |= settings.path;
            every_directory = every_directory.or(settings.every_directory);
            programs.push(Program {
                position,
                marker: settings.marker,
                ranks: settings.ranks,
                directory: settings.directory,
            });
        }
        if programs.is_empty() {
            return Err(self.no_program());
        }
        for program in &mut programs {
            program.directory = program.directory.take().or(every_directory.clone());
        }
        Ok(Plan {
            launcher: self.launcher,
            words,
            programs,
            passes_preload,
            changes_path,
            start_directory: prefixed.directory,
        })
    }

    /// The words of each program with its options and arguments.
    fn contexts(&self, words: &[OsString], mut start: usize) -> Vec<Range<usize>> {
        let mut contexts = Vec::new();
        if self.launcher.separates_programs_by_colon() {
            for at in (start..words.len()).filter(|at| words[*at] == ":") {
                contexts.push(start..at);
                start = at + 1;
            }
        }
        contexts.push(start..words.len());
        contexts.retain(|context| !context.is_empty());
        contexts
    }

    /// Walks over the options of one context: their settings, and the index of the program.
    fn walk(
        &self,
        words: &[OsString],
        context: Range<usize>,
    ) -> Result<(Settings, usize), LaunchError> {
        let mut settings = Settings::default();
        let mut at = context.start;
        while at < context.end && words[at].as_bytes().starts_with(b"-") {
            let word = &words[at];
            let Some((found, dialect)) = self.read(word) else {
                if is_self_contained(word) {
                    at += 1;
                    continue;
                }
                // An unknown option, or the marker itself.
                let marker = marker(words, at..context.end);
                at = 1 + marker.ok_or_else(|| self.unknown_option(word))?;
                settings.marker = marker;
                break;
            };
            if has(dialect.table.program_file, found.name) {
                return Err(self.programs_in_file(word));
            }
            let values =
                found.take(&words[at + 1..context.end]).ok_or_else(|| self.missing_value(word))?;
            at += 1 + found.words(&values);
            if let Some(value) = values.into_iter().next() {
                settings.note(word, found.name, dialect.table, value);
            }
        }
        if at >= context.end {
            return Err(self.no_program());
        }
        match settings.search.filter(|_| !words[at].as_bytes().contains(&b'/')) {
            Some(option) => Err(LaunchError::SearchPath {
                launcher: self.name.clone(),
                option,
                program: words[at].display().to_string(),
            }),
            None => Ok((Settings { search: None, ..settings }, at)),
        }
    }

    /// The program after the marker, for launchers whose options we do not know.
    fn marked(
        &self,
        words: &[OsString],
        context: Range<usize>,
    ) -> Result<(Settings, usize), LaunchError> {
        let marker = marker(words, context.clone())
            .ok_or_else(|| LaunchError::UnknownLauncher { launcher: self.name.clone() })?;
        if marker + 1 == context.end {
            return Err(self.no_program());
        }
        let settings = Settings { marker: Some(marker), ..Settings::default() };
        Ok((settings, marker + 1))
    }

    /// Reads an option, in the dialect that knows it.
    fn read(&self, word: &OsStr) -> Option<(Found, &'static Dialect)> {
        let mut known = self.dialects.iter().filter_map(|d| Some((d.read(word)?, d)));
        let first = known.next()?;
        if self.trust == Trust::First {
            return Some(first);
        }
        let others: Vec<_> = known.collect();
        let same = |other: &Found| {
            words_of(other.values) == words_of(first.0.values) && other.attached == first.0.attached
        };
        let complete = self.trust == Trust::Agreed || others.len() + 1 == self.dialects.len();
        (complete && others.iter().all(|(found, _)| same(found))).then_some(first)
    }

    fn no_program(&self) -> LaunchError {
        LaunchError::NoProgram { launcher: self.name.clone() }
    }

    fn unknown_option(&self, word: &OsStr) -> LaunchError {
        LaunchError::UnknownOption {
            launcher: self.name.clone(),
            option: word.display().to_string(),
        }
    }

    fn missing_value(&self, word: &OsStr) -> LaunchError {
        LaunchError::MissingValue {
            launcher: self.name.clone(),
            option: word.display().to_string(),
        }
    }

    fn programs_in_file(&self, word: &OsStr) -> LaunchError {
        LaunchError::ProgramsInFile {
            launcher: self.name.clone(),
            option: word.display().to_string(),
        }
    }
}

/// An optional value is part of the same word. For the following words it is like no value.
fn words_of(values: Values) -> Values {
    match values {
        Values::Attached => Values::None,
        other => other,
    }
}

/// Index of the first `--` in a range of words.
fn marker(words: &[OsString], mut range: Range<usize>) -> Option<usize> {
    range.find(|at| words[*at] == "--")
}

/// Whether an unknown option includes its value: `--container-image=x`, as plugins have them.
fn is_self_contained(word: &OsStr) -> bool {
    word.as_bytes().starts_with(b"--") && word.as_bytes().contains(&b'=')
}

/// Whether a value names a variable: an assignment, a name, or a comma-separated list of either.
fn sets(value: &OsStr, variable: &str) -> bool {
    value.as_bytes().split(|b| *b == b',').any(|part| {
        part.strip_prefix(variable.as_bytes())
            .is_some_and(|rest| rest.is_empty() || rest[0] == b'=')
    })
}
