//! The programs of `tests/memory`, plain and recorded.

use std::ffi::OsString;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use refrain_testing::{Outcome, refrain, refrain_binary, workspace};

/// The text of a program.
pub fn source(name: &str) -> String {
    fs::read_to_string(workspace().join("tests/memory").join(name)).expect("a program's source")
}

/// Compiles a program of `tests/memory` with optimisation, debug information and OpenMP.
pub fn compile(name: &str) -> PathBuf {
    compile_with(name, &[])
}

/// The same with further options.
pub fn compile_with(name: &str, options: &[&str]) -> PathBuf {
    let source = workspace().join("tests/memory").join(name);
    let folder = workspace().join("target/victims/memory");
    let executable = folder.join(format!("{}{}", name.replace('.', "_"), options.concat()));
    let modified = |path: &Path| fs::metadata(path).and_then(|m| m.modified()).ok();
    if modified(&executable) > modified(&source) {
        return executable;
    }
    let compiler = match source.extension().and_then(|e| e.to_str()) {
        Some("f90") => "gfortran",
        Some("cpp") => "g++",
        _ => "gcc",
    };
    // Compiled to a unique name, then renamed: other tests may be compiling or running it.
    fs::create_dir_all(&folder).expect("target/victims can be made");
    let build = tempfile::tempdir_in(&folder).expect("a folder to compile in");
    let fresh = build.path().join("program");
    let output = Command::new(compiler)
        .args(["-O2", "-g", "-fopenmp", "-o"])
        .arg(&fresh)
        .arg(&source)
        .args(options)
        .arg("-lm")
        .current_dir(build.path())
        .output()
        .unwrap_or_else(|error| panic!("cannot run {compiler}: {error}"));
    let words = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{name} does not compile\n{words}");
    fs::rename(&fresh, &executable).expect("the executable can be put in place");
    executable
}

fn outcome(mut command: Command) -> Outcome {
    let folder = tempfile::tempdir().expect("a folder");
    let (out, err) = (folder.path().join("out"), folder.path().join("err"));
    let files = (File::create(&out).unwrap(), File::create(&err).unwrap());
    let started = std::time::Instant::now();
    let status = command
        .stdin(Stdio::null())
        .stdout(files.0)
        .stderr(files.1)
        .env("OMP_NUM_THREADS", "4")
        .status()
        .unwrap_or_else(|error| panic!("cannot start {command:?}: {error}"));
    let code = std::os::unix::process::ExitStatusExt::signal(&status).map(|signal| 128 + signal);
    let text = |path| String::from_utf8_lossy(&fs::read(path).unwrap()).into_owned();
    Outcome {
        stdout: text(&out),
        stderr: text(&err),
        code: code.or(status.code()).unwrap_or(-1),
        timed_out: false,
        elapsed: started.elapsed(),
        command: format!("{command:?}"),
    }
}

/// Runs a program without Refrain.
pub fn plain(program: &Path, arguments: &[&str]) -> Outcome {
    let mut command = Command::new(program);
    command.args(arguments);
    outcome(command)
}

/// Runs a program under `refrain mem`. Returns the trace, and the folder it is in.
pub fn trace(
    program: &Path,
    arguments: &[&str],
    options: &[&str],
) -> (Outcome, PathBuf, tempfile::TempDir) {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("trace.refrain");
    (outcome(recording(program, arguments, options, &file)), file, folder)
}

fn recording(program: &Path, arguments: &[&str], options: &[&str], file: &Path) -> Command {
    let mut command = Command::new(refrain_binary());
    command.args(["mem", "--frontend", "dynamorio", "-o"]).arg(file).args(options);
    command.arg("--").arg(program).args(arguments);
    command
}

/// A program that is running under `refrain mem`.
pub struct Running {
    child: Child,
    folder: PathBuf,
}

/// Starts a program under `refrain mem`, in a folder that also names the job.
pub fn start(program: &Path, arguments: &[&str], folder: &Path) -> Running {
    let mut command = recording(program, arguments, &[], &folder.join("trace.refrain"));
    let file = |name| File::create(folder.join(name)).unwrap();
    command.stdin(Stdio::null()).stdout(file("out")).stderr(file("err"));
    let child = command.env("REFRAIN_TEST_FOLDER", folder).spawn().expect("refrain can be run");
    Running { child, folder: folder.to_owned() }
}

impl Running {
    /// Whether it has ended.
    pub fn has_ended(&mut self) -> bool {
        self.child.try_wait().expect("a child can be waited for").is_some()
    }

    /// Waits for its end.
    pub fn wait_with_output(&mut self) -> Outcome {
        let started = std::time::Instant::now();
        let status = self.child.wait().expect("a child can be waited for");
        let text =
            |name| String::from_utf8_lossy(&fs::read(self.folder.join(name)).unwrap()).into_owned();
        Outcome {
            stdout: text("out"),
            stderr: text("err"),
            code: status.code().unwrap_or(-1),
            timed_out: false,
            elapsed: started.elapsed(),
            command: "refrain mem".into(),
        }
    }
}

fn on(file: &Path, first: &[&str], options: &[&str]) -> String {
    let mut words: Vec<OsString> = first.iter().map(OsString::from).collect();
    words.push(file.into());
    words.extend(options.iter().map(OsString::from));
    refrain(words).expect_success().stdout
}

/// The output of `refrain info --json`.
pub fn info(file: &Path) -> serde_json::Value {
    serde_json::from_str(&on(file, &["info", "--json"], &[])).expect("JSON")
}

/// The output of `refrain show`.
pub fn show(file: &Path, options: &[&str]) -> String {
    on(file, &["show"], options)
}

/// Checks a trace against its raw records. Returns how many references were compared.
pub fn verified(file: &Path) -> u64 {
    let words = on(file, &["verify"], &[]);
    let line = words.lines().find(|line| line.contains("compared")).expect(&words);
    assert!(line.contains(" 0 different"), "{words}");
    let number = line.split(' ').next().unwrap_or_default().replace(',', "");
    number.parse().expect(&words)
}

/// A line of `refrain show`.
pub struct Reference {
    /// The thread, as `T2`.
    pub thread: String,
    /// `load` or `store`.
    pub kind: String,
    /// The size in bytes.
    pub size: u32,
    /// The address of its first byte.
    pub address: u64,
}

/// All references of a trace of one process.
pub fn references(file: &Path) -> Vec<Reference> {
    let parse = |line: &str| {
        let mut words = line.split_whitespace();
        let thread = words.next()?.to_owned();
        let kind = words.next()?.to_owned();
        let size = words.next()?.parse().ok()?;
        let address = words.next()?.strip_prefix("0x")?;
        let address = u64::from_str_radix(address, 16).ok()?;
        Some(Reference { thread, kind, size, address })
    };
    show(file, &[]).lines().filter_map(parse).collect()
}
