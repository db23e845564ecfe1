//! Checks that the program exists. Only this module looks at the file system.
//!
//! Otherwise a mistyped name would be reported as an error of the wrapper, once per rank, in words
//! that differ from launcher to launcher.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use crate::{Plan, Program};

/// Why a program cannot be run.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MissingProgram {
    /// There is no such file.
    #[error("program `{program}` not found (no such file; looked in {directory}){}", hint(.near))]
    NoSuchFile {
        /// The program as it was written.
        program: String,
        /// Where it was looked for.
        directory: String,
        /// A name to try instead.
        near: Option<String>,
    },

    /// No directory of `PATH` has it.
    #[error("program `{program}` not found in PATH{}", hint(.near))]
    NotInPath {
        /// The program as it was written.
        program: String,
        /// A name to try instead.
        near: Option<String>,
    },

    /// The file exists, but is not executable.
    #[error("program `{program}` is not executable; if it is a program: chmod +x {path}")]
    NotExecutable {
        /// The program as it was written.
        program: String,
        /// The file.
        path: String,
    },

    /// The name is that of a directory.
    #[error("program `{program}` is a directory")]
    IsDirectory {
        /// The program as it was written.
        program: String,
    },
}

fn hint(near: &Option<String>) -> String {
    match near {
        Some(near) => format!("; did you mean `{near}`?"),
        None => String::new(),
    }
}

/// The first program of a command that cannot be run, with the reason.
///
/// A name with `/` is looked up where the launcher will start the program, other names in `PATH`.
/// The nodes where the ranks will run may have other files: on a cluster whose nodes have their own
/// file systems, this is a reason to warn, not to stop.
pub fn missing_program(plan: &Plan) -> Option<MissingProgram> {
    let here = std::env::current_dir().ok()?;
    let path = std::env::var_os("PATH").unwrap_or_default();
    missing_in(plan, &here, &path)
}

/// [`missing_program`] with the directory and the search path given.
pub(crate) fn missing_in(plan: &Plan, here: &Path, path: &OsStr) -> Option<MissingProgram> {
    let here =
        plan.start_directory.as_ref().map_or(here.to_owned(), |directory| here.join(directory));
    plan.programs.iter().find_map(|program| check(plan, program, &here, path).err())
}

fn check(plan: &Plan, program: &Program, here: &Path, path: &OsStr) -> Result<(), MissingProgram> {
    let name = plan.name(program);
    let written = name.display().to_string();
    let directory =
        program.directory.as_ref().map_or(here.to_owned(), |directory| here.join(directory));
    if name.as_bytes().contains(&b'/') {
        return check_file(&directory.join(name), &written);
    }
    let local = directory.join(name);
    let found = plan.changes_path
        || std::env::split_paths(path).any(|place| is_program(&directory.join(place).join(name)))
        || (plan.launcher.looks_in_working_directory() && is_program(&local));
    if found {
        return Ok(());
    }
    let near = if local.is_file() {
        Some(format!("./{written}"))
    } else if name.as_bytes().contains(&b'=') {
        Some(format!("env {written} …"))
    } else {
        near_name(&directory, name).map(|near| format!("./{near}"))
    };
    Err(MissingProgram::NotInPath { program: written, near })
}

fn check_file(file: &Path, written: &str) -> Result<(), MissingProgram> {
    let program = written.to_owned();
    match fs::metadata(file) {
        Ok(metadata) if metadata.is_dir() => Err(MissingProgram::IsDirectory { program }),
        Ok(_) if is_program(file) => Ok(()),
        Ok(_) => Err(MissingProgram::NotExecutable { program, path: file.display().to_string() }),
        Err(_) => {
            let directory = file.parent().map(clean).unwrap_or_default();
            let name = file.file_name().unwrap_or_default();
            // The hint is written as the program was, up to its last `/`.
            let stem = &written[..written.rfind('/').map_or(0, |at| at + 1)];
            let near = near_name(&directory, name).map(|near| format!("{stem}{near}"));
            Err(MissingProgram::NoSuchFile {
                program,
                directory: directory.display().to_string(),
                near,
            })
        }
    }
}

/// A path without its `.` parts.
fn clean(path: &Path) -> PathBuf {
    path.components().collect()
}

fn is_program(file: &Path) -> bool {
    fs::metadata(file).is_ok_and(|m| m.is_file() && m.permissions().mode() & 0o111 != 0)
}

/// The program in a directory whose name is nearest to a mistyped one.
fn near_name(directory: &Path, name: &OsStr) -> Option<String> {
    let name = name.to_str()?;
    let entries = fs::read_dir(directory).ok()?.flatten();
    entries
        .filter_map(|entry| {
            let other = entry.file_name().into_string().ok()?;
            let distance = near(name, &other)?;
            is_program(&entry.path()).then_some((distance, other))
        })
        .min()
        .map(|(_, other)| other)
}

/// The distance of two names, if they are similar: up to two typing errors, different case, or a
/// missing extension.
pub(crate) fn near(name: &str, other: &str) -> Option<usize> {
    if name.eq_ignore_ascii_case(other) {
        return Some(0);
    }
    let allowed = if name.chars().count() < 5 { 1 } else { 2 };
    let distance = edits(name, other);
    if distance <= allowed {
        return Some(distance);
    }
    let extended = other.strip_prefix(name).is_some_and(|rest| rest.starts_with('.'));
    extended.then_some(allowed + 1)
}

/// Levenshtein's distance: insertions, deletions and replacements of characters.
fn edits(from: &str, to: &str) -> usize {
    let to: Vec<char> = to.chars().collect();
    let mut row: Vec<usize> = (0..=to.len()).collect();
    for (i, a) in from.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, b) in to.iter().enumerate() {
            let replaced = diagonal + usize::from(a != *b);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(diagonal + 1).min(row[j] + 1);
        }
    }
    row[to.len()]
}
