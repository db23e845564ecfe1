//! The decoded trace of a random program has exactly the calls that the program made.

use proptest::prelude::*;
use refrain_encode::encoder::{Batch, Encoder};
use refrain_signature::cells::Cells;
use refrain_signature::tasktrace::TaskTrace;
use refrain_testing::program::compare::{Names, compare};
use refrain_testing::program::{Process, THREADS, programs};
use refrain_testing::records::FAMILY;

/// The records of all threads as one batch.
fn feed(encoder: &mut Encoder, process: &Process, ranges: &[(usize, usize)]) {
    let threads = process.threads.iter().zip(ranges).enumerate();
    let batches: Vec<Batch<'_>> = threads
        .map(|(i, (thread, (from, to)))| Batch {
            thread: i as u32,
            records: &thread.log.bytes[*from..*to],
        })
        .collect();
    assert_eq!(encoder.feed(&batches), []);
}

fn whole(process: &Process) -> Vec<(usize, usize)> {
    process.threads.iter().map(|thread| (0, thread.log.bytes.len())).collect()
}

fn traces(mut encoder: Encoder) -> Vec<Option<TaskTrace>> {
    encoder.finish();
    (0..THREADS as u32).map(|thread| encoder.task_trace(thread)).collect()
}

fn encoded(process: &Process) -> Vec<Option<TaskTrace>> {
    let mut encoder = Encoder::new(FAMILY);
    feed(&mut encoder, process, &whole(process));
    traces(encoder)
}

/// Splits the records of all threads at common moments, given as fractions of 65536.
fn split(process: &Process, moments: &[u16]) -> Vec<Vec<(usize, usize)>> {
    let mut moments: Vec<u64> =
        moments.iter().map(|m| 1000 + u64::from(*m) * (process.now() - 1000) / 65536).collect();
    moments.sort_unstable();
    moments.push(u64::MAX);
    let mut from = [0; THREADS];
    let mut all = Vec::new();
    for moment in moments {
        let end = |thread: usize| process.threads[thread].log.end_of(moment);
        all.push((0..THREADS).map(|thread| (from[thread], end(thread))).collect());
        from = std::array::from_fn(end);
    }
    all
}

fn check(process: &Process, traces: &[Option<TaskTrace>]) -> Result<(), TestCaseError> {
    let mut names = Names::default();
    for (thread, trace) in traces.iter().enumerate() {
        let trace = trace.clone().unwrap_or_default();
        compare(process, thread, &trace, &mut names).map_err(TestCaseError::fail)?;
    }
    Ok(())
}

fn settings() -> ProptestConfig {
    ProptestConfig { failure_persistence: None, ..ProptestConfig::default() }
}

proptest! {
    #![proptest_config(settings())]

    #[test]
    fn decoded_calls_are_those_that_were_made(program in programs(120), rank in 0u32..4) {
        let process = Process::run(&program, rank, 4);
        check(&process, &encoded(&process))?;
    }

    #[test]
    fn a_task_reads_back_as_written(program in programs(120)) {
        let process = Process::run(&program, 1, 4);
        for trace in encoded(&process).into_iter().flatten() {
            let mut bytes = Vec::new();
            trace.put(&mut bytes);
            let mut cells = Cells::new(&bytes);
            let mut again = TaskTrace::get(&mut cells).expect("a task reads");
            prop_assert!(cells.is_empty());
            // A sum of squares is kept to a few digits.
            for (a, b) in again.signatures.iter_mut().zip(&trace.signatures) {
                prop_assert!((a.stats.squares - b.stats.squares).abs() <= b.stats.squares / 1e3);
                a.stats.squares = b.stats.squares;
            }
            // `Polls` has fields that are only used while recording and not written: compare the bytes.
            let mut second = Vec::new();
            again.put(&mut second);
            prop_assert_eq!(&bytes, &second);
            prop_assert_eq!(&again.grammars, &trace.grammars);
            prop_assert_eq!(&again.strings, &trace.strings);
        }
    }

    #[test]
    fn the_trace_does_not_depend_on_batch_borders(program in programs(120), moments: Vec<u16>) {
        let process = Process::run(&program, 2, 4);
        let mut encoder = Encoder::new(FAMILY);
        for ranges in split(&process, &moments) {
            feed(&mut encoder, &process, &ranges);
        }
        prop_assert_eq!(traces(encoder), encoded(&process));
    }

    #[test]
    fn a_saved_and_resumed_encoder_makes_the_same_trace(program in programs(120), moments: Vec<u16>) {
        let process = Process::run(&program, 3, 4);
        let mut encoder = Encoder::new(FAMILY);
        for ranges in split(&process, &moments) {
            feed(&mut encoder, &process, &ranges);
            let mut bytes = Vec::new();
            encoder.save(&mut bytes);
            encoder = Encoder::resume(&mut Cells::new(&bytes)).expect("what was saved resumes");
        }
        check(&process, &traces(encoder))?;
    }

    #[test]
    fn damaged_tasks_are_refused_or_read(
        program in programs(60), changes: Vec<(u16, u8)>, length: u16,
    ) {
        let process = Process::run(&program, 0, 4);
        for trace in encoded(&process).into_iter().flatten() {
            let mut bytes = Vec::new();
            trace.put(&mut bytes);
            for (at, byte) in &changes {
                let at = usize::from(*at) % bytes.len();
                bytes[at] = *byte;
            }
            bytes.truncate(usize::from(length).max(1));
            if let Some(trace) = TaskTrace::get(&mut Cells::new(&bytes))
                && let Ok(task) = refrain_reader::view::SingleTask::new(trace, FAMILY, 0)
            {
                // A damaged grammar may expand to billions of calls.
                task.view().decode().take(1000).for_each(drop);
            }
        }
    }
}
