//! Privacy: only the owner can read a trace, `--redact` leaves out what it should, and control characters in a
//! trace do not reach the terminal.

use crate::memory_recorded::{FrontEnd, build, record};
use refrain_container::Container;
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

/// Writes an executable shell script.
fn script(folder: &Path, name: &str, text: &str) -> String {
    let path = folder.join(name);
    std::fs::write(&path, format!("#!/bin/sh\n{text}\n")).expect("it is written");
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).expect("it is ours");
    path.to_str().expect("a plain path").to_owned()
}

#[test]
fn only_the_owner_can_read_traces_records_and_their_parts() {
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
fn redacted_traces_have_no_command_line_host_or_folder() {
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
        // Compressed data is checked in the text output of commands.
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
fn redacted_memory_traces_have_no_command_line_host_or_folder() {
    for front_end in FrontEnd::all() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let secret = folder.path().join("secret-folder");
        std::fs::create_dir(&secret).expect("a folder");
        let program = build(&secret, "vector_add.c", Some(front_end));
        let options = ["--redact", "--raw", "--window", "20"];
        let recorded = record(&program, &["1000", "hunter2"], front_end, 2, &options);
        assert!(recorded.output.status.success());
        let info = recorded.info();
        assert_eq!(info["command"], serde_json::json!(["redacted"]), "{info}");
        assert_eq!((&info["redacted"], &info["complete"]), (&true.into(), &true.into()), "{info}");
        assert_eq!(info["selected"], serde_json::json!([]), "{info}");
        assert_eq!(info["process"][0]["host"], "redacted", "{info}");
        let (_, text) = recorded.refrain(&["info"]);
        assert!(text.lines().any(|line| line.starts_with("redacted ")), "{text}");
        recorded.verify();
        let mut said = info.to_string() + &text;
        for words in [&["show", "--limit", "100", "--json"][..], &["show", "--structure"]] {
            said += &recorded.refrain(words).1;
        }
        // The sections, unpacked.
        let container = Container::open(&recorded.trace).expect("a trace");
        for section in container.sections() {
            let bytes = container.read_checked(&section.name).expect("a section");
            said += &String::from_utf8_lossy(&bytes);
        }
        let said = said.replace(&recorded.trace.display().to_string(), "");
        for private in ["hunter2", "secret-folder", "/usr/lib"] {
            assert!(!said.contains(private), "{private} is in the trace of {}", front_end.word());
        }
        let name = program.file_name().expect("a name").to_string_lossy();
        assert!(said.contains(&*name), "the names of files remain");
    }
}

/// Parts are written while the program runs, and stay if it is killed.
#[test]
fn redacted_parts_of_memory_traces_have_no_command_line_or_folder() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let secret = folder.path().join("secret-folder");
    std::fs::create_dir(&secret).expect("a folder");
    let program = build(&secret, "sorting.c", Some(FrontEnd::Compiled));
    let script = format!(
        "{} 200000 hunter2 & until ls t.refrain.parts/*.memory >/dev/null 2>&1; do sleep 0.02; done\n\
         cp -r t.refrain.parts copy.parts\nwait $!",
        program.display()
    );
    let mut command = Command::new(refrain_binary());
    command.args(["mem", "--frontend", "compiled", "--redact", "-o", "t.refrain", "--"]);
    let status = command.args(["bash", "-c", &script]).current_dir(&secret).status();
    assert!(status.expect("it runs").success());
    let parts = secret.join("copy.parts");
    for file in std::fs::read_dir(&parts).expect("parts") {
        let path = file.expect("a file").path();
        let said = String::from_utf8_lossy(&std::fs::read(&path).expect("it reads")).into_owned();
        for private in ["hunter2", "secret-folder", "/usr/lib"] {
            assert!(!said.contains(private), "{private} is in {}", path.display());
        }
    }
    refrain(["merge".as_ref(), parts.as_os_str()]).expect_success();
    let info = refrain(["info".as_ref(), parts.with_extension("").as_os_str()]);
    assert!(info.expect_success().stdout.contains("\nredacted "));
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
fn a_program_that_runs_without_the_agent_is_reported_with_the_reason_and_the_remedy() {
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
            (&["true"], "does true use MPI", "must reach the program"),
        ] {
            let outcome = run(folder.path(), &[&[command, "--"], words].concat());
            let who = format!("{command} {words:?}\n{outcome}");
            assert!(outcome.is_success(), "{who}");
            assert!(outcome.stderr.contains(cause), "{who}");
            assert!(outcome.stderr.contains(remedy), "{who}");
        }
    }
}
