//! The board: where the ranks of a replay say how far they are, and what they wait for.
//!
//! A file that all ranks map, with a slot for each. So a rank that waits too long knows whether
//! anybody still gets on, and can tell what everybody else waits for, without a message and
//! without a thread.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use super::files;
use crate::table;

/// Words of a slot: state, calls made, whether this rank was the first to give up, the function it is
/// in, and a text.
const SLOT: usize = 32;
const TOLD: usize = 2;
const FUNCTION: usize = 3;
const TEXT: usize = 4;

/// How a rank is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u64)]
pub enum State {
    /// In the program's own code, or only just in a call.
    Running = 0,
    /// Waits for something that was recorded.
    Waiting = 1,
    /// Where its record ends.
    AtEnd = 2,
    /// In MPI_Finalize.
    Finalizing = 3,
    /// Waits for a debugger.
    Held = 4,
    /// In a call of which nothing was recorded, which may wait for other ranks.
    Inside = 5,
}

impl State {
    fn from(word: u64) -> State {
        match word {
            1 => State::Waiting,
            2 => State::AtEnd,
            3 => State::Finalizing,
            4 => State::Held,
            5 => State::Inside,
            _ => State::Running,
        }
    }
}

/// The board.
pub struct Board {
    words: &'static [AtomicU64],
    rank: usize,
}

static BOARD: OnceLock<Option<Board>> = OnceLock::new();

/// Puts this rank on the board.
pub fn start(rank: usize, size: usize) {
    BOARD.get_or_init(|| {
        let words = files::map(&files::path("board")?, size * SLOT)?;
        (rank < size).then_some(Board { words, rank })
    });
}

/// The board, if there is one.
pub fn get() -> Option<&'static Board> {
    BOARD.get().and_then(Option::as_ref)
}

/// This rank is in a call of which nothing was recorded.
pub struct Inside;

impl Inside {
    /// In a call of that function.
    pub fn of(function: usize) -> Inside {
        if let Some(board) = get() {
            board.own(FUNCTION).store(function as u64, Ordering::Relaxed);
            board.own(0).store(State::Inside as u64, Ordering::Release);
        }
        Inside
    }
}

impl Drop for Inside {
    fn drop(&mut self) {
        if let Some(board) = get() {
            board.own(0).store(State::Running as u64, Ordering::Release);
        }
    }
}

impl Board {
    fn own(&self, word: usize) -> &AtomicU64 {
        &self.words[self.rank * SLOT + word]
    }

    /// This rank has got on.
    #[inline]
    pub fn step(&self) {
        let calls = self.own(1);
        calls.store(calls.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
    }

    /// Says how this rank is.
    pub fn say(&self, state: State, text: &str) {
        let mut bytes = text.bytes().take((SLOT - TEXT) * 8);
        for word in TEXT..SLOT {
            let mut value = [0; 8];
            value.iter_mut().for_each(|byte| *byte = bytes.next().unwrap_or(0));
            self.own(word).store(u64::from_le_bytes(value), Ordering::Relaxed);
        }
        self.own(0).store(state as u64, Ordering::Release);
    }

    /// A number that is another when a rank has made a call, or begins or ends to wait or compute.
    pub fn progress(&self) -> u64 {
        let mix = |sum: u64, slot: &[AtomicU64]| {
            let calls = slot[1].load(Ordering::Relaxed);
            let state = slot[0].load(Ordering::Acquire);
            (sum ^ calls << 3 ^ state).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29)
        };
        self.words.chunks_exact(SLOT).fold(0, mix)
    }

    /// How all ranks are.
    pub fn states(&self) -> impl Iterator<Item = State> + '_ {
        self.words.iter().step_by(SLOT).map(|word| State::from(word.load(Ordering::Acquire)))
    }

    /// Whether this rank is the first that wants to tell all: once is enough.
    pub fn is_first(&self) -> bool {
        self.words[TOLD].swap(1, Ordering::AcqRel) == 0
    }

    /// A line for each rank.
    pub fn report(&self) -> String {
        let mut report = String::new();
        for (rank, slot) in self.words.chunks(SLOT).enumerate() {
            let bytes = slot[TEXT..].iter().flat_map(|w| w.load(Ordering::Relaxed).to_le_bytes());
            let text: Vec<u8> = bytes.take_while(|byte| *byte != 0).collect();
            let text = String::from_utf8_lossy(&text);
            let calls = slot[1].load(Ordering::Relaxed);
            let what = match State::from(slot[0].load(Ordering::Acquire)) {
                State::Running => "is in the program's own code".to_owned(),
                State::Inside => {
                    let function = slot[FUNCTION].load(Ordering::Relaxed) as usize;
                    format!("is in {}", table::NAMES.get(function).copied().unwrap_or_default())
                }
                State::Waiting => format!("waits: {text}"),
                State::AtEnd => format!("is where its record ends: {text}"),
                State::Finalizing => "is in MPI_Finalize".to_owned(),
                State::Held => format!("is held for a debugger: {text}"),
            };
            report += &format!("\n  rank {rank} {what} (after {calls} calls)");
        }
        report
    }
}
