//! How fast `refrain check` is: on a long regular trace, and on an irregular one in which no iteration repeats.

use crate::simulated::long;
use crate::{Figure, walk};
use refrain_signature::tasktrace::TaskTrace;
use refrain_testing::refrain_binary;
use std::path::Path;
use std::process::Command;
use std::time::Instant;

/// Ranks of the traces.
const RANKS: u32 = 16;

/// A simulated program.
struct Case {
    name: &'static str,
    /// The calls of a rank; the number says how long it runs.
    task: fn(u32, u32, u64) -> TaskTrace,
    length: u64,
    /// Seconds that checking it may take.
    bound: f64,
}

const CASES: [Case; 2] = [
    Case { name: "a regular program", task: long::stencil, length: 6260, bound: 2.0 },
    Case { name: "an irregular program", task: long::mesh, length: 48_000, bound: 30.0 },
];

/// Makes the traces, and checks them.
pub fn measure() -> Vec<Figure> {
    let folder = tempfile::tempdir().expect("a folder");
    let figure = |case: &Case| {
        let path = folder.path().join("case.refrain");
        let calls = make(case, &path);
        let begin = Instant::now();
        let output = Command::new(refrain_binary()).arg("check").arg(&path).output();
        let seconds = begin.elapsed().as_secs_f64();
        let output = output.expect("refrain runs");
        let said = String::from_utf8_lossy(&output.stdout);
        assert!(said.ends_with("no findings\n"), "{}: {said}", case.name);
        Figure {
            name: format!("check {}", case.name),
            detail: format!(
                "{calls} calls of {RANKS} ranks, {:.3} us each",
                seconds * 1e6 / calls as f64
            ),
            value: seconds,
            bound: case.bound,
            unit: "s",
        }
    };
    CASES.iter().map(figure).collect()
}

/// Writes the trace of a case, for profilers: `refrain-bench check-make CASE SHARE FILE`, where it runs a part of its
/// length only.
pub fn make_one(number: usize, part: u64, path: &Path) {
    let case = CASES.get(number).unwrap_or_else(|| panic!("there is no case {number}"));
    let calls = make(&Case { length: case.length / part.max(1), ..*case }, path);
    println!("{calls} calls");
}

/// Writes the trace of a case. Returns the number of its calls.
fn make(case: &Case, path: &Path) -> u64 {
    let mut calls = 0;
    let task = |rank| {
        let task = (case.task)(rank, RANKS, case.length);
        calls += task.calls().values().sum::<u64>();
        task
    };
    walk::write_trace((0..RANKS).map(task), path, RANKS);
    calls
}
