//! Decoded start and end times equal the recorded ones, or are within their bounds.

use proptest::prelude::*;
use refrain_encode::encoder::{Batch, Encoder};
use refrain_encode::times::Setting;
use refrain_reader::raw::Events;
use refrain_reader::view::SingleTask;
use refrain_signature::cells::{Cells, put_unsigned};
use refrain_signature::tasktrace::TaskTrace;
use refrain_testing::program::{Process, THREADS, programs};
use refrain_testing::records::FAMILY;

/// By thread, the trace and the bytes of its times. The encoder is saved and resumed at `pauses`.
fn encoded(process: &Process, setting: &str, pauses: &[u64]) -> Vec<(TaskTrace, Vec<u8>)> {
    let mut encoder = Encoder::new(FAMILY);
    encoder.keep_times(Setting::from_text(setting).expect("a setting"));
    let mut from = [0; THREADS];
    for moment in pauses.iter().chain([&u64::MAX]) {
        let to: [usize; THREADS] = std::array::from_fn(|t| process.threads[t].log.end_of(*moment));
        let batches: Vec<Batch<'_>> = (0..THREADS)
            .map(|t| Batch {
                thread: t as u32,
                records: &process.threads[t].log.bytes[from[t]..to[t]],
            })
            .collect();
        assert_eq!(encoder.feed(&batches), []);
        from = to;
        if moment % 3 == 0 {
            encoder.seal_times();
        }
        let mut state = Vec::new();
        encoder.save(&mut state);
        encoder = Encoder::resume(&mut Cells::new(&state)).expect("what was saved resumes");
    }
    encoder.finish();
    let task = |thread| encoder.task_trace(thread).unwrap_or_default();
    let tasks: Vec<TaskTrace> = (0..THREADS as u32).map(task).collect();
    let times = |thread| {
        let mut bytes = Vec::new();
        for block in encoder.take_times(thread) {
            let content = block.bytes.in_memory().expect("nothing was spilled");
            put_unsigned(&mut bytes, block.calls.into());
            put_unsigned(&mut bytes, content.len() as u64);
            bytes.extend_from_slice(content);
        }
        bytes
    };
    let times: Vec<Vec<u8>> = (0..THREADS as u32).map(times).collect();
    tasks.into_iter().zip(times).collect()
}

/// Start and end of a thread's calls.
type Spans = Vec<(u64, Option<u64>)>;

fn decoded(thread: u32, (task, times): &(TaskTrace, Vec<u8>)) -> Spans {
    let task = SingleTask::new(task.clone(), FAMILY, thread).expect("a task");
    let decoder = task.view().decode().with_times(Box::new(times.as_slice()));
    let events = decoder.map(|event| event.expect("a call"));
    events.filter(|event| !event.is_note()).map(|event| (event.start, event.end)).collect()
}

fn recorded(process: &Process, thread: usize) -> Spans {
    let events = Events::new(process.threads[thread].log.bytes.as_slice());
    events.map(|event| event.expect("a call")).map(|event| (event.start, event.end)).collect()
}

fn settings() -> ProptestConfig {
    ProptestConfig { failure_persistence: None, cases: 128, ..ProptestConfig::default() }
}

proptest! {
    #![proptest_config(settings())]

    #[test]
    fn exact_times_are_restored(program in programs(120), pauses: Vec<u16>) {
        let process = Process::run(&program, 1, 4);
        let mut pauses: Vec<u64> = pauses.into_iter().map(|pause| 1000 + u64::from(pause)).collect();
        pauses.sort_unstable();
        let traces = encoded(&process, "lossless 0.1", &pauses);
        for (thread, trace) in traces.iter().enumerate() {
            prop_assert_eq!(decoded(thread as u32, trace), recorded(&process, thread));
        }
    }

    #[test]
    fn lossy_durations_keep_to_their_bound(program in programs(120)) {
        let process = Process::run(&program, 2, 4);
        let traces = encoded(&process, "loop 0.1 MPI_Irecv=0.01", &[]);
        for (thread, trace) in traces.iter().enumerate() {
            let (got, made) = (decoded(thread as u32, trace), recorded(&process, thread));
            prop_assert_eq!(got.len(), made.len());
            for ((start, end), (made_start, made_end)) in got.into_iter().zip(made) {
                prop_assert_eq!(end.is_some(), made_end.is_some());
                let (Some(end), Some(made_end)) = (end, made_end) else { continue };
                let (took, made_took) = ((end - start) as f64, (made_end - made_start) as f64);
                prop_assert!((took - made_took).abs() <= 0.1 * made_took);
            }
        }
    }

    #[test]
    fn damaged_times_are_an_error_or_times(
        program in programs(60), changes in prop::collection::vec((any::<u16>(), any::<u8>()), 1..9),
    ) {
        let process = Process::run(&program, 0, 4);
        for (thread, (task, mut times)) in
            encoded(&process, "lossless 0.1", &[]).into_iter().enumerate()
        {
            for (at, byte) in &changes {
                let length = times.len();
                if let Some(old) = times.get_mut(usize::from(*at) % length.max(1)) {
                    *old = *byte;
                }
            }
            let task = SingleTask::new(task, FAMILY, thread as u32).expect("a task");
            let decoder = task.view().decode();
            // Must end without a panic.
            let _ = decoder.with_times(Box::new(times.as_slice())).take(100_000).count();
        }
    }
}
