//! Memory traces of unmodified programs: their slowdown, the cost of a reference, the front end's share of it,
//! and the sizes of traces.
//!
//! The front end alone is measured by recording from a function that is never called: it writes all references,
//! but no compressor reads them.

use crate::Figure;
use refrain_testing::{refrain_binary, workspace};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

/// How many runs of each kind alternate; the fastest counts.
const ROUNDS: usize = 3;
/// Seconds that the paper needed for this (ScalaMemTrace §6.2).
const PAPER_MATMUL_48: f64 = 26.0;

/// A program to be run plain and traced.
pub struct Job<'a> {
    /// The program.
    pub program: &'a Path,
    /// Its arguments.
    pub args: &'a [&'a str],
    /// Its number of threads.
    pub threads: u32,
}

impl Job<'_> {
    /// Seconds without Refrain.
    pub fn plain(&self) -> f64 {
        let mut command = Command::new(self.program);
        command.args(self.args);
        self.seconds(command)
    }

    /// Seconds with `refrain mem`.
    pub fn traced(&self, options: &[&str], trace: &Path) -> f64 {
        let mut command = Command::new(refrain_binary());
        command.args(["mem", "--frontend", "dynamorio"]).args(options).arg("-o").arg(trace);
        command.arg("--").arg(self.program).args(self.args);
        self.seconds(command)
    }

    fn seconds(&self, mut command: Command) -> f64 {
        command.env("OMP_NUM_THREADS", self.threads.to_string());
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let start = Instant::now();
        let status = command.status().expect("a program that can be run");
        assert!(status.success(), "{command:?} failed: {status}");
        start.elapsed().as_secs_f64()
    }
}

/// Measures; returns nothing if DynamoRIO is not installed.
pub fn measure() -> (String, Vec<Figure>) {
    if !workspace().join("target/dynamorio/libdynamorio.so").is_file() {
        eprintln!("no memory traces: there is no DynamoRIO; see scripts/dynamorio.sh");
        return (String::new(), Vec::new());
    }
    let folder = tempfile::tempdir().expect("a temporary folder");
    let folder = folder.path();
    let (matmul, spmv) = (compile(folder, "matmul"), compile(folder, "spmv"));
    let cycles = compile(folder, "vcycle");
    let mut figures = Vec::new();
    let regular = Job { program: &matmul, args: &["400"], threads: 4 };
    figures.extend(speed(folder, "matmul, N=400, 4 threads", &regular, Some(60.0), 12.5));
    let indirect = Job { program: &spmv, args: &["100000", "5"], threads: 4 };
    figures.extend(speed(folder, "sparse matrix-vector, 4 threads", &indirect, None, 125.0));
    let unordered = Job { program: &cycles, args: &["30000", "5"], threads: 4 };
    figures.extend(speed(folder, "V-cycles, 4 threads", &unordered, None, 125.0));
    figures.push(paper(folder, &matmul));
    figures.extend(crate::irregular::measure(folder, ROUNDS));
    let mut tables = sizes(folder, &matmul, &mut figures);
    tables += &stacks(folder, &matmul);
    tables += &stages(folder, &[("matmul, N=400", &regular), ("V-cycles", &unordered)]);
    (tables, figures)
}

fn compile(folder: &Path, name: &str) -> PathBuf {
    let program = folder.join(name);
    let status = Command::new("gcc")
        .args(["-O2", "-g", "-fopenmp", "-o"])
        .arg(&program)
        .arg(workspace().join("tests/memory").join(format!("{name}.c")))
        .arg("-lm")
        .status();
    assert!(status.is_ok_and(|s| s.success()), "{name}.c does not compile");
    program
}

/// A number of `refrain info --json`.
pub fn number(trace: &Path, name: &str) -> f64 {
    let output = Command::new(refrain_binary()).args(["info", "--json"]).arg(trace).output();
    let text = String::from_utf8(output.expect("refrain can be run").stdout).expect("text");
    let key = format!("\"{name}\":");
    let at = text.find(&key).unwrap_or_else(|| panic!("no {name} in {text}")) + key.len();
    let digits: String = text[at..].chars().take_while(char::is_ascii_digit).collect();
    digits.parse().expect("a number")
}

fn speed(folder: &Path, name: &str, job: &Job<'_>, slower: Option<f64>, cost: f64) -> Vec<Figure> {
    let trace = folder.join("speed.refrain");
    let (mut plain, mut front, mut whole) = (f64::INFINITY, f64::INFINITY, f64::INFINITY);
    for _ in 0..ROUNDS {
        plain = plain.min(job.plain());
        front = front.min(job.traced(&["--from", "never_called"], &folder.join("front.refrain")));
        whole = whole.min(job.traced(&[], &trace));
    }
    let references = number(&trace, "references");
    let seconds = format!(
        "{plain:.2} s plain, {front:.2} s front end alone, {whole:.2} s in all, \
         {:.1} M references, {:.1} M/s",
        references / 1e6,
        references / whole / 1e6
    );
    let cost = Figure {
        name: format!("{name}: a reference, all in all"),
        detail: format!("front end {:.0} % of it", 100.0 * (front / whole).min(1.0)),
        value: 1e9 * whole / references,
        bound: cost,
        unit: "ns",
    };
    let slower = Figure {
        name: format!("{name}: slower"),
        detail: seconds,
        value: whole / plain,
        bound: slower.unwrap_or(f64::INFINITY),
        unit: "times",
    };
    vec![slower, cost]
}

fn paper(folder: &Path, matmul: &Path) -> Figure {
    let job = Job { program: matmul, args: &["48"], threads: 4 };
    let trace = folder.join("paper.refrain");
    let least = (0..ROUNDS).map(|_| job.traced(&[], &trace)).fold(f64::INFINITY, f64::min);
    Figure {
        name: "matmul, N=48, 4 threads: the whole run".into(),
        detail: format!("{} bytes; ScalaMemTrace: {PAPER_MATMUL_48} s", number(&trace, "bytes")),
        value: least,
        bound: PAPER_MATMUL_48,
        unit: "s",
    }
}

/// Sizes of whole traces over threads and over N.
fn sizes(folder: &Path, matmul: &Path, figures: &mut Vec<Figure>) -> String {
    let trace = folder.join("size.refrain");
    let bytes = |n: &str, threads: u32| {
        Job { program: matmul, args: &[n], threads }.traced(&[], &trace);
        number(&trace, "bytes")
    };
    let mut table = String::from("matmul, bytes of the trace\n  threads, N=96   ");
    let over_threads: Vec<f64> = [1, 2, 4, 8, 16, 32].map(|t| bytes("96", t)).to_vec();
    let over_sizes: Vec<f64> = ["48", "100", "200", "400"].map(|n| bytes(n, 4)).to_vec();
    // Writing to a String cannot fail.
    for (threads, bytes) in [1, 2, 4, 8, 16, 32].iter().zip(&over_threads) {
        let _ = write!(table, "{threads}: {bytes}  ");
    }
    table += "\n  N, 4 threads    ";
    for (n, bytes) in ["48", "100", "200", "400"].iter().zip(&over_sizes) {
        let _ = write!(table, "{n}: {bytes}  ");
    }
    table.push('\n');
    let largest = over_threads.iter().chain(&over_sizes).copied().fold(0.0, f64::max);
    figures.push(Figure {
        name: "matmul, up to 32 threads and N=400: the largest trace".into(),
        detail: "code, segments and start-up included".into(),
        value: largest,
        bound: 2048.0,
        unit: "bytes",
    });
    table
}

/// How long the stages of compression take (ScalaMemTrace §6.3).
fn stages(folder: &Path, jobs: &[(&str, &Job<'_>)]) -> String {
    let trace = folder.join("stages.refrain");
    let mut table = String::from("stages of compression, seconds\n");
    for (name, job) in jobs {
        job.traced(&[], &trace);
        let [threads, thread, process] =
            ["intra_thread", "inter_thread", "inter_process"].map(|stage| seconds(&trace, stage));
        let _ = writeln!(
            table,
            "  {name:<16} within threads {threads:.3}, threads {thread:.4}, processes {process:.4}"
        );
    }
    table
}

/// A time of `refrain info --json`.
fn seconds(trace: &Path, name: &str) -> f64 {
    let output = Command::new(refrain_binary()).args(["info", "--json"]).arg(trace).output();
    let text = String::from_utf8(output.expect("refrain can be run").stdout).expect("text");
    let at = text.split(&format!("\"{name}\":")).nth(1);
    let at = at.unwrap_or_else(|| panic!("no {name} in {text}"));
    let end = at.find([',', '}']).unwrap_or(at.len());
    at[..end].trim().parse().expect("a time")
}

/// The cost of stack signatures (ScalaMemTrace §6.2).
fn stacks(folder: &Path, matmul: &Path) -> String {
    let job = Job { program: matmul, args: &["200"], threads: 4 };
    let trace = folder.join("stacks.refrain");
    let mut table = String::from("matmul, N=200, stack signatures\n");
    for (option, name) in [
        ("none", "none"),
        ("function", "per function"),
        ("instruction", "walked at every instruction"),
    ] {
        let least = (0..ROUNDS)
            .map(|_| job.traced(&["--stacks", option], &trace))
            .fold(f64::INFINITY, f64::min);
        let _ = writeln!(table, "  {name:<28} {least:.2} s");
    }
    table
}
