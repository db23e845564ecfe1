//! `refrain mem`: every load and store is decoded as recorded, with both front ends. Regular programs take the
//! same few bytes for any problem size and number of threads.
//!
//! `refrain verify` compares the trace with the raw words of the same run, which are written before they are
//! compressed.

use crate::memory_recorded::FrontEnd::{self, Compiled};
use crate::memory_recorded::{Recorded, build, build_by, build_with, record, run, succeed};
use refrain_testing::{Mpi, refrain_binary, require, turn};
use std::ffi::OsStr;
use std::path::Path;
use std::process::Command;
use tempfile::TempDir;

/// Records a program with raw words, and checks that nothing is lost and nothing changed.
#[track_caller]
fn lossless(victim: &str, args: &[&str], threads: usize, least: u64) {
    let folder = TempDir::new().expect("a folder");
    for front_end in FrontEnd::all() {
        let program = build(folder.path(), victim, Some(front_end));
        let plain =
            succeed(Command::new(&program).args(args).env("OMP_NUM_THREADS", threads.to_string()));
        let recorded = record(&program, args, front_end, threads, &["--raw"]);
        assert!(recorded.output.status.success(), "{:?}", recorded.output);
        assert_eq!(recorded.output.stdout, plain.stdout, "{victim}: the program's output");
        let compared = recorded.verify();
        assert!(compared >= least, "{victim}, {front_end:?}: only {compared} references");
        assert_eq!(recorded.info()["complete"], true, "{}", recorded.info());
        assert_eq!(recorded.info()["references"], compared);
    }
}

#[test]
fn vector_addition_is_lossless_with_1_to_32_threads() {
    for threads in [1, 3, 32] {
        lossless("vector_add.c", &[], threads, 30_000);
    }
}

#[test]
fn matrix_multiplication_is_lossless_with_1_to_32_threads() {
    for threads in [1, 4, 32] {
        lossless("matmul.c", &[], threads, 2 * 48 * 48 * 48);
    }
}

#[test]
fn stencils_are_lossless() {
    lossless("jacobi.c", &[], 4, 200_000);
}

#[test]
fn fortran_is_lossless() {
    lossless("stencil.f90", &[], 4, 100_000);
}

#[test]
fn triangular_loops_and_fourier_transforms_are_lossless() {
    lossless("triangular.c", &[], 4, 15_000);
    lossless("triangular_threads.c", &[], 4, 80_000);
    lossless("fft.c", &[], 4, 55_000);
}

#[test]
fn sparse_matrices_are_lossless() {
    lossless("spmv.c", &[], 4, 180_000);
    lossless("vcycle.c", &[], 4, 400_000);
}

#[test]
fn sorting_is_lossless() {
    lossless("sorting.c", &[], 1, 140_000);
}

#[test]
fn linked_lists_are_lossless() {
    lossless("lists.c", &[], 1, 30_000);
}

#[test]
fn atomic_additions_are_lossless() {
    lossless("histogram.c", &[], 4, 60_000);
}

#[test]
fn threads_without_openmp_are_lossless() {
    lossless("pthreads.c", &[], 1, 32_000);
}

/// Other compilers use the same runtime, and call other functions of it.
#[test]
fn programs_compiled_by_clang_are_lossless() {
    let versions = (11..25).rev().map(|version| format!("clang-{version}"));
    let is_there = |name: &String| Command::new(name).arg("--version").output().is_ok();
    let found = std::iter::once("clang".to_owned()).chain(versions).find(is_there);
    let Some(clang) = require("clang", found) else { return };
    let folder = TempDir::new().expect("a folder");
    // Of a load and a store of the same address in a row, clang instruments only the store.
    for (victim, least) in [("pthreads.c", 16_000), ("sorting.c", 70_000), ("jumps.c", 800)] {
        let command = |program: &OsStr| Command::new(program);
        let options = ["-O2", "-g", "-pthread"];
        let program = build_by(&command, &clang, &options, folder.path(), victim, Some(Compiled));
        let recorded = record(&program, &[], Compiled, 1, &["--raw"]);
        assert_eq!(recorded.output.stdout, succeed(&mut Command::new(&program)).stdout);
        assert!(recorded.verify() >= least, "{victim}: {} references", recorded.verify());
        assert_eq!(recorded.info()["complete"], true);
    }
}

#[test]
fn exceptions_and_jumps_are_lossless() {
    lossless("exceptions.cpp", &[], 1, 700);
    lossless("jumps.c", &[], 1, 1_600);
}

/// A recompiled program that gets signals all the time. Its output varies.
#[test]
fn signal_handlers_lose_no_reference() {
    let folder = TempDir::new().expect("a folder");
    let program = build(folder.path(), "signals.c", Some(Compiled));
    let recorded = record(&program, &[], Compiled, 1, &["--raw"]);
    assert!(recorded.output.status.success(), "{:?}", recorded.output);
    assert!(recorded.verify() > 1_000_000);
}

#[test]
fn three_hundred_threads_are_lossless() {
    let folder = TempDir::new().expect("a folder");
    let program = build(folder.path(), "many_threads.c", Some(Compiled));
    let recorded = record(&program, &[], Compiled, 1, &["--raw"]);
    assert!(recorded.output.status.success(), "{:?}", recorded.output);
    assert!(recorded.verify() > 60_000);
    assert_eq!(recorded.info()["threads"], 601);
}

#[test]
fn a_recompiled_program_that_is_killed_keeps_every_store() {
    let folder = TempDir::new().expect("a folder");
    let program = build(folder.path(), "killed.c", Some(Compiled));
    let recorded = record(&program, &[], Compiled, 1, &["--raw"]);
    assert_eq!(recorded.output.status.code(), Some(137), "{:?}", recorded.output);
    assert!(recorded.verify() >= 50_000);
    let info = recorded.info();
    assert_eq!((&info["complete"], &info["process"][0]["ended"]), (&false.into(), &"died".into()));
}

#[test]
fn recompiled_children_and_successors_are_recorded_too() {
    let folder = TempDir::new().expect("a folder");
    let program = build(folder.path(), "children.c", Some(Compiled));
    let recorded = record(&program, &[], Compiled, 1, &["--raw"]);
    let plain = succeed(&mut Command::new(&program));
    assert_eq!(recorded.output.stdout, plain.stdout);
    recorded.verify();
    // The parent, and two children. The second becomes a program with an empty environment.
    let info = recorded.info();
    assert_eq!(info["processes"], 3, "{info}");
    let least = |at: usize| info["process"][at]["references"].as_u64().expect("a number");
    assert!(least(0) >= 3000 && least(1) >= 4000, "{info}");
    let ended: Vec<_> = (0..3).map(|at| info["process"][at]["ended"].as_str()).collect();
    assert_eq!(ended, [Some("exited"), Some("exited"), Some("replaced")], "{info}");
    assert_eq!(info["complete"], true, "{info}");
}

#[test]
fn a_program_that_executes_another_is_not_reported_as_died() {
    let folder = TempDir::new().expect("a folder");
    for front_end in FrontEnd::all() {
        let program = build(folder.path(), "becomes.c", Some(front_end));
        for way in ["execv", "execvp", "execl", "execlp", "fail"] {
            let recorded = record(&program, &[way], front_end, 1, &["--raw"]);
            assert!(recorded.verify() >= 2000);
            let info = recorded.info();
            let fails = way == "fail";
            let code = if fails { 137 } else { 0 };
            assert_eq!(recorded.output.status.code(), Some(code), "{way}: {:?}", recorded.output);
            let ended = if fails { "died" } else { "replaced" };
            assert_eq!(info["process"][0]["ended"], ended, "{front_end:?}, {way}: {info}");
            assert_eq!(info["complete"], !fails, "{front_end:?}, {way}: {info}");
        }
    }
}

/// The sizes of whole traces, for several sizes of the problem and numbers of threads: at most 2 kB, and
/// at most 5 % or 64 bytes between the least and the most.
#[track_caller]
fn assert_constant(program: &Path, front_end: FrontEnd, cases: &[(&str, usize)]) {
    let size = |&(n, threads): &(&str, usize)| {
        let recorded = record(program, &[n], front_end, threads, &[]);
        assert!(recorded.output.status.success(), "{:?}", recorded.output);
        let info = recorded.info();
        assert!(info["references"].as_u64() > Some(1000));
        let bytes = std::fs::metadata(&recorded.trace).expect("the trace").len();
        assert_eq!(bytes, recorded.bytes());
        (format!("{n} on {threads}"), bytes)
    };
    let sizes: Vec<(String, u64)> = cases.iter().map(size).collect();
    let least = sizes.iter().map(|(_, size)| *size).min().expect("some");
    let most = sizes.iter().map(|(_, size)| *size).max().expect("some");
    let program = program.display();
    println!("{program}, {front_end:?}: {sizes:?}");
    assert!(most <= 2000, "{program}, {front_end:?}: {sizes:?}");
    assert!(most - least <= 64.max(least / 20), "{program}, {front_end:?}: {sizes:?}");
}

/// A program on 1 to 32 threads, and for growing problems on 4.
#[track_caller]
fn assert_constant_over_threads_and_sizes(victim: &str, sizes: [&str; 3]) {
    let folder = TempDir::new().expect("a folder");
    for front_end in FrontEnd::all() {
        let program = build(folder.path(), victim, Some(front_end));
        let teams = [1, 2, 4, 8, 16, 32].map(|threads| (sizes[0], threads));
        assert_constant(&program, front_end, &teams);
        assert_constant(&program, front_end, &sizes.map(|size| (size, 4)));
    }
}

#[test]
fn a_matrix_multiplication_takes_the_same_few_bytes_at_any_size() {
    assert_constant_over_threads_and_sizes("matmul.c", ["48", "100", "400"]);
}

#[test]
fn a_vector_addition_takes_the_same_few_bytes_at_any_size() {
    assert_constant_over_threads_and_sizes("vector_add.c", ["480", "4800", "40000"]);
}

#[test]
fn a_triangular_solution_takes_the_same_few_bytes_at_any_size() {
    assert_constant_over_threads_and_sizes("triangular.c", ["48", "100", "400"]);
    // A loop is recognised from three iterations on, so each thread gets that many.
    assert_constant_over_threads_and_sizes("triangular_threads.c", ["96", "192", "288"]);
}

#[test]
fn irregular_programs_take_a_quarter_of_the_size_of_zstd() {
    let folder = TempDir::new().expect("a folder");
    for front_end in FrontEnd::all() {
        for victim in ["spmv.c", "vcycle.c"] {
            let program = build(folder.path(), victim, Some(front_end));
            let recorded = record(&program, &[], front_end, 4, &["--raw"]);
            recorded.verify();
            // Raw words are stored packed by zstd at level 3.
            let packed = recorded.info()["sections"]["raw"].as_u64().expect("raw words");
            let bytes = recorded.bytes();
            println!("{victim}, {front_end:?}: {bytes} bytes, {packed} packed");
            assert!(packed >= 4 * bytes, "{victim}, {front_end:?}: {packed} and {bytes}");
        }
    }
}

/// An interpreter of SQL and a compressor, whose addresses no loop predicts.
#[test]
fn real_programs_without_regular_loops_take_two_fifths_of_the_size_of_zstd() {
    const SQL: &str = "create table t(a integer primary key, b text);
        with recursive n(i) as (select 1 union all select i+1 from n where i<1500)
          insert into t select i, 'name'||(i*7919%1511) from n;
        create index tb on t(b);
        select count(*) from t where b like 'name1%';";
    let folder = TempDir::new().expect("a folder");
    let data = folder.path().join("data");
    let own = std::fs::read(refrain_binary()).expect("the binary");
    std::fs::write(&data, &own[..100_000.min(own.len())]).expect("a file");
    let data = data.to_str().expect("a path in UTF-8");
    let jobs: [(&str, &[&str]); 2] = [("sqlite3", &[":memory:", SQL]), ("gzip", &["-kc", data])];
    for (name, args) in jobs {
        let Some(program) = refrain_testing::require_program(name) else { continue };
        // The trace is written beside the program.
        let link = folder.path().join(name);
        std::os::unix::fs::symlink(program, &link).expect("a link");
        let recorded = record(&link, args, FrontEnd::Dynamorio, 1, &["--raw", "--libs"]);
        assert!(recorded.verify() > 500_000, "{name}");
        let packed = recorded.info()["sections"]["raw"].as_u64().expect("raw words");
        let bytes = recorded.bytes();
        println!("{name}: {bytes} bytes, {packed} packed");
        assert!(2 * packed >= 5 * bytes, "{name}: {packed} packed by zstd, {bytes} bytes");
    }
}

/// Two ranks of a program, four threads each.
fn two_ranks(mpi: &Mpi, program: &Path, front_end: FrontEnd) -> Recorded {
    let trace = program.with_extension("refrain");
    let _turn = turn();
    let mut command = mpi.command(refrain_binary());
    command.args(["mem", "--raw", "--frontend", front_end.word(), "-o"]).arg(&trace);
    command.args(["--", "mpirun", "-n", "2"]).arg(program).env("OMP_NUM_THREADS", "4");
    let output = succeed(&mut command);
    let recorded = Recorded { trace, output };
    assert!(recorded.verify() > 20_000);
    recorded
}

#[test]
fn ranks_with_threads_are_one_trace() {
    let folder = TempDir::new().expect("a folder");
    let mpi = Mpi::installed().remove(0);
    for front_end in FrontEnd::all() {
        let program = build_with(&mpi, folder.path(), "ranks.c", front_end);
        let recorded = two_ranks(&mpi, &program, front_end);
        // There may be more: some MPIs' libraries fork.
        let info = recorded.info();
        assert!(info["processes"].as_u64() >= Some(2), "{info}");
        let stage = |name: &str| info["stages"][name].as_f64().expect("a time");
        assert!(stage("intra_thread") > 0.0 && stage("inter_thread") > 0.0, "{info}");
        assert!(stage("inter_process") > 0.0, "{info}");
        let ranks: Vec<_> = (0..2).map(|at| info["process"][at]["rank"].as_u64()).collect();
        assert_eq!(ranks, [Some(0), Some(1)]);
        // The parallel loop is in the trace once, for all threads of both ranks. Threads that the MPI library has
        // started make no references, but have numbers too.
        let (_, text) = recorded.refrain(&["show", "--structure"]);
        let shared = text.lines().find(|line| {
            line.starts_with("processes <0,2,1> threads <0,") && line.ends_with(", part 1")
        });
        assert!(shared.is_some(), "{front_end:?}: {text}");
    }
}

/// A program without MPI has only the threads that it starts itself.
#[test]
fn ranks_and_threads_are_listed_as_the_paper_does() {
    let folder = TempDir::new().expect("a folder");
    let mpi = Mpi::installed().remove(0);
    for front_end in FrontEnd::all() {
        let program = build(folder.path(), "matmul.c", Some(front_end));
        let (_, text) = two_ranks(&mpi, &program, front_end).refrain(&["show", "--structure"]);
        assert!(text.contains("processes <0,2,1> threads <0,4,1>, part 1\n"), "{text}");
    }
}

#[test]
fn references_are_shown_with_thread_address_and_line() {
    let folder = TempDir::new().expect("a folder");
    for front_end in FrontEnd::all() {
        let program = build(folder.path(), "matmul.c", Some(front_end));
        let recorded = record(&program, &[], front_end, 4, &[]);
        let (is_shown, text) = recorded.refrain(&["show", "--thread", "2", "--limit", "500"]);
        assert!(is_shown);
        assert_eq!(text.lines().count(), 500);
        let load =
            text.lines().find(|line| line.contains(" load 8 0x") && line.ends_with(" matmul.c:20"));
        assert!(load.is_some_and(|line| line.starts_with("T2 ")), "{text}");
        let (_, text) = recorded.refrain(&["show", "--structure"]);
        assert!(text.contains("threads <0,4,1>, part 1"), "{text}");
        assert!(text.contains("loop 48 times"), "{text}");
        assert!(text.contains("[+384, +0, +8]"), "{text}");
    }
}

#[test]
fn the_structure_has_the_whole_trip_count_of_a_loop_that_fills_many_chunks() {
    let folder = TempDir::new().expect("a folder");
    for front_end in FrontEnd::all() {
        let program = build(folder.path(), "scattered.c", Some(front_end));
        let recorded = record(&program, &["300000"], front_end, 1, &["--window", "20000"]);
        let (is_shown, text) = recorded.refrain(&["show", "--structure"]);
        assert!(is_shown, "{text}");
        let loops: Vec<&str> = text.lines().filter(|line| line.contains("loop ")).collect();
        assert_eq!(loops.len(), 1, "{front_end:?}: {text}");
        assert!(loops[0].contains("loop 300000 times"), "{front_end:?}: {text}");
        assert!(text.contains("scattered.c:18"), "{front_end:?}: {text}");
    }
}

#[test]
fn a_limit_limits_the_lines_of_a_structure() {
    let folder = TempDir::new().expect("a folder");
    let program = build(folder.path(), "matmul.c", Some(Compiled));
    let recorded = record(&program, &[], Compiled, 4, &[]);
    let (_, all) = recorded.refrain(&["show", "--structure"]);
    let (is_shown, some) = recorded.refrain(&["show", "--structure", "--limit", "5"]);
    assert!(is_shown, "{some}");
    assert!(all.lines().count() > 5, "{all}");
    assert_eq!(some.lines().collect::<Vec<_>>(), all.lines().take(5).collect::<Vec<_>>());
}

#[test]
fn a_thread_selects_the_structures_that_it_is_in() {
    let folder = TempDir::new().expect("a folder");
    let program = build(folder.path(), "matmul.c", Some(Compiled));
    let recorded = record(&program, &[], Compiled, 4, &[]);
    let (is_shown, text) = recorded.refrain(&["show", "--structure", "--thread", "3"]);
    assert!(is_shown, "{text}");
    let heads: Vec<&str> = text.lines().filter(|line| line.starts_with("threads ")).collect();
    assert_eq!(heads, ["threads <0,4,1>, part 1"], "{text}");
}

#[test]
fn a_trace_without_references_does_not_verify() {
    let folder = TempDir::new().expect("a folder");
    let program = build(folder.path(), "sorting.c", Some(Compiled));
    let recorded = record(&program, &[], Compiled, 1, &["--raw", "--from", "no_such_function"]);
    let (is_right, text) = recorded.refrain(&["verify"]);
    assert!(!is_right && text.contains("no reference to compare"), "{text}");
}

#[test]
fn commands_for_mpi_calls_say_that_a_memory_trace_has_none() {
    let folder = TempDir::new().expect("a folder");
    let program = build(folder.path(), "sorting.c", Some(Compiled));
    let recorded = record(&program, &["100"], Compiled, 1, &[]);
    for command in ["stats", "where"] {
        let output = run(Command::new(refrain_binary()).arg(command).arg(&recorded.trace));
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(125), "{said}");
        assert!(said.contains("holds loads and stores, not MPI calls"), "{command}: {said}");
    }
}

#[test]
fn a_damaged_trace_does_not_verify() {
    let folder = TempDir::new().expect("a folder");
    let program = build(folder.path(), "matmul.c", Some(Compiled));
    let recorded = record(&program, &[], Compiled, 2, &[]);
    let bytes = std::fs::read(&recorded.trace).expect("the trace");
    for at in (12..bytes.len()).step_by(7) {
        let mut damaged = bytes.clone();
        damaged[at] ^= 0x10;
        std::fs::write(&recorded.trace, damaged).expect("written");
        assert!(!recorded.refrain(&["verify"]).0, "byte {at} of {}", bytes.len());
    }
}

#[test]
fn bytes_that_were_inserted_into_a_trace_are_found() {
    let folder = TempDir::new().expect("a folder");
    let program = build(folder.path(), "matmul.c", Some(Compiled));
    let recorded = record(&program, &[], Compiled, 2, &["--raw"]);
    let bytes = std::fs::read(&recorded.trace).expect("the trace");
    // Between the sections and their directory, where no section's checksum covers them.
    let trailer = bytes.len() - 12;
    let length = u32::from_le_bytes([4, 5, 6, 7].map(|at| bytes[trailer + at])) as usize;
    for at in [12, 200, trailer - length, bytes.len()] {
        let inserted = [&bytes[..at], &[0; 100], &bytes[at..]].concat();
        std::fs::write(&recorded.trace, inserted).expect("written");
        let (is_right, text) = recorded.refrain(&["verify"]);
        assert!(!is_right, "100 bytes at {at} of {}: {text}", bytes.len());
    }
}

#[test]
fn a_program_that_was_not_recompiled_is_reported_with_the_remedy() {
    let folder = TempDir::new().expect("a folder");
    let program = build(folder.path(), "matmul.c", None);
    let recorded = record(&program, &[], Compiled, 2, &[]);
    assert!(recorded.output.status.success(), "the exit code is the program's");
    let said = String::from_utf8_lossy(&recorded.output.stderr).into_owned();
    assert!(said.contains("nothing was recorded") && said.contains("refrain cc"), "{said}");
}

#[test]
fn sealed_chunks_are_lossless() {
    let folder = TempDir::new().expect("a folder");
    for victim in ["sorting.c", "spmv.c"] {
        let program = build(folder.path(), victim, Some(Compiled));
        let recorded = record(&program, &[], Compiled, 4, &["--raw", "--window", "256"]);
        assert!(recorded.verify() > 100_000);
        assert!(recorded.info()["sections"]["sealed"].as_u64() > Some(10_000));
        // Without raw records, every reference must still decode.
        let recorded = record(&program, &[], Compiled, 4, &["--window", "256"]);
        let (is_right, text) = recorded.refrain(&["verify", "--json"]);
        assert!(is_right, "{text}");
    }
}

/// `refrain mem` itself and the compressors are killed: the parts that they have written make a trace.
#[test]
fn the_parts_of_a_killed_recording_make_a_trace() {
    let folder = TempDir::new().expect("a folder");
    let program = build(folder.path(), "matmul.c", Some(Compiled));
    let trace = folder.path().join("left.refrain");
    let parts = folder.path().join("left.refrain.parts");
    let mut command = Command::new(refrain_binary());
    command.args(["mem", "-o"]).arg(&trace).arg("--").arg(&program).env("OMP_NUM_THREADS", "2");
    let mut child = command.arg("600").spawn().expect("refrain starts");
    // From the first state on there is something to merge.
    let has_state = || {
        let entries = std::fs::read_dir(&parts).into_iter().flatten().flatten();
        entries.into_iter().any(|e| e.path().extension().is_some_and(|e| e == "memory"))
    };
    for _ in 0..600 {
        if has_state() || child.try_wait().expect("a child").is_some() {
            break;
        }
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
    assert!(has_state(), "no state was written");
    let _ = child.kill();
    let _ = child.wait();
    let keeper = std::fs::read_dir(&parts).expect("parts").flatten().find_map(|entry| {
        let name = entry.file_name().into_string().ok()?;
        name.strip_prefix("keeper.")?.rsplit_once('.')?.1.parse::<i32>().ok()
    });
    let keeper = keeper.expect("a keeper");
    let children = format!("/proc/{keeper}/task/{keeper}/children");
    for pid in std::fs::read_to_string(children).unwrap_or_default().split_whitespace() {
        kill(pid);
    }
    let output = succeed(Command::new(refrain_binary()).arg("merge").arg(&parts));
    let recorded = Recorded { trace, output };
    let (is_right, text) = recorded.refrain(&["verify"]);
    assert!(is_right, "{text}");
    assert!(recorded.info()["references"].as_u64() > Some(0));
    // The program no longer waits for its compressor, and ends by itself.
    let is_gone = || !run(Command::new("pgrep").arg("-f").arg(&program)).status.success();
    for _ in 0..600 {
        if is_gone() {
            return;
        }
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
    panic!("the program still waits");
}

fn kill(pid: &str) {
    succeed(Command::new("kill").args(["-9", pid]));
}
