//! The harness itself, against real MPIs.

use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use refrain_testing::{Family, Mpi, sorted_lines, workspace};

/// A shell script that runs long enough: MPICH's launcher may die of a broken pipe if a rank that never calls
/// MPI ends before the launcher has finished starting it.
fn lasting(script: &str) -> String {
    format!("sleep 0.2; {script}")
}

/// How many living processes have this word among their arguments.
fn processes_with(argument: &str) -> usize {
    let processes = fs::read_dir("/proc").expect("/proc can be read");
    processes
        .filter_map(|entry| fs::read(entry.ok()?.path().join("cmdline")).ok())
        .filter(|arguments| {
            arguments.split(|byte| *byte == 0).any(|word| word == argument.as_bytes())
        })
        .count()
}

#[test]
fn hello_runs_with_every_mpi() {
    for mpi in Mpi::installed() {
        let hello = mpi.compile("hello.c");
        let outcome = mpi.run(4).program(&hello).output().expect_success();
        assert_eq!(
            sorted_lines(&outcome.stdout),
            ["rank 0 of 4", "rank 1 of 4", "rank 2 of 4", "rank 3 of 4"],
            "with {}\n{outcome}",
            mpi.name()
        );
        assert_eq!(outcome.stderr, "", "{} is not quiet", mpi.name());
    }
}

#[test]
fn hello_runs_without_mpirun() {
    for mpi in Mpi::installed() {
        let hello = mpi.compile("hello.c");
        let outcome = mpi.run(1).program(&hello).bare().output().expect_success();
        assert_eq!(outcome.stdout, "rank 0 of 1\n", "with {}", mpi.name());
    }
}

#[test]
fn arguments_environment_and_directory_reach_the_ranks() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let directory = directory.path().canonicalize().expect("it exists");
    let script = lasting(r#"echo "$0 $FROM_THE_TEST $PWD""#);
    for mpi in Mpi::installed() {
        let outcome = mpi
            .run(2)
            .program("sh")
            .args(["-c", &script, "an argument"])
            .env("FROM_THE_TEST", "a variable")
            .current_dir(&directory)
            .output()
            .expect_success();
        let line = format!("an argument a variable {}", directory.display());
        assert_eq!(sorted_lines(&outcome.stdout), [&line, &line], "with {}", mpi.name());
    }
}

#[test]
fn the_exit_code_is_that_of_the_program() {
    for mpi in Mpi::installed() {
        let job = |ranks| mpi.run(ranks).program("sh").args(["-c", &lasting("exit 7")]);
        assert_eq!(job(1).bare().output().code, 7, "without mpirun");
        assert_eq!(job(2).output().code, 7, "with {}", mpi.name());
    }
}

#[test]
fn a_program_killed_by_a_signal_has_the_code_a_shell_would_give() {
    let mpi = &Mpi::installed()[0];
    let job = mpi.run(1).program("sh").args(["-c", "kill -SEGV $$"]);
    assert_eq!(job.bare().output().code, 128 + 11);
}

#[test]
fn a_job_past_its_time_limit_is_killed_with_all_its_ranks() {
    for (index, mpi) in Mpi::installed().iter().enumerate() {
        let seconds = format!("98765.{}{index}", std::process::id());
        let outcome =
            mpi.run(2).program("sleep").args([&seconds]).timeout(Duration::from_secs(1)).output();
        assert!(outcome.timed_out, "with {}\n{outcome}", mpi.name());
        assert!(outcome.elapsed < Duration::from_secs(10), "{outcome}");
        assert_eq!(processes_with(&seconds), 0, "with {}", mpi.name());
    }
}

#[test]
fn a_process_that_ignores_the_end_of_its_job_is_killed_too() {
    let mpi = &Mpi::installed()[0];
    let seconds = format!("87654.{}", std::process::id());
    let outcome = mpi
        .run(1)
        .program("sh")
        .args(["-c", &format!("trap '' TERM; setsid sleep {seconds} & echo started")])
        .bare()
        .timeout(Duration::from_secs(1))
        .output();
    assert_eq!((outcome.stdout.as_str(), outcome.code), ("started\n", 0));
    assert!(outcome.timed_out, "{outcome}");
    assert_eq!(processes_with(&seconds), 0);
}

#[test]
fn large_jobs_take_turns() {
    let mpi = &Mpi::installed()[0];
    // More than half of the slots.
    let ranks = 2 * thread::available_parallelism().map_or(1, usize::from) + 1;
    let start = Instant::now();
    let alone: Duration = thread::scope(|scope| {
        let job = || {
            let job = mpi.run(ranks).program("sleep").args(["0.3"]);
            job.output().expect_success().elapsed
        };
        let jobs: Vec<_> = (0..3).map(|_| scope.spawn(job)).collect();
        jobs.into_iter().map(|job| job.join().expect("the job runs")).sum()
    });
    // If they had run at once, or if waiting for the turn counted, the sum would be larger.
    assert!(alone <= start.elapsed(), "{alone:?} in {:?}", start.elapsed());
    assert!(start.elapsed() >= Duration::from_millis(900));
}

#[test]
fn many_tests_may_compile_one_victim_at_once() {
    let mpi = &Mpi::installed()[0];
    // Flags that no other test uses, so that no other test needs the executable.
    let flags = ["-DMANY_AT_ONCE"];
    let executable = mpi.compile_with("hello.c", &flags);
    fs::remove_file(&executable).expect("it was just compiled");
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| assert_eq!(mpi.compile_with("hello.c", &flags), executable));
        }
    });
    mpi.run(1).program(&executable).output().expect_success();
}

#[test]
fn a_victim_is_not_compiled_again() {
    let mpi = &Mpi::installed()[0];
    let built = |executable: PathBuf| {
        let metadata = executable.metadata().expect("it was just compiled");
        metadata.modified().expect("Linux keeps modification times")
    };
    let first = built(mpi.compile("hello.c"));
    assert_eq!(built(mpi.compile("hello.c")), first);
}

#[test]
fn different_flags_make_different_executables() {
    let mpi = &Mpi::installed()[0];
    assert_ne!(mpi.compile("hello.c"), mpi.compile_with("hello.c", &["-g0"]));
}

#[test]
#[should_panic(expected = "there is no victim")]
fn an_unknown_victim_is_named() {
    Mpi::installed()[0].compile("no-such-victim.c");
}

#[test]
fn each_mpi_has_the_family_that_its_compiler_reports() {
    let macros = [
        (Family::OpenMpi, "OMPI_MAJOR_VERSION"),
        (Family::StandardAbi, "MPI_ABI"),
        (Family::Mpich, "MPICH_VERSION"),
    ];
    for mpi in Mpi::installed() {
        let preprocessed = Command::new(workspace().join("scripts/mpi"))
            .args([mpi.name(), "mpicc", "-E", "-dM"])
            .arg(workspace().join("tests/victims/hello.c"))
            .output()
            .expect("scripts/mpi can be run");
        let defined = String::from_utf8_lossy(&preprocessed.stdout).into_owned();
        let is_defined =
            |name: &str| defined.lines().any(|line| line.split(' ').nth(1) == Some(name));
        let (family, _) =
            macros.iter().find(|(_, name)| is_defined(name)).expect("a header with a known macro");
        assert_eq!(mpi.family(), *family, "{}", mpi.name());
    }
}

#[test]
fn an_mpi_is_found_by_its_name() {
    for mpi in Mpi::installed() {
        assert_eq!(Mpi::named(mpi.name()), Some(mpi));
    }
    assert_eq!(Mpi::named("no-such-mpi"), None);
}
