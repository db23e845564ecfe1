//! Traces stored as loop nests: chosen where they are smaller, and read by all commands.

use refrain_container::Container;
use refrain_testing::{Mpi, refrain, refrain_binary};
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

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
fn a_trace_whose_end_is_missing_is_not_made_to_look_whole() {
    let folder = tempfile::tempdir().expect("a folder");
    let whole = std::fs::read(crate::snapshots::golden("nas-cg.refrain")).expect("a trace");
    let (damaged, output) = (folder.path().join("cut.refrain"), folder.path().join("out.refrain"));
    std::fs::write(&damaged, &whole[..whole.len() / 2]).expect("a file");
    for options in [&[][..], &["--histogram-above", "8"]] {
        let mut words = vec!["fold".as_ref(), damaged.as_os_str(), "-o".as_ref()];
        words.push(output.as_os_str());
        words.extend(options.iter().map(std::ffi::OsStr::new));
        let outcome = refrain(words);
        assert_eq!(outcome.code, 125, "{outcome}");
        assert!(outcome.stderr.contains("is missing"), "{outcome}");
        assert!(outcome.stderr.contains("would look whole"), "{outcome}");
        assert!(!output.exists(), "{outcome}");
    }
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

/// Traces a benchmark's program on 4 ranks; returns the trace.
fn traced(folder: &Path, program: &str, arguments: &[&str], options: &[&str]) -> PathBuf {
    let mpi = Mpi::any();
    let built = mpi.compile(&format!("../../bench/programs/{program}.c"));
    let trace = folder.join(format!("{program}-{}.refrain", arguments.join("-")));
    let mut words: Vec<OsString> = vec!["trace".into(), "-o".into(), trace.clone().into()];
    words.extend(options.iter().map(Into::into));
    words.extend(["--", "mpirun", "-n", "4"].map(Into::into));
    words.push(built.into_os_string());
    words.extend(arguments.iter().map(Into::into));
    mpi.run(1).program(refrain_binary()).bare().args(words).output().expect_success();
    trace
}

/// Folds a trace with histograms; returns the file.
fn histograms(trace: &Path, above: &str) -> PathBuf {
    let output = trace.with_extension(format!("{above}.refrain"));
    let words = [
        "fold".as_ref(),
        trace.as_os_str(),
        "-o".as_ref(),
        output.as_os_str(),
        "--histogram-above".as_ref(),
        above.as_ref(),
    ];
    refrain(words).expect_success();
    output
}

/// The calls of each function that `show --json` prints.
fn by_function(trace: &Path) -> BTreeMap<String, usize> {
    let words = ["show".as_ref(), trace.as_os_str(), "--json".as_ref()];
    let mut calls = BTreeMap::new();
    for line in refrain(words).expect_success().stdout.lines() {
        let row: serde_json::Value = serde_json::from_str(line).expect("a line of JSON");
        *calls.entry(row["function"].as_str().expect("a function").to_owned()).or_default() += 1;
    }
    calls
}

#[test]
fn with_histograms_a_trace_does_not_grow_with_steps_and_draws_about_as_many_calls() {
    let folder = tempfile::tempdir().expect("a folder");
    let few = traced(folder.path(), "pop", &["300", "random"], &[]);
    let many = traced(folder.path(), "pop", &["3000", "random"], &[]);
    let (small, large) = (histograms(&few, "8"), histograms(&many, "8"));
    assert!(size(&large) <= size(&small) + 24, "{} and {}", size(&small), size(&large));
    assert!(size(&many) > size(&few) + 200, "without histograms it grows");
    let (drawn, exact) = (by_function(&small), by_function(&few));
    assert!(drawn.keys().eq(exact.keys()), "{drawn:?} {exact:?}");
    for (function, calls) in &exact {
        // Loops in loops: the inner trip counts that are drawn are a sample.
        let share = drawn[function] as f64 / *calls as f64;
        assert!((0.8..1.25).contains(&share), "{function}: {} of {calls}", drawn[function]);
    }
}

#[test]
fn a_trace_with_histograms_says_so_and_has_the_same_totals() {
    let folder = tempfile::tempdir().expect("a folder");
    let trace = traced(folder.path(), "amr", &["60"], &["--callsite", "return"]);
    let lossy = histograms(&trace, "4");
    let path = lossy.to_str().expect("a path");
    assert_eq!(sections(&lossy), ["meta", "histograms"]);

    let info = |path: &Path| -> serde_json::Value {
        let words = ["info".as_ref(), path.as_os_str(), "--json".as_ref()];
        serde_json::from_str(&refrain(words).expect_success().stdout).expect("one object")
    };
    let (ours, theirs) = (info(&lossy), info(&trace));
    for same in ["calls", "ranks", "threads", "functions", "complete", "command"] {
        assert_eq!(ours[same], theirs[same], "{same}");
    }
    assert_eq!((&ours["stored"], &ours["histograms"]["above"]), (&"histograms".into(), &4.into()));
    let text = refrain(["info", path]).expect_success().stdout;
    assert!(text.contains("not lossless"), "{text}");

    let verified = refrain(["verify", path]).expect_success().stdout;
    assert!(verified.contains("not lossless: histograms in place of"), "{verified}");
    assert!(!verified.contains("all equal"), "{verified}");

    let listing = refrain(["show", path, "--structure"]).expect_success();
    assert!(listing.stderr.contains("is not lossless"), "{listing}");
    assert!(listing.stdout.contains("count=<"), "{listing}");
    let sends = listing.stdout.lines().filter(|line| line.contains("MPI_Isend(")).count();
    assert_eq!(sends, 1, "{listing}");

    let drawn = refrain(["show", path, "--limit", "40"]).expect_success();
    assert!(drawn.stderr.contains("not those of the run"), "{drawn}");
    assert_eq!(drawn.stdout, refrain(["show", path, "--limit", "40"]).expect_success().stdout);
    for command in ["stats", "where"] {
        let refused = refrain([command, path]);
        assert_eq!(refused.code, 125, "{refused}");
        assert!(refused.stderr.contains("use the trace that it was made of"), "{refused}");
    }
    let again = refrain(["fold", path, "-o", path]);
    assert_eq!(again.code, 125, "{again}");
}

#[test]
fn similar_call_stacks_are_stored_as_one_place() {
    let folder = tempfile::tempdir().expect("a folder");
    let trace = traced(folder.path(), "multigrid", &["2"], &["--callsite", "stack:4"]);
    let output = folder.path().join("fuzzy.refrain");
    let words = ["fold".as_ref(), trace.as_os_str(), "-o".as_ref(), output.as_os_str()];
    refrain(words.into_iter().chain(["--fuzzy-frames".as_ref(), "1".as_ref()])).expect_success();
    let show = |trace: &Path, options: &[&str]| {
        let path = trace.to_str().expect("a path");
        refrain([&["show", path][..], options].concat()).expect_success().stdout
    };
    assert_eq!(show(&output, &[]), show(&trace, &[]), "it has the same calls");
    let folded = show(&output, &["--structure"]);
    assert_eq!(folded, show(&trace, &["--structure", "--fuzzy-frames", "1"]));
    assert_ne!(folded, show(&trace, &["--structure"]));
    let info = refrain(["info".as_ref(), output.as_os_str()]).expect_success().stdout;
    assert!(info.contains("stacks may differ in 1 frame"), "{info}");
}
