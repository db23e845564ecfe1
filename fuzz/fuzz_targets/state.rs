//! Any bytes as the state of an encoder, which continues from it; and any bytes as its records.

#![no_main]

use libfuzzer_sys::fuzz_target;
use refrain_encode::encoder::{Batch, Encoder};
use refrain_mpi::abi::Family;
use refrain_reader::view::SingleTask;
use refrain_signature::cells::Cells;
use refrain_signature::tasktrace::TaskTrace;

fuzz_target!(|bytes: &[u8]| {
    let mut cells = Cells::new(bytes);
    let Some(records) = cells.get_bytes() else { return };
    go_on(Encoder::new(Family::Mpich), records);
    if let Some(encoder) = Encoder::resume(&mut cells) {
        go_on(encoder, records);
    }
});

fn go_on(mut encoder: Encoder, records: &[u8]) {
    encoder.feed(&[Batch { thread: 0, records }]);
    encoder.finish();
    for thread in 0..encoder.threads().min(4) {
        let Some(task) = encoder.task_trace(thread) else { continue };
        let mut bytes = Vec::new();
        task.put(&mut bytes);
        TaskTrace::get(&mut Cells::new(&bytes));
        if let Ok(task) = SingleTask::new(task, Family::Mpich, thread) {
            task.view().decode().take(300).for_each(drop);
        }
    }
}
