//! Turns: the order in which threads of a rank performed competing operations.
//!
//! Messages to one (destination, tag, communicator) arrive in sending order, and receives on a communicator match in
//! posting order. If several threads send or post them, the scheduler decides that order, so it has to be recorded.
//! The agent gives each such operation a *key*, and reports the thread when the operation takes its turn. Keys are
//! hashed to a fixed number of queues. Two keys may share a queue: more order than necessary is enforced then. That
//! is harmless, since this order did happen, and operations are only posted in their turn, not completed.
//!
//! At the end, a queue that only one thread has used need not be written.

use crate::coding::coder::{Coder, Decoder, Encoder};
use crate::coding::number::Number;
use crate::coding::symbol::{Contexts, Followers, Symbol, mix};
use crate::error::OrderError;
use crate::frame::{TURNS, put_frame};
use refrain_bytes::varint::{put, take, take_byte};

/// The number of queues.
const QUEUES: usize = 1024;
const MOST: u64 = 1 << 18;
const NO_THREAD: u32 = u32::MAX;
/// The most runs of a frame per byte, so that a short damaged frame cannot demand much memory. A frame whose runs
/// take less is padded.
const RUNS_PER_BYTE: u64 = 64;

fn queue_of(key: u64) -> usize {
    (mix(0, key) >> 20) as usize % QUEUES
}

/// Consecutive turns of one thread in a queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Run {
    queue: u32,
    stream: u32,
    length: u64,
}

#[derive(Clone, Debug, Default)]
struct Model {
    followers: Followers,
    queue: Symbol,
    stream: Symbol,
    length: Number,
    last: [u64; 2],
}

impl Model {
    fn code(&mut self, coder: &mut impl Coder, run: Run) -> Run {
        let [queue, stream] = self.last;
        let (short, long) = (mix(1, queue), mix(mix(1, queue), stream));
        let contexts = Contexts { long, short: || [short, mix(3, stream)] };
        let queue = self.queue.code(coder, &mut self.followers, contexts, run.queue);
        let short = mix(2, queue.into());
        let long = mix(short, stream);
        let contexts = Contexts { long, short: || [short, mix(4, stream)] };
        let stream = self.stream.code(coder, &mut self.followers, contexts, run.stream);
        let length = self.length.code(coder, run.length);
        self.last = [queue.into(), stream.into()];
        Run { queue, stream, length }
    }
}

/// Records turns.
#[derive(Debug)]
pub struct TurnRecorder {
    /// For each queue, the open run, and whether several threads have used the queue.
    queues: Vec<(Run, bool)>,
    runs: Vec<Run>,
}

impl Default for TurnRecorder {
    fn default() -> Self {
        let unused = Run { stream: NO_THREAD, ..Run::default() };
        Self { queues: vec![(unused, false); QUEUES], runs: Vec::new() }
    }
}

impl TurnRecorder {
    /// A thread took its turn in the queue of a key.
    #[expect(clippy::indexing_slicing, reason = "`queue_of` gives less than the length")]
    pub fn took(&mut self, stream: u32, key: u64) {
        let queue = queue_of(key);
        let (open, shared) = &mut self.queues[queue];
        if open.stream != stream {
            *shared |= open.stream != NO_THREAD;
            if open.length > 0 {
                self.runs.push(*open);
                open.length = 0;
            }
        }
        *open = Run { queue: queue as u32, stream, length: open.length + 1 };
    }

    /// The number of runs that are not written yet.
    pub fn weight(&self) -> usize {
        self.runs.len()
    }

    /// Appends the runs so far as frames, if there are any. Queues that only one thread has used are written too,
    /// except in the `last` frame: if the record is truncated after this point, another thread must not go before
    /// the turns that were taken up to here.
    pub fn seal(&mut self, last: bool, out: &mut Vec<u8>) {
        let open =
            self.queues.iter_mut().filter(|(run, shared)| run.length > 0 && (*shared || !last));
        for (run, _) in open {
            self.runs.push(*run);
            run.length = 0;
        }
        for runs in self.runs.chunks(MOST as usize) {
            let mut encoder = Encoder::default();
            let mut model = Model::default();
            runs.iter().for_each(|run| {
                model.code(&mut encoder, *run);
            });
            let mut body = vec![TURNS];
            put(&mut body, runs.len() as u64);
            body.extend_from_slice(&encoder.finish());
            // Decoders read zeros after the end anyway.
            body.resize(body.len().max(runs.len() / RUNS_PER_BYTE as usize + 1), 0);
            put_frame(out, &body);
        }
        self.runs.clear();
    }
}

/// Decides whose turn it is in a replay.
#[derive(Debug, Default)]
pub struct TurnReplayer {
    /// For each queue, the remaining runs in reverse order.
    queues: Vec<Vec<(u32, u64)>>,
}

/// Whether a thread may perform its operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turn {
    /// It is the thread's turn.
    Go,
    /// It is the turn of this thread: ask again after a turn was taken.
    After(u32),
}

impl TurnReplayer {
    /// From the bodies of a record's frames; those without turns are skipped.
    pub fn new<'a>(bodies: impl Iterator<Item = &'a [u8]>) -> Result<Self, OrderError> {
        let mut queues: Vec<Vec<(u32, u64)>> = vec![Vec::new(); QUEUES];
        for mut body in bodies {
            if take_byte(&mut body)? != TURNS {
                continue;
            }
            let length = body.len() as u64;
            let count = take(&mut body)?;
            if count > MOST.min((length + 1).saturating_mul(RUNS_PER_BYTE)) {
                return Err(OrderError::OutOfRange("number of turns"));
            }
            let (mut decoder, mut model) = (Decoder::new(body), Model::default());
            for _ in 0..count {
                let run = model.code(&mut decoder, Run::default());
                let queue = queues
                    .get_mut(run.queue as usize)
                    .ok_or(OrderError::OutOfRange("turn queue"))?;
                queue.push((run.stream, run.length));
            }
        }
        for queue in &mut queues {
            queue.retain(|(_, length)| *length > 0);
            queue.reverse();
        }
        Ok(Self { queues })
    }

    /// Whether it is a thread's turn in the queue of a key. After the end of the record every thread may go.
    pub fn turn(&self, stream: u32, key: u64) -> Turn {
        match self.queues.get(queue_of(key)).and_then(|queue| queue.last()) {
            Some((first, _)) if *first != stream => Turn::After(*first),
            _ => Turn::Go,
        }
    }

    /// Whether several threads have turns left in the queue of a key.
    pub fn is_shared(&self, key: u64) -> bool {
        let queue = self.queues.get(queue_of(key)).map_or(&[][..], |queue| &queue[..]);
        queue.iter().any(|(stream, _)| Some(stream) != queue.first().map(|(first, _)| first))
    }

    /// The thread whose turn it was has performed its operation: the next turn begins.
    pub fn took(&mut self, key: u64) {
        let Some(queue) = self.queues.get_mut(queue_of(key)) else { return };
        if let Some((_, length)) = queue.last_mut() {
            *length = length.saturating_sub(1);
            if *length == 0 {
                queue.pop();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame::take_frame;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn threads_take_turns_in_the_recorded_order(
            taken in prop::collection::vec((0u32..3, 0u64..5, 0u8..10), 0..200)) {
            let mut recorder = TurnRecorder::default();
            let mut bytes = Vec::new();
            for (stream, key, seal) in &taken {
                recorder.took(*stream, *key);
                if *seal == 0 {
                    recorder.seal(false, &mut bytes);
                }
            }
            recorder.seal(true, &mut bytes);
            let mut input = &bytes[..];
            let bodies: Vec<&[u8]> = std::iter::from_fn(|| take_frame(&mut input).ok()).collect();
            let mut replayer = TurnReplayer::new(bodies.into_iter()).unwrap();
            for (n, (stream, key, _)) in taken.iter().enumerate() {
                // A thread that is not first in its queue has to wait.
                for other in 0..3 {
                    let next = taken[n..].iter().find(|(_, k, _)| queue_of(*k) == queue_of(*key));
                    let shared = taken.iter().any(|(s, k, _)| {
                        queue_of(*k) == queue_of(*key) && s != stream
                    });
                    if shared && next.is_some_and(|(s, _, _)| *s != other) {
                        prop_assert!(replayer.turn(other, *key) != Turn::Go);
                    }
                }
                prop_assert_eq!(replayer.turn(*stream, *key), Turn::Go);
                replayer.took(*key);
            }
        }
    }
}
