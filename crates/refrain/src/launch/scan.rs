//! Walks over a launcher's words to where each program begins.

use std::ffi::{OsStr, OsString};
use std::ops::Range;
use std::os::unix::ffi::OsStrExt;

use super::options::{Dialect, Found, Values, has};
use super::prefix::{self, Prefixed};
use super::recognise::{Flavour, Named, file_name};
use super::tables::{FLUX, HYDRA, ORTE, PRRTE, SRUN};
use super::{LaunchError, Launcher, Plan, Program};

/// How far dialects are trusted where more than one is possible.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Trust {
    /// The first is the launcher's own; the others complete it with options of other versions.
    First,
    /// Any of them may be the launcher's: those that know an option must agree.
    Agreed,
    /// The same, but each of them must know it.
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
pub(super) fn parse(words: Vec<OsString>, flavour: Option<Flavour>) -> Result<Plan, LaunchError> {
    match prefix::skip(&words) {
        Some(prefixed) => {
            let name = file_name(&words[prefixed.position]).to_owned();
            let reader = reader(prefixed.launcher, name, flavour);
            reader.plan(words, prefixed)
        }
        None => bare(words),
    }
}

/// Understands a command that begins with a launcher; see [`Plan::parse_as_launcher`].
pub(super) fn parse_marked(words: Vec<OsString>) -> Result<Plan, LaunchError> {
    let first = words.first().ok_or(LaunchError::Empty)?;
    let name = file_name(first).to_owned();
    let prefixed = Prefixed {
        launcher: Named::Other,
        position: 0,
        options: 1,
        env_words: Vec::new(),
        directory: None,
    };
    reader(Named::Other, name, None).plan(words, prefixed)
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
        programs: vec![Program {
            position,
            marker,
            ranks: Some(1),
            directory: None,
        }],
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
    Reader {
        launcher,
        name,
        dialects,
        trust,
    }
}

impl Reader {
    /// Finds the programs among the words.
    fn plan(&self, words: Vec<OsString>, prefixed: Prefixed) -> Result<Plan, LaunchError> {
        let mut plan = Plan {
            launcher: self.launcher,
            words,
            programs: Vec::new(),
            passes_preload: prefixed.env_words.iter().any(|w| sets(w, "LD_PRELOAD")),
            changes_path: prefixed.env_words.iter().any(|w| sets(w, "PATH")),
            start_directory: prefixed.directory,
        };
        let mut every_directory = None;
        for context in self.contexts(&plan.words, prefixed.options) {
            let program = match self.dialects {
                [] => self.marked(&plan, context)?,
                _ => Some(self.program(&mut plan, context, &mut every_directory)?),
            };
            plan.programs.extend(program);
        }
        if plan.programs.is_empty() {
            return Err(self.no_program());
        }
        for program in &mut plan.programs {
            program.directory = program.directory.take().or(every_directory.clone());
        }
        Ok(plan)
    }

    /// The words of each program with its options and arguments.
    fn contexts(&self, words: &[OsString], start: usize) -> Vec<Range<usize>> {
        let mut contexts = Vec::new();
        let mut start = start;
        if self.launcher.separates_programs_by_colon() {
            for (at, _) in words.iter().enumerate().filter(|(_, word)| *word == ":") {
                contexts.push(start..at.max(start));
                start = at + 1;
            }
        }
        contexts.push(start..words.len());
        contexts.retain(|context| !context.is_empty());
        contexts
    }

    /// The program of one context, after the options that are before it.
    fn program(
        &self,
        plan: &mut Plan,
        context: Range<usize>,
        every_directory: &mut Option<OsString>,
    ) -> Result<Program, LaunchError> {
        let mut program = Program {
            position: context.start,
            marker: None,
            ranks: None,
            directory: None,
        };
        let mut at = context.start;
        while at < context.end && plan.words[at].as_bytes().starts_with(b"-") {
            let word = &plan.words[at];
            if word == "--" {
                program.marker = Some(at);
                at += 1;
                break;
            }
            let Some((found, dialect)) = self.read(word) else {
                if is_self_contained(word) {
                    at += 1;
                    continue;
                }
                if let Some(marker) = marker(&plan.words, at..context.end) {
                    program.marker = Some(marker);
                    at = marker + 1;
                    break;
                }
                return Err(LaunchError::UnknownOption {
                    launcher: self.name.clone(),
                    option: word.display().to_string(),
                });
            };
            if has(dialect.table.program_file, found.name) {
                return Err(LaunchError::ProgramsInFile {
                    launcher: self.name.clone(),
                    option: word.display().to_string(),
                });
            }
            let Some(values) = found.take(&plan.words[at + 1..context.end]) else {
                return Err(LaunchError::MissingValue {
                    launcher: self.name.clone(),
                    option: word.display().to_string(),
                });
            };
            at += 1 + found.words(&values);
            let Some(value) = values.into_iter().next() else {
                continue;
            };
            let table = dialect.table;
            if has(table.ranks, found.name) {
                program.ranks = value.to_str().and_then(|v| v.parse().ok());
            } else if has(table.directory, found.name) {
                program.directory = Some(value);
            } else if has(table.every_directory, found.name) {
                *every_directory = Some(value);
            } else if has(table.environment, found.name) {
                plan.passes_preload |= sets(&value, "LD_PRELOAD");
                plan.changes_path |= sets(&value, "PATH");
            }
        }
        program.position = at;
        if at < context.end {
            Ok(program)
        } else {
            Err(self.no_program())
        }
    }

    /// The program after the marker, for launchers whose options we do not know. Whether such a
    /// launcher knows `:` we do not know either, so only the first context must have a marker.
    fn marked(&self, plan: &Plan, context: Range<usize>) -> Result<Option<Program>, LaunchError> {
        let Some(marker) = marker(&plan.words, context.clone()) else {
            return match plan.programs.is_empty() {
                true => Err(LaunchError::UnknownLauncher {
                    launcher: self.name.clone(),
                }),
                false => Ok(None),
            };
        };
        if marker + 1 == context.end {
            return Err(self.no_program());
        }
        Ok(Some(Program {
            position: marker + 1,
            marker: Some(marker),
            ranks: None,
            directory: None,
        }))
    }

    /// Reads an option, in the dialect that knows it.
    fn read(&self, word: &OsStr) -> Option<(Found, &'static Dialect)> {
        let mut known = self
            .dialects
            .iter()
            .filter_map(|d| Some((d.read(word)?, d)));
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
        LaunchError::NoProgram {
            launcher: self.name.clone(),
        }
    }
}

/// An optional value stands in the same word, so that for the words which follow it is like none.
fn words_of(values: Values) -> Values {
    match values {
        Values::Attached => Values::None,
        other => other,
    }
}

/// Index of the first `--` in a range of words.
fn marker(words: &[OsString], range: Range<usize>) -> Option<usize> {
    range.clone().find(|at| words[*at] == "--")
}

/// Whether an unknown option carries its value: `--container-image=x`, as plugins have them.
fn is_self_contained(word: &OsStr) -> bool {
    word.as_bytes().starts_with(b"--") && word.as_bytes().contains(&b'=')
}

/// Whether an assignment, a name or a list of either with commas speaks of a variable.
fn sets(value: &OsStr, variable: &str) -> bool {
    value.as_bytes().split(|b| *b == b',').any(|part| {
        part.strip_prefix(variable.as_bytes())
            .is_some_and(|rest| rest.is_empty() || rest[0] == b'=')
    })
}
