//! `refrain proxy`: the trace of a generated program is the trace that it comes from.

use refrain_testing::{Mpi, Outcome, refrain, refrain_binary, require_mpi, skip, workspace};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// How long one step may take.
const LIMIT: Duration = Duration::from_secs(60);

/// The programs of the table: a victim or an example, its ranks, and its arguments.
const PROGRAMS: [(&str, usize, &[&str]); 52] = [
    ("matrix_point_to_point.c", 2, &[]),
    ("matrix_completion.c", 2, &[]),
    ("matrix_collectives.c", 3, &[]),
    ("matrix_communicators.c", 3, &[]),
    ("matrix_datatypes.c", 1, &[]),
    ("matrix_windows.c", 2, &[]),
    ("matrix_files.c", 2, &[]),
    ("matrix_callbacks.c", 2, &[]),
    ("matrix_threads.c", 2, &[]),
    ("matrix_large_counts.c", 2, &[]),
    ("matrix_outside.c", 2, &[]),
    ("matrix_sessions.c", 2, &[]),
    ("matrix_objects.cpp", 2, &[]),
    ("coverage_point_to_point.c", 2, &[]),
    ("coverage_completion.c", 2, &[]),
    ("coverage_collectives.c", 3, &[]),
    ("coverage_neighbors.c", 3, &[]),
    ("coverage_communicators.c", 4, &[]),
    ("coverage_datatypes.c", 2, &[]),
    ("coverage_windows.c", 2, &[]),
    ("coverage_files.c", 2, &[]),
    ("coverage_objects.c", 2, &[]),
    ("coverage_removed.c", 2, &[]),
    ("coverage_errors.c", 2, &[]),
    ("coverage_environment.c", 2, &[]),
    ("coverage_tools.c", 2, &[]),
    ("coverage_sessions.c", 2, &[]),
    ("coverage_processes.c", 2, &[]),
    ("coverage_spawn.c", 2, &[]),
    ("hello.c", 2, &[]),
    ("allocations.c", 2, &[]),
    ("barriers.c", 2, &[]),
    ("buffers.c", 2, &[]),
    ("callbacks.c", 2, &[]),
    ("callbacks_in_finalize.c", 2, &[]),
    ("communicators.c", 4, &[]),
    ("completed_receives.c", 2, &[]),
    ("file_status.c", 2, &[]),
    ("ignored_statuses.c", 2, &[]),
    ("large_arguments.c", 2, &[]),
    ("many_ranks.c", 8, &[]),
    ("many_windows.c", 2, &[]),
    ("polls.c", 2, &[]),
    ("scattered_tags.c", 2, &[]),
    ("statuses.c", 2, &[]),
    ("threads.c", 2, &[]),
    ("order_master.c", 4, &[]),
    ("order_montecarlo.c", 4, &[]),
    ("order_iprobe.c", 4, &[]),
    ("order_waitany.c", 4, &[]),
    ("order_jacobi.c", 4, &[]),
    ("stencil2d.c", 9, &["30"]),
];

/// What became of a program.
enum Result {
    /// The traces are equal.
    Equal,
    /// This MPI cannot run the program.
    Absent,
    /// Calls are refused: which.
    Refused(String),
    /// Something else.
    Different(String),
}

fn run(mpi: &Mpi, folder: &Path, program: impl AsRef<std::ffi::OsStr>, words: &[&str]) -> Outcome {
    let run = mpi.run(1).program(program.as_ref()).bare().args(words);
    run.current_dir(folder).timeout(LIMIT).output()
}

fn compile(mpi: &Mpi, source: &str, folder: &Path) -> Option<PathBuf> {
    let victims = workspace().join("tests/victims");
    let example = workspace().join("examples").join(source);
    let file = if example.exists() { example } else { victims.join(source) };
    let compiler = if source.ends_with(".cpp") { "mpicxx" } else { "mpicc" };
    let (file, include) = (file.to_str()?, format!("-I{}", victims.to_str()?));
    let words = ["-O1", "-g", "-w", "-pthread", &include, "-o", "program", file, "-lm"];
    run(mpi, folder, compiler, &words).is_success().then(|| folder.join("program"))
}

fn trace(mpi: &Mpi, folder: &Path, to: &str, ranks: usize, words: &[&str]) -> Outcome {
    let ranks = ranks.to_string();
    let words = [&["trace", "-o", to, "--", "mpirun", "-n", &ranks], words].concat();
    run(mpi, folder, refrain_binary(), &words)
}

/// Generates the program of a trace under one MPI, traces it under another, and compares the traces.
fn fixed_point(
    mpis: [&Mpi; 2],
    folder: &Path,
    program: &str,
    ranks: usize,
    args: &[&str],
) -> Result {
    let first = |outcome: &Outcome| {
        let all = format!("{}\n{}", outcome.stdout, outcome.stderr);
        let line = all.lines().find(|line| line.contains("equal, then") || line.contains("error"));
        line.or(all.lines().find(|line| !line.is_empty())).unwrap_or_default().to_owned()
    };
    let Some(path) = compile(mpis[0], program, folder) else { return Result::Absent };
    let words = [&[path.to_str().expect("a path")], args].concat();
    let traced = trace(mpis[0], folder, "original.refrain", ranks, &words);
    if traced.timed_out || !folder.join("original.refrain").exists() {
        return Result::Absent;
    }
    let words = ["proxy", "original.refrain", "-o", "proxy"];
    let generated = run(mpis[0], folder, refrain_binary(), &words);
    if generated.code == 1 && generated.stderr.contains("cannot reproduce") {
        let calls = generated.stderr.lines().filter_map(|line| line.strip_prefix("refrain:   "));
        return Result::Refused(calls.collect::<Vec<_>>().join(", "));
    }
    if !generated.is_success() {
        return Result::Different(first(&generated));
    }
    let folder_of_proxy = folder.join("proxy");
    let built = run(
        mpis[1],
        &folder_of_proxy,
        "make",
        &[
            "-s",
            "CFLAGS=-O1 -g -Wall -Wextra -Wno-stringop-overflow -Wno-stringop-overread -Werror",
        ],
    );
    if !built.is_success() {
        return Result::Different(first(&built));
    }
    let again = trace(mpis[1], &folder_of_proxy, "../proxy.refrain", ranks, &["./proxy"]);
    if again.timed_out || !folder.join("proxy.refrain").exists() {
        return Result::Different(format!("the program hangs: {}", first(&again)));
    }
    let compared = refrain([
        "diff".as_ref(),
        folder.join("original.refrain").as_os_str(),
        folder.join("proxy.refrain").as_os_str(),
    ]);
    match compared.code {
        0 => Result::Equal,
        _ => Result::Different(first(&compared)),
    }
}

fn assert_fixed_point(mpis: [&Mpi; 2], program: &str, ranks: usize, args: &[&str]) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let who = format!("{program} from {} to {}", mpis[0].name(), mpis[1].name());
    match fixed_point(mpis, folder.path(), program, ranks, args) {
        Result::Equal => {}
        Result::Absent => panic!("{who}: the program does not run"),
        Result::Refused(calls) => panic!("{who}: refused: {calls}"),
        Result::Different(what) => panic!("{who}: {what}"),
    }
}

#[test]
fn the_trace_of_a_proxy_is_the_trace_that_it_comes_from() {
    for mpi in ["mpich-4.0", "openmpi-4.1"] {
        if let Some(mpi) = require_mpi(mpi) {
            assert_fixed_point([&mpi, &mpi], "stencil2d.c", 4, &["10"]);
            assert_fixed_point([&mpi, &mpi], "matrix_collectives.c", 3, &[]);
            assert_fixed_point([&mpi, &mpi], "order_waitany.c", 4, &[]);
        }
    }
}

fn golden(name: &str) -> PathBuf {
    workspace().join("crates/refrain/tests/golden").join(name)
}

fn generate(trace: &Path, folder: &Path, options: &[&str]) -> Outcome {
    let words = ["proxy", trace.to_str().unwrap(), "-o", folder.to_str().unwrap()];
    refrain([&words, options].concat())
}

#[test]
fn calls_that_never_returned_are_refused_unless_they_are_left_out() {
    let folder = tempfile::tempdir().unwrap();
    let proxy = folder.path().join("proxy");
    let refused = generate(&golden("hung.refrain"), &proxy, &[]);
    assert_eq!(refused.code, 1, "{refused}");
    assert!(refused.stderr.contains("never returned"), "{refused}");
    assert!(!proxy.exists(), "nothing is written");
    generate(&golden("hung.refrain"), &proxy, &["--force"]).expect_success();
    let readme = std::fs::read_to_string(proxy.join("README.md")).unwrap();
    assert!(
        readme.contains("## What is left out") && readme.contains("never returned"),
        "{readme}"
    );
}

#[test]
fn loops_do_not_make_a_proxy_longer() {
    let folder = tempfile::tempdir().unwrap();
    let said = generate(&golden("nas-lu.refrain"), folder.path(), &[]).expect_success();
    let program = std::fs::read_to_string(folder.path().join("proxy.c")).unwrap();
    let words: Vec<&str> = said.stderr.split_whitespace().collect();
    let calls = words.iter().position(|word| word.starts_with("call")).map(|at| words[at - 1]);
    let calls: usize = calls.unwrap().replace(',', "").parse().unwrap();
    assert!(program.lines().count() * 20 < calls, "{} lines: {said}", program.lines().count());
    assert!(program.contains("for (long i = 0;"), "there are loops");
}

#[test]
fn two_traces_are_compared_call_by_call() {
    let (stencil, other) = (golden("stencil.refrain"), golden("sites-times.refrain"));
    let diff = |left: &Path, right: &Path, options: &[&str]| {
        let words = ["diff", left.to_str().unwrap(), right.to_str().unwrap()];
        refrain([&words, options].concat())
    };
    let same = diff(&stencil, &stencil, &[]).expect_success();
    assert_eq!(same.stdout, "no difference\n");
    let differs = diff(&stencil, &other, &[]);
    assert!(differs.code == 1 || differs.code == 125, "{differs}");
}

/// The table of `make proxies`.
#[test]
fn nearly_every_program_has_a_fixed_point() {
    if std::env::var_os("REFRAIN_PROXIES").is_none() {
        return skip("`make proxies` runs it");
    }
    for name in ["mpich-4.0", "openmpi-4.1"] {
        let Some(mpi) = require_mpi(name) else { continue };
        let (mut equal, mut tried) = (0, 0);
        for (program, ranks, args) in PROGRAMS {
            let folder = tempfile::tempdir().expect("a temporary folder");
            let result = fixed_point([&mpi, &mpi], folder.path(), program, ranks, args);
            let text = match &result {
                Result::Equal => "equal".to_owned(),
                Result::Absent => "does not run under this MPI".to_owned(),
                Result::Refused(calls) => format!("refused: {calls}"),
                Result::Different(what) => format!("differs: {what}"),
            };
            tried += usize::from(matches!(result, Result::Equal | Result::Different(_)));
            equal += usize::from(matches!(result, Result::Equal));
            println!("{name:12}  {program:28} {ranks:2} ranks  {text}");
        }
        println!("{name}: {equal} of {tried} programs have a fixed point");
        assert!(equal * 100 >= tried * 95, "{name}: only {equal} of {tried}");
    }
}
