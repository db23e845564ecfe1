//! What the agent writes besides calls: memory, members of communicators, call sites; and calls that are not
//! selected are left out.
//!
//! The tests read the parts record by record (`refrain_format::record`).

use refrain_format::part::{BODY, EXTENSION, HEADER_BYTES, PartHeader, WINDOW_HEAD};
use refrain_format::record::{HEAD, Tag, segment};
use refrain_testing::{Mpi, Outcome, refrain, refrain_binary};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// A record of a log.
struct Record {
    tag: Tag,
    function: u16,
    body: Vec<u8>,
}

impl Record {
    fn u64(&self, at: usize) -> u64 {
        u64::from_le_bytes(self.body[at..at + 8].try_into().expect("8 bytes"))
    }

    fn i32(&self, at: usize) -> i32 {
        i32::from_le_bytes(self.body[at..at + 4].try_into().expect("4 bytes"))
    }

    fn text(&self, from: usize) -> String {
        String::from_utf8_lossy(&self.body[from..]).into_owned()
    }
}

/// The log of a thread.
struct Log {
    header: PartHeader,
    records: Vec<Record>,
    /// Names of functions.
    names: BTreeMap<u16, String>,
}

impl Log {
    fn read(file: &Path) -> Log {
        let bytes = std::fs::read(file).expect("a part can be read");
        let header = PartHeader::read(&bytes).expect("a part has a header");
        let (window, body) = (&bytes[HEADER_BYTES..BODY], &bytes[BODY..]);
        let mut all = body[..header.appended as usize].to_vec();
        let (head, records) = window.split_at(WINDOW_HEAD);
        let first = u64::from_le_bytes(head.try_into().expect("8 bytes"));
        all.extend(&records[(header.appended - first) as usize..]);
        let (mut rest, mut records, mut names) = (&all[..], Vec::new(), BTreeMap::new());
        while rest.len() >= HEAD && rest[2] != Tag::End as u8 {
            let length = u32::from_le_bytes(rest[4..8].try_into().expect("4 bytes")) as usize;
            let (record, others) = rest.split_at(length);
            let function = u16::from_le_bytes([record[0], record[1]]);
            let tag = Tag::from_byte(record[2]).expect("a known tag");
            let body = record[HEAD..].to_vec();
            if tag == Tag::Define {
                let text = String::from_utf8_lossy(&body).into_owned();
                let name = text.split_whitespace().next().unwrap_or_default();
                names.insert(function, name.to_owned());
            }
            records.push(Record { tag, function, body });
            rest = others;
        }
        Log { header, records, names }
    }

    /// The functions that were called, in order.
    fn called(&self) -> Vec<&str> {
        let calls = self.records.iter().filter(|r| matches!(r.tag, Tag::Enter | Tag::EnterAt));
        calls.map(|r| self.names[&r.function].as_str()).collect()
    }
}

/// Runs a program with the agent. Returns its outcome, and the logs by rank and thread.
fn record(mpi: &Mpi, ranks: usize, program: &Path, args: &[&str]) -> (Outcome, Vec<Log>) {
    record_with(mpi, ranks, program, args, &[])
}

fn record_with(
    mpi: &Mpi,
    ranks: usize,
    program: &Path,
    args: &[&str],
    variables: &[(&str, &str)],
) -> (Outcome, Vec<Log>) {
    let parts = tempfile::tempdir().expect("a temporary folder");
    let mut run = mpi.run(ranks).program(refrain_binary()).args(["__rank", "--agent"]);
    run = run.args([refrain_binary().with_file_name("librefrain_agent.so")]);
    run = run.args(["--parts"]).args([parts.path()]).args(["--"]).args([program]).args(args);
    // The whole log is to be inspected.
    run = run.env("REFRAIN_RAW", "1");
    for (name, value) in variables {
        run = run.env(name, value);
    }
    let outcome = run.output().expect_success();
    let files = std::fs::read_dir(parts.path()).expect("a folder").map(|f| f.expect("a file"));
    let is_part = |path: &PathBuf| path.extension().is_some_and(|e| e == EXTENSION);
    let mut logs: Vec<Log> =
        files.map(|f| f.path()).filter(is_part).map(|path| Log::read(&path)).collect();
    logs.sort_by_key(|log| (log.header.rank, log.header.thread));
    (outcome, logs)
}

#[test]
fn before_finalize_a_state_replaces_the_records() {
    const ITERATIONS: u64 = 5000;
    for mpi in Mpi::representatives() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let parts = folder.path().join("run.refrain.parts");
        std::fs::create_dir(&parts).expect("a folder");
        let mut run = mpi.run(2).program(refrain_binary()).args(["__rank", "--agent"]);
        run = run.args([refrain_binary().with_file_name("librefrain_agent.so")]);
        run = run.args(["--parts"]).args([&parts]).args(["--"]).args([mpi.compile("long_run.c")]);
        run.args([ITERATIONS.to_string()]).output().expect_success();
        let files = std::fs::read_dir(&parts).expect("a folder").map(|f| f.expect("a file").path());
        let logs: Vec<PathBuf> =
            files.filter(|path| path.extension().is_some_and(|e| e == EXTENSION)).collect();
        assert_eq!(logs.len(), 2);
        for log in logs {
            let bytes = std::fs::read(log).expect("a part can be read");
            let header = PartHeader::read(&bytes).expect("a part has a header");
            let (left, all) = (header.appended, header.base + header.appended);
            assert!(all > 2 * ITERATIONS * 60, "{}: {all}", mpi.name());
            assert_eq!(left, 0, "{}: all but the last records are in the state", mpi.name());
        }
        refrain(["merge".as_ref(), parts.as_os_str()]).expect_success();
        let trace = folder.path().join("run.refrain");
        let checked = refrain(["verify".as_ref(), trace.as_os_str()]).expect_success();
        // Init, size, rank, Finalize.
        let calls = format!("{:?} calls of 2 threads decoded", 2 * (2 * ITERATIONS + 4));
        assert!(checked.stdout.replace(',', "").contains(&calls), "{checked}");
    }
}

/// A piece of memory that was announced.
#[derive(Clone, Debug)]
struct Segment {
    start: u64,
    bytes: u64,
    anchor: u64,
    kind: u8,
    device: i32,
    text: String,
}

/// The messages of a log, by tag: the buffer, and the segment that contains it.
fn buffers(log: &Log) -> BTreeMap<i32, (u64, Option<Segment>)> {
    let (mut live, mut found) = (Vec::<Segment>::new(), BTreeMap::new());
    for record in &log.records {
        match record.tag {
            Tag::Segment => {
                let new = Segment {
                    start: record.u64(8),
                    bytes: record.u64(16),
                    anchor: record.u64(24),
                    kind: record.body[32],
                    device: record.i32(33),
                    text: record.text(37),
                };
                let (start, end) = (new.start, new.start + new.bytes);
                live.retain(|s| s.start >= end || s.start + s.bytes <= start);
                live.push(new);
            }
            Tag::Release => live.retain(|s| s.start != record.u64(8)),
            Tag::Enter if log.names[&record.function] == "MPI_Sendrecv" => {
                // Ticks, buffer, count, datatype, destination, tag.
                let (buffer, tag) = (record.u64(8), record.i32(32));
                let is_in = |s: &&Segment| (s.start..s.start + s.bytes).contains(&buffer);
                found.insert(tag, (buffer, live.iter().find(is_in).cloned()));
            }
            _ => {}
        }
    }
    found
}

fn count(log: &Log, tag: Tag) -> usize {
    log.records.iter().filter(|r| r.tag == tag).count()
}

#[test]
fn every_buffer_is_in_memory_that_was_announced() {
    for mpi in Mpi::installed() {
        let who = mpi.name();
        let program = mpi.compile_with("buffers.c", &["-pthread", "-ldl"]);
        let library = mpi.compile_with("library_data.c", &["-shared", "-fPIC"]);
        let library = library.to_str().expect("a plain path");
        let (_, logs) = record(&mpi, 1, &program, &[library]);
        let [main, thread] = &logs[..] else { panic!("{who}: {} logs", logs.len()) };
        let found = buffers(main);
        let at = |tag: i32| {
            let (buffer, segment) = &found[&tag];
            let segment = segment.clone().unwrap_or_else(|| panic!("{who}: {tag} is nowhere"));
            (buffer - segment.start, segment)
        };
        // Tag, offset, least number of bytes.
        let heap = [
            (0, 0, 256),
            (1, 40, 256),
            (2, 0, 256),
            (3, 0, 1 << 20),
            (4, (1 << 20) - 256, 1 << 20),
            (5, 0, 512),
            (6, 0, 640),
            (7, 0, 1280),
            (40, 0, 256),
            (41, 0, 256),
            (42, 0, 256),
            (43, 1024, 2048),
            (44, 1 << 20, 1 << 21),
        ];
        for (tag, offset, bytes) in heap {
            let (found, segment) = at(tag);
            assert_eq!(segment.kind, segment::HEAP, "{who}: {tag} {segment:?}");
            assert_eq!(found, offset, "{who}: {tag} {segment:?}");
            let most = bytes + 64;
            assert!((bytes..most).contains(&segment.bytes), "{who}: {tag} {segment:?}");
        }
        for (tag, file) in [(10, program.to_str().expect("a plain path")), (12, library)] {
            let (_, segment) = at(tag);
            assert_eq!(segment.kind, segment::STATIC, "{who}: {tag} {segment:?}");
            assert_eq!(segment.text, file, "{who}: {tag}");
        }
        // Where UCX intercepts mappings, the agent does not see them and asks the kernel instead.
        for tag in [20, 21] {
            let (offset, segment) = at(tag);
            assert_eq!(segment.kind, segment::MAPPED, "{who}: {tag} {segment:?}");
            if who != "mpich-4.0" {
                assert_eq!((offset, segment.bytes), (400, 3 << 16), "{who}: {tag}");
            }
        }
        let (_, stack) = at(11);
        assert_eq!(stack.kind, segment::STACK, "{who}");
        let theirs = buffers(thread);
        let own = theirs[&30].1.clone().expect("the thread's stack");
        let shared = theirs[&31].1.clone().expect("the other thread's stack");
        assert_eq!((own.kind, shared.kind), (segment::STACK, segment::STACK), "{who}");
        assert_eq!((shared.start, shared.anchor), (stack.start, stack.anchor), "{who}");
        assert_ne!(own.start, stack.start, "{who}");
        assert!(found[&50].1.is_some() && found[&51].1.is_some(), "{who}: memory that MPI gave");
        assert!(found[&52].1.is_none() && found[&53].1.is_none(), "{who}: no memory at all");
        assert_eq!(at(60).0, at(10).0 + 128, "{who}");

        // A segment that is released was announced before, in this log or the other.
        let announced = |start| {
            let segments = logs.iter().flat_map(|l| &l.records).filter(|r| r.tag == Tag::Segment);
            segments.into_iter().any(|r| r.u64(8) == start)
        };
        let released: Vec<u64> =
            main.records.iter().filter(|r| r.tag == Tag::Release).map(|r| r.u64(8)).collect();
        assert!(released.iter().all(|&start| announced(start)), "{who}");
        assert!(released.len() >= 12, "{who}: {released:x?}");
    }
}

#[test]
fn offsets_on_stacks_are_the_same_in_every_run() {
    let mpi = Mpi::installed().remove(0);
    let program = mpi.compile_with("buffers.c", &["-pthread", "-ldl"]);
    let offsets = |variable: &str| {
        let (_, logs) = record_with(&mpi, 1, &program, &[], &[("FILLS_THE_STACK", variable)]);
        let of = |log: &Log, tag| {
            let (buffer, segment) = buffers(log)[&tag].clone();
            buffer.wrapping_sub(segment.expect("a stack").anchor) as i64
        };
        [of(&logs[0], 11), of(&logs[1], 30), of(&logs[1], 31)]
    };
    assert_eq!(offsets("a"), offsets(&"much longer ".repeat(100)));
}

#[test]
fn memory_that_is_used_repeatedly_is_announced_once() {
    for mpi in Mpi::installed() {
        let program = mpi.compile("calls_much.c");
        let (_, logs) = record(&mpi, 2, &program, &[]);
        for log in &logs {
            assert!(log.called().len() > 1000, "{}", mpi.name());
            assert!(count(log, Tag::Segment) < 20, "{}", mpi.name());
        }
    }
}

#[test]
fn device_memory_is_distinguished_from_other_memory() {
    for mpi in Mpi::installed() {
        let library = mpi.compile_with("fake_cudart.c", &["-shared", "-fPIC"]);
        let library = library.to_str().expect("a plain path");
        let flags = ["-Wl,--no-as-needed", library, "-ldl"];
        let program = mpi.compile_with("device_buffers.c", &flags);
        let (_, logs) = record(&mpi, 1, &program, &[]);
        let found = buffers(&logs[0]);
        let expected = [
            (0, segment::DEVICE, 40, 100_000),
            (1, segment::MANAGED, 0, 4096),
            (2, segment::PINNED, 80, 8192),
        ];
        for (tag, kind, offset, bytes) in expected {
            let (buffer, segment) = found[&tag].clone();
            let segment = segment.expect("memory of a device");
            assert_eq!((segment.kind, segment.device), (kind, 3), "{}", mpi.name());
            assert_eq!((buffer - segment.start, segment.bytes), (offset, bytes), "{}", mpi.name());
        }
        assert_eq!(count(&logs[0], Tag::Release), 3, "{}", mpi.name());
    }
}

#[test]
fn every_new_communicator_has_its_members_in_the_log() {
    for mpi in Mpi::installed() {
        let program = mpi.compile("communicators.c");
        let (outcome, logs) = record(&mpi, 3, &program, &[]);
        let mut found = Vec::new();
        for log in &logs {
            let mut last = "";
            for record in &log.records {
                match record.tag {
                    Tag::Leave => last = &log.names[&record.function],
                    Tag::Members => {
                        let ranks = |at: usize| -> Vec<String> {
                            let n = record.i32(at) as usize;
                            (0..n).map(|i| record.i32(at + 4 + 4 * i).to_string()).collect()
                        };
                        let local = ranks(16);
                        let remote = ranks(20 + 4 * local.len());
                        let rank = log.header.rank;
                        let (local, remote) = (local.join(" "), remote.join(" "));
                        found.push(format!("> {rank} {last} [{local}] [{remote}]"));
                    }
                    _ => {}
                }
            }
        }
        let mut said: Vec<_> = outcome.stdout.lines().filter(|l| l.starts_with("> ")).collect();
        said.sort_unstable();
        found.sort_unstable();
        assert_eq!(found, said, "{}", mpi.name());
    }
}

/// The function of every call and the frames of its call site. Call sites are written before the calls that
/// refer to them.
fn sites(log: &Log) -> Vec<(String, Vec<String>)> {
    let mut known = BTreeMap::new();
    let mut calls = Vec::new();
    for record in &log.records {
        match record.tag {
            Tag::Site => {
                let frames: Vec<String> = record.text(4).lines().map(str::to_owned).collect();
                assert_eq!(record.i32(0) as usize, known.len(), "numbered in order");
                known.insert(record.i32(0), frames);
            }
            Tag::EnterAt => {
                let frames =
                    known.get(&record.i32(8)).expect("a call site that was written before");
                calls.push((log.names[&record.function].clone(), frames.clone()));
            }
            Tag::Enter => panic!("a call without a call site"),
            _ => {}
        }
    }
    calls
}

#[test]
fn calls_have_call_sites_if_requested() {
    for mpi in Mpi::installed() {
        // With frame pointers and without.
        for flags in [&["-fno-omit-frame-pointer"][..], &["-fomit-frame-pointer"]] {
            let who = format!("{} {flags:?}", mpi.name());
            let program = mpi.compile_with("buffers.c", &[&["-pthread", "-ldl"], flags].concat());
            let file = program.to_str().expect("a plain path");
            let run = |how| record_with(&mpi, 1, &program, &[], &[("REFRAIN_CALLSITE", how)]).1;

            let calls = sites(&run("return")[0]);
            assert!(calls.len() > 20, "{who}");
            for (function, frames) in &calls {
                assert_eq!(frames.len(), 1, "{who}: {function}");
                // The program, its build id, and the offset.
                let (id, offset) = frames[0]
                    .strip_prefix(file)
                    .and_then(|rest| rest.strip_prefix('@')?.split_once('+'))
                    .unwrap_or_else(|| panic!("{who}: {function} at {frames:?}"));
                assert!(u64::from_str_radix(offset, 16).is_ok(), "{who}: {frames:?}");
                assert!(id.len() == 40 && id.bytes().all(|b| b.is_ascii_hexdigit()), "{who}: {id}");
            }
            // One function makes all of these.
            let of = |calls: &[(String, Vec<String>)]| {
                let mut all: Vec<_> =
                    calls.iter().filter(|c| c.0 == "MPI_Sendrecv").map(|c| c.1.clone()).collect();
                all.sort();
                all.dedup();
                all
            };
            assert_eq!(of(&calls).len(), 1, "{who}");
            // It is called from many places of another.
            let calls = of(&sites(&run("stack:2")[0]));
            assert!(calls.len() > 20, "{who}");
            for frames in calls {
                assert!(frames.len() == 2 && frames.iter().all(|f| f.starts_with(file)), "{who}");
            }
        }
    }
}

#[test]
fn calls_of_fortran_have_call_sites_in_the_program() {
    for mpi in Mpi::with_fortran() {
        let program = mpi.compile("many_calls.F90");
        let file = program.to_str().expect("a plain path");
        for how in ["return", "stack:1"] {
            let variables = [("REFRAIN_CALLSITE", how)];
            let (_, logs) = record_with(&mpi, 1, &program, &[], &variables);
            let calls = sites(&logs[0]);
            assert_eq!(calls.len(), 24, "{}", mpi.name());
            for (function, frames) in calls {
                assert!(frames[0].starts_with(file), "{}: {function} {frames:?}", mpi.name());
            }
        }
    }
}

#[test]
fn programs_switch_recording_off_and_on() {
    for mpi in Mpi::installed() {
        let program = mpi.compile("switches.c");
        let (_, logs) = record(&mpi, 1, &program, &[]);
        let log = &logs[0];
        let is_mark = |r: &&Record| {
            matches!(r.tag, Tag::Enter) && log.names[&r.function] == "MPI_Error_class"
        };
        let marks: Vec<i32> = log.records.iter().filter(is_mark).map(|r| r.i32(8)).collect();
        assert_eq!(marks, [1, 4, 5, 6, 9], "{}", mpi.name());
        let called = log.called();
        let count = |name| called.iter().filter(|&&f| f == name).count();
        assert_eq!(count("MPI_Pcontrol"), 5, "{}", mpi.name());
        assert_eq!(count("MPI_Info_set"), 3, "{}", mpi.name());
        assert_eq!(count("MPI_Finalize"), 1, "{}", mpi.name());
        assert_eq!(log.header.unrecorded, 0, "{}", mpi.name());
    }
}

#[test]
fn only_selected_functions_and_ranks_are_recorded() {
    let mpi = Mpi::installed().remove(0);
    let program = mpi.compile("communicators.c");
    let run = |variables: &[(&str, &str)]| record_with(&mpi, 3, &program, &[], variables).1;
    let distinct = |log: &Log| {
        let mut all: Vec<String> = log.called().iter().map(|&f| f.to_owned()).collect();
        all.sort_unstable();
        all.dedup();
        all
    };

    for log in run(&[("REFRAIN_FUNCTIONS", "comm_d*, MPI_Cart_Create,mpi_group_free")]) {
        let expected =
            ["MPI_Cart_create", "MPI_Comm_dup", "MPI_Finalize", "MPI_Group_free", "MPI_Init"];
        assert_eq!(distinct(&log), expected);
        assert_eq!(log.header.unrecorded, 0);
    }
    for log in run(&[("REFRAIN_EXCLUDE", "MPI_C*,*_translate_ranks,Init")]) {
        let functions = distinct(&log);
        assert!(functions.iter().all(|f| !f.starts_with("MPI_C")), "{functions:?}");
        assert!(functions.iter().all(|f| f != "MPI_Group_translate_ranks"), "{functions:?}");
        assert!(functions.iter().any(|f| f == "MPI_Init"), "{functions:?}");
        assert!(functions.iter().any(|f| f == "MPI_Group_incl"), "{functions:?}");
    }
    for log in run(&[("REFRAIN_RANKS", "0,2-7")]) {
        let expected = if log.header.rank == 1 { 2..3 } else { 20..1000 };
        assert!(expected.contains(&log.called().len()), "rank {}", log.header.rank);
    }
}

/// The output of many_windows.c: how often the list of mappings was opened, how many bytes of it
/// were read, and how often the kernel was asked about one address; summed over ranks.
fn asked(windows: usize, how: &str) -> [u64; 3] {
    let mpi = Mpi::named("mpich-4.0").expect("mpich-4.0 is installed");
    let program = mpi.compile_with("many_windows.c", &["-rdynamic", "-ldl"]);
    let folder = tempfile::tempdir().expect("a temporary folder");
    let trace = folder.path().join("t.refrain");
    let run = mpi.run(2).program(program).args([&windows.to_string(), how]);
    let outcome = run.trace_to(Some(&trace)).output().expect_success();
    let trace = trace.to_str().expect("a plain path");
    refrain(["verify", trace]).expect_success();
    let mut sums = [0; 3];
    let lines = outcome.stdout.lines().filter(|line| line.contains("opens "));
    assert_eq!(lines.clone().count(), 2, "{outcome}");
    for line in lines {
        let numbers = line.split(' ').filter_map(|word| word.parse::<u64>().ok());
        sums.iter_mut().zip(numbers).for_each(|(sum, number)| *sum += number);
    }
    sums
}

#[test]
fn the_cost_of_a_window_does_not_grow_with_the_number_of_windows() {
    let (few, many) = (20, 120);
    let [_, _, queries] = asked(few, "");
    if queries > 0 {
        // The kernel is asked about single addresses, so its list is not read.
        let ([_, before, _], [opens, bytes, _]) = (asked(few, ""), asked(many, ""));
        assert!(bytes <= before, "{before} and {bytes} bytes");
        assert!(opens <= 2 * many as u64 + 8, "{opens} times");
    }
    // Where it cannot be asked, the list is read once per window.
    let [opens, bytes, queries] = asked(few, "list");
    assert!(bytes > 0 && queries == 0, "{bytes} bytes");
    assert!(opens <= 2 * few as u64 + 8, "{opens} times");
}
