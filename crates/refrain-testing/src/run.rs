//! A job: so many ranks of a program, plain or traced.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::{DEFAULT_TIMEOUT, Mpi, Outcome, job, refrain_binary, workspace};

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
    bare: bool,
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
            bare: false,
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

    /// Runs the job and waits for its end, and for the end of everything it has started.
    ///
    /// Jobs take turns: this one waits for those of all other tests first, but for jobs of one rank
    /// under different MPIs, which leave room for each other.
    ///
    /// # Panics
    ///
    /// When no program is given, or it cannot be started.
    pub fn output(self) -> Outcome {
        let mut words: Vec<OsString> = Vec::new();
        if let Some(file) = &self.trace {
            words.push(refrain_binary().into());
            words.push("trace".into());
            words.extend(self.records.then(|| "--raw".into()));
            words.push("-o".into());
            words.push(file.into());
            words.push("--".into());
        }
        if !self.bare {
            words.extend(["mpirun".into(), "-n".into(), self.ranks.to_string().into()]);
        }
        words.push(self.program.expect("a job needs a program"));
        words.extend(self.args);

        let mut command = self.mpi.command(&words[0]);
        command.args(&words[1..]).envs(self.environment);
        if let Some(directory) = self.directory {
            command.current_dir(directory);
        }
        let _turn = match self.ranks {
            1 => turns_beside_others(self.mpi.name()),
            _ => vec![turn()],
        };
        let mut outcome = job::execute(&mut command, self.timeout);
        for _ in 0..RETRIES {
            if !LAUNCHER_FAILED.iter().any(|message| outcome.stderr.contains(message)) {
                break;
            }
            outcome = job::execute(&mut command, self.timeout);
        }
        outcome
    }
}

/// Open MPI's launchers say so, now and then, before they have started anything, because other jobs
/// come and go at the same moment: version 5 of itself, version 4 when an ending job removes the
/// folder that both have in the temporary one. Then the job is started again.
const LAUNCHER_FAILED: [&str; 2] =
    ["The PMIx server's listener thread failed to start", "orte_session_dir failed"];

/// How often.
const RETRIES: usize = 3;

/// Waits for this job's turn, which ends when the file is closed. Whoever starts a job without
/// [`Run`] asks for it too: launchers that start and end at the same moment disturb each other.
///
/// # Panics
///
/// When `target` cannot be written to.
pub fn turn() -> File {
    locked("mpi-jobs.lock", File::lock)
}

/// The same for a job that keeps only one core busy: jobs under other MPIs may run beside it, if
/// they do so too.
fn turns_beside_others(mpi: &str) -> Vec<File> {
    vec![
        locked("mpi-jobs.lock", File::lock_shared),
        locked(&format!("mpi-jobs-{mpi}.lock"), File::lock),
    ]
}

fn locked(name: &str, lock: impl FnOnce(&File) -> std::io::Result<()>) -> File {
    let path = workspace().join("target").join(name);
    let file = File::create(&path)
        .unwrap_or_else(|error| panic!("cannot open {}: {error}", path.display()));
    lock(&file).unwrap_or_else(|error| panic!("cannot lock {}: {error}", path.display()));
    file
}
