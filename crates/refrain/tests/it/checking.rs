//! `refrain check` on programs with and without errors.

use crate::background::{Job, wait_until};
use refrain_testing::{Mpi, Outcome, refrain, refrain_binary, require_path, turn, workspace};
use serde_json::Value as Json;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The trace of a victim, with call sites.
fn traced(mpi: &Mpi, folder: &Path, victim: &str, ranks: usize) -> PathBuf {
    let trace = folder.join("run.refrain");
    let options = ["--callsite", "return"];
    mpi.run(ranks)
        .program(mpi.compile(victim))
        .trace_to(Some(&trace))
        .trace_options(options)
        .output();
    trace
}

fn check(arguments: &[&str], trace: &Path) -> Outcome {
    let words = ["check"].iter().chain(arguments).map(Path::new).chain([trace]);
    refrain(words.map(Path::as_os_str))
}

/// The findings, each with its class and the lines of its calls.
fn found(trace: &Path) -> Vec<(String, Vec<u64>)> {
    let outcome = check(&["--json"], trace);
    let json: Json = serde_json::from_str(&outcome.stdout).expect("JSON");
    let finding = |finding: &Json| {
        let places = finding["places"].as_array().expect("places").iter();
        let lines = places.filter_map(|place| place["line"].as_u64()).collect();
        (finding["class"].as_str().expect("a class").to_owned(), lines)
    };
    json["findings"].as_array().expect("findings").iter().map(finding).collect()
}

/// The line of a victim that has this text.
fn line_of(victim: &str, text: &str) -> u64 {
    let path = workspace().join("tests/victims").join(victim);
    let source = std::fs::read_to_string(path).expect("the victim");
    let at = source.lines().position(|line| line.contains(text));
    at.unwrap_or_else(|| panic!("{victim} has no {text}")) as u64 + 1
}

/// Asserts that `refrain check` finds nothing in a trace but what is known: lines of a suppressions file, for what a
/// program does wrong on purpose.
pub fn assert_no_findings(trace: &Path, known: &str) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let file = folder.path().join("known.txt");
    std::fs::write(&file, known).expect("a file");
    let outcome = check(&["--suppressions", file.to_str().expect("a plain path")], trace);
    assert!(outcome.is_success(), "{}:\n{outcome}", trace.display());
    assert!(outcome.stdout.contains("no findings"), "{}: {outcome}", trace.display());
}

#[test]
fn correct_programs_have_no_findings() {
    let victims = ["hello.c", "barriers.c", "comm_order.c", "order_jacobi.c", "scattered_tags.c"];
    for mpi in Mpi::representatives() {
        for victim in victims {
            let folder = tempfile::tempdir().expect("a temporary folder");
            let trace = traced(&mpi, folder.path(), victim, 4);
            assert_no_findings(&trace, "");
        }
    }
}

#[test]
fn a_killed_job_that_hung_is_found_with_its_lines_from_what_was_left() {
    let victim = "deadlock_cycle.c";
    for mpi in Mpi::representatives() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let options = ["--callsite", "return"];
        let program = mpi.compile(victim);
        let job = Job::start_with::<&str>(&mpi, folder.path(), &options, 4, &program, &[]);
        let parts = job.parts();
        wait_until("all ranks hang", || {
            let told = refrain(["where".as_ref(), parts.as_os_str()]);
            told.stdout.contains("stuck: ranks 0-3")
        });
        job.signal_all("KILL");
        job.outcome();
        let found = found(&parts);
        let line = line_of(victim, "MPI_Recv(");
        let deadlock = found.iter().find(|(class, _)| class == "deadlock");
        assert!(
            deadlock.is_some_and(|(_, lines)| lines.contains(&line)),
            "{}: {found:?}",
            mpi.name()
        );
    }
}

#[test]
fn a_command_that_hangs_is_ended_and_checked() {
    let mpi = Mpi::any();
    let program = mpi.compile("deadlock_collective.c");
    let _turn = turn();
    let folder = tempfile::tempdir().expect("a temporary folder");
    let output = mpi
        .command(refrain_binary())
        .args(["check", "--", "mpirun", "-n", "3"])
        .arg(&program)
        .current_dir(folder.path())
        .output()
        .expect("refrain runs");
    let text = String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.code(), Some(1), "{text}");
    assert!(text.contains("error: deadlock: "), "{text}");
    assert!(text.contains("note: the job was ended: every rank waits"), "{text}");
    let left = folder.path().read_dir().expect("the folder").count();
    assert_eq!(left, 0, "no file is left");
}

#[test]
fn errors_in_the_use_of_requests_windows_and_callbacks_are_found_with_their_lines() {
    let victim = "check_errors.c";
    let errors = [
        ("callback", "callback"),
        ("started-twice", "request-state"),
        ("never-freed", "request-leak"),
        ("not-started", "request-state"),
        ("no-epoch", "rma-epoch"),
        ("no-lock", "rma-epoch"),
    ];
    for mpi in Mpi::representatives() {
        let program = mpi.compile(victim);
        for (error, class) in errors {
            if error == "not-started" && mpi.name() == "openmpi-4.1" {
                continue; // It has no partitioned communication.
            }
            let folder = tempfile::tempdir().expect("a temporary folder");
            let trace = folder.path().join("run.refrain");
            let run = mpi.run(2).program(&program).args([error]).trace_to(Some(&trace));
            // Open MPI's windows over UCX need messages over UCX, too.
            let run = run.env("OMPI_MCA_osc", "^ucx");
            let outcome = run.trace_options(["--callsite", "return"]).output();
            let parts = folder.path().join("run.refrain.parts");
            let found = found(if trace.exists() { &trace } else { &parts });
            let line = line_of(victim, &format!("/* {error} */"));
            let is_found = found.iter().any(|(of, lines)| of == class && lines.contains(&line));
            assert!(is_found, "{error} under {}: {found:?}\n{outcome}", mpi.name());
        }
    }
}

/// What `refrain check --prove` says of each finding that it forced.
fn proofs(mpi: &Mpi, victim: &str, ranks: &str, args: &[&str]) -> Vec<(String, bool, String)> {
    let program = mpi.compile(victim);
    let _turn = turn();
    let folder = tempfile::tempdir().expect("a temporary folder");
    let output = mpi
        .command(refrain_binary())
        .args(["check", "--json", "--prove", "--", "mpirun", "-n", ranks])
        .arg(&program)
        .args(args)
        .current_dir(folder.path())
        .output()
        .expect("refrain runs");
    let text = String::from_utf8_lossy(&output.stdout);
    let json = text.find('{').map_or("", |at| &text[at..]);
    let json: Json = serde_json::from_str(json).unwrap_or_else(|error| panic!("{error}: {text}"));
    let proof = |finding: &Json| {
        let proof = &finding["proof"];
        let what = proof["what"].as_str()?.to_owned();
        Some((finding["class"].as_str()?.to_owned(), proof["proven"].as_bool()?, what))
    };
    json["findings"].as_array().expect("findings").iter().filter_map(proof).collect()
}

#[test]
fn potential_errors_are_proven_by_runs_in_which_they_happen() {
    for mpi in Mpi::representatives() {
        let buffering = proofs(&mpi, "check_buffering.c", "2", &[]);
        let [(class, proven, what)] = &buffering[..] else { panic!("{buffering:?}") };
        assert!(class == "potential-deadlock" && *proven, "{}: {what}", mpi.name());
        assert!(what.contains("with synchronous sends, the program hangs in these calls"));
        let race = proofs(&mpi, "check_race.c", "3", &[]);
        let [(class, proven, what)] = &race[..] else { panic!("{race:?}") };
        assert!(class == "message-race" && *proven, "{}: {what}", mpi.name());
        assert!(what.contains("of rank 1 (MPI_Send) is late, the program hangs"), "{what}");
        // Something that MPI does not know of prevents the race.
        let prevented = proofs(&mpi, "check_race.c", "3", &["first"]);
        let [(class, proven, what)] = &prevented[..] else { panic!("{prevented:?}") };
        assert!(class == "message-race" && !*proven, "{}: {what}", mpi.name());
        assert!(what.contains("the program ends as usual"), "{what}");
    }
}

#[test]
fn findings_are_printed_for_people_and_tools_and_can_be_suppressed() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let trace = traced(&Mpi::any(), folder.path(), "check_leaks.c", 2);
    let line = line_of("check_leaks.c", "MPI_Comm_dup(");
    let text = check(&[], &trace).stdout;
    assert!(
        text.contains(
            "warning: object-leak: A communicator that MPI_Comm_dup creates is never freed"
        ),
        "{text}"
    );
    assert!(text.contains(&format!("at main check_leaks.c:{line}")), "{text}");
    assert!(text.contains("found 2 times, on ranks 0, 1"), "{text}");
    let github = check(&["--format", "github"], &trace).stdout;
    assert!(
        github.contains("::warning file=")
            && github.contains(&format!(",line={line},title=object-leak::"))
    );
    let sarif: Json = serde_json::from_str(&check(&["--sarif"], &trace).stdout).expect("SARIF");
    let result = &sarif["runs"][0]["results"][0];
    assert_eq!(result["ruleId"], "object-leak");
    let region = &result["locations"][0]["physicalLocation"]["region"]["startLine"];
    assert_eq!(region.as_u64(), Some(line));
    let known = folder.path().join("known.txt");
    std::fs::write(&known, "object-leak check_leaks.c:*  # known\n").expect("a file");
    let known = known.to_str().expect("a path");
    let outcome = check(&["--suppressions", known], &trace);
    assert!(
        outcome.is_success() && outcome.stdout == "no findings, 1 suppressed\n",
        "{}",
        outcome.stdout
    );
}

#[test]
fn a_sample_of_the_mpi_bugs_initiative_is_found_without_false_alarms() {
    if require_path("mbi", workspace().join("target/mbi/programs")).is_none() {
        return;
    }
    for mpi in
        Mpi::usual().into_iter().filter(|mpi| matches!(mpi.name(), "mpich-4.0" | "openmpi-4.1"))
    {
        let _turn = turn();
        let output = Command::new("python3")
            .arg(workspace().join("scripts/mbi.py"))
            .args([
                "--mpi",
                mpi.name(),
                "--sample",
                "40",
                "--seed",
                "11",
                "--json",
                "--fresh",
                "--jobs",
                "3",
            ])
            .env("REFRAIN", refrain_binary())
            .output()
            .expect("python3 runs");
        let error = String::from_utf8_lossy(&output.stderr);
        let total: Json =
            serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{error}"));
        let count = |what: &str| total[what].as_u64().unwrap_or(0);
        assert_eq!(
            (count("all"), count("false alarm"), count("failed")),
            (40, 0, 0),
            "{}: {total}",
            mpi.name()
        );
        // These errors are in loads and stores, or in values that differ: no trace of calls has them.
        let hidden = ["LocalConcurrency", "GlobalConcurrency", "MessageRace"];
        let mut missed = total["missed"].as_object().expect("missed").keys();
        assert!(missed.all(|label| hidden.contains(&label.as_str())), "{}: {total}", mpi.name());
        assert!(count("hit") > 20, "{}: {total}", mpi.name());
    }
}
