//! Understands the command after `--` and puts Refrain's rank wrapper in front of each program.
//!
//! ```text
//! mpirun -n 4 -x FOO ./app a b  →  mpirun -n 4 -x FOO refrain __rank … -- ./app a b
//! ```
//!
//! The agent's environment (`LD_PRELOAD` and its settings) belongs in the ranks and nowhere
//! else: a preloaded launcher, daemon or shell would be traced too, and whether a launcher
//! forwards a variable depends on the launcher, its version and the machine's configuration. A
//! wrapper that runs as each rank, sets the environment and then becomes the program needs nothing
//! of the launcher. The price is that this crate must find where the program begins, so it must
//! know which options of the launcher take values: see `tables`.
//!
//! Nothing is guessed. An unknown option or launcher is an error that asks for a second `--` before
//! the program; that `--` is dropped from the command.
//!
//! ```
//! use refrain_launch::Plan;
//!
//! let words = "mpirun.openmpi -n 4 -x FOO ./app a b".split(' ').map(Into::into).collect();
//! let plan = Plan::parse(words, None)?;
//! assert_eq!(plan.ranks(), Some(4));
//! let command = plan.command_with(&["wrapper".into()]);
//! assert_eq!(command.join(" ".as_ref()), "mpirun.openmpi -n 4 -x FOO wrapper ./app a b");
//! # Ok::<(), refrain_launch::LaunchError>(())
//! ```
//!
//! The launcher now starts the wrapper where it started the program, and options by which it copies
//! the program to the nodes (Open MPI's `--preload-binary`, Slurm's `--bcast`) copy the wrapper.
//!
//! Everything here is a function of the command's words, except [`missing_program`], which looks
//! at the file system.

mod error;
mod lookup;
mod options;
mod prefix;
mod recognise;
mod scan;
mod tables;
#[cfg(test)]
mod tests;

use std::ffi::{OsStr, OsString};

pub use error::LaunchError;
pub use lookup::{MissingProgram, missing_program};
pub use recognise::{Flavour, flavour_of_file, flavour_of_version_output, version_command};

/// The program that starts the ranks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Launcher {
    /// MPICH's Hydra and its relatives: Intel MPI, MVAPICH.
    Hydra,
    /// Open MPI: `orterun` up to 4.x, PRRTE's `prterun` from 5.x on.
    OpenMpi,
    /// Slurm's `srun`.
    Slurm,
    /// Flux's `flux run`.
    Flux,
    /// A launcher with unknown options, or an `mpirun` of unknown make.
    Other,
    /// None: the command is the program, run as a single process.
    Bare,
}

impl Launcher {
    /// Whether the launcher also looks in the working directory for a program that is named without
    /// `/` and not in `PATH`, as Open MPI and Slurm do. Then the wrapper, which starts the program,
    /// has to look there too.
    pub fn looks_in_working_directory(self) -> bool {
        matches!(self, Self::OpenMpi | Self::Slurm)
    }

    /// Whether a word `:` ends a program's arguments and another program's options follow.
    fn separates_programs_by_colon(self) -> bool {
        matches!(self, Self::Hydra | Self::OpenMpi | Self::Slurm | Self::Other)
    }
}

/// One program of the command: most commands have one, `mpirun … ./a : … ./b` has two.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Program {
    /// Index of the program's name among the words; its arguments follow.
    pub position: usize,
    /// Index of the `--` that marked the program's beginning, if there was one.
    pub marker: Option<usize>,
    /// Number of ranks asked for (`-n`, `-np`, `--ntasks` …), if it was given.
    pub ranks: Option<u32>,
    /// Working directory that an option of the launcher sets.
    pub directory: Option<OsString>,
}

/// A parsed command: where its programs are, and what its options say about them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// The program that starts the ranks.
    pub launcher: Launcher,
    /// The words as the user wrote them.
    pub words: Vec<OsString>,
    /// The programs, in the order of the command; never empty.
    pub programs: Vec<Program>,
    /// Whether the command sets `LD_PRELOAD` itself (`-x`, `-genv`, `env` …).
    pub passes_preload: bool,
    /// Whether the command changes `PATH` for the ranks, so that they do not search ours.
    pub changes_path: bool,
    /// Directory that a prefix (`env -C DIR`) starts the launcher in.
    pub start_directory: Option<OsString>,
}

impl Plan {
    /// Parses a command, given as its words.
    ///
    /// `flavour` says which MPI's `mpirun` it is, if the name does not tell: the caller runs
    /// [`version_command`] and passes its output to [`flavour_of_version_output`]. Without it only
    /// options on which all flavours agree are accepted.
    pub fn parse(words: Vec<OsString>, flavour: Option<Flavour>) -> Result<Self, LaunchError> {
        scan::parse(words, flavour)
    }

    /// The command with `wrapper` in front of every program, and without the markers. All other
    /// words keep their bytes and their order.
    pub fn command_with(&self, wrapper: &[OsString]) -> Vec<OsString> {
        let mut command = Vec::with_capacity(self.words.len() + wrapper.len());
        for (index, word) in self.words.iter().enumerate() {
            if self.programs.iter().any(|p| p.marker == Some(index)) {
                continue;
            }
            if self.programs.iter().any(|p| p.position == index) {
                command.extend_from_slice(wrapper);
            }
            command.push(word.clone());
        }
        command
    }

    /// The name of a program as written in the command.
    pub fn name(&self, program: &Program) -> &OsStr {
        &self.words[program.position]
    }

    /// Number of ranks of the whole job, if the command gives it for every program. A bare
    /// command is one process.
    pub fn ranks(&self) -> Option<u32> {
        self.programs.iter().try_fold(0u32, |sum, program| sum.checked_add(program.ranks?))
    }
}
