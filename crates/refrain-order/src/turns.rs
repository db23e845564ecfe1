//! Whose turn it is, where threads of a rank share a place in line.
//!
//! Messages to one (destination, tag, communicator) arrive in the order they were sent, and
//! receives on a communicator match in the order they were posted. When two threads do so, that
//! order is the scheduler's choice and has to be kept. The agent gives each such operation a
//! *key* and says, at the moment the operation takes its place in line, whose it was. Keys fall
//! into a fixed number of lines by their hash: keeping more order than necessary is harmless, as
//! the order kept is one that happened, and operations only take their place when it is their
//! turn, they do not complete.
//!
//! A line that only one thread ever used need not be written at the end.

use crate::coding::coder::{Coder, Decoder, Encoder};
use crate::coding::number::Number;
use crate::coding::symbol::{Circumstances, Followers, Symbol, mix};
use crate::error::OrderError;
use crate::frame::{TURNS, put_frame};
use refrain_bytes::varint::{put, take, take_byte};

/// How many lines there are.
const LINES: usize = 1024;
const MOST: u64 = 1 << 18;
const NOBODY: u32 = u32::MAX;
/// A frame has no more runs than this for each of its bytes, so that a short one cannot ask for
/// much memory. Runs that cost less are padded.
const A_BYTE: u64 = 64;

fn line_of(key: u64) -> usize {
    (mix(0, key) >> 20) as usize % LINES
}

/// A thread went so many times in a row.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Run {
    line: u32,
    stream: u32,
    length: u64,
}

#[derive(Clone, Debug, Default)]
struct Model {
    followers: Followers,
    line: Symbol,
    stream: Symbol,
    length: Number,
    last: [u64; 2],
}

impl Model {
    fn code(&mut self, coder: &mut impl Coder, run: Run) -> Run {
        let [line, stream] = self.last;
        let (short, long) = (mix(1, line), mix(mix(1, line), stream));
        let circumstances = Circumstances { long, short: || [short, mix(3, stream)] };
        let line = self.line.code(coder, &mut self.followers, circumstances, run.line);
        let short = mix(2, line.into());
        let long = mix(short, stream);
        let circumstances = Circumstances { long, short: || [short, mix(4, stream)] };
        let stream = self.stream.code(coder, &mut self.followers, circumstances, run.stream);
        let length = self.length.code(coder, run.length);
        self.last = [line.into(), stream.into()];
        Run { line, stream, length }
    }
}

/// Keeps the order of turns.
#[derive(Debug)]
pub struct TurnRecorder {
    /// For each line the open run, and whether the line was ever shared.
    lines: Vec<(Run, bool)>,
    runs: Vec<Run>,
}

impl Default for TurnRecorder {
    fn default() -> Self {
        let unused = Run { stream: NOBODY, ..Run::default() };
        Self { lines: vec![(unused, false); LINES], runs: Vec::new() }
    }
}

impl TurnRecorder {
    /// A thread took its place in the line of that key.
    #[expect(clippy::indexing_slicing, reason = "`line_of` gives less than the length")]
    pub fn took(&mut self, stream: u32, key: u64) {
        let line = line_of(key);
        let (open, shared) = &mut self.lines[line];
        if open.stream != stream {
            *shared |= open.stream != NOBODY;
            if open.length > 0 {
                self.runs.push(*open);
                open.length = 0;
            }
        }
        *open = Run { line: line as u32, stream, length: open.length + 1 };
    }

    /// How much waits to be written.
    pub fn weight(&self) -> usize {
        self.runs.len()
    }

    /// Appends what is known so far as frames, if there is anything. Lines that one thread alone
    /// has used matter too: in a record that is cut short behind this place, another thread must
    /// not get ahead of what that one did up to here. In the `last` frame they do not.
    pub fn seal(&mut self, last: bool, out: &mut Vec<u8>) {
        let open =
            self.lines.iter_mut().filter(|(run, shared)| run.length > 0 && (*shared || !last));
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
            // Decoders read zeros behind the end anyway.
            body.resize(body.len().max(runs.len() / A_BYTE as usize + 1), 0);
            put_frame(out, &body);
        }
        self.runs.clear();
    }
}

/// Says whose turn it is.
#[derive(Debug, Default)]
pub struct TurnReplayer {
    /// For each line the runs still to come, the next one last.
    lines: Vec<Vec<(u32, u64)>>,
}

/// What a thread at a line is to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turn {
    /// It is its turn.
    Go,
    /// That thread is first: ask again when any turn was taken.
    After(u32),
}

impl TurnReplayer {
    /// From the bodies of a record's frames, those of turns and others.
    pub fn new<'a>(bodies: impl Iterator<Item = &'a [u8]>) -> Result<Self, OrderError> {
        let mut lines: Vec<Vec<(u32, u64)>> = vec![Vec::new(); LINES];
        for mut body in bodies {
            if take_byte(&mut body)? != TURNS {
                continue;
            }
            let length = body.len() as u64;
            let count = take(&mut body)?;
            if count > MOST.min((length + 1).saturating_mul(A_BYTE)) {
                return Err(OrderError::OutOfRange("number of turns"));
            }
            let (mut decoder, mut model) = (Decoder::new(body), Model::default());
            for _ in 0..count {
                let run = model.code(&mut decoder, Run::default());
                let line =
                    lines.get_mut(run.line as usize).ok_or(OrderError::OutOfRange("line"))?;
                line.push((run.stream, run.length));
            }
        }
        for line in &mut lines {
            line.retain(|(_, length)| *length > 0);
            line.reverse();
        }
        Ok(Self { lines })
    }

    /// A thread comes to the line of that key. Behind the end of the record everybody goes.
    pub fn turn(&self, stream: u32, key: u64) -> Turn {
        match self.lines.get(line_of(key)).and_then(|line| line.last()) {
            Some((first, _)) if *first != stream => Turn::After(*first),
            _ => Turn::Go,
        }
    }

    /// Whether several threads are still to come to the line of that key.
    pub fn is_shared(&self, key: u64) -> bool {
        let line = self.lines.get(line_of(key)).map_or(&[][..], |line| &line[..]);
        line.iter().any(|(stream, _)| Some(stream) != line.first().map(|(first, _)| first))
    }

    /// A thread whose turn it was is in its place now: the next one may go.
    pub fn took(&mut self, key: u64) {
        let Some(line) = self.lines.get_mut(line_of(key)) else { return };
        if let Some((_, length)) = line.last_mut() {
            *length = length.saturating_sub(1);
            if *length == 0 {
                line.pop();
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
        fn threads_go_in_the_order_they_went(
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
                // Whoever is not first in its line has to wait.
                for other in 0..3 {
                    let next = taken[n..].iter().find(|(_, k, _)| line_of(*k) == line_of(*key));
                    let shared = taken.iter().any(|(s, k, _)| {
                        line_of(*k) == line_of(*key) && s != stream
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
