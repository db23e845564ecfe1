//! This rank's slot of the board ([`refrain_order::board`]), a file that all ranks map.
//!
//! A rank waits if all of its threads that call MPI wait. As long as one of them runs the program's code, the
//! rank is running.

use refrain_order::board::{CALLS, FUNCTION, REPORTED, SLOT, STATE, Snapshot, TEXT, progress};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use super::thread::Thread;
use super::{files, thread};
use crate::table;

pub use refrain_order::board::State;

/// The mapped board, and this rank.
pub struct Board {
    words: &'static [AtomicU64],
    rank: usize,
    /// The number of waits of all threads. A thread has more than one if a callback waits inside a wait.
    waiting: AtomicU32,
}

static BOARD: OnceLock<Option<Board>> = OnceLock::new();

/// Maps the board.
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

/// While this exists, the board shows that a thread is inside a call that is not recorded, or waits.
///
/// `longjmp` may leave the call without dropping this; [`Board::begin_call`] notices that.
pub struct Inside;

impl Inside {
    /// The thread is inside a call of this function.
    pub fn of(function: usize) -> Inside {
        if let Some(board) = get() {
            board.word(FUNCTION).store(function as u64, Ordering::Relaxed);
            board.thread_waits(State::Inside);
        }
        Inside
    }

    /// The thread waits; the text says for what.
    pub fn waiting(text: &str) -> Inside {
        if let Some(board) = get() {
            board.set_text(text);
            board.thread_waits(State::Waiting);
        }
        Inside
    }
}

impl Drop for Inside {
    fn drop(&mut self) {
        if let Some(board) = get() {
            board.thread_runs(thread::this().leave_wait());
        }
    }
}

impl Board {
    #[expect(
        clippy::indexing_slicing,
        reason = "`start` has compared the rank with the size; words of a slot are constants"
    )]
    fn word(&self, word: usize) -> &AtomicU64 {
        &self.words[self.rank * SLOT + word]
    }

    /// Counts a call of a thread, with this stack pointer, as progress of the rank. Removes waits of the thread
    /// that were left by `longjmp`.
    #[inline]
    pub fn begin_call(&self, thread: &Thread, stack: usize) {
        let calls = self.word(CALLS);
        calls.store(calls.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
        let abandoned = thread.abandoned_waits(stack);
        if abandoned > 0 {
            self.thread_runs(abandoned);
        }
    }

    /// This many waits of a thread have ended.
    fn thread_runs(&self, waits: u32) {
        self.waiting.fetch_sub(waits, Ordering::Relaxed);
        self.word(STATE).store(State::Running as u64, Ordering::Release);
    }

    /// A thread waits. If all threads wait, the rank gets this state.
    fn thread_waits(&self, state: State) {
        thread::this().enter_wait();
        let waiting = self.waiting.fetch_add(1, Ordering::Relaxed) + 1;
        if waiting >= thread::count() {
            self.word(STATE).store(state as u64, Ordering::Release);
        }
    }

    /// Sets the text that says what this rank waits for.
    pub fn set_text(&self, text: &str) {
        let mut bytes = text.bytes().take((SLOT - TEXT) * 8);
        for word in TEXT..SLOT {
            let mut value = [0; 8];
            value.iter_mut().for_each(|byte| *byte = bytes.next().unwrap_or(0));
            self.word(word).store(u64::from_le_bytes(value), Ordering::Relaxed);
        }
    }

    /// Sets the state and the text of this rank.
    pub fn set_state(&self, state: State, text: &str) {
        self.set_text(text);
        self.word(STATE).store(state as u64, Ordering::Release);
    }

    /// A number that changes whenever a rank makes a call or changes its state.
    pub fn progress(&self) -> u64 {
        progress(self.words.chunks_exact(SLOT).map(|slot| {
            let word = |at: usize, order| slot.get(at).map_or(0, |word| word.load(order));
            let calls = word(CALLS, Ordering::Relaxed);
            (State::from_word(word(STATE, Ordering::Acquire)), calls)
        }))
    }

    /// The states of all ranks.
    pub fn states(&self) -> impl Iterator<Item = State> + '_ {
        let states = self.words.iter().skip(STATE).step_by(SLOT);
        states.map(|word| State::from_word(word.load(Ordering::Acquire)))
    }

    /// Whether this rank is the first that asks; the first rank prints the report of all ranks.
    pub fn is_first(&self) -> bool {
        self.words.get(REPORTED).is_some_and(|reported| reported.swap(1, Ordering::AcqRel) == 0)
    }

    /// A line for each rank.
    pub fn report(&self) -> String {
        let words = self.words.iter().map(|word| word.load(Ordering::Acquire));
        let name = |function: usize| table::NAMES.get(function).copied().unwrap_or_default();
        Snapshot::new(words.collect()).report(|function| name(function).to_owned())
    }
}
