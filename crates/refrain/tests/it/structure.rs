//! `refrain show --structure` prints traces of calls as programs whose loops are those of the source.

use refrain_analysis::nest::nests;
use refrain_reader::File;
use refrain_reader::refrain_nest::{Options, Play, of_one};
use refrain_testing::{Mpi, refrain, refrain_binary, workspace};
use std::path::{Path, PathBuf};

/// Asserts that the loop nest of a trace has the calls of its grammars, group by group.
pub fn assert_nest_is_exact(who: &str, trace: &Path) {
    let File::Calls(trace) = refrain_reader::open(trace).expect("a trace") else {
        panic!("{who}: no trace of calls");
    };
    for common in nests(&trace, None, Options::default()).expect("structures") {
        for (number, group) in common.groups.iter().enumerate() {
            let is_call = |terminal: &u32| group.signature(*terminal).is_some_and(|s| !s.is_note());
            let expected =
                group.grammars().iter().flat_map(|grammar| grammar.iter()).filter(is_call);
            let nest = of_one(&common.nest, number);
            let decoded = Play::new(&nest).map(|(_, signature)| signature);
            assert!(decoded.eq(expected), "{who}: the nest of group {number} has other calls");
        }
    }
}

/// Traces an example with call sites.
fn example(mpi: &Mpi, name: &str, arguments: &[&str], folder: &Path) -> PathBuf {
    let source = workspace().join(format!("examples/{name}.c"));
    let source = source.to_str().expect("a path");
    let build = ["-O2", "-g", "-w", "-o", name, source, "-lm"];
    mpi.run(1).program("mpicc").bare().args(build).current_dir(folder).output().expect_success();
    let words = [&["trace", "--callsite", "return", "--", "mpirun", "-n"], arguments].concat();
    let run = mpi.run(1).program(refrain_binary()).bare().args(words);
    run.current_dir(folder).output().expect_success();
    folder.join(format!("{name}.refrain"))
}

/// Traces the stencil on 9 ranks.
fn stencil(mpi: &Mpi, folder: &Path) -> PathBuf {
    example(mpi, "stencil2d", &["9", "./stencil2d", "105"], folder)
}

fn show(trace: &Path, options: &[&str]) -> String {
    let path = trace.to_str().expect("a path");
    refrain([&["show", path, "--structure"], options].concat()).expect_success().stdout
}

/// A listing without times and offsets on the stack, which differ from run to run and from MPI to MPI.
fn constant(listing: &str) -> String {
    let line = |line: &str| {
        let (calls, text) = (&line[..6.min(line.len())], line.get(13..).unwrap_or_default());
        let mut words: Vec<&str> = text.split(' ').collect();
        for at in 2..words.len() {
            if words[at - 2].ends_with("=stack") {
                words[at - 1] = "+";
                words[at] = "…,";
            }
        }
        // Columns are as wide as the widest line.
        let text = words.join(" ");
        match text.rsplit_once("  ") {
            Some((text, site)) if site.contains(".c:") => {
                format!("{calls}  {}  {site}\n", text.trim_end())
            }
            _ => format!("{calls}  {text}\n"),
        }
    };
    listing.lines().map(line).collect()
}

/// Compares the listing of an example with the golden one. `REFRAIN_SNAPSHOT=new` writes a missing one.
fn compare_listing(name: &str, arguments: &[&str]) {
    let golden = workspace().join(format!("crates/refrain/tests/golden/structure-{name}.txt"));
    for mpi in Mpi::representatives() {
        let folder = tempfile::tempdir().expect("a folder");
        let trace = example(&mpi, name, arguments, folder.path());
        assert_nest_is_exact(name, &trace);
        let listing = constant(&show(&trace, &[]));
        if !golden.exists() && std::env::var_os("REFRAIN_SNAPSHOT").is_some_and(|v| v == "new") {
            std::fs::write(&golden, &listing).expect("a golden listing");
        }
        let expected = std::fs::read_to_string(&golden).expect("the golden listing");
        assert_eq!(listing, expected, "{}\n{listing}", mpi.name());
    }
}

#[test]
fn the_listing_of_the_stencil_has_its_loops_neighbours_and_lines() {
    compare_listing("stencil2d", &["9", "./stencil2d", "105"]);
}

#[test]
fn the_listing_of_the_heat_equation_has_its_loop_its_neighbours_and_its_functions() {
    compare_listing("heat", &["4", "./heat"]);
}

/// The golden trace of one of the NAS Parallel Benchmarks. `show --sites` wrote the list of its call sites beside it.
fn nas(name: &str) -> PathBuf {
    crate::snapshots::golden(&format!("nas-{name}.refrain"))
}

/// Its listing.
fn nas_listing(name: &str, options: &[&str]) -> String {
    let trace = nas(name);
    let output = std::process::Command::new(refrain_binary())
        .args(["show", trace.to_str().expect("a path"), "--structure"])
        .args(options)
        .env("REFRAIN_DEBUG_DIRECTORIES", trace.parent().expect("a folder"))
        .output()
        .expect("refrain runs");
    assert!(output.status.success(), "{name}: {}", String::from_utf8_lossy(&output.stderr));
    // Without shares of time: later versions may have other statistics for them.
    let line = |line: &str| {
        let text: String = line.chars().skip(13).collect();
        let calls: String = line.chars().take(6).collect();
        format!("{}\n", (calls + &text).trim_end())
    };
    String::from_utf8(output.stdout).expect("text").lines().map(line).collect()
}

/// The listings of NAS benchmarks were compared with their sources, loop by loop.
#[test]
fn the_listings_of_nas_benchmarks_have_the_loops_of_their_sources() {
    let folder = workspace().join("crates/refrain/tests/golden");
    for name in ["bt", "cg", "lu", "mg"] {
        assert_nest_is_exact(name, &nas(name));
        let golden = folder.join(format!("structure-nas-{name}.txt"));
        let listing = nas_listing(name, &[]);
        if !golden.exists() && std::env::var_os("REFRAIN_SNAPSHOT").is_some_and(|v| v == "new") {
            std::fs::write(&golden, &listing).expect("a golden listing");
        }
        let expected = std::fs::read_to_string(&golden).expect("the golden listing");
        assert_eq!(listing, expected, "{name}:\n{listing}");
    }
}

#[test]
fn nests_of_golden_files_have_the_calls_of_their_grammars() {
    for name in crate::snapshots::CALLS.iter().chain(&["hung"]) {
        assert_nest_is_exact(name, &crate::snapshots::golden(&format!("{name}.refrain")));
    }
}

#[test]
fn a_structure_can_be_limited_to_ranks_and_outer_loops() {
    let (mpi, folder) = (Mpi::any(), tempfile::tempdir().expect("a folder"));
    let trace = stencil(&mpi, folder.path());
    let corner = show(&trace, &["--rank", "0"]);
    assert!(corner.starts_with(" calls   time  rank 0\n"), "{corner}");
    assert!(corner.contains("source=MPI_PROC_NULL, tag=1"), "{corner}");
    assert!(corner.contains("source=3, tag=2"), "{corner}");
    let outer = show(&trace, &["--depth", "0"]);
    assert!(outer.contains("for i in 0..105  …\n"), "{outer}");
    assert!(!outer.contains("MPI_Waitall"), "{outer}");
    assert_eq!(show(&trace, &["--limit", "2"]).lines().count(), 2);
}

#[test]
fn the_structure_as_json_has_every_call_once() {
    let (mpi, folder) = (Mpi::any(), tempfile::tempdir().expect("a folder"));
    let trace = stencil(&mpi, folder.path());
    let program: serde_json::Value =
        serde_json::from_str(&show(&trace, &["--json"])).expect("one object");
    let body = program["body"].as_array().expect("a body");
    let calls: u64 = body.iter().filter_map(|node| node["calls"].as_u64()).sum();
    // 9 calls before the loop, 3 behind it, 9 in each of 105 steps, and 10 reductions, on 9 ranks.
    assert_eq!((calls, program["calls"].as_u64()), (9 * (12 + 9 * 105 + 10), Some(calls)));
    let steps = body.iter().find(|node| node["count"] == 105).expect("the loop over steps");
    let inner = steps["body"].as_array().expect("a body");
    assert_eq!(inner.len(), 10, "{steps}");
    assert_eq!(inner[8]["function"], "MPI_Waitall");
    assert_eq!(inner[9]["condition"], "i mod 10 == 9");
    assert_eq!(inner[9]["body"][0]["site"][0]["line"], 65);
    let outer = show(&trace, &["--json", "--depth", "0"]);
    assert!(outer.contains("\"count\":105") && !outer.contains("MPI_Waitall"), "{outer}");
}

#[test]
fn options_that_a_structure_does_not_have_are_refused() {
    let golden = crate::snapshots::golden("stencil.refrain");
    let calls = golden.to_str().expect("a path");
    let orders = crate::snapshots::golden("particles-v2.refrain");
    let orders = orders.to_str().expect("a path");
    for (words, code, reason) in [
        (vec!["show", calls, "--structure", "--times"], 125, "leave --function and --times out"),
        (vec!["show", calls, "--structure", "--function", "Send"], 125, "prints all functions"),
        (vec!["show", calls, "--structure", "--rank", "7"], 125, "no such rank"),
        (vec!["show", calls, "--depth", "1"], 2, "--structure"),
        (vec!["show", orders, "--structure"], 125, "has no loops"),
    ] {
        let outcome = refrain(words);
        assert_eq!(outcome.code, code, "{outcome}");
        assert!(outcome.stderr.contains(reason), "{outcome}");
    }
}
