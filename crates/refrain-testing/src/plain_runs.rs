//! Stored outcomes of plain runs, in `target/plain-runs`.
//!
//! A program that prints the same in every run need not run without Refrain again for each comparison with a
//! traced run. Its outcome is stored under a hash of everything that may change it: the MPI and how it is
//! started, the user, the words of the command, the environment, and the contents of every file that
//! these name. Refrain's own variables do not affect a plain run.

use std::ffi::OsString;
use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::{Outcome, workspace};

/// Everything that may change the outcome of a plain run.
#[derive(Debug)]
pub(crate) struct PlainRun<'a> {
    /// The MPI's name.
    pub mpi: &'a str,
    /// The program and its arguments, and those of the launcher.
    pub words: &'a [OsString],
    /// The variables that the test sets.
    pub environment: &'a [(OsString, OsString)],
    /// Files that the program reads although its command does not name them.
    pub files: &'a [PathBuf],
}

impl PlainRun<'_> {
    /// The file that holds its outcome, if there is one.
    pub fn kept_in(&self) -> PathBuf {
        workspace().join("target/plain-runs").join(format!("{:016x}", self.key()))
    }

    fn key(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        (self.mpi, self.words, self.files).hash(&mut hasher);
        let environment: Vec<&(OsString, OsString)> =
            self.environment.iter().filter(|(name, _)| !is_refrains(name)).collect();
        environment.hash(&mut hasher);
        fs::metadata("/proc/self").map(|process| process.uid()).ok().hash(&mut hasher);

        let root = workspace();
        let starts = ["scripts/mpi", "target/mpi/yield.so"].map(|file| root.join(file));
        let values = environment.iter().map(|(_, value)| value);
        let named = self.words.iter().chain(values).map(PathBuf::from);
        for file in starts.into_iter().chain(self.files.iter().cloned()).chain(named) {
            fs::read(file).ok().hash(&mut hasher);
        }
        // Reinstalling an MPI changes these times. They are links to Debian's libraries and the folder of those
        // from PyPI.
        let libraries = "/usr/lib/x86_64-linux-gnu";
        for path in [
            Path::new(libraries).join("libmpich.so.12"),
            Path::new(libraries).join("libmpi.so.40"),
            root.join("target/mpi").join(self.mpi.trim_end_matches("-abi")),
        ] {
            let metadata = fs::metadata(path).ok();
            metadata.map(|file| (file.mtime(), file.mtime_nsec(), file.len())).hash(&mut hasher);
        }
        hasher.finish()
    }
}

fn is_refrains(name: &OsString) -> bool {
    name.as_bytes().starts_with(b"REFRAIN_")
}

/// Stores an outcome: a line of numbers, the command, its output.
pub(crate) fn keep(file: &Path, outcome: &Outcome) {
    let Outcome { stdout, stderr, code, elapsed, command, timed_out: _ } = outcome;
    let (nanoseconds, lengths) = (elapsed.as_nanos(), [command, stdout, stderr].map(String::len));
    let head = format!("{code} {nanoseconds} {} {} {}\n", lengths[0], lengths[1], lengths[2]);
    let folder = file.parent().expect("a file in a folder");
    // Written under another name first: other tests may read or write the file. If this fails, the program
    // just runs again.
    let _ = fs::create_dir_all(folder)
        .and_then(|()| tempfile::NamedTempFile::new_in(folder))
        .and_then(|new| {
            fs::write(new.path(), [&head, command, stdout, stderr].map(String::as_str).concat())?;
            Ok(new.persist(file))
        });
}

/// The outcome that a file holds; `None` if there is no such file, or it is damaged.
pub(crate) fn kept(file: &Path) -> Option<Outcome> {
    let text = fs::read_to_string(file).ok()?;
    let (head, rest) = text.split_once('\n')?;
    let numbers: Vec<i128> = head.split(' ').map(str::parse).collect::<Result<_, _>>().ok()?;
    let [code, nanoseconds, command, stdout, stderr] = numbers[..] else { return None };
    let lengths = [command, stdout, stderr].map(|length| usize::try_from(length).ok());
    let [Some(command), Some(stdout), Some(stderr)] = lengths else { return None };
    let (command, rest) = rest.split_at_checked(command)?;
    let (stdout, rest) = rest.split_at_checked(stdout)?;
    (rest.len() == stderr).then(|| Outcome {
        stdout: stdout.to_owned(),
        stderr: rest.to_owned(),
        code: code as i32,
        timed_out: false,
        elapsed: Duration::from_nanos(nanoseconds as u64),
        command: command.to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outcome() -> Outcome {
        Outcome {
            stdout: "> one\n> two\n".to_owned(),
            stderr: "ü\n".to_owned(),
            code: 7,
            timed_out: false,
            elapsed: Duration::from_micros(1234),
            command: "mpirun\n-n 2".to_owned(),
        }
    }

    #[test]
    fn an_outcome_is_stored_completely() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("deep/run");
        assert!(kept(&file).is_none());
        keep(&file, &outcome());
        assert_eq!(format!("{:?}", kept(&file).unwrap()), format!("{:?}", outcome()));
    }

    #[test]
    fn a_damaged_outcome_counts_as_none() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("run");
        keep(&file, &outcome());
        let bytes = fs::read(&file).unwrap();
        for length in 0..bytes.len() {
            fs::write(&file, &bytes[..length]).unwrap();
            assert!(kept(&file).is_none(), "{length} bytes");
        }
    }

    #[test]
    fn the_key_depends_on_everything_that_may_change_the_outcome() {
        let folder = tempfile::tempdir().unwrap();
        let file = |name: &str, text: &str| {
            let path = folder.path().join(name);
            fs::write(&path, text).unwrap();
            path
        };
        let program = file("program", "one");
        let words = [OsString::from("mpirun"), program.clone().into()];
        let key =
            |mpi: &str, words: &[OsString], environment: &[(&str, &str)], files: &[PathBuf]| {
                let entries = environment.iter().map(|(name, value)| (name.into(), value.into()));
                let environment: Vec<(OsString, OsString)> = entries.collect();
                PlainRun { mpi, words, environment: &environment, files }.key()
            };
        let first = key("mpich-4.0", &words, &[], &[]);
        assert_eq!(first, key("mpich-4.0", &words, &[("REFRAIN_CALLSITE", "stack:16")], &[]));
        let library = [file("library", "two")];
        let others = [
            key("openmpi-4.1", &words, &[], &[]),
            key("mpich-4.0", &words[..1], &[], &[]),
            key("mpich-4.0", &words, &[("FROM_THE_TEST", "1")], &[]),
            key("mpich-4.0", &words, &[], &library),
        ];
        file("library", "changed");
        let changed = key("mpich-4.0", &words, &[], &library);
        file("program", "changed");
        let keys = [&others[..], &[first, changed, key("mpich-4.0", &words, &[], &[])]].concat();
        let distinct: std::collections::BTreeSet<u64> = keys.iter().copied().collect();
        assert_eq!(distinct.len(), keys.len());
    }
}
