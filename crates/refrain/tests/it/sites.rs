//! Where in the program calls were made, as `refrain show` prints it; and when.

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

fn recorded(mpi: &Mpi, folder: &Path, flags: &[&str], options: &[&str]) -> (PathBuf, PathBuf) {
    let built = mpi.compile_with("call_sites.c", flags);
    let program = folder.join("program");
    std::fs::copy(built, &program).expect("a copy of the program");
    let trace = folder.join("t.refrain");
    let plain = |path: &Path| path.to_str().expect("a plain path").to_owned();
    let (out, file) = (plain(&trace), plain(&program));
    let args = [&["trace", "-o", &out], options, &["--", &file]].concat();
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
fn a_program_that_was_built_anew_has_no_lines_for_an_old_trace() {
    let mpi = Mpi::installed().into_iter().next().expect("an MPI");
    let folder = tempfile::tempdir().expect("a folder");
    let (trace, program) = recorded(&mpi, folder.path(), &["-g"], &["--callsite", "return"]);
    let file = std::fs::File::options().append(true).open(&program).expect("the program");
    file.set_modified(SystemTime::now() + Duration::from_secs(60)).expect("a later time");
    let shown = show(&trace, &[]);
    assert!(!shown.stdout.contains("call_sites.c"), "{}", shown.stdout);
    let warning = format!("{} was changed after the recording", program.display());
    assert!(shown.stderr.contains(&warning), "{}", shown.stderr);
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
