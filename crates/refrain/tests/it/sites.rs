//! Call sites and times of calls, as `refrain show` prints them.

use refrain_testing::{Mpi, Outcome, refrain, workspace};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// The line of the victim with that mark, from 1.
fn line_of(mark: &str) -> u64 {
    let source = std::fs::read_to_string(workspace().join("tests/victims/call_sites.c"));
    let source = source.expect("the victim's source");
    let mark = format!("/* {mark} */");
    let line = source.lines().position(|line| line.contains(&mark));
    line.expect("a line with the mark") as u64 + 1
}

/// A record of receive orders, and its program.
fn record(mpi: &Mpi, folder: &Path, options: &[&str]) -> (PathBuf, PathBuf) {
    run_with(mpi, folder, ("call_sites_any.c", &["-g"]), "record", options)
}

/// A trace, and its program.
fn recorded(mpi: &Mpi, folder: &Path, flags: &[&str], options: &[&str]) -> (PathBuf, PathBuf) {
    run_with(mpi, folder, ("call_sites.c", flags), "trace", options)
}

fn run_with(
    mpi: &Mpi,
    folder: &Path,
    (source, flags): (&str, &[&str]),
    command: &str,
    options: &[&str],
) -> (PathBuf, PathBuf) {
    let built = mpi.compile_with(source, flags);
    let program = folder.join("program");
    std::fs::copy(built, &program).expect("a copy of the program");
    let trace = folder.join("t.refrain");
    let plain = |path: &Path| path.to_str().expect("a plain path").to_owned();
    let (out, file) = (plain(&trace), plain(&program));
    let args = [&[command, "-o", &out], options, &["--", &file]].concat();
    mpi.refrain_in(folder, args).expect_success();
    (trace, program)
}

fn show(trace: &Path, options: &[&str]) -> Outcome {
    let trace = trace.to_str().expect("a plain path");
    refrain([&["show", trace], options].concat()).expect_success()
}

fn events(trace: &Path) -> Vec<Value> {
    let shown = show(trace, &["--json"]).stdout;
    shown.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
}

#[test]
fn calls_are_shown_with_file_and_line() {
    for mpi in Mpi::installed() {
        let folder = tempfile::tempdir().expect("a folder");
        for raw in [&[][..], &["--raw"]] {
            let options = [&["--callsite", "stack:2"], raw].concat();
            let flags = ["-g", "-O1", "-fno-omit-frame-pointer"];
            let (trace, _) = recorded(&mpi, folder.path(), &flags, &options);
            let shown = show(&trace, &["--function", "Sendrecv"]).stdout;
            let sites: Vec<&str> =
                shown.lines().filter_map(|line| line.split_once("  at ")).map(|(_, s)| s).collect();
            let site = |mark| {
                let call = line_of("exchange:");
                format!("exchange call_sites.c:{call} < main call_sites.c:{}", line_of(mark))
            };
            let (looped, once) = (site("loop"), site("once"));
            assert_eq!(sites, [&looped, &looped, &looped, &once], "{}", mpi.name());

            let first = &events(&trace)[0];
            assert_eq!(first["function"], "MPI_Init", "{}", mpi.name());
            assert_eq!(first["site"][0]["line"], line_of("init"), "{}", mpi.name());
            let file = first["site"][0]["file"].as_str().expect("a file");
            assert!(file.ends_with("tests/victims/call_sites.c"), "{file}");
        }
    }
}

#[test]
fn without_debug_information_the_offset_is_shown() {
    let mpi = Mpi::installed().into_iter().next().expect("an MPI");
    let folder = tempfile::tempdir().expect("a folder");
    let (trace, _) = recorded(&mpi, folder.path(), &["-s"], &["--callsite", "return"]);
    let shown = show(&trace, &["--function", "Sendrecv", "--limit", "1"]).stdout;
    let (_, site) = shown.trim_end().split_once("  at ").expect("a site");
    let offset = site.strip_prefix("program+0x").expect("module and offset");
    assert!(u64::from_str_radix(offset, 16).is_ok(), "{site}");
}

#[test]
fn a_program_that_was_only_touched_keeps_its_lines() {
    let mpi = Mpi::installed().into_iter().next().expect("an MPI");
    let folder = tempfile::tempdir().expect("a folder");
    let (trace, program) = recorded(&mpi, folder.path(), &["-g"], &["--callsite", "return"]);
    touch(&program, SystemTime::now() + Duration::from_secs(60));
    let shown = show(&trace, &[]);
    assert!(shown.stdout.contains("call_sites.c"), "{}", shown.stdout);
    assert_eq!(shown.stderr, "");
}

#[test]
fn a_rebuilt_program_gives_no_lines_for_an_old_trace() {
    let mpi = Mpi::installed().into_iter().next().expect("an MPI");
    let folder = tempfile::tempdir().expect("a folder");
    let (trace, program) = recorded(&mpi, folder.path(), &["-g"], &["--callsite", "return"]);
    let rebuilt = mpi.compile_with("call_sites.c", &["-g", "-O2"]);
    std::fs::copy(rebuilt, &program).expect("a copy");
    touch(&program, UNIX_EPOCH + Duration::from_secs(60));
    let shown = show(&trace, &[]);
    assert!(!shown.stdout.contains("call_sites.c"), "{}", shown.stdout);
    assert!(shown.stdout.contains("at program+0x"), "{}", shown.stdout);
    let warning = format!("{} has changed since the recording", program.display());
    assert!(shown.stderr.contains(&warning), "{}", shown.stderr);
}

/// Gives a program another time of modification.
fn touch(program: &Path, time: SystemTime) {
    let file = std::fs::File::options().append(true).open(program).expect("the program");
    file.set_modified(time).expect("another time");
}

#[test]
fn a_record_of_a_program_that_was_only_touched_keeps_its_lines() {
    for mpi in Mpi::representatives() {
        for method in ["causal", "clock"] {
            let folder = tempfile::tempdir().expect("a folder");
            let (record, program) = record(&mpi, folder.path(), &["--method", method]);
            touch(&program, SystemTime::now() + Duration::from_secs(60));
            let shown = show(&record, &[]);
            assert!(shown.stdout.contains("call_sites_any.c:"), "{} {shown}", mpi.name());
            assert_eq!(shown.stderr, "", "{}", mpi.name());
        }
    }
}

#[test]
fn a_program_that_was_built_anew_has_no_lines_for_an_old_record() {
    let mpi = Mpi::any();
    let folder = tempfile::tempdir().expect("a folder");
    let (record, program) = record(&mpi, folder.path(), &[]);
    std::fs::copy(mpi.compile_with("call_sites_any.c", &["-g", "-O2"]), &program).expect("a copy");
    touch(&program, UNIX_EPOCH + Duration::from_secs(60));
    let shown = show(&record, &[]);
    assert!(!shown.stdout.contains("call_sites_any.c"), "{shown}");
    assert!(shown.stdout.contains("program+0x"), "{shown}");
    let warning = format!("{} has changed since the recording", program.display());
    assert!(shown.stderr.contains(&warning), "{shown}");
}

#[test]
fn a_stripped_program_is_symbolized_by_its_debug_file() {
    let mpi = Mpi::installed().into_iter().next().expect("an MPI");
    let folder = tempfile::tempdir().expect("a folder");
    let flags = ["-g", "-Wl,--build-id=0xab0123456789abcdef"];
    let built = mpi.compile_with("call_sites.c", &flags);
    let (program, trace) = (folder.path().join("program"), folder.path().join("t.refrain"));
    let debug = folder.path().join("debug/.build-id/ab");
    std::fs::create_dir_all(&debug).expect("a folder");
    let text = |path: &Path| path.to_str().expect("a plain path").to_owned();
    let objcopy = |words: &[&str]| {
        let status = std::process::Command::new("objcopy").args(words).status();
        assert!(status.is_ok_and(|status| status.success()), "objcopy {words:?}");
    };
    let file = text(&debug.join("0123456789abcdef.debug"));
    objcopy(&["--only-keep-debug", &text(&built), &file]);
    objcopy(&["--strip-all", &text(&built), &text(&program)]);
    let args = ["trace", "-o", &text(&trace), "--callsite", "return", "--", &text(&program)];
    mpi.refrain_in(folder.path(), args.map(str::to_owned)).expect_success();
    let shown = |directories: &Path| {
        let command = std::process::Command::new(refrain_testing::refrain_binary())
            .args(["show", &text(&trace)])
            .env("REFRAIN_DEBUG_DIRECTORIES", directories)
            .output();
        String::from_utf8(command.expect("it runs").stdout).expect("text")
    };
    let with = shown(&folder.path().join("debug"));
    assert!(with.contains(&format!("main call_sites.c:{}", line_of("init"))), "{with}");
    let without = shown(Path::new("/nowhere"));
    assert!(!without.contains("call_sites.c"), "{without}");
}

#[test]
fn times_of_records_are_those_of_the_system() {
    let nanos = |time: SystemTime| time.duration_since(UNIX_EPOCH).map_or(0, |t| t.as_nanos());
    for mpi in Mpi::installed() {
        let folder = tempfile::tempdir().expect("a folder");
        let before = nanos(SystemTime::now());
        let (trace, _) = recorded(&mpi, folder.path(), &["-g"], &["--raw"]);
        let after = nanos(SystemTime::now());
        let events = events(&trace);
        let number = |event: &Value, name: &str| u128::from(event[name].as_u64().expect("a time"));
        for pair in events.windows(2) {
            let (start, end) = (number(&pair[0], "start"), number(&pair[0], "end"));
            assert!((before..after).contains(&start) && end <= after, "{}", mpi.name());
            assert_eq!(end - start, number(&pair[0], "duration"));
            // The program sleeps for 20 ms before each exchange.
            if pair[1]["function"] == "MPI_Sendrecv" {
                let slept = number(&pair[1], "start") - end;
                assert!((20_000_000..2_000_000_000).contains(&slept), "{} {slept}", mpi.name());
            }
        }
    }
}
