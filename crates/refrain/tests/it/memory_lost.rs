//! `refrain mem` where data is lost: full disks, limits on file sizes, removed folders. What was compressed is
//! kept, the trace says what is missing and why, and the program is not affected.

use crate::memory_recorded::FrontEnd::{self, Compiled};
use crate::memory_recorded::{Recorded, build, run, succeed};

use refrain_testing::{SmallFileSystem, refrain_binary};
use std::path::Path;
use std::process::{Command, Output};
use tempfile::TempDir;

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// `refrain mem` of a program, with its trace in a folder, run by a shell after other commands.
fn mem_after(
    before: &str,
    folder: &Path,
    options: &[&str],
    program: &Path,
    args: &[&str],
) -> Output {
    let mut command = Command::new("bash");
    command.arg("-c").arg(format!("{before}\nexec \"$@\"")).arg("bash").arg(refrain_binary());
    command.args(["mem", "-o"]).arg(folder.join("t.refrain")).args(options).arg("--");
    run(command.arg(program).args(args).env("OMP_NUM_THREADS", "2"))
}

/// The only file in the folder of parts with this extension.
fn part(folder: &Path, extension: &str) -> std::path::PathBuf {
    let entries = std::fs::read_dir(folder.join("t.refrain.parts")).expect("parts");
    let mut paths = entries.flatten().map(|entry| entry.path());
    let path = paths.find(|path| path.extension().is_some_and(|e| e == extension));
    path.unwrap_or_else(|| panic!("no .{extension} in the parts"))
}

/// Merges the parts into another folder.
fn merged(parts_in: &Path, folder: &Path) -> Recorded {
    let trace = folder.join("merged.refrain");
    let mut command = Command::new(refrain_binary());
    command.arg("merge").arg(parts_in.join("t.refrain.parts")).arg("-o").arg(&trace);
    let output = succeed(&mut command);
    Recorded { trace, output }
}

/// Asserts that a trace that was truncated on a full disk has at least this many bytes of sealed chunks, and
/// says why it ends.
#[track_caller]
fn assert_truncated(recorded: &Recorded, sealed: u64, why: &str) {
    let (is_right, words) = recorded.refrain(&["verify"]);
    assert!(is_right, "{words}");
    let info = recorded.info();
    assert_eq!(info["complete"], false, "{info}");
    let lost = info["process"][0]["lost"].as_str().expect("a text");
    assert!(lost.contains(why), "{info}");
    assert!(sealed > 500_000, "only {sealed} bytes were sealed");
    assert!(
        info["sections"]["sealed"].as_u64() >= Some(sealed),
        "sealed chunks are missing\n{info}"
    );
    assert!(info["references"].as_u64() > Some(1_000_000), "{info}");
    let (_, words) = recorded.refrain(&["info"]);
    let line = words.lines().find(|line| line.starts_with("truncated ")).expect(&words);
    assert!(line.contains(why) && line.contains(" references"), "{line}");
}

#[test]
fn a_full_disk_truncates_the_trace_after_the_last_sealed_chunk() {
    let folder = TempDir::new().expect("a folder");
    let program = build(folder.path(), "sorting.c", Some(Compiled));
    let plain = succeed(Command::new(&program).arg("120000"));
    for options in [&["--window", "20000"][..], &["--window", "20000", "--raw"]] {
        let size = if options.len() > 2 { 48 << 20 } else { 3 << 20 };
        let Some(small) = SmallFileSystem::new(size) else { return };
        let output = mem_after("", small.path(), options, &program, &["120000"]);
        assert_eq!((output.status.code(), &output.stdout), (Some(0), &plain.stdout), "{output:?}");
        let said = text(&output.stderr);
        assert!(said.contains("disk is full") && said.contains("refrain merge"), "{said}");
        let recorded = merged(small.path(), folder.path());
        let sealed = std::fs::metadata(part(small.path(), "sealed")).expect("sealed chunks").len();
        assert_truncated(&recorded, sealed, "the disk is full");
        std::fs::remove_file(&recorded.trace).expect("removed");
    }
}

#[test]
fn a_limit_on_file_sizes_truncates_the_trace_and_kills_no_process() {
    let folder = TempDir::new().expect("a folder");
    for front_end in FrontEnd::all() {
        let program = build(folder.path(), "sorting.c", Some(front_end));
        let plain = succeed(Command::new(&program).arg("120000"));
        let within = TempDir::new().expect("a folder");
        let options = ["--window", "20000", "--frontend", front_end.word()];
        // In units of 1024 bytes.
        let output = mem_after("ulimit -f 1000", within.path(), &options, &program, &["120000"]);
        assert_eq!((output.status.code(), &output.stdout), (Some(0), &plain.stdout), "{output:?}");
        let said = text(&output.stderr);
        assert!(said.contains("limit on file sizes is reached, see ulimit -f"), "{said}");
        assert!(!said.contains("refrain cc"), "{said}");
        // The chunk past the limit is missing, so there is room for the trace.
        let recorded = Recorded { trace: within.path().join("t.refrain"), output };
        assert_truncated(&recorded, 800_000, "limit on file sizes");
    }
}

/// The memory that a program shares with its compressor is larger than the limit.
#[test]
fn a_small_trace_is_complete_under_a_small_limit_on_file_sizes() {
    let folder = TempDir::new().expect("a folder");
    for front_end in FrontEnd::all() {
        let program = build(folder.path(), "matmul.c", Some(front_end));
        let options = ["--raw", "--frontend", front_end.word()];
        let within = TempDir::new().expect("a folder");
        let output = mem_after("ulimit -f 20000", within.path(), &options, &program, &[]);
        let recorded = Recorded { trace: within.path().join("t.refrain"), output };
        assert!(recorded.output.status.success(), "{:?}", recorded.output);
        assert!(recorded.verify() > 100_000);
        assert_eq!(recorded.info()["complete"], true, "{}", recorded.info());
    }
}

/// The program inherits the signal's disposition as without Refrain.
#[test]
fn a_program_that_exceeds_the_limit_itself_is_killed_as_without_refrain() {
    let folder = TempDir::new().expect("a folder");
    let script = "ulimit -f 1; head -c 100000 /dev/zero > large; echo $?";
    let plain = succeed(Command::new("bash").args(["-c", script]).current_dir(folder.path()));
    assert!(text(&plain.stdout).starts_with("153"), "{plain:?}");
    let mut command = Command::new(refrain_binary());
    command.args(["mem", "--frontend", "compiled", "--", "bash", "-c", script]);
    let output = run(command.current_dir(folder.path()));
    assert_eq!(output.stdout, plain.stdout, "{output:?}");
}

/// Runs a recompiled program beside a command that begins when the first state is written.
fn mem_while(folder: &Path, program: &Path, command: &str) -> Output {
    let script = format!(
        "{} 200000 & until ls t.refrain.parts/*.memory >/dev/null 2>&1; do sleep 0.02; done\n\
         {command}\nwait $!",
        program.display()
    );
    let mut refrain = Command::new(refrain_binary());
    refrain.args(["mem", "--frontend", "compiled", "--window", "20000", "-o", "t.refrain", "--"]);
    run(refrain.args(["bash", "-c", &script]).current_dir(folder))
}

#[test]
fn a_removed_folder_is_reported_as_lost_data() {
    let folder = TempDir::new().expect("a folder");
    let program = build(folder.path(), "sorting.c", Some(Compiled));
    let output = mem_while(folder.path(), &program, "rm -rf t.refrain.parts");
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{said}");
    assert!(said.contains("was removed while the program ran"), "{said}");
    assert!(!said.contains("refrain merge") && !said.contains("written to"), "{said}");
}

#[test]
fn removed_chunks_are_reported_as_lost_data() {
    let folder = TempDir::new().expect("a folder");
    let program = build(folder.path(), "sorting.c", Some(Compiled));
    let output = mem_while(folder.path(), &program, "rm t.refrain.parts/*.sealed");
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{said}");
    assert!(said.contains("files were removed while the program ran"), "{said}");
    let recorded = Recorded { trace: folder.path().join("t.refrain"), output };
    let (is_right, words) = recorded.refrain(&["verify"]);
    assert!(is_right, "{words}");
    assert_eq!(recorded.info()["complete"], false);
}

#[test]
fn a_compressor_that_is_killed_is_reported_by_the_name_of_the_signal() {
    let folder = TempDir::new().expect("a folder");
    let program = build(folder.path(), "sorting.c", Some(Compiled));
    let kill = "keeper=$(echo t.refrain.parts/keeper.*); keeper=${keeper##*.}\n\
                kill -9 $(cat /proc/$keeper/task/$keeper/children)";
    let output = mem_while(folder.path(), &program, kill);
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{said}");
    assert!(said.contains("was killed by SIGKILL") && !said.contains("0x9"), "{said}");
}

#[test]
fn the_parts_of_a_running_program_can_be_merged_repeatedly() {
    let folder = TempDir::new().expect("a folder");
    let program = build(folder.path(), "sorting.c", Some(Compiled));
    let merge = format!("{} merge t.refrain.parts", refrain_binary().display());
    let other = format!("{merge} -o other.refrain");
    let twice = format!("set -e\n{merge}\n{merge}\ntouch other.refrain; ! {other}");
    let output = mem_while(folder.path(), &program, &twice);
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{said}");
    assert_eq!(said.matches("written to t.refrain;").count(), 3, "{said}");
    assert!(said.contains("other.refrain exists"), "{said}");
    let recorded = Recorded { trace: folder.path().join("t.refrain"), output };
    assert_eq!(recorded.info()["complete"], true, "{said}");
}
