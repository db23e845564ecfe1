//! This rank's part of the board ([`refrain_order::board`]), a file that all ranks map.
//!
//! A rank is where its threads are: it waits if all of those wait that call MPI, and as long as one
//! is in the program's own code, so is the rank.

use refrain_order::board::{CALLS, FUNCTION, SLOT, STATE, Snapshot, TEXT, TOLD, progress};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use super::thread::Thread;
use super::{files, thread};
use crate::table;

pub use refrain_order::board::State;

/// The board.
pub struct Board {
    words: &'static [AtomicU64],
    rank: usize,
    /// Waits of all threads: usually one for each thread that waits, more where callbacks wait.
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
///
/// The call may be left by `longjmp`, which drops nothing: [`Board::begin_call`] notices that.
pub struct Inside;

impl Inside {
    /// In a call of that function.
    pub fn of(function: usize) -> Inside {
        if let Some(board) = get() {
            board.own(FUNCTION).store(function as u64, Ordering::Relaxed);
            board.thread_waits(State::Inside);
        }
        Inside
    }

    /// Waits for what the text says.
    pub fn waiting(text: &str) -> Inside {
        if let Some(board) = get() {
            board.tell(text);
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
    fn own(&self, word: usize) -> &AtomicU64 {
        &self.words[self.rank * SLOT + word]
    }

    /// A call of a thread begins, with that stack pointer: the rank has got on. Waits of the thread that
    /// were left by `longjmp` are over.
    #[inline]
    pub fn begin_call(&self, thread: &Thread, stack: usize) {
        let calls = self.own(CALLS);
        calls.store(calls.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
        let abandoned = thread.abandoned_waits(stack);
        if abandoned > 0 {
            self.thread_runs(abandoned);
        }
    }

    /// So many waits of a thread are over.
    fn thread_runs(&self, waits: u32) {
        self.waiting.fetch_sub(waits, Ordering::Relaxed);
        self.own(STATE).store(State::Running as u64, Ordering::Release);
    }

    /// A thread waits: so does the rank, if all threads do.
    fn thread_waits(&self, state: State) {
        thread::this().enter_wait();
        let waiting = self.waiting.fetch_add(1, Ordering::Relaxed) + 1;
        if waiting >= thread::count() {
            self.own(STATE).store(state as u64, Ordering::Release);
        }
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
            let word = |at: usize, order| slot.get(at).map_or(0, |word| word.load(order));
            let calls = word(CALLS, Ordering::Relaxed);
            (State::from_word(word(STATE, Ordering::Acquire)), calls)
        }))
    }

    /// How all ranks are.
    pub fn states(&self) -> impl Iterator<Item = State> + '_ {
        let states = self.words.iter().skip(STATE).step_by(SLOT);
        states.map(|word| State::from_word(word.load(Ordering::Acquire)))
    }

    /// Whether this rank is the first that wants to tell all: once is enough.
    pub fn is_first(&self) -> bool {
        self.words.get(TOLD).is_some_and(|told| told.swap(1, Ordering::AcqRel) == 0)
    }

    /// A line for each rank.
    pub fn report(&self) -> String {
        let words = self.words.iter().map(|word| word.load(Ordering::Acquire));
        let name = |function: usize| table::NAMES.get(function).copied().unwrap_or_default();
        Snapshot::new(words.collect()).report(|function| name(function).to_owned())
    }
}
