//! Unmodified programs under DynamoRIO: they behave as without Refrain, and every reference of theirs is in the
//! trace.

use std::fs;
use std::path::Path;
use std::time::Duration;

use crate::memory_programs::{
    self, compile, compile_with, info, plain, references, show, trace, verified,
};
use refrain_testing::Outcome;

/// The references between two addresses that a program says it makes.
struct Expected {
    from: u64,
    to: u64,
    references: Vec<String>,
}

fn expected(stdout: &str) -> Expected {
    let mut lines = stdout.lines();
    let range = lines.next().and_then(|line| line.strip_prefix("buffer ")).expect("a range");
    let ends: Vec<u64> = range.split(' ').map(address).collect();
    let references = lines.map(str::to_owned).collect();
    Expected { from: ends[0], to: ends[1], references }
}

fn address(text: &str) -> u64 {
    u64::from_str_radix(text.trim_start_matches("0x"), 16).expect("an address")
}

/// The references of a thread between two addresses, as `store 8 0x1234`.
fn found(file: &Path, thread: &str, from: u64, to: u64) -> Vec<String> {
    references(file)
        .into_iter()
        .filter(|reference| reference.thread == thread)
        .filter(|reference| (from..to).contains(&reference.address))
        .map(|reference| format!("{} {} {:#x}", reference.kind, reference.size, reference.address))
        .collect()
}

#[test]
fn unusual_instructions_are_recorded_with_exactly_their_references() {
    let program = compile("exact.c");
    let (traced, file, _folder) = trace(&program, &[], &["--raw"]);
    let expected = expected(&traced.expect_success().stdout);
    assert!(expected.references.len() > 60);
    assert_eq!(found(&file, "T0", expected.from, expected.to), expected.references);
    verified(&file);
}

#[test]
fn a_block_that_faults_is_recorded_up_to_the_fault() {
    let program = compile("faults.c");
    let (traced, file, _folder) = trace(&program, &[], &["--raw"]);
    let expected = expected(&traced.expect_success().stdout);
    assert_eq!(expected.references.len(), 19);
    assert_eq!(found(&file, "T0", expected.from, expected.to), expected.references);
    verified(&file);
}

#[test]
fn a_killed_program_keeps_its_references() {
    let program = compile("killed.c");
    let (traced, file, _folder) = trace(&program, &[], &["--raw"]);
    assert_eq!(traced.code, 137, "{traced}");
    let expected = expected(&traced.stdout);
    let found = found(&file, "T0", expected.from, expected.to);
    assert_eq!(found.len(), 50_000);
    for (i, reference) in found.iter().enumerate() {
        let address = expected.from + 8 * (i as u64 % 1000);
        assert_eq!(*reference, format!("store 8 {address:#x}"));
    }
    verified(&file);
}

#[test]
fn contexts_are_right_after_jumps_exceptions_and_tail_calls() {
    for (victim, function, mark) in
        [("jumps.c", "landmark", "cells[0]++"), ("exceptions.cpp", "after", "marks[4]++")]
    {
        let program = compile(victim);
        let (traced, file, _folder) = trace(&program, &[], &[]);
        assert_eq!(traced.expect_success().stdout, plain(&program, &[]).stdout);
        let source = memory_programs::source(victim);
        let line = 1 + source.lines().position(|line| line.contains(mark)).expect("the mark");
        let place = format!("{victim}:{line}");
        let structure = show(&file, &["--structure"]);
        let (mut context, mut seen) = ("", 0);
        for line in structure.lines().map(str::trim_start) {
            if line.starts_with("in ") || line == "outside" {
                context = line;
            } else if line.ends_with(&place) {
                assert!(
                    context.starts_with(&format!("in {function}")) && context.contains(victim),
                    "{line} is in the context `{context}`\n{structure}"
                );
                seen += 1;
            }
        }
        assert!(seen > 0, "no reference at {place}\n{structure}");
    }
}

#[test]
fn forked_and_executed_processes_are_recorded_too() {
    let program = compile("children.c");
    let (traced, file, _folder) = trace(&program, &[], &["--raw"]);
    assert_eq!(traced.expect_success().stdout, plain(&program, &[]).stdout);
    verified(&file);
    let info = info(&file);
    let processes = info["process"].as_array().expect("a list of processes");
    let of_victim = processes.iter().filter(|process| {
        process["program"].as_str().is_some_and(|path| Path::new(path) == program)
    });
    let mut counts: Vec<u64> =
        of_victim.map(|process| process["references"].as_u64().unwrap()).collect();
    counts.sort_unstable();
    // The processes: before exec; the parent; the child; the program that was executed again.
    assert_eq!(counts.len(), 4, "{info}");
    assert!(counts[1] >= 3000 && counts[2] >= 4000 && counts[3] >= 6000, "{info}");
    assert!(processes.len() > 4, "the shell is not recorded: {info}");
    // Code between vfork and exec, as in `system`, is not a thread of the parent.
    let is_single = |process: &serde_json::Value| process["threads"] == 1;
    assert!(processes.iter().all(is_single), "{info}");
    assert_eq!(info["complete"], true, "{info}");
}

#[test]
fn work_in_libraries_is_pointed_out() {
    let (traced, file, _folder) = trace(&compile("in_libraries.c"), &[], &[]);
    let traced = traced.expect_success();
    let hint = traced.stderr.lines().find(|line| line.contains("basic blocks")).expect("a hint");
    assert!(hint.contains("the others are in libraries") && hint.contains("--libs"), "{hint}");
    let blocks = &info(&file)["process"][0]["basic_blocks"];
    assert!(blocks["recorded"].as_u64() > Some(0), "{blocks}");
    assert!(blocks["other"].as_u64() > Some(500), "{blocks}");
    let (traced, ..) = trace(&compile("matmul.c"), &[], &[]);
    assert!(!traced.expect_success().stderr.contains("--libs"));
}

#[test]
fn code_that_libraries_call_has_the_names_of_its_functions() {
    let (_, file, _folder) = trace(&compile("matmul.c"), &[], &[]);
    let structure = show(&file, &["--structure"]);
    let has = |line: &str| structure.lines().any(|each| each.trim_start().starts_with(line));
    assert!(has("in main, called in _start"), "{structure}");
    assert!(has("in malloc, called at matmul.c:"), "{structure}");
    assert!(has("in main._omp_fn.0"), "{structure}");
    assert!(structure.contains("called from GOMP_parallel at matmul.c:15"), "{structure}");
    let has_no_name = |line: &str| line.trim_start().starts_with("outside");
    assert!(!structure.lines().any(has_no_name), "{structure}");
}

#[test]
fn static_arrays_are_shown_by_name() {
    let (_, file, _folder) = trace(&compile("histogram.c"), &[], &[]);
    let structure = show(&file, &["--structure"]);
    assert!(structure.contains(" static bins"), "{structure}");
    let (_, file, _folder) = trace(&compile_with("children.c", &["-no-pie"]), &["again"], &[]);
    let structure = show(&file, &["--structure"]);
    assert!(structure.contains(" static cells"), "{structure}");
}

#[test]
fn three_hundred_threads_are_recorded_at_once_and_one_by_one() {
    let program = compile("many_threads.c");
    let (traced, file, _folder) = trace(&program, &[], &["--raw"]);
    assert_eq!(traced.expect_success().stdout, plain(&program, &[]).stdout);
    verified(&file);
    assert_eq!(info(&file)["threads"], 601);
}

#[test]
fn programs_with_signals_and_static_programs_run_as_without_refrain() {
    let static_matmul = compile_with("matmul.c", &["-static"]);
    for (program, arguments) in [(compile("signals.c"), &[][..]), (static_matmul, &["20"])] {
        let (traced, file, _folder) = trace(&program, arguments, &["--raw"]);
        assert_eq!(traced.expect_success().stdout, plain(&program, arguments).stdout);
        assert!(verified(&file) > 10_000);
    }
}

#[test]
fn programs_end_as_without_refrain() {
    let program = compile("ends.c");
    for way in ["return", "_exit", "abort", "thread", "fault", "signal"] {
        let (traced, file, _folder) = trace(&program, &[way], &["--raw"]);
        let plain = plain(&program, &[way]);
        assert_eq!((&traced.stdout, traced.code), (&plain.stdout, plain.code), "{traced}");
        assert!(verified(&file) > 10_000);
    }
}

#[test]
fn threads_can_be_cancelled_and_processes_forked_at_any_point() {
    for victim in ["cancelled.c", "forks_with_threads.c"] {
        let program = compile(victim);
        let (traced, file, _folder) = trace(&program, &[], &["--raw"]);
        assert_eq!(traced.expect_success().stdout, plain(&program, &[]).stdout);
        verified(&file);
    }
}

#[test]
fn only_the_window_between_two_functions_is_recorded_in_all_threads() {
    let program = compile("window.c");
    let options = ["--from", "begin_here", "--until", "end_here"];
    let (traced, file, _folder) = trace(&program, &[], &options);
    let stdout = traced.expect_success().stdout;
    let mut lines = stdout.lines();
    let inside: Vec<u64> = lines.next().unwrap().split(' ').skip(1).map(address).collect();
    let outside: Vec<u64> = lines.next().unwrap().split(' ').skip(1).map(address).collect();
    for thread in ["T0", "T1"] {
        assert_eq!(found(&file, thread, inside[0], inside[1]).len(), 100);
        assert_eq!(found(&file, thread, outside[0], outside[1]).len(), 0);
        assert_eq!(found(&file, thread, outside[2], outside[3]).len(), 0);
    }
}

#[test]
fn a_program_sees_the_same_environment() {
    let program = compile("surroundings.c");
    let arguments = ["one", "two words", ""];
    let (traced, _file, _folder) = trace(&program, &arguments, &[]);
    let plain = plain(&program, &arguments);
    let other = |a: &Outcome, b: &Outcome| -> Vec<String> {
        let there: Vec<&str> = b.stdout.lines().collect();
        let only = a.stdout.lines().filter(|line| !there.contains(line));
        only.map(str::to_owned).collect()
    };
    assert_eq!(other(&traced, &plain), Vec::<String>::new(), "only when recorded");
    assert_eq!(other(&plain, &traced), Vec::<String>::new(), "only when not recorded");
    assert_eq!((traced.code, plain.code), (44, 44));
}

#[test]
fn libraries_are_recorded_when_asked_for() {
    let program = compile("lists.c");
    let (_, own, _folder) = trace(&program, &["50"], &[]);
    let (traced, all, _other) = trace(&program, &["50"], &["--raw", "--libs"]);
    assert_eq!(traced.expect_success().stdout, plain(&program, &["50"]).stdout);
    assert!(verified(&all) > 10 * info(&own)["references"].as_u64().unwrap());
    let shown = show(&all, &[]);
    assert!(shown.contains("libc.so") || shown.contains("malloc"), "no reference of the C library");
    let info = info(&all);
    assert_eq!(info["complete"], true, "{info}");
    assert_eq!(info["holds"], "every load and store of the program and its libraries");
}

/// The compressors of a job: processes of `refrain` that share memory with a program, and have the
/// job's folder in their environment.
fn compressors(folder: &Path) -> Vec<u32> {
    let holds = |file: &str, pid: u32, what: &[u8]| {
        fs::read(format!("/proc/{pid}/{file}"))
            .is_ok_and(|text| text.windows(what.len()).any(|part| part == what))
    };
    let all = fs::read_dir("/proc").expect("/proc").flatten();
    let pids = all.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let is_refrain = |pid: &u32| {
        fs::read_link(format!("/proc/{pid}/exe")).is_ok_and(|exe| exe.ends_with("refrain"))
    };
    let is_ours = |pid: &u32| {
        holds("environ", *pid, folder.as_os_str().as_encoded_bytes())
            && holds("maps", *pid, b"/memfd:refrain")
    };
    pids.filter(is_refrain).filter(is_ours).collect()
}

#[test]
fn a_program_outlives_its_compressor() {
    let program = compile("matmul.c");
    let arguments = ["500"];
    let folder = tempfile::tempdir().expect("a folder");
    let mut running = memory_programs::start(&program, &arguments, folder.path());
    let mut killed = Vec::new();
    while !running.has_ended() {
        std::thread::sleep(Duration::from_millis(50)); // while it is at work
        for pid in compressors(folder.path()) {
            // SAFETY: a plain system call, on a process of this test.
            killed.push((pid, unsafe { libc::kill(pid as i32, libc::SIGKILL) }));
        }
    }
    let output = running.wait_with_output();
    assert!(!killed.is_empty(), "there was no compressor\n{output}");
    assert_eq!(output.stdout, plain(&program, &arguments).stdout, "{output}");
    assert!(output.stderr.contains("recording ends here, the program goes on"), "{output}");
}
