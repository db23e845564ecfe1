//! Permissions and redaction of the files that Refrain writes.
//!
//! A trace holds the command line, host names and paths of the program. So by default only its owner may
//! read it, whatever the umask is. `--mode` sets other permissions.
//!
//! Refrain changes its own umask, so that files are created with these permissions, and restores the
//! user's umask for every program that it starts ([`restore`]). The agent runs with the program's
//! umask and sets permissions itself, as `REFRAIN_MODE` says.

use refrain_reader::meta::REDACTED;
use std::ffi::OsString;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;
use std::str::FromStr;
use std::sync::atomic::{AtomicU32, Ordering};
use std::{fs, io};

/// Permissions of the files that a command writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// These permission bits.
    Exact(u32),
    /// What the umask leaves.
    Umask,
}

/// The option that keeps private data out of a trace.
#[derive(Clone, Copy, Debug, Default, clap::Args)]
pub struct Redaction {
    /// Leave out the command line, host names, folders of files, and arguments of calls that are any
    /// of these: file names, ports, values of MPI_Info, the processor's name, the arguments of
    /// MPI_Init and of spawned programs.
    #[arg(long)]
    pub redact: bool,
}

impl Redaction {
    /// The environment variable for the agent, if redaction is requested.
    pub fn variable(self) -> Option<String> {
        self.redact.then(|| "REFRAIN_REDACT=1".to_owned())
    }

    /// The command line as it is stored.
    pub fn command(self, words: &[OsString]) -> Vec<String> {
        match self.redact {
            true => vec![REDACTED.to_owned()],
            false => words.iter().map(|word| word.to_string_lossy().into_owned()).collect(),
        }
    }
}

/// The option of the commands that write traces.
#[derive(Clone, Copy, Debug, Default, clap::Args)]
pub struct Access {
    /// Permissions of the trace and of everything written on the way: octal, such as 640, or
    /// `umask` to follow the umask [default: 600, for you alone].
    #[arg(long, value_name = "MODE")]
    mode: Option<Mode>,
}

const PRIVATE: Mode = Mode::Exact(0o600);

/// No umask, and no permissions.
const UNSET: u32 = u32::MAX;

/// The umask that programs inherit.
static INHERITED: AtomicU32 = AtomicU32::new(UNSET);

/// Permissions of new folders; if unset, the umask decides.
static FOLDERS: AtomicU32 = AtomicU32::new(UNSET);

impl FromStr for Mode {
    type Err = String;

    fn from_str(text: &str) -> Result<Mode, String> {
        if text == "umask" {
            return Ok(Mode::Umask);
        }
        let bits = u32::from_str_radix(text, 8).ok().filter(|bits| *bits <= 0o777);
        match bits {
            Some(bits) if bits & 0o600 == 0o600 => Ok(Mode::Exact(bits & 0o666)),
            Some(_) => {
                Err("the owner must be able to read and write: the first digit must be 6 or 7"
                    .to_owned())
            }
            None => Err("expected octal permissions such as 640, or `umask`".to_owned()),
        }
    }
}

impl Access {
    /// From now on this process creates files and folders with these permissions.
    pub fn apply(self) -> Mode {
        let mode = self.mode.unwrap_or(PRIVATE);
        mode.apply();
        mode
    }

    /// The value for `--mode`.
    pub fn text(self) -> String {
        self.mode.unwrap_or(PRIVATE).text()
    }
}

impl Mode {
    /// From now on this process creates files and folders with these permissions.
    fn apply(self) {
        let Mode::Exact(bits) = self else { return };
        // SAFETY: a plain system call.
        let old = unsafe { libc::umask(0o777 & !bits) };
        // Only the first one is the user's umask.
        let _ = INHERITED.compare_exchange(UNSET, old, Ordering::Relaxed, Ordering::Relaxed);
        // Whoever may read a folder may enter it.
        FOLDERS.store(bits | (bits & 0o444) >> 2, Ordering::Relaxed);
    }

    fn text(self) -> String {
        match self {
            Mode::Exact(bits) => format!("{bits:o}"),
            Mode::Umask => "umask".to_owned(),
        }
    }

    /// The environment variable for the agent.
    pub fn variable(self) -> String {
        format!("REFRAIN_MODE={}", self.text())
    }
}

/// Creates a folder.
pub fn create_folder(path: &Path) -> io::Result<()> {
    match FOLDERS.load(Ordering::Relaxed) {
        UNSET => fs::create_dir(path),
        bits => {
            fs::DirBuilder::new().mode(0o700).create(path)?;
            fs::set_permissions(path, fs::Permissions::from_mode(bits))
        }
    }
}

/// Lets the command run with the umask that this process was started with.
pub fn restore(command: &mut Command) -> &mut Command {
    let inherited = INHERITED.load(Ordering::Relaxed);
    if inherited == UNSET {
        return command;
    }
    let restore = move || {
        // SAFETY: a plain system call.
        unsafe { libc::umask(inherited) };
        Ok(())
    };
    // SAFETY: the closure that runs in the child only makes that system call.
    unsafe { command.pre_exec(restore) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modes_are_octal_or_the_umask() {
        assert_eq!("640".parse(), Ok(Mode::Exact(0o640)));
        assert_eq!("0664".parse(), Ok(Mode::Exact(0o664)));
        assert_eq!("umask".parse(), Ok(Mode::Umask));
        // Execute permissions are dropped.
        assert_eq!("755".parse(), Ok(Mode::Exact(0o644)));
        assert!("460".parse::<Mode>().is_err());
        assert!("rw".parse::<Mode>().is_err());
        assert!("7777".parse::<Mode>().is_err());
    }
}
