//! The reader as an analysis uses it.

mod communicators;
mod examples;
mod symbolic;
mod text;

use refrain_reader::{CallTrace, open};
use std::path::{Path, PathBuf};

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../refrain/tests/golden")
}

/// A golden file by its name.
fn golden(name: &str) -> PathBuf {
    folder().join(format!("{name}.refrain"))
}

/// All golden files that are traces of calls.
fn traces() -> Vec<CallTrace> {
    let files = std::fs::read_dir(folder()).expect("golden files").map(|file| file.unwrap().path());
    let files = files.filter(|path| path.extension().is_some_and(|e| e == "refrain"));
    let open = |path: PathBuf| open(&path).expect("a file that reads").calls();
    let all: Vec<CallTrace> = files.filter_map(open).collect();
    assert!(all.len() >= 5, "golden files of calls");
    all
}
