//! Recognises the launcher: by its name if that is unambiguous, otherwise by the output of `--version`.
//!
//! `mpirun` and `mpiexec` are names that every MPI uses. Asking costs 2-3 ms with Hydra and Open
//! MPI 4, 15 ms with Open MPI 5 and 30 ms with Intel MPI, where `mpirun` is a script; so the caller
//! asks only if [`version_command`] says so.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use crate::prefix;

/// The MPI that an `mpirun` belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flavour {
    /// MPICH's Hydra, Intel MPI's, MVAPICH's.
    Hydra,
    /// Open MPI up to 4.x: ORTE.
    OpenMpi4,
    /// Open MPI from 5.x on: PRRTE.
    OpenMpi5,
}

/// What is known of a launcher from its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Named {
    /// Some MPI's `mpirun`.
    Mpirun,
    /// Open MPI's, of unknown version.
    OpenMpi,
    /// An `mpirun` of this flavour.
    Flavour(Flavour),
    /// `srun`.
    Srun,
    /// `flux run`.
    FluxRun,
    /// A launcher with unknown options.
    Other,
}

/// Launchers known by name only: their options could not be verified against the program or its
/// sources.
const OTHERS: &[&str] = &[
    "aprun",
    "jsrun",
    "lrun",
    "ibrun",
    "yhrun",
    "ccc_mprun",
    "mpirun_rsh",
    "mpiexec_mpt",
    "mpiexec.gforker",
];

/// Flux's commands that start jobs, apart from `run`.
const FLUX_OTHERS: &[&str] = &["submit", "bulksubmit", "alloc", "batch"];

/// The last part of a path, as text.
pub(crate) fn file_name(word: &OsStr) -> &str {
    let bytes = word.as_bytes();
    let start = bytes.iter().rposition(|b| *b == b'/').map_or(0, |at| at + 1);
    std::str::from_utf8(&bytes[start..]).unwrap_or("")
}

/// Recognises the launcher at the beginning of `words`, and the number of words of its name.
pub(crate) fn launcher(words: &[OsString]) -> Option<(Named, usize)> {
    let word = |at: usize| words.get(at).map_or("", |w| file_name(w));
    let named = match word(0) {
        "mpirun" | "mpiexec" => Named::Mpirun,
        "mpiexec.hydra" | "mpirun.hydra" | "mpirun.mpich" | "mpiexec.mpich" => {
            Named::Flavour(Flavour::Hydra)
        }
        "mpirun.openmpi" | "mpiexec.openmpi" | "oshrun" | "shmemrun" => Named::OpenMpi,
        "orterun" => Named::Flavour(Flavour::OpenMpi4),
        "prterun" | "prun" => Named::Flavour(Flavour::OpenMpi5),
        "srun" => Named::Srun,
        "flux" => {
            let named = |name| match name {
                "run" => Some(Named::FluxRun),
                other => FLUX_OTHERS.contains(&other).then_some(Named::Other),
            };
            return match word(1) {
                "mini" => Some((named(word(2))?, 3)),
                other => Some((named(other)?, 2)),
            };
        }
        other if OTHERS.contains(&other) => Named::Other,
        other if other.starts_with("mpirun.") || other.starts_with("mpiexec.") => Named::Mpirun,
        _ => return None,
    };
    Some((named, 1))
}

/// The command that identifies the launcher, if its name does not; its output (standard output and
/// error) is for [`flavour_of_version_output`].
///
/// It keeps an `env` in front of the launcher, which may change `PATH`, and drops other prefixes.
pub fn version_command(words: &[OsString]) -> Option<Vec<OsString>> {
    let prefixed = prefix::skip(words)?;
    match prefixed.launcher {
        Named::Mpirun | Named::OpenMpi => {}
        _ => return None,
    }
    let mut command = prefixed.env_words;
    command.push(words[prefixed.position].clone());
    command.push("--version".into());
    Some(command)
}

/// The flavour of a launcher by its file name, if that is unambiguous.
pub fn flavour_of_file(file: &Path) -> Option<Flavour> {
    match launcher(&[file.file_name()?.to_owned()])? {
        (Named::Flavour(flavour), _) => Some(flavour),
        _ => None,
    }
}

/// The flavour of a launcher by the output of `--version`; `None` if it is unknown.
pub fn flavour_of_version_output(output: &str) -> Option<Flavour> {
    if output.contains("HYDRA build details") || output.contains("Intel(R) MPI Library") {
        return Some(Flavour::Hydra);
    }
    if output.contains("(PRRTE)") {
        return Some(Flavour::OpenMpi5);
    }
    // "mpirun (Open MPI) 5.0.11"; a renamed one (Debian's mpirun.openmpi) calls itself OpenRTE.
    let version = ["(Open MPI) ", "(OpenRTE) "]
        .iter()
        .find_map(|org| output.split_once(org))
        .map(|(_, version)| version)?;
    let digits = version.bytes().take_while(u8::is_ascii_digit).count();
    match version[..digits].parse::<u32>().ok()? {
        0..=4 => Some(Flavour::OpenMpi4),
        _ => Some(Flavour::OpenMpi5),
    }
}
