//! A job: ranks of a program, plain or traced.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::plain_runs::{self, PlainRun};
use crate::turn::{ranks_in, turn_of};
use crate::{DEFAULT_TIMEOUT, Mpi, Outcome, job, refrain_binary};

/// A job under an MPI, described step by step and started by [`output`](Self::output).
///
/// Made by [`Mpi::run`].
#[derive(Clone, Debug)]
#[must_use = "nothing runs before `output` is called"]
pub struct Run {
    mpi: Mpi,
    ranks: usize,
    program: Option<OsString>,
    args: Vec<OsString>,
    environment: Vec<(OsString, OsString)>,
    directory: Option<PathBuf>,
    timeout: Duration,
    trace: Option<PathBuf>,
    records: bool,
    options: Vec<OsString>,
    bare: bool,
    files: Vec<PathBuf>,
}

impl Run {
    pub(crate) fn new(mpi: Mpi, ranks: usize) -> Self {
        Self {
            mpi,
            ranks,
            program: None,
            args: Vec::new(),
            environment: Vec::new(),
            directory: None,
            timeout: DEFAULT_TIMEOUT,
            trace: None,
            records: true,
            options: Vec::new(),
            bare: false,
            files: Vec::new(),
        }
    }

    /// What every rank runs: a path, or a name to be found on the PATH.
    pub fn program(mut self, program: impl AsRef<OsStr>) -> Self {
        self.program = Some(program.as_ref().to_owned());
        self
    }

    /// The program's arguments, added to those given before.
    pub fn args<I, S>(mut self, args: I) -> Self
    where
        I: IntoIterator<Item = S>,
        S: AsRef<OsStr>,
    {
        self.args.extend(args.into_iter().map(|arg| arg.as_ref().to_owned()));
        self
    }

    /// An environment variable for the job and its ranks.
    pub fn env(mut self, name: impl AsRef<OsStr>, value: impl AsRef<OsStr>) -> Self {
        self.environment.push((name.as_ref().to_owned(), value.as_ref().to_owned()));
        self
    }

    /// The directory the job runs in; without it, that of the test.
    pub fn current_dir(mut self, directory: impl AsRef<Path>) -> Self {
        self.directory = Some(directory.as_ref().to_owned());
        self
    }

    /// How long the job may run before it is killed; without it, [`DEFAULT_TIMEOUT`].
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// Runs the job under `refrain trace --raw`, which writes this file; plainly when `None`.
    pub fn trace_to(mut self, file: Option<&Path>) -> Self {
        self.trace = file.map(Path::to_owned);
        self
    }

    /// Runs the job under `refrain trace` as users do, without `--raw`.
    pub fn without_records(mut self) -> Self {
        self.records = false;
        self
    }

    /// Options of `refrain trace` for a job that is traced.
    pub fn trace_options<'o>(mut self, options: impl IntoIterator<Item = &'o str>) -> Self {
        self.options.extend(options.into_iter().map(OsString::from));
        self
    }

    /// Runs the program without `mpirun`, as a single process.
    ///
    /// # Panics
    ///
    /// When the job has more than one rank.
    pub fn bare(mut self) -> Self {
        assert_eq!(self.ranks, 1, "without mpirun there is one rank");
        self.bare = true;
        self
    }

    /// A file that the program reads although no argument names it, such as a library that it is linked
    /// to. Only [`output_once`](Self::output_once) uses this.
    pub fn reads(mut self, file: impl Into<PathBuf>) -> Self {
        self.files.push(file.into());
        self
    }

    /// Runs the job and waits for its end, and for the end of everything it has started.
    ///
    /// Jobs take turns, see [`turn`](crate::turn()). A job of one or two ranks runs beside other such jobs, a
    /// larger job runs alone.
    ///
    /// # Panics
    ///
    /// When no program is given, or it cannot be started.
    pub fn output(self) -> Outcome {
        let words = self.words();
        self.execute(&words)
    }

    /// The outcome of a program that prints the same and ends in the same way in every run. The program runs
    /// unless the outcome of an equal plain run is [stored](crate::plain_runs).
    ///
    /// # Panics
    ///
    /// When the job is traced or has a directory of its own, or as [`output`](Self::output) does.
    pub fn output_once(self) -> Outcome {
        assert!(self.trace.is_none() && self.directory.is_none(), "only plain runs are kept");
        let words = self.words();
        let (mpi, environment, files) = (self.mpi.name(), &self.environment[..], &self.files[..]);
        let file = PlainRun { mpi, words: &words, environment, files }.kept_in();
        plain_runs::kept(&file).unwrap_or_else(|| self.output_anew())
    }

    /// The same after a new run, which replaces a stored outcome.
    ///
    /// # Panics
    ///
    /// As [`output_once`](Self::output_once) does.
    pub fn output_anew(self) -> Outcome {
        let words = self.words();
        let (mpi, environment, files) = (self.mpi.name(), &self.environment[..], &self.files[..]);
        let file = PlainRun { mpi, words: &words, environment, files }.kept_in();
        let outcome = self.execute(&words);
        if !outcome.timed_out && !launcher_failed(&outcome) {
            plain_runs::keep(&file, &outcome);
        }
        outcome
    }

    /// The whole command.
    fn words(&self) -> Vec<OsString> {
        let mut words: Vec<OsString> = Vec::new();
        if let Some(file) = &self.trace {
            words.push(refrain_binary().into());
            words.push("trace".into());
            words.extend(self.records.then(|| "--raw".into()));
            words.extend(self.options.iter().cloned());
            words.push("-o".into());
            words.push(file.into());
            words.push("--".into());
        }
        if !self.bare {
            words.extend(["mpirun".into(), "-n".into(), self.ranks.to_string().into()]);
        }
        words.push(self.program.clone().expect("a job needs a program"));
        words.extend(self.args.iter().cloned());
        words
    }

    fn execute(&self, words: &[OsString]) -> Outcome {
        let mut command = self.mpi.command(&words[0]);
        command.args(&words[1..]).envs(self.environment.iter().map(|(name, value)| (name, value)));
        if let Some(directory) = &self.directory {
            command.current_dir(directory);
        }
        // The program may be `refrain`, which starts the ranks.
        let _turn = turn_of(self.mpi.name(), self.ranks.max(ranks_in(words)));
        let mut outcome = job::execute(&mut command, self.timeout);
        for _ in 0..RETRIES {
            if !launcher_failed(&outcome) {
                break;
            }
            outcome = job::execute(&mut command, self.timeout);
        }
        outcome
    }
}

fn launcher_failed(outcome: &Outcome) -> bool {
    LAUNCHER_FAILED.iter().any(|message| outcome.stderr.contains(message))
}

/// Open MPI's launchers sometimes fail with these messages before they have started anything, because other
/// jobs start or end at the same moment. In version 4, an ending job removes the session folder that both
/// use. The job is then started again.
const LAUNCHER_FAILED: [&str; 2] =
    ["The PMIx server's listener thread failed to start", "orte_session_dir failed"];

/// How often a job is started again.
const RETRIES: usize = 3;
