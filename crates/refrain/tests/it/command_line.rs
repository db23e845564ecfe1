//! The command line: the summary, exit codes, and errors that say what to do.

use crate::snapshots::golden;
use refrain_testing::{Mpi, Outcome, refrain, refrain_binary, require_mpi};
use std::path::Path;
use std::process::Command;

fn trace(mpi: &Mpi, folder: &Path, command: &[&str]) -> Outcome {
    mpi.refrain_in(folder, [&["trace", "--"], command].concat())
}

/// Copies a program to the folder, under this name.
fn install(mpi: &Mpi, victim: &str, folder: &Path, name: &str) {
    std::fs::copy(mpi.compile(victim), folder.join(name)).unwrap();
}

#[test]
fn a_run_ends_with_three_lines_and_a_file_named_after_the_program() {
    let (mpi, folder) = (Mpi::any(), tempfile::tempdir().unwrap());
    install(&mpi, "hello.c", folder.path(), "hello");
    let outcome = trace(&mpi, folder.path(), &["mpirun", "-n", "2", "./hello"]);
    assert_eq!(outcome.code, 0, "{}", outcome.stderr);
    let lines: Vec<_> = outcome.stderr.lines().filter(|l| l.starts_with("refrain: ")).collect();
    assert_eq!(lines.len(), 3, "{lines:?}");
    assert!(lines[0].starts_with("refrain: 2 ranks, "), "{lines:?}");
    assert!(lines[1].contains("every rank ended by MPI_Finalize"), "{lines:?}");
    assert!(lines[2].contains("refrain show hello.refrain"), "{lines:?}");
    assert!(folder.path().join("hello.refrain").is_file());
    assert!(!folder.path().join("hello.refrain.parts").exists(), "parts are removed");

    // The trace of a script is named after the script.
    std::fs::write(folder.path().join("go.sh"), "exec ./hello\n").unwrap();
    trace(&mpi, folder.path(), &["mpirun", "-n", "1", "bash", "go.sh"]);
    assert!(folder.path().join("go.refrain").is_file());

    // A second run does not overwrite the first.
    trace(&mpi, folder.path(), &["mpirun", "-n", "2", "./hello"]);
    assert!(folder.path().join("hello.2.refrain").is_file());
}

#[test]
fn a_program_that_does_not_exist_is_named() {
    let (mpi, folder) = (Mpi::any(), tempfile::tempdir().unwrap());
    for command in [&["mpirun", "-n", "2", "./helo"][..], &["./helo"]] {
        let outcome = trace(&mpi, folder.path(), command);
        assert_eq!(outcome.code, 127);
        assert!(outcome.stderr.contains("`./helo` not found"), "{}", outcome.stderr);
    }
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0, "nothing is left behind");
}

#[test]
fn a_program_without_mpi_is_reported_to_have_made_no_call() {
    let folder = tempfile::tempdir().unwrap();
    let outcome = trace(&Mpi::any(), folder.path(), &["/bin/echo", "hello"]);
    assert_eq!((outcome.code, outcome.stdout.as_str()), (0, "hello\n"));
    assert!(outcome.stderr.contains("no MPI call was recorded"), "{}", outcome.stderr);
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
}

#[test]
fn a_launcher_that_failed_is_named_with_its_exit_code_before_anything_else() {
    let (mpi, folder) = (Mpi::any(), tempfile::tempdir().unwrap());
    let launcher = folder.path().join("mpirun");
    std::fs::write(&launcher, "#!/bin/sh\necho no such host >&2\nexit 213\n").unwrap();
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(&launcher, mode).unwrap();
    let launcher = launcher.to_str().unwrap();
    let outcome = trace(&mpi, folder.path(), &[launcher, "-n", "2", "/bin/true"]);
    assert_eq!(outcome.code, 213, "{outcome}");
    let said = &outcome.stderr;
    let failure = said.find("mpirun exited with code 213").unwrap_or_else(|| panic!("{said}"));
    assert!(said.find("no MPI call was recorded").is_some_and(|at| at > failure), "{said}");
    assert!(!said.contains("LD_PRELOAD"), "{said}");
}

#[test]
fn an_output_that_cannot_be_written_is_refused_before_the_program_runs() {
    let (mpi, folder) = (Mpi::any(), tempfile::tempdir().unwrap());
    install(&mpi, "hello.c", folder.path(), "hello");
    for place in ["/nowhere/at/all.refrain", "/proc/x.refrain", "."] {
        let args = ["trace", "-o", place, "--", "mpirun", "-n", "1", "./hello"];
        let outcome = mpi.refrain_in(folder.path(), args);
        assert_eq!(outcome.code, 125, "{place}: {}", outcome.stderr);
        assert_eq!(outcome.stdout, "", "{place}: the program must not run");
        assert!(outcome.stderr.contains("-o"), "{place}: no remedy in {}", outcome.stderr);
    }
}

#[test]
fn an_unknown_option_of_the_launcher_asks_for_a_marker() {
    let (mpi, folder) = (Mpi::any(), tempfile::tempdir().unwrap());
    install(&mpi, "hello.c", folder.path(), "hello");
    let outcome = trace(&mpi, folder.path(), &["mpirun", "--weird", "3", "./hello"]);
    assert_eq!(outcome.code, 125);
    assert!(outcome.stderr.contains("--weird"), "{}", outcome.stderr);
    assert!(outcome.stderr.contains("put `--` before the program"), "{}", outcome.stderr);
}

#[test]
fn leftover_parts_are_never_overwritten_and_can_be_merged() {
    let (mpi, folder) = (Mpi::any(), tempfile::tempdir().unwrap());
    install(&mpi, "hello.c", folder.path(), "hello");
    let parts = folder.path().join("run.refrain.parts");
    std::fs::create_dir(&parts).unwrap();
    let agent = refrain_binary().with_file_name("librefrain_agent.so");
    let run = mpi
        .command("env")
        .arg(format!("REFRAIN_PARTS={}", parts.display()))
        .arg(format!("LD_PRELOAD={}", agent.display()))
        .arg("./hello")
        .current_dir(folder.path())
        .status();
    assert!(run.expect("hello runs").success());

    let args = ["trace", "-o", "run.refrain", "--", "mpirun", "-n", "1", "./hello"];
    let refused = mpi.refrain_in(folder.path(), args);
    assert_eq!(refused.code, 125);
    assert!(refused.stderr.contains("refrain merge"), "{}", refused.stderr);

    let merged = mpi.refrain_in(folder.path(), ["merge", "run.refrain.parts"]);
    assert_eq!(merged.code, 0, "{}", merged.stderr);
    let shown = mpi.refrain_in(folder.path(), ["show", "run.refrain"]);
    assert!(shown.stdout.contains("MPI_Init("), "{}", shown.stdout);
    assert!(parts.exists(), "merge leaves the parts where they are");
}

#[test]
fn files_that_are_not_traces_get_a_clear_error() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("x.refrain");
    std::fs::write(&file, "not a trace").unwrap();
    for command in ["show", "stats"] {
        let outcome = refrain([command.as_ref(), file.as_os_str()]);
        assert_eq!(outcome.code, 125);
        assert!(outcome.stderr.contains("not a Refrain trace"), "{}", outcome.stderr);
    }
    let outcome = refrain(["show", "/nowhere.refrain"]);
    assert!(outcome.stderr.contains("/nowhere.refrain"), "{}", outcome.stderr);
}

#[test]
fn a_reader_that_closes_the_pipe_early_is_no_error() {
    let (mpi, folder) = (Mpi::any(), tempfile::tempdir().unwrap());
    install(&mpi, "hello.c", folder.path(), "hello");
    trace(&mpi, folder.path(), &["mpirun", "-n", "2", "./hello"]);
    let pipeline = format!("{} show hello.refrain | head -n 1", refrain_binary().display());
    let output = Command::new("bash")
        .args(["-o", "pipefail", "-c", &pipeline])
        .current_dir(folder.path())
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// Every command that prints, on every kind of file, into a pipe that has no reader.
#[test]
fn commands_succeed_silently_if_nobody_reads_their_output() {
    let memory = ["info", "verify", "show", "show --json", "show --structure"];
    let orders = ["info", "show", "show --json", "races", "diff"];
    let calls = ["info", "verify", "show", "show --json", "show --structure", "stats", "where"];
    let clocked = ["info", "show", "show --json", "diff"];
    let mut commands = vec![vec!["mem".to_owned(), "--flags".to_owned()]];
    for (file, of_file) in [
        ("sealed-v2", &memory[..]),
        ("particles-v2", &orders),
        ("clock-order", &clocked),
        ("stencil", &calls),
    ] {
        let path = golden(&format!("{file}.refrain")).display().to_string();
        commands.extend(of_file.iter().map(|command| {
            let files = if *command == "diff" { 2 } else { 1 };
            let words = command.split(' ').map(str::to_owned);
            words.chain(std::iter::repeat_n(path.clone(), files)).collect()
        }));
    }
    for words in commands {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let output = Command::new(refrain_binary()).args(&words).stdout(writer).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success() && said.is_empty(), "{words:?}: {} {said}", output.status);
    }
}

#[test]
fn show_selects_ranks_functions_and_numbers_of_calls() {
    let (mpi, folder) = (Mpi::any(), tempfile::tempdir().unwrap());
    install(&mpi, "hello.c", folder.path(), "hello");
    trace(&mpi, folder.path(), &["mpirun", "-n", "3", "./hello"]);
    let show =
        |args: &[&str]| mpi.refrain_in(folder.path(), [&["show", "hello.refrain"], args].concat());
    let ranks = show(&["--rank", "1-2", "--function", "init"]);
    let starts: Vec<_> = ranks.stdout.lines().map(|l| &l[..6]).collect();
    assert_eq!(starts, ["rank 1", "rank 2"]);
    assert_eq!(show(&["--limit", "2"]).stdout.lines().count(), 2);
    let matched = show(&["--rank", "0", "--function", "comm_*"]).stdout;
    assert_eq!(matched.matches("MPI_Comm_").count(), 2, "{matched}");
    for (bad, code) in
        [(["--rank", "x"], 2), (["--rank", "9"], 125), (["--function", "MPI_Sned*"], 2)]
    {
        let outcome = show(&bad);
        assert_eq!(outcome.code, code, "{bad:?}");
        assert!(outcome.stderr.contains(bad[1]), "{outcome}");
    }
}

/// How many calls of a function a trace has.
fn calls_of(mpi: &Mpi, folder: &Path, trace: &str, function: &str) -> usize {
    let shown = mpi.refrain_in(folder, ["show", trace, "--function", function]);
    shown.stdout.lines().count()
}

#[test]
fn a_child_that_forks_silently_does_not_write_into_its_parent_s_log() {
    for mpi in Mpi::installed() {
        let folder = tempfile::tempdir().unwrap();
        install(&mpi, "silent_fork.c", folder.path(), "fork");
        let outcome = trace(&mpi, folder.path(), &["mpirun", "-n", "1", "./fork"]);
        assert_eq!(outcome.code, 0, "{}: {}", mpi.name(), outcome.stderr);
        let calls = calls_of(&mpi, folder.path(), "fork.refrain", "Comm_rank");
        assert_eq!(calls, 3000, "{}", mpi.name());
    }
}

#[test]
fn a_handler_that_jumps_out_of_the_agent_does_not_end_the_log() {
    // MPICH's calls of this kind hold no lock, which a jump would leave locked.
    let Some(mpi) = require_mpi("mpich-4.0") else { return };
    let folder = tempfile::tempdir().unwrap();
    install(&mpi, "jumps_away.c", folder.path(), "jump");
    let outcome = trace(&mpi, folder.path(), &["mpirun", "-n", "1", "./jump"]);
    assert_eq!(outcome.code, 0, "{}", outcome.stderr);
    assert_eq!(calls_of(&mpi, folder.path(), "jump.refrain", "Comm_size"), 500);
}

#[test]
fn a_folder_may_have_a_name_that_is_not_utf8() {
    use std::os::unix::ffi::OsStrExt;
    let (mpi, outer) = (Mpi::any(), tempfile::tempdir().unwrap());
    let folder = outer.path().join(std::ffi::OsStr::from_bytes(b"odd\xff name"));
    std::fs::create_dir(&folder).unwrap();
    install(&mpi, "hello.c", &folder, "hello");
    let outcome = trace(&mpi, &folder, &["mpirun", "-n", "1", "./hello"]);
    assert_eq!(outcome.code, 0, "{}", outcome.stderr);
    assert_eq!(calls_of(&mpi, &folder, "hello.refrain", "Init"), 1);
}

#[test]
fn the_exit_code_is_the_program_s_even_if_nothing_can_be_printed() {
    let (mpi, folder) = (Mpi::any(), tempfile::tempdir().unwrap());
    let command = format!("{} trace -- sh -c 'exit 7' 2>/dev/full", refrain_binary().display());
    let status = mpi.command("bash").args(["-c", &command]).current_dir(folder.path()).status();
    assert_eq!(status.unwrap().code(), Some(7));
}
