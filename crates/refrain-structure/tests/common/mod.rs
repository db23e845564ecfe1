//! Tasks of simulated programs.

use refrain_encode::encoder::{Batch, Encoder};
use refrain_signature::tasktrace::TaskTrace;
use refrain_testing::program::{Process, THREADS};
use refrain_testing::records::FAMILY;

/// The traces of the threads of a process.
pub fn tasks_of(process: &Process) -> Vec<(u32, TaskTrace)> {
    let mut encoder = Encoder::new(FAMILY);
    let batches: Vec<Batch<'_>> = (0..THREADS as u32)
        .zip(&process.threads)
        .map(|(thread, of)| Batch { thread, records: &of.log.bytes })
        .collect();
    assert_eq!(encoder.feed(&batches), []);
    encoder.finish();
    let task = |thread: u32| Some((thread, encoder.task_trace(thread)?));
    (0..THREADS as u32).filter_map(task).collect()
}
