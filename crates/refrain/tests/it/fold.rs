//! Traces stored as loop nests: chosen where they are smaller, and read by all commands.

use refrain_container::Container;
use refrain_testing::{Mpi, refrain, refrain_binary};
use std::ffi::OsString;
use std::path::Path;

/// The names of the sections of a file.
fn sections(trace: &Path) -> Vec<String> {
    let container = Container::open(trace).expect("a trace");
    container.sections().iter().map(|section| section.name.clone()).collect()
}

fn size(trace: &Path) -> u64 {
    std::fs::metadata(trace).expect("a file").len()
}

#[test]
fn an_irregular_program_is_stored_as_loop_nests_and_reads_as_from_a_grammar() {
    let (mpi, folder) = (Mpi::any(), tempfile::tempdir().expect("a folder"));
    for (program, arguments) in
        [("amr", ["1000", ""]), ("sweep", ["2", "24"]), ("pop", ["300", "random"])]
    {
        let built = mpi.compile(&format!("../../bench/programs/{program}.c"));
        let trace = folder.path().join(format!("{program}.refrain"));
        let mut words: Vec<OsString> = vec!["trace".into(), "-o".into(), trace.clone().into()];
        words.extend(["--", "mpirun", "-n", "4"].map(Into::into));
        words.push(built.into_os_string());
        words.extend(arguments.iter().filter(|word| !word.is_empty()).map(Into::into));
        mpi.run(1).program(refrain_binary()).bare().args(words).output().expect_success();
        assert!(sections(&trace).contains(&"nest".to_owned()), "{program}");
        let path = trace.to_str().expect("a path");
        let info = refrain(["info", path]).expect_success().stdout;
        assert!(info.contains(" instead of "), "{program}: {info}");

        let plain = folder.path().join(format!("{program}.grammar.refrain"));
        let plain_path = plain.to_str().expect("a path");
        refrain(["fold", path, "-o", plain_path, "--structure", "grammar"]).expect_success();
        assert!(sections(&plain).contains(&"structure".to_owned()), "{program}");
        assert!(size(&trace) < size(&plain), "{program}");
        for command in [
            vec!["show"],
            vec!["show", "--structure"],
            vec!["show", "--json"],
            vec!["stats"],
            vec!["stats", "--by", "rank"],
            vec!["verify"],
        ] {
            let of = |path: &str| {
                let words = [&command[..1], &[path], &command[1..]].concat();
                refrain(words).expect_success().stdout.replace(path, "")
            };
            // The number of sections differs.
            let (ours, theirs) = (of(path), of(plain_path));
            assert!(
                ours == theirs || command == ["verify"],
                "{program}: {command:?}\n{ours}\n{theirs}"
            );
        }
    }
}

#[test]
fn a_regular_program_is_stored_as_a_grammar_unless_asked_otherwise() {
    let (mpi, folder) = (Mpi::any(), tempfile::tempdir().expect("a folder"));
    let built = mpi.compile("../../bench/programs/stencil2d.c");
    let trace = folder.path().join("stencil.refrain");
    let run = |form: &str| {
        let mut words: Vec<OsString> = vec!["trace".into(), "-o".into(), trace.clone().into()];
        words.extend(["--structure", form, "--", "mpirun", "-n", "4"].map(Into::into));
        words.extend([built.clone().into_os_string(), "hand".into(), "100".into()]);
        mpi.run(1).program(refrain_binary()).bare().args(words).output().expect_success();
        sections(&trace)
    };
    assert!(run("auto").contains(&"structure".to_owned()));
    let auto = refrain(["show".as_ref(), trace.as_os_str()]).expect_success().stdout;
    assert!(run("nest").contains(&"nest".to_owned()));
    let nest = refrain(["show".as_ref(), trace.as_os_str()]).expect_success().stdout;
    assert_eq!(auto, nest);
}

#[test]
fn what_is_no_trace_of_calls_is_not_folded() {
    let golden = crate::snapshots::golden("particles-v2.refrain");
    let folder = tempfile::tempdir().expect("a folder");
    let output = folder.path().join("out.refrain");
    let words = ["fold".as_ref(), golden.as_os_str(), "-o".as_ref(), output.as_os_str()];
    let outcome = refrain(words);
    assert_eq!(outcome.code, 125, "{outcome}");
    assert!(outcome.stderr.contains("is not a trace of MPI calls"), "{outcome}");
    let text = folder.path().join("text");
    std::fs::write(&text, "no trace").expect("a file");
    let trace = crate::snapshots::golden("stencil.refrain");
    let words = ["fold".as_ref(), trace.as_os_str(), "-o".as_ref(), text.as_os_str()];
    let outcome = refrain(words);
    assert_eq!(outcome.code, 125, "{outcome}");
    assert!(outcome.stderr.contains("exists and is not a trace"), "{outcome}");
}
