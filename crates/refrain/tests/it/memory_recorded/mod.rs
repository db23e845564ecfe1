//! Programs of `tests/memory` recorded by either front end.

use refrain_testing::{Mpi, refrain_binary, require_path, workspace};
use serde_json::Value as Json;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// How references are captured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FrontEnd {
    /// By code that the compiler inserts.
    Compiled,
    /// By DynamoRIO.
    Dynamorio,
}
pub use FrontEnd::{Compiled, Dynamorio};

impl FrontEnd {
    /// The front ends that are installed. (DynamoRIO takes long to build.)
    pub fn all() -> Vec<FrontEnd> {
        let folder = std::env::var_os("REFRAIN_DYNAMORIO").map(PathBuf::from);
        let folder = folder.unwrap_or_else(|| workspace().join("target/dynamorio"));
        match require_path("dynamorio", folder.join("libdynamorio.so")) {
            Some(_) => vec![Compiled, Dynamorio],
            None => vec![Compiled],
        }
    }

    /// The value of the option `--frontend`.
    pub fn word(self) -> &'static str {
        match self {
            Compiled => "compiled",
            Dynamorio => "dynamorio",
        }
    }
}

/// Compiles a program of `tests/memory` for a front end; without instrumentation for `None`.
pub fn build(folder: &Path, victim: &str, front_end: Option<FrontEnd>) -> PathBuf {
    let compiler = match Path::new(victim).extension().and_then(OsStr::to_str) {
        Some("cpp") => "g++",
        Some("f90") => "gfortran",
        _ => "gcc",
    };
    let options = ["-O2", "-g", "-fopenmp", "-pthread"];
    build_by(&|program| Command::new(program), compiler, &options, folder, victim, front_end)
}

/// The same with an MPI.
pub fn build_with(mpi: &Mpi, folder: &Path, victim: &str, front_end: FrontEnd) -> PathBuf {
    let options = ["-O2", "-g", "-fopenmp"];
    build_by(&|program| mpi.command(program), "mpicc", &options, folder, victim, Some(front_end))
}

/// The same with another compiler and its options, run by a command.
pub fn build_by(
    command: &dyn Fn(&OsStr) -> Command,
    compiler: &str,
    options: &[&str],
    folder: &Path,
    victim: &str,
    front_end: Option<FrontEnd>,
) -> PathBuf {
    let source = workspace().join("tests/memory").join(victim);
    let word = front_end.map_or("plain", FrontEnd::word);
    let program = folder.join(format!("{}-{word}", victim.replace('.', "-")));
    let mut command = match front_end {
        Some(Compiled) => {
            let mut command = command(refrain_binary().as_os_str());
            let is_fortran = victim.ends_with(".f90");
            command.arg(if is_fortran { "fc" } else { "cc" });
            command.env(if is_fortran { "REFRAIN_FC" } else { "REFRAIN_CC" }, compiler);
            command
        }
        _ => command(compiler.as_ref()),
    };
    command.args(options).arg(source).arg("-o").arg(&program);
    succeed(command.arg("-lm"));
    program
}

/// Runs a command that must succeed.
#[track_caller]
pub fn succeed(command: &mut Command) -> Output {
    let output = run(command);
    assert!(output.status.success(), "{command:?}\n{output:?}");
    output
}

/// Runs a command.
pub fn run(command: &mut Command) -> Output {
    command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"))
}

/// A recorded program.
pub struct Recorded {
    /// The trace.
    pub trace: PathBuf,
    /// The output of the command.
    pub output: Output,
}

/// Records a program.
pub fn record(
    program: &Path,
    args: &[&str],
    front_end: FrontEnd,
    threads: usize,
    options: &[&str],
) -> Recorded {
    let trace = program.with_extension("refrain");
    let mut command = Command::new(refrain_binary());
    command.args(["mem", "--frontend", front_end.word(), "-o"]).arg(&trace).args(options);
    command.arg("--").arg(program).args(args).env("OMP_NUM_THREADS", threads.to_string());
    let output = run(&mut command);
    Recorded { trace, output }
}

impl Recorded {
    /// Runs a command on the trace. Returns whether it succeeded, and its output.
    #[track_caller]
    pub fn refrain(&self, words: &[&str]) -> (bool, String) {
        let output =
            run(Command::new(refrain_binary()).arg(words[0]).arg(&self.trace).args(&words[1..]));
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        (output.status.success(), text)
    }

    /// The output of `refrain info --json`.
    pub fn info(&self) -> Json {
        serde_json::from_str(&self.refrain(&["info", "--json"]).1).expect("info is JSON")
    }

    /// The size without raw words.
    pub fn bytes(&self) -> u64 {
        self.info()["bytes"].as_u64().expect("bytes")
    }

    /// Compares with the raw words. Returns how many references were compared.
    #[track_caller]
    pub fn verify(&self) -> u64 {
        let (is_right, text) = self.refrain(&["verify", "--json"]);
        let json: Json = serde_json::from_str(&text).expect("verify prints JSON");
        assert!(
            is_right && json["ok"] == true,
            "{}: {text}\n{:?}",
            self.trace.display(),
            self.output
        );
        assert_eq!(json["different"], 0);
        json["references_compared"].as_u64().expect("a number")
    }
}
