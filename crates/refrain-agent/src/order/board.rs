//! This rank's part of the board ([`refrain_order::board`]), a file that all ranks map.
//!
//! A rank is where its threads are: it waits if all of those wait that call MPI, and as long as one
//! is in the program's own code, so is the rank.

use refrain_order::board::{CALLS, FUNCTION, SLOT, STATE, Snapshot, TEXT, TOLD, progress};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use super::{files, thread};
use crate::table;

pub use refrain_order::board::State;

/// The board.
pub struct Board {
    words: &'static [AtomicU64],
    rank: usize,
    /// Threads that are in a call, or wait.
    waiting: AtomicU32,
}

static BOARD: OnceLock<Option<Board>> = OnceLock::new();

/// Puts this rank on the board.
pub fn start(rank: usize, size: usize) {
    BOARD.get_or_init(|| {
        let words = files::map(&files::path("board")?, size * SLOT)?;
        (rank < size).then_some(Board { words, rank, waiting: AtomicU32::new(0) })
    });
}

/// The board, if there is one.
pub fn get() -> Option<&'static Board> {
    BOARD.get().and_then(Option::as_ref)
}

/// A thread of this rank is in a call of which nothing was recorded, or waits.
pub struct Inside;

impl Inside {
    /// In a call of that function.
    pub fn of(function: usize) -> Inside {
        if let Some(board) = get() {
            board.own(FUNCTION).store(function as u64, Ordering::Relaxed);
            board.stays(State::Inside);
        }
        Inside
    }

    /// Waits for what the text says.
    pub fn waiting(text: &str) -> Inside {
        if let Some(board) = get() {
            board.tell(text);
            board.stays(State::Waiting);
        }
        Inside
    }
}

impl Drop for Inside {
    fn drop(&mut self) {
        if let Some(board) = get() {
            board.waiting.fetch_sub(1, Ordering::Relaxed);
            board.own(STATE).store(State::Running as u64, Ordering::Release);
        }
    }
}

impl Board {
    fn own(&self, word: usize) -> &AtomicU64 {
        &self.words[self.rank * SLOT + word]
    }

    /// A thread stays where it is: so does the rank, if all threads do.
    fn stays(&self, state: State) {
        let waiting = self.waiting.fetch_add(1, Ordering::Relaxed) + 1;
        if waiting >= thread::count() {
            self.own(STATE).store(state as u64, Ordering::Release);
        }
    }

    /// This rank has got on.
    #[inline]
    pub fn step(&self) {
        let calls = self.own(CALLS);
        calls.store(calls.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
    }

    /// Says what this rank waits for.
    pub fn tell(&self, text: &str) {
        let mut bytes = text.bytes().take((SLOT - TEXT) * 8);
        for word in TEXT..SLOT {
            let mut value = [0; 8];
            value.iter_mut().for_each(|byte| *byte = bytes.next().unwrap_or(0));
            self.own(word).store(u64::from_le_bytes(value), Ordering::Relaxed);
        }
    }

    /// Says how this rank is.
    pub fn say(&self, state: State, text: &str) {
        self.tell(text);
        self.own(STATE).store(state as u64, Ordering::Release);
    }

    /// A number that is another when a rank has made a call, or begins or ends to wait or compute.
    pub fn progress(&self) -> u64 {
        progress(self.words.chunks_exact(SLOT).map(|slot| {
            let calls = slot[CALLS].load(Ordering::Relaxed);
            (State::from_word(slot[STATE].load(Ordering::Acquire)), calls)
        }))
    }

    /// How all ranks are.
    pub fn states(&self) -> impl Iterator<Item = State> + '_ {
        let states = self.words.iter().skip(STATE).step_by(SLOT);
        states.map(|word| State::from_word(word.load(Ordering::Acquire)))
    }

    /// Whether this rank is the first that wants to tell all: once is enough.
    pub fn is_first(&self) -> bool {
        self.words[TOLD].swap(1, Ordering::AcqRel) == 0
    }

    /// A line for each rank.
    pub fn report(&self) -> String {
        let words = self.words.iter().map(|word| word.load(Ordering::Acquire));
        let name = |function: usize| table::NAMES.get(function).copied().unwrap_or_default();
        Snapshot::new(words.collect()).report(|function| name(function).to_owned())
    }
}
