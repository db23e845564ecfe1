//! Long runs of correct programs: their logs are encoded piece by piece, and are never in memory as a whole.

use super::irregular::{neighbours, pair};
use super::{HANDLES, SEGMENT, Task, Value, received, scatter, stencil_2d};
use refrain_encode::encoder::{Batch, Encoder};
use refrain_format::record::segment;
use refrain_signature::tasktrace::TaskTrace;
use refrain_testing::records::{FAMILY, Log};

/// A rank that is encoded while it is simulated.
struct Run {
    task: Task,
    encoder: Encoder,
}

impl Run {
    fn new(rank: u32, size: u32) -> Run {
        let mut task = Task { rank: rank.into(), size: size.into(), log: Log::default() };
        task.log.handles(&HANDLES);
        task.log.call("MPI_Init", &[Value::Null, Value::Null], &[Value::Null, Value::Null]);
        let memory = task.memory();
        task.log.segment(memory, SEGMENT, segment::HEAP, "");
        let mut run = Run { task, encoder: Encoder::new(FAMILY) };
        run.encode(1);
        run
    }

    /// Encodes what was written since the last time, so often.
    fn encode(&mut self, times: u64) {
        let records = self.task.log.take();
        for _ in 0..times {
            let damage = self.encoder.feed(&[Batch { thread: 0, records: &records }]);
            assert!(damage.is_empty(), "{damage:?}");
        }
    }

    fn finish(mut self) -> TaskTrace {
        self.task.log.call("MPI_Finalize", &[], &[]);
        self.encode(1);
        self.encoder.finish();
        self.encoder.task_trace(0).expect("a task has calls")
    }
}

/// A stencil, `times` times as long as `simulated::stencil_2d`.
pub fn stencil(rank: u32, size: u32, times: u64) -> TaskTrace {
    let mut run = Run::new(rank, size);
    stencil_2d(&mut run.task);
    run.encode(times);
    run.finish()
}

/// A mesh whose neighbours and sizes of messages are others in every step. Now and then, all ranks send to rank 0, which
/// receives from any source.
pub fn mesh(rank: u32, size: u32, steps: u64) -> TaskTrace {
    let mut run = Run::new(rank, size);
    for step in 0..steps {
        let task = &mut run.task;
        let near = neighbours(step, task.rank, task.size);
        let count = |other: i64| 1 + (pair(step, i64::from(rank), other) % 50) as i64;
        task.exchange_of(&near, |_| (5, 5), count);
        if step % 16 == 0 {
            collect(task, step);
        }
        task.allreduce();
        if step % 256 == 0 {
            run.encode(1);
        }
    }
    run.finish()
}

/// MPICH's `MPI_ANY_SOURCE`.
const ANY_SOURCE: i64 = -2;
/// The tag of results.
const RESULT: i64 = 9;

/// Rank 0 receives from all others in any order.
fn collect(task: &mut Task, step: u64) {
    if task.rank != 0 {
        return task.send(200, 0, RESULT);
    }
    let mut senders: Vec<i64> = (1..task.size).collect();
    senders.sort_by_key(|sender| scatter(step, *sender as u64));
    for sender in senders {
        let envelope = task.envelope(201, ANY_SOURCE, RESULT);
        task.log.call("MPI_Recv", &envelope, &[received(sender, RESULT)]);
    }
}
