//! The MPIs of this machine, and how victims are compiled for them.

use std::ffi::OsStr;
use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use std::time::SystemTime;

use crate::requirement::{require, require_mpi};
use crate::turn::{ranks_in, turn_of};
use crate::{DEFAULT_TIMEOUT, Outcome, Run, is_full, job, refrain_binary, workspace};

/// The binary interface of an MPI.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Family {
    /// MPICH's.
    Mpich,
    /// Open MPI's.
    OpenMpi,
    /// The MPI-5 standard's.
    StandardAbi,
}

/// One of the MPIs that `scripts/mpi` knows and this machine has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mpi {
    name: String,
    family: Family,
    has_fortran: bool,
}

impl Mpi {
    /// Every MPI of this machine.
    ///
    /// # Panics
    ///
    /// When there is none: a test that loops over no MPI would pass without testing anything.
    pub fn installed() -> Vec<Self> {
        static INSTALLED: OnceLock<Vec<Mpi>> = OnceLock::new();
        let installed = INSTALLED.get_or_init(|| {
            let fortran = ask(&["--fortran"]);
            let has_fortran = |name| fortran.lines().any(|line| line == name);
            ask(&["--list"])
                .lines()
                .map(|name| Mpi {
                    name: name.to_owned(),
                    family: family(name),
                    has_fortran: has_fortran(name),
                })
                .collect()
        });
        assert!(!installed.is_empty(), "no MPI here: run `make setup`");
        installed.clone()
    }

    /// Debian's MPIs, one of each family, as representatives of all; on a machine with neither, every MPI.
    ///
    /// # Panics
    ///
    /// When the set-up lists one of them and it is not there, or there is no MPI at all.
    pub fn representatives() -> Vec<Self> {
        let debian = ["mpich-4.0", "openmpi-4.1"];
        let chosen: Vec<Mpi> = debian.into_iter().filter_map(require_mpi).collect();
        if chosen.is_empty() { Self::installed() } else { chosen }
    }

    /// [`representatives`](Self::representatives), or every MPI if the long tests were asked for.
    ///
    /// # Panics
    ///
    /// As [`representatives`](Self::representatives) does.
    pub fn usual() -> Vec<Self> {
        if is_full() { Self::installed() } else { Self::representatives() }
    }

    /// Any MPI, for tests that do not depend on which.
    ///
    /// # Panics
    ///
    /// When there is none.
    pub fn any() -> Self {
        Self::representatives().swap_remove(0)
    }

    /// The MPIs that can do something. If there is none, the test is counted as skipped.
    ///
    /// # Panics
    ///
    /// When the set-up lists `what` and no MPI can do it, or there is no MPI at all.
    pub fn with(what: &str, can: impl Fn(&Mpi) -> bool) -> Vec<Self> {
        let able: Vec<Mpi> = Self::installed().into_iter().filter(can).collect();
        require(what, (!able.is_empty()).then_some(able)).unwrap_or_default()
    }

    /// The MPIs that compile Fortran.
    ///
    /// # Panics
    ///
    /// As [`with`](Self::with) does.
    pub fn with_fortran() -> Vec<Self> {
        Self::with("gfortran", Mpi::has_fortran)
    }

    /// The MPI of this name (`mpich-4.0`, `openmpi-5.0` …), if this machine has it.
    pub fn named(name: &str) -> Option<Self> {
        Self::installed().into_iter().find(|mpi| mpi.name == name)
    }

    /// The name by which `scripts/mpi` knows it.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its binary interface.
    pub fn family(&self) -> Family {
        self.family
    }

    /// Whether it compiles Fortran.
    pub fn has_fortran(&self) -> bool {
        self.has_fortran
    }

    /// Compiles `tests/victims/<victim>` (C, C++ or Fortran, by its extension) unless that is
    /// done already, and returns the executable, `target/victims/<mpi>/<stem>`.
    ///
    /// # Panics
    ///
    /// When the victim does not compile, with the compiler's words.
    pub fn compile(&self, victim: &str) -> PathBuf {
        self.compile_with(victim, &[])
    }

    /// [`compile`](Self::compile), with more flags for the compiler. Each set of flags makes an
    /// executable of its own.
    ///
    /// # Panics
    ///
    /// When the victim does not compile, with the compiler's words.
    pub fn compile_with(&self, victim: &str, flags: &[&str]) -> PathBuf {
        let victims = workspace().join("tests/victims");
        let source = victims.join(victim);
        let directory = workspace().join("target/victims").join(&self.name);
        let executable = directory.join(executable_name(&source, flags));
        let written = newest(&victims, &source);
        if modified(&executable).is_some_and(|built| built > written) {
            return executable;
        }

        // Compiled to a unique name, then renamed: other tests may be compiling or running it.
        fs::create_dir_all(&directory).expect("target/victims can be made");
        let build = tempfile::tempdir_in(&directory).expect("a directory to compile in");
        let fresh = build.path().join("program");
        let compiler = self
            .command(compiler(&source))
            .args(["-O2", "-g", "-I"])
            .arg(&victims)
            .arg("-o")
            .arg(&fresh)
            .arg(&source)
            .args(flags)
            .current_dir(build.path()) // where Fortran leaves its module files
            .output()
            .expect("scripts/mpi can be run");
        assert!(
            compiler.status.success(),
            "{victim} does not compile with {}\n{}",
            self.name,
            String::from_utf8_lossy(&compiler.stderr)
        );
        fs::rename(&fresh, &executable).expect("the executable can be put in place");
        executable
    }

    /// Describes a job with that number of ranks. [`Run::output`] runs it.
    pub fn run(&self, ranks: usize) -> Run {
        Run::new(self.clone(), ranks)
    }

    /// Runs `refrain` with these arguments in this MPI's environment, in a folder. A command that starts a
    /// program waits for the turn of its job.
    pub fn refrain_in<I, S>(&self, folder: &Path, args: I) -> Outcome
    where
        I: IntoIterator<Item = S>,
        S: AsRef<OsStr>,
    {
        let args: Vec<S> = args.into_iter().collect();
        let ranks = ranks_in(&args);
        let mut command = self.command(refrain_binary());
        command.args(args).current_dir(folder);
        let _turn = (ranks > 0).then(|| turn_of(&self.name, ranks));
        job::execute(&mut command, DEFAULT_TIMEOUT)
    }

    /// A command that runs in this MPI's environment. Waiting ranks leave the cores to other tests.
    pub fn command(&self, program: impl AsRef<OsStr>) -> Command {
        let mut command = Command::new(script());
        command.env("REFRAIN_RANKS_NAP", "1").arg(&self.name).arg(program);
        command
    }
}

fn script() -> PathBuf {
    workspace().join("scripts/mpi")
}

fn ask(args: &[&str]) -> String {
    let output = Command::new(script()).args(args).output().expect("scripts/mpi can be run");
    assert!(
        output.status.success(),
        "scripts/mpi {args:?} failed\n{}",
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8(output.stdout).expect("scripts/mpi writes UTF-8")
}

fn family(name: &str) -> Family {
    match ask(&["--family", name]).trim() {
        "mpich" => Family::Mpich,
        "openmpi" => Family::OpenMpi,
        "abi" => Family::StandardAbi,
        other => panic!("scripts/mpi names an unknown family: {other}"),
    }
}

fn compiler(source: &Path) -> &'static str {
    match source.extension().and_then(OsStr::to_str) {
        Some("c") => "mpicc",
        Some("cpp") => "mpicxx",
        Some("f90" | "F90") => "mpifort",
        _ => panic!("{}: a victim ends in .c, .cpp, .f90 or .F90", source.display()),
    }
}

fn executable_name(source: &Path, flags: &[&str]) -> String {
    let stem = source.file_stem().and_then(OsStr::to_str).expect("victims have plain names");
    if flags.is_empty() {
        return stem.to_owned();
    }
    let mut hasher = DefaultHasher::new();
    flags.hash(&mut hasher);
    format!("{stem}-{:016x}", hasher.finish())
}

/// When the source, or a header it may include, was last changed.
fn newest(victims: &Path, source: &Path) -> SystemTime {
    let source_time =
        modified(source).unwrap_or_else(|| panic!("there is no victim {}", source.display()));
    let mut newest = source_time;
    for entry in fs::read_dir(victims).expect("tests/victims can be read") {
        let path = entry.expect("tests/victims can be read").path();
        if path.extension().is_some_and(|extension| extension == "h") {
            newest = newest.max(modified(&path).unwrap_or(source_time));
        } else {
            assert!(
                path.file_stem() != source.file_stem() || path == source,
                "{} and {} would share one executable",
                path.display(),
                source.display()
            );
        }
    }
    newest
}

fn modified(path: &Path) -> Option<SystemTime> {
    path.metadata().and_then(|metadata| metadata.modified()).ok()
}
