//! What others may learn from a trace: nothing without the owner's consent, nothing that was to be left
//! out, and nothing that gives commands to a terminal.

use refrain_testing::{Mpi, Outcome, refrain, refrain_binary};
use serde_json::Value as Json;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

fn mpi() -> Mpi {
    Mpi::named("mpich-4.0").expect("mpich-4.0 is installed")
}

fn run(folder: &Path, words: &[&str]) -> Outcome {
    let run = mpi().run(1).program(refrain_binary()).bare().args(words);
    run.current_dir(folder).output()
}

fn mode(path: &Path) -> u32 {
    path.metadata().expect("it is there").permissions().mode() & 0o777
}

/// A script that runs a command under an umask that gives everything to everybody.
fn script(folder: &Path, name: &str, text: &str) -> String {
    let path = folder.join(name);
    std::fs::write(&path, format!("#!/bin/sh\n{text}\n")).expect("it is written");
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).expect("it is ours");
    path.to_str().expect("a plain path").to_owned()
}

#[test]
fn traces_records_and_what_becomes_of_them_are_for_their_owner_alone() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let hello = mpi().compile("hello.c");
    let hello = hello.to_str().expect("a plain path");
    let own = refrain_binary();
    let own = own.to_str().expect("a plain path");
    for command in ["trace", "record"] {
        // The program looks at the parts, and at its own umask, while it runs.
        let out = format!("{command}.refrain");
        let watcher = script(
            folder.path(),
            "watcher",
            &format!("umask; {hello}; stat -c '%a %F' {out}.parts {out}.parts/* "),
        );
        let wrapper = script(
            folder.path(),
            "wrapper",
            &format!("umask 000\nexec {own} {command} -o {out} \"$@\" -- {watcher}"),
        );
        for (options, file, parts) in [
            (&[][..], 0o600, "700 directory"),
            (&["--mode", "640"], 0o640, "750 directory"),
            (&["--mode", "umask"], 0o666, "777 directory"),
        ] {
            let run = mpi().run(1).program(&wrapper).bare().args(options);
            let outcome = run.current_dir(folder.path()).output().expect_success();
            let who = format!("{command} {options:?}\n{outcome}");
            assert!(outcome.stdout.contains("0000\n"), "the program's umask: {who}");
            assert!(outcome.stdout.contains(parts), "{who}");
            let files: Vec<&str> =
                outcome.stdout.lines().filter(|line| line.contains("regular")).collect();
            assert!(files.len() >= 2, "{who}");
            let wanted = format!("{file:o} regular");
            assert!(files.iter().all(|line| line.starts_with(&wanted)), "{who}");
            assert_eq!(mode(&folder.path().join(&out)), file, "{who}");
            std::fs::remove_file(folder.path().join(&out)).expect("it is there");
        }
        let outcome = run(folder.path(), &[command, "--mode", "400", "--", hello]);
        assert_eq!(outcome.code, 2, "{outcome}");
    }
}

#[test]
fn redacted_traces_hold_no_command_line_host_or_folder() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let program = folder.path().join("well-known-program");
    std::fs::copy(mpi().compile_with("coverage_files.c", &["-g"]), &program).expect("a copy");
    let program = program.to_str().expect("a plain path");
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").expect("a name");
    let host = host.trim().to_owned();
    for command in [&["trace", "--raw", "--callsite", "stack:4"][..], &["record"]] {
        let words = [command, &["--redact", "-o", "out.refrain", "--"]].concat();
        let words = [&words[..], &["mpirun", "-n", "2", program, "--password=hunter2"]].concat();
        run(folder.path(), &words).expect_success();
        let trace = folder.path().join("out.refrain");
        let info = refrain(["info", trace.to_str().expect("a plain path")]).expect_success();
        assert!(info.stdout.contains("redacted"), "{info}");
        let info = refrain(["info", trace.to_str().expect("a plain path"), "--json"]);
        let info: Json = serde_json::from_str(&info.expect_success().stdout).expect("JSON");
        assert_eq!(info["command"], serde_json::json!(["redacted"]), "{info}");
        // Everything that is compressed shows as text, in one way or another.
        let mut said = info.to_string();
        for words in [&["show", "--notes", "--json"][..], &["show"], &["stats"], &["verify"]] {
            let words = [words, &[trace.to_str().expect("a plain path")]].concat();
            let is_of_calls = command[0] == "trace";
            if is_of_calls || words[0] == "show" && words.len() == 2 {
                said += &refrain(words).expect_success().stdout;
            }
        }
        said += &String::from_utf8_lossy(&std::fs::read(&trace).expect("it reads"));
        let folder_text = folder.path().to_str().expect("a plain path");
        let said = said.replace(trace.to_str().expect("a plain path"), "");
        for secret in ["hunter2", folder_text, "/usr/lib", &format!("\"{host}\"")] {
            let at = said.find(secret);
            let around = at.map(|at| said.get(at.saturating_sub(80)..at + 80).unwrap_or_default());
            assert_eq!(at, None, "{command:?}: {secret} in {around:?}");
        }
        assert!(said.contains("well-known-program"), "names of files remain");
    }
}

#[test]
fn control_characters_in_a_trace_never_reach_the_terminal() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let hello = mpi().compile("hello.c");
    let words =
        ["-o", "out.refrain", "--", hello.to_str().expect("a plain path"), "a\x1b]0;b\x07\nc"];
    for command in ["trace", "record"] {
        run(folder.path(), &[&[command], &words[..]].concat()).expect_success();
        let info = run(folder.path(), &["info", "out.refrain"]).expect_success();
        let line = info.stdout.lines().find(|line| line.starts_with("command"));
        let line = line.unwrap_or_else(|| panic!("{info}"));
        assert!(line.contains("a\\x1b]0;b\\x07\\nc"), "{line}");
        let is_control = |c: char| c.is_control() && c != '\n';
        assert!(!info.stdout.contains(is_control), "{info}");
    }
}

#[test]
fn programs_that_lose_the_agent_are_told_why_and_what_to_do() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let hello = mpi().compile("hello.c");
    let plain = hello.to_str().expect("a plain path");
    let cleared = script(folder.path(), "cleared", &format!("exec env -i {plain}"));
    let unset = script(folder.path(), "unset", &format!("unset LD_PRELOAD\nexec {plain}"));
    let set_id = folder.path().join("setuid");
    std::fs::copy("/bin/true", &set_id).expect("a copy");
    std::fs::set_permissions(&set_id, std::fs::Permissions::from_mode(0o4755)).expect("it is ours");
    let set_id = set_id.to_str().expect("a plain path");
    let (source, fixed) = (folder.path().join("static.c"), folder.path().join("static"));
    std::fs::write(&source, "int main(void) { return 0; }").expect("it is written");
    let built = Command::new("cc").arg("-static").arg(&source).arg("-o").arg(&fixed).status();
    assert!(built.is_ok_and(|status| status.success()));
    let fixed = fixed.to_str().expect("a plain path");
    for command in ["trace", "record"] {
        for (words, cause, remedy) in [
            (&[&*cleared][..], "`env -i`", "keep LD_PRELOAD"),
            (&[&*unset], "`unset LD_PRELOAD`", "keep LD_PRELOAD"),
            (&["env", "-i", plain], "`env -i`", "keep LD_PRELOAD"),
            (&[set_id], "setuid", "a copy without"),
            (&[fixed], "statically linked", "shared MPI library"),
            (&["true"], "does true use MPI", "have to reach the program"),
        ] {
            let outcome = run(folder.path(), &[&[command, "--"], words].concat());
            let who = format!("{command} {words:?}\n{outcome}");
            assert!(outcome.is_success(), "{who}");
            assert!(outcome.stderr.contains(cause), "{who}");
            assert!(outcome.stderr.contains(remedy), "{who}");
        }
    }
}
