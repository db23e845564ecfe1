//! Why a command was not understood, and what to write instead.

/// A command that Refrain cannot put its wrapper into. Each message says what to do.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LaunchError {
    /// There is nothing after `--`.
    #[error("no command given; put it after `--`: refrain trace -- mpirun -n 4 ./app")]
    Empty,

    /// An option is unknown, so it is unknown whether the next word is its value.
    #[error(
        "{launcher}: unknown option `{option}`: Refrain cannot tell where the program begins; \
         put `--` before the program: refrain trace -- {launcher} {option} … -- ./app"
    )]
    UnknownOption {
        /// The launcher's name.
        launcher: String,
        /// The option as it was written.
        option: String,
    },

    /// The launcher is known by name, but not its options.
    #[error(
        "{launcher}: Refrain does not know the options of this launcher and cannot tell where \
         the program begins; put `--` before the program: \
         refrain trace -- {launcher} … -- ./app"
    )]
    UnknownLauncher {
        /// The launcher's name.
        launcher: String,
    },

    /// The command ends in the middle of an option.
    #[error("{launcher}: option `{option}` has no value, and no program follows")]
    MissingValue {
        /// The launcher's name.
        launcher: String,
        /// The option as it was written.
        option: String,
    },

    /// The command ends after the launcher's options.
    #[error(
        "{launcher}: no program after the launcher's options: \
         refrain trace -- {launcher} … ./app"
    )]
    NoProgram {
        /// The launcher's name.
        launcher: String,
    },

    /// An option tells the launcher where to look for the program, but the launcher starts the wrapper.
    #[error(
        "{launcher}: `{option}` says where to look for `{program}`, but does not say it to \
         Refrain, which starts the program; write the program with its directory"
    )]
    SearchPath {
        /// The launcher's name.
        launcher: String,
        /// The option as it was written.
        option: String,
        /// The program.
        program: String,
    },

    /// The programs are listed in a file, where no wrapper can be put in front of them.
    #[error(
        "{launcher}: `{option}` names the programs in a file, where Refrain cannot reach them; \
         write them on the command line instead: \
         refrain trace -- {launcher} -n 1 ./a : -n 2 ./b"
    )]
    ProgramsInFile {
        /// The launcher's name.
        launcher: String,
        /// The option as it was written.
        option: String,
    },
}
