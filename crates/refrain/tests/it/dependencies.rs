//! The command line and the analyses read files by way of `refrain-reader`, and know nothing of how calls are stored.
//! Their direct dependencies on crates of Refrain are held to these lists. A new one needs a reason.

use refrain_testing::workspace;
use std::collections::BTreeSet;
use std::fs;

/// What the analyses may use.
const ANALYSIS: &[&str] = &[
    "refrain-bytes",  // stable hashes, for identities of communicators
    "refrain-format", // definitions of functions; verification reads raw records by itself
    "refrain-mpi",
    "refrain-order", // a trace as a record of matches, for replay
    "refrain-reader",
    "refrain-timing", // bounds of lossy times, which verification checks
];

/// What the search for errors may use.
const CHECK: &[&str] = &[
    "refrain-analysis",
    "refrain-bytes", // hash tables
    "refrain-mpi",
    "refrain-reader",
];

/// What the command line may use.
const COMMAND_LINE: &[&str] = &[
    "refrain-analysis",
    "refrain-cache", // simulates caches on memory traces
    "refrain-check",
    "refrain-format", // names of parts in a folder
    "refrain-launch",
    "refrain-memory",
    "refrain-memrecord",
    "refrain-memtrace",
    "refrain-mpi",
    "refrain-order",
    "refrain-proxy", // writes a trace as a C program
    "refrain-reader",
    "refrain-rings",
    "refrain-timing",
    "refrain-trace", // puts files together
];

/// Crates that know how calls are stored: cells, head bits, grammars, sections.
const STORAGE: &[&str] = &[
    "refrain-container",
    "refrain-encode",
    "refrain-grammar",
    "refrain-signature",
    "refrain-structure",
];

/// The crates of Refrain that a manifest names under `[dependencies]`.
fn dependencies(name: &str) -> BTreeSet<String> {
    let path = workspace().join("crates").join(name).join("Cargo.toml");
    let manifest = fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    let lines = manifest.lines().skip_while(|line| line.trim() != "[dependencies]").skip(1);
    let lines = lines.take_while(|line| !line.starts_with('['));
    let names = lines.filter_map(|line| line.split(['.', ' ', '=']).next());
    names.filter(|name| name.starts_with("refrain-")).map(str::to_owned).collect()
}

#[test]
fn files_are_read_by_way_of_the_reader() {
    let all = [("refrain-analysis", ANALYSIS), ("refrain-check", CHECK), ("refrain", COMMAND_LINE)];
    for (name, allowed) in all {
        let found = dependencies(name);
        assert!(found.contains("refrain-reader"), "{name} has {found:?}");
        let allowed: BTreeSet<String> = allowed.iter().map(|&name| name.to_owned()).collect();
        let more: Vec<_> = found.difference(&allowed).collect();
        assert!(more.is_empty(), "{name} depends on {more:?}: say why in this list");
        let unused: Vec<_> = allowed.difference(&found).collect();
        assert!(unused.is_empty(), "{name} no longer depends on {unused:?}");
        assert!(STORAGE.iter().all(|storage| !found.contains(*storage)), "{name}: {found:?}");
    }
}
