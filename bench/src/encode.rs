//! What it costs to encode the records of a call, without the program: `refrain-bench encode TRACE…`, for traces that were
//! made with `--raw`. Under `valgrind --tool=callgrind` the counts are repeatable.

use crate::Figure;
use refrain_encode::encoder::{Batch, Encoder};
use refrain_reader::{CallTrace, File};
use std::path::Path;
use std::time::Instant;

/// Repetitions; the fastest counts.
const ROUNDS: usize = 5;

/// Measures all tasks of these traces.
pub fn measure(traces: &[String]) -> Vec<Figure> {
    traces.iter().filter_map(|path| figure(path)).collect()
}

fn figure(path: &str) -> Option<Figure> {
    let Ok(File::Calls(trace)) = refrain_reader::open(Path::new(path)) else {
        eprintln!("not measured: {path} is not a trace of MPI calls");
        return None;
    };
    let records = records(&trace);
    if records.is_empty() {
        eprintln!("not measured: {path} has no records; make it with `refrain trace --raw`");
        return None;
    }
    let (mut least, mut calls) = (f64::INFINITY, 0);
    for _ in 0..ROUNDS {
        let start = Instant::now();
        calls = 0;
        for records in &records {
            let mut encoder = Encoder::new(trace.family());
            encoder.feed(&[Batch { thread: 0, records }]);
            encoder.finish();
            calls += encoder.calls(0);
        }
        least = least.min(start.elapsed().as_secs_f64());
    }
    Some(Figure {
        name: format!("{path}: encoding"),
        detail: format!("{calls} calls of {} tasks", records.len()),
        value: 1e9 * least / calls as f64,
        bound: f64::INFINITY,
        unit: "ns a call",
    })
}

/// The records of each task.
fn records(trace: &CallTrace) -> Vec<Vec<u8>> {
    let names = trace.container().sections().iter().map(|section| section.name.clone());
    let raw = names.filter(|name| name.starts_with(refrain_reader::sections::RAW));
    raw.filter_map(|name| trace.container().read_checked(&name).ok()).collect()
}
