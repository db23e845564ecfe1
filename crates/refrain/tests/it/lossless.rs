//! Decoding a trace returns what was recorded: every call, every argument.
//!
//! Programs of all kinds are traced with `--raw`, and `refrain verify` compares the raw records with the
//! decoded calls. Two MPIs represent all, one of each family; `REFRAIN_TEST_FULL=1` uses every MPI.

use refrain_container::{Codec, Container, Writer};
use refrain_testing::{
    Mpi, Outcome, Run, is_full, refrain, require_mpi, require_path, require_program,
};
use serde_json::Value as Json;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tempfile::TempDir;

const THREADS: &[&str] = &["-pthread"];

/// A program of `tests/victims` or `bench/programs`, and how it is run.
struct Victim {
    file: &'static str,
    ranks: usize,
    flags: &'static [&'static str],
    args: &'static [&'static str],
    /// MPIs that cannot run it, by the beginning of their names.
    not_under: &'static [&'static str],
}

const fn victim(file: &'static str, ranks: usize) -> Victim {
    Victim { file, ranks, flags: &[], args: &[], not_under: &[] }
}

const fn threaded(file: &'static str, ranks: usize) -> Victim {
    Victim { file, ranks, flags: THREADS, args: &[], not_under: &[] }
}

const fn with_args(file: &'static str, ranks: usize, args: &'static [&'static str]) -> Victim {
    Victim { file, ranks, flags: &[], args, not_under: &[] }
}

/// The output of `refrain verify` for a trace.
fn verify(trace: &Path) -> (Outcome, Json) {
    let outcome = refrain(["verify".as_ref(), trace.as_os_str(), "--json".as_ref()]);
    let found = serde_json::from_str(&outcome.stdout).unwrap_or_default();
    (outcome, found)
}

/// Asserts that a trace, and the same trace stored as loop nests, equal their raw records. Returns the number of calls.
fn assert_lossless(who: &str, trace: &Path) -> u64 {
    let folded = trace.with_extension("folded.refrain");
    refrain(["fold".as_ref(), trace.as_os_str(), "-o".as_ref(), folded.as_os_str()])
        .expect_success();
    let sections = Container::open(&folded).expect("a trace").sections().to_vec();
    assert!(sections.iter().any(|section| section.name == "nest"), "{who}: no nest was stored");
    let events = assert_records(&format!("{who}, folded"), &folded);
    assert_eq!(assert_records(who, trace), events, "{who}");
    crate::structure::assert_nest_is_exact(who, trace);
    events
}

/// Asserts that a trace equals its raw records. Returns the number of calls.
fn assert_records(who: &str, trace: &Path) -> u64 {
    let (outcome, found) = verify(trace);
    let events = found["events_compared"].as_u64().unwrap_or(0);
    assert!(outcome.is_success(), "{who}: the trace is not what was recorded\n{outcome}");
    assert!(events > 0, "{who}: nothing was compared\n{outcome}");
    assert_eq!(found["ok"], true, "{who}\n{outcome}");
    events
}

/// Records a run and compares. Returns the number of calls.
fn check_run(who: &str, mpi: &Mpi, ranks: usize, describe: impl FnOnce(Run) -> Run) -> u64 {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let trace = folder.path().join("victim.refrain");
    let run = mpi
        .run(ranks)
        .current_dir(folder.path())
        .env("EXPECT_FILE", folder.path().join("expected"))
        .timeout(Duration::from_secs(100))
        .trace_to(Some(&trace));
    let traced = describe(run).output();
    assert!(!traced.timed_out, "{who}\n{traced}");
    assert!(trace.is_file(), "{who}: no trace\n{traced}");
    assert_lossless(who, &trace)
}

fn check(victims: &[Victim]) {
    for mpi in Mpi::usual() {
        for victim in victims {
            if victim.not_under.iter().any(|name| mpi.name().starts_with(name)) {
                continue;
            }
            let who = format!("{} {:?} under {}", victim.file, victim.args, mpi.name());
            let program = mpi.compile_with(victim.file, victim.flags);
            let events =
                check_run(&who, &mpi, victim.ranks, |run| run.program(program).args(victim.args));
            println!("{who}: {events} calls");
        }
    }
}

#[test]
fn every_function_is_decoded_with_its_arguments() {
    check(&[
        victim("coverage_point_to_point.c", 2),
        victim("coverage_completion.c", 2),
        victim("coverage_collectives.c", 3),
        victim("coverage_neighbors.c", 3),
        victim("coverage_communicators.c", 4),
        victim("coverage_datatypes.c", 2),
        victim("coverage_windows.c", 2),
        victim("coverage_files.c", 2),
        victim("coverage_objects.c", 2),
        victim("coverage_removed.c", 2),
        victim("coverage_errors.c", 2),
        victim("coverage_environment.c", 2),
        victim("coverage_tools.c", 2),
        victim("coverage_sessions.c", 2),
        victim("coverage_processes.c", 2),
        victim("coverage_spawn.c", 2),
    ]);
}

#[test]
fn every_area_of_mpi_is_decoded() {
    check(&[
        victim("matrix_point_to_point.c", 2),
        victim("matrix_completion.c", 2),
        victim("matrix_collectives.c", 3),
        victim("matrix_communicators.c", 3),
        victim("matrix_datatypes.c", 1),
        victim("matrix_windows.c", 2),
        victim("matrix_files.c", 2),
        victim("matrix_callbacks.c", 2),
        victim("matrix_threads.c", 2),
        victim("matrix_large_counts.c", 2),
        with_args("matrix_outside.c", 2, &["one", "two words", "", "\"quoted\"", "--"]),
        victim("matrix_sessions.c", 2),
        victim("matrix_objects.cpp", 2),
        victim("communicators.c", 3),
    ]);
}

#[test]
fn errors_statuses_and_callbacks_are_decoded() {
    check(&[
        victim("truncation.c", 2),
        with_args("truncation.c", 2, &["all ignored"]),
        victim("invalid_arguments.c", 1),
        victim("odd_error_codes.c", 1),
        victim("statuses.c", 2),
        victim("ignored_statuses.c", 3),
        victim("cancelled_receives.c", 2),
        victim("callbacks.c", 2),
        victim("callbacks_in_finalize.c", 3),
        // More bytes than any buffer of the agent; a hundred thousand requests take a minute to compare.
        Victim { flags: &["-DMANY=40000"], ..victim("large_arguments.c", 1) },
        victim("exception.cpp", 2),
        victim("longjmp.c", 2),
        victim("user_stacks.c", 2),
    ]);
}

#[test]
fn calls_three_hundred_deep_are_decoded() {
    check(&[victim("recursion.c", 2)]);
}

#[test]
fn polls_and_completions_in_any_order_are_decoded() {
    check(&[
        victim("polls.c", 3),
        with_args("../../bench/programs/waitany_random.c", 4, &["3", "200"]),
        with_args("../../bench/programs/random_tags.c", 1, &["2", "5000"]),
        with_args("../../bench/programs/signatures.c", 1, &["5000"]),
    ]);
}

#[test]
fn calls_at_the_beginning_and_the_end_are_decoded() {
    check(&[
        threaded("outside_init.c", 2),
        victim("tools_interface.c", 1),
        Victim { not_under: &["openmpi-4", "path"], ..victim("sessions.c", 2) },
        victim("pending_at_finalize.c", 2),
        with_args("pending_at_finalize.c", 2, &["leave"]),
        victim("finalize_at_exit.cpp", 2),
        with_args("leaves_early.c", 2, &["abort"]),
        with_args("leaves_early.c", 2, &["exit"]),
        with_args("leaves_early.c", 2, &["segfault inside"]),
        with_args("leaves_early.c", 2, &["SIGKILL"]),
        victim("switches.c", 2),
        victim("pcontrol.c", 1),
    ]);
}

#[test]
fn threads_are_decoded_each_with_its_calls() {
    check(&[
        threaded("threads.c", 4),
        with_args_threaded("threads_many.c", 2, &["200", "4"]),
        threaded("short_threads.c", 2),
        threaded("threads_before_free.c", 1),
        threaded("thread_destructors.cpp", 2),
        threaded("tiny_stacks.c", 2),
        threaded("cancelled_threads.c", 2),
        threaded("allocations.c", 2),
    ]);
}

const fn with_args_threaded(
    file: &'static str,
    ranks: usize,
    args: &'static [&'static str],
) -> Victim {
    Victim { file, ranks, flags: THREADS, args, not_under: &[] }
}

#[test]
fn processes_and_signals_do_not_change_what_is_decoded() {
    check(&[
        victim("timer.c", 2),
        victim("fault_handler.c", 2),
        threaded("signal_settings.c", 2),
        victim("children.c", 2),
        Victim { not_under: &["mpich-4"], ..victim("spawned.c", 2) },
        victim("replaces_itself.c", 2),
        threaded("descriptors.c", 2),
        Victim { flags: &["-pthread", "-ldl"], ..victim("errno_kept.c", 2) },
        threaded("environment.c", 2),
        threaded("drops_privileges.c", 2),
        Victim { args: &["files"], ..threaded("limits.c", 2) },
        victim("own_wrappers.c", 2),
        victim("tooled.c", 2),
        victim("silent_fork.c", 2),
        victim("many_ranks.c", 16),
        victim("calls_much.c", 2),
    ]);
}

#[test]
fn every_kind_of_memory_is_decoded() {
    for mpi in Mpi::usual() {
        let program = mpi.compile_with("buffers.c", &["-pthread", "-ldl"]);
        let library = mpi.compile_with("library_data.c", &["-shared", "-fPIC"]);
        let who = format!("buffers.c under {}", mpi.name());
        check_run(&who, &mpi, 2, |run| run.program(program).args([library]));
    }
}

#[test]
fn sixteen_ranks_of_a_stencil_are_decoded() {
    check(&[
        with_args("../../bench/programs/stencil2d.c", 16, &["hand", "100"]),
        with_args("../../bench/programs/stencil2d.c", 16, &["cart", "100"]),
        with_args("../../bench/programs/stencil3d.c", 8, &["cart", "100"]),
    ]);
}

// Real programs.

/// The MPI that Debian links its programs to, if this program is installed.
fn debian_openmpi(program: &str) -> Option<Mpi> {
    require_program(program).and_then(|_| require_mpi("openmpi-4.1"))
}

const MELT: &str = "\
units           lj
atom_style      atomic
lattice         fcc 0.8442
region          box block 0 5 0 5 0 5
create_box      1 box
create_atoms    1 box
mass            1 1.0
velocity        all create 3.0 87287 loop geom
pair_style      lj/cut 2.5
pair_coeff      1 1 1.0 1.0 2.5
neighbor        0.3 bin
neigh_modify    every 20 delay 0 check no
fix             1 all nve
thermo          20
run             100
";

#[test]
fn lammps_is_decoded() {
    let Some(mpi) = debian_openmpi("lmp") else { return };
    let folder = tempfile::tempdir().expect("a temporary folder");
    let input = folder.path().join("in.melt");
    std::fs::write(&input, MELT).expect("an input file");
    let events = check_run("lammps", &mpi, 4, |run| {
        run.program("lmp").args(["-in".as_ref(), input.as_os_str()])
    });
    println!("lammps: {events} calls");
}

/// HPCC's input, small.
const HPCC: &str = include_str!("lossless/hpccinf.txt");

#[test]
fn hpcc_is_decoded() {
    let Some(mpi) = debian_openmpi("hpcc") else { return };
    let folder = tempfile::tempdir().expect("a temporary folder");
    std::fs::write(folder.path().join("hpccinf.txt"), HPCC).expect("an input file");
    let place = folder.path().to_owned();
    let events = check_run("hpcc", &mpi, 4, |run| run.program("hpcc").current_dir(place));
    println!("hpcc: {events} calls");
}

#[test]
fn a_factorisation_of_scalapack_is_decoded() {
    let input = Path::new("/usr/share/scalapack/LU.dat");
    let both = [("mpich-4.0", "mpich"), ("openmpi-4.1", "openmpi")];
    for (name, family) in both.into_iter().take(if is_full() { 2 } else { 1 }) {
        let program = format!("/usr/lib/x86_64-linux-gnu/scalapack/{family}-tests/xdlu");
        let Some(mpi) = require_path("scalapack-mpi-test", &program).and(require_mpi(name)) else {
            continue;
        };
        let folder = tempfile::tempdir().expect("a temporary folder");
        let mut cases = std::fs::read_to_string(input).expect("an input file");
        if !is_full() {
            // All process grids and block sizes, but fewer matrices and right-hand sides.
            for (all, fewer) in [("4\t\t\tnumber of problems", "2"), ("3\t\t\tnumber of NRHS", "1")]
            {
                let (count, what) = all.split_once('\t').expect("a line of the input");
                assert!(cases.contains(all), "{count} {what}\n{cases}");
                cases = cases.replace(all, &format!("{fewer}\t{what}"));
            }
        }
        std::fs::write(folder.path().join("LU.dat"), cases).expect("an input file");
        let place = folder.path().to_owned();
        let events = check_run(&program, &mpi, 4, |run| run.program(&program).current_dir(place));
        println!("{program}: {events} calls");
    }
}

// Errors are found.

/// A trace of a stencil with this many iterations.
fn stencil(mpi: &Mpi, iterations: &str) -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let trace = folder.path().join("stencil.refrain");
    let program = mpi.compile("../../bench/programs/stencil2d.c");
    let run = mpi.run(2).program(program).args(["hand", iterations]).trace_to(Some(&trace));
    run.output().expect_success();
    (folder, trace)
}

#[test]
fn a_trace_with_the_raw_records_of_another_run_is_found_different() {
    let mpi = Mpi::any();
    let ((_one, ten), (_other, eleven)) = (stencil(&mpi, "10"), stencil(&mpi, "11"));
    let (records, structure) = (Container::open(&ten).unwrap(), Container::open(&eleven).unwrap());
    let mixed = ten.with_file_name("mixed.refrain");
    let mut writer = Writer::create(&mixed).unwrap();
    for section in records.sections() {
        let from = if section.name.starts_with("raw/") { &records } else { &structure };
        let mut content = from.read(&section.name).unwrap();
        writer.add(&section.name, Codec::Stored, &mut content).unwrap();
    }
    writer.finish().unwrap();
    let (outcome, found) = verify(&mixed);
    assert_eq!(outcome.code, 1, "{outcome}");
    let differences = found["differences"].as_array().expect("a list");
    assert_eq!(differences[0]["expected"], "[2] \"10\"", "MPI_Init's arguments\n{outcome}");
    let of = |function: &str| differences.iter().find(|d| d["function"] == function);
    let got = of("MPI_Finalize").map(|d| &d["got"]);
    assert_eq!(got, Some(&"MPI_Irecv inside 0 calls".into()), "{outcome}");
    let text = refrain(["verify".as_ref(), mixed.as_os_str()]);
    assert!(text.stdout.contains("rank 0.0  #"), "{text}");
    assert!(text.stdout.trim_end().ends_with("differ"), "{text}");
}

#[test]
fn a_damaged_section_is_named() {
    let mpi = Mpi::any();
    let (_folder, trace) = stencil(&mpi, "10");
    let mut bytes = std::fs::read(&trace).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    std::fs::write(&trace, bytes).unwrap();
    let outcome = refrain(["verify".as_ref(), trace.as_os_str()]);
    assert_eq!(outcome.code, 1, "{outcome}");
    assert!(outcome.stdout.contains("section `raw/"), "{outcome}");
}

#[test]
fn a_trace_without_raw_records_is_checked_too() {
    let mpi = Mpi::any();
    let folder = tempfile::tempdir().expect("a temporary folder");
    let program = mpi.compile("hello.c");
    let command = ["trace", "-o", "hello.refrain", "--", "mpirun", "-n", "2"];
    let words = command.iter().map(AsRef::as_ref).chain([program.as_os_str()]);
    mpi.refrain_in(folder.path(), words).expect_success();
    let trace = folder.path().join("hello.refrain");
    let (outcome, found) = verify(&trace);
    assert!(outcome.is_success(), "{outcome}");
    assert_eq!((&found["raw"], &found["events_compared"]), (&false.into(), &0.into()), "{outcome}");
    assert_eq!(found["calls"], 8, "{outcome}");
    assert!(found["sections_checked"].as_u64() >= Some(3), "{outcome}");
}
